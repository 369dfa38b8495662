"""Scales that bring f, g and u to size one and leave zero at zero.

No mean is taken off: a boundary of zeros must stay zeros, or a branch that must not see g would see it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from beno.datasets.summaries import Spread
from beno.problems.solution import Solution
from beno.support.errors import BenoError


@dataclass(frozen=True)
class Scales:
    """Root mean squares over the training split."""

    source: float = 1.0
    boundary: float = 1.0
    solution: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, int | float) or not 0 < value < math.inf:
                raise BenoError(f"the scale of the {name} is {value!r}; it must be a positive number")

    @classmethod
    def fit(cls, solutions: Iterable[Solution]) -> "Scales":
        """From the solutions given, which must be those to train on and no others."""
        source, boundary, solution = Spread(), Spread(), Spread()
        for solved in solutions:
            source.see(solved.problem.f)
            boundary.see(solved.problem.g)
            solution.see(solved.u)
        return cls(*(spread.rms if spread.count and spread.rms > 0 else 1.0 for spread in (source, boundary, solution)))
