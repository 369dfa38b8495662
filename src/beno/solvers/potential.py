"""A particular solution on the box, which turns a source into boundary values.

Any v with ``div(kappa grad v) = f`` in the domain leaves a problem without source for u - v. What v is at the domain's
panels is read off so that this split is exact for the scheme in `solvers.finite_volumes`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from beno.geometry.base import DIRECTIONS
from beno.problems.law import mean_on_face
from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.values import Rows, SameRows
from beno.solvers.base import Prepared, Solver
from beno.solvers.box import Box, box_of, filled


@dataclass(frozen=True, eq=False, repr=False)
class Potential:
    """A particular solution at the points, and its value and outward slope at the panels."""

    at_points: Float[np.ndarray, "*k n"]
    at_panels: Float[np.ndarray, "*k p"]
    slope: Float[np.ndarray, "*k p"]  # outward, at the panels

    def __repr__(self) -> str:
        return f"Potential({self.at_points.shape[-1]} points, {self.at_panels.shape[-1]} panels)"


class SourcePotential:
    """v for any number of sources of one operator: the box is prepared once."""

    def __init__(self, operator: Elliptic, solver: Solver | None = None) -> None:
        self.operator = operator
        self.box: Prepared = (solver or Box()).prepare(box_of(operator))
        self.read_off = ReadOff.of(operator, self.box.operator)

    def __repr__(self) -> str:
        return f"SourcePotential({self.operator!r})"

    def __call__(self, f: Float[np.ndarray, "*k n"]) -> Potential:
        source = filled(self.operator.grid, f).reshape(*f.shape[:-1], -1)
        no_values = np.zeros((*f.shape[:-1], len(self.box.operator.domain.panels)))
        v = np.asarray(self.box(RightHandSide(source, no_values)))
        return Potential(*self.read_off(v))


@dataclass(frozen=True, eq=False, repr=False)
class ReadOff:
    """What a field on the box is at the points of a domain, and at its panels what makes the split exact.

    Through each panel's face flows ``inner v(cell) + outer v(cell beyond)``: to the next cell or through the box.
    """

    points: Rows
    cells: Rows
    beyond: Rows
    inner: Rows
    outer: Rows
    to_value: Rows
    to_slope: Rows

    def __repr__(self) -> str:
        return f"ReadOff({len(self.points)} points, {len(self.cells)} panels)"

    @classmethod
    def of(cls, operator: Elliptic, box: Elliptic) -> "ReadOff":
        domain, n, h = operator.grid, operator.grid.resolution, operator.grid.spacing
        panels, kappa = domain.panels, box.law.at_points(box.domain).reshape(domain.mask.shape)
        cells = domain.cells[panels.cell]
        beyond = cells + DIRECTIONS[panels.direction]
        is_inside_box = ((beyond >= 0) & (beyond < n)).all(axis=1)
        beyond = np.where(is_inside_box[:, None], beyond, cells)
        here, there = kappa[tuple(cells.T)], kappa[tuple(beyond.T)]
        across, at_panels = mean_on_face(here, there), operator.law.at_panels(domain)
        return cls(
            points=domain.cells @ (n, 1),
            cells=cells @ (n, 1),
            beyond=beyond @ (n, 1),
            inner=np.where(is_inside_box, -across, -2 * here),
            outer=np.where(is_inside_box, across, 0.0),
            to_value=1 / (2 * at_panels),
            to_slope=1 / (at_panels * h),
        )

    def __call__(self, v: SameRows) -> tuple[SameRows, SameRows, SameRows]:
        """At the points, at the panels, and the outward slope there. Tensors need a read-off of tensors."""
        inside = v[..., self.cells]
        flow = self.inner * inside + self.outer * v[..., self.beyond]
        return v[..., self.points], inside + flow * self.to_value, flow * self.to_slope  # type: ignore[return-value]
