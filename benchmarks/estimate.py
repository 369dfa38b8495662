"""How far is the estimate of the discretisation error from the error, and how often is it exceeded?

Problems of the project's families on a coarse grid; the equation's solution is that of a grid eight times as fine, with
its data computed there, extrapolated from the two finest grids. The estimate is made twice: with data read off the
coarse
grid, as for a problem of arrays, and with data computed on the finer grid, as for a problem of functions.
"""

import argparse
from statistics import median

import numpy as np
from record import record
from rich.console import Console
from rich.progress import track
from rich.table import Table

from beno.geometry.grid import Domain
from beno.problems.families import Family, random_coefficient, random_kinds, random_source, random_wave
from beno.problems.law import Darcy, Poisson
from beno.problems.norms import relative_l2
from beno.problems.operator import Elliptic
from beno.problems.problem import Problem
from beno.problems.walls import Kind, Walls
from beno.solvers.direct import Direct
from beno.solvers.discretisation import at_centres_of, estimate, expected_order

TIMES_AS_FINE = 3  # powers of two
CONTRAST = 10.0
FAMILIES = {
    "no corner, Dirichlet": ("poisson", "dirichlet", 0),
    "4 corners, Dirichlet": ("poisson", "dirichlet", 4),
    "4 corners, Neumann": ("poisson", "neumann", 4),
    "4 corners, Darcy": ("darcy", "dirichlet", 4),
    "4 corners, kinds mixed": ("poisson", "mixed", 4),
}


class Drawn:
    """One problem of a family on as many grids as are asked for; kinds of walls change where the coarse grid can."""

    def __init__(self, law: str, walls: str, corners: int, resolution: int, seed: int) -> None:
        self.law, self.walls, self.seed = law, walls, seed
        self.coarse = Family(corners=corners, resolution=resolution).problem(seed, 0).domain

    def on(self, resolution: int) -> Problem:
        rng, times = np.random.default_rng(self.seed), resolution // self.coarse.resolution
        domain = Domain.from_mask(np.kron(self.coarse.mask, np.ones((times, times), dtype=bool)))
        panels = domain.panels
        source, wave, coefficient, kinds = (np.random.default_rng(one) for one in rng.integers(2**32, size=4))
        if self.walls == "mixed":
            part_of = self.coarse.panel_at[
                self.coarse.number[tuple(domain.cells[panels.cell].T // times)], panels.direction
            ]
            kind = random_kinds(kinds, self.coarse.panels)[part_of]
        else:
            kind = np.full(len(panels), Kind[self.walls.upper()])
        law: Poisson | Darcy = Poisson()
        if self.law == "darcy":
            places = np.concatenate([domain.points, panels.centres])
            law = Darcy(*np.split(random_coefficient(coefficient, places, CONTRAST), [len(domain.points)]))
        operator = Elliptic(domain, law, Walls(kind, np.where(kind == Kind.ROBIN, 1.0, 0.0)))
        right = operator.right(random_source(source, domain.points), random_wave(wave, panels))
        return Problem(operator, operator.balanced(right))


def error_of(drawn: Drawn, resolution: int) -> tuple[Problem, float]:
    """The coarse problem, and the relative L2 distance of its solution from the extrapolated one."""
    solutions = [Direct().solve(drawn.on(resolution * 2**level)) for level in range(TIMES_AS_FINE + 1)]
    coarse = solutions[0].problem
    on_coarse = []
    for level in (TIMES_AS_FINE - 1, TIMES_AS_FINE):
        u = solutions[level].u
        for below in range(level - 1, -1, -1):
            u = at_centres_of(solutions[below].problem.domain, solutions[below + 1].problem.domain, u)
        on_coarse.append(coarse.operator.without_constant(u))
    fine, finest = on_coarse
    truth = finest + (finest - fine) / (2 ** expected_order(coarse) - 1)
    return coarse, relative_l2(solutions[0].u, truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=100, help="of each family")
    parser.add_argument("--resolution", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    table = Table(
        "family", "data", "median error", "median estimate / error", "range", "exceeded", "by a tenth", "twofold"
    )
    figures: dict[str, object] = {}
    for name, (law, walls, corners) in FAMILIES.items():
        errors: list[float] = []
        ratios: dict[str, list[float]] = {"arrays": [], "functions": []}
        for index in track(range(options.problems), name):
            drawn = Drawn(law, walls, corners, options.resolution, options.seed + index)
            problem, error = error_of(drawn, options.resolution)
            errors.append(error)
            ratios["arrays"].append(estimate(problem) / error)
            told = estimate(problem, finer=lambda coarse, drawn=drawn: drawn.on(2 * coarse.domain.resolution))
            ratios["functions"].append(told / error)
        for data, of_data in ratios.items():
            exceeded = sum(ratio < 1 for ratio in of_data) / len(of_data)
            by_a_tenth = sum(1.1 * ratio < 1 for ratio in of_data) / len(of_data)
            twice = sum(2 * ratio < 1 for ratio in of_data) / len(of_data)
            figures[f"{name}, {data}"] = {
                "median_error": median(errors),
                "median_ratio": median(of_data),
                "least_ratio": min(of_data),
                "largest_ratio": max(of_data),
                "exceeded": exceeded,
                "exceeded_by_a_tenth": by_a_tenth,
                "exceeded_twofold": twice,
            }
            table.add_row(
                *(name, data, f"{100 * median(errors):.2f} %", f"{median(of_data):.2f}"),
                *(f"{min(of_data):.2f} to {max(of_data):.2f}", f"{exceeded:.0%}"),
                *(f"{by_a_tenth:.0%}", f"{twice:.0%}"),
            )
    Console().print(table)
    record("estimate", vars(options) | {"contrast": CONTRAST, "times_as_fine": 2**TIMES_AS_FINE}, figures)


if __name__ == "__main__":
    main()
