"""What shipping weights in half precision costs: a run's best weights as they are, and rounded to float16.

    python benchmarks/half_precision.py runs/four runs/mixed …

Both answer the same problems, of the family that the run was trained on, from a seed that it never saw.
"""

import argparse
from pathlib import Path

import numpy as np
from record import record

from beno.learned.checkpoints import cast_to_half
from beno.learned.operator import LearnedOperator
from beno.problems.families import Family
from beno.problems.norms import relative_l2
from beno.problems.solution import Solution
from beno.solvers.direct import Direct

SEED = 300


def errors_of(operator: LearnedOperator, solutions: list[Solution]) -> np.ndarray:
    predicted = operator.predict([solution.problem for solution in solutions])
    return np.array([relative_l2(ours, exact.u) for ours, exact in zip(predicted, solutions, strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of training runs")
    parser.add_argument("--samples", type=int, default=50)
    options = parser.parse_args()
    figures = {}
    for run in options.runs:
        operator = LearnedOperator.load(run)
        data = operator.header.data
        family = Family(data.equation, data.boundary, data.corners, data.resolution)
        solutions = [Direct().solve(family.problem(SEED, index)) for index in range(options.samples)]
        weights = operator.model.state_dict()
        rounded = cast_to_half(weights)
        if all(bool((weights[name] == rounded[name]).all()) for name in weights):
            raise SystemExit(f"{run} has weights that are rounded already")
        single = errors_of(operator, solutions)
        operator.model.load_state_dict(rounded)
        half = errors_of(operator, solutions)
        figures[run.name] = {
            "single": float(single.mean()),
            "half": float(half.mean()),
            "largest_change": float(np.abs(half - single).max()),
        }
        print(f"{run.name}: {100 * single.mean():.4f} % single, {100 * half.mean():.4f} % half", flush=True)
    names = [run.name for run in options.runs]
    record("half_precision", {"runs": names, "samples": options.samples, "seed": SEED}, figures)


if __name__ == "__main__":
    main()
