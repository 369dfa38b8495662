"""What one 32 x 32 sample costs to make, in sparse solves: everything around the solve should at most double it.

A whole `make`, from drawing the shape to the finished file, is timed in turns with the factorisation
and the triangular solves of the same systems, on one core.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import fresh_process
from record import record
from rich.console import Console
from rich.table import Table

from beno.datasets.making import make
from beno.problems.families import Family
from beno.solvers.direct import factorised
from beno.solvers.finite_volumes import assemble

CORNERS = (4, "mixed", 0)
GOAL = 2.0


def seconds_to_make(family: Family, seed: int, samples: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = perf_counter()
        make(family, seed, samples, Path(folder) / "samples.h5")
        return perf_counter() - start


def measure(family: Family, seed: int, samples: int, repeats: int) -> list[tuple[float, float]]:
    """Seconds for making and for solving, once a repeat."""
    problems = [family.problem(seed, index) for index in range(samples)]
    systems = [assemble(problem.operator) for problem in problems]
    vectors = [system.vector(problem.right) for system, problem in zip(systems, problems, strict=True)]

    def seconds_to_solve() -> float:
        start = perf_counter()
        for system, vector in zip(systems, vectors, strict=True):
            # The factors go at once, as in making: to hold them all costs new memory pages.
            factorised(system.solvable_matrix).solve(vector)
        return perf_counter() - start

    seconds_to_make(family, seed, samples=10)
    return [(seconds_to_make(family, seed, samples), seconds_to_solve()) for _ in range(repeats)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--resolution", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    figures = {}
    table = Table("corners", "making / solving", "range", "samples a second", title=f"Making, at most {GOAL:g} solves")
    for corners in CORNERS:
        family = Family(corners=corners, resolution=options.resolution)
        times, _ = fresh_process.run(measure, family, options.seed, options.samples, options.repeats)
        ratios = [making / solving for making, solving in times]
        rate = options.samples / median(making for making, _ in times)
        figures[f"corners {corners}"] = {
            "making_over_solving": median(ratios),
            "of_each_repeat": ratios,
            "samples_a_second": rate,
            "ms_to_solve_one": 1000 * median(solving for _, solving in times) / options.samples,
            "reached": median(ratios) <= GOAL,
        }
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        table.add_row(str(corners), f"{median(ratios):.2f}", spread, f"{rate:.0f}")
    Console().print(table)
    record("data_making", vars(options) | {"goal": GOAL}, figures)


if __name__ == "__main__":
    main()
