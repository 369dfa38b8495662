"""The trained operators that come with the package."""

from importlib import resources
from pathlib import Path

import numpy as np

from beno.learned.operator import LearnedOperator
from beno.nn.device import choose_device
from beno.problems.problem import Kind, Problem
from beno.problems.solution import Solution
from beno.support.errors import BenoError

WEIGHTS = resources.files("beno.learned") / "weights"


def names() -> list[str]:
    return sorted(entry.name.removesuffix(".safetensors") for entry in WEIGHTS.iterdir() if entry.name[0] != ".")


def load(name: str | Path, device: str = "cpu") -> LearnedOperator:
    """By name, as "poisson-dirichlet", or from a checkpoint or the folder of a training run; on auto, cpu or cuda."""
    device = choose_device(device)
    if str(name) in names():
        with resources.as_file(WEIGHTS / f"{name}.safetensors") as path:
            return LearnedOperator.load(path, device)
    if not Path(name).exists():
        raise BenoError(f"there is no operator {str(name)!r}, nor a file of that name; there is {', '.join(names())}")
    return LearnedOperator.load(name, device)


def name_for(problem: Problem) -> str:
    """Which of the shipped operators was trained for such a problem."""
    kinds = "dirichlet" if np.all(problem.acting_kind == Kind.DIRICHLET) else "mixed"
    if problem.is_pure_neumann:
        kinds = "neumann"
    name = f"{problem.equation}-{kinds}"
    if name not in names():
        raise BenoError(
            f"no operator is shipped for {problem.equation} with {kinds} walls; there is {', '.join(names())}"
        )
    return name


def solve(problem: Problem, device: str = "cpu") -> Solution:
    """With the shipped operator that was trained for such a problem."""
    problem.require_solvable()
    return load(name_for(problem), device).solve(problem)
