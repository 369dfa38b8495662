"""A solved problem, turned or mirrored, is a solved problem."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beno.datasets.doctor import diagnose
from beno.datasets.records import Sample
from beno.geometry.symmetries import SYMMETRIES, matrix, transformed
from beno.solvers.finite_volumes import solve
from beno.support.errors import BenoError
from tests.strategies import problems


@given(problems(), st.integers(0, SYMMETRIES - 1))
def test_a_transformed_sample_satisfies_its_equations(problem, symmetry):
    sample = Sample.of(solve(problem))
    moved = transformed(sample, symmetry).in_grid_order()
    np.testing.assert_allclose(solve(moved.problem).u, moved.u, atol=1e-8)
    assert diagnose(moved).judged
    panels = moved.domain.panels
    np.testing.assert_allclose(moved.normals, panels.normals, atol=1e-12)
    np.testing.assert_array_equal(moved.ring, panels.ring)


@given(problems(), st.integers(0, SYMMETRIES - 1))
def test_every_symmetry_has_an_inverse(problem, symmetry):
    sample = Sample.of(solve(problem))
    inverse = next(k for k in range(SYMMETRIES) if (matrix(k) @ matrix(symmetry) == np.eye(2)).all())
    back = transformed(transformed(sample, symmetry), inverse)
    np.testing.assert_allclose(back.points, sample.points, atol=1e-12)
    np.testing.assert_array_equal(back.u, sample.u)
    np.testing.assert_array_equal(back.g, sample.g)


def test_there_are_eight():
    assert len({matrix(symmetry).tobytes() for symmetry in range(SYMMETRIES)}) == 8
    with pytest.raises(BenoError, match="no symmetry 8"):
        matrix(8)
