"""Right-hand sides are vectors: they add, scale and stack; arrays stay arrays and tensors stay tensors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beno.problems.right_hand_side import RightHandSide
from beno.support.errors import BenoError
from tests.strategies import seeds

numbers = st.floats(-10, 10)


def some(seed, rows=None, tensors=False):
    rng = np.random.default_rng(seed)
    f, g = (rng.normal(size=(*(() if rows is None else (rows,)), places)) for places in (5, 7))
    return RightHandSide(torch.as_tensor(f), torch.as_tensor(g)) if tensors else RightHandSide(f, g)


def assert_close(one, other):
    np.testing.assert_allclose(np.asarray(one.f), np.asarray(other.f), atol=1e-12)
    np.testing.assert_allclose(np.asarray(one.g), np.asarray(other.g), atol=1e-12)


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("tensors", [False, True])
@given(seeds, numbers, numbers)
def test_they_are_a_vector_space(rows, tensors, seed, a, b):
    u, v, w = (some(seed + number, rows, tensors) for number in range(3))
    zero = 0 * u
    assert_close((u + v) + w, u + (v + w))
    assert_close(u + v, v + u)
    assert_close(u + zero, u)
    assert_close(u + (-u), zero)
    assert_close(u - v, u + (-v))
    assert_close(1 * u, u)
    assert_close(a * (b * u), (a * b) * u)
    assert_close(a * (u + v), a * u + a * v)
    assert_close((a + b) * u, a * u + b * u)
    assert_close(u * a, a * u)
    assert isinstance((a * u + v).f, torch.Tensor if tensors else np.ndarray)


@given(seeds)
def test_a_stack_holds_its_rows(seed):
    rows = [some(seed + number) for number in range(4)]
    stack = RightHandSide.stack(rows)
    assert stack.is_stack and len(stack) == 4 and not rows[0].is_stack and len(rows[0]) == 1
    for number, row in enumerate(rows):
        np.testing.assert_array_equal(stack[number].f, row.f)
        np.testing.assert_array_equal(stack[number].g, row.g)
    assert_close(2 * stack + stack, RightHandSide.stack([3 * row for row in rows]))


@pytest.mark.parametrize("rows", [None, 3])
def test_it_is_its_sources_and_its_boundary_values(rows):
    right = some(0, rows)
    assert_close(right.sources + right.boundary_values, right)
    assert (right.sources.g == 0).all() and (right.boundary_values.f == 0).all()


def test_rows_are_a_stack_also_of_one():
    f, g = some(0).rows()
    assert f.shape == (1, 5) and g.shape == (1, 7)
    f, g = some(0, 3, tensors=True).rows()
    assert isinstance(f, np.ndarray) and f.shape == (3, 5) and g.shape == (3, 7)


def test_what_is_not_both_one_row_or_both_stacks_of_equally_many_is_refused():
    one, stack = some(0), some(0, 3)
    for f, g in ((one.f, stack.g), (stack.f, one.g), (stack.f, stack.g[:2]), (stack.f[None], stack.g[None])):
        with pytest.raises(BenoError, match="each must be one row, or both stacks of equally many"):
            RightHandSide(f, g)


def test_gradients_pass_through_sums_and_multiples():
    right = some(0, tensors=True)
    right.g.requires_grad_()
    (2 * right - 3 * right).g.sum().backward()
    np.testing.assert_array_equal(right.g.grad, -1)


def test_numpy_numbers_multiply_from_either_side():
    right = some(0, 3)
    for number in (np.float64(2.0), np.ones(1)[0] * 2):
        assert_close(number * right, right + right)
        assert_close(right * number, right + right)
