"""One rule for how far one field is from another, also where one of them is zero."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beno.problems.norms import relative_l2
from tests.strategies import seeds


@given(seeds, st.floats(1e-3, 1e3))
def test_it_is_the_norm_of_the_difference_over_that_of_the_truth_in_any_unit(seed, unit):
    found, truth = np.random.default_rng(seed).normal(size=(2, 9))
    expected = np.linalg.norm(found - truth) / np.linalg.norm(truth)
    assert relative_l2(unit * found, unit * truth) == pytest.approx(expected)
    assert relative_l2(truth, truth) == 0


def test_zero_is_exact_for_zero_and_infinitely_far_from_anything_else():
    zero, one = np.zeros(3), np.ones(3)
    assert relative_l2(zero, zero) == 0 and relative_l2(one, zero) == np.inf and relative_l2(zero, one) == 1


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-200, 1e200, 1e300])
def test_fields_may_be_of_any_size(size):
    truth = np.array([1.0, 2.0, -3.0])
    assert relative_l2(size * 2 * truth, size * truth) == pytest.approx(1.0)
