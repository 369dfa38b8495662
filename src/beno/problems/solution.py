"""What every solver answers with, classical or learned."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from beno.geometry.grid import DIRECTIONS, Domain
from beno.problems.problem import Kind, Problem
from beno.support.errors import BenoError


@dataclass(frozen=True, eq=False)
class Solution:
    problem: Problem
    u: Float[np.ndarray, " n"]  # at the domain's points
    solver: str
    iterations: int = 1

    def at(self, points: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, " m"]:
        """u at any points inside the domain, on a plane through each cell that meets the walls' values.

        >>> from beno.solvers.finite_volumes import solve
        >>> from beno.problems.problem import poisson
        >>> solution = solve(poisson(Domain.square(8), g=lambda x, y: x + 2 * y))
        >>> solution.at(np.array([[0.3, 0.4]])).round(6)
        array([1.1])
        """
        points = np.asarray(points, dtype=float)
        if points.ndim != 2 or points.shape[1] != 2:
            raise BenoError(f"the points have the shape {points.shape}; (m, 2) is needed")
        cells_of(self.problem.domain, points)
        return reconstruct(self.problem.domain, self.u, points, wall_values(self.problem, self.u))


def cells_of(domain: Domain, points: Float[np.ndarray, "m 2"]) -> Int[np.ndarray, " m"]:
    """Which cell each point lies in; a point outside the domain is refused."""
    index = np.floor(np.clip(np.nan_to_num(points, nan=-1.0), -1.0, 2.0) * domain.resolution).astype(int)
    index = np.where(points == 1.0, domain.resolution - 1, index)  # the square's far walls belong to it
    in_box = np.all((index >= 0) & (index < domain.resolution), axis=1)
    cell = np.where(in_box, domain.number[tuple(np.where(in_box[:, np.newaxis], index, 0).T)], -1)
    outside = np.flatnonzero(cell < 0)
    if len(outside):
        x, y = points[outside[0]]
        raise BenoError(f"the point ({x:.4g}, {y:.4g}) is outside the domain")
    return cell


def wall_values(problem: Problem, u: Float[np.ndarray, " n"]) -> Float[np.ndarray, " p"]:
    """u on the panels, half a cell from the points beside them, as each kind of boundary gives it."""
    half = problem.domain.spacing / 2
    inside = u[problem.domain.panels.cell]
    return np.where(problem.kind == Kind.DIRICHLET, problem.g, (inside + half * problem.g) / (1 + half * problem.alpha))


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


def wall_distance_at(domain: Domain, points: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, "m 4"]:
    """Distance from any inside points to the wall that they meet first along each of DIRECTIONS."""
    cell = cells_of(domain, points)
    return domain.wall_distance[cell] - (points - domain.points[cell]) @ DIRECTIONS.T
