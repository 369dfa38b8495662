"""How far the scheme's solution is from the equation's: an estimate from two grids, and the grid for an accuracy.

Where the error falls as h^p the solutions for h and h/2 differ by ``1 - 2^-p`` of the first one's error and by
``2^p - 1`` of the second one's (L. F. Richardson, Phil. Trans. A 210 (1911), doi:10.1098/rsta.1911.0009). Nothing
proves it: p is that of the strongest corner, and data between the points of a grid are not known. `solvers.bound`
proves the other part, how far an answer is from the scheme's solution.

The order p follows from the corners. In one that fills the angle ω the solution has a part that grows as r^λ, with
λ = π/ω where both walls give u or both give its slope, and λ = π/(2ω) where one gives each (P. Grisvard, Elliptic
Problems in Nonsmooth Domains, SIAM 2011, doi:10.1137/1.9781611972030, chapter 4). The scheme's order in L2 is the
lesser of 2 and 2λ: 2 on the square with walls of one kind, 4/3 at re-entrant corners, 1 where kinds meet on a straight
wall, 2/3 where they meet at a re-entrant corner.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from beno.geometry.grid import Domain
from beno.problems.norms import relative_l2
from beno.problems.operator import Elliptic
from beno.problems.problem import Problem
from beno.problems.refinement import refined
from beno.problems.solution import Solution
from beno.solvers.base import Solver
from beno.solvers.direct import Direct
from beno.support.errors import BenoError

SMOOTH_ORDER = 2.0
ORDER_OF_JUMPS, JUMP = 1.0, 2.0  # where kappa grows by more than this factor from one cell to the next
FINEST = 1024

Refine = Callable[[Problem], Problem]


def expected_order(problem: Problem) -> float:
    """At which the relative L2 error falls with the size of the cells, by the strongest corner.

    >>> from beno.problems.problem import poisson
    >>> corner_cut = Domain.square(8, [(4, 4), None, None, None])
    >>> expected_order(poisson(Domain.square(8))), round(expected_order(poisson(corner_cut)), 3)
    (2.0, 1.333)
    """
    panels, gives_value = problem.domain.panels, problem.walls.fixes_value
    order = SMOOTH_ORDER
    for ring in range(panels.ring.max() + 1):
        here = np.flatnonzero(panels.ring == ring)
        ahead = np.roll(here, -1)
        normal, following = panels.normals[here], panels.normals[ahead]
        to_the_left = normal[:, 0] * following[:, 1] - normal[:, 1] * following[:, 0]
        angle = np.pi * (1 - to_the_left / 2)
        exponent = np.where(gives_value[here] == gives_value[ahead], 1.0, 0.5) * np.pi / angle
        is_corner = (to_the_left != 0) | (gives_value[here] != gives_value[ahead])
        order = min(order, 2 * exponent[is_corner].min(initial=1.0))
    return float(min(order, ORDER_OF_JUMPS) if has_jumps(problem.operator) else order)


def has_jumps(operator: Elliptic) -> bool:
    """Whether kappa grows so much from one cell to the next that the grid does not resolve it."""
    if operator.law.is_uniform:
        return False
    near, kappa = operator.grid.neighbours, operator.law.at_points(operator.grid)
    return bool(np.where(near >= 0, kappa[near] / kappa[:, None], 1.0).max() > JUMP)


def estimate(problem: Problem, solver: Solver | None = None, finer: Refine = refined) -> float:
    """Of the relative L2 distance between the solution on the problem's grid and that of the equation.

    ``finer`` makes the problem with cells of half the size; by default the data are read off those that there are.
    """
    solver = solver or Direct()
    solution = solver.solve(problem)
    return _distance(solution, solver.solve(finer(problem))) / (1 - 2 ** -expected_order(problem))


def solve_within(
    problem: Problem, accuracy: float, solver: Solver | None = None, finest: int = FINEST, finer: Refine = refined
) -> Solution:
    """On the coarsest grid whose estimated relative L2 error is no larger: the problem's own or one that halves it.

    The solution's report says the estimate, and which grid it is on.

    >>> from beno.problems.problem import poisson
    >>> solve_within(poisson(Domain.square(8), f=-1.0), accuracy=0.01).problem.domain
    Domain(16 x 16 cells, 256 inside)
    """
    if not accuracy > 0:
        raise BenoError(f"the accuracy is {accuracy}; it must be positive")
    solver, order = solver or Direct(), expected_order(problem)
    coarse = solver.solve(problem)
    while True:
        resolution = coarse.problem.domain.resolution
        if 2 * resolution > finest:
            raise BenoError(
                f"an accuracy of {accuracy:g} was not reached: on {resolution} x {resolution} cells the error is "
                f"estimated as {coarse.report.estimate or np.inf:.2g}, and {finest} x {finest} are the most"
            )
        fine = solver.solve(finer(coarse.problem))
        distance = _distance(coarse, fine)
        of_coarse, of_fine = distance / (1 - 2**-order), distance / (2**order - 1)
        if of_coarse <= accuracy:
            return _chosen(coarse, of_coarse, accuracy)
        coarse = _chosen(fine, of_fine, accuracy)
        if of_fine <= accuracy:
            return coarse


def resolution_for(
    problem: Problem, accuracy: float, solver: Solver | None = None, finest: int = FINEST, finer: Refine = refined
) -> int:
    """How many cells along a side `solve_within` takes."""
    return solve_within(problem, accuracy, solver, finest, finer).problem.domain.resolution


def at_centres_of(coarse: Domain, fine: Domain, values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " n"]:
    """Values on the grid twice as fine, at the centres of the coarse cells, where four fine ones meet.

    By cubic interpolation along each axis, or by a parabola where a wall is near; in a corridor that is one cell wide
    by the mean.
    """
    picture = np.full(fine.mask.shape, np.nan)
    picture[fine.mask] = values
    for _ in range(2):  # along x, and along y
        picture = _halved(picture).T
    return picture[coarse.mask]


def _halved(picture: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "n k"]:
    padded = np.pad(picture, ((1, 1), (0, 0)), constant_values=np.nan)
    first, second, third, fourth = (padded[start : start + len(picture) : 2] for start in range(4))
    both = (9 * (second + third) - first - fourth) / 16
    without_first, without_fourth = (3 * second + 6 * third - fourth) / 8, (6 * second + 3 * third - first) / 8
    best = (second + third) / 2
    for candidate in (without_first, without_fourth, both):
        best = np.where(np.isnan(candidate), best, candidate)
    return best


def _distance(coarse: Solution, fine: Solution) -> float:
    operator, domain = coarse.problem.operator, coarse.problem.domain
    truth = operator.without_constant(at_centres_of(domain, fine.problem.domain, fine.u))
    return relative_l2(coarse.u, truth)


def _chosen(solution: Solution, error: float, accuracy: float) -> Solution:
    n = solution.problem.domain.resolution
    reason = f"{n} x {n} cells were chosen for an accuracy of {accuracy:g} of the equation"
    return replace(solution, report=replace(solution.report, estimate=error, reason=reason))
