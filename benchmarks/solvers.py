"""The three ways to solve the same systems, in time and in memory.

The direct method against Gauss-Seidel on small grids, multigrid against the direct method on large
ones; then the peak memory of a whole solve on the largest grid, the drawing of the problem included.
Both sides of a ratio prepare from the same problem, assembly included.
"""

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter

import fresh_process
import numpy as np
import pyamg.relaxation.relaxation  # noqa: F401 (so that its import is in no time and in the baseline of memory)
from record import record
from rich.console import Console
from rich.table import Table

from beno.problems.families import Family
from beno.problems.problem import Problem
from beno.solvers.base import Solver
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble
from beno.solvers.gauss_seidel import GaussSeidel
from beno.solvers.multigrid import Multigrid

TOLERANCE = 1e-8
MEMORY_GOAL = 1024.0  # MiB, for multigrid on the largest grid


def seconds(solver: Solver, problem: Problem) -> float:
    start = perf_counter()
    u = solver.prepare(problem.operator)(problem.right)
    taken = perf_counter() - start
    system = assemble(problem.operator)
    residual = np.linalg.norm(system.residual(problem.right, u)) / np.linalg.norm(system.vector(problem.right))
    if residual > TOLERANCE:
        raise ArithmeticError(f"{solver.name} stopped at a residual of {residual:.1e}, more than {TOLERANCE:g}")
    return taken


def measure(method: Solver, rival: Solver, resolution: int, seed: int, repeats: int) -> list[tuple[float, float]]:
    """Seconds of each of the two, one after the other."""
    problem = Family(resolution=resolution).problem(seed, 0)
    return [(seconds(method, problem), seconds(rival, problem)) for _ in range(repeats)]


def whole_solve(method: Solver, resolution: int, seed: int) -> None:
    method.solve(Family(resolution=resolution).problem(seed, 0))


def only_assemble(resolution: int, seed: int) -> None:
    assemble(Family(resolution=resolution).problem(seed, 0).operator)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--large", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    direct, multigrid, gauss_seidel = Direct(), Multigrid(), GaussSeidel(tolerance=TOLERANCE)

    figures: dict[str, object] = {"times": [], "peak_memory_mib": {}}
    table = Table("grid", "method", "against", "times as fast", "range", title="Time, factorisation or set-up included")
    pairs = [(direct, gauss_seidel, size) for size in options.small]
    pairs += [(multigrid, direct, size) for size in options.large]
    for method, rival, size in pairs:
        times, _ = fresh_process.run(measure, method, rival, size, options.seed, options.repeats)
        ratios = [slow / fast for fast, slow in times]
        figures["times"].append(
            {
                "grid": size,
                "method": method.name,
                "against": rival.name,
                "times_as_fast": median(ratios),
                "of_each_repeat": ratios,
                "ms_of_the_method": 1000 * median(fast for fast, _ in times),
            }
        )
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        table.add_row(f"{size}²", method.name, rival.name, f"{median(ratios):.2f}", spread)
    Console().print(table)

    largest = max(options.large)
    table = Table("what", "MiB", title=f"Peak memory, {largest}², goal {MEMORY_GOAL:g} MiB for multigrid")
    work: dict[str, tuple[Callable[..., None], *tuple[object, ...]]] = {
        "imports": (fresh_process.nothing,),
        "problem and assembly": (only_assemble, largest, options.seed),
        "multigrid": (whole_solve, multigrid, largest, options.seed),
        "direct": (whole_solve, direct, largest, options.seed),
    }
    for what, call in work.items():
        _, peak = fresh_process.run(*call)
        figures["peak_memory_mib"][what] = peak
        table.add_row(what, f"{peak:.0f}")
    figures["memory_goal_reached"] = figures["peak_memory_mib"]["multigrid"] < MEMORY_GOAL
    Console().print(table)
    record("solvers", vars(options) | {"tolerance": TOLERANCE, "memory_goal_mib": MEMORY_GOAL}, figures)


if __name__ == "__main__":
    main()
