"""Fields may be given as functions, arrays, stacks of arrays, tensors or numbers."""

import numpy as np
import pytest
import torch

from beno.problems.values import alike, rows_of, sizes, values_of
from beno.support.errors import BenoError

PLACES = np.random.default_rng(0).uniform(size=(6, 2))


def test_functions_arrays_tensors_and_numbers_say_the_same():
    x, y = PLACES.T
    for field in (lambda x, y: x + y, x + y, torch.as_tensor(x + y), lambda x, y: torch.as_tensor(x + y)):
        np.testing.assert_array_equal(np.asarray(rows_of("f", field, PLACES, "points")), x + y)
    for field in (3, 3.0, np.float32(3), np.full(6, 3), torch.tensor(3), lambda x, y: 3.0):
        np.testing.assert_array_equal(np.asarray(rows_of("f", field, PLACES, "points")), np.full(6, 3.0))


def test_stacks_stay_stacks_and_tensors_stay_tensors_of_their_precision():
    assert rows_of("f", np.ones((4, 6)), PLACES, "points").shape == (4, 6)
    single = rows_of("f", torch.ones(4, 6, requires_grad=True), PLACES, "points")
    assert single.shape == (4, 6) and single.dtype == torch.float32 and single.requires_grad
    assert rows_of("f", torch.ones(6, dtype=torch.int32), PLACES, "points").dtype == torch.float64


def test_what_is_read_is_a_copy_that_may_be_written_to():
    given = np.ones(6)
    for field in (given, lambda x, y: given, lambda x, y: x, 1.0):
        values = values_of("f", field, PLACES, "points")
        assert not np.shares_memory(values, given) and not np.shares_memory(values, PLACES)
        values[0] = 7.0
    assert (given == 1).all()


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (np.ones(5), r"f has shape \(5,\); the domain has 6 points"),
        (np.ones((6, 2)), r"f has shape \(6, 2\); the domain has 6 points"),
        (np.ones((1, 2, 6)), r"f has shape \(1, 2, 6\)"),
        (torch.ones(5), r"f has shape \(5,\); the domain has 6 points"),
        (np.array([1, 2, np.nan, 4, 5, 6]), "f is nan at point 2; it must be finite"),
        (torch.tensor([1, 2, torch.inf, 4, 5, 6]), "f is inf at point 2; it must be finite"),
        (np.where(np.eye(6) > 0, np.inf, 0)[3:], "f is inf at point 3 of row 0; it must be finite"),
        (np.nan, "f is nan at point 0"),
        (1j, "f is complex; real numbers are needed"),
        (torch.ones(6) * 1j, "f is complex; real numbers are needed"),
        ("one", "f cannot be read as numbers"),
        ([1, [2]], "f cannot be read as numbers"),
    ],
)
def test_what_is_no_field_is_refused_with_its_name_and_place(field, message):
    with pytest.raises(BenoError, match=message):
        rows_of("f", field, PLACES, "points")


def test_one_row_is_wanted_where_a_stack_or_a_tensor_makes_no_sense():
    with pytest.raises(BenoError, match=r"kappa has shape \(2, 6\); the domain has 6 points"):
        values_of("kappa", np.ones((2, 6)), PLACES, "points")
    with pytest.raises(BenoError, match="kappa is a tensor; it must be an array, a number or a function"):
        values_of("kappa", torch.ones(6), PLACES, "points")


@pytest.mark.parametrize(
    ("f", "g", "shapes"),
    [
        (np.ones(2), np.ones(3), ((2,), (3,))),
        (np.ones((4, 2)), np.ones(3), ((4, 2), (4, 3))),
        (np.ones(2), np.ones((4, 3)), ((4, 2), (4, 3))),
        (np.ones((1, 2)), np.ones((4, 3)), ((4, 2), (4, 3))),
        (np.ones((1, 2)), np.ones(3), ((1, 2), (1, 3))),
        (torch.ones(4, 2), np.ones(3), ((4, 2), (4, 3))),
        (np.ones(2), torch.ones(4, 3), ((4, 2), (4, 3))),
    ],
)
def test_one_row_goes_with_every_row_of_a_stack(f, g, shapes):
    both = alike(f, g)
    assert tuple(tuple(one.shape) for one in both) == shapes
    assert len({type(one) for one in both}) == 1


def test_an_array_beside_a_tensor_gets_its_precision():
    f, g = alike(torch.ones(2, dtype=torch.float32), np.full(3, 0.1))
    assert g.dtype == f.dtype == torch.float32


def test_stacks_of_different_heights_are_refused():
    with pytest.raises(BenoError, match="f has 3 rows and g has 2; stacks must have as many, or one"):
        alike(np.ones((3, 2)), np.ones((2, 3)))


def test_sizes_are_absolute_values_of_arrays_and_tensors():
    np.testing.assert_array_equal(sizes(np.array([-1.0, 2.0])), [1, 2])
    np.testing.assert_array_equal(sizes(torch.tensor([-1.0, 2.0])), [1, 2])
