"""L = (domain, law, walls): the part of a problem that is hard, and that a solver prepares once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from beno.geometry.base import Geometry
from beno.geometry.grid import Domain
from beno.problems.law import Darcy, Law, Poisson
from beno.problems.right_hand_side import RightHandSide
from beno.problems.values import FieldLike, Rows, SameRows, alike, is_tensor, rows_of, sizes, values_of
from beno.problems.walls import Kind, Walls, require_known
from beno.support.errors import BenoError

# How far, relative to the flows involved, a problem that fixes u only up to a constant may be out of balance.
BALANCE_TOLERANCE, LEAST_PRECISE_BALANCE = {"float64": 1e-8, "float32": 1e-4}, 1e-2


@dataclass(frozen=True, eq=False)
class Elliptic:
    """The operator L: a domain, the law inside it, and what its walls do."""

    domain: Geometry
    law: Law
    walls: Walls

    def __post_init__(self) -> None:
        if len(self.walls) != len(self.domain.panels):
            raise BenoError(
                f"the walls are of {len(self.walls)} panels; the domain has {len(self.domain.panels)} of them"
            )
        self.law.require_fit(self.domain)

    @cached_property
    def leaves_constant_free(self) -> bool:
        """Whether u is fixed only up to a constant, as with Neumann walls alone."""
        return self.walls.leave_constant_free and not self.law.fixes_constant()

    @property
    def grid(self) -> Domain:
        """The domain, for those who need cells."""
        if not isinstance(self.domain, Domain):
            raise BenoError(f"this solver needs a domain of cells, not {self.domain!r}")
        return self.domain

    def right(self, f: FieldLike = 0.0, g: FieldLike = 0.0) -> RightHandSide:
        """A right-hand side from functions of (x, y), arrays over points and panels, or numbers.

        Arrays may be stacks of k rows; tensors stay tensors.
        """
        at_points = rows_of("f", f, self.domain.points, "points")
        at_panels = rows_of("g", g, self.domain.panels.centres, "panels")
        return RightHandSide(*alike(at_points, at_panels))

    def flows(self, right: RightHandSide) -> tuple[Rows, Rows, Rows]:
        """What f puts in, what g lets out if all walls are Neumann's, and the size of both, row by row."""
        cell = self.grid.spacing**2
        f, g, weight = right.f, right.g, self.law.at_panels(self.domain) * self.domain.panels.lengths
        flow = g * (g.new_tensor(weight) if is_tensor(g) else weight)
        size = sizes(f).sum(-1) * cell + sizes(flow).sum(-1)
        return f.sum(-1) * cell, flow.sum(-1), size

    def require_solvable(self, right: RightHandSide, tolerance: float | None = None) -> None:
        """Refuse a right-hand side for which there is no solution; how far off it may be follows from its precision."""
        if not self.leaves_constant_free or not isinstance(self.domain, Domain):
            return
        put_in, out, size = self.flows(right if is_tensor(right.f) else right.of_size_one()[0])
        tolerance = tolerance or BALANCE_TOLERANCE.get(str(right.f.dtype).removeprefix("torch."), LEAST_PRECISE_BALANCE)
        off = sizes(put_in - out) > tolerance * size
        if off.any():
            row = int(np.argmax(off.tolist()))
            put_in, out, _ = self.flows(right)
            total, flux = ((one[row] if right.is_stack else one).item() for one in (put_in, out))
            raise BenoError(
                f"a pure Neumann problem needs the integral of f ({total:.6g}) to equal the flux "
                f"of g ({flux:.6g}); they differ by {total - flux:.3g}{f' in row {row}' if right.is_stack else ''} "
                "(balanced() mends it, or balanced = true in a problem file)"
            )

    def balanced(self, right: RightHandSide) -> RightHandSide:
        """The same with a constant added to f, so that there is a solution where walls leave a constant free."""
        if not self.leaves_constant_free:
            return right
        put_in, out, _ = self.flows(right)
        spare = (put_in - out) / self.grid.area
        return RightHandSide(right.f - (spare[..., None] if right.is_stack else spare), right.g)

    def without_constant(self, u: SameRows) -> SameRows:
        """u of zero mean where the constant is free; u as it is elsewhere."""
        return u - u.mean(-1)[..., None] if self.leaves_constant_free else u  # type: ignore[return-value]


def poisson_operator(domain: Geometry, kind: Kind | np.ndarray = Kind.DIRICHLET, alpha: FieldLike = 0.0) -> Elliptic:
    """The operator of Poisson's equation, with one kind of wall or one for each panel."""
    return Elliptic(domain, Poisson(), walls_of(domain, kind, alpha))


def darcy_operator(
    domain: Domain,
    kappa: FieldLike,
    kind: Kind | np.ndarray = Kind.DIRICHLET,
    alpha: FieldLike = 0.0,
    kappa_at_panels: np.ndarray | None = None,
) -> Elliptic:
    """Where kappa is an array over the points its values at the walls are extrapolated, unless given."""
    coefficient = values_of("kappa", kappa, domain.points, "points")
    if kappa_at_panels is not None:
        at_panels = values_of("kappa", kappa_at_panels, domain.panels.centres, "panels")
    elif not callable(kappa) and np.ndim(kappa):
        at_panels = _extrapolated_to_walls(domain, coefficient)
    else:
        at_panels = values_of("kappa", kappa, domain.panels.centres, "panels")
    return Elliptic(domain, Darcy(coefficient, at_panels), walls_of(domain, kind, alpha))


def walls_of(domain: Geometry, kind: Kind | np.ndarray, alpha: FieldLike) -> Walls:
    """From one kind for all panels or one for each; alpha counts where the kind has one."""
    centres = domain.panels.centres
    if isinstance(kind, Kind):
        kinds = np.full(len(centres), kind, dtype=np.int8)
    else:
        given = values_of("kind", np.asarray(kind), centres, "panels")
        require_known(given)
        kinds = given.astype(np.int8)
    has_alpha = np.isin(kinds, [kind for kind in Kind if kind.has_alpha])
    return Walls(kinds, np.where(has_alpha, values_of("alpha", alpha, centres, "panels"), 0.0))


def _extrapolated_to_walls(domain: Domain, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " p"]:
    """Half a cell outward along the logarithm, which keeps positive values positive."""
    panels = domain.panels
    behind = domain.neighbours[panels.cell, panels.direction ^ 1]  # the neighbour away from the wall
    here = values[panels.cell]
    with np.errstate(divide="ignore", invalid="ignore"):
        extrapolated = here * np.sqrt(here / values[behind])
    return np.where(behind >= 0, extrapolated, here)
