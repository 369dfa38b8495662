"""In which cell a place lies, and what it sees from there."""

import numpy as np
import pytest
from hypothesis import example, given

from beno.geometry.base import DIRECTIONS
from beno.geometry.grid import Domain
from beno.geometry.location import cells_of, wall_distance_at
from beno.support.errors import BenoError
from tests.strategies import annulus, domains, seeds


@given(domains(), seeds)
@example(annulus(), 0)
def test_every_place_in_a_cell_belongs_to_it(domain, seed):
    rng = np.random.default_rng(seed)
    cell = rng.integers(len(domain.cells), size=40)
    places = (domain.cells[cell] + rng.uniform(0.001, 0.999, size=(40, 2))) * domain.spacing
    np.testing.assert_array_equal(cells_of(domain, places), cell)


def test_the_walls_of_the_square_belong_to_it():
    domain = Domain.square(8)
    corners = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(domain.cells[cells_of(domain, corners)], [[0, 0], [7, 7], [7, 0]])


@pytest.mark.parametrize("place", [(0.1, 0.1), (1.2, 0.5), (-0.1, 0.5), (np.nan, 0.5), (np.inf, 0.5), (0.5, -1e300)])
def test_a_place_outside_is_refused(place):
    domain = Domain.square(8, [(4, 3), None, None, None])
    with pytest.raises(BenoError, match="outside the domain"):
        cells_of(domain, np.array([[0.9, 0.9], place]))


def test_distances_to_the_walls_move_with_the_place():
    domain = Domain.square(8, [(4, 4), None, None, None])
    distance = wall_distance_at(domain, np.array([[0.6, 0.7], [0.3, 0.7]]))
    np.testing.assert_allclose(distance, [[0.6, 0.4, 0.7, 0.3], [0.3, 0.7, 0.2, 0.3]])


@given(domains(), seeds)
def test_a_step_towards_a_wall_shortens_the_way_to_it_by_as_much(domain, seed):
    rng = np.random.default_rng(seed)
    step = rng.uniform(-0.4, 0.4, size=domain.points.shape) * domain.spacing
    expected = domain.wall_distance - step @ DIRECTIONS.T
    np.testing.assert_allclose(wall_distance_at(domain, domain.points + step), expected, atol=1e-12)
