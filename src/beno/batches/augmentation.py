"""What a step of training shows: which problems, which parts of them, at which points, how turned, with which sign."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from beno.geometry.symmetries import SYMMETRIES


@dataclass(frozen=True)
class Augmentation:
    """What is shown follows from the solutions: turned, cut into parts or with the other sign, they are solutions."""

    symmetries: bool = False  # turned and mirrored, and with either sign
    parts: int = 0  # subdomains that are cut out of each sample, of which half of its showings are
    points: int = 0  # chosen at random each time; 0 for all

    @property
    def turns(self) -> int:
        """How many there are of each sample."""
        return SYMMETRIES if self.symmetries else 1

    def choose_parts(self, rng: np.random.Generator, count: int) -> Int[np.ndarray, " s"]:
        """For so many showings: 0 for the whole sample, which half of them are, or the number of a part."""
        if not self.parts:
            return np.zeros(count, dtype=np.int64)
        return rng.integers(1, self.parts + 1, size=count) * rng.integers(2, size=count)

    def choose_signs(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, " s"]:
        return rng.choice([-1.0, 1.0], size=count) if self.symmetries else np.ones(count)

    def choose_turns(self, rng: np.random.Generator, count: int) -> Int[np.ndarray, " s"]:
        return rng.integers(SYMMETRIES, size=count) if self.symmetries else np.zeros(count, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Selection:
    """Which rows are shown, with which sign, how turned, at which points."""

    rows: Int[np.ndarray, " s"]  # where the batches hold what is to be shown
    signs: Float[np.ndarray, " s"]
    turns: Int[np.ndarray, " s"]
    points: Int[np.ndarray, "s n"]  # which of each sample's; without columns where all of them are

    @classmethod
    def of(
        cls,
        rows: Int[np.ndarray, " s"],
        signs: Float[np.ndarray, " s"] | None = None,
        turns: Int[np.ndarray, " s"] | None = None,
        points: Int[np.ndarray, "s n"] | None = None,
    ) -> "Selection":
        """As it is and at all points, unless something else is said."""
        count = len(rows)
        return cls(
            rows,
            np.ones(count) if signs is None else signs,
            np.zeros(count, dtype=np.int64) if turns is None else turns,
            np.zeros((count, 0), dtype=np.int64) if points is None else points,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def filled_to(self, count: int | None) -> "Selection":
        """The last sample again until there are so many."""
        return self if count is None else self.take(np.minimum(np.arange(count), len(self) - 1))

    def take(self, which: slice | Int[np.ndarray, " m"]) -> "Selection":
        return Selection(self.rows[which], self.signs[which], self.turns[which], self.points[which])
