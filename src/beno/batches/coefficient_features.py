"""What a coefficient is like around a place: its log, the slope of that, and the potential that it makes.

With ``w = sqrt(kappa) u``, ``div(kappa grad u) = 0`` becomes ``laplace w = q w``, where
``q = laplace(log kappa) / 2 + |grad log kappa|**2 / 4``: measures are screened where q is positive.
"""

import numpy as np
from jaxtyping import Float

from beno.geometry.grid import Domain
from beno.problems.operator import Elliptic

COLUMNS = 4  # log kappa, its slope along x and along y, and q
TYPICAL_LOG_KAPPA = 1.63  # the mean over random coefficients of contrast 10


def kappa_features(operator: Elliptic) -> tuple[Float[np.ndarray, "n 4"], Float[np.ndarray, "p 4"]]:
    """At the points and at the panels; zeros where kappa is 1 everywhere."""
    domain, law = operator.domain, operator.law
    if law.is_uniform:
        return np.zeros((len(domain.points), COLUMNS)), np.zeros((len(domain.panels), COLUMNS))
    kappa, at_panels = law.at_points(domain), law.at_panels(domain)
    points = features_at_points(operator.grid, kappa, at_panels)
    panels = features_at_panels(operator.grid, points, at_panels)
    # The unit of kappa is nobody's business: its mean level is that of the data that operators are trained on.
    level = points[:, 0].mean() - TYPICAL_LOG_KAPPA
    points[:, 0] -= level
    panels[:, 0] -= level
    return points, panels


def features_at_points(
    domain: Domain, kappa: Float[np.ndarray, " n"], kappa_at_panels: Float[np.ndarray, " p"]
) -> Float[np.ndarray, "n 4"]:
    """By differences between each cell's neighbours, or the panels half as far away."""
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


def features_at_panels(
    domain: Domain, at_points: Float[np.ndarray, "n 4"], kappa_at_panels: Float[np.ndarray, " p"]
) -> Float[np.ndarray, "p 4"]:
    """As in the cells that they belong to, but for their own log kappa."""
    return np.column_stack([np.log(kappa_at_panels), at_points[domain.panels.cell, 1:]])
