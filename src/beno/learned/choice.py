"""Which solver for which problem: the choice that `beno.solve` and `beno.prepare` make."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from beno.learned.certified import Certified
from beno.learned.costs import COSTS
from beno.learned.shipped import load, names
from beno.nn.device import choose_device
from beno.problems.families import ProblemClass
from beno.problems.law import Poisson
from beno.problems.operator import Elliptic
from beno.problems.problem import Problem
from beno.problems.solution import Solution
from beno.problems.walls import Kind
from beno.solvers.base import Prepared, Solver
from beno.solvers.device.capacitance import LARGEST, Capacitance, differing_rows
from beno.solvers.device.gradients import ConjugateGradients
from beno.solvers.direct import Direct
from beno.solvers.multigrid import Multigrid
from beno.support.errors import BenoError

TOLERANCE = 1e-6
NO_LESS = 1e-14  # which no iteration in double precision can be asked for


@dataclass(frozen=True)
class Method:
    """One way to solve, where it can, to a tolerance."""

    make: Callable[[Elliptic, float, str], Solver]  # for an operator, a tolerance and a device
    refusal: Callable[[Elliptic], str | None]  # why it cannot solve for an operator, as the end of a sentence
    is_automatic: bool = True  # whether it is chosen by itself


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
    "gradients": Method(lambda operator, tolerance, device: ConjugateGradients(device, tolerance), _needs_positive),
    "capacitance-gradients": Method(
        lambda operator, tolerance, device: ConjugateGradients(device, tolerance, nearby="capacitance"),
        lambda operator: _needs_positive(operator) or _needs_few_cells_at_walls(operator),
    ),
    "learned": Method(lambda operator, tolerance, device: load(name_for(operator), device), _needs_weights, False),
}
AUTO = "auto"


def name_for(operator: Elliptic) -> str:
    """Which of the shipped operators was trained for such problems."""
    problems = ProblemClass.of(operator)
    alone = {frozenset({Kind.DIRICHLET}): "dirichlet", frozenset({Kind.NEUMANN}): "neumann"}
    kinds = alone.get(problems.kinds, "mixed")
    name = f"{problems.law}-{kinds}"
    if name not in names():
        raise BenoError(f"no operator is shipped for {problems.law} with {kinds} walls; there is {', '.join(names())}")
    return name


def choose(operator: Elliptic, rows: int, device: str) -> tuple[str, str]:
    """The method that should be the quickest for so many right-hand sides, and why."""
    cells = operator.grid.resolution**2
    expected = {
        name: COSTS[device][name].seconds(cells, rows)
        for name, method in METHODS.items()
        if method.is_automatic and method.refusal(operator) is None
    }
    best = min(expected, key=lambda name: expected[name])
    rest = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in expected.items() if name != best)
    return best, f"{best} should take {expected[best]:.2g} s for {rows} of them on {device}; {rest}"


def solver_for(
    operator: Elliptic, method: str, tolerance: float | None, device: str, rows: int = 1
) -> tuple[Solver, str]:
    """A solver by the name of its method, or the one that should be the quickest; and why it is that one."""
    if method not in (AUTO, *METHODS):
        raise BenoError(f"there is no method {method!r}; there is {AUTO}, {', '.join(METHODS)}")
    if method == "learned":
        if tolerance is not None:
            raise BenoError("an operator alone can promise no tolerance: it must be None for the method learned")
    elif tolerance is None or not NO_LESS <= tolerance < 1:
        raise BenoError(f"the tolerance is {tolerance}; it must be at least {NO_LESS:g} and less than 1")
    device = choose_device(device)
    name, reason = choose(operator, rows, device) if method == AUTO else (method, "it was asked for")
    if refusal := METHODS[name].refusal(operator):
        raise BenoError(f"the method {name} {refusal}")
    return METHODS[name].make(operator, tolerance or 0.0, device), reason


def prepare(
    operator: Elliptic,
    tolerance: float | None = TOLERANCE,
    method: str = AUTO,
    device: str = "auto",
    rows: int = 1000,
    solver: Solver | None = None,
) -> Prepared:
    """All that does not depend on the right-hand side, once for any number of them: ``prepare(operator)(right)``.

    The residual of every answer is at most the tolerance times the size of its right-hand side. ``rows`` is how many
    right-hand sides there may be, which decides how much preparing is worth.
    """
    reason = "it was given"
    if solver is None:
        solver, reason = solver_for(operator, method, tolerance, device, rows)
    return Certified(operator, solver, tolerance, reason)


def solve(
    problem: Problem,
    tolerance: float | None = TOLERANCE,
    method: str = AUTO,
    device: str = "auto",
    solver: Solver | None = None,
) -> Solution:
    """One problem, by the method that should be the quickest; its report says which, and how wrong u can be.

    ``method="learned"`` with ``tolerance=None`` is a trained operator alone.
    """
    prepared = prepare(problem.operator, tolerance, method, device, 1, solver)
    assert isinstance(prepared, Certified)
    problem.require_solvable()
    u = np.asarray(prepared(problem.right))
    report = replace(prepared.report, seconds=prepared.prepared_in + (prepared.report.seconds or 0.0))
    return Solution(problem, u, report)


def solve_many(
    problems: Sequence[Problem], tolerance: float | None = TOLERANCE, method: str = AUTO, device: str = "auto"
) -> list[Solution]:
    """Many problems, each with an operator of its own: side by side on a device, one after the other on a CPU.

    Problems that share an operator are better solved by `prepare`.
    """
    device = choose_device(device)
    together = device == "cuda" and method == AUTO and not any(p.operator.law.fixes_constant() for p in problems)
    if (together or method == "gradients") and tolerance is not None:
        return ConjugateGradients(device, tolerance).solve_many(problems)
    return [solve(problem, tolerance, method, device) for problem in problems]
