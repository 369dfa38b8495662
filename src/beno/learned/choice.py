"""Which solver for which problem: what `beno.solve` and `beno.prepare` choose where nobody else does."""

from beno.learned.shipped import load, names
from beno.problems.families import ProblemClass
from beno.problems.operator import Elliptic
from beno.problems.problem import Problem
from beno.problems.solution import Solution
from beno.problems.walls import Kind
from beno.solvers.base import Prepared, Solver
from beno.support.errors import BenoError


def name_for(operator: Elliptic) -> str:
    """Which of the shipped operators was trained for such problems."""
    problems = ProblemClass.of(operator)
    kinds = {frozenset({Kind.DIRICHLET}): "dirichlet", frozenset({Kind.NEUMANN}): "neumann"}.get(
        problems.kinds, "mixed"
    )
    name = f"{problems.law}-{kinds}"
    if name not in names():
        raise BenoError(f"no operator is shipped for {problems.law} with {kinds} walls; there is {', '.join(names())}")
    return name


def solve(problem: Problem, solver: Solver | None = None, device: str = "cpu") -> Solution:
    """With a solver, or else with the shipped operator that was trained for such problems."""
    problem.require_solvable()
    return (solver or load(name_for(problem.operator), device)).solve(problem)


def prepare(operator: Elliptic, solver: Solver | None = None, device: str = "cpu") -> Prepared:
    """All that does not depend on the right-hand side, once for any number of them: ``prepare(operator)(right)``."""
    return (solver or load(name_for(operator), device)).prepare(operator)
