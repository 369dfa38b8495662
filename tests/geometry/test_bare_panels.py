"""Domains without a grid: straight panels of any length and direction that close around their points."""

import numpy as np
import pytest
from hypothesis import example, given

from beno.geometry import bare_panels
from beno.geometry.bare_panels import BarePanels
from beno.geometry.base import Panels
from beno.support.errors import BenoError
from tests.strategies import annulus, disc, domains


def without_grid(domain):
    panels = domain.panels
    return BarePanels.from_panels(domain.points, panels.centres, panels.normals, panels.lengths)


@given(domains())
@example(annulus())
def test_points_see_the_walls_that_they_see_on_a_grid(domain):
    np.testing.assert_allclose(without_grid(domain).wall_distance, domain.wall_distance, atol=1e-12)


@given(domains())
@example(annulus())
def test_rings_are_those_of_the_grid(domain):
    np.testing.assert_array_equal(without_grid(domain).panels.ring, domain.panels.ring)


def test_unequal_slanted_panels_make_one_ring():
    bare = BarePanels.from_panels(*disc())
    assert (bare.panels.ring == 0).all() and len(bare.panels) == 80
    x, y = bare.points.T
    right = bare.wall_distance[:, 1]
    np.testing.assert_allclose(right, np.sqrt(0.4**2 - y**2) - x, atol=2e-3)  # as far as the circle, nearly


def test_points_may_be_looked_at_a_few_at_a_time(monkeypatch):
    whole = BarePanels.from_panels(*disc()).wall_distance
    monkeypatch.setattr(bare_panels, "PAIRS_AT_ONCE", 500)
    np.testing.assert_array_equal(BarePanels.from_panels(*disc()).wall_distance, whole)


def test_there_may_be_no_points():
    _, *panels = disc()
    assert BarePanels.from_panels(np.empty((0, 2)), *panels).wall_distance.shape == (0, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, c, n, s: (p, c[:0], n[:0], s[:0]), "no panels"),
        (lambda p, c, n, s: (p + 1, c, n, s), "outside the panels"),
        (lambda p, c, n, s: (p, c, n, s * np.linspace(1, 2, 80)), "do not close"),
        (lambda p, c, n, s: (p, c, 2 * n, s), "not of unit length"),
        (lambda p, c, n, s: (p, c, n, -s), "must be positive"),
        (lambda p, c, n, s: (p, np.where(c > 0.39, np.nan, c), n, s), "centres are not finite in row"),
        (lambda p, c, n, s: (p[:, :1], c, n, s), r"points have shape \(50, 1\)"),
        (lambda p, c, n, s: (p, c, n, s[:-1]), r"centres have shape \(80, 2\); \(79, 2\)"),
        (lambda p, c, n, s: (p, c[::-1], n[::-1], s[::-1]), "in the order of a walk"),
    ],
)
def test_what_is_no_boundary_around_the_points_is_refused(change, message):
    with pytest.raises(BenoError, match=message):
        BarePanels.from_panels(*change(*disc()))


def test_a_domain_without_panels_cannot_be_made():
    empty = np.empty((0, 2))
    with pytest.raises(BenoError, match="no panels"):
        BarePanels(np.zeros((1, 2)), Panels(empty, empty, np.empty(0), np.empty(0, dtype=int)), np.zeros((1, 4)))
