"""What every solver knows of a domain: points inside, and the panels of its boundary."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

# The four directions in which a cell may meet the boundary, in the order used everywhere: -x, +x, -y, +y.
DIRECTIONS = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
DIRECTION_NAMES = ("-x", "+x", "-y", "+y")


@dataclass(frozen=True, eq=False, repr=False)
class Panels:
    """The boundary as straight pieces, ring by ring: the outer ring counter-clockwise, then every hole clockwise."""

    centres: Float[np.ndarray, "p 2"]
    normals: Float[np.ndarray, "p 2"]  # outward, of unit length
    lengths: Float[np.ndarray, " p"]
    ring: Int[np.ndarray, " p"]  # 0 is the outer ring

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        rings = len(self.ring_lengths)
        return f"{type(self).__name__}({len(self)} panels, {rings} ring{'s' * (rings != 1)})"

    @cached_property
    def arc_length(self) -> Float[np.ndarray, " p"]:
        """Distance along its own ring from the ring's start to each panel's centre."""
        along = np.cumsum(self.lengths) - self.lengths / 2
        ring_start = np.concatenate([[0.0], np.cumsum(self.ring_lengths)[:-1]])
        return along - ring_start[self.ring]

    @cached_property
    def ring_lengths(self) -> Float[np.ndarray, " rings"]:
        return np.bincount(self.ring, self.lengths)


@runtime_checkable
class Geometry(Protocol):
    """A domain. One that has cells is a `Domain`; `BarePanels` has none."""

    @property
    def points(self) -> Float[np.ndarray, "n 2"]:
        """Where u is wanted."""

    @property
    def panels(self) -> Panels:
        """The boundary."""

    @property
    def wall_distance(self) -> Float[np.ndarray, "n 4"]:
        """Distance from each point to the boundary that it meets first along each of DIRECTIONS."""
