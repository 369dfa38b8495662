"""An answer with its tolerance met, whatever it takes, and with a report of how wrong it can be."""

import time
from dataclasses import replace

import numpy as np

from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report
from beno.problems.values import Rows, is_tensor
from beno.solvers.base import Prepared, Solver
from beno.solvers.bound import ErrorBound
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble
from beno.support.errors import BenoError


class Certified(Prepared):
    """A method for one operator, with the direct solver behind it and a bound beside it.

    ``tolerance`` is that of the residual, over the size of the right-hand side; None takes the answer as it is.
    """

    def __init__(
        self, operator: Elliptic, solver: Solver, tolerance: float | None, reason: str = "", is_bounded: bool = True
    ) -> None:
        self.operator, self.solver, self.tolerance, self._reason = operator, solver, tolerance, reason
        started = time.perf_counter()
        self.method = solver.prepare(operator)
        self.balance_tolerance = self.method.balance_tolerance
        self._is_bounded = is_bounded
        self._bound: ErrorBound | None = None
        self._direct: Prepared | None = None
        self.prepared_in = time.perf_counter() - started
        self.report = Report(self.solver.name, reason=reason)

    def apply(self, right: RightHandSide) -> Rows:
        started = time.perf_counter()
        reason = self._reason
        try:
            u = self.method.apply(right)
            used = self.method
        except BenoError as error:
            if self.tolerance is None:
                raise
            used, reason = self._direct_solver(), f"{self.solver.name} gave up: {error}"
            u = used.apply(right)
        seconds = time.perf_counter() - started
        self.report = replace(used.report, seconds=seconds, reason=reason)
        if self._is_bounded and not (is_tensor(u) and u.requires_grad):
            self._certify(u, right)
        return u

    def _certify(self, u: Rows, right: RightHandSide) -> None:
        """How wrong u can be, and what is missing in its equations."""
        answer = self.operator.without_constant(u)
        host = RightHandSide(*(_as_array(rows) for rows in (right.f, right.g)))
        if self._bound is None:
            exact = None if self.tolerance is None else self.method
            self._bound = ErrorBound(self.operator, exact)
        bound = self._bound(_as_array(answer), host)
        self.report = replace(self.report, bound=float(np.max(bound)), residual=self._residual(_as_array(answer), host))

    def _residual(self, u: np.ndarray, right: RightHandSide) -> float:
        system = assemble(self.operator)
        vector, missing = system.vector(right), system.residual(right, u)
        size = np.linalg.norm(vector, axis=-1)
        share = np.linalg.norm(missing, axis=-1) / np.where(size > 0, size, 1.0)
        return float(np.max(share))

    def _direct_solver(self) -> Prepared:
        if self._direct is None:
            self._direct = Direct().prepare(self.operator)
        return self._direct


def _as_array(rows: Rows) -> np.ndarray:
    return rows.detach().cpu().double().numpy() if is_tensor(rows) else np.asarray(rows)
