"""Walls and the corners they end in; near a corner the kernels are those of a wedge."""

import numpy as np
import pytest
import torch
from hypothesis import given

from beno.finite_volume import solve
from beno.geometry import Domain
from beno.nn.pairs import view
from beno.problem import Kind, poisson
from beno.walls import wall_ends
from tests.strategies import domains


def ends_of(domain):
    return wall_ends(domain.panels.normals, domain.panels.lengths, domain.panels.ring)


@given(domains(2))
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
    assert (panels.normals[ends.next_panel[:, 0]] * panels.normals).sum() == 0, "beyond a corner walls are at right angles"


def test_a_ring_without_corners_is_one_wall():
    around = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    ends = wall_ends(np.stack([np.cos(around), np.sin(around)], axis=1), np.full(60, 0.1), np.zeros(60, dtype=int))
    assert (ends.beside == 0).all() and ends.distance == pytest.approx(6.0)


def measures(domain, panel, kind=Kind.DIRICHLET):
    """What the scheme and the kernel between two corners say a panel has, at the domain's points."""
    g = np.zeros(len(domain.panels))
    g[panel] = 1.0
    exact = solve(poisson(domain, g=g, kind=kind)).u
    panels = domain.panels
    kinds = np.full(len(panels), kind) if isinstance(kind, Kind) else kind
    columns = ends_of(domain).as_columns(kinds)
    arrays = (domain.points, panels.centres, panels.normals, panels.lengths, columns)
    seen = view(*(torch.as_tensor(values, dtype=torch.float32)[None] for values in arrays))
    return exact, seen.log_measure[0, :, panel].exp().numpy()


def near(domain, corner, distance):
    return np.hypot(*(domain.points - corner).T) < distance


def test_in_a_quarter():
    """The square's lower left corner, from within an eighth of its side."""
    domain = Domain.square(64)
    for cells in (0, 2, 6):
        centre = np.array([(cells + 0.5) / 64, 0.0])
        panel = int(np.flatnonzero(np.all(np.isclose(domain.panels.centres, centre), axis=1))[0])
        exact, kernel = measures(domain, panel)
        here = near(domain, np.zeros(2), 0.12)
        assert np.linalg.norm((exact - kernel)[here]) < 0.02 * np.linalg.norm(exact[here])


def test_around_three_quarters():
    """An L's inner corner, in front of the panel and behind it."""
    mask = np.ones((96, 96), dtype=bool)
    mask[48:, 48:] = False
    domain = Domain.from_mask(mask)
    for cells in (1, 4):
        centre = np.array([0.5, 0.5 + (cells + 0.5) / 96])
        panel = int(np.flatnonzero(np.all(np.isclose(domain.panels.centres, centre), axis=1))[0])
        exact, kernel = measures(domain, panel)
        here = near(domain, np.array([0.5, 0.5]), 0.1)
        assert np.linalg.norm((exact - kernel)[here]) < 0.04 * np.linalg.norm(exact[here])
        behind = here & (domain.points[:, 0] > 0.5)
        assert np.linalg.norm((exact - kernel)[behind]) < 0.35 * np.linalg.norm(exact[behind])
        assert behind.sum() > 50


def test_beside_a_neumann_wall():
    """A panel of the floor, mirrored in a left wall through which nothing flows."""
    domain = Domain.square(64)
    kind = np.where(domain.panels.normals[:, 0] < 0, Kind.NEUMANN, Kind.DIRICHLET)
    centre = np.array([2.5 / 64, 0.0])
    panel = int(np.flatnonzero(np.all(np.isclose(domain.panels.centres, centre), axis=1))[0])
    exact, kernel = measures(domain, panel, kind)
    here = near(domain, np.zeros(2), 0.1)
    assert np.linalg.norm((exact - kernel)[here]) < 0.02 * np.linalg.norm(exact[here])
