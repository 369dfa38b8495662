"""What a step of training shows of its samples: which ones, which part or view, at which points, with which sign."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class Variety:
    """How many faces a sample may show; all follow from the sample itself."""

    symmetries: bool = False  # turned and mirrored, and with either sign
    parts: int = 0  # subdomains that are cut out of each sample, of which half of its showings are
    points: int = 0  # chosen at random each time; 0 for all

    def choose_parts(self, rng: np.random.Generator, count: int) -> Int[np.ndarray, " s"]:
        """For so many showings: 0 for the whole sample, which half of them are, or the number of a part."""
        if not self.parts:
            return np.zeros(count, dtype=np.int64)
        return rng.integers(1, self.parts + 1, size=count) * rng.integers(2, size=count)


@dataclass(frozen=True, eq=False)
class Plan:
    rows: Int[np.ndarray, " s"]  # where the cohort holds what is to be shown
    signs: Float[np.ndarray, " s"]
    turns: Int[np.ndarray, " s"] | None = None
    points: Int[np.ndarray, "s n"] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def filled_to(self, count: int | None) -> "Plan":
        """The last sample again until there are so many."""
        return self if count is None else self.take(np.minimum(np.arange(count), len(self) - 1))

    def take(self, which: slice | Int[np.ndarray, " m"]) -> "Plan":
        return Plan(
            self.rows[which],
            self.signs[which],
            None if self.turns is None else self.turns[which],
            None if self.points is None else self.points[which],
        )
