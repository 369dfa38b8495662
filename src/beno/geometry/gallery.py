"""Shapes that no family draws, at any resolution: to see what an operator makes of what it has never seen."""

import numpy as np
from jaxtyping import Bool

from beno.geometry.grid import Domain


def l_shape(resolution: int) -> Domain:
    x, y = _centres(resolution)
    return Domain.from_mask((x < 0.5) | (y < 0.5))


def disc(resolution: int) -> Domain:
    x, y = _centres(resolution)
    return Domain.from_mask(np.hypot(x - 0.5, y - 0.5) < 0.48)


def ring(resolution: int) -> Domain:
    """Between a disc and a square hole."""
    x, y = _centres(resolution)
    return Domain.from_mask((np.hypot(x - 0.5, y - 0.5) < 0.48) & (np.maximum(abs(x - 0.5), abs(y - 0.5)) > 0.15))


def comb(resolution: int) -> Domain:
    """Four teeth on a back."""
    x, y = _centres(resolution)
    return Domain.from_mask((y > 0.75) | (np.floor(8 * x) % 2 == 0))


def spiral(resolution: int) -> Domain:
    """A corridor wound up in the square."""
    x, y = _centres(resolution)
    inside = np.ones_like(x, dtype=bool)
    for left, right, low, high in ((0, 50, 14, 18), (46, 50, 14, 50), (16, 50, 46, 50), (16, 20, 30, 50)):
        inside &= ~((64 * x > left) & (64 * x < right) & (64 * y > low) & (64 * y < high))
    return Domain.from_mask(inside)


SHAPES = {"L": l_shape, "disc": disc, "ring": ring, "comb": comb, "spiral": spiral}


def _centres(resolution: int) -> tuple[Bool[np.ndarray, "N N"] | np.ndarray, np.ndarray]:
    x, y = (np.indices((resolution, resolution)) + 0.5) / resolution
    return x, y
