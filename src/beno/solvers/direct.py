"""Sparse LU with a symmetric minimum-degree order (SuperLU): the fastest up to about 256 x 256.

X. S. Li, An overview of SuperLU, ACM TOMS 31 (2005), doi:10.1145/1089014.1089017.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.sparse import csc_array
from scipy.sparse.linalg import SuperLU, splu

from beno.problems.operator import Elliptic
from beno.solvers.base import Solver
from beno.solvers.prepared_system import PreparedSystem
from beno.support.errors import BenoError


@dataclass(frozen=True)
class Direct(Solver):
    """
    >>> from beno.geometry.grid import Domain
    >>> from beno.problems.problem import poisson
    >>> corner_cut = Domain.square(16, [(4, 4), None, None, None])
    >>> solution = Direct().solve(poisson(corner_cut, g=lambda x, y: 3 * x - 2 * y))
    >>> bool(np.allclose(solution.u, corner_cut.points @ (3, -2)))
    True
    """

    name: ClassVar[str] = "direct"

    def prepare(self, operator: Elliptic) -> "Factorised":
        return Factorised(operator, self.name)


class Factorised(PreparedSystem):
    """Made once; then each right-hand side costs two triangular solves."""

    def __init__(self, operator: Elliptic, name: str = Direct.name) -> None:
        super().__init__(operator, name)
        self._factors = factorised(self.system.solvable_matrix)

    def solve_rows(self, vectors: Float[np.ndarray, "k n"]) -> tuple[Float[np.ndarray, "k n"], int]:
        return self._factors.solve(np.ascontiguousarray(vectors.T)).T, 1


def factorised(matrix: csc_array) -> SuperLU:
    """The sparse LU factors of a symmetric matrix."""
    try:
        return splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError as error:
        raise BenoError(f"the equations cannot be solved in double precision ({error}); is kappa near zero?") from error
