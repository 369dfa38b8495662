"""L u = (f, g): problems as users write them down, their two parts, and what is refused."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given

from beno.geometry.grid import Domain
from beno.problems.operator import poisson_operator
from beno.problems.problem import Problem, darcy, poisson
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.strategies import annulus, problems

CUT_SQUARE = Domain.square(8, [(2, 3), None, None, (3, 2)])
POINTS, PANELS = len(CUT_SQUARE.points), len(CUT_SQUARE.panels)


def solve(problem):
    return Direct().solve(problem)


# The split


@given(problems())
def test_parts_of_the_split_add_to_the_whole(problem):
    forced, driven = problem.split()
    np.testing.assert_allclose(forced.f + driven.f, problem.f, atol=1e-12)
    np.testing.assert_array_equal(forced.g + driven.g, problem.g)
    whole = solve(problem).u
    np.testing.assert_allclose(solve(forced).u + solve(driven).u, whole, atol=1e-10 * max(1, np.abs(whole).max()))


@given(problems())
def test_forced_part_has_no_g_and_driven_part_no_f_but_a_balancing_constant(problem):
    forced, driven = problem.split()
    assert (forced.g == 0).all()
    assert np.ptp(driven.f) == 0
    if problem.operator.leaves_constant_free:
        assert forced.f.mean() == pytest.approx(0, abs=1e-12)
    else:
        assert (driven.f == 0).all()


@given(problems(boundaries=("neumann",)))
def test_both_parts_of_a_balanced_neumann_problem_balance(problem):
    for part in problem.split():
        part.require_solvable()


# Fields


def test_callables_arrays_and_numbers_say_the_same():
    (x, y), (at_x, at_y) = CUT_SQUARE.points.T, CUT_SQUARE.panels.centres.T
    kind = np.full(PANELS, Kind.ROBIN)
    called = darcy(
        CUT_SQUARE, lambda x, y: 2 + x * y, lambda x, y: x - y, lambda x, y: x + y, Kind.ROBIN, lambda x, y: 3.0
    )
    listed = darcy(CUT_SQUARE, 2 + x * y, x - y, at_x + at_y, kind, np.full(PANELS, 3.0), 2 + at_x * at_y)
    assert called.values.keys() == listed.values.keys()
    for name, values in called.values.items():
        np.testing.assert_array_equal(values, listed.values[name])


def test_poisson_has_the_law_without_coefficients_and_darcy_that_with_kappa():
    assert poisson(CUT_SQUARE).law.name == "poisson" and poisson(CUT_SQUARE).law.is_uniform
    assert (poisson(CUT_SQUARE).law.at_panels(CUT_SQUARE) == 1).all()
    assert darcy(CUT_SQUARE, 1.0).law.name == "darcy" and not darcy(CUT_SQUARE, 1.0).law.is_uniform


def test_problem_keeps_its_own_copy_of_the_arrays():
    f, g, kappa, alpha = np.ones(POINTS), np.ones(PANELS), np.ones(POINTS), np.ones(PANELS)
    problem = darcy(CUT_SQUARE, kappa, f, g, Kind.ROBIN, alpha)
    for values in (f, g, kappa, alpha):
        values[:] = 7
    assert all((problem.values[name] == 1).all() for name in ("f", "g", "coefficient", "alpha"))


def test_with_data_changes_what_is_given_and_nothing_else():
    problem = darcy(CUT_SQUARE, 2.0, 1.0, lambda x, y: x, Kind.ROBIN, 3.0)
    other = problem.with_data(f=lambda x, y: y)
    assert other.operator is problem.operator
    np.testing.assert_array_equal(other.g, problem.g)
    np.testing.assert_array_equal(other.f, CUT_SQUARE.points[:, 1])
    assert (problem.with_data(g=5.0).g == 5).all() and (problem.with_data(g=5.0).f == 1).all()


@given(problems())
def test_balanced_problems_have_a_solution_and_are_as_they_were_if_they_had_one(problem):
    problem.require_solvable()
    np.testing.assert_allclose(problem.balanced().f, problem.f, atol=1e-10 * max(1.0, np.abs(problem.f).max()))
    poisson(CUT_SQUARE, f=1.0, kind=Kind.NEUMANN).balanced().require_solvable()


def test_holes_carry_conditions_of_their_own():
    domain = annulus()
    on_hole = domain.panels.ring == 1
    problem = poisson(domain, g=np.where(on_hole, 1.0, 0.0), kind=np.where(on_hole, Kind.DIRICHLET, Kind.NEUMANN))
    np.testing.assert_allclose(solve(problem).u, 1)
    np.testing.assert_allclose(solve(problem.with_data(g=3 * problem.g)).u, 3)


# What is refused


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("name", "length"), [("f", POINTS), ("g", PANELS), ("alpha", PANELS), ("kappa", POINTS)])
def test_values_that_are_not_finite_are_refused_with_their_place(name, length, bad):
    values = np.ones(length)
    values[4] = bad
    make = darcy if name == "kappa" else poisson
    with pytest.raises(BenoError, match=rf"{name} is {bad} at (point|panel) 4"):
        make(CUT_SQUARE, **{name: values, "kind": Kind.ROBIN})


@pytest.mark.parametrize("name", ["f", "g", "alpha", "kappa"])
@pytest.mark.parametrize("shape", [(3,), (POINTS + PANELS,), (2, 2)])
def test_arrays_of_the_wrong_shape_are_refused_with_both_sizes(name, shape):
    right = POINTS if name in ("f", "kappa") else PANELS
    make = darcy if name == "kappa" else poisson
    with pytest.raises(BenoError, match=re.escape(f"{name} has shape {shape}") + f".*{right} "):
        make(CUT_SQUARE, **{name: np.ones(shape)})


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (np.full(POINTS, np.nan), "f is not finite at 0"),
        (np.ones(3), rf"f has the shape \(3,\); the domain needs \({POINTS},\)"),
        (torch.ones(POINTS), "f is a tensor; a problem has arrays"),
    ],
)
def test_a_right_hand_side_that_is_none_of_the_operator_is_refused(f, message):
    with pytest.raises(BenoError, match=message):
        Problem(poisson_operator(CUT_SQUARE), RightHandSide(f, np.zeros(PANELS)))


def test_a_stack_is_no_problem_but_many():
    operator = poisson_operator(CUT_SQUARE)
    with pytest.raises(BenoError, match="f has the shape"):
        Problem(operator, operator.right(np.ones((2, POINTS))))
