"""What is estimated from two grids, and the grid that is chosen by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.problem import Problem, darcy, poisson
from beno.problems.refinement import refined
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.solvers.discretisation import at_centres_of, estimate, expected_order, resolution_for, solve_within
from beno.solvers.multigrid import Multigrid
from beno.support.errors import BenoError
from tests.strategies import annulus, domains, problems


def smooth(n: int) -> Problem:
    return poisson(Domain.square(n), lambda x, y: -2 * np.exp(x) * np.sin(np.sqrt(3) * y), of_smooth)


def of_smooth(x, y):
    return np.exp(x) * np.sin(np.sqrt(3) * y)


def twice_as_fine(problem: Problem) -> Problem:
    return smooth(2 * problem.domain.resolution)


def true_error(problem: Problem, u: np.ndarray) -> float:
    exact = of_smooth(*problem.domain.points.T)
    return float(np.linalg.norm(u - exact) / np.linalg.norm(exact))


# Fine values at coarse points


@pytest.mark.parametrize("degree", range(4))
def test_polynomials_up_to_the_third_degree_are_exact_away_from_walls(degree):
    coarse, fine = Domain.square(8), Domain.square(16)
    inside = (np.abs(coarse.points - 0.5) < 0.4).all(axis=1)
    powers = [(i, degree - i) for i in range(degree + 1)]
    for i, j in powers:
        found = at_centres_of(coarse, fine, fine.points[:, 0] ** i * fine.points[:, 1] ** j)
        expected = coarse.points[:, 0] ** i * coarse.points[:, 1] ** j
        np.testing.assert_allclose(found[inside], expected[inside], atol=1e-13)
        if degree <= 2:
            np.testing.assert_allclose(found, expected, atol=1e-13)


@given(domains(), st.floats(-1, 1), st.floats(-1, 1))
def test_planes_are_exact_on_every_shape(coarse, a, b):
    fine = Domain.from_mask(np.kron(coarse.mask, np.ones((2, 2), dtype=bool)))
    np.testing.assert_allclose(at_centres_of(coarse, fine, 1 + fine.points @ (a, b)), 1 + coarse.points @ (a, b))


# The estimate


@pytest.mark.parametrize("resolution", [8, 16, 32])
def test_where_the_problem_is_known_on_both_grids_the_estimate_is_the_error(resolution):
    problem = smooth(resolution)
    error = true_error(problem, Direct().solve(problem).u)
    assert estimate(problem, finer=twice_as_fine) == pytest.approx(error, rel=0.1)


@pytest.mark.parametrize("resolution", [16, 32])
def test_where_data_are_read_off_the_grid_the_estimate_is_of_that_size(resolution):
    problem = smooth(resolution)
    error = true_error(problem, Direct().solve(problem).u)
    assert 0.3 * error < estimate(problem) < 3 * error


@given(problems())
def test_every_problem_has_an_estimate_and_its_scale_does_not_matter(problem):
    told = estimate(problem)
    assert 0 <= told < np.inf
    assert estimate(Problem(problem.operator, -8 * problem.right)) == pytest.approx(told, rel=1e-6, abs=1e-12)


def test_what_is_exact_on_every_grid_has_no_error():
    assert estimate(poisson(annulus(), g=lambda x, y: 1 + x - 2 * y)) < 1e-12


def test_the_estimate_is_of_any_solver():
    problem = smooth(16)
    assert estimate(problem, Multigrid()) == pytest.approx(estimate(problem), rel=1e-6)


# The order


def test_the_order_is_that_of_the_strongest_corner():
    square, ring = Domain.square(8), annulus()
    up = square.panels.normals[:, 1] > 0
    on_one_side = np.where(up, Kind.NEUMANN, Kind.DIRICHLET)  # kinds meet at right angles, where nothing is singular
    on_half = np.where(up & (square.panels.centres[:, 0] < 0.5), Kind.ROBIN, Kind.DIRICHLET)
    hole = np.where(ring.panels.ring == 1, Kind.NEUMANN, Kind.DIRICHLET)
    assert expected_order(poisson(square, kind=on_one_side)) == 2
    assert expected_order(poisson(square, kind=on_half)) == 1
    assert expected_order(poisson(ring, kind=hole)) == pytest.approx(4 / 3)
    assert expected_order(darcy(square, lambda x, y: 1 + x)) == 2
    assert expected_order(darcy(square, lambda x, y: np.where(x < 0.5, 1.0, 10.0))) == 1


# The choice of a grid


@pytest.mark.parametrize("accuracy", [1e-2, 1e-3, 1e-4])
def test_the_grid_is_chosen_so_that_the_error_is_as_asked(accuracy):
    solution = solve_within(smooth(8), accuracy, finer=twice_as_fine)
    error = true_error(solution.problem, solution.u)
    n = solution.problem.domain.resolution
    assert error <= 1.05 * accuracy and solution.report.estimate == pytest.approx(error, rel=0.1)
    assert solution.report.estimate <= accuracy
    assert f"{n} x {n} cells" in solution.report.reason and f"{accuracy:g}" in solution.report.reason
    if n > 8:  # half of it would not have done
        assert true_error(smooth(n // 2), Direct().solve(smooth(n // 2)).u) > 0.9 * accuracy


def test_the_grid_that_is_given_is_kept_where_it_does():
    problem = smooth(16)
    solution = solve_within(problem, 0.1)
    assert solution.problem is problem
    np.testing.assert_array_equal(solution.u, Direct().solve(problem).u)
    assert resolution_for(problem, 0.1) == 16 and resolution_for(problem, 1e-4) > 16


def test_an_accuracy_that_no_grid_reaches_is_an_error():
    with pytest.raises(BenoError, match=r"not reached: on 64 x 64 .* estimated as"):
        solve_within(smooth(16), 1e-9, finest=64)
    with pytest.raises(BenoError, match="positive"):
        solve_within(smooth(16), 0.0)


def test_pure_neumann_problems_stay_in_balance_on_the_way():
    problem = poisson(annulus(), lambda x, y: x, lambda x, y: y, Kind.NEUMANN).balanced()
    solution = solve_within(problem, 0.01)
    assert solution.problem.domain.resolution > 8
    assert solution.u.mean() == pytest.approx(0, abs=1e-12)
    assert solution.problem.f.mean() == pytest.approx(refined(problem).f.mean())
