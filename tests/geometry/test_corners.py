"""Straight walls and the corners that they end in. What their kernels are is in tests/nn/test_pairs.py."""

import numpy as np
import pytest
from hypothesis import example, given

from beno.geometry.base import Panels
from beno.geometry.corners import wall_ends
from beno.geometry.grid import Domain
from beno.problems.walls import Kind
from tests.strategies import annulus, domains, kinds, seeds


def ends_of(domain, kind=None):
    kind = np.zeros(len(domain.panels), dtype=int) if kind is None else kind
    return wall_ends(domain.panels, kind, np.where(kind == Kind.DIRICHLET, -1.0, 1.0))


@given(domains(2))
@example(annulus())
def test_walls_close_around_every_ring(domain):
    ends, panels = ends_of(domain), domain.panels
    wall_length = ends.distance.sum(axis=1)
    assert (wall_length > 0).all() and (ends.distance >= panels.lengths[:, None] / 2 - 1e-12).all()
    for ring in range(len(panels.ring_lengths)):
        here = panels.ring == ring
        # A wall of k panels is counted k times, each time with one k-th of itself.
        walls = (panels.lengths[here] / wall_length[here]).sum()
        turned = (np.pi - ends.angle[here, 1]) * panels.lengths[here] / wall_length[here]
        assert walls == pytest.approx(round(walls))
        assert turned.sum() == pytest.approx(2 * np.pi if ring == 0 else -2 * np.pi)
    assert set(np.round(np.degrees(ends.angle.ravel()))) <= {90.0, 270.0}
    assert (ends.sign == -1).all()


@given(domains(2), seeds)
def test_the_end_ahead_is_beside_the_next_wall_whose_kind_gives_the_sign(domain, seed):
    panels = domain.panels
    kind = kinds(np.random.default_rng(seed), "mixed", len(panels))
    ends = ends_of(domain, kind)
    length = ends.distance.sum(axis=1)
    for ring in range(len(panels.ring_lengths)):
        here = np.flatnonzero(panels.ring == ring)
        following = np.roll(here, -1)
        last = np.isclose(ends.distance[here, 1], panels.lengths[here] / 2)  # the last panel of its wall
        np.testing.assert_allclose(ends.beside[here, 1][last], length[following][last])
        np.testing.assert_allclose(ends.beside[following, 0][last], length[here][last])
        np.testing.assert_array_equal(ends.angle[here, 1][last], ends.angle[following, 0][last])
        expected = np.where(kind[following] == Kind.DIRICHLET, -1, 1)
        np.testing.assert_array_equal(ends.sign[here, 1][last], expected[last])
        assert (kind[here] == kind[following])[~last].all()


def test_where_only_the_kind_changes_the_angle_is_straight():
    domain = Domain.square(8)
    kind = np.where(domain.panels.centres[:, 0] < 0.5, Kind.NEUMANN, Kind.DIRICHLET)
    ends = ends_of(domain, kind)
    floor = domain.panels.centres[:, 1] == 0
    np.testing.assert_allclose(np.degrees(ends.angle[floor & (kind == Kind.NEUMANN)]), [[90, 180]] * 4)
    np.testing.assert_array_equal(ends.sign[floor & (kind == Kind.NEUMANN)], [[1, -1]] * 4)


def test_a_ring_without_corners_is_one_wall():
    around = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    normals, nothing = np.stack([np.cos(around), np.sin(around)], axis=1), np.zeros(60, dtype=int)
    ends = wall_ends(Panels(normals, normals, np.full(60, 0.1), nothing), nothing, np.full(60, -1.0))
    assert (ends.beside == 0).all() and ends.distance == pytest.approx(6.0)
    assert (ends.sign == 0).all() and (ends.angle == np.pi).all()
    assert ends.as_columns().shape == (60, 8)
