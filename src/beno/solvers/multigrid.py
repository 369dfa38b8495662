"""Conjugate gradients with one Ruge-Stueben V-cycle as preconditioner: for large grids.

J. W. Ruge, K. Stueben, Algebraic multigrid, in Multigrid Methods (SIAM 1987), doi:10.1137/1.9781611971057.ch4; by
PyAMG (Bell, Olson, Schroder, JOSS 2022, doi:10.21105/joss.04142).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from beno.problems.operator import Elliptic
from beno.solvers.base import Prepared, Solver
from beno.solvers.direct import Factorised
from beno.solvers.prepared_system import PreparedSystem
from beno.support.errors import BenoError

NOTHING_TO_COARSEN = 16  # cells, below which
MOST_CYCLES = 200


@dataclass(frozen=True)
class Multigrid(Solver):
    """Preconditioned conjugate gradients to a relative tolerance of the residual; for grids from about 256 x 256."""

    name: ClassVar[str] = "multigrid"
    tolerance: float = 1e-10

    def prepare(self, operator: Elliptic) -> Prepared:
        if len(operator.domain.points) < NOTHING_TO_COARSEN:
            return Factorised(operator, self.name)
        return Hierarchy(operator, self.name, self.tolerance)


class Hierarchy(PreparedSystem):
    """The coarser grids of an operator, made once for all right-hand sides."""

    def __init__(self, operator: Elliptic, name: str, tolerance: float) -> None:
        import pyamg

        super().__init__(operator, name)
        self.tolerance = tolerance
        self._levels = pyamg.ruge_stuben_solver(self.system.solvable_matrix.tocsr())

    def solve_rows(self, vectors: Float[np.ndarray, "k n"]) -> tuple[Float[np.ndarray, "k n"], int]:
        solved, cycles = zip(*map(self._solve_row, vectors), strict=True)
        return np.stack(solved), max(cycles)

    def _solve_row(self, vector: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], int]:
        residuals: list[float] = []
        u = self._levels.solve(vector, tol=self.tolerance, accel="cg", maxiter=MOST_CYCLES, residuals=residuals)
        if residuals[-1] > self.tolerance * max(residuals[0], float(np.linalg.norm(vector))):
            raise BenoError(
                f"multigrid stopped at a relative residual of {residuals[-1] / residuals[0]:.1e} after "
                f"{len(residuals) - 1} cycles; the direct method has no such limit"
            )
        return u, len(residuals) - 1
