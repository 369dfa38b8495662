"""The same problem on the grid twice as fine: what stands between the values of an array is read off its neighbours.

A cell falls into four and a panel into two. Values at the points get the slopes of a plane through each cell, values at
panels the slope along the straight wall that they lie in, so that fields that are linear stay exact to second order,
constants stay, and the mean over the parts is the value of the whole. So the integral of f stays, and the flow through
every Neumann panel: a problem in balance remains so. Coefficients and alpha get slopes that are limited (the lesser of
both sides, none at an extreme or beside a jump), which keeps them between their neighbours, positive where those are.
"""

import numpy as np
from jaxtyping import Float, Int

from beno.geometry.grid import Domain
from beno.problems.fields import BY_NAME
from beno.problems.problem import Problem
from beno.problems.walls import Kind


def refined(problem: Problem) -> Problem:
    """On cells of half the size.

    >>> from beno.problems.problem import poisson
    >>> problem = poisson(Domain.square(8), f=lambda x, y: x, g=lambda x, y: x + y)
    >>> finer = refined(problem)
    >>> finer
    Problem(poisson on Domain(16 x 16 cells, 256 inside), Walls(64 dirichlet))
    >>> bool(np.allclose(finer.g, finer.domain.panels.centres.sum(axis=1)))
    True
    """
    return Refinement(problem).problem


class Refinement:
    """Which cell and which panel each of the finer ones is part of, and how far it lies from its centre."""

    def __init__(self, problem: Problem) -> None:
        coarse = problem.domain
        self._coarse, self._walls = coarse, problem.walls
        self.domain = fine = Domain.from_mask(np.kron(coarse.mask, np.ones((2, 2), dtype=bool)))
        self.cell: Int[np.ndarray, " m"] = coarse.number[tuple(fine.cells.T // 2)]
        self.panel: Int[np.ndarray, " q"] = coarse.panel_at[self.cell[fine.panels.cell], fine.panels.direction]
        self._aside = (fine.cells % 2 - 0.5) / 2  # in units of a coarse cell
        normals = coarse.panels.normals[self.panel]
        along = np.stack([-normals[:, 1], normals[:, 0]], axis=1)  # the domain is on the left
        apart = fine.panels.centres - coarse.panels.centres[self.panel]
        self._ahead = (apart * along).sum(axis=1) / coarse.spacing
        self._beside = _beside(problem)
        self._problem = problem

    @property
    def problem(self) -> Problem:
        """The whole problem on the finer grid."""
        given, law = self._problem, self._problem.law
        values = {"f": self.at_points(given.f), "kind": given.walls.kind[self.panel]}
        values["alpha"] = self.at_panels(given.walls.alpha, limited=True)
        for name, of_law in law.values.items():
            refine = self.at_points if BY_NAME[name].on == "points" else self.at_panels
            values[name] = refine(of_law, limited=True)
        g = self.at_panels(given.g)
        if law.is_uniform:
            return Problem.from_values(self.domain, values | {"g": g})
        # Under a Neumann wall it is the flow, kappa g, that has a slope.
        finer = Problem.from_values(self.domain, values | {"g": g})
        flow = self.at_panels(given.g * law.at_panels(self._coarse))
        is_flow = finer.walls.kind == Kind.NEUMANN
        return finer.with_data(g=np.where(is_flow, flow / finer.law.at_panels(self.domain), g))

    def at_points(self, values: Float[np.ndarray, " n"], limited: bool = False) -> Float[np.ndarray, " m"]:
        """At the finer points, on a plane through each cell's value."""
        near = self._coarse.neighbours
        slopes = [_slope(values, near[:, back], near[:, ahead], limited) for back, ahead in ((0, 1), (2, 3))]
        return values[self.cell] + (self._aside * np.stack(slopes, axis=1)[self.cell]).sum(axis=1)

    def at_panels(self, values: Float[np.ndarray, " p"], limited: bool = False) -> Float[np.ndarray, " q"]:
        """At the finer panels, on a line along each wall."""
        slope = _slope(values, self._beside[:, 0], self._beside[:, 1], limited)
        return values[self.panel] + self._ahead * slope[self.panel]


def _slope(
    values: Float[np.ndarray, " n"], back: Int[np.ndarray, " n"], ahead: Int[np.ndarray, " n"], limited: bool
) -> Float[np.ndarray, " n"]:
    """By how much values grow from one place to the next, of which there may be none (-1) on a side or on both."""
    behind = np.where(back >= 0, values - values[back], np.nan)
    before = np.where(ahead >= 0, values[ahead] - values, np.nan)
    if limited:
        behind, before = np.nan_to_num(behind), np.nan_to_num(before)
        return np.where(behind * before > 0, np.sign(behind) * np.minimum(np.abs(behind), np.abs(before)), 0.0)
    one_sided = np.where(np.isnan(behind), np.nan_to_num(before), behind)
    return np.where(np.isnan(behind) | np.isnan(before), one_sided, (behind + before) / 2)


def _beside(problem: Problem) -> Int[np.ndarray, "p 2"]:
    """The panels behind and ahead in the same straight wall of one kind; -1 where it ends."""
    panels, kind = problem.domain.panels, problem.walls.kind
    beside = np.full((len(panels), 2), -1)
    for ring in range(panels.ring.max() + 1):
        here = np.flatnonzero(panels.ring == ring)
        ahead = np.roll(here, -1)
        goes_on = (panels.direction[here] == panels.direction[ahead]) & (kind[here] == kind[ahead])
        beside[here[goes_on], 1], beside[ahead[goes_on], 0] = ahead[goes_on], here[goes_on]
    return beside
