"""A part of a solved problem is a solved problem."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beno.datasets.doctor import diagnose
from beno.datasets.records import Record
from beno.problems.families import Family
from beno.problems.subproblems import part_of, random_part, shifted, with_parts
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.strategies import problems, seeds


def solve(problem):
    return Direct().solve(problem)


def assert_satisfies_the_scheme(solution):
    expected = solution.problem.operator.without_constant(solution.u)
    size = 1 + np.abs(solution.u).max()
    np.testing.assert_allclose(solve(solution.problem.balanced()).u, expected, atol=1e-7 * size)


@given(problems(), seeds, st.sampled_from([Kind.DIRICHLET, Kind.NEUMANN]))
def test_a_part_satisfies_the_scheme(problem, seed, new_walls):
    part = part_of(solve(problem), random_part(np.random.default_rng(seed), problem.domain), new_walls)
    assert_satisfies_the_scheme(part)
    assert diagnose(Record.of(part)).judged


@given(problems(), seeds)
def test_a_moved_part_is_a_solved_problem_in_the_box(problem, seed):
    for part in with_parts(solve(problem), 2, seed)[1:]:
        points = part.problem.domain.points
        assert (points.min(axis=0) > 0).all() and (points.max(axis=0) < 1).all()
        assert_satisfies_the_scheme(part)


def test_a_shifted_solution_has_the_same_values_at_places_further_on():
    solution = solve(Family("darcy", "mixed", resolution=16).problem(3, 0))
    inside = solution.problem.domain.mask.copy()
    inside[:5] = inside[:, :3] = False
    part = part_of(solution, inside)
    low = part.problem.domain.cells.min(axis=0)
    moved = shifted(part, -low)
    step = -low / 16
    np.testing.assert_allclose(moved.problem.domain.points, part.problem.domain.points + step)
    np.testing.assert_allclose(moved.problem.domain.panels.centres, part.problem.domain.panels.centres + step)
    for name, values in part.values.items():
        np.testing.assert_array_equal(moved.values[name], values)


def test_parts_of_crosses_reach_the_corners_of_the_box():
    solutions = [solve(Family(resolution=16).problem(0, index)) for index in range(20)]
    assert not any(solution.problem.domain.mask[0, 0] for solution in solutions)
    parts = [part for seed, solution in enumerate(solutions) for part in with_parts(solution, 4, seed)[1:]]
    assert sum(part.problem.domain.mask[0, 0] for part in parts) >= 3


def test_the_same_seed_cuts_the_same_parts_and_the_whole_comes_first():
    solution = solve(Family(resolution=16).problem(0, 1))
    one, other = (with_parts(solution, 3, 7) for _ in range(2))
    assert one[0] is solution and len(one) == 4
    for part, again in zip(one[1:], other[1:], strict=True):
        np.testing.assert_array_equal(part.problem.domain.mask, again.problem.domain.mask)
        np.testing.assert_array_equal(part.u, again.u)


def test_new_walls_are_neumann_where_all_walls_are_and_dirichlet_elsewhere():
    for boundary, kind in (("neumann", Kind.NEUMANN), ("robin", Kind.DIRICHLET), ("mixed", Kind.DIRICHLET)):
        solution = solve(Family(boundary=boundary, resolution=16).problem(0, 1))
        kinds = set().union(*(part.problem.walls.kinds for part in with_parts(solution, 4, 0)[1:]))
        assert kinds == solution.problem.walls.kinds | {kind}


def test_parts_of_a_cross_show_every_number_of_corners():
    solution, rng = solve(Family().problem(0, 0)), np.random.default_rng(0)
    turns = set()
    for _ in range(100):
        normals = part_of(solution, random_part(rng, solution.problem.domain)).problem.domain.panels.normals
        turns.add(int((np.abs(np.diff(normals, axis=0, append=normals[:1])).sum(axis=1) > 0).sum()))
    assert {4, 6, 8, 10, 12} <= turns  # a rectangle has 4 corners, each cut adds two


def test_what_is_no_part_is_refused():
    solution = solve(Family(resolution=16).problem(0, 0))
    with pytest.raises(BenoError, match="cells that the whole has not"):
        part_of(solution, np.ones((16, 16), dtype=bool))
    with pytest.raises(BenoError, match="Robin"):
        part_of(solution, solution.problem.domain.mask, Kind.ROBIN)
