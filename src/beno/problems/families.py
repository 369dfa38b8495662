"""Seeded families of problems, as the paper describes them.

Problem i of a family depends on (seed, i) and on nothing else, so any number of workers on any
machine draw the same problems in any order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from jaxtyping import Float, Int

from beno.geometry.base import Panels
from beno.geometry.grid import Cut, Domain
from beno.problems.law import LAWS, Darcy, Law, Poisson
from beno.problems.operator import Elliptic, walls_of
from beno.problems.problem import Problem
from beno.problems.walls import Kind
from beno.support.errors import BenoError

MIXED = (Kind.DIRICHLET, Kind.NEUMANN, Kind.ROBIN)  # their order is part of what a seed draws
# The kinds of walls that a boundary of each name has; mixed ones have some of Dirichlet's always.
BOUNDARIES = {
    "dirichlet": frozenset({Kind.DIRICHLET}),
    "zero": frozenset({Kind.DIRICHLET}),
    "neumann": frozenset({Kind.NEUMANN}),
    "robin": frozenset({Kind.ROBIN}),
    "mixed": frozenset(MIXED),
}
CORNERS = (0, 1, 2, 3, 4, "mixed")

# A cut takes this share of a side, as in the authors' sample (4 to 14 of 32 cells).
SMALLEST_CUT, LARGEST_CUT = 0.125, 0.4375
SMALLEST_RESOLUTION = 8  # below it a smallest cut is no cell at all
WAVE_NUMBERS = (1.0, 5.0)  # waves of g along one side of the square
MODES_OF_G = 3
TERMS_OF_KAPPA = 4

# |f| for which the forced part of u is about half as large as the boundary-driven part, in the mean.
VISIBLE_SOURCE = {
    ("poisson", "dirichlet"): 20.0,
    ("poisson", "zero"): 20.0,
    ("poisson", "neumann"): 0.5,
    ("poisson", "robin"): 0.25,
    ("poisson", "mixed"): 5.0,
    ("darcy", "dirichlet"): 100.0,
    ("darcy", "zero"): 100.0,
    ("darcy", "neumann"): 2.5,
    ("darcy", "robin"): 2.0,
    ("darcy", "mixed"): 20.0,
}


@dataclass(frozen=True)
class ProblemClass:
    """What a solver must know of problems to tell whether it can solve them."""

    law: str
    kinds: frozenset[Kind]  # of walls as they act
    leaves_constant_free: bool
    has_dirichlet: bool  # always

    @classmethod
    def of(cls, operator: Elliptic) -> "ProblemClass":
        kinds = frozenset(operator.walls.acting.kinds)
        return cls(operator.law.name, kinds, operator.leaves_constant_free, Kind.DIRICHLET in kinds)

    @classmethod
    def named(cls, equation: str, boundary: str) -> "ProblemClass":
        """By the names that families, datasets and checkpoints have for them."""
        kinds = BOUNDARIES[boundary]
        free = kinds == {Kind.NEUMANN} and not LAWS[equation].fixes_constant()
        return cls(equation, kinds, free, Kind.DIRICHLET in kinds)

    @property
    def is_uniform(self) -> bool:
        return LAWS[self.law].is_uniform

    @property
    def varies_in_kind(self) -> bool:
        """Whether a panel's kind, or its alpha, must be told."""
        return len(self.kinds) > 1 or any(kind.has_alpha for kind in self.kinds)

    @property
    def walls(self) -> str:
        return " and ".join(kind.label for kind in sorted(self.kinds)) + " walls"

    def lacks(self, other: "ProblemClass") -> str | None:
        """What the other problems have that these have not, as the end of a sentence."""
        if other.law != self.law:
            return f"for {self.law}, not for {other.law}"
        if other.leaves_constant_free and not self.leaves_constant_free:
            return "with walls that fix u; with Neumann walls alone none does"
        if foreign := other.kinds - self.kinds:
            return f"for {self.walls}, not for {' and '.join(kind.label for kind in sorted(foreign))}"
        if self.has_dirichlet and not other.has_dirichlet:
            return "with some Dirichlet walls among the others; here is none"
        return None


@dataclass(frozen=True)
class Family:
    """What kind of problems to draw. The amplitudes are the largest absolute values of f and g.

    In the authors' sample g goes up to 2 and f to about 0.1, with which it hardly moves u. Without a
    source amplitude one is chosen for which the source makes about a third of u (see docs/data.md).
    """

    equation: str = "poisson"
    boundary: str = "dirichlet"
    corners: int | str = 4
    resolution: int = 32
    source_amplitude: float | None = None
    boundary_amplitude: float = 2.0
    contrast: float = 10.0  # of kappa, which lies between 1 and this
    alpha_range: tuple[float, float] = (0.5, 5.0)

    def __post_init__(self) -> None:
        choices: tuple[tuple[str, int | str, tuple[int | str, ...]], ...] = (
            ("equation", self.equation, tuple(LAWS)),
            ("boundary", self.boundary, tuple(BOUNDARIES)),
            ("corners", self.corners, CORNERS),
        )
        for name, choice, allowed in choices:
            if choice not in allowed:
                raise BenoError(f"{name} is {choice!r}; it must be one of {', '.join(map(str, allowed))}")
        if self.source_amplitude is None:
            object.__setattr__(self, "source_amplitude", VISIBLE_SOURCE[self.equation, self.boundary])
        _require_whole("resolution", self.resolution, SMALLEST_RESOLUTION)
        if np.shape(self.alpha_range) != (2,):
            raise BenoError(f"alpha_range is {self.alpha_range}; it must be two numbers, a lower and an upper end")
        for name, value, least in (
            ("source amplitude", cast(float, self.source_amplitude), 0.0),
            ("boundary amplitude", self.boundary_amplitude, 0.0),
            ("kappa's contrast", self.contrast, 1.0),
            ("alpha's lower end", self.alpha_range[0], 0.0),
            ("alpha's upper end", self.alpha_range[1], self.alpha_range[0]),
        ):
            if not least <= value < np.inf:
                raise BenoError(f"{name} is {value}; it must be a finite number of at least {least}")
        if self.boundary == "robin" and self.alpha_range[1] == 0:
            raise BenoError("alpha's upper end is 0; robin boundaries need a positive one, or u is free by a constant")

    @property
    def name(self) -> str:
        """For files; what is not as usual stands in it.

        >>> Family(source_amplitude=0.1).name
        'poisson-dirichlet-4-32-source_amplitude=0.1'
        """
        usual = Family(self.equation, self.boundary, self.corners, self.resolution)
        unusual = [f"{key}={value}" for key, value in vars(self).items() if value != vars(usual)[key]]
        return "-".join([self.equation, self.boundary, str(self.corners), str(self.resolution), *unusual])

    @property
    def problem_class(self) -> ProblemClass:
        return ProblemClass.named(self.equation, self.boundary)

    def problem(self, seed: int, index: int) -> Problem:
        """
        >>> Family(corners=4).problem(seed=0, index=7).domain.mask.sum()
        np.int64(667)
        """
        _require_whole("seed", seed, 0)
        _require_whole("index", index, 0)
        rng = np.random.default_rng([seed, index])
        domain = Domain.square(self.resolution, random_cuts(rng, self._corner_count(index), self.resolution))
        panels = domain.panels
        source = random_source(rng, domain.points)
        wave = random_wave(rng, panels)
        law = RANDOM_LAWS[self.equation](rng, domain, self.contrast)
        kind = self._kinds(rng, panels)
        alpha = rng.uniform(*self.alpha_range)
        if self.problem_class.leaves_constant_free:
            # Each of f and g is made to balance by itself, so that both parts of split() are drawn fairly.
            source -= source.mean()
            wave -= np.average(wave, weights=law.at_panels(domain))
        source *= self.source_amplitude / np.abs(source).max()
        wave *= 0.0 if self.boundary == "zero" else self.boundary_amplitude / np.abs(wave).max()
        operator = Elliptic(domain, law, walls_of(domain, kind, alpha))
        return Problem(operator, operator.right(source, wave))

    def _corner_count(self, index: int) -> int:
        return index % 5 if self.corners == "mixed" else int(self.corners)

    def _kinds(self, rng: np.random.Generator, panels: Panels) -> Kind | Int[np.ndarray, " p"]:
        kinds = self.problem_class.kinds
        return random_kinds(rng, panels) if len(kinds) > 1 else next(iter(kinds))


def _require_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int | np.integer) or value < least:
        raise BenoError(f"{name} is {value}; it must be a whole number of at least {least}")


def random_cuts(rng: np.random.Generator, corners: int, resolution: int) -> list[Cut]:
    """Which corners are cut, and how far: width and height in cells, or None."""
    shares = rng.uniform(SMALLEST_CUT, LARGEST_CUT, size=(4, 2))
    which = rng.permutation(4)[:corners].tolist()
    sizes = np.maximum(1, np.round(shares * resolution).astype(int)).tolist()
    return [tuple(sizes[corner]) if corner in which else None for corner in range(4)]


def random_source(rng: np.random.Generator, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """One sinusoidal, one exponential, one logarithmic and one polynomial piece, weighted at random."""
    x, y = points.T
    weight = rng.uniform(-1, 1, size=4)
    wave, phase = rng.uniform(0.5, 2.5, size=2), rng.uniform(0, 2 * np.pi, size=2)
    slope, pole, root = rng.uniform(-2, 2, size=2), rng.uniform(0, 1, size=2), rng.uniform(0, 1, size=(3, 2))
    sinusoidal = np.sin(2 * np.pi * wave[0] * x + phase[0]) * np.sin(2 * np.pi * wave[1] * y + phase[1])
    exponential = np.exp(slope[0] * (x - 0.5) + slope[1] * (y - 0.5)) - 1
    logarithmic = np.log(0.05 + (x - pole[0]) ** 2 + (y - pole[1]) ** 2) / 3
    squares = (x - root[0, 0]) * (x - root[0, 1]) + (y - root[1, 0]) * (y - root[1, 1])
    polynomial = 4 * (squares + (x - root[2, 0]) * (y - root[2, 1]))
    return weight[0] * sinusoidal + weight[1] * exponential + weight[2] * logarithmic + weight[3] * polynomial


def random_wave(rng: np.random.Generator, panels: Panels) -> Float[np.ndarray, " p"]:
    """Continuous and periodic along every ring: each mode has a whole number of waves around it.

    They are fewer than half as many as the ring has panels, which could not tell more waves from less.
    """
    wave = np.zeros(len(panels))
    for ring, length in enumerate(panels.ring_lengths):
        here = panels.ring == ring
        most = (here.sum() - 1) // 2
        around = np.clip(np.round(rng.uniform(*WAVE_NUMBERS, size=MODES_OF_G) * length), 1, most)
        weight, phase = rng.uniform(0.2, 1, size=MODES_OF_G), rng.uniform(0, 2 * np.pi, size=MODES_OF_G)
        along = 2 * np.pi / length * panels.arc_length[here]
        wave[here] = weight @ np.sin(around[:, None] * along + phase[:, None])
    return wave


def random_coefficient(
    rng: np.random.Generator, places: Float[np.ndarray, "m 2"], contrast: float
) -> Float[np.ndarray, " m"]:
    """A positive combination, with uniform weights, of a constant and smooth bumps between 0 and 1."""
    wave = rng.uniform(-1.5, 1.5, size=(TERMS_OF_KAPPA, 2))
    phase = rng.uniform(0, 2 * np.pi, size=TERMS_OF_KAPPA)
    weight = rng.uniform(0, 1, size=TERMS_OF_KAPPA)
    bumps = (1 + np.cos(2 * np.pi * wave @ places.T + phase[:, None])) / 2
    return 1 + (contrast - 1) * (weight / weight.sum()) @ bumps


def random_poisson(rng: np.random.Generator, domain: Domain, contrast: float) -> Poisson:
    """Poisson's equation has nothing to draw."""
    return Poisson()


def random_darcy(rng: np.random.Generator, domain: Domain, contrast: float) -> Darcy:
    """kappa at the points and the panels of a domain."""
    places = np.concatenate([domain.points, domain.panels.centres])
    return Darcy(*np.split(random_coefficient(rng, places, contrast), [len(domain.points)]))


# How the law of each name is drawn for a domain, given kappa's contrast.
RANDOM_LAWS: dict[str, Callable[[np.random.Generator, Domain, float], Law]] = {
    "poisson": random_poisson,
    "darcy": random_darcy,
}


def random_kinds(rng: np.random.Generator, panels: Panels) -> Int[np.ndarray, " p"]:
    """Three to six arcs of random kinds around every ring; the first is always Dirichlet."""
    kinds = np.empty(len(panels), dtype=np.int8)
    for ring, length in enumerate(panels.ring_lengths):
        here = panels.ring == ring
        arcs = rng.integers(3, 7)
        ends = np.cumsum(rng.uniform(0.5, 1.5, size=arcs))
        kind_of_arc = np.array([Kind.DIRICHLET, *(MIXED[number] for number in rng.integers(len(MIXED), size=arcs - 1))])
        shifted = (panels.arc_length[here] / length + rng.uniform()) % 1.0
        kinds[here] = kind_of_arc[np.searchsorted(ends / ends[-1], shifted)]
    return kinds
