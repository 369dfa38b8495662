"""The eight symmetries of the square, under which a solved problem stays a solved problem."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from beno.datasets.records import Sample
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


def transformed(sample: Sample, symmetry: int) -> Sample:
    """The sample turned or mirrored about the square's centre; its points keep their order, its panels have theirs."""
    if symmetry == 0:
        return sample
    move = matrix(symmetry)
    moved = replace(
        sample,
        points=about_centre(sample.points, move),
        centres=about_centre(sample.centres, move),
        normals=sample.normals @ move.T,
    )
    return _with_panels(moved, _match(moved.centres, moved.domain.panels.centres, moved.resolution))


def about_centre(places: Float[np.ndarray, "m 2"], move: Int[np.ndarray, "2 2"]) -> Float[np.ndarray, "m 2"]:
    return (places - 0.5) @ move.T + 0.5


def _match(have: Float[np.ndarray, "p 2"], want: Float[np.ndarray, "p 2"], resolution: int) -> Int[np.ndarray, " p"]:
    """Where each of the wanted panels stands among those there are; centres lie on half steps of the grid."""
    keys = [np.rint(2 * resolution * centres).astype(int) @ (4 * resolution, 1) for centres in (have, want)]
    order = np.argsort(keys[0])
    return order[np.searchsorted(keys[0], keys[1], sorter=order)]


def _with_panels(sample: Sample, order: Int[np.ndarray, " p"]) -> Sample:
    coefficient = None if sample.panel_coefficient is None else sample.panel_coefficient[order]
    return replace(
        sample,
        centres=sample.centres[order],
        normals=sample.normals[order],
        lengths=sample.lengths[order],
        ring=sample.domain.panels.ring,
        kind=sample.kind[order],
        g=sample.g[order],
        alpha=sample.alpha[order],
        panel_coefficient=coefficient,
    )
