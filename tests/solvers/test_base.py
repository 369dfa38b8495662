"""What every solver owes: prepared once it is a linear map of (f, g), row by row, and it says how it solved."""

import numpy as np
import pytest
from hypothesis import given, settings

from beno.geometry.grid import Domain
from beno.problems.operator import poisson_operator
from beno.problems.problem import Problem, poisson
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.solvers.gauss_seidel import GaussSeidel
from beno.solvers.multigrid import Multigrid
from beno.support.errors import BenoError
from tests.strategies import BOUNDARIES, problems, random_problem, random_right, seeds

SOLVERS = (Direct(), Multigrid(tolerance=1e-12), GaussSeidel(tolerance=1e-12))
every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)


def close(actual, expected, tolerance=1e-8):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max()))


@every_solver
@settings(max_examples=10)
@given(problem=problems(), seed=seeds)
def test_prepared_it_is_linear_in_the_right_hand_side(solver, problem, seed):
    prepared = solver.prepare(problem.operator)
    one, other = random_right(problem.operator, seed), random_right(problem.operator, seed + 1)
    a, b = np.random.default_rng(seed).normal(size=2)
    close(prepared(a * one + b * other), a * prepared(one) + b * prepared(other))


@every_solver
@settings(max_examples=10)
@given(problem=problems(), seed=seeds)
def test_a_stack_is_solved_as_its_rows_are(solver, problem, seed):
    prepared = solver.prepare(problem.operator)
    stack = random_right(problem.operator, seed, rows=3)
    together = prepared(stack)
    assert together.shape == stack.f.shape
    for row, u in enumerate(together):
        close(u, prepared(stack[row]), 1e-12)


@every_solver
@settings(max_examples=10)
@given(problem=problems())
def test_what_is_solved_at_once_is_what_is_prepared_and_applied(solver, problem):
    solution, prepared = solver.solve(problem), solver.prepare(problem.operator)
    assert solution.problem is problem and solution.report.solver == solver.name
    np.testing.assert_array_equal(solution.u, prepared(problem.right))
    np.testing.assert_array_equal(solution.u, prepared.solve(problem.f, problem.g))
    assert solution.report == prepared.report


@every_solver
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("resolution", [1, 2, 16])
def test_nothing_is_answered_with_zero_and_tiny_grids_are_served(resolution, boundary, solver):
    problem = random_problem(Domain.square(resolution), "darcy", boundary, seed=1)
    close(solver.solve(problem).u, Direct().solve(problem).u, 1e-6)
    assert np.abs(solver.solve(Problem(problem.operator, 0 * problem.right)).u).max() == 0


@every_solver
def test_fields_may_be_functions_numbers_and_stacks(solver):
    domain = Domain.square(8)
    prepared = solver.prepare(poisson_operator(domain))
    close(prepared.solve(g=lambda x, y: x - 2 * y), domain.points @ (1, -2))
    close(prepared.solve(g=3.0), np.full(64, 3.0))
    both = prepared.solve(f=np.eye(64)[:2])
    assert both.shape == (2, 64) and (both < 0).all()


@every_solver
@settings(max_examples=10)
@given(problem=problems(boundaries=("neumann",)))
def test_where_a_constant_is_free_u_has_zero_mean(solver, problem):
    u = solver.solve(problem).u
    assert u.mean() == pytest.approx(0, abs=1e-12 * max(1.0, np.abs(u).max()))


@every_solver
def test_what_has_no_solution_is_refused(solver):
    prepared = solver.prepare(poisson_operator(Domain.square(4), Kind.NEUMANN))
    for right in (RightHandSide(np.ones(16), np.zeros(16)), RightHandSide(np.ones((2, 16)), np.zeros((2, 16)))):
        with pytest.raises(BenoError, match="pure Neumann"):
            prepared(right)
    with pytest.raises(BenoError, match="pure Neumann"):
        solver.solve(poisson(Domain.square(4), 1.0, kind=Kind.NEUMANN))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("equation", ["poisson", "darcy"])
@pytest.mark.parametrize("solver", SOLVERS[1:], ids=lambda solver: solver.name)
def test_all_solvers_agree(solver, equation, boundary):
    unit = 2
    shapes = (
        Domain.square(8 * unit, [(2 * unit, unit), None, (unit, 3 * unit), (3 * unit, 2 * unit)]),
        Domain.from_mask(np.pad(np.zeros((4, 4), dtype=bool), 6, constant_values=True)),
    )
    for domain in shapes:
        problem = random_problem(domain, equation, boundary, seed=3)
        solution = solver.solve(problem)
        close(solution.u, Direct().solve(problem).u)
        assert solution.report.iterations > 1
