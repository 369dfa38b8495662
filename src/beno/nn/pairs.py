"""What a point sees of a panel: offsets, directions, and the kernels of a straight wall."""

import math
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from beno.lattice import ROWS, dirichlet_correction, neumann_correction

FEATURES = 16
LEAST_LEFT = 0.01  # share of a panel's measure that its image may leave
IMAGE_REACH = 3.0  # how far out an image is felt, in lengths of the wall that it is seen in
TINY = 1e-9
NEAREST = 1e-2  # in lengths of the panel: closer than this a point stands on it


@dataclass(eq=False)
class View:
    """Of each panel b from each place a. Lengths are in units of the domain."""

    features: Float[Tensor, "s a b 16"]
    away: Float[Tensor, "s a b"]  # from the panel's line, into the domain; negative behind it
    along: Float[Tensor, "s a b"]
    lengths: Float[Tensor, "s 1 b"]  # of the panels
    distance: Float[Tensor, "s a b"]
    log_measure: Float[Tensor, "s a b"]  # log of the harmonic measure that each panel of a straight wall has
    image_distance: Float[Tensor, "2 s a b"]  # of the places' images in the walls beside the panel's
    is_mirrored: Bool[Tensor, "2 s 1 b"]  # whether there are such walls

    def flux_kernel(self) -> Float[Tensor, "s a b"]:
        """The potential of a unit flux through a panel of a straight wall."""
        away, along = (self.away.abs() / self.lengths).clamp(min=NEAREST), self.along / self.lengths

        def primitive(end: Tensor) -> Tensor:
            return 0.5 * end * torch.log(end.square() + away.square()) - end + away * torch.atan(end / away)

        smooth = -(primitive(along + 0.5) - primitive(along - 0.5) + torch.log(self.lengths)) / math.pi
        return smooth + _looked_up("neumann", self.away / self.lengths, along)

    def image_flux(self) -> Float[Tensor, "2 s a b"]:
        """The same for the images, in which the panel's length is not seen."""
        return torch.where(self.is_mirrored, -torch.log(self.image_distance) / math.pi, 0.0)


def view(
    places: Float[Tensor, "s a 2"],
    centres: Float[Tensor, "s b 2"],
    normals: Float[Tensor, "s b 2"],
    lengths: Float[Tensor, "s b"],
    mirrors: Float[Tensor, "s b 6"],
) -> View:
    """Everything is measured in units of the domain."""
    length = lengths[:, None, :]
    # Plain products: matrix products may round to half precision, and nearby panels differ by little.
    x = centres[:, None, :, 0] - places[:, :, None, 0]
    y = centres[:, None, :, 1] - places[:, :, None, 1]
    normal_x, normal_y = normals[:, None, :, 0], normals[:, None, :, 1]
    away, along = x * normal_x + y * normal_y, y * normal_x - x * normal_y
    distance = torch.sqrt(x * x + y * y).clamp(min=NEAREST * length)

    # Behind a panel its angle says nothing; the least that a cell in front of it would see is a beginning.
    in_front = away > 0
    seen_from = torch.where(in_front, away.clamp(min=NEAREST * length), length / 2)
    square = seen_from.square() + along.square()
    log_angle = torch.log(torch.atan2(length * seen_from, square - length.square() / 4) / math.pi)
    log_measure = log_angle + _looked_up("dirichlet", away / length, along / length)

    # In a corner the measure of a panel is that of its own wall times 1 - (r / r')**2, with r' the distance
    # of the image in the wall beside it; 1 + (r / r')**2 if that is a Neumann wall. Farther out than a few
    # times the length of that wall, the image fades.
    to_end, beside, sign = (mirrors.movedim(-1, 0)[first : first + 2, :, None, :] for first in (0, 2, 4))
    to_plane = to_end + torch.stack([-along, along])
    image_square = (distance.square() + 4 * to_end * to_plane).clamp(min=NEAREST**2 * length.square())
    reach = (IMAGE_REACH * beside).clamp(min=TINY)
    strength = torch.rsqrt(1 + (away / reach).clamp(max=1e4).pow(4)) * (beside > 0)
    ratio = (distance.square() / image_square).clamp(max=1.0)
    log_left = torch.log((1 + sign * strength * ratio).clamp(min=LEAST_LEFT))
    image_distance = image_square.sqrt()
    features = torch.stack(
        [
            2 * away,
            2 * along,
            2 * distance,
            torch.log(distance) / 2,
            log_measure / 4,
            away / distance,
            along / distance,
            in_front.to(away.dtype),
            *log_left / 2,
            *torch.log(image_distance / distance).clamp(min=-3, max=3) / 2,
            *to_plane.clamp(min=-1, max=1),
            *strength,
        ],
        dim=-1,
    )
    return View(features, away, along, length, distance, log_measure + log_left.sum(dim=0), image_distance, beside > 0)


def _looked_up(kind: str, away: Float[Tensor, "*pairs"], along: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
    """What the grid adds to a kernel, between the places where it is known; nothing far away and behind."""
    table = _table(kind, away.device)
    row, column = (away - 0.5).clamp(0, ROWS - 1), along.abs().clamp(max=ROWS)
    top, left = row.floor().clamp(max=ROWS - 2), column.floor().clamp(max=ROWS - 1)
    down, right = row - top, column - left
    at = (top * (ROWS + 1) + left).long()
    upper = torch.lerp(table[at], table[at + 1], right)
    lower = torch.lerp(table[at + ROWS + 1], table[at + ROWS + 2], right)
    return torch.where(_near(away, along), torch.lerp(upper, lower, down), 0.0)


def _near(away: Float[Tensor, "*pairs"], along: Float[Tensor, "*pairs"]) -> Bool[Tensor, "*pairs"]:
    return (away > 0) & (away <= ROWS) & (along.abs() <= ROWS)


@cache
def _table(kind: str, device: torch.device) -> Float[Tensor, " entries"]:
    values = dirichlet_correction() if kind == "dirichlet" else neumann_correction()
    return torch.as_tensor(values.ravel(), dtype=torch.float32).to(device)
