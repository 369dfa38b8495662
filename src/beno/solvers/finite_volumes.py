"""Cell-centred finite volumes on the grid, second order: the paper's scheme for every problem here.

Integrating ``div(kappa grad u) = f`` over a cell of side h gives, with kappa between two cells as
their harmonic mean::

    sum over inner faces  kappa_face (u_near - u)
    + sum over wall faces   kappa_wall h (b g - a u)   =   h^2 f,

where at a wall, half a cell away, the three kinds of boundary differ only in a and b::

    Dirichlet  a = b = 2/h        Neumann  a = 0, b = 1        Robin  a = alpha b, b = 1/(1 + alpha h/2).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from beno.problems.problem import Kind, Problem
from beno.problems.solution import Solution
from beno.support.errors import BenoError

# Where a column lists its cell and each of the four neighbours, so that row indices ascend: -x, -y, itself, +y, +x.
_BESIDE, _ITSELF = [0, 4, 1, 3], 2


@dataclass(frozen=True, eq=False)
class System:
    """The scheme as ``matrix @ u = right_hand_side(f, g)``, the matrix symmetric and positive."""

    problem: Problem
    matrix: sparse.csc_array
    wall_weight: Float[np.ndarray, " p"]  # what one unit of g adds to the equation of its cell

    def right_hand_side(self, source: Float[np.ndarray, " n"], g: Float[np.ndarray, " p"]) -> Float[np.ndarray, " n"]:
        domain = self.problem.domain
        at_walls = np.bincount(domain.panels.cell, self.wall_weight * g, minlength=len(source))
        return at_walls - domain.spacing**2 * source

    def residual(self, u: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """What is missing in each cell's equation, in the units of u."""
        return self.right_hand_side(self.problem.source, self.problem.g) - self.matrix @ u

    @cached_property
    def factorisation(self) -> sparse_linalg.SuperLU:
        """Made once; then each right-hand side costs two triangular solves."""
        return _factorise(self.solvable_matrix)

    @cached_property
    def solvable_matrix(self) -> sparse.csc_array:
        """The matrix, made regular if all walls are Neumann.

        One added to the first diagonal entry changes no solution of a balanced problem except for
        its constant: summed over all rows the equations then say u[0] = 0.
        """
        if not self.problem.is_pure_neumann:
            return self.matrix
        pinned = self.matrix.copy()
        pinned.data[0] += 1.0  # itself is the first entry of the first column
        return pinned


def assemble(problem: Problem) -> System:
    domain = problem.domain
    panels, near, h = domain.panels, domain.neighbours, domain.spacing
    inside = near >= 0

    if problem.coefficient is None:
        conductance = inside.astype(float)
    else:
        here, there = problem.coefficient[:, None], problem.coefficient[near]
        conductance = np.where(inside, 2 * here * there / (here + there), 0.0)

    dirichlet = problem.kind == Kind.DIRICHLET
    b = np.where(dirichlet, 2 / h, 1 / (1 + problem.alpha * h / 2))
    a = np.where(dirichlet, 2 / h, problem.alpha * b)
    wall = problem.wall_coefficient * h
    diagonal = conductance @ np.ones(4) + np.bincount(panels.cell, wall * a, minlength=len(near))

    rows = np.empty((len(near), 5), dtype=near.dtype)
    rows[:, _BESIDE], rows[:, _ITSELF] = near, np.arange(len(near))
    values = np.empty((len(near), 5))
    values[:, _BESIDE], values[:, _ITSELF] = -conductance, diagonal
    present = rows >= 0
    column_start = np.zeros(len(near) + 1, dtype=rows.dtype)
    column_start[1:] = np.cumsum(present.ravel(), dtype=rows.dtype)[4::5]
    # Filled in by hand: the constructor's checks of what is sound would take as long as all of the above.
    matrix = sparse.csc_array((len(near), len(near)))
    matrix.data, matrix.indices, matrix.indptr = values[present], rows[present], column_start
    return System(problem, matrix, wall * b)


@runtime_checkable
class Method(Protocol):
    name: str

    def __call__(self, system: System, right: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], int]:
        """u, and the number of iterations that it took."""


@dataclass(frozen=True)
class Direct:
    """Sparse LU with a symmetric minimum-degree order: the fastest up to about 256 x 256."""

    name = "direct"

    def __call__(self, system: System, right: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], int]:
        return system.factorisation.solve(right), 1


@dataclass(frozen=True)
class Multigrid:
    """Conjugate gradients with one Ruge-Stueben V-cycle as preconditioner: for large grids."""

    tolerance: float = 1e-10
    name = "multigrid"

    def __call__(self, system: System, right: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], int]:
        import pyamg

        if len(right) < 16:  # nothing to coarsen
            return Direct()(system, right)
        hierarchy = pyamg.ruge_stuben_solver(system.solvable_matrix.tocsr())
        residuals: list[float] = []
        u = hierarchy.solve(right, tol=self.tolerance, accel="cg", maxiter=200, residuals=residuals)
        if residuals[-1] > self.tolerance * max(residuals[0], float(np.linalg.norm(right))):
            raise BenoError(
                f"multigrid stopped at a relative residual of {residuals[-1] / residuals[0]:.1e} after "
                f"{len(residuals) - 1} cycles; the direct method has no such limit"
            )
        return u, len(residuals) - 1


@dataclass(frozen=True)
class GaussSeidel:
    """Sweeps over the cells in their order, as in the paper: right, but slow."""

    tolerance: float = 1e-8
    most_sweeps: int = 200_000
    sweeps_between_checks: int = 50
    name = "gauss-seidel"

    def __call__(self, system: System, right: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], int]:
        from pyamg.relaxation.relaxation import gauss_seidel

        matrix = system.matrix.tocsr()
        u = np.zeros_like(right)
        size = np.linalg.norm(right)
        sweeps = 0
        while np.linalg.norm(right - matrix @ u) > self.tolerance * size:
            more = min(self.sweeps_between_checks, self.most_sweeps - sweeps)
            if more < 1:
                raise BenoError(f"Gauss-Seidel has not reached a residual of {self.tolerance} in {sweeps} sweeps")
            gauss_seidel(matrix, u, right, iterations=more)
            sweeps += more
        return u, sweeps


def solve(problem: Problem, method: Method = Direct()) -> Solution:  # noqa: B008 (frozen, holds nothing)
    """The solution of the scheme; under pure Neumann walls the one with zero mean.

    >>> from beno.geometry.grid import Domain
    >>> from beno.problems.problem import poisson
    >>> corner_cut = Domain.square(16, [(4, 4), None, None, None])
    >>> solution = solve(poisson(corner_cut, g=lambda x, y: 3 * x - 2 * y))
    >>> bool(np.allclose(solution.u, corner_cut.points @ (3, -2)))
    True
    """
    problem.require_solvable()
    system = assemble(problem)
    right = system.right_hand_side(problem.source, problem.g)
    if problem.is_pure_neumann:
        right = right - right.mean()  # rounding only; require_solvable has refused the rest
    u, iterations = method(system, right)
    if problem.is_pure_neumann:
        u = u - u.mean()
    return Solution(problem, u, solver=method.name, iterations=iterations)


def _factorise(matrix: sparse.csc_array) -> sparse_linalg.SuperLU:
    try:
        return sparse_linalg.splu(
            matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
    except RuntimeError as error:
        raise BenoError(f"the equations cannot be solved in double precision ({error}); is kappa near zero?") from error
