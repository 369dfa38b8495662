"""Solvers of the box: the whole square around a domain, with u given on its walls.

A constant coefficient makes the scheme on the box diagonal in the sine transform of type II, so a right-hand side costs
two fast transforms (Buzbee, Golub, Nielson 1970, doi:10.1137/0707049). A coefficient that varies takes conjugate
gradients with that as their preconditioner.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy import fft, ndimage
from scipy.sparse.linalg import LinearOperator, cg

from beno.geometry.base import DIRECTIONS
from beno.geometry.grid import Domain
from beno.problems.law import Darcy, Poisson, mean_on_face
from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report
from beno.problems.walls import Walls
from beno.solvers.base import Prepared, Solver
from beno.support.errors import BenoError

# Limits of conjugate gradients where kappa is smooth, and where it is rough; the latter does for a contrast of 100,000.
MOST_STEPS_SMOOTH, MOST_STEPS_ROUGH = 500, 5000


def box_of(operator: Elliptic) -> Elliptic:
    """The same law on the whole square, Dirichlet walls around it.

    Outside the domain any positive kappa will do; that of the nearest cell inside keeps it smooth.
    """
    domain, law = operator.grid, operator.law
    if law.reaction(domain) is not None:
        raise BenoError(f"the box has no solver for {law.name}")
    if law.is_uniform:
        return _uniform_box(domain.resolution)
    square = _uniform_box(domain.resolution)
    kappa = extended_to_box(domain, law.at_points(domain)).ravel()
    return Elliptic(square.domain, Darcy(kappa, kappa[square.grid.panels.cell]), square.walls)


@lru_cache(maxsize=8)
def _uniform_box(resolution: int) -> Elliptic:
    square = Domain.square(resolution)
    return Elliptic(square, Poisson(), Walls.uniform(len(square.panels)))


def extended_to_box(domain: Domain, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, "N N"]:
    """Each cell outside has the value of the nearest one inside."""
    nearest = ndimage.distance_transform_edt(~domain.mask, return_distances=False, return_indices=True)
    return filled(domain, values)[tuple(nearest)]


def filled(domain: Domain, values: Float[np.ndarray, "*k n"]) -> Float[np.ndarray, "*k N N"]:
    """Values at the points as a picture of the box, or a stack of them, zero outside."""
    picture = np.zeros((*values.shape[:-1], *domain.mask.shape))
    picture[..., domain.mask] = values
    return picture


@dataclass(frozen=True)
class Box(Solver):
    """For operators of the whole square with Dirichlet walls: fast where kappa is constant."""

    name: ClassVar[str] = "box"

    def prepare(self, operator: Elliptic) -> "PreparedBox":
        if not operator.grid.mask.all() or not operator.walls.fixes_value.all():
            raise BenoError("the box's solver is for the whole square with Dirichlet walls")
        return SineTransform(operator) if operator.law.is_uniform else BoxGradients(operator)


class PreparedBox(Prepared):
    """The inverse on the whole square with Dirichlet walls."""

    def __init__(self, operator: Elliptic) -> None:
        self.operator, self.report = operator, Report(Box.name)

    def apply(self, right: RightHandSide) -> Float[np.ndarray, "*k n"]:
        domain = self.operator.grid
        f, g = right.rows()
        if g.any():  # what the walls add to the equations of their cells, as if it were a source
            response = self.operator.law.at_panels(domain) * self.operator.walls.response(domain.spacing / 2)
            f = np.stack(
                [
                    row - np.bincount(domain.panels.cell, values, minlength=len(row)) / domain.spacing
                    for row, values in zip(f, response * g, strict=True)
                ]
            )
        pictures = f.reshape(-1, *domain.mask.shape)
        return np.stack([self.inverse(picture) for picture in pictures]).reshape(right.f.shape)

    @abstractmethod
    def inverse(self, source: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
        """v with ``div(kappa grad v) = source`` and zero on the walls."""


class SineTransform(PreparedBox):
    """Two sine transforms, where kappa is 1."""

    def inverse(self, source: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
        return inverse_laplacian(source)


def inverse_laplacian(source: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """v with ``laplace v = source`` and zero on the walls of the square."""
    n = len(source)
    eigenvalue = 2 * np.cos(np.pi * np.arange(1, n + 1) / n) - 2
    spectrum = fft.dstn(source, type=2) / (n * n * (eigenvalue[:, None] + eigenvalue[None, :]))
    return fft.idstn(spectrum, type=2)


class BoxGradients(PreparedBox):
    """Conjugate gradients with one of two preconditioners, as kappa is smooth or rough.

    With the Laplacian alone the steps grow with kappa's contrast, but there is a number that is
    enough on every grid. The Laplacian between factors of sqrt(kappa) needs far fewer where kappa is
    smooth, and ever more with the grid where it is not; it is given up after that same number.
    """

    TOLERANCE = 1e-12

    def __init__(self, operator: Elliptic) -> None:
        super().__init__(operator)
        kappa = operator.law.at_points(operator.domain).reshape(operator.grid.mask.shape)
        self._kappa, self._root = kappa, np.sqrt(kappa).ravel()
        panels, at_panels = operator.grid.panels, operator.law.at_panels(operator.domain)
        sides = [panels.direction == number for number in range(len(DIRECTIONS))]
        self._walls = [(panels.cell[side], 2 * at_panels[side]) for side in sides]  # each cell once in a side
        self._between_x = mean_on_face(kappa[1:], kappa[:-1])
        self._between_y = mean_on_face(kappa[:, 1:], kappa[:, :-1])

    def inverse(self, source: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
        n = len(source)
        size = np.abs(source).max() or 1.0  # divided out of f, whose square may be too small for a number
        contrast = self._kappa.max() / self._kappa.min()
        enough = np.sqrt(contrast) * np.log(2 / self.TOLERANCE) / 2
        shape = (n * n, n * n)
        matrix = LinearOperator(shape, self._minus_divergence, dtype=float)
        v = np.zeros(n * n)
        for precondition, steps in (
            (self._between_roots, int(min(enough, MOST_STEPS_SMOOTH))),
            (self._minus_inverse_laplacian, MOST_STEPS_ROUGH),
        ):
            preconditioner = LinearOperator(shape, precondition, dtype=float)
            v, failed = cg(matrix, -source.ravel() / size, x0=v, rtol=self.TOLERANCE, maxiter=steps, M=preconditioner)
            if not failed:
                return size * v.reshape(n, n)
        raise BenoError(f"kappa is too rough for the box's solver, and its contrast of {contrast:.3g} too high")

    def _minus_divergence(self, flat: np.ndarray) -> np.ndarray:
        n = len(self._kappa)
        v = flat.reshape(n, n)
        out = np.zeros_like(v)
        flow_x, flow_y = self._between_x * np.diff(v, axis=0), self._between_y * np.diff(v, axis=1)
        out[:-1] -= flow_x
        out[1:] += flow_x
        out[:, :-1] -= flow_y
        out[:, 1:] += flow_y
        out = out.ravel()
        for cell, conductance in self._walls:
            out[cell] += conductance * flat[cell]
        return n * n * out

    def _minus_inverse_laplacian(self, flat: np.ndarray) -> np.ndarray:
        return -inverse_laplacian(flat.reshape(self._kappa.shape)).ravel()

    def _between_roots(self, flat: np.ndarray) -> np.ndarray:
        return self._minus_inverse_laplacian(flat / self._root) / self._root
