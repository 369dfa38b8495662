"""Every answer meets its tolerance, says how wrong it can be, and is no more wrong than that."""

import numpy as np
import pytest
from hypothesis import given, settings

from beno.geometry.gallery import SHAPES
from beno.geometry.grid import Domain
from beno.learned.certified import Certified
from beno.learned.choice import METHODS, Automatic, prepare, solve, solve_many
from beno.problems.families import Family
from beno.problems.operator import Elliptic
from beno.problems.problem import poisson
from beno.problems.walls import Kind
from beno.solvers.base import Prepared, Solver
from beno.solvers.device.gradients import ConjugateGradients
from beno.solvers.device.stencil import ToleranceMissed
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.strategies import problems

EXACT = [name for name, method in METHODS.items() if method.is_automatic]


class GivesUp(Solver):
    """A solver that no problem is easy enough for."""

    name = "hopeless"

    def prepare(self, operator: Elliptic) -> Prepared:
        prepared = Direct().prepare(operator)
        prepared.apply = _refuse  # type: ignore[method-assign]
        return prepared


def _refuse(right):
    raise BenoError("it is too hard")


@pytest.mark.parametrize("method", EXACT)
@given(problems())
@settings(max_examples=15)
def test_no_answer_is_farther_off_than_its_bound(method, problem):
    reference = Direct().solve(problem).u
    solution = solve(problem, tolerance=1e-9, method=method, device="cpu")
    report = solution.report
    assert report.residual is not None and report.residual <= 1e-9
    assert report.bound is not None and report.seconds is not None and report.seconds > 0
    off = np.abs(solution.u - reference).max()
    assert off <= report.bound + 1e-11 * max(1.0, np.abs(reference).max()), "rounding of the reference is allowed for"


@pytest.mark.parametrize("size", [1e-300, 1e-45, 1e300])
def test_the_size_of_the_data_is_no_trouble(size):
    problem = Family(boundary="mixed", resolution=16).problem(0, 1)
    large, plain = solve(problem.with_data(size * problem.f, size * problem.g)), solve(problem)
    np.testing.assert_allclose(large.u / size, plain.u, rtol=1e-12, atol=1e-14)
    assert large.report.bound is not None and plain.report.bound is not None
    assert 0.1 < large.report.bound / size / plain.report.bound < 10


def test_a_method_that_gives_up_is_followed_by_the_direct_solver():
    problem = Family(resolution=8).problem(0, 0)
    solution = solve(problem, solver=GivesUp())
    np.testing.assert_allclose(solution.u, Direct().solve(problem).u)
    assert solution.report.solver == "direct"
    assert solution.report.reason == "hopeless gave up: it is too hard"


def test_without_a_tolerance_what_a_method_refuses_is_refused():
    with pytest.raises(BenoError, match="it is too hard"):
        Certified(poisson(Domain.square(8)).operator, GivesUp(), "", None).solve(1.0, 0.0)


def test_walls_that_hardly_hold_u_are_answered_as_well_as_any_other():
    """The residual says next to nothing there: a plain factorisation is off by a percent."""
    problem = poisson(Domain.square(32), f=1.0, g=0.0, kind=Kind.ROBIN, alpha=1e-12)
    solution = solve(problem)
    assert solution.report.bound is not None
    assert solution.report.bound < 1e-6 * np.abs(solution.u).max()
    inside = -1.0 / (4 * 1e-12)  # what flows in over what alpha lets out
    np.testing.assert_allclose(solution.u, inside, rtol=1e-6)


def test_a_stack_is_answered_row_by_row_and_bounded_when_asked():
    problem = Family(resolution=16).problem(0, 0)
    prepared = prepare(problem.operator)
    right = problem.operator.right(np.stack([problem.f, 2 * problem.f]), problem.g)
    u = np.asarray(prepared(right))
    for row, one in enumerate(u):
        np.testing.assert_allclose(one, prepared(right[row]), atol=1e-12)
    bound = prepared.bound(u + 1e-3, right)
    assert bound.shape == u.shape and (bound > 1e-3).all()


def test_many_problems_are_answered_in_their_order():
    posed = [Family(corners="mixed", resolution=n).problem(0, n) for n in (8, 16, 12)]
    for method in ("auto", "gradients"):
        for problem, solution in zip(posed, solve_many(posed, 1e-9, method), strict=True):
            np.testing.assert_allclose(solution.u, Direct().solve(problem).u, atol=1e-7)


def test_a_network_alone_says_when_it_may_be_far_off():
    problem = poisson(SHAPES["comb"](32), f=10.0, g=lambda x, y: np.sin(20 * x))
    with pytest.warns(UserWarning, match="may be wrong by as much as"):
        solution = solve(problem, tolerance=None, method="learned")
    assert solution.report.bound is not None
    assert np.abs(solution.u - Direct().solve(problem).u).max() <= solution.report.bound


def test_an_accuracy_chooses_the_grid():
    problem = poisson(Domain.square(8), f=-1.0)
    solution = solve(problem, accuracy=0.01)
    assert solution.problem.domain.resolution == 16 and "16 x 16" in solution.report.reason
    assert solution.report.estimate is not None and solution.report.estimate <= 0.01


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"tolerance": 0.0}, "the tolerance is 0.0"),
        ({"tolerance": None}, "the tolerance is None"),
        ({"tolerance": 2.0}, "less than 1"),
        ({"method": "magic"}, "no method 'magic'"),
        ({"method": "learned"}, "can promise no tolerance"),
        ({"device": "tpu"}, "no device 'tpu'"),
    ],
)
def test_what_cannot_be_chosen_is_refused(settings_, message):
    with pytest.raises(BenoError, match=message):
        Automatic(**settings_).solve(Family(resolution=8).problem(0, 0))


def test_a_method_that_cannot_prepare_is_followed_by_the_direct_solver(monkeypatch):
    monkeypatch.setattr("beno.solvers.device.memory.free_memory", lambda device: 2**10)
    problem = Family(resolution=8).problem(0, 0)
    prepared = prepare(problem.operator, method="capacitance", device="cpu")
    np.testing.assert_allclose(np.asarray(prepared(problem.right)), Direct().solve(problem).u)
    assert prepared.report.solver == "direct"
    assert "capacitance gave up: the capacitance matrix" in prepared.report.reason


def test_problems_that_are_too_hard_together_are_solved_alone(monkeypatch):
    posed = [Family(corners="mixed", resolution=8).problem(0, index) for index in range(3)]
    together = ConjugateGradients.solve_many

    def all_but_the_second(solver, problems):
        if posed[1] in problems:
            raise ToleranceMissed("box-gradients", [problems.index(posed[1])], solver.tolerance)
        return together(solver, problems)

    monkeypatch.setattr(ConjugateGradients, "solve_many", all_but_the_second)
    solutions = solve_many(posed, 1e-10, "gradients")
    assert [one.report.solver for one in solutions] == ["box-gradients", "direct", "box-gradients"]
    for problem, solution in zip(posed, solutions, strict=True):
        np.testing.assert_allclose(solution.u, Direct().solve(problem).u, atol=1e-8)
