"""Prepare once for an operator L, apply to any number of right-hand sides: what every solver is.

A solver is chosen by its settings and knows no problem. What it prepares knows one operator, and maps (f, g) to u:
it is L⁻¹, or an approximation of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from beno.problems.operator import Elliptic
from beno.problems.problem import Problem
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report, Solution
from beno.problems.values import FieldLike, Rows, is_tensor
from beno.support.errors import BenoError


class Prepared(ABC):
    """L⁻¹ for one operator."""

    operator: Elliptic
    report: Report  # how the last right-hand side was solved
    balance_tolerance: float | None = None  # by default that of the right-hand side's precision
    is_linear: bool = True  # in the right-hand side

    def __call__(self, right: RightHandSide) -> Rows:
        """u at the points; of a stack of right-hand sides a stack, of tensors a tensor.

        Where walls leave a constant free it is the u of zero mean, and the right-hand side must be in balance.
        """
        self.operator.require_solvable(right, self.balance_tolerance)
        if is_tensor(right.f) or not self.is_linear:
            return self.operator.without_constant(self.apply(right))
        scaled, exponent = right.of_size_one()
        u = np.asarray(self.operator.without_constant(self.apply(scaled)))
        return of_its_size(u, exponent)

    @abstractmethod
    def apply(self, right: RightHandSide) -> Rows:
        """u for a right-hand side that has a solution; any of them, where a constant is free."""

    def solve(self, f: FieldLike = 0.0, g: FieldLike = 0.0) -> Rows:
        """u from functions of (x, y), arrays, stacks of arrays, tensors or numbers."""
        return self(self.operator.right(f, g))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.operator!r})"


class Solver(ABC):
    """Abstract here, final where it is implemented."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What reports and tables call it."""

    @abstractmethod
    def prepare(self, operator: Elliptic) -> Prepared:
        """All that does not depend on the right-hand side."""

    def solve(self, problem: Problem) -> Solution:
        """One problem, prepared for and solved."""
        problem.require_solvable()
        prepared = self.prepare(problem.operator)
        return Solution(problem, np.asarray(prepared(problem.right)), prepared.report)

    def solve_many(self, problems: Sequence[Problem]) -> list[Solution]:
        """One after the other, unless the solver knows better."""
        return [self.solve(problem) for problem in problems]


def of_its_size(u: Float[np.ndarray, "*k n"], exponent: Int[np.ndarray, "*k 1"]) -> Float[np.ndarray, "*k n"]:
    """The answer to a right-hand side that was taken over a power of two: see `RightHandSide.of_size_one`."""
    with np.errstate(over="ignore"):
        u = np.ldexp(u, exponent)
    if not np.isfinite(u).all():
        raise BenoError("the answer is not finite: f or g is too large for double precision")
    return u
