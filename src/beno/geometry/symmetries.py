"""The eight symmetries of the square: what they do to places, pictures, directions and panels."""

import numpy as np
from jaxtyping import Float, Int, Shaped

from beno.geometry.base import DIRECTIONS
from beno.geometry.grid import Domain
from beno.support.errors import BenoError

SYMMETRIES = 8

_QUARTER_TURN = np.array([[0, -1], [1, 0]])
_SWAP = np.array([[0, 1], [1, 0]])


def matrix(symmetry: int) -> Int[np.ndarray, "2 2"]:
    """0 is the identity, 1 to 3 are quarter turns, 4 to 7 the same after exchanging x and y."""
    if not 0 <= symmetry < SYMMETRIES:
        raise BenoError(f"there is no symmetry {symmetry}; there are 0 to {SYMMETRIES - 1}")
    turns = np.linalg.matrix_power(_QUARTER_TURN, symmetry % 4)
    return turns @ _SWAP if symmetry >= 4 else turns


def about_centre(places: Float[np.ndarray, "m 2"], move: Int[np.ndarray, "2 2"]) -> Float[np.ndarray, "m 2"]:
    return (places - 0.5) @ move.T + 0.5


def turned_picture(picture: Shaped[np.ndarray, "n n"], symmetry: int) -> Shaped[np.ndarray, "n n"]:
    """A picture, whose first index runs along x, as its places are turned."""
    picture = picture.T if symmetry >= SYMMETRIES // 2 else picture
    return np.rot90(picture, symmetry % 4)


def direction_before(symmetry: int) -> Int[np.ndarray, " 4"]:
    """For each of DIRECTIONS the one that is turned into it."""
    moved = DIRECTIONS @ matrix(symmetry).T
    return np.array([np.flatnonzero((moved == direction).all(axis=1))[0] for direction in DIRECTIONS])


def is_mirrored(symmetry: int) -> bool:
    """Whether a walk around the boundary goes the other way afterwards."""
    return bool(np.linalg.det(matrix(symmetry)) < 0)


def turned_domain(domain: Domain, symmetry: int) -> tuple[Domain, Int[np.ndarray, " n"], Int[np.ndarray, " p"]]:
    """The turned domain, and for each of its points and panels which of the domain's it was."""
    turned = Domain.from_mask(turned_picture(domain.mask, symmetry))
    points = turned_picture(domain.number, symmetry)[turned.mask]
    panels = domain.panel_at[points[turned.panels.cell], direction_before(symmetry)[turned.panels.direction]]
    return turned, points, panels
