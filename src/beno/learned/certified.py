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
        self, operator: Elliptic, solver: Solver, reason: str, tolerance: float | None, is_bounded: bool = True
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
            if self._bound is None:
                self._bound = ErrorBound(self.operator, None if self.tolerance is None else self.method)
            self.report = judged(self.report, self.operator, u, right, self._bound)
        return u

    def _direct_solver(self) -> Prepared:
        if self._direct is None:
            self._direct = Direct().prepare(self.operator)
        return self._direct


def judged(
    report: Report, operator: Elliptic, u: Rows, right: RightHandSide, bound: ErrorBound | None = None
) -> Report:
    """The report with what is missing in the equations of an answer, and how wrong it can be for that."""
    system, host = assemble(operator), RightHandSide(_as_array(right.f), _as_array(right.g))
    answer = _as_array(operator.without_constant(u))
    vector, missing = system.vector(host), system.residual(host, answer)
    size = np.linalg.norm(vector, axis=-1)
    residual = np.max(np.linalg.norm(missing, axis=-1) / np.where(size > 0, size, 1.0))
    at_most = np.max((bound or ErrorBound(operator))(answer, host))
    return replace(report, residual=float(residual), bound=float(at_most))


def _as_array(rows: Rows) -> np.ndarray:
    return rows.detach().cpu().double().numpy() if is_tensor(rows) else np.asarray(rows)
