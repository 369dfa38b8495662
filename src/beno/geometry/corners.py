"""Straight walls: runs of panels in one direction and of one kind, and the corners that they end in.

Near a corner a domain is a wedge, whose kernels are known: `nn.pairs` starts from them.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from beno.geometry.base import Panels

SHARPEST_BEND = np.pi / 6  # between panels of one wall


@dataclass(frozen=True, eq=False, repr=False)
class WallEnds:
    """For each panel both ends of the wall that it lies in: the one that the walk comes from, and the one ahead."""

    # From the panel's centre to the wall's end; around the whole ring if it has none.
    distance: Float[np.ndarray, "p 2"]
    beside: Float[np.ndarray, "p 2"]  # length of the wall beyond the end; 0 if there is none
    angle: Float[np.ndarray, "p 2"]  # that the domain fills at the end; a straight one if only the kind changes
    sign: Float[np.ndarray, "p 2"]  # -1 where u is given beyond the end, 1 where its slope is, or nearly (Robin)

    def __repr__(self) -> str:
        return f"WallEnds({len(self.angle)} panels)"

    def as_columns(self) -> Float[np.ndarray, "p 8"]:
        return np.concatenate([self.distance, self.beside, self.angle, self.sign], axis=1)


def wall_ends(panels: Panels, kind: Int[np.ndarray, " p"], reflection: Float[np.ndarray, " p"]) -> WallEnds:
    """Panels stand in the order of a walk with the domain on the left, ring by ring. A wall ends where it turns and
    where the kind of its panels changes. ``reflection`` is -1 at panels that fix u and 1 at all others.

    >>> from beno.geometry.grid import Domain
    >>> panels = Domain.square(4, [(2, 1), None, None, None]).panels
    >>> ends = wall_ends(panels, np.zeros(len(panels), dtype=int), np.full(len(panels), -1.0))
    >>> ends.distance[0], ends.beside[0]  # the floor's first panel: a short wall behind it, the right wall ahead
    (array([0.125, 0.375]), array([0.25, 1.  ]))
    >>> np.degrees(ends.angle[0])
    array([90., 90.])
    """
    normals, lengths, ring = panels.normals, panels.lengths, panels.ring
    distance, beside = np.empty((len(ring), 2)), np.zeros((len(ring), 2))
    angle, sign = np.full((len(ring), 2), np.pi), np.zeros((len(ring), 2))
    for number in range(ring.max() + 1):
        here = np.flatnonzero(ring == number)
        following = np.roll(normals[here], -1, axis=0)
        sine = normals[here, 0] * following[:, 1] - normals[here, 1] * following[:, 0]
        turn = np.arctan2(sine, (normals[here] * following).sum(axis=1))  # to the left is positive
        ends = np.flatnonzero((np.abs(turn) > SHARPEST_BEND) | (kind[here] != np.roll(kind[here], -1)))
        if not len(ends):
            distance[here] = lengths[here].sum()
            continue
        # Counted from the panel after the last end, so that no wall is cut in two.
        start = (ends[-1] + 1) % len(here)
        here, turn = np.roll(here, -start), np.roll(turn, -start)
        ends = np.sort((ends - start) % len(here))
        wall = np.searchsorted(ends, np.arange(len(here)))
        length = np.bincount(wall, lengths[here])
        along = np.cumsum(lengths[here]) - lengths[here] / 2 - (np.cumsum(length) - length)[wall]
        filled = np.pi - np.where(np.abs(turn[ends]) > SHARPEST_BEND, turn[ends], 0.0)
        distance[here] = np.stack([along, length[wall] - along], axis=1)
        beside[here] = np.stack([length[wall - 1], np.roll(length, -1)[wall]], axis=1)
        angle[here] = np.stack([filled[wall - 1], filled[wall]], axis=1)
        beyond = np.stack([here[ends[wall - 1]], here[(ends[wall] + 1) % len(here)]], axis=1)
        sign[here] = reflection[beyond]
    return WallEnds(distance, beside, angle, sign)
