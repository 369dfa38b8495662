"""No error exceeds its bound, whatever the problem, the answer, and what made the bound."""

from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.hard_problems import DIGITS, DecimalScheme, decimals, draw, scaled
from hypothesis import given

from beno.geometry.grid import Domain
from beno.problems.law import Poisson
from beno.problems.operator import Elliptic, darcy_operator, poisson_operator
from beno.problems.problem import poisson
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind, Walls
from beno.solvers.base import Prepared
from beno.solvers.bound import ErrorBound
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble
from beno.solvers.gauss_seidel import GaussSeidel
from beno.solvers.multigrid import Multigrid
from beno.support.errors import BenoError
from tests.strategies import BOUNDARIES, annulus, problems, random_problem, random_right, seeds

EXACT = 1 + 1e-12
IS_LONG = np.finfo(np.longdouble).eps < 1e-18  # elsewhere bounds hold as well, but are less sharp


def exceeds(error: np.ndarray, bound: np.ndarray) -> bool:
    return any(e > Decimal(float(b)) for e, b in zip(error, bound, strict=True) if np.isfinite(b))


# Against arithmetic of fifty digits


@pytest.mark.parametrize("tens", range(10))
def test_no_error_exceeds_its_bound_on_problems_drawn_to_break_it(tens):
    for index in range(20 * tens, 20 * tens + 20):
        problem = draw(1, index, largest=20)
        prepared = Direct().prepare(problem.operator)
        reference = DecimalScheme(problem.operator).solution(problem.unscaled, prepared)
        bound = ErrorBound(problem.operator, prepared)
        assert not bound.reason
        size = float(np.abs(reference).max())
        power = min(problem.power, int(1000 - np.log2(size)))
        right, u = scaled(problem.unscaled, power), prepared(problem.unscaled)
        rough = u + 1e-5 * size * np.random.default_rng(index).normal(size=len(u))
        with localcontext(prec=DIGITS):
            reference = reference * Decimal(2) ** power
            for answer in (u, rough, u + 1e-3 * size):
                answer = np.ldexp(answer, power)
                error = np.abs(decimals(answer) - reference)
                plain, sharp = bound(answer, right), bound(answer, right, sharp=True)
                assert not exceeds(error, plain) and not exceeds(error, sharp)
                assert np.isfinite(sharp).all() or power > 900
            assert sharp.max() <= 1.01 * float(error.max())  # of an error that is far above rounding
            better, of_better = bound.corrected(np.ldexp(u, power), right)
            error = np.abs(decimals(better) - reference)
            assert not exceeds(error, of_better)
            if power > -900 and IS_LONG:  # the largest value is right to the last digit
                assert error.max() <= Decimal("2.3e-16") * np.abs(reference).max()


def test_the_reference_is_the_solution_by_fractions():
    """The decimal scheme itself against elimination in rational numbers, on a grid of few cells."""
    problem = random_problem(Domain.square(3), "darcy", "mixed", 5)
    domain, law, walls = problem.domain, problem.law, problem.walls
    h, n = Fraction(1, 3), len(problem.f)
    matrix = [[Fraction(0)] * n + [-h * h * Fraction(problem.f[i])] for i in range(n)]
    faces, kappa = law.on_faces(domain), law.at_panels(domain)
    for i in range(n):
        for direction in range(4):
            j, panel = domain.neighbours[i, direction], domain.panel_at[i, direction]
            if j >= 0:
                matrix[i][i] += Fraction(faces[i, direction])
                matrix[i][j] -= Fraction(faces[i, direction])
            else:
                a, b = Fraction(walls.value_weight[panel]), Fraction(walls.slope_weight[panel])
                weight = Fraction(kappa[panel]) * h / (a * h / 2 + b)
                matrix[i][i] += weight * a
                matrix[i][n] += weight * Fraction(problem.g[panel])
    for i in range(n):
        matrix[i] = [entry / matrix[i][i] for entry in matrix[i]]
        for other in range(n):
            if other != i:
                factor = matrix[other][i]
                matrix[other] = [a - factor * b for a, b in zip(matrix[other], matrix[i], strict=True)]
    exact = [row[n] for row in matrix]
    reference = DecimalScheme(problem.operator).solution(problem.right)
    with localcontext(prec=DIGITS):
        for one, other in zip(exact, reference, strict=True):
            assert abs(Decimal(one.numerator) / Decimal(one.denominator) - other) < Decimal("1e-30")


# What holds of every bound


@given(problems(), seeds)
def test_a_change_of_the_answer_is_within_the_bound_and_the_sharp_bound_is_nearly_the_change(problem, seed):
    prepared = Direct().prepare(problem.operator)
    bound, u = ErrorBound(problem.operator, prepared), prepared(problem.right)
    change = 1e-3 * np.random.default_rng(seed).normal(size=len(u))
    slack = 1e-12 * max(1.0, np.abs(u).max())
    assert (np.abs(change) <= bound(u + change, problem.right) + slack).all()
    sharp = bound(u + change, problem.right, sharp=True)
    assert (np.abs(change) <= sharp + slack).all()
    np.testing.assert_allclose(sharp, np.abs(change), rtol=0, atol=2e-3 * np.abs(change).max() + slack)


@given(problems(), seeds)
def test_a_stack_has_the_bounds_of_its_rows(problem, seed):
    bound = ErrorBound(problem.operator)
    stack = random_right(problem.operator, seed, rows=3)
    u = np.random.default_rng(seed).normal(size=stack.f.shape)
    for sharp in (False, True):
        together = bound(u, stack, sharp)
        assert together.shape == u.shape
        for row in range(3):
            np.testing.assert_array_equal(together[row], bound(u[row], stack[row], sharp))


@pytest.mark.parametrize("power", [-900, -400, 400, 900])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_powers_of_two_scale_a_bound_exactly(boundary, power):
    problem = random_problem(annulus(), "darcy", boundary, 2)
    bound, u = ErrorBound(problem.operator), Direct().solve(problem).u
    for sharp in (False, True):
        expected = bound(u, problem.right, sharp)
        found = bound(np.ldexp(u, power), scaled(problem.right, power), sharp)
        np.testing.assert_allclose(np.ldexp(found, -power), expected, rtol=1e-12)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_nothing_is_known_to_be_right(boundary):
    problem = random_problem(annulus(), "poisson", boundary, 2)
    bound = ErrorBound(problem.operator)
    assert bound(0 * problem.f, 0 * problem.right).max() < 1e-250


@pytest.mark.parametrize("resolution", [1, 2])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_tiny_grids_are_served(boundary, resolution):
    problem = random_problem(Domain.square(resolution), "darcy", boundary, 2)
    u = Direct().solve(problem).u
    found = ErrorBound(problem.operator)(u + 0.5, problem.right)
    assert (found >= 0.5 / EXACT).all() and np.isfinite(found).all()


@pytest.mark.parametrize("solver", [Multigrid(tolerance=1e-6), GaussSeidel(tolerance=1e-3)], ids=lambda s: s.name)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_solver_that_is_inexact_makes_a_bound_that_holds(boundary, solver):
    problem = random_problem(annulus(16), "darcy", boundary, 3)
    prepared = solver.prepare(problem.operator)
    bound = ErrorBound(problem.operator, prepared, solver)
    error = np.abs(prepared(problem.right) - Direct().solve(problem).u)
    for sharp in (False, True):
        found = bound(prepared(problem.right), problem.right, sharp)
        assert (error <= found + 1e-13).all()
    assert found.max() < 1.01 * error.max()


class Wrong(Prepared):
    """A solver that answers with noise."""

    def __init__(self, operator: Elliptic, sign: float) -> None:
        self.operator, self.sign, self._rng = operator, sign, np.random.default_rng(0)

    def apply(self, right: RightHandSide) -> np.ndarray:
        return self.sign * self._rng.random(right.f.shape)


@pytest.mark.parametrize("sign", [1.0, -1.0, np.nan, np.inf])
def test_a_solver_that_is_wrong_gives_no_bound_and_never_a_wrong_one(sign):
    operator = poisson_operator(annulus())
    bound = ErrorBound(operator, Wrong(operator, sign))
    assert "comparison" in bound.reason and "none" in repr(bound)
    assert np.isinf(bound(np.zeros(60), operator.right(f=1.0))).all()


def test_an_answer_that_is_no_number_has_no_bound():
    operator = poisson_operator(annulus())
    bound = ErrorBound(operator)
    assert np.isinf(bound(np.full(60, np.nan), operator.right(f=1.0))).all()


def test_an_answer_must_fit_and_a_right_hand_side_must_have_a_solution():
    bound = ErrorBound(poisson_operator(annulus()))
    with pytest.raises(BenoError, match="shape"):
        bound(np.zeros(3), bound.operator.right(f=1.0))
    insulated = ErrorBound(poisson_operator(annulus(), Kind.NEUMANN))
    with pytest.raises(BenoError, match="pure Neumann"):
        insulated(np.zeros(60), insulated.operator.right(f=1.0))


@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 1e-3, 1e-1, 1e3, 1e12])
def test_robin_walls_of_any_alpha_have_a_bound_near_the_error(alpha):
    """The part of the error that walls hardly hold is known without a comparison."""
    problem = poisson(annulus(16), f=lambda x, y: np.sin(5 * x), g=1.0, kind=Kind.ROBIN, alpha=alpha)
    bound = ErrorBound(problem.operator)
    exact, _ = bound.corrected(Direct().solve(problem).u, problem.right)
    off = 1e-6 * np.abs(exact).max()
    found = bound(exact + off, problem.right)
    assert (found >= off / EXACT).all()
    assert found.max() < (30 if alpha > 0.01 else 3) * off


def test_a_correction_repairs_what_the_factors_lose_where_alpha_is_small():
    problem = poisson(Domain.square(16), f=1.0, kind=Kind.ROBIN, alpha=1e-12)
    u = Direct().solve(problem).u
    better, bound = ErrorBound(problem.operator).corrected(u, problem.right)
    mean = -1 / (4 * 1e-12)  # what leaves through the walls is what f takes
    assert np.abs(better.mean() / mean - 1) < 1e-10
    assert bound.max() < (1e-15 if IS_LONG else 1e-10) * np.abs(better).max()


def test_tensors_are_read():
    torch = pytest.importorskip("torch")
    operator = poisson_operator(annulus())
    right = operator.right(f=np.ones(60))
    u = Direct().prepare(operator)(right) + 0.1
    as_tensors = RightHandSide(torch.as_tensor(right.f), torch.as_tensor(right.g))
    bound = ErrorBound(operator)
    np.testing.assert_array_equal(bound(torch.as_tensor(u), as_tensors), bound(u, right))


@dataclass(frozen=True, eq=False, repr=False)
class Helmholtz(Poisson):
    """``laplace u + c u = f``; not registered."""

    wave: float = 0.0

    def reaction(self, domain: Domain) -> np.ndarray:
        return np.full(len(domain.points), self.wave)


@pytest.mark.parametrize("wave", [-1e6, -10.0, 15.0])
def test_a_reaction_has_a_bound_below_the_first_eigenvalue(wave):
    domain = Domain.square(12)
    operator = Elliptic(domain, Helmholtz(wave), Walls.uniform(48))
    prepared = Direct().prepare(operator)
    right = operator.right(f=lambda x, y: x - y, g=1.0)
    u = prepared(right)
    change = 1e-3 * np.cos(np.arange(len(u)))
    for sharp in (False, True):
        assert (np.abs(change) <= ErrorBound(operator, prepared)(u + change, right, sharp) + 1e-13).all()


@pytest.mark.parametrize("wave", [21.0, 60.0, 500.0])
def test_a_reaction_beyond_the_first_eigenvalue_has_none(wave):
    operator = Elliptic(Domain.square(12), Helmholtz(wave), Walls.uniform(48))
    bound = ErrorBound(operator)
    assert "no positive inverse" in bound.reason
    assert np.isinf(bound(np.ones(144), operator.right(f=1.0))).all()


def test_coefficients_out_of_range_have_no_bound():
    operator = darcy_operator(Domain.square(4), 1e-200)
    bound = ErrorBound(operator)
    assert bound.reason and np.isinf(bound(np.ones(16), operator.right(f=1.0))).all()


@given(problems())
def test_extended_rows_are_those_of_the_scheme(problem):
    bound, system = ErrorBound(problem.operator), assemble(problem.operator)
    u = np.cos(np.arange(len(problem.f)))
    np.testing.assert_allclose(bound._rows.product(u.astype(np.longdouble)).value, system.matrix @ u, atol=1e-12)
    vector = bound._rows.vector(problem.f, problem.g).value
    np.testing.assert_allclose(vector, system.vector(problem.right), atol=1e-12)


def test_walls_that_differ_in_kind_and_alpha_are_served_together():
    domain = Domain.square(8)
    kind = np.arange(32) % 3
    operator = poisson_operator(domain, kind, 10.0 ** np.linspace(-12, 12, 32))
    inert = replace(operator, walls=Walls(np.full(32, Kind.ROBIN), np.zeros(32)))  # acts as Neumann walls do
    for one in (operator, inert):
        right = random_right(one, 0)
        u = Direct().prepare(one)(right)
        assert np.isfinite(ErrorBound(one)(u, right)).all()
