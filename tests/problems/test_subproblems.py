"""A part of a solved problem is a solved problem."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beno.datasets.doctor import diagnose
from beno.datasets.records import Sample
from beno.problems.families import Family
from beno.problems.problem import Kind
from beno.problems.subproblems import part_of, random_part, with_parts
from beno.solvers.finite_volumes import solve
from beno.support.errors import BenoError
from tests.strategies import problems


@given(problems(), st.integers(0, 2**32 - 1), st.sampled_from([Kind.DIRICHLET, Kind.NEUMANN]))
def test_a_part_satisfies_the_scheme(problem, seed, new_walls):
    sample = Sample.of(solve(problem))
    part = part_of(sample, random_part(np.random.default_rng(seed), sample.domain), new_walls)
    expected = part.u - part.u.mean() if part.problem.is_pure_neumann else part.u
    np.testing.assert_allclose(solve(part.problem.balanced()).u, expected, atol=1e-7 * (1 + np.abs(part.u).max()))
    assert diagnose(part).judged


@given(problems(), st.integers(0, 2**32 - 1))
def test_a_moved_part_is_a_solved_problem_in_the_box(problem, seed):
    sample = Sample.of(solve(problem))
    for part in with_parts(sample, 2, seed)[1:]:
        assert (part.domain.points.min(axis=0) > 0).all() and (part.domain.points.max(axis=0) < 1).all()
        np.testing.assert_allclose(part.domain.panels.centres, part.centres, atol=1e-12)
        expected = part.u - part.u.mean() if part.problem.is_pure_neumann else part.u
        np.testing.assert_allclose(solve(part.problem.balanced()).u, expected, atol=1e-7 * (1 + np.abs(part.u).max()))


def test_parts_of_crosses_reach_the_corners_of_the_box():
    samples = [Sample.of(solve(Family(resolution=16).problem(0, index))) for index in range(20)]
    assert not any(sample.domain.mask[0, 0] for sample in samples)
    parts = [part for seed, sample in enumerate(samples) for part in with_parts(sample, 4, seed)[1:]]
    assert sum(part.domain.mask[0, 0] for part in parts) >= 3


def test_the_whole_is_a_part_of_itself():
    sample = Sample.of(solve(Family("darcy", "mixed", resolution=16).problem(3, 0)))
    part = part_of(sample, sample.domain.mask)
    for name in ("points", "u", "centres", "kind", "g", "alpha", "coefficient", "panel_coefficient"):
        np.testing.assert_array_equal(getattr(part, name), getattr(sample, name))


def test_parts_of_a_cross_show_every_number_of_corners():
    domain = Family().problem(0, 0).domain
    rng = np.random.default_rng(0)
    turns = set()
    for _ in range(100):
        part = part_of(Sample.of(solve(Family().problem(0, 0))), random_part(rng, domain))
        turns.add(int((np.abs(np.diff(part.normals, axis=0, append=part.normals[:1])).sum(axis=1) > 0).sum()))
    assert {4, 6, 8, 10, 12} <= turns  # a rectangle has 4 corners, each cut adds two


def test_what_is_no_part_is_refused():
    sample = Sample.of(solve(Family(resolution=16).problem(0, 0)))
    with pytest.raises(BenoError, match="cells that the sample has not"):
        part_of(sample, np.ones((16, 16), dtype=bool))
    with pytest.raises(BenoError, match="Robin"):
        part_of(sample, sample.domain.mask, Kind.ROBIN)
