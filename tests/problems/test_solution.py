"""Solutions at any point inside: second order, exact for planes, and no answer outside."""

import numpy as np
import pytest
from hypothesis import given

from beno.geometry.grid import Domain
from beno.problems.problem import poisson
from beno.problems.solution import Report, Solution, reconstruct, wall_values
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.strategies import domains, problems, seeds


def solve(problem):
    return Direct().solve(problem)


def points_in(domain, count, seed):
    rng = np.random.default_rng(seed)
    cell = rng.integers(len(domain.cells), size=count)
    return (domain.cells[cell] + rng.random((count, 2))) * domain.spacing


@given(domains(), seeds)
def test_a_plane_is_exact_at_every_point_inside(domain, seed):
    def plane(x, y):
        return 1 + 3 * x - 2 * y

    points = points_in(domain, 40, seed)
    np.testing.assert_allclose(solve(poisson(domain, g=plane)).at(points), plane(*points.T), atol=1e-9)


@pytest.mark.parametrize("kind", [Kind.DIRICHLET, Kind.ROBIN])
def test_the_order_at_other_points_is_two(kind):
    def u(x, y):
        return np.exp(x) * np.cos(y)

    errors = []
    for resolution in (16, 32, 64):
        domain = Domain.square(resolution, [(resolution // 4, resolution // 4), None, None, None])
        x, y = domain.panels.centres.T
        slope = domain.panels.normals[:, 0] * u(x, y) - domain.panels.normals[:, 1] * np.exp(x) * np.sin(y)
        g = u(x, y) if kind == Kind.DIRICHLET else 2 * u(x, y) + slope
        points = points_in(Domain.square(16, [(4, 4), None, None, None]), 400, seed=0)
        solution = solve(poisson(domain, g=g, kind=kind, alpha=2.0))
        errors.append(np.sqrt(np.mean((solution.at(points) - u(*points.T)) ** 2)))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (np.abs(orders - 2) < 0.25).all(), orders


def test_cell_centres_give_back_the_solution():
    solution = solve(poisson(Domain.square(8), f=1.0))
    np.testing.assert_allclose(solution.at(solution.problem.domain.points), solution.u)


@given(problems())
def test_at_the_walls_u_and_its_slope_satisfy_their_condition(problem):
    solution, domain = solve(problem), problem.domain
    value = wall_values(problem, solution.u)
    slope = (value - solution.u[domain.panels.cell]) / (domain.spacing / 2)
    size = max(1.0, np.abs(slope).max())
    np.testing.assert_allclose(problem.walls.trace(value, slope), problem.g, atol=1e-9 * size)


@pytest.mark.parametrize("point", [(0.1, 0.1), (1.2, 0.5), (-0.1, 0.5), (np.nan, 0.5)])
def test_a_point_outside_is_refused(point):
    solution = solve(poisson(Domain.square(8, [(4, 3), None, None, None])))
    with pytest.raises(BenoError, match="outside the domain"):
        solution.at(np.array([[0.9, 0.9], point]))


@pytest.mark.parametrize("shape", [(3, 3), (1,)])
def test_points_of_another_shape_are_refused(shape, monkeypatch):
    import jaxtyping

    solution = solve(poisson(Domain.square(4)))
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(BenoError, match=r"the points have the shape .*; \(m, 2\) is needed"):
        solution.at(np.full(shape, 0.5))


def test_the_walls_belong_to_the_domain():
    solution = solve(poisson(Domain.square(8), g=lambda x, y: x + y))
    corners = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(solution.at(corners), [0, 2, 1], atol=1e-9)


def test_without_wall_values_a_plane_is_still_exact_where_a_cell_has_neighbours():
    domain = Domain.square(6)
    values = domain.points @ (2.0, -1.0)
    points = points_in(domain, 30, seed=1)
    np.testing.assert_allclose(reconstruct(domain, values, points), points @ (2.0, -1.0), atol=1e-12)


def test_it_says_who_solved_it():
    solution = solve(poisson(Domain.square(4), g=1.0))
    assert solution.report == Report("direct", 1) and ", by direct, " in repr(solution)
    assert "by" not in repr(Solution(solution.problem, solution.u))
