"""What a point sees of a panel: offsets, directions, and the kernels of a straight wall."""

import math
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from beno.nn.half_plane import ROWS, dirichlet_correction, neumann_correction
from beno.problems.walls import Kind

FEATURES = 16
REACH = 3.0  # how far out a corner is felt, in lengths of the wall beyond it
LARGEST_GAIN = 4.0  # by which a corner may change the log of a measure
GRAZING = 1e-5  # the smallest angle to its own wall, about a corner, at which a panel's kernel is told apart
SMALLEST_ANGLE = 0.03  # to a wedge's other side, beyond which a panel is not quite out of sight
FLUX_REACH = 0.35  # in units of the domain, as far as the potential of a flux knows of one corner alone
TINY = 1e-9
NEAREST = 1e-2  # in lengths of the panel: closer than this a point stands on it


@dataclass(eq=False)
class View:
    """What each place a sees of each panel b. Lengths are in units of the domain."""

    features: Float[Tensor, "s a b 16"]
    log_measure: Float[Tensor, "s a b"]  # what a panel of a straight wall between its two corners has, about
    distance: Float[Tensor, "..."]
    flux: Float[
        Tensor, "..."
    ]  # the potential of a unit flux through a panel of a straight wall; empty if not asked for
    corner_flux: Float[Tensor, "..."]  # what either corner adds to it


def view(
    places: Float[Tensor, "s a 2"],
    centres: Float[Tensor, "s b 2"],
    normals: Float[Tensor, "s b 2"],
    lengths: Float[Tensor, "s b"],
    ends: Float[Tensor, "s b 8"],
    is_flux: Bool[Tensor, "s b"],
    with_flux: bool = True,
) -> View:
    """Everything is measured in units of the domain. Places closer to a panel's own wall than the grazing angle,
    seen from its ends, are taken to be that far from it. ``is_flux`` tells the Neumann panels."""
    length = lengths[:, None, :]
    # Plain products: matrix products may round to half precision, and nearby panels differ by little.
    x = centres[:, None, :, 0] - places[:, :, None, 0]
    y = centres[:, None, :, 1] - places[:, :, None, 1]
    normal_x, normal_y = normals[:, None, :, 0], normals[:, None, :, 1]
    away, along = x * normal_x + y * normal_y, y * normal_x - x * normal_y
    distance = torch.sqrt(x * x + y * y).clamp(min=NEAREST * length)

    in_front = away > 0
    seen_from = torch.where(in_front, away.clamp(min=NEAREST * length), length / 2)
    square = seen_from.square() + along.square()
    log_angle = torch.log(torch.atan2(length * seen_from, square - length.square() / 4) / math.pi)
    straight = log_angle + _looked_up(Kind.DIRICHLET, away / length, along / length)

    to_end, beside, angle, sign = (ends.movedim(-1, 0)[first : first + 2, :, None, :] for first in (0, 2, 4, 6))
    to_corner = to_end + torch.stack([-along, along])
    own = torch.where(is_flux, 1.0, -1.0)[None, :, None, :]
    wedge = _Wedge(away, to_corner, to_end, angle, own * sign < 0)
    # Farther out than a few times the length of the wall beyond it, a corner is not felt.
    strength = torch.rsqrt(1 + (away / (REACH * beside).clamp(min=TINY)).clamp(max=1e4).pow(4)) * (beside > 0)
    flux = wedge.flux_gain(distance, strength)
    gain = (wedge.log_measure - torch.log(seen_from / square)).clamp(min=-LARGEST_GAIN, max=LARGEST_GAIN)
    # Behind a panel its angle says nothing. What it sees there it sees around a corner that is more than straight.
    around = torch.where(angle > math.pi, torch.log(length / math.pi) + wedge.log_measure, straight - LARGEST_GAIN)
    behind = torch.logaddexp(around[0], around[1])
    log_measure = torch.where(in_front, straight + (strength * gain).sum(dim=0), behind)
    features = torch.stack(
        [
            2 * away,
            2 * along,
            2 * distance,
            torch.log(distance) / 2,
            straight / 4,
            log_measure / 4,
            away / distance,
            along / distance,
            in_front.to(away.dtype),
            *strength * gain / 2,
            *to_corner.clamp(min=-1, max=1),
            strength.sum(dim=0),
            *flux.clamp(min=-1, max=1),
        ],
        dim=-1,
    )
    kernel = _flux_kernel(away / length, along / length, length) if with_flux else away.new_empty(0)
    return View(features, log_measure, distance, kernel, flux)


def _flux_kernel(
    away: Float[Tensor, "s a b"], along: Float[Tensor, "s a b"], length: Float[Tensor, "s 1 b"]
) -> Float[Tensor, "s a b"]:
    """The mean of -log r / pi over a panel, and what the grid adds to it; offsets in lengths of the panel."""
    off = away.abs().clamp(min=NEAREST)

    def primitive(end: Tensor) -> Tensor:
        return 0.5 * end * torch.log(end.square() + off.square()) - end + off * torch.atan(end / off)

    smooth = -(primitive(along + 0.5) - primitive(along - 0.5) + torch.log(length)) / math.pi
    return smooth + _looked_up(Kind.NEUMANN, away, along)


class _Wedge:
    """What a panel of a wedge has, seen from anywhere in it: ``z ** (pi / angle)`` makes a half-plane of the wedge.

    The panel lies ``s`` from the wedge's corner; a place has the polar coordinates rho and theta about the
    corner, from the panel's side. Where the two sides are of different kinds, the wedge mirrored in one is taken.
    """

    def __init__(
        self,
        away: Float[Tensor, "s a b"],
        to_corner: Float[Tensor, "2 s a b"],
        s: Float[Tensor, "2 s 1 b"],
        angle: Float[Tensor, "2 s 1 b"],
        unlike: Bool[Tensor, "2 s 1 b"],
    ) -> None:
        log_rho = 0.5 * torch.log((to_corner.square() + away.square()).clamp(min=TINY))
        theta = torch.atan2(away.expand_as(to_corner), to_corner)
        theta = torch.where(theta < 0, theta + 2 * math.pi, theta)
        power = math.pi / angle
        slope = torch.where(unlike, power / 2, power)
        log_s = torch.log(s)
        turned = (slope * theta).clamp(min=GRAZING, max=math.pi - SMALLEST_ANGLE)
        near, far = self._squares(slope, log_rho, log_s, turned)
        weight = 1 / near + unlike / far
        self.log_measure = (
            torch.log(slope) + (slope - 1) * log_s + slope * log_rho + torch.log(torch.sin(turned) * weight)
        )
        self._unlike, self._power, self._slope = unlike, power, slope
        self._log_rho, self._log_s, self._theta = log_rho, log_s, theta

    def flux_gain(self, distance: Float[Tensor, "s a b"], strength: Float[Tensor, "2 s a b"]) -> Tensor:
        """What a corner adds to the potential of a flux through a panel of a straight wall.

        That is minus the log of the distance between the powers. Between walls of one kind it has no bounds far
        away, where other walls come in; there it is let go. Where u is given on the other side, a mirror image
        is taken off and it has.
        """
        near, far = self._squares(
            self._slope, self._log_rho, self._log_s, (self._slope * self._theta).clamp(max=math.pi)
        )
        log_near, log_distance = torch.log(near), torch.log(distance)
        spread = log_near - 2 * log_distance + (2 - 2 * self._power) * math.log(FLUX_REACH)
        convex = self._power > 1
        like = torch.where(convex, functional.softplus(-spread), -functional.softplus(spread)) * (strength > 0)
        unlike = strength * (torch.log(far) - log_near + 2 * log_distance)
        return torch.where(self._unlike, unlike, like) / (2 * math.pi)

    @staticmethod
    def _squares(power: Tensor, log_rho: Tensor, log_s: Tensor, turned: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances between the powers of place and panel, and of place and mirrored panel."""
        rho, s = torch.exp(power * log_rho), torch.exp(power * log_s)
        half = turned / 2
        near = (rho - s).square() + 4 * rho * s * torch.sin(half).square()
        far = (rho - s).square() + 4 * rho * s * torch.cos(half).square()
        return near.clamp(min=TINY), far.clamp(min=TINY)


def _looked_up(kind: Kind, away: Float[Tensor, "*pairs"], along: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
    """What the grid adds to a kernel, between the places where it is known; nothing far away and behind."""
    values = table(kind, away.device)
    row, column = (away - 0.5).clamp(0, ROWS - 1), along.abs().clamp(max=ROWS)
    top, left = row.floor().clamp(max=ROWS - 2), column.floor().clamp(max=ROWS - 1)
    down, right = row - top, column - left
    at = (top * (ROWS + 1) + left).long()
    upper = torch.lerp(values[at], values[at + 1], right)
    lower = torch.lerp(values[at + ROWS + 1], values[at + ROWS + 2], right)
    return torch.where(_near(away, along), torch.lerp(upper, lower, down), 0.0)


def _near(away: Float[Tensor, "*pairs"], along: Float[Tensor, "*pairs"]) -> Bool[Tensor, "*pairs"]:
    return (away > 0) & (away <= ROWS) & (along.abs() <= ROWS)


@cache
def table(kind: Kind, device: torch.device) -> Float[Tensor, " entries"]:
    values = dirichlet_correction() if kind is Kind.DIRICHLET else neumann_correction()
    return torch.as_tensor(values.ravel(), dtype=torch.float32).to(device)
