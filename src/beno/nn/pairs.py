"""What a point sees of a panel: offsets, directions, and the kernels of a straight wall."""

import math
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from beno.lattice import ROWS, dirichlet_correction, neumann_correction

FEATURES = 8
NEAREST = 1e-2  # in lengths of the panel: closer than this a point stands on it


@dataclass(eq=False)
class View:
    """Of each panel b from each place a. Lengths of the features are in units of the domain."""

    features: Float[Tensor, "s a b 8"]
    away: Float[Tensor, "s a b"]  # from the panel's line, into the domain, in lengths of the panel; negative behind it
    along: Float[Tensor, "s a b"]
    lengths: Float[Tensor, "s 1 b"]  # of the panels, in units of the domain
    distance: Float[Tensor, "s a b"]  # likewise
    log_measure: Float[Tensor, "s a b"]  # log of the harmonic measure that each panel of a straight wall has

    def flux_kernel(self) -> Float[Tensor, "s a b"]:
        """The potential of a unit flux through a panel of a straight wall."""
        away, along = self.away.abs().clamp(min=NEAREST), self.along

        def primitive(end: Tensor) -> Tensor:
            return 0.5 * end * torch.log(end.square() + away.square()) - end + away * torch.atan(end / away)

        smooth = -(primitive(along + 0.5) - primitive(along - 0.5) + torch.log(self.lengths)) / math.pi
        return smooth + _looked_up("neumann", self.away, along)


def view(
    places: Float[Tensor, "s a 2"],
    centres: Float[Tensor, "s b 2"],
    normals: Float[Tensor, "s b 2"],
    lengths: Float[Tensor, "s b"],
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
    in_panels, along_in_panels = away / length, along / length
    log_measure = log_angle + _looked_up("dirichlet", in_panels, along_in_panels)
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
        ],
        dim=-1,
    )
    return View(features, in_panels, along_in_panels, length, distance, log_measure)


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
