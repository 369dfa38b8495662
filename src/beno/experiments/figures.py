"""The paper's figures, from the same data, trainings and cells as its tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from beno.errors import BenoError
from beno.experiments.cells import Cells, predictions_of
from beno.experiments.queue import Queue
from beno.experiments.tables import BASELINES, BENO_IN_FULL, TABLES, Row, Table, testing_seed
from beno.finite_volume import solve
from beno.graph import build_graph
from beno.metrics import relative_l2
from beno.paper import COLUMNS
from beno.plotting import draw_field, draw_outline, plot_prediction, plot_samples, save
from beno.random_problems import Family
from beno.sample import Sample

FORMATS = (".svg", ".png")
CONVERGENCE = ("BENO", "FNO", "GNN-PDE")

# Of the first test samples of each column.
Predictions = dict[str, list[Float[np.ndarray, " _"]]]


@dataclass(frozen=True)
class Comparison:
    """Predictions and errors on some columns of a table."""

    table: str
    columns: tuple[str, ...]
    title: str


COMPARISONS = {
    "predictions_4_corners": Comparison("train_4_corners", ("4-Corners",), "4-Corners"),
    "predictions_64": Comparison("resolution_64", ("4-Corners",), "trained at 32², shown at 64², g = 0"),
    "predictions_zero": Comparison("zero_boundary", ("4-Corners",), "g = 0"),
    "predictions_other_shapes": Comparison(
        "train_4_corners", ("3-Corners", "2-Corners", "1-Corner", "No-Corner"), "trained on 4-Corners, other shapes"
    ),
}
FIGURES = ("samples", "graphs", *COMPARISONS, "branches", "convergence")


def write_figures(queue: Queue, folder: Path) -> Iterator[Path]:
    """Each as a vector drawing and as PNG; those of which the results do not keep enough yet are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures(queue):
        for suffix in FORMATS:
            save(figure, folder / f"{name}{suffix}")
            yield folder / f"{name}{suffix}"


def figures(queue: Queue) -> Iterator[tuple[str, Figure]]:
    """From what the results keep; BENO's branches, which they do not, from its weights."""
    first = {name: _sample(queue.effort.family(Family(corners=corners)), 0) for corners, name in COLUMNS.items()}
    yield "samples", plot_samples(list(first.values()), list(first))
    yield "graphs", plot_graphs(first)
    for name, comparison in COMPARISONS.items():
        predictions = _compared(queue.cells, TABLES[comparison.table], comparison.columns)
        if predictions:
            yield name, plot_comparison(queue, comparison, predictions)
    beno = queue.operator_of(BENO_IN_FULL)
    if beno is not None:
        sample = first["4-Corners"]
        yield "branches", plot_prediction(sample, beno.predict_branches([sample])[0], "BENO's two branches, 4-Corners")
    rows = {row.label: row for row in TABLES["train_4_corners"].rows}
    curves = {name: queue.cells.curve(rows[name].training) for name in CONVERGENCE}
    if all(curves.values()):
        yield "convergence", plot_convergence({name: curve for name, curve in curves.items() if curve})


def plot_graphs(samples: dict[str, Sample]) -> Figure:
    """Interior nodes and their edges, and the boundary's nodes."""
    figure, axes = plt.subplots(1, len(samples), figsize=(3.6 * len(samples), 3.9), layout="constrained")
    for axis, (name, sample) in zip(axes, samples.items(), strict=True):
        graph = build_graph(sample.points)
        once = graph.receiver < graph.sender
        ends = [
            sample.points[graph.receiver[once]],
            sample.points[graph.sender[once]],
            np.full((once.sum(), 2), np.nan),
        ]
        # One line with gaps: thousands of their own make a vector drawing of megabytes.
        axis.plot(*np.stack(ends, axis=1).reshape(-1, 2).T, color="0.35", linewidth=0.4)
        axis.plot(*sample.points.T, ".", color="black", markersize=1.5, label=f"{len(sample.points)} interior nodes")
        axis.plot(*sample.centres.T, ".", color="purple", markersize=3, label=f"{len(sample.centres)} boundary nodes")
        axis.set(title=f"{name}, {once.sum()} edges", xlabel="x", ylabel="y", aspect="equal")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8)
    return figure


def plot_comparison(queue: Queue, comparison: Comparison, predictions: dict[str, Predictions]) -> Figure:
    """A sample a row: the truth, then each model's prediction on the same scale, and all errors on one of their own."""
    table = TABLES[comparison.table]
    families = {column: queue.effort.family(table.columns[column]) for column in comparison.columns}
    several = len(comparison.columns) > 1  # then one sample of each is enough to see
    lines = [(column, index) for column in families for index in range(1 if several else table.keeps[column])]
    figure, axes = plt.subplots(
        len(lines), 1 + 2 * len(predictions), figsize=(3.7 * (1 + 2 * len(predictions)), 3.5 * len(lines)),
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for line, (column, index) in zip(axes, lines, strict=True):
        sample = _sample(families[column], index)
        predicted = {name: of_model[column][index] for name, of_model in predictions.items()}
        if any(values.shape != sample.u.shape for values in predicted.values()):
            raise BenoError(f"{table.name}, {column} keeps predictions of other samples than sample {index}")
        largest = max(float(np.abs(values).max()) for values in (sample.u, *predicted.values()))
        largest_error = max(float(np.abs(values - sample.u).max()) for values in predicted.values())
        parts = [(f"{column}: truth", sample.u, "u", largest)]
        for name, values in predicted.items():
            parts.append((name, values, "u", largest))
            error = f"{name}:\nerror, {100 * relative_l2(values, sample.u):.3g} %"
            parts.append((error, values - sample.u, "prediction - truth", largest_error))
        for axis, (title, values, label, limit) in zip(line, parts, strict=True):
            draw_field(axis, sample, values, label, largest=limit)
            draw_outline(axis, sample)
            axis.set_title(title)
    figure.suptitle(comparison.title)
    return figure


def plot_convergence(curves: Mapping[str, Mapping[str, list[float]]]) -> Figure:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for name, curve in curves.items():
        axes[0].plot(curve["epoch"], curve["train_loss"], label=name, linewidth=1)
        axes[1].plot(curve["epoch"], 100 * np.array(curve["validation_relative_l2"]), label=name, linewidth=1)
    axes[0].set(title="training", xlabel="epoch", ylabel="loss, mean square of the scaled u", yscale="log")
    axes[1].set(title="validation", xlabel="epoch", ylabel="relative L2, %", yscale="log")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend()
    return figure


def _compared(cells: Cells, table: Table, columns: tuple[str, ...]) -> dict[str, Predictions]:
    """Of the baseline that is best in the table's first column, BENO and the harmonic operator; nothing if one is not
    kept."""
    first = next(iter(table.columns))
    errors = {
        row: cell["figures"]["relative_l2"]
        for row in table.rows
        if row.training.model in BASELINES and (cell := cells.read(table, row, first))
    }
    best = sorted(errors, key=errors.__getitem__)[:1]
    beno = [row for row in table.rows if row.label == "BENO"]
    found = {row.label: _kept(cells, table, row, columns) for row in best + beno}
    harmonic = {row.label: (table, row) for row in table.rows if row.training.model == "harmonic"}
    mixed = TABLES["train_mixed"]
    if mixed.columns == table.columns:  # then it was tested on the same samples
        harmonic |= {
            f"{row.label}, trained on mixed shapes": (mixed, row) for row in mixed.rows if row.label == "harmonic"
        }
    of_harmonic = {label: _kept(cells, *place, columns) for label, place in harmonic.items()}
    found |= dict([(label, kept) for label, kept in of_harmonic.items() if kept][:1])
    compared = {label.replace(", ", ",\n"): kept for label, kept in found.items() if kept}
    return compared if best and len(compared) == len(found) else {}


def _kept(cells: Cells, table: Table, row: Row, columns: tuple[str, ...]) -> Predictions | None:
    """What is kept of a row's predictions, if it is kept for all of the columns."""
    kept = {column: predictions_of(cell) for column in columns if (cell := cells.read(table, row, column))}
    complete = all(len(kept.get(column, [])) == table.keeps[column] for column in columns)
    return kept if complete else None


def _sample(family: Family, index: int) -> Sample:
    """One of the test samples."""
    return Sample.of(solve(family.problem(testing_seed(family), index)))
