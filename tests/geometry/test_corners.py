"""Walls and the corners they end in; near a corner the kernels are those of a wedge."""

import numpy as np
import pytest
import torch
from hypothesis import given

from beno.geometry.corners import wall_ends
from beno.geometry.grid import Domain
from beno.nn.pairs import view
from beno.problems.problem import Kind, poisson
from beno.solvers.finite_volumes import solve
from tests.strategies import domains


def ends_of(domain, kind=None):
    panels = domain.panels
    kind = np.zeros(len(panels), dtype=int) if kind is None else kind
    return wall_ends(panels.normals, panels.lengths, panels.ring, kind)


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
    assert (ends.sign == -1).all()


def test_a_ring_without_corners_is_one_wall():
    around = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    normals, nothing = np.stack([np.cos(around), np.sin(around)], axis=1), np.zeros(60, dtype=int)
    ends = wall_ends(normals, np.full(60, 0.1), nothing, nothing)
    assert (ends.beside == 0).all() and ends.distance == pytest.approx(6.0)


def measures(domain, panel, kind=Kind.DIRICHLET):
    """What the scheme and the kernel between two corners say a panel has, at the domain's points."""
    g = np.zeros(len(domain.panels))
    g[panel] = 1.0
    exact = solve(poisson(domain, g=g, kind=kind)).u
    panels = domain.panels
    kinds = np.full(len(panels), kind) if isinstance(kind, Kind) else kind
    columns = ends_of(domain, kinds).as_columns()
    arrays = (domain.points, panels.centres, panels.normals, panels.lengths, columns)
    tensors = (torch.as_tensor(values, dtype=torch.float32)[None] for values in arrays)
    seen = view(*tensors, is_flux=torch.as_tensor(kinds == Kind.NEUMANN)[None])
    return exact, seen.log_measure[0, :, panel].exp().numpy()


def panel_at(domain, x, y):
    return int(np.flatnonzero(np.all(np.isclose(domain.panels.centres, [x, y]), axis=1))[0])


def error_near(domain, place, distance, exact, kernel, among=True):
    here = (np.hypot(*(domain.points - np.array(place)).T) < distance) & among
    assert here.sum() > 30
    return np.linalg.norm((exact - kernel)[here]) / np.linalg.norm(exact[here])


@pytest.mark.parametrize("cells, tolerance", [(0, 0.15), (2, 0.01), (6, 0.01)])
def test_in_a_quarter(cells, tolerance):
    """The square's lower left corner. For the panel in the very corner the grid is felt in both walls."""
    domain = Domain.square(64)
    exact, kernel = measures(domain, panel_at(domain, (cells + 0.5) / 64, 0.0))
    assert error_near(domain, (0, 0), 0.12, exact, kernel) < tolerance


@pytest.mark.parametrize("cells", [1, 4])
def test_around_three_quarters(cells):
    """An L's inner corner, from in front of the panel and from behind it."""
    mask = np.ones((96, 96), dtype=bool)
    mask[48:, 48:] = False
    domain = Domain.from_mask(mask)
    exact, kernel = measures(domain, panel_at(domain, 0.5, 0.5 + (cells + 0.5) / 96))
    assert error_near(domain, (0.5, 0.5), 0.1, exact, kernel) < 0.04
    assert error_near(domain, (0.5, 0.5), 0.1, exact, kernel, among=domain.points[:, 0] > 0.5) < 0.2


def test_beside_a_neumann_wall():
    """A panel of the floor, mirrored in a left wall through which nothing flows."""
    domain = Domain.square(64)
    kind = np.where(domain.panels.normals[:, 0] < 0, Kind.NEUMANN, Kind.DIRICHLET)
    exact, kernel = measures(domain, panel_at(domain, 2.5 / 64, 0.0), kind)
    assert error_near(domain, (0, 0), 0.1, exact, kernel) < 0.01


@pytest.mark.parametrize("cells", [0, 2, 6])
def test_where_the_kind_changes_along_a_wall(cells):
    domain = Domain.square(64)
    left_of_floor = (domain.panels.centres[:, 1] == 0) & (domain.panels.centres[:, 0] < 0.5)
    kind = np.where(left_of_floor, Kind.NEUMANN, Kind.DIRICHLET)
    exact, kernel = measures(domain, panel_at(domain, 0.5 + (cells + 0.5) / 64, 0.0), kind)
    assert error_near(domain, (0.5, 0), 0.1, exact, kernel) < 0.08
