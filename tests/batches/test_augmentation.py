"""What a step of training shows: drawn at random in the shares that were promised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beno.batches.augmentation import Augmentation, Selection
from beno.geometry.symmetries import SYMMETRIES
from tests.strategies import seeds


def rng():
    return np.random.default_rng(0)


def test_without_augmentation_everything_is_shown_whole_and_as_it_is():
    plain = Augmentation()
    assert plain.turns == 1
    assert not plain.choose_parts(rng(), 50).any() and not plain.choose_turns(rng(), 50).any()
    assert (plain.choose_signs(rng(), 50) == 1).all()


@pytest.mark.parametrize("parts", [1, 3])
def test_half_of_the_showings_are_whole_and_all_parts_take_turns(parts):
    shown = Augmentation(parts=parts).choose_parts(rng(), 4000)
    assert np.mean(shown == 0) == pytest.approx(0.5, abs=0.05)
    shares = np.bincount(shown, minlength=parts + 1)[1:] / 4000
    np.testing.assert_allclose(shares, 0.5 / parts, atol=0.05)


def test_symmetries_are_drawn_evenly_with_either_sign():
    augmentation = Augmentation(symmetries=True)
    turns, signs = augmentation.choose_turns(rng(), 4000), augmentation.choose_signs(rng(), 4000)
    assert augmentation.turns == SYMMETRIES
    np.testing.assert_allclose(np.bincount(turns) / 4000, 1 / SYMMETRIES, atol=0.03)
    assert set(signs) == {-1.0, 1.0} and abs(signs.mean()) < 0.1


@given(st.integers(1, 9), st.integers(1, 20), seeds)
def test_a_selection_is_filled_with_its_last_sample_and_taken_apart_row_by_row(count, wanted, seed):
    generator = np.random.default_rng(seed)
    rows, points = generator.integers(99, size=count), generator.integers(9, size=(count, 2))
    selection = Selection.of(rows, generator.normal(size=count), generator.integers(8, size=count), points)
    filled = selection.filled_to(wanted)
    assert len(filled) == wanted
    for row in range(wanted):
        one, source = filled.take(slice(row, row + 1)), min(row, count - 1)
        assert (one.rows, one.signs, one.turns) == (rows[source], selection.signs[source], selection.turns[source])
        np.testing.assert_array_equal(one.points[0], points[source])
    assert selection.filled_to(None) is selection


def test_a_selection_shows_all_points_unless_some_are_named():
    assert Selection.of(np.arange(3)).points.shape == (3, 0)
