"""The kernels of a straight wall are the scheme's own: a wall of a large square, far from its corners, has them."""

import numpy as np
import pytest

from beno.geometry.grid import Domain
from beno.nn.half_plane import ROWS, dirichlet_correction, mean_log_kernel, neumann_correction, subtended_angle
from beno.problems.problem import poisson
from beno.problems.walls import Kind
from beno.solvers.multigrid import Multigrid

SIDE, NEAR = 256, 8
AWAY, ALONG = (np.arange(NEAR) + 0.5)[:, None], np.arange(NEAR + 1.0)[None, :]


def response_to_one_panel(kind_of_floor):
    """u in the rows beside the floor, to either side of the one panel in its middle that has g = 1."""
    domain = Domain.square(SIDE)
    floor = domain.panels.centres[:, 1] == 0
    middle = floor & (np.abs(domain.panels.centres[:, 0] - (SIDE / 2 + 0.5) / SIDE) < 1e-9)
    kind = np.where(floor, kind_of_floor, Kind.DIRICHLET)
    u = Multigrid().solve(poisson(domain, g=middle.astype(float), kind=kind)).u.reshape(SIDE, SIDE)
    return u[SIDE // 2 : SIDE // 2 + NEAR + 1, :NEAR].T


def test_the_measure_of_a_panel_is_the_schemes():
    kernel = np.exp(dirichlet_correction())[:NEAR, : NEAR + 1] * subtended_angle(AWAY, ALONG) / np.pi
    np.testing.assert_allclose(response_to_one_panel(Kind.DIRICHLET), kernel, rtol=5e-3)
    assert np.abs(dirichlet_correction()).max() > 0.15, "the straight wall's angle alone is this far off"


def test_the_potential_of_a_flux_is_the_schemes():
    kernel = neumann_correction()[:NEAR, : NEAR + 1] + mean_log_kernel(AWAY, ALONG)
    response = response_to_one_panel(Kind.NEUMANN) * SIDE  # g is a slope, over a panel of length 1 / SIDE
    difference = response - kernel  # the walls far away add what is nearly a constant
    assert np.ptp(difference) < 2e-3 and np.ptp(kernel) > 0.9


@pytest.mark.parametrize("correction", [dirichlet_correction, neumann_correction])
def test_far_away_the_grid_is_not_felt(correction):
    edge = np.concatenate([correction()[-1], correction()[:, -1]])
    assert np.abs(edge).max() < 2e-3
    assert correction().shape == (ROWS, ROWS + 1)


def test_every_row_of_the_measure_adds_up_to_one():
    """Over the whole wall; what lies beyond the table has the angle's share."""
    kernel = np.exp(dirichlet_correction()) * subtended_angle(
        (np.arange(ROWS) + 0.5)[:, None], np.arange(ROWS + 1.0)[None]
    )
    both_sides = kernel[:, 0] + 2 * kernel[:, 1:].sum(axis=1)
    beyond = 2 * np.arctan((np.arange(ROWS) + 0.5) / (ROWS + 0.5))
    np.testing.assert_allclose((both_sides + beyond) / np.pi, 1.0, atol=2e-4)
