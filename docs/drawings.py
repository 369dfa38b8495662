"""Draws the pictures that README.md and docs/architecture.md show: `python docs/drawings.py` writes docs/_static/."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from beno import Direct, Problem, solve
from beno.evaluation.drawing import SIGNED, draw_boundary_values, draw_field, even_scale
from beno.problems.norms import relative_l2
from beno.problems.problem_file import read_problem

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "_static"
DOTS_AN_INCH = 110


def readme_picture(problem: Problem) -> Figure:
    """The problem, its solution, and how far the learned operator is from the exact solver."""
    exact, learned = solve(problem, Direct()), solve(problem)
    sources, solutions = even_scale(problem.f), even_scale(exact.u, problem.g)
    error = 1000 * (learned.u - exact.u)
    errors = even_scale(error)
    figure = plt.figure(figsize=(10.6, 5.3))
    # Panels first, then the bars of colours below them, in shares of the figure's width and height.
    panels = [figure.add_axes((0.01 + 0.335 * place, 0.32, 0.31, 0.62)) for place in range(3)]
    percent = 100 * relative_l2(learned.u, exact.u)
    _draw(panels[0], problem, problem.f, sources, "the problem: source f, boundary values g")
    _draw(panels[1], problem, exact.u, solutions, "its solution u")
    _draw(panels[2], problem, error, errors, f"error of the learned operator: {percent:.2f} %")
    for axes in panels[:2]:
        draw_boundary_values(axes, problem, solutions, width=5.0)
    for place, low, scale, label in (
        (0, 0.26, sources, "f, inside"),
        (0, 0.11, solutions, "g, on the outline"),
        (1, 0.26, solutions, "u, inside; g, on the outline"),
        (2, 0.26, errors, "1000 (learned u - exact u of the scheme)"),
    ):
        bar = figure.add_axes((0.03 + 0.335 * place, low, 0.27, 0.025))
        figure.colorbar(ScalarMappable(scale, SIGNED), cax=bar, label=label, orientation="horizontal")
    return figure


def _draw(axes: Axes, problem: Problem, values: np.ndarray, scale: Normalize, title: str) -> None:
    draw_field(axes, problem, values, norm=scale)
    axes.set(xlabel="", ylabel="", xticks=(), yticks=())
    axes.set_title(title, fontsize="medium")


# The formula as a map: what stands in it, in which package, and what is made of it.
FORMULA = (
    # (left, width, heading, package, lines)
    (0.0, 2.3, "domain", "geometry/", ("points, panels;", "Domain has cells,", "BarePanels has none")),
    (2.5, 2.3, "law", "problems/law.py", ("Poisson, Darcy:", "kappa, and what it is", "on a face")),
    (5.0, 2.3, "walls", "problems/walls.py", ("kind of every panel,", "alpha; what they", "leave free")),
    (8.1, 2.9, "(f, g)", "problems/right_hand_side.py", ("rows of values;", "add, scale, stack;", "arrays or tensors")),
)
USES = (
    (0.0, 2.6, "make", "solvers/", ("direct, multigrid,", "Gauss-Seidel, box")),
    (2.8, 2.6, "learn", "datasets/ … training/", ("from many solved", "problems")),
    (5.6, 2.6, "apply", "learned/", ("an operator that was", "learned is a solver too")),
    (8.4, 2.6, "check and draw", "evaluation/, paper/", ("errors, pictures,", "tables")),
)


def architecture_picture() -> Figure:
    """u = L⁻¹(f, g), and where each part of it lives."""
    figure = plt.figure(figsize=(10.6, 6.6))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(-0.3, 11.3), ylim=(-0.15, 6.85))
    axes.axis("off")
    axes.text(5.5, 6.4, "u  =  L⁻¹ (f, g),      L = (domain, law, walls)", ha="center", fontsize=19)
    for left, width, *words in FORMULA:
        _box(axes, left, 4.15, width, 1.65, "#dbe9f6", *words)
    _box(axes, 0.0, 2.75, 7.3, 0.85, "#c6dbef", "L: Elliptic", "problems/operator.py", ())
    _box(axes, 8.1, 2.75, 2.9, 0.85, "#c6dbef", "Problem, Solution", "problems/", ())
    for x in (1.15, 3.65, 6.15, 9.55):
        _arrow(axes, (x, 4.1), (x, 3.65))
    _arrow(axes, (7.35, 3.17), (8.05, 3.17))
    _box(
        axes,
        0.0,
        1.7,
        11.0,
        0.6,
        "#fee6ce",
        "Solver.prepare(L) → Prepared;   Prepared(f, g) → u",
        "solvers/base.py",
        (),
    )
    _arrow(axes, (3.65, 2.7), (3.65, 2.35))
    _arrow(axes, (9.55, 2.7), (9.55, 2.35))
    for left, width, *words in USES:
        _box(axes, left, -0.1, width, 1.4, "#e5f5e0", *words)
        _arrow(axes, (left + width / 2, 1.65), (left + width / 2, 1.35))
    return figure


def _box(
    axes: Axes,
    left: float,
    low: float,
    width: float,
    height: float,
    colour: str,
    heading: str,
    package: str,
    lines: Sequence[str],
) -> None:
    style = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch((left, low), width, height, boxstyle=style, facecolor=colour, edgecolor="0.35"))
    one_line = not lines and width > 5
    middle, top = left + width / 2, low + height
    if one_line:
        axes.text(left + 0.2, low + height / 2, heading, va="center", fontsize=13, weight="bold")
        axes.text(
            left + width - 0.2, low + height / 2, package, va="center", ha="right", fontsize=11, family="monospace"
        )
        return
    axes.text(middle, top - 0.26, heading, ha="center", va="center", fontsize=13, weight="bold")
    axes.text(middle, top - 0.59, package, ha="center", va="center", fontsize=10, family="monospace")
    for number, line in enumerate(lines):
        axes.text(middle, top - 0.89 - 0.27 * number, line, ha="center", va="center", fontsize=11)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "0.35"})


def main() -> None:
    readme_picture(read_problem(ROOT / "examples" / "cross.toml")).savefig(FOLDER / "readme.png", dpi=DOTS_AN_INCH)
    plt.rcParams["svg.fonttype"] = "none"  # letters stay letters
    plt.rcParams["svg.hashsalt"] = "beno"  # so that the same drawing is the same file
    architecture_picture().savefig(FOLDER / "architecture.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
