"""The capacitance matrix is exact where kappa is constant or jumps, whatever the shape and the walls."""

import numpy as np
import pytest
import torch
from hypothesis import given

from beno.geometry.gallery import ring
from beno.geometry.grid import Domain
from beno.problems.operator import darcy_operator, poisson_operator
from beno.problems.walls import Kind
from beno.solvers.device import capacitance
from beno.solvers.device.capacitance import Capacitance, differing_rows
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble
from beno.support.errors import BenoError
from tests.solvers.device.shapes import in_pieces, operators, smooth
from tests.strategies import BOUNDARIES, problems, random_problem, random_right, seeds


def relative(u, expected):
    return np.abs(u - expected).max() / max(1e-300, np.abs(expected).max())


def relative_residual(operator, right, u):
    system = assemble(operator)
    return np.max(
        np.linalg.norm(system.residual(right, u), axis=1) / np.linalg.norm(system.vector(right), axis=1).clip(1e-300)
    )


@given(operator=operators(), seed=seeds)
def test_for_poisson_it_is_the_direct_solution_on_every_shape(operator, seed):
    right = random_right(operator, seed, rows=2)
    prepared = Capacitance().prepare(operator)
    u = prepared(right)
    assert relative_residual(operator, right, u) <= 1.01e-10
    fixed = operator.walls.value_weight * operator.domain.spacing
    weakness = 1.0 if operator.leaves_constant_free else 1 / min(1.0, fixed.sum())  # of what holds the constant
    assert relative(u, Direct().prepare(operator)(right)) < 1e-10 * max(1.0, 1e-3 * weakness)


@given(operator=operators(in_pieces), seed=seeds)
def test_where_kappa_jumps_by_a_thousand_it_is_as_exact(operator, seed):
    right = random_right(operator, seed, rows=2)
    try:
        u = Capacitance().prepare(operator)(right)
    except BenoError as error:  # what it promises is the residual
        assert "capacitance has not met the tolerance" in str(error)
        assert relative_residual(operator, right, Direct().prepare(operator)(right)) > 1e-13
    else:
        assert relative_residual(operator, right, u) <= 1.01e-10
        assert relative(u, Direct().prepare(operator)(right)) < 1e-9


@given(problem=problems(), seed=seeds)
def test_where_every_row_differs_it_serves_as_well(problem, seed):
    """Kappa of noise: not what it is for, but no less right."""
    right = random_right(problem.operator, seed, rows=2)
    assert relative(Capacitance().prepare(problem.operator)(right), Direct().prepare(problem.operator)(right)) < 1e-9


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_robin_walls_of_every_alpha(alpha):
    operator = poisson_operator(ring(24), Kind.ROBIN, alpha)
    right = random_right(operator, 0, rows=3)
    u = Capacitance(tolerance=max(1e-10, 1e-13 / alpha)).prepare(operator)(right)
    assert relative(u, Direct().prepare(operator)(right)) < 1e-13 * max(10.0, 1 / alpha)


def test_a_residual_that_no_number_in_double_precision_leaves_is_an_error():
    """With next to no alpha u is large, and the rounding of it alone leaves more than that: the direct solver, too."""
    operator = poisson_operator(ring(24), Kind.ROBIN, 1e-6)
    right = random_right(operator, 0, rows=2)
    assert relative_residual(operator, right, Direct().prepare(operator)(right)) > 1e-10
    with pytest.raises(BenoError, match=r"capacitance has not met the tolerance of 1.0e-10 for rows 0, 1;"):
        Capacitance().prepare(operator)(right)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_square_and_its_smallest(n, boundary):
    """With Dirichlet walls it is the box itself, and no row differs."""
    operator = random_problem(Domain.square(n), "poisson", boundary, 0).operator
    right = random_right(operator, 0, rows=2)
    assert differing_rows(operator) == 0 or boundary != "dirichlet"
    np.testing.assert_allclose(Capacitance().prepare(operator)(right), Direct().prepare(operator)(right), atol=1e-12)


def test_rows_differ_at_walls_and_at_jumps_alone():
    domain = Domain.square(12, [(4, 4), None, None, None])
    at_walls = differing_rows(poisson_operator(domain))
    assert at_walls == 8  # beside the cut; at the box's own sides nothing differs
    assert differing_rows(poisson_operator(domain, Kind.NEUMANN)) == len(np.unique(domain.panels.cell))
    jump = darcy_operator(domain, lambda x, y: np.where(x < 0.5, 1.0, 100.0))
    assert differing_rows(jump) == 24 + at_walls  # two columns of cells along the jump
    assert differing_rows(darcy_operator(domain, smooth(10.0, 0))) == len(domain.points)


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr(capacitance, "LARGEST", 20)
    with pytest.raises(BenoError, match="rows differ from the box's; the capacitance matrix takes 20 at most"):
        Capacitance().prepare(poisson_operator(ring(24)))


def test_tensors_come_back_as_tensors_and_rows_as_rows():
    operator = random_problem(ring(16), "poisson", "mixed", 0).operator
    prepared = Capacitance().prepare(operator)
    right = random_right(operator, 0, rows=3)
    stack = prepared(right)
    for dtype, tolerance in ((torch.float64, 1e-14), (torch.float32, 1e-5)):
        f, g = torch.as_tensor(right.f).to(dtype), torch.as_tensor(right.g).to(dtype)
        u = prepared.solve(f, g)
        assert isinstance(u, torch.Tensor) and u.dtype == dtype and u.shape == f.shape
        np.testing.assert_allclose(u, stack, rtol=0, atol=tolerance * 10 * np.abs(stack).max())
        assert prepared.solve(f[0], g[0]).shape == f[0].shape
    np.testing.assert_allclose(prepared(right[1]), stack[1], atol=1e-13)


@given(operator=operators(in_pieces, contrast=10.0, largest=10), seed=seeds)
def test_it_is_linear_in_the_right_hand_side(operator, seed):
    one, other = (random_right(operator, seed + number) for number in range(2))
    prepared = Capacitance().prepare(operator)
    parts = prepared(one), prepared(other)
    size = max(np.abs(part).max() for part in parts)
    np.testing.assert_allclose(prepared(2 * one - 3 * other), 2 * parts[0] - 3 * parts[1], atol=1e-9 * size)


def test_it_is_corrected_until_the_tolerance_is_met_or_says_that_it_is_not():
    operator = poisson_operator(ring(24))
    right = random_right(operator, 0, rows=2)
    prepared = Capacitance(tolerance=1e-15).prepare(operator)
    exact = prepared.inverse

    def coarse(vectors):
        return exact(vectors).float().double()

    prepared.inverse = coarse
    with pytest.raises(BenoError, match=r"capacitance has not met the tolerance of 1.0e-30 for rows 0, 1;"):
        Capacitance(tolerance=1e-30).prepare(operator)(right)
    assert relative(prepared(right), Direct().prepare(operator)(right)) < 1e-13
    assert prepared.report.iterations > 1


def test_columns_are_gathered_a_few_at_a_time_where_memory_is_short(monkeypatch):
    operator = poisson_operator(ring(16))
    right = random_right(operator, 0)
    whole = Capacitance().prepare(operator)(right)
    monkeypatch.setattr(capacitance, "NUMBERS_AT_ONCE", 1)
    np.testing.assert_allclose(Capacitance().prepare(operator)(right), whole, atol=1e-13)


def test_answers_that_are_no_numbers_are_an_error():
    operator = poisson_operator(ring(16))
    prepared = Capacitance().prepare(operator)
    prepared.inverse = lambda vectors: vectors * np.nan
    with pytest.raises(BenoError, match="capacitance has not met"):
        prepared(random_right(operator, 0))


def test_what_does_not_fit_in_memory_is_refused_with_the_number(monkeypatch):
    monkeypatch.setattr("beno.solvers.device.memory.free_memory", lambda device: 2**20)
    with pytest.raises(BenoError, match=r"of \d+ rows on 64² cells needs .* GiB of cpu memory; .* free"):
        Capacitance().prepare(poisson_operator(ring(64)))
