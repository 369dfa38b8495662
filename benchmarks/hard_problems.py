"""Problems that are drawn to break solvers, and their solutions by decimal arithmetic of fifty digits.

Shapes are thin, perforated, ragged or whole; walls are of one kind or mixed, alpha from 1e-12 to 1e12; kappa spans up
to six powers of ten, smoothly, in channels or at random; data are of any size between 1e-300 and 1e300.
"""

from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from scipy import ndimage

from beno.geometry.grid import Domain
from beno.problems.operator import Elliptic, darcy_operator, poisson_operator
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind
from beno.solvers.base import Prepared
from beno.solvers.direct import Direct
from beno.support.errors import BenoError

SHAPES = ("square", "cut", "thin", "perforated", "ragged")
WALLS = ("dirichlet", "neumann", "robin", "many alphas", "mixed")
COEFFICIENTS = ("poisson", "smooth", "channels", "random")
DIGITS, SETTLED, MOST_PASSES = 50, Decimal("1e-32"), 80
LARGEST = 1e305  # of a solution, so that its error and its bound are numbers too


@dataclass(frozen=True, eq=False)
class HardProblem:
    """An operator, a right-hand side of size about one, and the power of two to scale it by."""

    shape: str
    walls: str
    coefficient: str
    operator: Elliptic
    unscaled: RightHandSide
    power: int

    @property
    def right(self) -> RightHandSide:
        return scaled(self.unscaled, self.power)


def scaled(right: RightHandSide, power: int) -> RightHandSide:
    return RightHandSide(np.ldexp(right.f, power), np.ldexp(right.g, power))


def draw(seed: int, index: int, largest: int = 24) -> HardProblem:
    rng = np.random.default_rng([seed, index])
    shape, walls, coefficient = (str(rng.choice(names)) for names in (SHAPES, WALLS, COEFFICIENTS))
    domain = _domain(rng, shape, int(rng.integers(4, largest + 1)))
    operator = _operator(rng, domain, walls, coefficient)
    n, p = len(domain.points), len(domain.panels)
    if rng.random() < 0.5:
        f, g = rng.normal(size=n), rng.normal(size=p)
    else:
        f, g = np.sin(domain.points @ rng.normal(size=2) * 4), np.cos(domain.panels.centres @ rng.normal(size=2) * 4)
    f, g = f * 10.0 ** rng.uniform(-3, 3), g * 10.0 ** rng.uniform(-3, 3)
    right = operator.balanced(RightHandSide(f, g))
    return HardProblem(shape, walls, coefficient, operator, right, int(rng.uniform(-300, 300) * np.log2(10)))


def _domain(rng: np.random.Generator, shape: str, n: int) -> Domain:
    if shape == "square":
        return Domain.square(n)
    if shape == "cut":
        cut = max(1, n // 3)
        return Domain.square(n, [tuple(rng.integers(1, cut + 1, 2).tolist()) for _ in range(4)])
    mask = np.ones((n, n), dtype=bool)
    if shape == "thin":  # corridors of one cell, from a walk that never touches itself at a point only
        mask[:] = False
        i, j = rng.integers(0, n, 2)
        for _ in range(n):
            length, step = int(rng.integers(2, n)), rng.integers(4)
            for _ in range(length):
                mask[i, j] = True
                i = int(np.clip(i + (1, -1, 0, 0)[step], 0, n - 1))
                j = int(np.clip(j + (0, 0, 1, -1)[step], 0, n - 1))
    elif shape == "perforated":
        first, step = int(rng.integers(0, 2)), int(rng.integers(2, 4))
        mask[first::step, first::step] = False
    else:
        field = ndimage.gaussian_filter(rng.normal(size=(n, n)), rng.uniform(0.5, 2))
        mask = field > np.quantile(field, rng.uniform(0.1, 0.6))
    return Domain.from_mask(mended(mask))


def mended(mask: np.ndarray) -> np.ndarray:
    """The largest part of a mask, every pinch of it filled by a cell."""
    parts, _ = ndimage.label(mask)
    mask = parts == np.bincount(parts[mask]).argmax()
    while True:
        lower_left, lower_right, upper_left, upper_right = mask[:-1, :-1], mask[1:, :-1], mask[:-1, 1:], mask[1:, 1:]
        pinched = (lower_left == upper_right) & (lower_right == upper_left) & (lower_left != lower_right)
        if not pinched.any():
            return mask
        i, j = np.argwhere(pinched)[0]
        mask[i : i + 2, j] = True


def _operator(rng: np.random.Generator, domain: Domain, walls: str, coefficient: str) -> Elliptic:
    panels = len(domain.panels)
    alpha = 10.0 ** rng.uniform(-12, 12, size=panels if walls in ("many alphas", "mixed") else None)
    if walls == "mixed":
        arcs = np.cumsum(rng.random(panels) < rng.uniform(0.05, 1))
        kind = rng.integers(len(Kind), size=arcs[-1] + 1)[arcs]
        if not np.isin(kind, (Kind.DIRICHLET, Kind.ROBIN)).any():
            kind[0] = Kind.ROBIN
    else:
        kind = Kind.ROBIN if walls == "many alphas" else Kind[walls.upper()]
    if coefficient == "poisson":
        return poisson_operator(domain, kind, alpha)
    places = np.concatenate([domain.points, domain.panels.centres])
    exponent = rng.uniform(0, 6)
    if coefficient == "smooth":
        share = (1 + np.sin(places @ rng.normal(size=2) * 5)) / 2
    elif coefficient == "channels":
        share = np.sin(places @ rng.normal(size=2) * 20) > 0
    else:
        share = rng.random(len(places))
    kappa = 10.0 ** (exponent * share - rng.choice([0.0, exponent]))
    points = len(domain.points)
    return darcy_operator(domain, kappa[:points], kind, alpha, kappa_at_panels=kappa[points:])


class DecimalScheme:
    """The scheme's rows in decimal numbers, from the same coefficients, by no code of the package's solvers."""

    def __init__(self, operator: Elliptic) -> None:
        with localcontext(prec=DIGITS):
            domain, walls = operator.grid, operator.walls
            self.operator, self.near = operator, domain.neighbours
            h = Decimal(1) / domain.resolution
            self.area = h * h
            self.conductance = decimals(np.where(domain.neighbours >= 0, operator.law.on_faces(domain), 0.0))
            kappa = decimals(operator.law.at_panels(domain))
            a, b = decimals(walls.value_weight), decimals(walls.slope_weight)
            self.response = kappa * h / (a * h / 2 + b)
            self.cell = domain.panels.cell
            self.held = decimals(np.zeros(len(domain.points)))
            np.add.at(self.held, self.cell, self.response * a)

    def vector(self, right: RightHandSide) -> np.ndarray:
        vector = -self.area * decimals(right.f)
        np.add.at(vector, self.cell, self.response * decimals(right.g))
        return vector - vector.sum() / len(vector) if self.operator.leaves_constant_free else vector

    def product(self, u: np.ndarray) -> np.ndarray:
        there = np.where(self.near >= 0, u[self.near], u[:, None])
        return (self.conductance * (u[:, None] - there)).sum(axis=1) + self.held * u

    def solution(self, right: RightHandSide, prepared: Prepared | None = None) -> np.ndarray:
        """By repeated correction, each by the factors in double precision and by the mean, which is known."""
        with localcontext(prec=DIGITS):
            prepared = prepared or Direct().prepare(self.operator)
            vector = self.vector(right)
            u = decimals(np.zeros(len(vector)))
            for _ in range(MOST_PASSES):
                residual = vector - self.product(u)
                size = np.abs(residual).max()
                if not size:
                    return u
                f = (-residual / size / self.area).astype(float)
                f -= f.mean() if self.operator.leaves_constant_free else 0.0
                correction = decimals(prepared.apply(RightHandSide(f, np.zeros(len(self.cell))))) * size
                u = u + correction
                if self.operator.leaves_constant_free:
                    u = u - u.sum() / len(u)
                else:
                    u = u + (vector.sum() - (self.held * u).sum()) / self.held.sum()
                if np.abs(correction).max() <= SETTLED * np.abs(u).max():
                    return u
        raise BenoError("the reference did not settle")


def decimals(values: np.ndarray) -> np.ndarray:
    """The same numbers, exactly."""
    return np.vectorize(Decimal, otypes=[object])(np.asarray(values, dtype=float))
