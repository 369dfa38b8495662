"""Turned, mirrored, or with the opposite sign, a solved problem is a solved problem."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from beno.datasets.doctor import diagnose
from beno.datasets.records import Record
from beno.geometry.symmetries import SYMMETRIES, matrix
from beno.problems.turned import turned, with_sign
from beno.solvers.direct import Direct
from tests.strategies import annulus, problems, random_problem

symmetries = st.integers(0, SYMMETRIES - 1)
HOLED = random_problem(annulus(), "darcy", "mixed", 0)


def assert_same(one, other):
    np.testing.assert_array_equal(one.problem.domain.mask, other.problem.domain.mask)
    assert one.values.keys() == other.values.keys()
    for name, values in one.values.items():
        np.testing.assert_array_equal(values, other.values[name], err_msg=name)


@given(problems(), symmetries)
@example(HOLED, 6)
def test_a_turned_solution_satisfies_its_equations(problem, symmetry):
    moved = turned(Direct().solve(problem), symmetry)
    np.testing.assert_allclose(Direct().solve(moved.problem).u, moved.u, atol=1e-8)
    assert diagnose(Record.of(moved)).judged


@given(problems(), symmetries)
@example(HOLED, 2)
def test_every_symmetry_has_an_inverse(problem, symmetry):
    solution = Direct().solve(problem)
    inverse = next(k for k in range(SYMMETRIES) if (matrix(k) @ matrix(symmetry) == np.eye(2)).all())
    assert_same(turned(turned(solution, symmetry), inverse), solution)


@given(problems(), symmetries, symmetries)
def test_two_turns_are_one(problem, first, second):
    solution = Direct().solve(problem)
    both = next(k for k in range(SYMMETRIES) if (matrix(k) == matrix(second) @ matrix(first)).all())
    assert_same(turned(turned(solution, first), second), turned(solution, both))


@given(problems(), symmetries)
def test_a_problem_turns_as_its_solution_does(problem, symmetry):
    moved, solution = turned(problem, symmetry), turned(Direct().solve(problem), symmetry)
    for name, values in moved.values.items():
        np.testing.assert_array_equal(values, solution.problem.values[name], err_msg=name)


@given(problems(), st.sampled_from([-1, 1, 0.5]))
def test_a_solution_of_the_opposite_sign_satisfies_its_equations(problem, sign):
    other = with_sign(Direct().solve(problem), sign)
    np.testing.assert_array_equal(other.problem.f, sign * problem.f)
    size = max(1.0, np.abs(other.u).max())
    np.testing.assert_allclose(Direct().solve(other.problem).u, other.u, atol=1e-10 * size)
    np.testing.assert_array_equal(with_sign(problem, sign).g, other.problem.g)
