"""The eight symmetries of the square are a group, and places, pictures and panels move alike."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beno.geometry.base import DIRECTIONS
from beno.geometry.symmetries import (
    SYMMETRIES,
    about_centre,
    direction_before,
    is_mirrored,
    matrix,
    turned_domain,
    turned_picture,
)
from beno.support.errors import BenoError
from tests.strategies import annulus, domains

symmetries = st.integers(0, SYMMETRIES - 1)


def inverse_of(symmetry: int) -> int:
    return next(k for k in range(SYMMETRIES) if (matrix(k) @ matrix(symmetry) == np.eye(2)).all())


def test_there_are_eight_of_which_half_are_mirrored():
    assert len({matrix(symmetry).tobytes() for symmetry in range(SYMMETRIES)}) == 8
    assert (matrix(0) == np.eye(2)).all()
    assert sum(is_mirrored(symmetry) for symmetry in range(SYMMETRIES)) == 4


@pytest.mark.parametrize("symmetry", [-1, 8])
def test_a_ninth_symmetry_is_refused(symmetry):
    with pytest.raises(BenoError, match=f"no symmetry {symmetry}"):
        matrix(symmetry)


@given(symmetries, symmetries)
def test_one_symmetry_after_another_is_a_symmetry(first, second):
    both = matrix(second) @ matrix(first)
    assert any((both == matrix(symmetry)).all() for symmetry in range(SYMMETRIES))


@given(domains(), symmetries)
@example(annulus(), 5)
def test_places_pictures_and_directions_move_alike(domain, symmetry):
    turned, points, panels = turned_domain(domain, symmetry)
    move = matrix(symmetry)
    np.testing.assert_allclose(turned.points, about_centre(domain.points, move)[points], atol=1e-12)
    np.testing.assert_allclose(turned.panels.centres, about_centre(domain.panels.centres, move)[panels], atol=1e-12)
    np.testing.assert_array_equal(turned.panels.normals, domain.panels.normals[panels] @ move.T)
    np.testing.assert_array_equal(turned.mask, turned_picture(domain.mask, symmetry))
    before = direction_before(symmetry)
    np.testing.assert_array_equal(DIRECTIONS[before] @ move.T, DIRECTIONS)
    np.testing.assert_array_equal(turned.wall_distance, domain.wall_distance[points][:, before])


@given(domains(), symmetries)
@example(annulus(), 3)
def test_every_point_and_panel_goes_somewhere_and_comes_back(domain, symmetry):
    turned, points, panels = turned_domain(domain, symmetry)
    back, points_back, panels_back = turned_domain(turned, inverse_of(symmetry))
    np.testing.assert_array_equal(back.mask, domain.mask)
    np.testing.assert_array_equal(points[points_back], np.arange(len(domain.points)))
    np.testing.assert_array_equal(panels[panels_back], np.arange(len(domain.panels)))


@given(domains(2), symmetries)
def test_a_walk_around_the_boundary_goes_the_other_way_where_it_is_mirrored(domain, symmetry):
    _, _, panels = turned_domain(domain, symmetry)
    ring = domain.panels.ring[panels] == 0  # whichever ring comes first, the outer one comes first again
    first, second = panels[ring][:2]
    forwards = (second - first) % ring.sum() == 1
    assert forwards != is_mirrored(symmetry) or ring.sum() < 3
