"""Draws a problem on each of the paper's five shapes and on two others, solves them all, and writes gallery.png."""

import time
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from rich.console import Console
from rich.table import Table

from beno.evaluation.drawing import draw_field, draw_solution
from beno.evaluation.plotting import save
from beno.geometry.grid import Domain
from beno.problems.families import Family, random_source, random_wave
from beno.problems.problem import Problem, darcy, poisson
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble

RESOLUTION = 64


def ring() -> Problem:
    """Poisson's equation between a disc and a square hole, both drawn with cells."""
    x, y = (np.indices((RESOLUTION, RESOLUTION)) + 0.5) / RESOLUTION - 0.5
    domain = Domain.from_mask((np.hypot(x, y) < 0.48) & (np.maximum(abs(x), abs(y)) > 0.15))
    rng = np.random.default_rng(4)
    return poisson(domain, 20 * random_source(rng, domain.points), random_wave(rng, domain.panels))


def spiral() -> Problem:
    """Darcy flow with a coefficient that grows tenfold from left to right, along a corridor."""
    corridor = np.ones((RESOLUTION, RESOLUTION), dtype=bool)
    for left, right, low, high in ((0, 50, 14, 18), (46, 50, 14, 50), (16, 50, 46, 50), (16, 20, 30, 50)):
        corridor[left:right, low:high] = False
    domain = Domain.from_mask(corridor)
    wave = random_wave(np.random.default_rng(9), domain.panels)
    return darcy(domain, kappa=lambda x, y: 1 + 9 * x, f=-20.0, g=wave)


def main() -> None:
    family = Family(corners="mixed", resolution=RESOLUTION)
    problems = {f"{corners} corners cut": family.problem(seed=7, index=corners) for corners in range(5)}
    problems |= {"ring": ring(), "spiral, Darcy": spiral()}

    table = Table("shape", "points", "panels", "solved in", "missing in the equations")
    figure, axes = plt.subplots(2, len(problems), figsize=(4.0 * len(problems), 6.8), layout="constrained")
    for (name, problem), (above, below) in zip(problems.items(), axes.T, strict=True):
        start = time.perf_counter()
        solution = Direct().solve(problem)
        seconds = time.perf_counter() - start
        residual = np.abs(assemble(problem.operator).residual(problem.right, solution.u)).max()
        table.add_row(name, str(len(problem.f)), str(len(problem.g)), f"{1000 * seconds:.1f} ms", f"{residual:.0e}")
        draw_field(above, problem, problem.f, "source f")
        above.set_title(name)
        draw_solution(below, solution)
    save(figure, Path("gallery.png"))
    console = Console()
    console.print(table)
    console.print("picture: gallery.png")


if __name__ == "__main__":
    main()
