"""Domains made of grid cells, and their boundaries as ordered panels.

The unit square is cut into N x N cells. A domain is a set of them, given by a boolean mask whose
first index runs along x and whose second runs along y: ``mask[i, j]`` is the cell with its centre
at ``((i + 1/2) / N, (j + 1/2) / N)``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import ndimage

from beno.geometry.base import DIRECTIONS, Panels
from beno.support.errors import BenoError

# Each face of cell (0, 0) as a directed edge with the cell on its left, so that a walk along the
# edges goes counter-clockwise around the domain and clockwise around its holes.
_EDGE_START = np.array([[0, 1], [1, 0], [0, 0], [1, 1]])
_EDGE_END = np.array([[0, 0], [1, 1], [1, 0], [0, 1]])

_CROSS = ndimage.generate_binary_structure(2, 1)  # cells are joined through their faces

# A cut is (width, height) in cells, or None where the corner stays.
Cut = tuple[int, int] | None
CORNER_NAMES = ("lower left", "lower right", "upper left", "upper right")


@dataclass(frozen=True, eq=False, repr=False)
class GridPanels(Panels):
    """Faces of cells. A ring starts at its lowest panel (the leftmost of these), however the domain was made."""

    direction: Int[np.ndarray, " p"]  # which of DIRECTIONS the normal is
    cell: Int[np.ndarray, " p"]  # the inside point that the panel belongs to


@dataclass(frozen=True, eq=False, repr=False)
class Domain:
    """A connected set of grid cells inside the unit square."""

    mask: Bool[np.ndarray, "n n"]

    def __repr__(self) -> str:
        return f"Domain({self.resolution} x {self.resolution} cells, {len(self.cells)} inside)"

    @classmethod
    def from_mask(cls, mask: np.ndarray) -> "Domain":
        """Any cell mask, holes included.

        >>> ring = np.ones((8, 8), dtype=bool); ring[3:5, 3:5] = False
        >>> Domain.from_mask(ring).panels.ring_lengths
        array([4., 1.])
        """
        mask = np.array(mask, dtype=bool)
        if mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
            raise BenoError(f"the mask has shape {mask.shape}; it must be square, N x N")
        _refuse_broken(mask)
        mask.flags.writeable = False
        return cls(mask)

    @classmethod
    def square(cls, resolution: int, cuts: Sequence[Cut] = (None,) * 4) -> "Domain":
        """The unit square with rectangles cut from its corners.

        ``cuts`` gives (width, height) in cells for the lower left, lower right, upper left and
        upper right corner, or None where the corner stays. A cut longer than a side ends with it.

        >>> Domain.square(32, [(8, 4), None, None, (16, 16)]).area
        0.71875
        """
        if resolution < 1:
            raise BenoError(f"resolution is {resolution}; it must be at least 1")
        if len(cuts) != 4:
            raise BenoError(f"{len(cuts)} cuts were given; there are four corners")
        mask = np.ones((resolution, resolution), dtype=bool)
        for corner, cut in enumerate(cuts):
            if cut is None:
                continue
            width, height = cut
            if width < 1 or height < 1:
                raise BenoError(
                    f"the cut at the {CORNER_NAMES[corner]} corner is {width} x {height} cells; both must be at least 1"
                )
            if width >= resolution and height >= resolution:
                raise BenoError(
                    f"the cut of {width} x {height} cells at the {CORNER_NAMES[corner]} corner "
                    f"swallows the whole square of {resolution} x {resolution} cells"
                )
            mask[corner_of(corner, width, height)] = False
        if all(cut is None or 2 * max(cut) < resolution for cut in cuts):
            mask.flags.writeable = False
            return cls(mask)  # the middle is whole and reaches every part: nothing to check
        return cls.from_mask(mask)

    @property
    def resolution(self) -> int:
        return self.mask.shape[0]

    @property
    def spacing(self) -> float:
        return 1.0 / self.resolution

    @cached_property
    def cells(self) -> Int[np.ndarray, "n 2"]:
        return np.argwhere(self.mask)

    @cached_property
    def points(self) -> Float[np.ndarray, "n 2"]:
        """The centres of the inside cells, in the order of the mask."""
        return (self.cells + 0.5) * self.spacing

    @cached_property
    def number(self) -> Int[np.ndarray, "n n"]:
        """The index in ``points`` of every cell; -1 outside."""
        number = np.full(self.mask.shape, -1, dtype=np.int32)
        number[self.mask] = np.arange(len(self.cells), dtype=np.int32)
        return number

    @cached_property
    def neighbours(self) -> Int[np.ndarray, "n 4"]:
        """For each point its neighbour in each of DIRECTIONS; -1 where there is none."""
        inner = slice(1, -1)
        padded = np.full((self.resolution + 2, self.resolution + 2), -1, dtype=np.int32)
        padded[inner, inner] = self.number
        shifted = (
            padded[:-2, inner],
            padded[2:, inner],
            padded[inner, :-2],
            padded[inner, 2:],
        )
        return np.stack([near[self.mask] for near in shifted], axis=1)

    @cached_property
    def panels(self) -> GridPanels:
        cell, direction = np.nonzero(self.neighbours < 0)
        corner = self.cells[cell]
        side = self.resolution + 1
        vertex = corner @ (side, 1)
        start = vertex + (_EDGE_START @ (side, 1))[direction]
        end = vertex + (_EDGE_END @ (side, 1))[direction]
        panel_from_vertex = np.full(side * side, -1)
        panel_from_vertex[start] = np.arange(len(cell))
        following = panel_from_vertex[end].tolist()

        centres = self.points[cell] + 0.5 * self.spacing * DIRECTIONS[direction]
        order, ring = _walk_rings(following, np.lexsort(centres.T).tolist())
        direction = direction[order]
        return GridPanels(
            centres=centres[order],
            normals=DIRECTIONS[direction].astype(float),
            lengths=np.full(len(order), self.spacing),
            ring=np.array(ring),
            direction=direction,
            cell=cell[order],
        )

    @cached_property
    def panel_at(self) -> Int[np.ndarray, "n 4"]:
        """For each point its panel in each of DIRECTIONS; -1 where there is a neighbour instead."""
        at = np.full(self.neighbours.shape, -1)
        at[self.panels.cell, self.panels.direction] = np.arange(len(self.panels))
        return at

    @cached_property
    def wall_distance(self) -> Float[np.ndarray, "n 4"]:
        """Distance from each point to the boundary that it meets first along each of DIRECTIONS."""
        n = self.resolution
        x, y = np.indices((n, n))
        outside = ~self.mask
        last_x = np.maximum.accumulate(np.where(outside, x, -1), axis=0)
        next_x = np.minimum.accumulate(np.where(outside, x, n)[::-1], axis=0)[::-1]
        last_y = np.maximum.accumulate(np.where(outside, y, -1), axis=1)
        next_y = np.minimum.accumulate(np.where(outside, y, n)[:, ::-1], axis=1)[:, ::-1]
        steps = np.stack([x - last_x, next_x - x, y - last_y, next_y - y], axis=-1)
        return (steps[self.mask] - 0.5) * self.spacing

    @property
    def centroid(self) -> Float[np.ndarray, " 2"]:
        return self.points.mean(axis=0)

    @property
    def area(self) -> float:
        return len(self.cells) * self.spacing**2


def corner_of(corner: int, width: int, height: int) -> tuple[slice, slice]:
    """Where a picture has the rectangle in one of its corners, numbered as in CORNER_NAMES."""
    along_x = slice(-width, None) if corner % 2 else slice(None, width)
    along_y = slice(-height, None) if corner >= 2 else slice(None, height)
    return along_x, along_y


def _walk_rings(following: list[int], starts: list[int]) -> tuple[list[int], list[int]]:
    """Panel indices in walking order, and the ring of each. One step a panel, none a cell."""
    order: list[int] = []
    ring: list[int] = []
    seen = [False] * len(following)
    for start in starts:
        if len(order) == len(following):
            break
        panel = start
        while not seen[panel]:
            seen[panel] = True
            order.append(panel)
            panel = following[panel]
        ring += [ring[-1] + 1 if ring else 0] * (len(order) - len(ring))
    return order, ring


def _refuse_broken(mask: Bool[np.ndarray, "n n"]) -> None:
    if not mask.any():
        raise BenoError(f"the mask is empty: none of its {mask.size} cells is inside")
    parts, count = ndimage.label(mask, _CROSS)
    if count > 1:
        first_cells = [tuple(np.argwhere(parts == part)[0].tolist()) for part in range(1, count + 1)]
        named = ", ".join(map(str, first_cells[:4])) + (", ..." if count > 4 else "")
        raise BenoError(f"the mask falls into {count} parts, holding the cells {named}; it must be connected")
    lower_left, lower_right = mask[:-1, :-1], mask[1:, :-1]
    upper_left, upper_right = mask[:-1, 1:], mask[1:, 1:]
    pinched = (lower_left == upper_right) & (lower_right == upper_left) & (lower_left != lower_right)
    if pinched.any():
        i, j = np.argwhere(pinched)[0].tolist()
        touching = ((i, j), (i + 1, j + 1)) if mask[i, j] else ((i + 1, j), (i, j + 1))
        raise BenoError(
            f"the cells {touching[0]} and {touching[1]} touch only at a point; join them by a cell or keep them apart"
        )
