"""The paper's figures: who is compared, and of which runs the curves are."""

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot as plt

from beno.evaluation.drawing import POSITIVE
from beno.paper.budget import Budget
from beno.paper.cells import as_text
from beno.paper.figures import CONVERGENCE, FIGURES, _compared, _curves, figures, plot_convergence, sample_of_test
from beno.paper.queue import Queue
from beno.paper.tables import TABLES
from beno.support.errors import BenoError
from tests.paper.small import cell_of, figures_of, queue_in
from tests.places import ROOT

TABLE = TABLES["train_4_corners"]
ROWS = {row.label: row for row in TABLE.rows}
HARMONIC = next(row for row in TABLES["train_mixed"].rows if row.label == "harmonic")
RECORDS = [{"epoch": epoch, "train_loss": 1 / epoch, "validation_relative_l2": 0.5 / epoch} for epoch in (1, 2)]


@pytest.fixture
def queue(tmp_path):
    return queue_in(tmp_path)


def keep(queue, table, row, relative_l2, off):
    """Cells whose predictions are off by so much."""
    for column, family in table.columns.items():
        truths = [sample_of_test(queue.budget.family(family), index) for index in range(table.keeps.get(column, 0))]
        waves = [off * np.cos(7 * truth.problem.domain.points[:, 0]) for truth in truths]
        predicted = as_text([truth.u + wave for truth, wave in zip(truths, waves, strict=True)])
        cell = cell_of(row, queue.budget, predicted=predicted, figures=figures_of(relative_l2=relative_l2))
        queue.cells.write(table, row, column, cell)


def test_the_best_baseline_is_compared_with_beno_and_harmonic(queue):
    columns = ("4-Corners",)
    assert _compared(queue.cells, TABLE, columns) == {}
    keep(queue, TABLE, ROWS["FNO"], 0.02, 1e-2)
    keep(queue, TABLE, ROWS["GKN"], 0.2, 1e-1)
    assert _compared(queue.cells, TABLE, columns) == {}, "without BENO nothing is"
    keep(queue, TABLE, ROWS["BENO"], 0.1, 1e-1)
    assert list(_compared(queue.cells, TABLE, columns)) == ["FNO", "BENO"]
    keep(queue, TABLES["train_mixed"], HARMONIC, 0.001, 1e-3)
    assert list(_compared(queue.cells, TABLE, columns)) == ["FNO", "BENO", "harmonic, trained on mixed shapes"]
    own = ROWS["harmonic, seed 1"]
    keep(queue, TABLE, own, 0.001, 1e-3)
    assert list(_compared(queue.cells, TABLE, columns)) == ["FNO", "BENO", own.label], "the table's own comes first"


def test_rows_whose_predictions_are_not_kept_give_way_to_others(queue):
    table, columns = TABLES["zero_boundary"], ("4-Corners",)
    rows = {row.label: row for row in table.rows}
    for label, relative_l2 in (("MP-PDE", 0.03), ("BENO", 0.1), ("harmonic", 0.001)):
        cell = cell_of(rows[label], queue.budget, figures=figures_of(relative_l2=relative_l2))
        queue.cells.write(table, rows[label], "4-Corners", cell)
    assert _compared(queue.cells, table, columns) == {}
    others = [label for label in rows if "values" in label]
    for label, relative_l2 in zip(others, (0.4, 0.2, 0.2, 0.002), strict=True):
        keep(queue, table, rows[label], relative_l2, relative_l2 / 10)
    assert others[0] == "GNN-PDE, trained with values on the walls", "the worse of the baselines that are kept"
    assert list(_compared(queue.cells, table, columns)) == others[1:]
    keep(queue, table, rows["MP-PDE"], 0.03, 1e-2)
    assert list(_compared(queue.cells, table, columns))[:2] == others[1:3], "trained on the same"
    keep(queue, table, rows["BENO"], 0.1, 1e-2)
    keep(queue, table, rows["harmonic"], 0.001, 1e-4)
    assert list(_compared(queue.cells, table, columns)) == ["MP-PDE", "BENO", "harmonic"]


def test_the_best_is_so_on_the_columns_that_are_shown(queue):
    keep(queue, TABLE, ROWS["BENO, the paper's equations"], 0.01, 1e-2)
    keep(queue, TABLE, ROWS["BENO"], 0.1, 1e-1)
    keep(queue, TABLE, ROWS["GKN"], 0.05, 1e-2)
    keep(queue, TABLE, ROWS["FNO"], 0.2, 1e-2)
    better = replace(queue.cells.read(TABLE, ROWS["FNO"], "4-Corners"), figures=figures_of(relative_l2=0.02))
    queue.cells.write(TABLE, ROWS["FNO"], "4-Corners", better)
    assert list(_compared(queue.cells, TABLE, ("4-Corners",))) == ["FNO", "BENO"]
    others = ("3-Corners", "No-Corner")
    assert list(_compared(queue.cells, TABLE, others)) == ["GKN", "BENO"]
    assert list(_compared(queue.cells, TABLE, ("4-Corners", *others))) == ["GKN", "BENO"], "in the mean"
    one = queue.cells.read(TABLE, ROWS["GKN"], "No-Corner")
    queue.cells.write(TABLE, ROWS["GKN"], "No-Corner", replace(one, predicted=one.predicted[:1]))
    assert list(_compared(queue.cells, TABLE, others)) == ["FNO", "BENO"], "one prediction of two is not enough"
    assert list(_compared(queue.cells, TABLE, ("3-Corners",))) == ["GKN", "BENO"]


def test_a_harmonic_operator_of_other_samples_is_not_compared(queue):
    table = TABLES["zero_boundary"]
    rows = {row.label: row for row in table.rows}
    keep(queue, table, rows["MP-PDE"], 0.03, 1e-2)
    keep(queue, table, rows["BENO"], 0.1, 1e-2)
    keep(queue, TABLES["train_mixed"], HARMONIC, 0.001, 1e-3)
    assert list(_compared(queue.cells, table, ("4-Corners",))) == ["MP-PDE", "BENO"]


def test_errors_on_all_shapes_share_one_scale(queue):
    keep(queue, TABLE, ROWS["FNO"], 0.02, 1e-2)
    keep(queue, TABLE, ROWS["BENO"], 0.1, 1e-1)
    keep(queue, TABLES["train_mixed"], HARMONIC, 0.001, 1e-3)
    drawn = dict(figures(queue))
    for name, count in (("predictions_4_corners", 2), ("predictions_other_shapes", 4)):
        errors = [image for axes in drawn[name].axes for image in axes.images if image.get_cmap().name == POSITIVE]
        assert len(errors) == 3 * count
        assert all(image.norm is errors[0].norm for image in errors)
        assert errors[0].norm.vmin < 1e-3 and errors[0].norm.vmax > 0.09
    plt.close("all")


def test_a_legend_names_a_curve_of_another_run(queue):
    for label in CONVERGENCE:
        assert _curves(queue.cells, TABLE) == {}, "one is not kept yet"
        cell = cell_of(ROWS[label], queue.budget)
        another = {"epochs": 238, "seconds": 9.0} if label == "GKN" else {}
        queue.cells.write(TABLE, ROWS[label], "4-Corners", cell)
        queue.cells.curves.write(ROWS[label].training, RECORDS, replace(cell.trained, **another))
    curves = _curves(queue.cells, TABLE)
    assert list(curves) == ["BENO", "FNO", "GKN, another run of 238 epochs"]
    figure = plot_convergence(curves)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(curves)
    training, validation = figure.axes
    for axes, drawn in ((training, [1, 1 / 2]), (validation, [50, 25])):
        assert len(axes.lines) == 3 and all(list(line.get_ydata()) == drawn for line in axes.lines)
    plt.close(figure)


def test_figures_need_no_weights(tmp_path):
    """But those that ship: drawn from the results of this project, all of them, and as the documentation shows them."""
    root = ROOT
    drawn = dict(figures(Queue(tmp_path / "runs", root / "results" / "tables", Budget(), "cpu")))
    plt.close("all")
    assert set(drawn) == set(FIGURES)
    for name, figure in drawn.items():
        shown = re.findall("<!-- (.*) -->", (root / "docs" / "figures" / f"{name}.svg").read_text())
        titles = [text for axes in figure.axes for text in (axes.title, axes.xaxis.label, axes.yaxis.label)]
        legends = [text for legend in figure.legends for text in legend.get_texts()]
        above = [part.get_suptitle() for part in (figure, *figure.subfigs)]
        lines = [line for text in (*titles, *legends) for line in text.get_text().splitlines()]
        lines += [line for text in above for line in text.splitlines()]
        assert lines and set(lines) <= set(shown), f"{name} is to be drawn again"


@pytest.mark.parametrize("values", ["a", "nan", "0.1"])
def test_predictions_that_are_none_are_told_as_a_figure_is_drawn(queue, values):
    for label in ("GKN", "BENO", "harmonic, seed 0"):
        cell = cell_of(ROWS[label], queue.budget, predicted=(values, values))
        queue.cells.write(TABLE, ROWS[label], "4-Corners", cell)
    with pytest.raises(BenoError, match="is damaged: predicted" if values != "0.1" else "of other samples"):
        list(figures(queue))
    plt.close("all")
