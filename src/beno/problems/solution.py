"""What every solver answers with, classical or learned."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from beno.geometry.grid import Domain
from beno.geometry.location import cells_of
from beno.problems.fields import Values
from beno.problems.problem import Problem
from beno.support.errors import BenoError


@dataclass(frozen=True, repr=False)
class Report:
    """How a problem was solved, and how far off the answer may be. What was not asked for is None.

    >>> Report("direct", seconds=0.0123, bound=2.5e-16)
    Report(direct, 0.0123 s, bound 2.5e-16)
    """

    solver: str = ""
    iterations: int = 1
    seconds: float | None = field(default=None, compare=False)  # two runs that differ in time alone are alike
    residual: float | None = None  # of the scheme's equations, over the size of their right-hand side
    bound: float | None = None  # proven: no value is farther than this from the solution of the scheme
    estimate: float | None = None  # of the relative L2 distance to the equation's solution; nothing proves it
    reason: str = ""  # for the choices that were made, or for a bound that is missing

    def __repr__(self) -> str:
        said = [self.solver] if self.solver else []
        said += [f"{self.iterations} iterations"] if self.iterations != 1 else []
        said += [f"{self.seconds:.3g} s"] if self.seconds is not None else []
        numbers = {"residual": self.residual, "bound": self.bound, "estimate": self.estimate}
        said += [f"{name} {number:.2g}" for name, number in numbers.items() if number is not None]
        said += [f"because {self.reason}"] if self.reason else []
        return f"Report({', '.join(said)})"


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """u at the points of a problem's domain, and how it was found."""

    problem: Problem
    u: Float[np.ndarray, " n"]  # at the domain's points
    report: Report = field(default_factory=Report)

    def __repr__(self) -> str:
        by = f", by {self.report.solver}" if self.report.solver else ""
        return f"Solution(u {self.u.min():.3g} to {self.u.max():.3g}{by}, {self.problem!r})"

    def at(self, points: Float[np.ndarray, "m 2"] | Sequence[Sequence[float]]) -> Float[np.ndarray, " m"]:
        """u at any points inside the domain, on a plane through each cell that meets the walls' values.

        >>> from beno.problems.problem import poisson
        >>> from beno.solvers.direct import Direct
        >>> solution = Direct().solve(poisson(Domain.square(8), g=lambda x, y: x + 2 * y))
        >>> solution.at([[0.3, 0.4]]).round(6)
        array([1.1])
        """
        places = np.asarray(points, dtype=float)
        if places.ndim != 2 or places.shape[1] != 2:
            raise BenoError(f"the points have the shape {places.shape}; (m, 2) is needed")
        return reconstruct(self.problem.domain, self.u, places, wall_values(self.problem, self.u))

    @property
    def values(self) -> Values:
        """All that is not geometry, by the names in `fields`."""
        return {"u": self.u, **self.problem.values}

    @classmethod
    def from_values(cls, domain: Domain, values: Values, report: Report | None = None) -> "Solution":
        """The inverse of `values`, on a domain that they fit."""
        return cls(Problem.from_values(domain, values), values["u"], report or Report())


def wall_values(problem: Problem, u: Float[np.ndarray, " n"]) -> Float[np.ndarray, " p"]:
    """u on the panels, half a cell from the points beside them."""
    domain = problem.domain
    return problem.walls.value_beyond(u[domain.panels.cell], problem.g, domain.spacing / 2)


def reconstruct(
    domain: Domain,
    values: Float[np.ndarray, " n"],
    points: Float[np.ndarray, "m 2"],
    at_walls: Float[np.ndarray, " p"] | None = None,
) -> Float[np.ndarray, " m"]:
    """A plane through each cell's value with the slopes between its neighbours: second order.

    Without values at the walls a cell beside one takes the slope to its other neighbour.
    """
    h, near, panels = domain.spacing, domain.neighbours, domain.panels
    beside = np.where(near >= 0, values[near], values[:, None])
    away = np.where(near >= 0, h, 0.0)
    if at_walls is not None:
        beside[panels.cell, panels.direction] = at_walls
        away[panels.cell, panels.direction] = h / 2
    width = away[:, [0, 2]] + away[:, [1, 3]]
    rise = beside[:, [1, 3]] - beside[:, [0, 2]]
    slope = np.divide(rise, width, out=np.zeros_like(rise), where=width > 0)
    cell = cells_of(domain, points)
    return values[cell] + ((points - domain.points[cell]) * slope[cell]).sum(axis=1)
