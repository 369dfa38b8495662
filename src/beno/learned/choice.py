"""Which solver for which problem: the choice that `beno.solve` and `beno.prepare` make."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from beno.learned.certified import Certified, judged
from beno.learned.costs import COSTS
from beno.learned.preconditioned import Preconditioned
from beno.learned.shipped import load, names
from beno.models.harmonic.config import boundary_for
from beno.nn.device import choose_device
from beno.problems.families import ProblemClass
from beno.problems.law import Poisson
from beno.problems.operator import Elliptic
from beno.problems.problem import Problem
from beno.problems.solution import Solution
from beno.solvers.base import Solver
from beno.solvers.device.capacitance import LARGEST, Capacitance, differing_rows
from beno.solvers.device.gradients import ConjugateGradients
from beno.solvers.device.stencil import ToleranceMissed
from beno.solvers.direct import Direct
from beno.solvers.discretisation import has_jumps, solve_within
from beno.solvers.multigrid import Multigrid
from beno.support.errors import BenoError

AUTO, LEARNED = "auto", "learned"
TOLERANCE = 1e-6
LARGE_SHARE = 1.0  # of the largest |u|: a network whose bound is more than that is warned of
NO_LESS = 1e-14  # which no iteration in double precision can be asked for


@dataclass(frozen=True, repr=False)
class Method:
    """One way to solve, where it can, to a tolerance."""

    make: Callable[[Elliptic, float, str], Solver]  # for an operator, a tolerance and a device
    refusal: Callable[[Elliptic], str | None]  # why it cannot solve for an operator, as the end of a sentence
    is_automatic: bool = True  # whether it is chosen by itself
    is_slowed_by_jumps: bool = False  # of kappa, where it is not chosen then


def _needs_positive(operator: Elliptic) -> str | None:
    return "needs a law without a reaction" if operator.law.fixes_constant() else None


def _needs_few_rows(operator: Elliptic) -> str | None:
    rows = differing_rows(operator)
    return f"takes {LARGEST} rows that are not the box's own; here are {rows}" if rows > LARGEST else None


def _needs_few_cells_at_walls(operator: Elliptic) -> str | None:
    return _needs_few_rows(Elliptic(operator.domain, Poisson(), operator.walls))


def _needs_weights(operator: Elliptic) -> str | None:
    try:
        name_for(operator)
    except BenoError as error:
        return f"finds none: {error}"
    return None


METHODS: dict[str, Method] = {
    "direct": Method(lambda operator, tolerance, device: Direct(), lambda operator: None),
    "multigrid": Method(lambda operator, tolerance, device: Multigrid(tolerance), _needs_positive),
    "capacitance": Method(lambda operator, tolerance, device: Capacitance(device, tolerance), _needs_few_rows),
    "gradients": Method(
        lambda operator, tolerance, device: ConjugateGradients(device, tolerance),
        _needs_positive,
        is_slowed_by_jumps=True,
    ),
    "capacitance-gradients": Method(
        lambda operator, tolerance, device: ConjugateGradients(device, tolerance, nearby="capacitance"),
        lambda operator: _needs_positive(operator) or _needs_few_cells_at_walls(operator),
        is_slowed_by_jumps=True,
    ),
    "preconditioned": Method(
        lambda operator, tolerance, device: Preconditioned(load(name_for(operator), device), tolerance),
        _needs_weights,
        is_automatic=False,
    ),
    LEARNED: Method(
        lambda operator, tolerance, device: load(name_for(operator), device), _needs_weights, is_automatic=False
    ),
}


def name_for(operator: Elliptic) -> str:
    """Which of the shipped operators was trained for such problems."""
    problems = ProblemClass.of(operator)
    kinds = boundary_for(problems.kinds)
    name = f"{problems.law}-{kinds}"
    if name not in names():
        raise BenoError(f"no operator is shipped for {problems.law} with {kinds} walls; there is {', '.join(names())}")
    return name


def choose(operator: Elliptic, rows: int, device: str) -> tuple[str, str]:
    """The method that should be the quickest for so many right-hand sides, and why."""
    cells, jumps = operator.grid.resolution**2, has_jumps(operator)
    expected = {
        name: COSTS[device][name].seconds(cells, rows)
        for name, method in METHODS.items()
        if method.is_automatic and not (jumps and method.is_slowed_by_jumps) and method.refusal(operator) is None
    }
    best = min(expected, key=lambda name: expected[name])
    rest = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in expected.items() if name != best)
    return best, f"{best} should take {expected[best]:.2g} s for {rows} of them on {device}; {rest}"


@dataclass(frozen=True)
class Automatic(Solver):
    """The solver that chooses among all, and ends with the tolerance met, by a direct solve at last.

    ``rows`` is how many right-hand sides an operator that is prepared may have, which decides how much preparing is
    worth. ``solver`` is one to use instead of any choice.
    """

    name: ClassVar[str] = "auto"
    tolerance: float | None = TOLERANCE
    method: str = AUTO
    device: str = AUTO
    rows: int = 1000
    solver: Solver | None = None

    def __post_init__(self) -> None:
        if self.method not in (AUTO, *METHODS):
            raise BenoError(f"there is no method {self.method!r}; there is {AUTO}, {', '.join(METHODS)}")
        if self.method == LEARNED:
            if self.tolerance is not None:
                raise BenoError("an operator alone can promise no tolerance: it must be None for the method learned")
        elif self.tolerance is None or not NO_LESS <= self.tolerance < 1:
            raise BenoError(f"the tolerance is {self.tolerance}; it must be at least {NO_LESS:g} and less than 1")

    def chosen(self, operator: Elliptic, rows: int) -> tuple[Solver, str]:
        """The solver for so many right-hand sides, and why it is that one."""
        if self.solver is not None:
            return self.solver, "it was given"
        device = choose_device(self.device)
        automatic = self.method == AUTO
        name, reason = choose(operator, rows, device) if automatic else (self.method, "it was asked for")
        if refusal := METHODS[name].refusal(operator):
            raise BenoError(f"the method {name} {refusal}")
        return METHODS[name].make(operator, self.tolerance or 0.0, device), reason

    def prepare(self, operator: Elliptic) -> Certified:
        return Certified(operator, *self.chosen(operator, self.rows), tolerance=self.tolerance)

    def solve(self, problem: Problem) -> Solution:
        """One problem, by what is quickest for one; its time is that of preparing and solving."""
        problem.require_solvable()
        solver, reason = self.chosen(problem.operator, 1)
        if self.tolerance is None:
            return _as_it_is(solver, problem, reason)
        prepared = Certified(problem.operator, solver, reason, self.tolerance)
        u = np.asarray(prepared(problem.right))
        report = replace(prepared.report, seconds=prepared.prepared_in + (prepared.report.seconds or 0.0))
        return Solution(problem, u, report)


def _as_it_is(solver: Solver, problem: Problem, reason: str) -> Solution:
    """One pass of a network: nothing is assembled for a single right-hand side."""
    started = time.perf_counter()
    solution = solver.solve(problem)
    report = replace(solution.report, seconds=time.perf_counter() - started, reason=reason)
    report = judged(report, problem.operator, solution.u, problem.right)
    largest = float(np.abs(solution.u).max())
    if report.bound is not None and report.bound > LARGE_SHARE * largest:
        warnings.warn(
            f"{solver.name} may be wrong by as much as {report.bound:.1e}, where u is up to {largest:.1e}; "
            "an answer with a tolerance is not",
            stacklevel=4,
        )
    return replace(solution, report=report)


def prepare(
    operator: Elliptic,
    tolerance: float | None = TOLERANCE,
    method: str = AUTO,
    device: str = AUTO,
    rows: int = 1000,
    solver: Solver | None = None,
) -> Certified:
    """All that does not depend on the right-hand side, once for any number of them: ``prepare(operator)(right)``.

    The residual of every answer is at most the tolerance times the size of its right-hand side.
    """
    return Automatic(tolerance, method, device, rows, solver).prepare(operator)


def solve(
    problem: Problem,
    tolerance: float | None = TOLERANCE,
    method: str = AUTO,
    device: str = AUTO,
    solver: Solver | None = None,
    accuracy: float | None = None,
) -> Solution:
    """One problem, by the method that should be the quickest; its report says which, and how wrong u can be.

    ``method="learned"`` with ``tolerance=None`` is a trained operator alone. With an ``accuracy`` the grid is chosen as
    well: so that the estimated relative L2 error of the equation, and not of the scheme alone, is no larger.
    """
    automatic = Automatic(tolerance, method, device, solver=solver)
    return automatic.solve(problem) if accuracy is None else solve_within(problem, accuracy, automatic)


def solve_many(
    problems: Sequence[Problem], tolerance: float | None = TOLERANCE, method: str = AUTO, device: str = AUTO
) -> list[Solution]:
    """Many problems, each with an operator of its own: side by side on a GPU, one after the other on a CPU.

    Problems that share an operator are better solved by `prepare`.
    """
    automatic = Automatic(tolerance, method, device)
    on_gpu = choose_device(device) == "cuda" and not any(p.operator.law.fixes_constant() for p in problems)
    if tolerance is None or not (method == "gradients" or (method == AUTO and on_gpu)):
        return [automatic.solve(problem) for problem in problems]
    try:
        return ConjugateGradients(choose_device(device), tolerance).solve_many(problems)
    except ToleranceMissed as missed:
        # Those that were too hard one by one, and the others again.
        hard = {row: Automatic(tolerance, "direct").solve(problems[row]) for row in missed.rows}
        easy = [row for row in range(len(problems)) if row not in hard]
        solved = solve_many([problems[row] for row in easy], tolerance, method, device)
        found = hard | dict(zip(easy, solved, strict=True))
        return [found[row] for row in range(len(problems))]
