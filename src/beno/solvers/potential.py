"""A particular solution on the box, which turns a source into boundary values.

Any v with ``div(kappa grad v) = f`` in the domain leaves a problem without source for u - v. What v is at the domain's
panels is read off so that this split is exact for the scheme in `finite_volumes`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from beno.geometry.base import DIRECTIONS
from beno.problems.law import mean_on_face
from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.solvers.base import Prepared, Solver
from beno.solvers.box import Box, box_of, filled


@dataclass(frozen=True, eq=False, repr=False)
class Potential:
    at_points: Float[np.ndarray, "*k n"]
    at_panels: Float[np.ndarray, "*k p"]
    slope: Float[np.ndarray, "*k p"]  # outward, at the panels

    def __repr__(self) -> str:
        return f"Potential({self.at_points.shape[-1]} points, {self.at_panels.shape[-1]} panels)"


class SourcePotential:
    """v for any number of sources of one operator: the box is prepared once."""

    def __init__(self, operator: Elliptic, solver: Solver | None = None) -> None:
        self.operator = operator
        self._box: Prepared = (solver or Box()).prepare(box_of(operator))

    def __repr__(self) -> str:
        return f"SourcePotential({self.operator!r})"

    def __call__(self, f: Float[np.ndarray, "*k n"]) -> Potential:
        box = self._box.operator.grid
        source = filled(self.operator.grid, f)
        flat = source.reshape(*f.shape[:-1], -1)
        no_values = np.zeros((*f.shape[:-1], len(box.panels)))
        v = np.asarray(self._box(RightHandSide(flat, no_values)))
        return self._read_off(v.reshape(source.shape))

    def _read_off(self, v: Float[np.ndarray, "*k N N"]) -> Potential:
        """What v is at the domain's points, and at its panels what makes the split exact."""
        domain, h = self.operator.grid, self.operator.grid.spacing
        panels = domain.panels
        kappa = self._box.operator.law.at_points(self._box.operator.domain).reshape(domain.mask.shape)
        i, j = domain.cells[panels.cell].T
        padded_v, padded_kappa = np.pad(v, [(0, 0)] * (v.ndim - 2) + [(1, 1)] * 2), np.pad(kappa, 1, mode="edge")
        beyond = (i + 1 + DIRECTIONS[panels.direction, 0], j + 1 + DIRECTIONS[panels.direction, 1])
        here, there, v_here = kappa[i, j], padded_kappa[beyond], v[..., i, j]
        on_box = _is_outside_box(beyond, domain.resolution)
        # What flows through the panel's face in the box: to the next cell, or to the box's own wall.
        across = padded_v[..., beyond[0], beyond[1]] - v_here
        flow = np.where(on_box, -2 * here * v_here, mean_on_face(here, there) * across)
        at_panels = self.operator.law.at_panels(domain)
        return Potential(
            at_points=v[..., domain.mask],
            at_panels=v_here + flow / (2 * at_panels),
            slope=flow / (at_panels * h),
        )


def _is_outside_box(padded_index: tuple[np.ndarray, np.ndarray], resolution: int) -> np.ndarray:
    i, j = padded_index
    return (i == 0) | (j == 0) | (i == resolution + 1) | (j == resolution + 1)
