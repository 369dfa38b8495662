"""What a coefficient is like around a place: its log, the slope of that, and the potential that it makes.

With ``w = sqrt(kappa) u``, ``div(kappa grad u) = 0`` becomes ``laplace w = q w``, where
``q = laplace(log kappa) / 2 + |grad log kappa|**2 / 4``: measures are screened where q is positive.
"""

import numpy as np
from jaxtyping import Float

from beno.geometry.grid import Domain

COLUMNS = 4  # log kappa, its slope along x and along y, and q


def medium_at_points(
    domain: Domain, kappa: Float[np.ndarray, " n"], kappa_at_panels: Float[np.ndarray, " p"]
) -> Float[np.ndarray, "n 4"]:
    """By differences between each cell's neighbours, or the walls half as far away."""
    panels, near, log_kappa = domain.panels, domain.neighbours, np.log(kappa)
    beside = log_kappa[near]
    away = np.full(near.shape, domain.spacing)
    beside[panels.cell, panels.direction] = np.log(kappa_at_panels)
    away[panels.cell, panels.direction] = domain.spacing / 2
    rise = (beside - log_kappa[:, None]) / away  # outward, in each of DIRECTIONS
    back, forth = rise[:, [0, 2]], rise[:, [1, 3]]
    width = away[:, [0, 2]] + away[:, [1, 3]]
    slope = (forth * away[:, [0, 2]] - back * away[:, [1, 3]]) / width
    bend = 2 * (forth + back) / width
    q = bend.sum(axis=1) / 2 + (slope**2).sum(axis=1) / 4
    return np.column_stack([log_kappa, slope, q])


def medium_at_panels(
    domain: Domain, at_points: Float[np.ndarray, "n 4"], kappa_at_panels: Float[np.ndarray, " p"]
) -> Float[np.ndarray, "p 4"]:
    """As in the cells that they belong to, but for their own log kappa."""
    return np.column_stack([np.log(kappa_at_panels), at_points[domain.panels.cell, 1:]])
