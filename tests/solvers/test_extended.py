"""Whatever is counted as off is at least as much as exact arithmetic says."""

from fractions import Fraction

import numpy as np
import pytest

from beno.solvers.extended import Extended, ExtendedRows, sum_by_halves, upward
from beno.solvers.finite_volumes import assemble
from tests.strategies import BOUNDARIES, annulus, random_problem


@pytest.mark.parametrize("count", [1, 2, 5, 64, 1001])
def test_a_sum_is_off_by_no_more_than_it_says(count):
    values = np.random.default_rng(count).normal(size=count) * 10.0 ** np.arange(count).clip(max=12)
    summed, exact = sum_by_halves(values.astype(Extended)), sum(Fraction(value) for value in values.tolist())
    got = sum((Fraction(part) for part in _in_two(summed.value)), Fraction(0))
    assert abs(got - exact) <= Fraction(float(summed.off)) + Fraction(1, 10**300)


def _in_two(value):
    """A number of extended precision as two of double precision, exactly."""
    return float(value), float(value - Extended(float(value)))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("equation", ["poisson", "darcy"])
def test_the_rows_are_those_of_the_scheme(equation, boundary):
    problem = random_problem(annulus(8), equation, boundary, 0)
    u, rows, system = np.random.default_rng(0).normal(size=len(problem.f)), *(
        make(problem.operator) for make in (ExtendedRows, assemble)
    )  # fmt: skip
    ours, theirs = rows.product(u.astype(Extended)), system.matrix @ u
    scale = np.abs(ours.value).max() / np.abs(theirs).max()
    np.testing.assert_allclose(np.abs(ours.value).astype(float), scale * np.abs(theirs), rtol=1e-9, atol=1e-9 * scale)
    assert (ours.off < 1e-15 * ours.size.max()).all()


def test_upward_is_never_less():
    values = np.random.default_rng(0).uniform(size=100).astype(Extended) / 3
    assert (upward(values, 0).astype(Extended) > values).all()
