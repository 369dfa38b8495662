"""The scheme in extended precision, and how far each number is off at most.

The scheme that is meant is the one of exact arithmetic, with the numbers f, g, alpha, kappa at the panels
and the law's coefficients on the faces as they are given. Residuals are computed in the longest floating-point type
that the machine has (64 bits of mantissa on x86), from differences ``c (u_i - u_j)``, which lose nothing where u is
nearly constant. Each number that is computed passes through fewer than 20 roundings, so it is off by at most LOSS times
the sum of the sizes of what was added up (N. J. Higham, Accuracy and Stability of Numerical Algorithms, SIAM 2002,
doi:10.1137/1.9780898718027, chapter 3). Data are first divided by a power of two, which is exact, so that neither
1e-300 nor 1e300 is out of range.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

from beno.problems.operator import Elliptic

Extended = np.longdouble
UNIT = np.finfo(Extended).eps / 2  # what one rounding changes, relative to the number
LOSS = 22 * UNIT  # relative to the sizes that were added up: fewer than 20 roundings, and those of this product itself
LOSS_OF_SUMS = LOSS + 40 * UNIT  # added by halves, fewer than 2^40 numbers


@dataclass(frozen=True, eq=False, repr=False)
class Counted:
    """Numbers, and by how much each may be off."""

    value: Shaped[np.ndarray, " n"]
    off: Shaped[np.ndarray, " n"]

    @property
    def size(self) -> Shaped[np.ndarray, " n"]:
        """The largest absolute value that each may have."""
        return np.abs(self.value) + self.off


@dataclass(frozen=True)
class CountedSum:
    """One number, and by how much it may be off."""

    value: np.longdouble
    off: np.longdouble

    @property
    def size(self) -> np.longdouble:
        """The largest absolute value that it may have."""
        return abs(self.value) + self.off


class ExtendedRows:
    """The rows of the scheme in extended precision: ``sum of c (u_i - u_j) over neighbours + s_i u_i = b_i``."""

    def __init__(self, operator: Elliptic) -> None:
        domain, walls = operator.grid, operator.walls
        count = len(domain.points)
        h = 1 / Extended(domain.resolution)
        self.area = h * h
        itself = np.arange(count, dtype=domain.neighbours.dtype)[:, None]
        self.near: Int[np.ndarray, "n 4"] = np.where(domain.neighbours >= 0, domain.neighbours, itself)
        self.conductance = np.where(domain.neighbours >= 0, operator.law.on_faces(domain), 0.0)
        # Each panel on its own cell's row; the column after the last is for the faces that are no panels.
        self.panel = domain.panel_at
        a, b = walls.value_weight.astype(Extended), walls.slope_weight.astype(Extended)
        response = operator.law.at_panels(domain) * h / (a * (h / 2) + b)
        self.wall_weight = self._beside(response)
        held = self._beside(response * a).sum(axis=1)
        reaction = operator.law.reaction(domain)
        gone = self.area * (np.zeros(count) if reaction is None else reaction)
        self.held, self.held_size = held - gone, held + np.abs(gone)
        self.diagonal = self.conductance.sum(axis=1) + self.held_size

    def _beside(self, at_panels: Shaped[np.ndarray, " p"]) -> Shaped[np.ndarray, "n 4"]:
        """At each cell's four faces; zero where a face is no panel."""
        return np.append(at_panels, Extended(0))[self.panel]

    def product(self, u: Shaped[np.ndarray, " n"]) -> Counted:
        """A u."""
        flows = self.conductance * (u[:, None] - u[self.near])
        value = flows.sum(axis=1) + self.held * u
        return Counted(value, LOSS * (np.abs(flows).sum(axis=1) + self.held_size * np.abs(u)))

    def vector(self, f: Shaped[np.ndarray, " n"], g: Shaped[np.ndarray, " p"]) -> Counted:
        """b."""
        let_in, source = self.wall_weight * self._beside(g), self.area * f
        return Counted(
            let_in.sum(axis=1) - source,
            LOSS * (np.abs(let_in).sum(axis=1) + np.abs(source)),
        )

    def exponent(self, u: Shaped[np.ndarray, " n"], f: Shaped[np.ndarray, " n"], g: Shaped[np.ndarray, " p"]) -> int:
        """The power of two that the largest term of these rows has about the size of."""
        factors = ((self.diagonal, u), (self.area, f), (self.wall_weight, g))
        largest = [np.max(np.abs(part), initial=0) for pair in factors for part in pair]
        powers = [int(np.frexp(one)[1]) for one in largest]
        sums = [powers[k] + powers[k + 1] for k in (0, 2, 4) if largest[k] > 0 and largest[k + 1] > 0]
        return max(sums, default=0)


def sum_by_halves(values: Shaped[np.ndarray, " n"]) -> CountedSum:
    """The sum, by halves, so that no number passes through more roundings than n has binary digits."""
    off = LOSS_OF_SUMS * np.abs(values).sum()
    while len(values) > 1:
        if len(values) % 2:
            values = np.append(values, Extended(0))
        values = values[0::2] + values[1::2]
    return CountedSum(values[0], off)


def upward(values: Shaped[np.ndarray, " n"], power: int) -> Float[np.ndarray, " n"]:
    """As numbers of double precision that are no smaller."""
    return np.nextafter(np.ldexp(values * (1 + LOSS), power).astype(float), np.inf)
