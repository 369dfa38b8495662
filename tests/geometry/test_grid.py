"""Domains of cells: their points, their neighbours, and the panels around them."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import ndimage

from beno.geometry.base import DIRECTIONS
from beno.geometry.grid import CORNER_NAMES, Domain, corner_of
from beno.support.errors import BenoError
from tests.strategies import annulus, domains

EVERY_SHAPE = domains()


def rings(domain):
    """The indices of each ring's panels, in order."""
    return [np.flatnonzero(domain.panels.ring == ring) for ring in range(domain.panels.ring.max() + 1)]


def panel_ends(domain):
    """Where each panel starts and ends if the inside is on its left."""
    panels = domain.panels
    tangent = panels.normals @ [[0, 1], [-1, 0]]
    half = tangent * panels.lengths[:, None] / 2
    return panels.centres - half, panels.centres + half


def signed_area(vertices):
    x, y = vertices.T
    return (x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def turns(domain):
    """The number of corners along the outer ring."""
    direction = domain.panels.direction[domain.panels.ring == 0]
    return int((direction != np.roll(direction, 1)).sum())


# The boundary


@given(EVERY_SHAPE)
@example(annulus())
def test_panels_are_consecutive_around_each_ring(domain):
    start, end = panel_ends(domain)
    for ring in rings(domain):
        np.testing.assert_allclose(end[ring], np.roll(start[ring], -1, axis=0), atol=1e-12)


@given(EVERY_SHAPE)
@example(annulus())
def test_outer_ring_is_counter_clockwise_and_holes_are_clockwise(domain):
    start, _ = panel_ends(domain)
    areas = np.array([signed_area(start[ring]) for ring in rings(domain)])
    assert areas[0] > 0
    assert (areas[1:] < 0).all()
    assert areas.sum() == pytest.approx(domain.area)


@given(EVERY_SHAPE)
@example(annulus())
def test_every_hole_has_a_ring_that_encloses_its_area(domain):
    start, _ = panel_ends(domain)
    outside, parts = ndimage.label(np.pad(~domain.mask, 1, constant_values=True))
    holes = [(outside == part).sum() * domain.spacing**2 for part in range(1, parts + 1) if part != outside[0, 0]]
    enclosed = [-signed_area(start[ring]) for ring in rings(domain)[1:]]
    np.testing.assert_allclose(sorted(enclosed), sorted(holes), atol=1e-12)


@given(EVERY_SHAPE)
@example(annulus())
def test_normals_close_around_each_ring(domain):
    panels = domain.panels
    for ring in rings(domain):
        np.testing.assert_allclose(panels.lengths[ring] @ panels.normals[ring], 0, atol=1e-12)


@given(EVERY_SHAPE)
@example(annulus())
def test_divergence_theorem_gives_twice_the_area(domain):
    panels = domain.panels
    outflow = (panels.centres * panels.normals).sum(axis=1) @ panels.lengths
    assert outflow == pytest.approx(2 * domain.area)


@given(EVERY_SHAPE)
def test_divergence_theorem_gives_the_centroid(domain):
    panels = domain.panels
    moment = panels.lengths @ (panels.centres**2 * panels.normals) / 2
    np.testing.assert_allclose(domain.centroid, moment / domain.area, atol=1e-12)


@given(EVERY_SHAPE)
@example(annulus())
def test_ring_starts_at_its_lowest_panel_the_leftmost_of_these(domain):
    steps = np.round(2 * domain.resolution * domain.panels.centres).astype(int)
    for ring in rings(domain):
        assert tuple(steps[ring[0], ::-1]) == min(map(tuple, steps[ring, ::-1]))


@given(EVERY_SHAPE)
def test_panels_do_not_depend_on_how_the_shape_was_made(domain):
    expected = domain.panels
    for mask in (domain.mask.tolist(), domain.mask.astype(int), np.asfortranarray(domain.mask)):
        panels = Domain.from_mask(np.array(mask)).panels
        for name in ("centres", "normals", "lengths", "ring", "direction", "cell"):
            np.testing.assert_array_equal(getattr(panels, name), getattr(expected, name))


@given(EVERY_SHAPE)
def test_panels_lie_between_an_inside_cell_and_the_outside(domain):
    panels = domain.panels
    np.testing.assert_array_equal(panels.normals, DIRECTIONS[panels.direction])
    np.testing.assert_allclose(
        panels.centres, domain.points[panels.cell] + panels.normals * domain.spacing / 2, atol=1e-12
    )
    padded = np.pad(domain.mask, 1)
    i, j = (domain.cells[panels.cell] + DIRECTIONS[panels.direction] + 1).T
    assert not padded[i, j].any()
    faces = np.diff(padded.astype(int), axis=0).astype(bool).sum() + np.diff(padded, axis=1).sum()
    assert len(panels) == faces


# The inside


@given(EVERY_SHAPE)
def test_points_numbers_and_cells_agree(domain):
    n = domain.resolution
    assert domain.area == pytest.approx(domain.mask.sum() / n**2)
    np.testing.assert_allclose(domain.points, (domain.cells + 0.5) / n)
    np.testing.assert_array_equal(domain.number[tuple(domain.cells.T)], np.arange(len(domain.points)))
    assert ((domain.number >= 0) == domain.mask).all()


@given(EVERY_SHAPE)
def test_neighbours_are_one_cell_away_and_mutual(domain):
    cell, direction = np.nonzero(domain.neighbours >= 0)
    near = domain.neighbours[cell, direction]
    np.testing.assert_array_equal(domain.cells[near], domain.cells[cell] + DIRECTIONS[direction])
    np.testing.assert_array_equal(domain.neighbours[near, direction ^ 1], cell)
    assert (domain.neighbours < 0).sum() == len(domain.panels)


@given(EVERY_SHAPE)
@example(annulus())
def test_wall_distance_equals_a_walk_to_the_first_wall(domain):
    padded = np.pad(domain.mask, 1)
    expected = np.empty((len(domain.cells), 4))
    for point, cell in enumerate(domain.cells):
        for direction, step in enumerate(DIRECTIONS):
            steps = 1
            while padded[tuple(cell + 1 + steps * step)]:
                steps += 1
            expected[point, direction] = (steps - 0.5) * domain.spacing
    np.testing.assert_allclose(domain.wall_distance, expected, atol=1e-12)


@given(EVERY_SHAPE)
def test_panel_at_a_point_is_that_of_its_cell_and_direction(domain):
    point, direction = np.nonzero(domain.panel_at >= 0)
    panel = domain.panel_at[point, direction]
    np.testing.assert_array_equal(domain.panels.cell[panel], point)
    np.testing.assert_array_equal(domain.panels.direction[panel], direction)
    np.testing.assert_array_equal(np.sort(panel), np.arange(len(domain.panels)))
    np.testing.assert_array_equal(domain.panel_at < 0, domain.neighbours >= 0)


@given(EVERY_SHAPE)
def test_wall_distance_is_half_a_cell_exactly_where_there_is_a_panel(domain):
    at_wall = np.isclose(domain.wall_distance, domain.spacing / 2)
    np.testing.assert_array_equal(at_wall, domain.neighbours < 0)


# Squares with cut corners


@pytest.mark.parametrize("corners", range(5))
def test_each_cut_adds_two_corners_and_keeps_the_perimeter_at_four(corners):
    cuts = [(4, 9), (14, 5), (8, 8), (11, 13)][:corners] + [None] * (4 - corners)
    domain = Domain.square(32, cuts)
    assert turns(domain) == 4 + 2 * corners
    assert domain.panels.ring_lengths == pytest.approx([4.0])
    assert domain.area == pytest.approx(1 - sum(width * height for width, height in cuts[:corners]) / 32**2)


@pytest.mark.parametrize(("corner", "at"), list(enumerate([(0, 0), (1, 0), (0, 1), (1, 1)])))
def test_cut_takes_the_corner_that_its_place_in_the_list_names(corner, at):
    cuts = [None] * 4
    cuts[corner] = (3, 5)
    outside = np.argwhere(~Domain.square(16, cuts).mask)
    assert outside.shape == (15, 2)
    np.testing.assert_array_equal(outside.max(axis=0) - outside.min(axis=0), (2, 4))
    assert (np.array(at) * 15 == outside).all(axis=1).any()
    assert CORNER_NAMES[corner] == f"{'upper' if at[1] else 'lower'} {'right' if at[0] else 'left'}"


@pytest.mark.parametrize(("corner", "at"), list(enumerate([(0, 0), (5, 0), (0, 3), (5, 3)])))
def test_corner_of_a_picture_is_the_rectangle_that_its_name_says(corner, at):
    picture = np.zeros((8, 8), dtype=int)
    picture[corner_of(corner, 3, 5)] = 1
    assert picture.sum() == 15 and tuple(np.argwhere(picture)[0]) == at


@pytest.mark.parametrize("corner", range(4))
@pytest.mark.parametrize("cut", [(8, 3), (3, 8)])
def test_cut_as_long_as_a_side_takes_the_whole_band(corner, cut):
    cuts = [None] * 4
    cuts[corner] = cut
    assert (~Domain.square(8, cuts).mask).sum() == 8 * 3


@pytest.mark.parametrize(("corner", "cut"), [(1, (11, 3)), (3, (11, 3)), (2, (3, 11)), (3, (3, 11))])
def test_cut_longer_than_a_side_takes_the_same_band_at_every_corner(corner, cut):
    mirrored = [None] * 4
    mirrored[corner] = cut
    expected = Domain.square(8, [cut, None, None, None]).mask
    expected = expected[::-1] if corner % 2 else expected
    expected = expected[:, ::-1] if corner >= 2 else expected
    np.testing.assert_array_equal(Domain.square(8, mirrored).mask, expected)


def test_mask_cannot_be_changed_after_the_fact():
    mask = np.ones((4, 4), dtype=bool)
    domain = Domain.from_mask(mask)
    mask[0, 0] = False
    assert domain.mask.all()
    with pytest.raises(ValueError, match="read-only"):
        domain.mask[0, 0] = False


# What is refused


def test_empty_mask_is_refused():
    with pytest.raises(BenoError, match="empty"):
        Domain.from_mask(np.zeros((5, 5), dtype=bool))


@pytest.mark.parametrize("shape", [(4, 5), (4,), (4, 4, 1), (1, 16)])
def test_mask_that_is_not_square_is_refused_with_its_shape(shape):
    with pytest.raises(BenoError, match=re.escape(str(shape))):
        Domain.from_mask(np.ones(shape, dtype=bool))


def test_disconnected_mask_is_refused_with_a_cell_of_each_part():
    mask = np.zeros((8, 8), dtype=bool)
    mask[1:3, 2:5] = mask[5:, 6:] = True
    with pytest.raises(BenoError, match=r"2 parts.*\(1, 2\), \(5, 6\)"):
        Domain.from_mask(mask)


@given(st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_pinched_mask_is_refused_with_the_two_cells_that_touch(i, j, rising):
    first, second = ((i + 1, j + 1), (i + 2, j + 2)) if rising else ((i + 2, j + 1), (i + 1, j + 2))
    mask = np.ones((7, 7), dtype=bool)
    mask[i + 1 : i + 3, j + 1 : j + 3] = False
    mask[first] = mask[second] = True
    with pytest.raises(BenoError, match=re.escape(f"{first} and {second} touch only at a point")):
        Domain.from_mask(mask)


@pytest.mark.parametrize("corner", range(4))
@pytest.mark.parametrize("cut", [(8, 8), (9, 8), (20, 20)])
def test_cut_that_swallows_the_square_is_refused_with_its_corner(corner, cut):
    cuts = [None] * 4
    cuts[corner] = cut
    with pytest.raises(BenoError, match=f"{cut[0]} x {cut[1]} cells at the {CORNER_NAMES[corner]} corner swallows"):
        Domain.square(8, cuts)


@pytest.mark.parametrize("cut", [(0, 2), (2, 0), (-1, 2)])
def test_cut_of_no_cells_is_refused_with_its_corner(cut):
    with pytest.raises(BenoError, match="lower right corner"):
        Domain.square(8, [None, cut, None, None])


def test_cuts_that_leave_nothing_or_fall_apart_are_refused():
    with pytest.raises(BenoError, match="empty"):
        Domain.square(8, [(8, 4), None, (8, 4), None])
    with pytest.raises(BenoError, match="2 parts"):
        Domain.square(8, [None, (4, 4), (4, 4), None])
    with pytest.raises(BenoError, match="four corners"):
        Domain.square(8, [None, None])
    with pytest.raises(BenoError, match="at least 1"):
        Domain.square(0)
