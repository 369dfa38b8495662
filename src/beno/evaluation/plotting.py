"""Pictures of problems and their solutions. Quantities have no units; lengths are in sides of the unit square."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Float

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from beno.datasets.records import Sample
from beno.evaluation.metrics import relative_l2
from beno.problems.problem import Kind
from beno.support.errors import BenoError
from beno.support.files import require_file_place, whole_file_or_none

SIGNED, POSITIVE = "RdBu_r", "viridis"
OUTSIDE = "0.82"  # not white, as a field is where it is zero
KIND_STYLE = {Kind.DIRICHLET: "solid", Kind.NEUMANN: "dashed", Kind.ROBIN: "dotted"}
PAGE = 9.2  # inches; at 130 dots each, letters can still be read where a page shows a figure 900 dots wide
DECADES = 5  # of errors that a scale tells apart at most


def plot_samples(samples: Sequence[Sample], titles: Sequence[str] | None = None, title: str | None = None) -> Figure:
    """One row a sample: its source, its coefficient if it has one, and its solution framed by g."""
    with_coefficient = any(sample.coefficient is not None for sample in samples)
    columns = 3 if with_coefficient else 2
    figure, axes = plt.subplots(
        len(samples), columns, figsize=(4.1 * columns, 3.4 * len(samples)), squeeze=False, layout="constrained"
    )
    for row, sample in enumerate(samples):
        name = titles[row] if titles else f"sample {row}"
        draw_field(axes[row, 0], sample, sample.source, "source f")
        axes[row, 0].set_title(f"{name}: source")
        if sample.coefficient is not None:
            draw_field(axes[row, 1], sample, sample.coefficient, "coefficient κ", Normalize(), POSITIVE)
            axes[row, 1].set_title("coefficient")
        draw_solution(axes[row, -1], sample)
    if title:
        figure.suptitle(title)
    return figure


def plot_prediction(sample: Sample, branches: Float[np.ndarray, "b n"], title: str) -> Figure:
    """Truth, prediction and error; with two branches the source as well, and what each of them adds. All on one scale
    but the source and the error."""
    predicted = branches.sum(axis=0)
    error = predicted - sample.u
    scale = even_scale(sample.u, predicted, *branches)
    figure, axes = plt.subplots(
        len(branches), 3, figsize=(PAGE, 2.5 * len(branches) + 0.4), squeeze=False, layout="constrained"
    )
    parts = [("truth", sample.u, "u", scale), ("prediction", predicted, "u", scale)]
    parts += [("error", error, "prediction - truth", even_scale(error))]
    if len(branches) == 2:
        parts += [("source", sample.source, "source f", even_scale(sample.source))]
        parts += [
            ("branch that sees f", branches[0], "part of u", scale),
            ("branch that sees g", branches[1], "part of u", scale),
        ]
    for axis, (name, values, label, norm) in zip(axes.flat, parts, strict=True):
        draw_field(axis, sample, values, label, norm)
        axis.set_title(name, fontsize="medium")
    _label_outer(axes)
    figure.suptitle(f"{title}: relative L2 error {_percent(predicted, sample.u)}")
    return figure


@dataclass(frozen=True, eq=False)
class Compared:
    """What several models say of one sample."""

    name: str
    sample: Sample
    predictions: Mapping[str, Float[np.ndarray, " _"]]

    @property
    def errors(self) -> dict[str, Float[np.ndarray, " _"]]:
        """Their sizes."""
        return {model: np.abs(values - self.sample.u) for model, values in self.predictions.items()}


def plot_comparison(compared: Sequence[Compared], title: str) -> Figure:
    """Two rows a sample: the truth and each model's prediction, all on one scale; the source, and below each prediction
    the size of its error. All errors of the figure have one scale."""
    models = max(len(one.predictions) for one in compared)
    errors = error_scale(*(error for one in compared for error in one.errors.values()))
    figure = plt.figure(figsize=(PAGE, 4.7 * len(compared) + 0.4), layout="constrained")
    parts = figure.subfigures(len(compared), 1, squeeze=False)[:, 0]
    for part, one in zip(parts, compared, strict=True):
        axes = part.subplots(2, 1 + models, squeeze=False)
        sample = one.sample
        solutions, sources = even_scale(sample.u, *one.predictions.values()), even_scale(sample.source)
        draw_field(axes[0, 0], sample, sample.u, norm=solutions)
        axes[0, 0].set_title("truth", fontsize="medium")
        draw_field(axes[1, 0], sample, sample.source, norm=sources)
        axes[1, 0].set_title("source", fontsize="medium")
        for (above, below), (model, predicted) in zip(axes[:, 1:].T, one.predictions.items(), strict=True):
            draw_field(above, sample, predicted, norm=solutions)
            above.set_title(model, fontsize="medium")
            error = one.errors[model]
            draw_field(below, sample, error, norm=errors, colours=POSITIVE)
            size = f"relative L2 {_percent(predicted, sample.u)},\nmax |error| {error.max():.2g}"
            below.set_title(size, fontsize="medium")
        part.colorbar(ScalarMappable(solutions, SIGNED), ax=axes[0], label="u")
        part.colorbar(ScalarMappable(errors, POSITIVE), ax=axes[1], label="|prediction - truth|", extend="min")
        part.colorbar(ScalarMappable(sources, SIGNED), ax=axes[1, 0], label="source f", location="left")
        _label_outer(axes)
        part.suptitle(one.name)
    figure.suptitle(title, fontweight="bold")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # a second layout, for a second file, would move the panels
    return figure


def plot_solved(sample: Sample, predicted: Float[np.ndarray, " n"], title: str) -> Figure:
    """The problem, what the operator says, the exact solution on the same scale, and the error on its own."""
    figure, axes = plt.subplots(1, 5, figsize=(20.5, 4.1), layout="constrained")
    scale = even_scale(sample.u, predicted)
    draw_field(axes[0], sample, sample.source, "source f")
    draw_inside(axes[1], sample)
    draw_walls(axes[1], sample, even_scale(sample.g), width=7.0, label="boundary values g")
    draw_field(axes[2], sample, predicted, "u", scale)
    draw_field(axes[3], sample, sample.u, "u", scale)
    draw_field(axes[4], sample, predicted - sample.u, "learned - exact")
    for axis, name in zip(axes, ("source f", "boundary values g", "learned u", "exact u", "error"), strict=True):
        axis.set_title(name)
    figure.suptitle(f"{title}, relative L2 error {_percent(predicted, sample.u)}")
    return figure


def draw_solution(axes: Axes, sample: Sample) -> None:
    """u inside, g on the walls; on one scale where both are the same quantity."""
    dirichlet_only = bool((sample.kind == Kind.DIRICHLET).all())
    if dirichlet_only:
        scale = even_scale(sample.u, sample.g)
        draw_field(axes, sample, sample.u, "u, and g on the walls", scale)
        draw_walls(axes, sample, scale)
        axes.set_title("solution, framed by g")
        return
    draw_field(axes, sample, sample.u, "u")
    present = [kind for kind in Kind if (sample.kind == kind).any()]
    axes.set_title("solution")
    axes.set_xlabel("x\nwalls: " + ", ".join(f"{kind.name.capitalize()} {KIND_STYLE[kind]}" for kind in present))


def even_scale(*fields: Float[np.ndarray, " _"]) -> Normalize:
    """One for all of them, with zero in the middle."""
    largest = max(float(np.abs(values).max()) for values in fields) or 1.0
    return Normalize(-largest, largest)


def error_scale(*errors: Float[np.ndarray, " _"]) -> LogNorm:
    """One for all of these sizes of errors, logarithmic: the form of the smallest can be seen beside the largest. It
    begins with the power of ten below half of the values of the smallest."""
    largest = max(float(sizes.max()) for sizes in errors) or 1.0
    smallest = max(min(float(np.median(sizes)) for sizes in errors), largest / 10**DECADES)
    return LogNorm(10.0 ** np.floor(np.log10(smallest)), largest, clip=True)


def draw_field(
    axes: Axes,
    sample: Sample,
    values: Float[np.ndarray, " n"],
    label: str | None = None,
    norm: Normalize | None = None,
    colours: str = SIGNED,
) -> None:
    """Inside the outline of the domain; with a bar of colours if it is told what to call it."""
    grid = np.full((sample.resolution, sample.resolution), np.nan)
    i, j = np.floor(sample.points * sample.resolution).astype(int).T
    grid[j, i] = values  # rows of a picture run along y
    image = axes.imshow(
        grid, origin="lower", extent=(0, 1, 0, 1), interpolation="none", norm=norm or even_scale(values), cmap=colours
    )
    if label:
        axes.figure.colorbar(image, ax=axes, label=label, shrink=0.9)
    axes.set(xlabel="x", ylabel="y", xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal", facecolor=OUTSIDE)
    axes.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    draw_outline(axes, sample)


def draw_inside(axes: Axes, sample: Sample) -> None:
    """The domain in white, for what is drawn over it."""
    draw_field(axes, sample, np.zeros(len(sample.points)), norm=Normalize(-1, 0), colours="gray")


def draw_walls(axes: Axes, sample: Sample, norm: Normalize, width: float = 4, label: str | None = None) -> None:
    segments = list(_segments(sample, outward=0.012))
    walls = LineCollection(segments, norm=norm, cmap=SIGNED, linewidths=width, capstyle="butt")
    walls.set_array(sample.g)
    axes.add_collection(walls)
    if label:
        axes.figure.colorbar(walls, ax=axes, label=label, shrink=0.9)


def draw_outline(axes: Axes, sample: Sample) -> None:
    segments = _segments(sample)
    for kind, style in KIND_STYLE.items():
        here = sample.kind == kind
        lines = LineCollection(list(segments[here]), colors="black", linewidths=1.2, linestyles=style)
        lines.set_zorder(3)  # over what else is drawn there
        axes.add_collection(lines)


def _label_outer(axes: np.ndarray) -> None:
    for axis in axes.flat:
        axis.label_outer()


def _percent(predicted: Float[np.ndarray, " n"], truth: Float[np.ndarray, " n"]) -> str:
    return f"{100 * relative_l2(predicted, truth):.3g} %"


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
        undated = {"Date": None} if kind == "svg" else None  # so that the same figure makes the same file
        with whole_file_or_none(path) as unfinished, plt.rc_context({"svg.hashsalt": "beno"}):
            figure.savefig(unfinished, dpi=130, format=kind, metadata=undated)
    finally:
        plt.close(figure)
