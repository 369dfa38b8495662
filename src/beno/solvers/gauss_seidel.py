"""Sweeps over the cells in their order, as in the paper: right, but slow."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from beno.problems.operator import Elliptic
from beno.solvers.base import Solver
from beno.solvers.prepared_system import PreparedSystem
from beno.support.errors import BenoError


@dataclass(frozen=True)
class GaussSeidel(Solver):
    """Sweeps until the relative residual is below a tolerance."""

    name: ClassVar[str] = "gauss-seidel"
    tolerance: float = 1e-8
    most_sweeps: int = 200_000
    sweeps_between_checks: int = 50

    def prepare(self, operator: Elliptic) -> "Swept":
        return Swept(operator, self)


class Swept(PreparedSystem):
    """The equations of one operator, to be swept over."""

    def __init__(self, operator: Elliptic, settings: GaussSeidel) -> None:
        super().__init__(operator, settings.name)
        self.settings, self._rows = settings, self.system.matrix.tocsr()

    def solve_rows(self, vectors: Float[np.ndarray, "k n"]) -> tuple[Float[np.ndarray, "k n"], int]:
        solved, sweeps = zip(*map(self._solve_row, vectors), strict=True)
        return np.stack(solved), max(sweeps)

    def _solve_row(self, vector: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, " n"], int]:
        from pyamg.relaxation.relaxation import gauss_seidel

        settings, size = self.settings, np.linalg.norm(vector)
        u, sweeps = np.zeros_like(vector), 0
        while np.linalg.norm(vector - self._rows @ u) > settings.tolerance * size:
            more = min(settings.sweeps_between_checks, settings.most_sweeps - sweeps)
            if more < 1:
                raise BenoError(f"Gauss-Seidel has not reached a residual of {settings.tolerance} in {sweeps} sweeps")
            gauss_seidel(self._rows, u, vector, iterations=more)
            sweeps += more
        return u, sweeps
