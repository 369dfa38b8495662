"""In which cell of a domain a place lies, and what it sees from there."""

import numpy as np
from jaxtyping import Float, Int

from beno.geometry.base import DIRECTIONS
from beno.geometry.grid import Domain
from beno.support.errors import BenoError


def cells_of(domain: Domain, points: Float[np.ndarray, "m 2"]) -> Int[np.ndarray, " m"]:
    """Which cell each point lies in; a point outside the domain is refused."""
    index = np.floor(np.clip(np.nan_to_num(points, nan=-1.0), -1.0, 2.0) * domain.resolution).astype(int)
    index = np.where(points == 1.0, domain.resolution - 1, index)  # the square's far sides belong to it
    in_box = np.all((index >= 0) & (index < domain.resolution), axis=1)
    cell = np.where(in_box, domain.number[tuple(np.where(in_box[:, np.newaxis], index, 0).T)], -1)
    outside = np.flatnonzero(cell < 0)
    if len(outside):
        x, y = points[outside[0]]
        raise BenoError(f"the point ({x:.4g}, {y:.4g}) is outside the domain")
    return cell


def wall_distance_at(domain: Domain, points: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, "m 4"]:
    """Distance from any inside points to the boundary that they meet first along each of DIRECTIONS."""
    cell = cells_of(domain, points)
    return domain.wall_distance[cell] - (points - domain.points[cell]) @ DIRECTIONS.T
