"""Whole pictures of problems and their solutions, and the files that they are saved in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure

from beno.evaluation.drawing import (
    POSITIVE,
    SIGNED,
    draw_boundary_values,
    draw_field,
    draw_solution,
    error_scale,
    even_scale,
)
from beno.problems.norms import relative_l2
from beno.problems.solution import Solution
from beno.support.errors import BenoError
from beno.support.files import require_file_place, whole_file_or_none

PAGE = 9.2  # inches; at 130 dots each, letters can still be read where a page shows a figure 900 dots wide


def plot_samples(
    solutions: Sequence[Solution], titles: Sequence[str] | None = None, title: str | None = None
) -> Figure:
    """One row a solution: its source, its coefficient if it has one, and u framed by g."""
    with_coefficient = any(not solution.problem.law.is_uniform for solution in solutions)
    columns = 3 if with_coefficient else 2
    figure, axes = plt.subplots(
        len(solutions), columns, figsize=(4.1 * columns, 3.4 * len(solutions)), squeeze=False, layout="constrained"
    )
    for row, solution in enumerate(solutions):
        problem = solution.problem
        name = titles[row] if titles else f"sample {row}"
        draw_field(axes[row, 0], problem, problem.f, "source f")
        axes[row, 0].set_title(f"{name}: source")
        if not problem.law.is_uniform:
            kappa = problem.law.at_points(problem.domain)
            draw_field(axes[row, 1], problem, kappa, "coefficient κ", Normalize(), POSITIVE)
            axes[row, 1].set_title("coefficient")
        draw_solution(axes[row, -1], solution)
    if title:
        figure.suptitle(title)
    return figure


def plot_prediction(truth: Solution, branches: Float[np.ndarray, "b n"], title: str) -> Figure:
    """Truth, prediction and error; with two branches the source as well, and what each of them adds.

    All are on one scale but the source and the error.
    """
    problem, predicted = truth.problem, branches.sum(axis=0)
    error = predicted - truth.u
    scale = even_scale(truth.u, predicted, *branches)
    figure, axes = plt.subplots(
        len(branches), 3, figsize=(PAGE, 2.5 * len(branches) + 0.4), squeeze=False, layout="constrained"
    )
    parts = [("truth", truth.u, "u", scale), ("prediction", predicted, "u", scale)]
    parts += [("error", error, "prediction - truth", even_scale(error))]
    if len(branches) == 2:
        parts += [("source", problem.f, "source f", even_scale(problem.f))]
        parts += [
            ("branch that sees f", branches[0], "part of u", scale),
            ("branch that sees g", branches[1], "part of u", scale),
        ]
    for axis, (name, values, label, norm) in zip(axes.flat, parts, strict=True):
        draw_field(axis, problem, values, label, norm)
        axis.set_title(name, fontsize="medium")
    _label_outer(axes)
    figure.suptitle(f"{title}: relative L2 error {_percent(predicted, truth.u)}")
    return figure


@dataclass(frozen=True, eq=False)
class Compared:
    """What several models say of one problem."""

    name: str
    truth: Solution
    predictions: Mapping[str, Float[np.ndarray, " _"]]
    framed: bool = False  # whether the truth is framed by the values on its walls

    @property
    def errors(self) -> dict[str, Float[np.ndarray, " _"]]:
        """Their sizes."""
        return {model: np.abs(values - self.truth.u) for model, values in self.predictions.items()}


def plot_comparison(compared: Sequence[Compared], title: str) -> Figure:
    """Two rows a problem: above the truth and each model's prediction, below the source and the sizes of the errors.

    A problem's truth and predictions share one scale; all errors of the figure share one.
    """
    models = max(len(one.predictions) for one in compared)
    errors = error_scale(*(error for one in compared for error in one.errors.values()))
    figure = plt.figure(figsize=(PAGE, 4.7 * len(compared) + 0.4), layout="constrained")
    parts = figure.subfigures(len(compared), 1, squeeze=False)[:, 0]
    for part, one in zip(parts, compared, strict=True):
        _draw_compared(part, one, part.subplots(2, 1 + models, squeeze=False), errors)
    figure.suptitle(title, fontweight="bold")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # a second layout, for a second file, would move the panels
    return figure


def _draw_compared(figure: SubFigure, one: Compared, axes: np.ndarray, errors: Normalize) -> None:
    truth, problem = one.truth, one.truth.problem
    solutions, sources = even_scale(truth.u, *one.predictions.values()), even_scale(problem.f)
    draw_field(axes[0, 0], problem, truth.u, norm=solutions)
    axes[0, 0].set_title("truth", fontsize="medium")
    if one.framed and problem.walls.fixes_value.all():
        draw_boundary_values(axes[0, 0], problem, solutions)
    draw_field(axes[1, 0], problem, problem.f, norm=sources)
    axes[1, 0].set_title("source", fontsize="medium")
    for (above, below), (model, predicted) in zip(axes[:, 1:].T, one.predictions.items(), strict=True):
        draw_field(above, problem, predicted, norm=solutions)
        above.set_title(model, fontsize="medium")
        error = one.errors[model]
        draw_field(below, problem, error, norm=errors, colours=POSITIVE)
        size = f"relative L2 {_percent(predicted, truth.u)},\nmax |error| {error.max():.2g}"
        below.set_title(size, fontsize="medium")
    figure.colorbar(ScalarMappable(solutions, SIGNED), ax=axes[0], label="u")
    figure.colorbar(ScalarMappable(errors, POSITIVE), ax=axes[1], label="|prediction - truth|", extend="min")
    figure.colorbar(ScalarMappable(sources, SIGNED), ax=axes[1, 0], label="source f", location="left")
    _label_outer(axes)
    figure.suptitle(one.name)


def _label_outer(axes: np.ndarray) -> None:
    for axis in axes.flat:
        axis.label_outer()


def _percent(predicted: Float[np.ndarray, " n"], truth: Float[np.ndarray, " n"]) -> str:
    return f"{100 * relative_l2(predicted, truth):.3g} %"


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
    """Write a picture, whole or not at all, and close it."""
    try:
        kind = require_picture_place(path)
        undated = {"Date": None} if kind == "svg" else None  # so that the same figure makes the same file
        with whole_file_or_none(path) as unfinished, plt.rc_context({"svg.hashsalt": "beno"}):
            figure.savefig(unfinished, dpi=130, format=kind, metadata=undated)
    finally:
        plt.close(figure)
