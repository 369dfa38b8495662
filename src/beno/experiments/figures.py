"""The paper's figures, from the same data, trainings and cells as its tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from beno.experiments.cells import Cell
from beno.experiments.queue import Queue
from beno.experiments.tables import BASELINES, TABLES, TEST_SEED, Row, Table
from beno.finite_volume import solve
from beno.graph import build_graph
from beno.metrics import relative_l2
from beno.operator import LearnedOperator
from beno.paper import COLUMNS
from beno.plotting import draw_field, draw_outline, plot_prediction, plot_samples, save
from beno.random_problems import Family
from beno.sample import Sample
from beno.training import LOG, read_log

FORMATS = (".svg", ".png")
CONVERGENCE = ("BENO", "MP-PDE", "GNN-PDE")


@dataclass(frozen=True)
class Comparison:
    """Predictions and errors on some columns of a table, so many samples of each."""

    table: str
    columns: tuple[str, ...]
    samples: int
    title: str


COMPARISONS = {
    "predictions_4_corners": Comparison("train_4_corners", ("4-Corners",), 2, "4-Corners"),
    "predictions_64": Comparison("resolution_64", ("4-Corners",), 2, "trained at 32², shown at 64², g = 0"),
    "predictions_zero": Comparison("zero_boundary", ("4-Corners",), 2, "g = 0"),
    "predictions_other_shapes": Comparison(
        "train_4_corners", ("3-Corners", "2-Corners", "1-Corner", "No-Corner"), 1, "trained on 4-Corners, other shapes"
    ),
}


def write_figures(queue: Queue, folder: Path) -> Iterator[Path]:
    """Each as a vector drawing and as PNG; those that need a training that was not tested yet are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures(queue):
        for suffix in FORMATS:
            save(figure, folder / f"{name}{suffix}")
            yield folder / f"{name}{suffix}"


def figures(queue: Queue) -> Iterator[tuple[str, Figure]]:
    first = {name: _sample(queue.effort.family(Family(corners=corners)), 0) for corners, name in COLUMNS.items()}
    yield "samples", plot_samples(list(first.values()), list(first))
    yield "graphs", plot_graphs(first)
    for name, comparison in COMPARISONS.items():
        operators = _compared(queue, TABLES[comparison.table], comparison.columns[0])
        if operators:
            yield name, plot_comparison(queue, comparison, operators)
    tested = {row.label: (row, one) for row, (_, one) in _tested(queue, TABLES["train_4_corners"], "4-Corners").items()}
    if "BENO" in tested:
        sample = first["4-Corners"]
        branches = tested["BENO"][1].predict_branches([sample])[0]
        yield "branches", plot_prediction(sample, branches, "BENO's two branches, 4-Corners")
    folders = {name: queue.folder_of(tested[name][0].training) for name in CONVERGENCE if name in tested}
    logged = {name: folder for name, folder in folders.items() if (folder / LOG).exists()}
    if logged:
        yield "convergence", plot_convergence(logged)


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
        axis.plot(*np.stack(ends, axis=1).reshape(-1, 2).T, color="0.6", linewidth=0.3)
        axis.plot(*sample.points.T, ".", color="black", markersize=1.5, label=f"{len(sample.points)} interior nodes")
        axis.plot(*sample.centres.T, ".", color="purple", markersize=3, label=f"{len(sample.centres)} boundary nodes")
        axis.set(title=f"{name}, {once.sum()} edges", xlabel="x", ylabel="y", aspect="equal")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8)
    return figure


def plot_comparison(queue: Queue, comparison: Comparison, operators: Mapping[str, LearnedOperator]) -> Figure:
    """A sample a row: the truth, then each model's prediction on the same scale, and all errors on one of their own."""
    table = TABLES[comparison.table]
    families = {column: queue.effort.family(table.columns[column]) for column in comparison.columns}
    shown = [(c, _sample(family, index)) for c, family in families.items() for index in range(comparison.samples)]
    figure, axes = plt.subplots(
        len(shown), 1 + 2 * len(operators), figsize=(3.7 * (1 + 2 * len(operators)), 3.5 * len(shown)),
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for line, (column, sample) in zip(axes, shown, strict=True):
        predicted = {name: operator.predict([sample])[0] for name, operator in operators.items()}
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


def plot_convergence(folders: Mapping[str, Path]) -> Figure:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for name, folder in folders.items():
        records = read_log(folder)
        epochs = [record["epoch"] for record in records]
        axes[0].plot(epochs, [record["train_loss"] for record in records], label=name, linewidth=1)
        looked = [record for record in records if record["validation_relative_l2"] is not None]
        axes[1].plot(
            [record["epoch"] for record in looked], [100 * record["validation_relative_l2"] for record in looked],
            label=name, linewidth=1,
        )  # fmt: skip
    axes[0].set(title="training", xlabel="epoch", ylabel="loss, mean square of the scaled u", yscale="log")
    axes[1].set(title="validation", xlabel="epoch", ylabel="relative L2, %", yscale="log")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend()
    return figure


def _compared(queue: Queue, table: Table, column: str) -> dict[str, LearnedOperator]:
    """The best baseline by its cell, BENO and the harmonic operator, as far as they are tested."""
    tested = _tested(queue, table, column)
    errors = {row: cell["figures"]["relative_l2"] for row, (cell, _) in tested.items()}
    best = sorted((row for row in tested if row.training.model in BASELINES), key=errors.__getitem__)[:1]
    beno = [row for row in tested if row.label == "BENO"]
    harmonic = [row for row in tested if row.training.model == "harmonic"][:1]
    if not best + beno:
        return {}
    return {row.label.replace(", ", ",\n"): tested[row][1] for row in best + beno + harmonic}


def _tested(queue: Queue, table: Table, column: str) -> dict[Row, tuple[Cell, LearnedOperator]]:
    """Rows whose cell of the column is known and whose very weights are at hand."""
    tested = {}
    for row in table.rows:
        cell = queue.cells.read(table, row, column)
        operator = queue.operator_of(row.training) if cell is not None else None
        if cell is not None and operator is not None and operator.header.epoch == cell["trained"]["best_epoch"]:
            tested[row] = cell, operator
    return tested


def _sample(family: Family, index: int) -> Sample:
    """One of the test samples."""
    return Sample.of(solve(family.problem(TEST_SEED + int(family.corners), index)))
