"""An answer with its tolerance met, whatever it takes, and with a report of how wrong it can be."""

import time
from dataclasses import replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report
from beno.problems.values import Rows, is_tensor
from beno.solvers.base import Prepared, Solver
from beno.solvers.bound import ErrorBound
from beno.solvers.device.stencil import ToleranceMissed
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble
from beno.support.errors import BenoError


class Certified(Prepared):
    """A method for one operator, with the direct solver behind it and a bound beside it.

    ``tolerance`` is that of the residual, over the size of the right-hand side; None takes the answer as it is.
    """

    def __init__(self, operator: Elliptic, solver: Solver, reason: str, tolerance: float | None) -> None:
        self.operator, self.solver, self.tolerance, self._reason = operator, solver, tolerance, reason
        self._direct: Prepared | None = None
        started = time.perf_counter()
        try:
            self.method = solver.prepare(operator)
        except BenoError as error:  # too little memory, say
            if tolerance is None:
                raise
            self.method, self._reason = self._direct_solver(), f"{solver.name} gave up: {error}"
        self.balance_tolerance = self.method.balance_tolerance
        self.prepared_in = time.perf_counter() - started
        self.report = Report(self.method.report.solver, reason=self._reason)

    def __call__(self, right: RightHandSide) -> Rows:
        u = super().__call__(right)
        if self.report.bound is not None:  # it was found for a right-hand side of size one
            exponent = int(right.of_size_one()[1][0]) if self.method.is_linear else 0
            self.report = replace(self.report, bound=float(np.ldexp(self.report.bound, exponent)))
        return u

    @property
    def is_linear(self) -> bool:  # type: ignore[override]
        return self.method.is_linear

    def apply(self, right: RightHandSide) -> Rows:
        """One answer comes with its bound; those of a stack come without, which `bound` makes up for."""
        started = time.perf_counter()
        reason = self._reason
        try:
            used = self.method
            u = used.apply(right)
        except BenoError as error:
            if self.tolerance is None:
                raise
            used, reason = self._direct_solver(), f"{self.solver.name} gave up: {error}"
            u = used.apply(right)
        self.report = replace(used.report, seconds=time.perf_counter() - started, reason=reason)
        if right.is_stack or is_tensor(u):
            return u
        answer, off = self._as_good_as_asked_for(np.asarray(u), right)
        residual = residual_share(self.operator, answer, right)
        self.report = replace(self.report, residual=residual, bound=float(off.max()))
        if self.tolerance is not None and residual > self.tolerance:
            # Where walls hold u weakly, no number next to the right one has a small residual; then the bound decides.
            if not off.max() <= self.tolerance * np.abs(answer).max():
                raise ToleranceMissed(used.report.solver, [0], self.tolerance)
            self.report = replace(self.report, reason=f"{reason}; u is as exact as double precision can hold it")
        return answer

    def bound(self, u: Rows, right: RightHandSide) -> Float[np.ndarray, "*k n"]:
        """How far any answers of this operator are at most from the solutions of the scheme, point by point."""
        return self._error_bound(u, right)

    def _as_good_as_asked_for(
        self, u: Float[np.ndarray, " n"], right: RightHandSide
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """The answer and its bound; corrected where walls hold u so weakly that a small residual says little of it."""
        u = self.operator.without_constant(u)
        error = self._error_bound(u, right)
        if self.tolerance is None:
            return u, error
        is_good = residual_share(self.operator, u, right) <= self.tolerance
        if not is_good or error.max() > self.tolerance * np.abs(u).max():
            better, bound = self._error_bound.corrected(u, right)
            if bound.max() < error.max():
                return better, bound
        return u, error

    @cached_property
    def _error_bound(self) -> ErrorBound:
        return ErrorBound(self.operator, None if self.tolerance is None else self.method)

    def _direct_solver(self) -> Prepared:
        if self._direct is None:
            self._direct = Direct().prepare(self.operator)
        return self._direct


def judged(report: Report, operator: Elliptic, u: Float[np.ndarray, " n"], right: RightHandSide) -> Report:
    """The report with what is missing in the equations of an answer, and how wrong it can be for that."""
    bound = ErrorBound(operator)(u, right)
    return replace(report, residual=residual_share(operator, u, right), bound=float(bound.max()))


def residual_share(operator: Elliptic, u: Float[np.ndarray, " n"], right: RightHandSide) -> float:
    """What is missing in the equations, over the size of their right-hand side."""
    system = assemble(operator)
    size = float(np.linalg.norm(system.vector(right)))
    return float(np.linalg.norm(system.residual(right, u))) / (size or 1.0)
