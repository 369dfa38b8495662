"""Panels along their rings, whatever domain they surround."""

import numpy as np
import pytest
from hypothesis import example, given

from beno.geometry.bare_panels import BarePanels
from beno.geometry.base import DIRECTION_NAMES, DIRECTIONS, Geometry, Panels
from tests.strategies import annulus, disc, domains


@given(domains())
@example(annulus())
def test_arc_length_runs_from_half_a_panel_to_the_length_of_its_ring(domain):
    panels = domain.panels
    for number, length in enumerate(panels.ring_lengths):
        ring = np.flatnonzero(panels.ring == number)
        expected = (np.arange(len(ring)) + 0.5) * domain.spacing
        np.testing.assert_allclose(panels.arc_length[ring], expected, atol=1e-12)
        assert length == pytest.approx(len(ring) * domain.spacing)


def test_arc_length_grows_by_half_of_each_of_two_neighbours_where_lengths_differ():
    _, centres, normals, lengths = disc()
    panels = Panels(centres, normals, lengths, np.zeros(len(lengths), dtype=int))
    np.testing.assert_allclose(np.diff(panels.arc_length), (lengths[1:] + lengths[:-1]) / 2)
    assert panels.arc_length[-1] + lengths[-1] / 2 == pytest.approx(panels.ring_lengths[0])


def test_directions_are_of_unit_length_in_pairs_of_opposites():
    np.testing.assert_array_equal(np.abs(DIRECTIONS).sum(axis=1), 1)
    np.testing.assert_array_equal(DIRECTIONS[np.arange(4) ^ 1], -DIRECTIONS)
    for name, (x, y) in zip(DIRECTION_NAMES, DIRECTIONS.tolist(), strict=True):
        assert name == ("+" if x + y > 0 else "-") + ("x" if x else "y")


def test_domains_of_cells_and_bare_panels_are_geometries():
    assert isinstance(annulus(), Geometry)
    assert isinstance(BarePanels.from_panels(*disc()), Geometry)
