"""A domain as an operator through the boundary sees it: points inside, and panels around them, on no grid at all."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

from beno.errors import BenoError
from beno.geometry import DIRECTIONS, Domain, walk_rings
from beno.solution import wall_distance_at
from beno.walls import WallEnds, wall_ends

CLOSED = 1e-6  # how far, relative to the boundary's length, its outward normals may be from adding up to nothing
INSIDE = 0.5  # of the full angle that the panels fill, seen from a point: 1 from inside, 0 from outside
LARGEST_GAP = 1e-3  # between panels that follow each other, in lengths of the first
PAIRS_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Shape:
    points: Float[np.ndarray, "n 2"]
    centres: Float[np.ndarray, "p 2"]
    normals: Float[np.ndarray, "p 2"]  # outward, of unit length
    lengths: Float[np.ndarray, " p"]
    walls: Float[np.ndarray, "n 4"]  # from each point to the panel that it meets first along each of DIRECTIONS
    ends: WallEnds

    @classmethod
    def of(cls, domain: Domain, points: Float[np.ndarray, "m 2"] | None = None) -> "Shape":
        """The domain's own points, or others inside it."""
        panels = domain.panels
        ends = wall_ends(panels.normals, panels.lengths, panels.ring)
        if points is None:
            return cls(domain.points, panels.centres, panels.normals, panels.lengths, domain.wall_distance, ends)
        return cls(points, panels.centres, panels.normals, panels.lengths, wall_distance_at(domain, points), ends)

    @classmethod
    def from_panels(cls, points: np.ndarray, centres: np.ndarray, normals: np.ndarray, lengths: np.ndarray) -> "Shape":
        """Straight panels of any length and direction that together close the boundary.

        >>> middle = np.array([[0.0, 1.0], [0.0, -1.0], [2.0, 0.0], [-2.0, 0.0]])
        >>> normal = middle / np.array([1.0, 1.0, 2.0, 2.0])[:, None]
        >>> Shape.from_panels(np.array([[0.5, 0.0]]), middle, normal, np.array([4.0, 4.0, 2.0, 2.0])).walls
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
        walls = np.concatenate([walls for _, walls in views])
        return cls(points, centres, normals, lengths, walls, _ends_of_loose(centres, normals, lengths))


def _ends_of_loose(
    centres: Float[np.ndarray, "p 2"], normals: Float[np.ndarray, "p 2"], lengths: Float[np.ndarray, " p"]
) -> WallEnds:
    """The same as of panels in order, which are put in order by where each one ends and the next begins."""
    half = np.stack([-normals[:, 1], normals[:, 0]], axis=1) * lengths[:, None] / 2
    gap, following = cKDTree(centres - half).query(centres + half)
    if len(np.unique(following)) < len(following) or (gap > LARGEST_GAP * lengths).any():
        everywhere = np.full((len(lengths), 2), lengths.sum())  # not one that can be walked along: no corners known
        itself = np.repeat(np.arange(len(lengths))[:, None], 2, axis=1)
        return WallEnds(everywhere, np.zeros_like(everywhere), np.full_like(everywhere, np.pi), itself)
    order, ring = walk_rings(following.tolist(), list(range(len(lengths))))
    ends = wall_ends(normals[order], lengths[order], np.array(ring))
    place = np.argsort(order)
    next_panel = np.array(order)[ends.next_panel[place]]
    return WallEnds(ends.distance[place], ends.beside[place], ends.angle[place], next_panel)


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
    walls = np.full((len(points), len(DIRECTIONS)), np.inf)
    for number, direction in enumerate(DIRECTIONS):
        facing = normals @ direction
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = away / facing
            hit = np.abs(along - distance * (tangents @ direction)) <= half * (1 + 1e-9)
        hit &= (facing > 1e-9) & (distance >= 0)
        walls[:, number] = np.where(hit, distance, np.inf).min(axis=1)
    # A ray may slip between two panels that do not quite meet; the farthest panel is as far as it can see.
    farthest = np.sqrt((offset**2).sum(axis=2)).max(axis=1)
    return angle.sum(axis=1) / (2 * np.pi), np.minimum(walls, farthest[:, None])
