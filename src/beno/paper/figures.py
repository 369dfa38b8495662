"""The paper's figures, from the same data, trainings and cells as its tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import numpy as np
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from beno.evaluation.plotting import PAGE, Compared, plot_comparison, plot_prediction, plot_samples, save
from beno.paper.cells import Cells
from beno.paper.curves import Curve
from beno.paper.graph_figure import plot_graphs
from beno.paper.json_files import Damaged
from beno.paper.queue import Queue
from beno.paper.reported import COLUMNS
from beno.paper.tables import BASELINES, BENO_IN_FULL, TABLES, Row, Table, testing_seed
from beno.problems.families import Family
from beno.problems.solution import Solution
from beno.solvers.direct import Direct
from beno.support.errors import BenoError

FORMATS = (".svg", ".png")
CONVERGENCE = ("BENO", "FNO", "GKN")  # rows whose curves are drawn
PAPERS_MODEL, OURS = "beno", "harmonic"  # what baselines are compared with

# For the first test samples of each column.
Predictions = dict[str, list[Float[np.ndarray, " _"]]]


@dataclass(frozen=True)
class Comparison:
    """A picture of predictions and errors on some columns of a table."""

    table: str
    columns: tuple[str, ...]
    title: str


COMPARISONS = {
    "predictions_4_corners": Comparison(
        "train_4_corners", ("4-Corners",), "Tested on 4-Corners; trained on 4-Corners unless it says otherwise"
    ),
    "predictions_64": Comparison(
        "resolution_64", ("4-Corners",), "Tested on 4-Corners with g = 0 at 64², trained at 32²"
    ),
    "predictions_zero": Comparison("zero_boundary", ("4-Corners",), "Tested on 4-Corners with g = 0"),
    "predictions_other_shapes": Comparison(
        "train_4_corners",
        ("3-Corners", "2-Corners", "1-Corner", "No-Corner"),
        "Tested on shapes with fewer corners cut; trained on 4-Corners unless it says otherwise",
    ),
}
FIGURES = ("samples", "graphs", *COMPARISONS, "branches", "convergence")


def write_figures(queue: Queue, folder: Path) -> Iterator[Path]:
    """Each as a vector drawing and as PNG; a figure for which the results do not keep enough yet is not drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures(queue):
        for suffix in FORMATS:
            save(figure, folder / f"{name}{suffix}")
            yield folder / f"{name}{suffix}"


def figures(queue: Queue) -> Iterator[tuple[str, Figure]]:
    """From what the results keep; BENO's branches, which they do not, from its weights."""
    first = {name: sample_of_test(queue.budget.family(Family(corners=corners)), 0) for corners, name in COLUMNS.items()}
    title = "A problem of each family: source f, and solution u framed by boundary values g"
    yield "samples", plot_samples(list(first.values()), list(first), title)
    yield "graphs", plot_graphs(first["4-Corners"].problem)
    for name, comparison in COMPARISONS.items():
        predictions = _compared(queue.cells, TABLES[comparison.table], comparison.columns)
        if predictions:
            yield name, plot_comparison(list(_samples_of(queue, comparison, predictions)), comparison.title)
    beno = queue.trainings.operator_of(BENO_IN_FULL)
    if beno is not None:
        sample = first["4-Corners"]
        title = "BENO's two branches on a 4-Corners test sample"
        yield "branches", plot_prediction(sample, beno.predict_branches([sample.problem])[0], title)
    curves = _curves(queue.cells, TABLES["train_4_corners"])
    if curves:
        yield "convergence", plot_convergence(curves)


def _samples_of(queue: Queue, comparison: Comparison, predictions: Mapping[str, Predictions]) -> Iterator[Compared]:
    """One sample of each column where there are several, which is enough to see; else all that are kept."""
    table = TABLES[comparison.table]
    several = len(comparison.columns) > 1
    for column in comparison.columns:
        for index in range(1 if several else table.keeps[column]):
            sample = sample_of_test(queue.budget.family(table.columns[column]), index)
            predicted = {_in_lines(label): kept[column][index] for label, kept in predictions.items()}
            for label, kept in predictions.items():
                if kept[column][index].shape != sample.u.shape:
                    of_row = f"{table.name}, {label}, {column}"
                    raise BenoError(f"{of_row} keeps predictions of other samples than sample {index}")
            yield Compared(f"{column}, test sample {index + 1}", sample, predicted)


def _in_lines(label: str) -> str:
    """As narrow as a picture."""
    return ",\n".join(fill(part, 24) for part in label.split(", "))


def plot_convergence(curves: Mapping[str, Curve]) -> Figure:
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 4.0), layout="constrained")
    for label, curve in curves.items():
        axes[0].plot(curve.epoch, curve.train_loss, label=label, linewidth=1)
        axes[1].plot(curve.epoch, 100 * np.array(curve.validation_relative_l2), label=label, linewidth=1)
    axes[0].set(title="training", xlabel="epoch", ylabel="loss, mean square of the scaled u", yscale="log")
    axes[1].set(title="validation", xlabel="epoch", ylabel="relative L2, %", yscale="log")
    axes[1].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[1].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(curves))
    figure.suptitle("Trained on 4-Corners, by epoch: the runs of the table, unless the legend names another")
    return figure


def _curves(cells: Cells, table: Table) -> dict[str, Curve]:
    """The curves by what the legend calls them; nothing if one of them is not kept."""
    rows = {row.label: row for row in table.rows}
    curves = {label: cells.curves.read(rows[label].training) for label in CONVERGENCE}
    if not all(curves.values()):
        return {}
    return {_legend(cells, table, rows[label], curve): curve for label, curve in curves.items() if curve}


def _legend(cells: Cells, table: Table, row: Row, curve: Curve) -> str:
    """Says whether a curve is of another run than the figures in the table."""
    in_table = [cell.trained for cell in cells.of_row(table, row).values()]
    if in_table and all(curve.trained.is_same_run(other) for other in in_table):
        return row.label
    return f"{row.label}, another run of {curve.trained.epochs} epochs"


def _compared(cells: Cells, table: Table, columns: Sequence[str]) -> dict[str, Predictions]:
    """What the rows that are drawn predict, by label.

    They are the baseline that is best on these columns, BENO trained on the same family, and a harmonic operator if
    there is one. Without predictions of the first two nothing is drawn.
    """
    kept = _kept(cells, table, columns)
    benos = [row for row in kept if row.training.model == PAPERS_MODEL]
    baselines = [row for row in kept if row.training.model in BASELINES]
    for baseline in sorted(baselines, key=lambda row: _error(cells, table, row, columns)):
        for beno in benos:
            if beno.training.family == baseline.training.family:
                compared = {row.label: kept[row] for row in (baseline, beno)}
                return compared | _harmonic(cells, table, columns)
    return {}


def _harmonic(cells: Cells, table: Table, columns: Sequence[str]) -> dict[str, Predictions]:
    """The table's own, or the one that was trained on mixed shapes, if it was tested on the same samples."""
    mixed = TABLES["train_mixed"]
    places = {table.name: (table, "")}
    if mixed.columns == table.columns:
        places.setdefault(mixed.name, (mixed, ", trained on mixed shapes"))
    for of_table, note in places.values():
        for row, predictions in _kept(cells, of_table, columns).items():
            if row.training.model == OURS:
                return {row.label + note: predictions}
    return {}


def _kept(cells: Cells, table: Table, columns: Sequence[str]) -> dict[Row, Predictions]:
    """The predictions of the rows that keep them for all of the columns."""
    kept = {}
    for row in table.rows:
        of_row = {column: _predictions(cells, table, row, column) for column in columns}
        if all(len(of_row[column]) == table.keeps[column] for column in columns):
            kept[row] = of_row
    return kept


def _predictions(cells: Cells, table: Table, row: Row, column: str) -> list[Float[np.ndarray, " _"]]:
    cell = cells.read(table, row, column)
    try:
        return cell.predictions if cell else []
    except Damaged as error:
        raise BenoError(f"{table.name}, {row.label}, {column} is damaged: {error}") from error


def _error(cells: Cells, table: Table, row: Row, columns: Sequence[str]) -> float:
    """The mean over the columns of the first metric."""
    of_row = cells.of_row(table, row)
    return sum(next(iter(of_row[column].figures.values())).mean for column in columns) / len(columns)


def sample_of_test(family: Family, index: int) -> Solution:
    return Direct().solve(family.problem(testing_seed(family), index))
