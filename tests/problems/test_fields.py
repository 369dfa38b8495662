"""Storing, taking, turning, signing and restricting go by the table of fields, so each of these tests does too."""

import numpy as np
import pytest

from beno.datasets.dataset import Dataset
from beno.datasets.hdf5 import Block, write
from beno.datasets.metadata import Metadata
from beno.datasets.records import Record
from beno.geometry.symmetries import SYMMETRIES, about_centre, matrix, turned_domain
from beno.problems.families import Family
from beno.problems.fields import BY_NAME, FIELDS, moved, signed, taken
from beno.problems.problem import Problem
from beno.problems.subproblems import part_of
from beno.problems.turned import turned, with_sign
from beno.solvers.direct import Direct
from tests.strategies import annulus, random_problem

SOLUTION = Direct().solve(random_problem(annulus(), "darcy", "mixed", seed=0))
VALUES = Record.of(SOLUTION).values
PLACES = {"points": VALUES["points"], "panels": VALUES["centres"]}
each_field = pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)


def test_the_largest_problem_has_every_field_and_no_other():
    assert VALUES.keys() == BY_NAME.keys() and len(BY_NAME) == len(FIELDS)
    assert len({(field.on, field.stored_as) for field in FIELDS}) == len(FIELDS)


@each_field
def test_a_field_has_one_row_for_each_of_its_places_and_the_columns_of_its_form(field):
    assert VALUES[field.name].shape == (len(PLACES[field.on]), *field.columns)
    assert VALUES[field.name].dtype.kind == np.dtype(field.dtype).kind


@each_field
def test_it_is_taken_at_the_places_asked_for(field):
    index = {"points": np.array([5, 2, 9]), "panels": np.array([3, 30])}
    result = taken(VALUES, index["points"], index["panels"])[field.name]
    np.testing.assert_array_equal(result, VALUES[field.name][index[field.on]])


@each_field
def test_it_changes_sign_if_it_is_data(field):
    sign = -2.0 if field.part_of == "data" else 1.0
    np.testing.assert_array_equal(signed(VALUES, -2.0)[field.name], sign * VALUES[field.name])


@each_field
def test_it_moves_as_its_form_says(field):
    result = moved(VALUES, place=lambda places: places + 1, vector=lambda vectors: 2 * vectors)[field.name]
    expected = {"place": lambda v: v + 1, "vector": lambda v: 2 * v, "scalar": lambda v: v}[field.form]
    np.testing.assert_array_equal(result, expected(VALUES[field.name]))


@each_field
def test_it_comes_back_from_a_file_to_the_bit(field, tmp_path):
    metadata = Metadata.of_family(Family("darcy", "mixed", resolution=8), 0, 2)
    write(tmp_path / "data.h5", metadata, [Block.pack([SOLUTION]), Block.pack([Record.of(SOLUTION)])])
    with Dataset(tmp_path / "data.h5") as dataset:
        for values in (dataset.record(0).values, dataset.record(1).values, Record.of(dataset[1]).values):
            np.testing.assert_array_equal(values[field.name], VALUES[field.name])


@each_field
@pytest.mark.parametrize("symmetry", range(SYMMETRIES))
def test_it_turns_with_the_square(field, symmetry):
    _, points, panels = turned_domain(SOLUTION.problem.domain, symmetry)
    move = matrix(symmetry)
    expected = VALUES[field.name][{"points": points, "panels": panels}[field.on]]
    if field.form == "place":
        expected = about_centre(expected, move)
    elif field.form == "vector":
        expected = expected @ move.T
    result = Record.of(turned(SOLUTION, symmetry))[field.name]
    if field.name == "ring":  # numbered by where rings start, which a turn may change
        expected = result if len(np.unique(result)) == len(np.unique(expected)) else None
    np.testing.assert_allclose(result, expected, atol=1e-12)


@each_field
def test_it_takes_the_sign_of_a_solution(field):
    sign = -1 if field.part_of == "data" else 1
    np.testing.assert_array_equal(Record.of(with_sign(SOLUTION, -1))[field.name], sign * VALUES[field.name])


@each_field
def test_it_is_restricted_to_a_part_where_the_part_is_the_whole(field):
    part = part_of(SOLUTION, SOLUTION.problem.domain.mask)
    np.testing.assert_array_equal(Record.of(part)[field.name], VALUES[field.name])


@each_field
def test_it_is_kept_where_a_part_keeps_the_place(field):
    domain = SOLUTION.problem.domain
    inside = domain.mask.copy()
    inside[:2] = False
    part = Record.of(part_of(SOLUTION, inside))
    stays = {on: {tuple(np.round(16 * place)): row for row, place in enumerate(PLACES[on])} for on in PLACES}
    there = {"points": part["points"], "panels": part["centres"]}[field.on]
    old = np.array([stays[field.on].get(tuple(np.round(16 * place)), -1) for place in there])
    assert (old >= 0).sum() > 20
    if field.name != "ring":
        np.testing.assert_array_equal(part[field.name][old >= 0], VALUES[field.name][old[old >= 0]])


@pytest.mark.parametrize("field", [field for field in FIELDS if field.part_of != "geometry"], ids=lambda f: f.name)
def test_it_comes_back_from_the_values_of_a_solution(field):
    again = type(SOLUTION).from_values(SOLUTION.problem.domain, SOLUTION.values)
    np.testing.assert_array_equal(again.values[field.name], VALUES[field.name])
    if field.name != "u":
        problem = Problem.from_values(SOLUTION.problem.domain, SOLUTION.problem.values)
        np.testing.assert_array_equal(problem.values[field.name], VALUES[field.name])
