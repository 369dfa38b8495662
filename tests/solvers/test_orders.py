"""The orders at which the scheme's solution meets the equation's, as docs/solver.md says them.

Exact solutions: r^λ sin or cos λθ at one corner, with the λ that the corner's angle and walls give. The order in L2 is
the lesser of 2 and 2λ; it is measured from one grid to the next, and `expected_order` must say it.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from beno.geometry.grid import Domain
from beno.problems.problem import Problem, darcy, poisson
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.solvers.discretisation import estimate, expected_order

RESOLUTIONS = (32, 64, 128)


def relative_error(problem: Problem, exact: np.ndarray) -> float:
    exact = problem.operator.without_constant(exact)
    return float(np.linalg.norm(Direct().solve(problem).u - exact) / np.linalg.norm(exact))


def orders(errors) -> list[float]:
    return [float(np.log2(coarse / fine)) for coarse, fine in pairwise(errors)]


# Smooth solutions: 2


@pytest.mark.parametrize("kind", Kind)
def test_two_on_the_square_with_one_kind_of_wall(kind):
    def u(x, y):
        return np.exp(x) * np.sin(2 * y) + x**3

    def problem_at(n):
        domain = Domain.square(n)
        x, y = domain.panels.centres.T
        gradient = np.stack([np.exp(x) * np.sin(2 * y) + 3 * x**2, 2 * np.exp(x) * np.cos(2 * y)], axis=1)
        slope = (gradient * domain.panels.normals).sum(axis=1)
        g = {Kind.DIRICHLET: u(x, y), Kind.NEUMANN: slope, Kind.ROBIN: 2 * u(x, y) + slope}[kind]
        return poisson(domain, lambda x, y: -3 * np.exp(x) * np.sin(2 * y) + 6 * x, g, kind, 2.0).balanced()

    problems = [problem_at(n) for n in RESOLUTIONS]
    found = orders([relative_error(problem, u(*problem.domain.points.T)) for problem in problems])
    assert found == pytest.approx([2, 2], abs=0.1)
    assert expected_order(problems[0]) == 2


def peak(x, y):
    return np.exp(-50 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))


def of_peak(x, y):
    square = (x - 0.5) ** 2 + (y - 0.5) ** 2
    return (10000 * square - 200) * peak(x, y)


def front(x, y):
    return np.arctan(20 * (np.hypot(x + 0.05, y + 0.05) - 0.7))


def of_front(x, y):
    r = np.hypot(x + 0.05, y + 0.05)
    t = 20 * (r - 0.7)
    return -2 * 400 * t / (1 + t**2) ** 2 + 20 / (1 + t**2) / r


@pytest.mark.parametrize(("u", "f"), [(peak, of_peak), (front, of_front)], ids=["peak", "front"])
def test_two_at_peaks_and_fronts_once_the_grid_resolves_them(u, f):
    """W. F. Mitchell, A collection of 2D elliptic problems for testing adaptive algorithms, NISTIR 7668 (2010)."""
    problems = [poisson(Domain.square(n), f, u) for n in (64, 128, 256)]
    found = orders([relative_error(problem, u(*problem.domain.points.T)) for problem in problems])
    assert found == pytest.approx([2, 2], abs=0.1)


# Singular solutions: 2 λ


@dataclass(frozen=True)
class Corner:
    """A solution r^λ sin λθ, or cos, about a point, with θ counted from an angle."""

    place: tuple[float, float]
    start: float
    exponent: float
    is_cosine: bool

    def value(self, x, y):
        r, angle = self._polar(x, y)
        return r**self.exponent * self._wave(angle)

    def gradient(self, x, y):
        r, angle = self._polar(x, y)
        sine, cosine = np.sin(self.exponent * angle), np.cos(self.exponent * angle)
        size = self.exponent * r ** (self.exponent - 1)
        outward, around = (size * cosine, -size * sine) if self.is_cosine else (size * sine, size * cosine)
        along = angle + self.start
        return np.stack(
            [outward * np.cos(along) - around * np.sin(along), outward * np.sin(along) + around * np.cos(along)], axis=1
        )

    def _wave(self, angle):
        return np.cos(self.exponent * angle) if self.is_cosine else np.sin(self.exponent * angle)

    def _polar(self, x, y):
        x, y = x - self.place[0], y - self.place[1]
        return np.hypot(x, y), (np.arctan2(y, x) - self.start) % (2 * np.pi)


MIDDLE, RE_ENTRANT = (0.5, 0.5), np.pi / 2
CASES = {
    "Dirichlet at a re-entrant corner": (Corner(MIDDLE, RE_ENTRANT, 2 / 3, False), Kind.DIRICHLET, 4 / 3),
    "Neumann at a re-entrant corner": (Corner(MIDDLE, RE_ENTRANT, 2 / 3, True), Kind.NEUMANN, 4 / 3),
    "Robin at a re-entrant corner": (Corner(MIDDLE, RE_ENTRANT, 2 / 3, True), Kind.ROBIN, 4 / 3),
    "kinds that meet on a straight wall": (Corner((0.5, 0.0), 0.0, 1 / 2, False), None, 1.0),
    "kinds that meet at a re-entrant corner": (Corner(MIDDLE, RE_ENTRANT, 1 / 3, False), None, 2 / 3),
}


def singular(corner: Corner, kind: Kind | None, n: int) -> Problem:
    domain = Domain.square(n, [None, None, None, (n // 2, n // 2) if corner.place == MIDDLE else None])
    panels = domain.panels
    (x, y), (_, up) = panels.centres.T, panels.normals.T
    if kind is not None:
        kinds = np.full(len(panels), kind)
    elif corner.place == MIDDLE:
        kinds = np.where((up > 0) & (y == 0.5), Kind.NEUMANN, Kind.DIRICHLET)
    else:
        kinds = np.where((up < 0) & (x < 0.5), Kind.NEUMANN, Kind.DIRICHLET)
    slope, value = (corner.gradient(x, y) * panels.normals).sum(axis=1), corner.value(x, y)
    g = np.select([kinds == Kind.DIRICHLET, kinds == Kind.NEUMANN], [value, slope], slope + value)
    return poisson(domain, 0.0, g, kinds, 1.0).balanced()


@pytest.mark.parametrize("case", CASES)
def test_twice_the_exponent_at_a_corner(case):
    corner, kind, order = CASES[case]
    problems = [singular(corner, kind, n) for n in RESOLUTIONS]
    errors = [relative_error(problem, corner.value(*problem.domain.points.T)) for problem in problems]
    assert orders(errors) == pytest.approx([order] * 2, abs=0.04)
    assert expected_order(problems[0]) == pytest.approx(order)


@pytest.mark.parametrize("case", CASES)
def test_with_the_order_of_the_corner_two_grids_tell_the_error(case):
    corner, kind, _ = CASES[case]
    problem = singular(corner, kind, 32)
    told = estimate(problem, finer=lambda coarse: singular(corner, kind, 2 * coarse.domain.resolution))
    assert told == pytest.approx(relative_error(problem, corner.value(*problem.domain.points.T)), rel=0.05)


def test_one_where_kappa_jumps_across_the_grid():
    """A line of jumps that cuts through cells, which the harmonic mean on faces cannot see."""

    def kappa(x, y):
        return np.where(x + y < 1, 1.0, 100.0)

    def u(x, y):
        return np.where(x + y < 1, x + y - 1, (x + y - 1) / 100)

    problems = [darcy(Domain.square(n), kappa, 0.0, u) for n in RESOLUTIONS]
    found = orders([relative_error(problem, u(*problem.domain.points.T)) for problem in problems])
    assert found == pytest.approx([1, 1], abs=0.15)
    assert expected_order(problems[0]) == 1
