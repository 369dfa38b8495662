"""Values that nobody here computed, of shapes whose walls lie along the axes, met on a few grids and extrapolated.

Each value is computed on three or four grids; what is left of the error after terms of known order are taken out is the
test's tolerance. The orders are those of the strongest corner and the next ones.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse.linalg import eigsh
from scipy.special import ellipk

from beno.geometry.grid import Domain
from beno.problems.operator import poisson_operator
from beno.problems.problem import darcy, poisson
from beno.problems.solution import Solution, wall_values
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble

CENTRE, INTEGRAL = 0.07367135328151382, 0.03514425373878843
TORSION = 0.1405770149551537
CAPACITANCES = {0.5: 10.2340925693680517, 0.1: 2.8397774190522366, 0.7: 20.901581676413955}
STRIPLINE = 5.7644899242805
CORNER = 1 - 2 * np.log(2) / np.pi
EIGENVALUE = 9.63972384402194105
MOTZ = (401.162453745234416, 87.6559201950879, 17.2379150794468, -8.0712152596988)
KELLOGG = {"R": 161.4476387975881, "gamma": 0.1, "rho": np.pi / 4, "sigma": -14.92256510455152}


def extrapolated(values, *orders, ratio=2):
    """L. F. Richardson: each order's term is taken out by the next finer grid, ``ratio`` times as fine."""
    values = [np.asarray(value) for value in values]
    for order in orders:
        values = [fine + (fine - coarse) / (ratio**order - 1) for coarse, fine in pairwise(values)]
    return values[-1]


def solve(problem):
    return Direct().solve(problem)


def flow_through(solution: Solution, where: np.ndarray) -> float:
    """What enters through these panels, by the slope over the half cell beside them."""
    domain = solution.problem.domain
    panels = domain.panels
    slope = (wall_values(solution.problem, solution.u) - solution.u[panels.cell]) / (domain.spacing / 2)
    return float((slope * panels.lengths)[where].sum())


def along(domain):
    return (*domain.panels.centres.T, *domain.panels.normals.T)


# Torsion


@pytest.fixture(scope="module")
def twisted_square():
    return [solve(poisson(Domain.square(n), f=-1.0)) for n in (15, 45, 135)]


def test_the_deflection_of_the_square_at_its_centre(twisted_square):
    values = [solution.u[len(solution.u) // 2] for solution in twisted_square]
    assert values[-1] == pytest.approx(CENTRE, rel=1e-4)
    assert extrapolated(values, 2, 4, ratio=3) == pytest.approx(CENTRE, rel=1e-8)


def test_the_torsion_of_the_square(twisted_square):
    values = [solution.u.mean() for solution in twisted_square]
    integral = extrapolated(values, 2, 4, ratio=3)
    assert integral == pytest.approx(INTEGRAL, rel=3e-7)
    assert 4 * integral == pytest.approx(TORSION, rel=3e-7)


# Capacitances


def square_in_square(ratio, n):
    """C of the whole from a quarter, whose cuts are insulated."""
    hole = round(ratio * n)
    domain = Domain.square(n, [(hole, hole), None, None, None])
    x, y, nx, ny = along(domain)
    inner, outer = ((nx < 0) & (x > 0)) | ((ny < 0) & (y > 0)), (nx > 0) | (ny > 0)
    kind = np.where(inner | outer, Kind.DIRICHLET, Kind.NEUMANN)
    return 4 * flow_through(solve(poisson(domain, g=np.where(inner, 1.0, 0.0), kind=kind)), inner)


@pytest.mark.parametrize("ratio", CAPACITANCES)
def test_the_capacitance_of_a_square_in_a_square(ratio):
    values = [square_in_square(ratio, n) for n in (20, 40, 80, 160)]
    assert values[-1] == pytest.approx(CAPACITANCES[ratio], rel=2e-3)
    assert extrapolated(values, 4 / 3, 2) == pytest.approx(CAPACITANCES[ratio], rel=3e-6)


def stripline(n):
    """A quarter of a strip as wide as its plates are apart, both an eighth of the box; u has faded at its far end."""
    domain = Domain.from_mask(np.arange(n)[None, :] < n // 8 + np.zeros((n, 1)))
    x, _, _, ny = along(domain)
    plate, strip = ny > 0, (ny < 0) & (x < 1 / 8)
    kind = np.where(plate | strip, Kind.DIRICHLET, Kind.NEUMANN)
    return 4 * flow_through(solve(poisson(domain, g=np.where(strip, 1.0, 0.0), kind=kind)), strip)


def test_the_capacitance_of_a_strip_without_thickness():
    k = np.tanh(np.pi / 2)  # w / b = 1, by a conformal map
    assert 4 * ellipk(k**2) / ellipk(1 - k**2) == pytest.approx(STRIPLINE, rel=1e-11)
    values = [stripline(n) for n in (64, 128, 256)]
    assert extrapolated(values, 1, 2) == pytest.approx(STRIPLINE, rel=1e-6)


# Resistances


def bent_strip(n):
    """The squares of an L that is a quarter wide, less those of its two arms of three squares each."""
    mask = np.zeros((n, n), dtype=bool)
    mask[: n // 4], mask[:, : n // 4] = True, True
    domain = Domain.from_mask(mask)
    x, y, _, _ = along(domain)
    one, other = x > 1 - 1e-9, y > 1 - 1e-9
    kind = np.where(one | other, Kind.DIRICHLET, Kind.NEUMANN)
    return 1 / flow_through(solve(poisson(domain, g=np.where(one, 1.0, 0.0), kind=kind)), one) - 6


def test_the_squares_of_a_right_angled_corner():
    values = [bent_strip(n) for n in (32, 64, 128, 256)]
    assert extrapolated(values, 4 / 3, 2) == pytest.approx(CORNER, rel=4e-6)


@pytest.mark.parametrize("cuts", [[None] * 4, [None, (1, 2), None, (2, 1)]], ids=["square", "staircase"])
def test_the_modulus_of_a_quadrilateral_times_that_of_its_conjugate_is_one(cuts):
    def modulus(n, turn):
        domain = Domain.square(n, [cut and (cut[0] * n // 4, cut[1] * n // 4) for cut in cuts])
        panels = domain.panels
        quarter = (np.floor(4 * panels.arc_length / panels.ring_lengths[0]).astype(int) + turn) % 4
        kind = np.where(quarter % 2 == 0, Kind.DIRICHLET, Kind.NEUMANN)
        return flow_through(solve(poisson(domain, g=np.where(quarter == 0, 1.0, 0.0), kind=kind)), quarter == 0)

    one, other = (extrapolated([modulus(n, turn) for n in (32, 64, 128)], 1, 4 / 3) for turn in (0, 1))
    assert one * other == pytest.approx(1, abs=1e-4)


# The eigenvalue of the L


def test_the_first_eigenvalue_of_three_unit_squares():
    def eigenvalue(n):
        matrix = assemble(poisson_operator(Domain.square(n, [None, None, None, (n // 2, n // 2)]))).matrix
        return eigsh(matrix * n**2, k=1, sigma=0, return_eigenvectors=False)[0] / 4  # the box is two units wide

    values = [eigenvalue(n) for n in (16, 32, 64, 128)]
    assert values[-1] == pytest.approx(EIGENVALUE, rel=2e-3)
    assert extrapolated(values, 4 / 3, 2) == pytest.approx(EIGENVALUE, rel=5e-6)


# Singular solutions


def motz(n):
    """The first coefficients of r^(i + 1/2) cos((i + 1/2) θ), from u on a half circle; the box is two units wide."""
    domain = Domain.from_mask(np.arange(n)[None, :] < n // 2 + np.zeros((n, 1)))
    x, _, nx, ny = along(domain)
    hot, cold = nx > 0, (ny < 0) & (x < 0.5)
    kind = np.where(hot | cold, Kind.DIRICHLET, Kind.NEUMANN)
    solution = solve(poisson(domain, g=np.where(hot, 500.0, 0.0), kind=kind))
    angle, radius = (np.arange(400) + 0.5) / 400 * np.pi, 0.5
    u = solution.at(np.stack([0.5 + radius / 2 * np.cos(angle), radius / 2 * np.sin(angle)], axis=1))
    return np.array([2 * (u * np.cos((i + 0.5) * angle)).mean() / radius ** (i + 0.5) for i in range(4)])


def test_the_coefficients_of_the_motz_problem():
    found = extrapolated([motz(n) for n in (64, 128, 256)], 1)
    assert (np.abs(found / MOTZ - 1) < (1e-5, 2e-5, 2e-4, 5e-3)).all()


def kellogg(x, y):
    """R. B. Kellogg, Applicable Analysis 4 (1974), doi:10.1080/00036817408839086: kappa is R and 1 by quadrants."""
    gamma, rho, sigma = (KELLOGG[name] for name in ("gamma", "rho", "sigma"))
    r, angle = np.hypot(x - 0.5, y - 0.5), np.arctan2(y - 0.5, x - 0.5) % (2 * np.pi)
    parts = (
        np.cos((np.pi / 2 - sigma) * gamma) * np.cos((angle - np.pi / 2 + rho) * gamma),
        np.cos(rho * gamma) * np.cos((angle - np.pi + sigma) * gamma),
        np.cos(sigma * gamma) * np.cos((angle - np.pi - rho) * gamma),
        np.cos((np.pi / 2 - rho) * gamma) * np.cos((angle - 3 * np.pi / 2 - sigma) * gamma),
    )
    return r**gamma * np.choose((angle / (np.pi / 2)).astype(int) % 4, parts)


def test_the_interface_problem_of_kellogg_is_as_hard_as_it_is_said_to_be():
    """u is nearly r^0.1, so the order is 0.2: no grid helps much, and the error comes down nevertheless."""
    errors = []
    for n in (32, 64, 128, 256):
        domain = Domain.square(n)
        solution = solve(darcy(domain, lambda x, y: np.where((x - 0.5) * (y - 0.5) > 0, KELLOGG["R"], 1.0), g=kellogg))
        exact = kellogg(*domain.points.T)
        errors.append(np.linalg.norm(solution.u - exact) / np.linalg.norm(exact))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] < 0.035 and (np.diff(orders) > 0).all() and 0.1 < orders[-1] < 0.2
