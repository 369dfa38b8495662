"""Pictures of problems and their solutions. Quantities have no units; lengths are in sides of the unit square."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from beno.errors import BenoError
from beno.files import require_file_place, whole_file_or_none
from beno.metrics import relative_l2
from beno.problem import Kind
from beno.sample import Sample

SIGNED, POSITIVE = "RdBu_r", "viridis"
KIND_STYLE = {Kind.DIRICHLET: "solid", Kind.NEUMANN: "dashed", Kind.ROBIN: "dotted"}


def plot_samples(samples: Sequence[Sample], titles: Sequence[str] | None = None) -> Figure:
    """One row a sample: its source, its coefficient if it has one, and its solution framed by g."""
    with_coefficient = any(sample.coefficient is not None for sample in samples)
    columns = 3 if with_coefficient else 2
    figure, axes = plt.subplots(
        len(samples), columns, figsize=(4.1 * columns, 3.6 * len(samples)), squeeze=False, layout="constrained"
    )
    for row, sample in enumerate(samples):
        title = titles[row] if titles else f"sample {row}"
        draw_field(axes[row, 0], sample, sample.source, "source f")
        axes[row, 0].set_title(f"{title}: source")
        draw_outline(axes[row, 0], sample)
        if sample.coefficient is not None:
            draw_field(axes[row, 1], sample, sample.coefficient, "coefficient κ", signed=False)
            axes[row, 1].set_title("coefficient")
            draw_outline(axes[row, 1], sample)
        draw_solution(axes[row, -1], sample)
    return figure


def plot_prediction(sample: Sample, branches: Float[np.ndarray, "b n"], title: str) -> Figure:
    """Truth, prediction and what each branch adds, all on one scale; the error on its own."""
    predicted = branches.sum(axis=0)
    error = predicted - sample.u
    parts = [("truth", sample.u), ("prediction", predicted)]
    if len(branches) == 2:
        parts += [("branch that sees f", branches[0]), ("branch that sees g", branches[1])]
    largest = max(float(np.abs(values).max()) for _, values in parts)
    figure, axes = plt.subplots(1, len(parts) + 1, figsize=(4.1 * (len(parts) + 1), 3.8), layout="constrained")
    for axis, (name, values) in zip(axes, [*parts[:2], ("error", error), *parts[2:]], strict=True):
        draw_field(axis, sample, values, "u" if name != "error" else "prediction - truth",
                   largest=None if name == "error" else largest)  # fmt: skip
        draw_outline(axis, sample)
        axis.set_title(name)
    figure.suptitle(f"{title}: relative L2 {relative_l2(predicted, sample.u):.3g}")
    return figure


def plot_solved(sample: Sample, predicted: Float[np.ndarray, " n"], title: str) -> Figure:
    """The problem, what the operator says, the exact solution on the same scale, and the error on its own."""
    figure, axes = plt.subplots(1, 5, figsize=(20.5, 4.1), layout="constrained")
    largest = max(float(np.abs(values).max()) for values in (sample.u, predicted))
    draw_field(axes[0], sample, sample.source, "source f")
    draw_walls(axes[1], sample, float(np.abs(sample.g).max()) or 1.0, width=7, label="boundary values g")
    axes[1].set(xlabel="x", ylabel="y", xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")
    draw_field(axes[2], sample, predicted, "u", largest=largest)
    draw_field(axes[3], sample, sample.u, "u", largest=largest)
    draw_field(axes[4], sample, predicted - sample.u, "learned - exact")
    for axis, name in zip(axes, ("source f", "boundary values g", "learned u", "exact u", "error"), strict=True):
        axis.set_title(name)
        if axis is not axes[1]:
            draw_outline(axis, sample)
    figure.suptitle(f"{title}, relative L2 error {100 * relative_l2(predicted, sample.u):.2g} %")
    return figure


def draw_solution(axes: Axes, sample: Sample) -> None:
    """u inside, g on the walls; on one scale where both are the same quantity."""
    dirichlet_only = bool((sample.kind == Kind.DIRICHLET).all())
    largest = max(np.abs(sample.u).max(), np.abs(sample.g).max() if dirichlet_only else 0.0)
    draw_field(axes, sample, sample.u, "u, and g on the walls" if dirichlet_only else "u", largest=largest)
    if dirichlet_only:
        draw_walls(axes, sample, largest)
        axes.set_title("solution, framed by g")
        return
    draw_outline(axes, sample)
    present = [kind for kind in Kind if (sample.kind == kind).any()]
    axes.set_title("solution")
    axes.set_xlabel("x\nwalls: " + ", ".join(f"{kind.name.capitalize()} {KIND_STYLE[kind]}" for kind in present))


def draw_field(
    axes: Axes,
    sample: Sample,
    values: Float[np.ndarray, " n"],
    label: str,
    signed: bool = True,
    largest: float | None = None,
) -> None:
    largest = largest or float(np.abs(values).max()) or 1.0
    limits: dict[str, Any] = {"cmap": SIGNED, "vmin": -largest, "vmax": largest} if signed else {"cmap": POSITIVE}
    grid = np.full((sample.resolution, sample.resolution), np.nan)
    i, j = np.floor(sample.points * sample.resolution).astype(int).T
    grid[j, i] = values  # rows of a picture run along y
    image = axes.imshow(grid, origin="lower", extent=(0, 1, 0, 1), interpolation="none", **limits)
    axes.figure.colorbar(image, ax=axes, label=label, shrink=0.9)
    axes.set(xlabel="x", ylabel="y", xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")


def draw_walls(axes: Axes, sample: Sample, largest: float, width: float = 4, label: str | None = None) -> None:
    walls = LineCollection(list(_segments(sample, outward=0.012)), cmap=SIGNED, linewidths=width, capstyle="butt")
    walls.set_array(sample.g)
    walls.set_clim(-largest, largest)
    axes.add_collection(walls)
    if label:
        axes.figure.colorbar(walls, ax=axes, label=label, shrink=0.9)


def draw_outline(axes: Axes, sample: Sample) -> None:
    segments = _segments(sample)
    for kind, style in KIND_STYLE.items():
        here = sample.kind == kind
        axes.add_collection(LineCollection(list(segments[here]), colors="black", linewidths=1.2, linestyles=style))


def _segments(sample: Sample, outward: float = 0.0) -> Float[np.ndarray, "p 2 2"]:
    tangent = np.stack([-sample.normals[:, 1], sample.normals[:, 0]], axis=1)
    middle = sample.centres + outward * sample.normals
    half = tangent * sample.lengths[:, None] / 2
    return np.stack([middle - half, middle + half], axis=1)


def require_picture_place(path: Path) -> str:
    """The kind of picture that its name says; refused if there is none such, or no folder for it."""
    kinds = FigureCanvasBase.get_supported_filetypes()
    kind = path.suffix.removeprefix(".").lower()
    if kind not in kinds:
        raise BenoError(f"cannot write the picture {path}: its name must end in one of .{', .'.join(kinds)}")
    if not path.resolve().parent.is_dir():
        raise BenoError(f"cannot write the picture {path}: there is no folder {path.parent}")
    require_file_place(path)
    return kind


def save(figure: Figure, path: Path) -> None:
    try:
        kind = require_picture_place(path)
        with whole_file_or_none(path) as unfinished:
            figure.savefig(unfinished, dpi=130, format=kind)
    finally:
        plt.close(figure)
