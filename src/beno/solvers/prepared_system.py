"""What the solvers of the scheme's equations have in common."""

from abc import abstractmethod

import numpy as np
from jaxtyping import Float

from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report
from beno.problems.values import Rows, is_tensor
from beno.solvers.base import Prepared
from beno.solvers.finite_volumes import assemble


class PreparedSystem(Prepared):
    """The assembled scheme. It is solved with arrays; tensors take gradients through it, as the matrix is symmetric."""

    def __init__(self, operator: Elliptic, name: str) -> None:
        self.operator, self.system = operator, assemble(operator)
        self.report = Report(name)

    def apply(self, right: RightHandSide) -> Rows:
        if is_tensor(right.f):
            from beno.solvers.device.adjoint import solved_as_arrays  # which needs PyTorch, as tensors do

            return solved_as_arrays(self.operator, right, self._solved)
        vector = self.system.vector(right)
        if self.operator.leaves_constant_free:
            vector = vector - vector.mean(-1, keepdims=True)  # rounding only: what is out of balance was refused
        return self._solved(vector.reshape(-1, vector.shape[-1])).reshape(vector.shape)

    def _solved(self, vectors: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k n"]:
        rows, iterations = self.solve_rows(vectors)
        self.report = Report(self.report.solver, iterations)
        return rows

    @abstractmethod
    def solve_rows(self, vectors: Float[np.ndarray, "k n"]) -> tuple[Float[np.ndarray, "k n"], int]:
        """The solutions, and the most iterations that one of them took."""
