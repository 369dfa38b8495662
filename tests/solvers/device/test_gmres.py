"""Flexible GMRES against SciPy's, row by row, on matrices of every kind that it may meet."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator
from scipy.sparse.linalg import gmres as scipy_gmres

from beno.solvers.device.gmres import flexible_gmres
from beno.support.errors import BenoError
from tests.strategies import seeds

TOLERANCE = 1e-10


def random_matrix(rng, size, symmetric):
    """With singular values between 1 and 100; positive where it is symmetric."""
    left, right = (np.linalg.qr(rng.normal(size=(size, size)))[0] for _ in range(2))
    return left * np.geomspace(1, 100, size) @ (left if symmetric else right).T


def as_map(matrix):
    matrix = torch.as_tensor(matrix)
    return lambda rows: rows @ matrix.T


def nothing(rows):
    return rows


def relative_residuals(matrix, u, vectors):
    return np.linalg.norm(vectors - u.numpy() @ matrix.T, axis=1) / np.linalg.norm(vectors, axis=1)


@given(size=st.integers(1, 40), rows=st.integers(1, 5), symmetric=st.booleans(), seed=seeds)
def test_every_row_meets_the_tolerance_and_is_the_direct_solution(size, rows, symmetric, seed):
    rng = np.random.default_rng(seed)
    matrix, vectors = random_matrix(rng, size, symmetric), rng.normal(size=(rows, size))
    u, steps = flexible_gmres(as_map(matrix), torch.as_tensor(vectors), nothing, TOLERANCE, restart=50)
    assert relative_residuals(matrix, u, vectors).max() <= 1.01 * TOLERANCE
    np.testing.assert_allclose(u, np.linalg.solve(matrix, vectors.T).T, atol=1e-7 * np.abs(vectors).max())
    assert steps <= size


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("restart", [7, 50])
@pytest.mark.parametrize("seed", range(3))
def test_it_takes_as_many_steps_as_scipy(seed, restart, symmetric):
    """Preconditioned from the right, so that SciPy's iterates for A P are the same."""
    rng = np.random.default_rng(seed)
    size = 50
    matrix = np.eye(size) + 0.4 * rng.normal(size=(size, size)) / np.sqrt(size)
    nearby = np.eye(size) + 0.2 * rng.normal(size=(size, size)) / np.sqrt(size)
    if symmetric:
        matrix, nearby = matrix @ matrix.T, nearby @ nearby.T
    vector = rng.normal(size=size)
    sizes: list[float] = []
    scipy_gmres(
        LinearOperator((size, size), lambda v: matrix @ (nearby @ v), dtype=float),
        vector,
        rtol=TOLERANCE,
        restart=restart,
        maxiter=100,
        callback=sizes.append,
        callback_type="pr_norm",
    )
    _, steps = flexible_gmres(
        as_map(matrix), torch.as_tensor(vector[None]), as_map(nearby), TOLERANCE, most_steps=500, restart=restart
    )
    assert abs(steps - len(sizes)) <= 1


@given(size=st.integers(2, 30), seed=seeds, restart=st.integers(3, 40))
def test_rows_together_are_solved_as_each_alone(size, seed, restart):
    rng = np.random.default_rng(seed)
    matrix = np.eye(size) + 0.3 * rng.normal(size=(size, size)) / np.sqrt(size)
    vectors = torch.as_tensor(rng.normal(size=(4, size)) * np.array([[1.0], [1e-12], [1e9], [0.0]]))
    vectors[1] = torch.as_tensor(matrix[:, 0])  # solved by a unit vector
    together, steps = flexible_gmres(as_map(matrix), vectors, nothing, TOLERANCE, 500, restart)
    alone = [flexible_gmres(as_map(matrix), row[None], nothing, TOLERANCE, 500, restart) for row in vectors]
    assert steps == max(taken for _, taken in alone)
    for row, (u, _) in zip(together, alone, strict=True):
        torch.testing.assert_close(row, u[0], rtol=0, atol=1e-8 * max(1e-300, float(u.abs().max())))


def test_a_preconditioner_near_the_inverse_saves_steps_and_may_change_and_be_coarse():
    rng = np.random.default_rng(0)
    size = 60
    matrix = random_matrix(rng, size, symmetric=False)
    inverse = torch.as_tensor(np.linalg.inv(matrix))
    vectors = torch.as_tensor(rng.normal(size=(3, size)))
    calls = []

    def coarse(rows):
        """In half precision, and another one at each call."""
        calls.append(rows)
        off = torch.randn(size, size, generator=torch.Generator().manual_seed(len(calls)), dtype=torch.float64)
        return (rows.bfloat16() @ (inverse + 1e-4 * off).bfloat16().T).double()

    u, steps = flexible_gmres(as_map(matrix), vectors, coarse, TOLERANCE)
    plain = flexible_gmres(as_map(matrix), vectors, nothing, TOLERANCE, restart=60)[1]
    assert relative_residuals(matrix, u, vectors.numpy()).max() <= TOLERANCE
    assert steps == len(calls) < 15 < plain


def test_a_singular_matrix_serves_where_the_vectors_lie_in_its_range():
    rng = np.random.default_rng(0)
    ones = np.ones((20, 20)) / 20
    matrix = (np.eye(20) - ones) @ random_matrix(rng, 20, symmetric=True) @ (np.eye(20) - ones)
    vectors = rng.normal(size=(2, 20))
    vectors -= vectors.mean(axis=1, keepdims=True)
    u, _ = flexible_gmres(as_map(matrix), torch.as_tensor(vectors), nothing, TOLERANCE)
    assert relative_residuals(matrix, u, vectors).max() <= 1.01 * TOLERANCE


def test_zeros_take_no_step():
    u, steps = flexible_gmres(as_map(np.eye(3)), torch.zeros(2, 3, dtype=torch.float64), nothing, TOLERANCE)
    assert steps == 0 and not u.any()
    assert flexible_gmres(as_map(np.eye(3)), torch.zeros(0, 3, dtype=torch.float64), nothing, TOLERANCE)[0].shape == (
        0,
        3,
    )


def test_rows_that_miss_the_tolerance_are_named():
    rng = np.random.default_rng(0)
    matrix = random_matrix(rng, 50, symmetric=False)
    vectors = rng.normal(size=(3, 50))
    vectors[1] = 0.0
    with pytest.raises(BenoError, match=r"GMRES has not met the tolerance of 1.0e-10 for rows 0, 2;"):
        flexible_gmres(as_map(matrix), torch.as_tensor(vectors), nothing, TOLERANCE, most_steps=5)


def test_what_rounding_cannot_reach_ends_in_an_error_not_in_all_steps():
    rng = np.random.default_rng(0)
    matrix, calls = random_matrix(rng, 20, symmetric=True), []

    def counted(rows):
        calls.append(rows)
        return rows

    with pytest.raises(BenoError, match="GMRES has not met"):
        flexible_gmres(as_map(matrix), torch.as_tensor(rng.normal(size=(1, 20))), counted, 1e-17, 10_000)
    assert len(calls) < 500


def test_a_preconditioner_whose_answers_are_no_numbers_ends_in_an_error():
    vectors = torch.ones(2, 3, dtype=torch.float64)
    with pytest.raises(BenoError, match=r"GMRES has not met the tolerance of 1.0e-10 for rows 0, 1;"):
        flexible_gmres(as_map(np.eye(3)), vectors, lambda rows: rows * np.nan, TOLERANCE)
