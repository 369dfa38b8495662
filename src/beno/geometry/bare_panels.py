"""A domain without a grid: points inside, and straight panels of any length and direction around them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from beno.geometry.base import DIRECTIONS, Panels
from beno.support.errors import BenoError

CLOSED = 1e-6  # how far, relative to the boundary's length, its outward normals may be from adding up to nothing
INSIDE = 0.5  # of the full angle that the panels fill, seen from a point: 1 from inside, 0 from outside
LARGEST_GAP = 1e-3  # between panels that follow each other, in lengths of the first
PAIRS_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False, repr=False)
class BarePanels:
    """The panels stand in the order of a walk with the domain on the left, ring by ring."""

    points: Float[np.ndarray, "n 2"]
    panels: Panels
    wall_distance: Float[np.ndarray, "n 4"]

    def __post_init__(self) -> None:
        if not len(self.panels):
            raise BenoError("the shape has no panels; a boundary is needed")

    def __repr__(self) -> str:
        return f"BarePanels({len(self.points)} points, {len(self.panels)} panels)"

    @classmethod
    def from_panels(
        cls, points: np.ndarray, centres: np.ndarray, normals: np.ndarray, lengths: np.ndarray
    ) -> "BarePanels":
        """Straight panels of any length and direction that close the boundary, in the order of a walk along it.

        >>> middle = np.array([[0.0, -1.0], [2.0, 0.0], [0.0, 1.0], [-2.0, 0.0]])
        >>> normal = middle / np.array([1.0, 2.0, 1.0, 2.0])[:, None]
        >>> BarePanels.from_panels(np.array([[0.5, 0.0]]), middle, normal, np.array([4.0, 2.0, 4.0, 2.0])).wall_distance
        array([[2.5, 1.5, 1. , 1. ]])
        """
        points, centres, normals, lengths = (
            np.asarray(values, dtype=float) for values in (points, centres, normals, lengths)
        )
        if not len(lengths):
            raise BenoError("the shape has no panels; a boundary is needed")
        for name, values, wanted in (
            ("points", points, (len(points), 2)),
            ("centres", centres, (len(lengths), 2)),
            ("normals", normals, (len(lengths), 2)),
            ("lengths", lengths, (len(lengths),)),
        ):
            if values.shape != wanted:
                raise BenoError(f"the {name} have shape {values.shape}; {wanted} is needed")
            if not np.isfinite(values).all():
                row = np.argwhere(~np.isfinite(values))[0][0]
                raise BenoError(f"the {name} are not finite in row {row}")
        if (lengths <= 0).any():
            raise BenoError(f"panel {lengths.argmin()} has the length {lengths.min():.3g}; it must be positive")
        if not np.allclose(np.hypot(*normals.T), 1.0, atol=1e-6):
            raise BenoError(f"the normal of panel {np.abs(np.hypot(*normals.T) - 1).argmax()} is not of unit length")
        gap = np.hypot(*(lengths @ normals))
        if gap > CLOSED * lengths.sum():
            raise BenoError(f"the panels do not close: their lengths times normals add up to {gap:.3g}, not to zero")
        parts = np.array_split(points, 1 + len(points) * len(lengths) // PAIRS_AT_ONCE)
        views = [_look_around(part, centres, normals, lengths) for part in parts]
        filled = np.concatenate([angle for angle, _ in views])
        if (filled < INSIDE).any():
            x, y = points[filled.argmin()]
            raise BenoError(f"the point ({x:.4g}, {y:.4g}) is outside the panels")
        wall_distance = np.concatenate([distance for _, distance in views])
        return cls(points, Panels(centres, normals, lengths, _rings(centres, normals, lengths)), wall_distance)


def _rings(
    centres: Float[np.ndarray, "p 2"], normals: Float[np.ndarray, "p 2"], lengths: Float[np.ndarray, " p"]
) -> Int[np.ndarray, " p"]:
    """One ring more wherever a panel does not begin where the one before it ends."""
    half = np.stack([-normals[:, 1], normals[:, 0]], axis=1) * lengths[:, None] / 2
    begin, end = centres - half, centres + half
    ring = np.zeros(len(lengths), dtype=np.int64)
    for panel in range(1, len(lengths)):
        gap = np.hypot(*(begin[panel] - end[panel - 1]))
        ring[panel] = ring[panel - 1] + (gap > LARGEST_GAP * lengths[panel])
    for number in range(ring[-1] + 1):
        first, last = np.flatnonzero(ring == number)[[0, -1]]
        if np.hypot(*(begin[first] - end[last])) > LARGEST_GAP * lengths[first]:
            raise BenoError(
                f"panel {last} ends at ({end[last][0]:.4g}, {end[last][1]:.4g}) and none begins there; panels must "
                "stand in the order of a walk along the boundary, with the domain on the left, ring by ring"
            )
    return ring


def _look_around(
    points: Float[np.ndarray, "n 2"],
    centres: Float[np.ndarray, "p 2"],
    normals: Float[np.ndarray, "p 2"],
    lengths: Float[np.ndarray, " p"],
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n 4"]]:
    """How much of the full angle the panels fill, and how far each point sees along each direction."""
    tangents = np.stack([-normals[:, 1], normals[:, 0]], axis=1)
    offset = centres[None] - points[:, None]
    away, along = (offset * normals).sum(axis=2), (offset * tangents).sum(axis=2)
    half = lengths / 2
    angle = np.arctan2(along + half, away) - np.arctan2(along - half, away)
    angle = (angle + np.pi) % (2 * np.pi) - np.pi  # the one that the panel subtends, with its side's sign
    seen = np.full((len(points), len(DIRECTIONS)), np.inf)
    for number, direction in enumerate(DIRECTIONS):
        facing = normals @ direction
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = away / facing
            hit = np.abs(along - distance * (tangents @ direction)) <= half * (1 + 1e-9)
        hit &= (facing > 1e-9) & (distance >= 0)
        seen[:, number] = np.where(hit, distance, np.inf).min(axis=1)
    # A ray may slip between two panels that do not quite meet; the farthest panel is as far as it can see.
    farthest = np.sqrt((offset**2).sum(axis=2)).max(axis=1)
    return angle.sum(axis=1) / (2 * np.pi), np.minimum(seen, farthest[:, None])
