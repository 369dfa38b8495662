"""How a straight wall is felt on the grid: the five-point scheme's own kernels on a half-plane.

Seen from afar a panel acts through the angle it subtends (Dirichlet) or through ``-log r`` (Neumann). A few
cells away the scheme's kernel differs from these by up to a sixth. Along the wall the scheme is diagonal in
the Fourier transform: row j of cells holds ``A(xi) lam(xi)**j`` with ``lam + 1/lam = 4 - 2 cos(xi)``, and
the row beside the wall fixes A. Everything is in units of the panel's length; row j lies j + 1/2 from the wall.
"""

from functools import cache

import numpy as np
from jaxtyping import Float

ROWS = 24  # of cells, and as many to either side, within which the difference is more than 0.1 %
WAVES = 2**15  # of the quadrature over wave numbers, at whose origin the integrands have a kink
FAR = 200  # rows away, where the continuous Neumann kernel is right to 1e-6


@cache
def dirichlet_correction() -> Float[np.ndarray, "rows columns"]:
    """log of the scheme's Poisson kernel over that of the half-plane, by row and by offset along the wall."""
    cosine, decay = _modes()
    amplitude = 2 / (5 - 2 * cosine - decay)
    kernel = np.stack([np.fft.irfft(amplitude * decay**row)[: ROWS + 1] for row in range(ROWS)])
    away, along = _offsets()
    return np.log(kernel * np.pi / subtended_angle(away, along))


@cache
def neumann_correction() -> Float[np.ndarray, "rows columns"]:
    """The scheme's kernel of a unit flux through a panel less ``-log r / pi`` averaged over the panel."""
    cosine, decay = _modes()
    with np.errstate(divide="ignore"):
        amplitude = 1 / (3 - 2 * cosine - decay)
    along = np.arange(ROWS + 1)
    xi = 2 * np.pi * np.arange(len(cosine)) / WAVES
    rows = []
    for row in range(ROWS):
        # The amplitude grows without bound for long waves; what is left against a far row does not.
        with np.errstate(invalid="ignore"):
            integrand = amplitude * (decay**row * np.cos(np.outer(along, xi)) - decay**FAR)
        integrand[:, 0] = FAR - row  # the limit at xi = 0
        rows.append(integrand[:, 0] + 2 * integrand[:, 1:-1].sum(axis=1) + integrand[:, -1])
    away, along_grid = _offsets()
    return np.array(rows) / WAVES - np.log(FAR + 0.5) / np.pi - mean_log_kernel(away, along_grid)


def subtended_angle(away: np.ndarray, along: np.ndarray) -> np.ndarray:
    """The angle that a panel of unit length fills, seen from so far away and so far along."""
    return np.arctan2(away, away**2 + along**2 - 0.25)


def mean_log_kernel(away: np.ndarray, along: np.ndarray) -> np.ndarray:
    """``-log r / pi``, averaged over a panel of unit length."""

    def primitive(end: np.ndarray) -> np.ndarray:
        return 0.5 * end * np.log(end**2 + away**2) - end + away * np.arctan(end / away)

    return -(primitive(along + 0.5) - primitive(along - 0.5)) / np.pi


def _modes() -> tuple[Float[np.ndarray, " w"], Float[np.ndarray, " w"]]:
    cosine = np.cos(2 * np.pi * np.arange(WAVES // 2 + 1) / WAVES)
    steep = 2 - cosine
    return cosine, steep - np.sqrt(steep**2 - 1)


def _offsets() -> tuple[Float[np.ndarray, "rows 1"], Float[np.ndarray, "1 columns"]]:
    return (np.arange(ROWS) + 0.5)[:, None], np.arange(ROWS + 1.0)[None, :]
