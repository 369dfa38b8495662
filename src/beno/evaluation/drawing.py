"""What every picture is drawn with: a field inside its domain, the values on the walls, and the scales of both.

Quantities have no units; lengths are in sides of the unit square.
"""

import matplotlib
import numpy as np
from jaxtyping import Float

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize

from beno.problems.problem import Problem
from beno.problems.solution import Solution
from beno.problems.walls import Kind

SIGNED, POSITIVE = "RdBu_r", "viridis"
OUTSIDE = "0.82"  # not white, as a field is where it is zero
KIND_STYLE = {Kind.DIRICHLET: "solid", Kind.NEUMANN: "dashed", Kind.ROBIN: "dotted"}
DECADES = 5  # of errors that a scale tells apart at most


def even_scale(*fields: Float[np.ndarray, " _"]) -> Normalize:
    """One scale for all of them, with zero in the middle."""
    largest = max(float(np.abs(values).max()) for values in fields) or 1.0
    return Normalize(-largest, largest)


def error_scale(*errors: Float[np.ndarray, " _"]) -> LogNorm:
    """One logarithmic scale for the sizes of all these errors, so that the smallest shows beside the largest.

    It begins with the power of ten below half of the values of the smallest.
    """
    largest = max(float(sizes.max()) for sizes in errors) or 1.0
    smallest = max(min(float(np.median(sizes)) for sizes in errors), largest / 10**DECADES)
    return LogNorm(10.0 ** np.floor(np.log10(smallest)), largest, clip=True)


def draw_field(
    axes: Axes,
    problem: Problem,
    values: Float[np.ndarray, " n"],
    label: str | None = None,
    norm: Normalize | None = None,
    colours: str = SIGNED,
) -> None:
    """The values at the points of a problem's domain, inside its outline; a label adds a bar of colours."""
    domain = problem.domain
    grid = np.full((domain.resolution, domain.resolution), np.nan)
    i, j = domain.cells.T
    grid[j, i] = values  # rows of a picture run along y
    image = axes.imshow(
        grid, origin="lower", extent=(0, 1, 0, 1), interpolation="none", norm=norm or even_scale(values), cmap=colours
    )
    if label:
        axes.figure.colorbar(image, ax=axes, label=label, shrink=0.9)
    axes.set(xlabel="x", ylabel="y", xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal", facecolor=OUTSIDE)
    axes.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    draw_outline(axes, problem)


def draw_solution(axes: Axes, solution: Solution) -> None:
    """u inside, and g on the walls where it is a value of u, on the same scale."""
    problem, kinds = solution.problem, solution.problem.walls.kinds
    if kinds == {Kind.DIRICHLET}:
        scale = even_scale(solution.u, problem.g)
        draw_field(axes, problem, solution.u, "u, and g on the walls", scale)
        draw_boundary_values(axes, problem, scale)
        axes.set_title("solution, framed by g")
        return
    draw_field(axes, problem, solution.u, "u")
    axes.set_title("solution")
    styles = ", ".join(f"{kind.label.capitalize()} {KIND_STYLE[kind]}" for kind in sorted(kinds))
    axes.set_xlabel(f"x\nwalls: {styles}")


def draw_inside(axes: Axes, problem: Problem) -> None:
    """The domain in white, for what is drawn over it."""
    draw_field(axes, problem, np.zeros(len(problem.f)), norm=Normalize(-1, 0), colours="gray")


def draw_boundary_values(
    axes: Axes, problem: Problem, norm: Normalize, width: float = 4.0, label: str | None = None
) -> None:
    """g as a coloured frame around the domain."""
    panels = LineCollection(
        list(_segments(problem, outward=0.012)), norm=norm, cmap=SIGNED, linewidths=width, capstyle="butt"
    )
    panels.set_array(problem.g)
    axes.add_collection(panels)
    if label:
        axes.figure.colorbar(panels, ax=axes, label=label, shrink=0.9)


def draw_outline(axes: Axes, problem: Problem) -> None:
    """The boundary in black, every kind of wall in its own style of line."""
    segments = _segments(problem)
    for kind, style in KIND_STYLE.items():
        here = problem.walls.kind == kind
        lines = LineCollection(list(segments[here]), colors="black", linewidths=1.2, linestyles=style)
        lines.set_zorder(3)  # over what else is drawn there
        axes.add_collection(lines)


def _segments(problem: Problem, outward: float = 0.0) -> Float[np.ndarray, "p 2 2"]:
    """The two ends of every panel, or of a line so far outside of it."""
    panels = problem.domain.panels
    tangent = np.stack([-panels.normals[:, 1], panels.normals[:, 0]], axis=1)
    middle = panels.centres + outward * panels.normals
    half = tangent * panels.lengths[:, None] / 2
    return np.stack([middle - half, middle + half], axis=1)
