"""Does the bound hold, and how much larger is it than the error? Problems drawn to break it tell.

The reference is solved by decimal arithmetic. Every problem has four answers: by the direct method, the same with rough
noise and with a smooth error of a millionth added, and the answer that `ErrorBound.corrected` makes of the first. The
error of each is compared with its bounds.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal, localcontext
from statistics import median

import numpy as np
from hard_problems import DIGITS, LARGEST, WALLS, DecimalScheme, HardProblem, decimals, draw, scaled
from record import record
from rich.console import Console
from rich.progress import track
from rich.table import Table

from beno.solvers.bound import ErrorBound
from beno.solvers.direct import Direct

NOISE = 1e-6


def measured(problem: HardProblem, seed: int) -> Iterator[tuple[str, str, float, float]]:
    """For each answer and each bound the largest ratio of error to bound at a point, and that of the two maxima."""
    operator = problem.operator
    prepared = Direct().prepare(operator)
    exact = DecimalScheme(operator).solution(problem.unscaled, prepared)
    size = float(np.abs(exact).max())
    power = min(problem.power, int(np.log2(LARGEST) - np.log2(size))) if size else problem.power
    right, bound = scaled(problem.unscaled, power), ErrorBound(operator, prepared)
    u, rng = prepared(problem.unscaled), np.random.default_rng(seed)
    most = np.abs(u).max()
    answers = {
        "direct": u,
        "rough error": u + NOISE * most * rng.normal(size=len(u)),
        "smooth error": u * (1 + NOISE) + NOISE * most,
    }
    with localcontext(prec=DIGITS):
        exact = exact * Decimal(2) ** power
        for name, answer in answers.items():
            given = np.ldexp(answer, power)
            error = np.abs(decimals(given) - exact)
            yield name, "bound", *ratios(error, bound(given, right))
            yield name, "sharp bound", *ratios(error, bound(given, right, sharp=True))
        better, of_better = bound.corrected(np.ldexp(u, power), right)
        error = np.abs(decimals(better) - exact)
        yield "corrected", "its bound", *ratios(error, of_better)
        if size:
            yield "corrected", "relative error", *[float(error.max() / np.abs(exact).max())] * 2


def ratios(error: np.ndarray, bound: np.ndarray) -> tuple[float, float]:
    of_points = [float(e / Decimal(float(b))) if np.isfinite(b) else 0.0 for e, b in zip(error, bound, strict=True)]
    return max(of_points), float(error.max() / Decimal(float(bound.max()))) if np.isfinite(bound.max()) else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--largest", type=int, default=32, help="cells along a side")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    found: dict[tuple[str, str], list[tuple[str, float, float]]] = defaultdict(list)
    for index in track(range(options.problems), "problems"):
        problem = draw(options.seed, index, options.largest)
        for answer, bound, at_a_point, of_largest in measured(problem, index):
            found[answer, bound].append((problem.walls, at_a_point, of_largest))

    table = Table("answer", "bound", "problems", "largest error / bound", "median slack", "worst slack", "no bound")
    figures: dict[str, object] = {}
    for (answer, bound), values in found.items():
        at_points, of_largest = [value[1] for value in values], [value[2] for value in values]
        if bound == "relative error":
            figures["relative_error_of_corrected"] = {"median": median(of_largest), "largest": max(of_largest)}
            continue
        there = [one for one in of_largest if one > 0]
        entry = {
            "problems": len(values),
            "largest_ratio": max(at_points),
            "median_slack": 1 / median(there),
            "worst_slack": 1 / min(there),
            "without_bound": len(of_largest) - len(there),
            "median_slack_by_walls": {
                walls: 1 / median([value[2] for value in values if value[0] == walls and value[2] > 0])
                for walls in WALLS
            },
        }
        figures[f"{answer}, {bound}"] = entry
        table.add_row(
            *(answer, bound, str(len(values)), f"{max(at_points):.6f}", f"{entry['median_slack']:.3g}"),
            *(f"{entry['worst_slack']:.3g}", str(entry["without_bound"])),
        )
    Console().print(table, figures["relative_error_of_corrected"])
    record("bound", vars(options) | {"noise": NOISE, "digits": DIGITS}, figures)


if __name__ == "__main__":
    main()
