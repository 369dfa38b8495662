"""The paper's graph over a set of points: Delaunay edges together with those to the K nearest neighbours."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import Delaunay, QhullError, cKDTree

from beno.support.errors import BenoError


@dataclass(frozen=True, eq=False)
class Graph:
    """Directed edges sender -> receiver, each with its reverse, ordered by receiver and then by sender."""

    receiver: Int[np.ndarray, " e"]
    sender: Int[np.ndarray, " e"]
    reverse: Int[np.ndarray, " e"]  # where the opposite edge stands
    start: Int[np.ndarray, " n_plus_one"]  # the edges into node i are start[i] to start[i + 1]

    def __len__(self) -> int:
        return len(self.receiver)


def build_graph(points: Float[np.ndarray, "n 2"], nearest: int = 8) -> Graph:
    """The same graph whatever the order of the points, also where distances tie, as they do on a grid.

    >>> corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> len(build_graph(corners, nearest=3))
    12
    """
    n = len(points)
    if n == 0 or nearest < 1:
        raise BenoError(f"a graph needs at least 1 point and 1 neighbour, not {n} and {nearest}")
    order = np.lexsort(points.T)
    pairs = np.concatenate([_delaunay_pairs(points[order]), _nearest_pairs(points[order], nearest)])
    return _graph_of(order[pairs], n)


def build_ball_graph(points: Float[np.ndarray, "n 2"], radius: float) -> Graph:
    """All pairs of points within the radius of each other."""
    if len(points) == 0 or not radius > 0:
        raise BenoError(f"a graph needs at least 1 point and a positive radius, not {len(points)} and {radius}")
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray").astype(np.int64)
    if not len(pairs):
        raise BenoError(f"no two of the {len(points)} points are within a radius of {radius}; a larger one joins some")
    return _graph_of(pairs, len(points))


def _graph_of(pairs: Int[np.ndarray, "m 2"], n: int) -> Graph:
    """Each pair once, whichever way and how often it is given."""
    one, other = pairs.T
    low, high = np.divmod(np.unique(np.minimum(one, other) * n + np.maximum(one, other)), n)
    # Each pair becomes two edges, the second as many places after the first as there are pairs.
    receiver, sender = np.concatenate([low, high]), np.concatenate([high, low])
    sorting = np.argsort(receiver * n + sender)
    place = np.empty_like(sorting)
    place[sorting] = np.arange(len(sorting))
    degree = np.bincount(receiver, minlength=n)
    return Graph(
        receiver[sorting],
        sender[sorting],
        reverse=place[(sorting + len(low)) % max(len(sorting), 1)],
        start=np.concatenate([[0], np.cumsum(degree)]),
    )


def _delaunay_pairs(points: Float[np.ndarray, "n 2"]) -> Int[np.ndarray, "m 2"]:
    try:
        triangles = Delaunay(points).simplices
    except (QhullError, ValueError):  # fewer than three points, or all on one line: nothing to triangulate
        return np.empty((0, 2), dtype=np.int64)
    return triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2).astype(np.int64)


def _nearest_pairs(points: Float[np.ndarray, "n 2"], nearest: int) -> Int[np.ndarray, "m 2"]:
    count = min(nearest, len(points) - 1)
    if count == 0:
        return np.empty((0, 2), dtype=np.int64)
    _, near = cKDTree(points).query(points, k=count + 1)
    itself = np.repeat(np.arange(len(points)), count + 1)
    pairs = np.stack([itself, near.ravel()], axis=1)
    return pairs[pairs[:, 0] != pairs[:, 1]]
