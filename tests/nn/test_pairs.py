"""Near a corner the kernels are those of a wedge: held against what the scheme says that a panel's g does."""

import numpy as np
import pytest
import torch

from beno.geometry.corners import wall_ends
from beno.geometry.grid import Domain
from beno.nn.pairs import view
from beno.problems.problem import poisson
from beno.problems.walls import Kind
from beno.solvers.direct import Direct


def measures(domain, panel, kind=Kind.DIRICHLET):
    """What the scheme and the kernel between two corners say a panel has, at the domain's points."""
    panels = domain.panels
    exact = Direct().solve(poisson(domain, g=np.eye(len(panels))[panel], kind=kind)).u
    kinds = np.full(len(panels), kind) if isinstance(kind, Kind) else kind
    columns = wall_ends(panels, kinds, np.where(kinds == Kind.DIRICHLET, -1.0, 1.0)).as_columns()
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
def test_the_kernel_in_a_quarter_is_that_of_the_square_near_its_corner(cells, tolerance):
    """The square's lower left corner. For the panel in the very corner the grid is felt in both walls."""
    domain = Domain.square(64)
    exact, kernel = measures(domain, panel_at(domain, (cells + 0.5) / 64, 0.0))
    assert error_near(domain, (0, 0), 0.12, exact, kernel) < tolerance


@pytest.mark.parametrize("cells", [1, 4])
def test_the_kernel_in_three_quarters_is_that_of_an_l_near_its_inner_corner(cells):
    """From in front of the panel and from behind it."""
    mask = np.ones((96, 96), dtype=bool)
    mask[48:, 48:] = False
    domain = Domain.from_mask(mask)
    exact, kernel = measures(domain, panel_at(domain, 0.5, 0.5 + (cells + 0.5) / 96))
    assert error_near(domain, (0.5, 0.5), 0.1, exact, kernel) < 0.04
    assert error_near(domain, (0.5, 0.5), 0.1, exact, kernel, among=domain.points[:, 0] > 0.5) < 0.2


def test_a_panel_beside_a_neumann_wall_is_mirrored_in_it():
    """A panel of the floor, and a left wall through which nothing flows."""
    domain = Domain.square(64)
    kind = np.where(domain.panels.normals[:, 0] < 0, Kind.NEUMANN, Kind.DIRICHLET)
    exact, kernel = measures(domain, panel_at(domain, 2.5 / 64, 0.0), kind)
    assert error_near(domain, (0, 0), 0.1, exact, kernel) < 0.01


@pytest.mark.parametrize("cells", [0, 2, 6])
def test_the_kernel_holds_where_the_kind_changes_along_a_wall(cells):
    domain = Domain.square(64)
    left_of_floor = (domain.panels.centres[:, 1] == 0) & (domain.panels.centres[:, 0] < 0.5)
    kind = np.where(left_of_floor, Kind.NEUMANN, Kind.DIRICHLET)
    exact, kernel = measures(domain, panel_at(domain, 0.5 + (cells + 0.5) / 64, 0.0), kind)
    assert error_near(domain, (0.5, 0), 0.1, exact, kernel) < 0.08
