"""The box's inverse times the box's matrix is the identity, and its table holds that inverse."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.operator import poisson_operator
from beno.solvers.box import inverse_laplacian
from beno.solvers.device.box import sine_box
from beno.solvers.finite_volumes import assemble
from tests.strategies import seeds

CPU = torch.device("cpu")


def dense_inverse(n):
    return np.linalg.inv(assemble(poisson_operator(Domain.square(n))).matrix.toarray())


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
def test_it_is_the_inverse_of_the_scheme_on_the_square(n):
    units = torch.eye(n * n, dtype=torch.float64).view(-1, n, n)
    columns = sine_box(n, CPU)(units).reshape(n * n, n * n)
    np.testing.assert_allclose(columns, dense_inverse(n), atol=1e-13)


@given(n=st.integers(1, 70), rows=st.integers(0, 3), seed=seeds)
def test_it_is_the_fast_transform(n, rows, seed):
    source = np.random.default_rng(seed).normal(size=(rows, n, n))
    found = sine_box(n, CPU)(torch.as_tensor(source))
    assert found.shape == (rows, n, n)
    for one, expected in zip(found, source, strict=True):
        np.testing.assert_allclose(one, inverse_laplacian(expected) * -(n**2), atol=1e-11 * n)


def test_single_precision_is_that():
    source = torch.randn(2, 32, 32, generator=torch.Generator().manual_seed(0))
    found = sine_box(32, CPU, torch.float32)(source)
    exact = sine_box(32, CPU)(source.double())
    assert found.dtype == torch.float32
    assert (found - exact).abs().max() < 1e-5 * exact.abs().max()


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_the_table_and_the_waves_across_make_every_entry_of_the_inverse(n):
    box = sine_box(n, CPU)
    entries = torch.einsum("abl,li,lj->aibj", box.table, box.waves, box.waves)
    np.testing.assert_allclose(entries.reshape(n * n, n * n), dense_inverse(n), atol=1e-13)


def test_it_is_made_once_for_a_size():
    assert sine_box(9, CPU) is sine_box(9, CPU)
    assert sine_box(9, CPU).table is sine_box(9, CPU).table
