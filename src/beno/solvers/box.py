"""A particular solution on the bounding box, which turns a source into boundary values.

Any v with ``div(kappa grad v) = f`` in the domain leaves a source-free problem for u - v. On the
whole box, with v = 0 on its walls, the five-point scheme is diagonal in the sine transform of
type II, so v costs two fast transforms. Its trace and normal derivative at the domain's panels are
those for which the split is exact for the scheme in `finite_volume`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import fft
from scipy.sparse.linalg import LinearOperator, cg

from beno.geometry.grid import DIRECTIONS, Domain
from beno.problems.problem import Problem
from beno.support.errors import BenoError

# Limits of conjugate gradients where kappa is smooth, and where it is rough; the latter does for a contrast of 100,000.
MOST_STEPS_SMOOTH, MOST_STEPS_ROUGH = 500, 5000


@dataclass(frozen=True, eq=False)
class Potential:
    at_points: Float[np.ndarray, "*k n"]
    at_panels: Float[np.ndarray, "*k p"]
    normal_derivative: Float[np.ndarray, "*k p"]

    def data(self, problem: Problem) -> Float[np.ndarray, " p"]:
        """What the boundary conditions make of it, as g is given: v, its normal derivative, or Robin's sum of them."""
        of_kind = (self.at_panels, self.normal_derivative, problem.alpha * self.at_panels + self.normal_derivative)
        return np.choose(problem.kind, of_kind)


def grid_potential(problem: Problem) -> Potential:
    domain = problem.domain
    source = _fill(domain, problem.source, outside=0.0)
    if problem.coefficient is None:
        kappa = np.ones(domain.mask.shape)
        v = _inverse_laplacian(source)
    else:
        # Outside the domain any positive value will do; the nearest inside value keeps kappa smooth.
        kappa = extend_to_box(domain, problem.coefficient)
        v = _inverse_divergence(kappa, source)
    return read_off(problem, v, kappa)


def read_off(problem: Problem, v: Float[np.ndarray, "*k N N"], kappa: Float[np.ndarray, "N N"]) -> Potential:
    """What v is at the domain's points, and at its panels what makes the split exact; of one v or of many."""
    panels, h = problem.domain.panels, problem.domain.spacing
    i, j = problem.domain.cells[panels.cell].T
    padded_v, padded_kappa = np.pad(v, [(0, 0)] * (v.ndim - 2) + [(1, 1)] * 2), np.pad(kappa, 1, mode="edge")
    beyond = (i + 1 + DIRECTIONS[panels.direction, 0], j + 1 + DIRECTIONS[panels.direction, 1])
    here, there, v_here = kappa[i, j], padded_kappa[beyond], v[..., i, j]
    on_box = _is_outside_box(beyond, problem.domain.resolution)
    # What flows through the panel's face in the box: to the next cell, or to the box's own wall.
    across = padded_v[..., beyond[0], beyond[1]] - v_here
    flow = np.where(on_box, -2 * here * v_here, 2 * here * there / (here + there) * across)
    wall = problem.wall_coefficient
    return Potential(
        at_points=v[..., problem.domain.mask],
        at_panels=v_here + flow / (2 * wall),
        normal_derivative=flow / (wall * h),
    )


def _is_outside_box(padded_index: tuple[np.ndarray, np.ndarray], resolution: int) -> np.ndarray:
    i, j = padded_index
    return (i == 0) | (j == 0) | (i == resolution + 1) | (j == resolution + 1)


def _inverse_laplacian(source: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    n = len(source)
    eigenvalue = 2 * np.cos(np.pi * np.arange(1, n + 1) / n) - 2
    spectrum = fft.dstn(source, type=2) / (n * n * (eigenvalue[:, None] + eigenvalue[None, :]))
    return fft.idstn(spectrum, type=2)


def _inverse_divergence(
    kappa: Float[np.ndarray, "N N"], source: Float[np.ndarray, "N N"], tolerance: float = 1e-12
) -> Float[np.ndarray, "N N"]:
    """Conjugate gradients with one of two preconditioners, as kappa is smooth or rough.

    With the Laplacian alone the steps grow with kappa's contrast, but there is a number that is
    enough on every grid. The Laplacian between factors of sqrt(kappa) needs far fewer where kappa is
    smooth, and ever more with the grid where it is not; it is given up after that same number.
    """
    n = len(source)
    size = np.abs(source).max() or 1.0  # divided out of f, whose square may be too small for a number
    between_x = 2 * kappa[1:] * kappa[:-1] / (kappa[1:] + kappa[:-1])
    between_y = 2 * kappa[:, 1:] * kappa[:, :-1] / (kappa[:, 1:] + kappa[:, :-1])

    def minus_divergence(flat: np.ndarray) -> np.ndarray:
        v = flat.reshape(n, n)
        out = np.zeros_like(v)
        flow_x, flow_y = between_x * np.diff(v, axis=0), between_y * np.diff(v, axis=1)
        out[:-1] -= flow_x
        out[1:] += flow_x
        out[:, :-1] -= flow_y
        out[:, 1:] += flow_y
        for edge in (np.s_[0, :], np.s_[-1, :], np.s_[:, 0], np.s_[:, -1]):
            out[edge] += 2 * kappa[edge] * v[edge]
        return n * n * out.ravel()

    def minus_inverse_laplacian(flat: np.ndarray) -> np.ndarray:
        return -_inverse_laplacian(flat.reshape(n, n)).ravel()

    def between_roots(flat: np.ndarray) -> np.ndarray:
        return minus_inverse_laplacian(flat / root) / root

    shape = (n * n, n * n)
    root = np.sqrt(kappa).ravel()
    contrast = kappa.max() / kappa.min()
    enough = np.sqrt(contrast) * np.log(2 / tolerance) / 2
    matrix = LinearOperator(shape, minus_divergence, dtype=float)
    v = np.zeros(n * n)
    for precondition, steps in (
        (between_roots, int(min(enough, MOST_STEPS_SMOOTH))),
        (minus_inverse_laplacian, MOST_STEPS_ROUGH),
    ):
        preconditioner = LinearOperator(shape, precondition, dtype=float)
        v, failed = cg(matrix, -source.ravel() / size, x0=v, rtol=tolerance, maxiter=steps, M=preconditioner)
        if not failed:
            return size * v.reshape(n, n)
    raise BenoError(f"kappa is too rough for the grid potential, and its contrast of {contrast:.3g} too high")


def _fill(domain: Domain, values: Float[np.ndarray, " n"], outside: float) -> Float[np.ndarray, "N N"]:
    grid = np.full(domain.mask.shape, outside)
    grid[domain.mask] = values
    return grid


def extend_to_box(domain: Domain, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, "N N"]:
    from scipy import ndimage

    nearest = ndimage.distance_transform_edt(~domain.mask, return_distances=False, return_indices=True)
    return _fill(domain, values, outside=1.0)[tuple(nearest)]
