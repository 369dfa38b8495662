"""Does every answer of `beno.solve` meet its tolerance, and is none farther off than its bound? On hard problems.

`python benchmarks/certified.py [--problems 2000]`: all laws and walls, thin and perforated shapes, alpha from 1e-12 to
1e12, kappa to 1e6, data from 1e-300 to 1e300, by every method in turn. The reference is solved by decimal arithmetic.
"""

import argparse
from collections import Counter, defaultdict
from decimal import Decimal, localcontext
from statistics import median

import numpy as np
from hard_problems import DIGITS, LARGEST, DecimalScheme, decimals, draw, scaled
from record import record
from rich.progress import track

from beno.learned.choice import AUTO, METHODS, solve
from beno.problems.problem import Problem
from beno.solvers.direct import Direct
from beno.support.errors import BenoError

TOLERANCE, LARGEST_GRID = 1e-8, 32
ASKED = [AUTO, *(name for name, method in METHODS.items() if method.is_automatic)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=2000)
    options = parser.parse_args()
    used, refused = Counter[str](), Counter[str]()
    ratios, slacks, relative, missed = defaultdict(list), defaultdict(list), [], 0
    for seed in track(range(options.problems), description="solving", transient=True):
        problem = draw(0, seed, LARGEST_GRID)
        operator = problem.operator
        exact = DecimalScheme(operator).solution(problem.unscaled, Direct().prepare(operator))
        size = float(np.abs(exact).max())
        power = min(problem.power, int(np.log2(LARGEST) - np.log2(size))) if size else problem.power
        posed = Problem(operator, scaled(problem.unscaled, power))
        method = ASKED[seed % len(ASKED)]
        if METHODS.get(method) is not None and METHODS[method].refusal(operator):
            method = AUTO
        try:
            solution = solve(posed, TOLERANCE, method, "cpu")
        except BenoError as error:
            refused[str(error).split(" for row")[0]] += 1
            continue
        report = solution.report
        used[f"{method}: {report.solver}"] += 1
        assert report.residual is not None and report.bound is not None
        missed += report.residual > TOLERANCE
        with localcontext(prec=DIGITS):
            off = float(np.abs(decimals(solution.u) - exact * Decimal(2) ** power).max() / Decimal(2) ** power)
        bound = float(np.ldexp(report.bound, -power))
        ratios[report.solver].append(off / bound if bound else float(off > 0))
        slacks[report.solver].append(bound / off if off else 1.0)
        relative.append(off / size if size else 0.0)
    figures = {
        "answered": sum(used.values()),
        "refused": dict(refused),
        "residual_beyond_double_precision": missed,  # and u within the tolerance by its bound
        "by": dict(used),
        "largest_error_over_bound": {name: max(values) for name, values in ratios.items()},
        "median_slack": {name: median(values) for name, values in slacks.items()},
        "relative_error": {"median": median(relative), "largest": max(relative)},
    }
    print(figures)
    record("certified", vars(options) | {"tolerance": TOLERANCE}, figures)


if __name__ == "__main__":
    main()
