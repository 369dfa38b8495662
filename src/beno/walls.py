"""Straight walls: runs of panels in one direction, and the corners that they end in.

In a corner that the domain fills by a quarter, a wall is mirrored in the one beside it: the method of images.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

SHARPEST_BEND = 0.5  # sine of a turn between panels of one wall; 30 degrees


@dataclass(frozen=True, eq=False)
class WallEnds:
    """Of the wall that each panel lies in, where its ring comes from and where it goes to."""

    distance: Float[
        np.ndarray, "p 2"
    ]  # from the panel's centre to the wall's end; around the whole ring if it has none
    beside: Float[np.ndarray, "p 2"]  # length of the wall beyond the end, if the domain fills a quarter there; else 0
    next_panel: Int[np.ndarray, "p 2"]  # the panel beyond the end

    def as_mirrors(self, kind: Int[np.ndarray, " p"]) -> Float[np.ndarray, "p 6"]:
        """Both distances, both lengths beside, and for each end -1 if u is given beyond it, 1 if its slope is, or 0."""
        sign = np.choose(kind, (-1.0, 1.0, 0.0))
        return np.concatenate([self.distance, self.beside, sign[self.next_panel]], axis=1)


def wall_ends(
    normals: Float[np.ndarray, "p 2"], lengths: Float[np.ndarray, " p"], ring: Int[np.ndarray, " p"]
) -> WallEnds:
    """Panels stand in the order of a walk with the domain on the left, ring by ring.

    >>> from beno.geometry import Domain
    >>> panels = Domain.square(4, [(2, 1), None, None, None]).panels
    >>> ends = wall_ends(panels.normals, panels.lengths, panels.ring)
    >>> ends.distance[0], ends.beside[0]  # the floor's first panel: a short wall behind it, the right wall ahead
    (array([0.125, 0.375]), array([0.25, 1.  ]))
    """
    distance, beside = np.empty((len(ring), 2)), np.zeros((len(ring), 2))
    next_panel = np.empty((len(ring), 2), dtype=np.int64)
    for number in range(ring.max() + 1):
        here = np.flatnonzero(ring == number)
        following = np.roll(normals[here], -1, axis=0)
        turn = normals[here, 0] * following[:, 1] - normals[here, 1] * following[:, 0]  # positive to the left
        ends = np.flatnonzero((np.abs(turn) > SHARPEST_BEND) | ((normals[here] * following).sum(axis=1) < 0))
        if not len(ends):
            distance[here] = lengths[here].sum()
            next_panel[here] = here[:, None]
            continue
        # Counted from the panel after the last end, so that no wall is cut in two.
        start = (ends[-1] + 1) % len(here)
        here, turn = np.roll(here, -start), np.roll(turn, -start)
        ends = np.sort((ends - start) % len(here))
        wall = np.searchsorted(ends, np.arange(len(here)))
        length = np.bincount(wall, lengths[here])
        along = np.cumsum(lengths[here]) - lengths[here] / 2 - (np.cumsum(length) - length)[wall]
        quarter = turn[ends] > SHARPEST_BEND  # of the corner at each wall's end
        distance[here] = np.stack([along, length[wall] - along], axis=1)
        before, after = quarter[wall - 1] * length[wall - 1], quarter[wall] * np.roll(length, -1)[wall]
        beside[here] = np.stack([before, after], axis=1)
        next_panel[here] = np.stack([here[ends[wall - 1]], here[(ends[wall] + 1) % len(here)]], axis=1)
    return WallEnds(distance, beside, next_panel)
