"""Cells and curves: what a file says, and what is refused."""

import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest

from beno.evaluation.metrics import METRICS, Metric
from beno.learned.operator import BEST
from beno.paper.budget import Budget
from beno.paper.cells import Cells
from beno.paper.figures import sample_of_test
from beno.paper.tables import TABLES
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.training.run_folder import LOG
from tests.paper.small import ONE_ROW, SMALL, cell_of, queue_in


def test_a_cell_says_all_that_is_needed_to_find_it_again(filled):
    cells = [json.loads(path.read_text()) for path in (filled / "results").rglob("*--*.json")]
    assert len(cells) == 6
    for cell in cells:
        assert cell["samples"] == 2 and cell["figures"]["relative_l2"]["mean"] > 0
        assert list(cell["figures"]) == list(METRICS)
        assert cell["trained"]["epochs"] == 1 and cell["trained"]["parameters"] > 100
        assert cell["commit"] is not None and cell["date"] and cell["device"]["cpu"]


def test_a_curve_is_kept_of_every_training(filled):
    queue = queue_in(filled)
    for row in SMALL.rows:
        curve = queue.cells.curves.read(row.training)
        assert curve.epoch == [1] and 0 < curve.validation_relative_l2[0] < 10 and curve.train_loss[0] > 0
        trained = curve.trained
        assert trained.commit and trained.seed == 0 and trained.model == row.training.model
    assert queue.cells.curves.read(replace(row.training, seed=1)) is None


def test_the_curve_of_a_training_that_was_done_before_is_had_from_its_log(filled, tmp_path):
    shutil.copytree(filled / "runs", tmp_path / "runs")
    queue, rows = queue_in(tmp_path), SMALL.rows
    (queue.trainings.folder_of(rows[0].training) / LOG).unlink()
    queue.fill([SMALL], float("inf"))
    assert queue.cells.curves.read(rows[0].training) is None, "nothing is known of it, and nothing is written"
    assert queue.cells.curves.read(rows[1].training) == queue_in(filled).cells.curves.read(rows[1].training)


def test_a_cell_keeps_the_predictions_that_figures_show(tmp_path):
    """They are those of the weights, on the samples that the figure draws."""
    queue = queue_in(tmp_path)
    without = replace(ONE_ROW, keeps={})
    queue.fill([without], float("inf"))
    table, row = replace(without, keeps={"4-Corners": 2}), SMALL.rows[0]
    assert queue.cells.read(table, row, "4-Corners").predictions == []
    assert queue.standing([table]).missing == 1, "weights are at hand"
    queue.fill([table], float("inf"))
    kept = queue.cells.read(table, row, "4-Corners").predictions
    family = queue.budget.family(table.columns["4-Corners"])
    problems = [sample_of_test(family, index).problem for index in range(2)]
    expected = queue.trainings.operator_of(row.training).predict(problems)
    assert len(kept) == 2
    for one, other in zip(kept, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-12)
    assert queue.cells.read(table, row, "No-Corner").predictions == []
    (queue.trainings.folder_of(row.training) / BEST).unlink()
    assert queue.standing([replace(table, keeps={"4-Corners": 3})]).missing == 0, "they cannot be had any more"


def as_version_1(cell):
    """A stored cell as the first version wrote it."""
    older = {name: value for name, value in cell.items() if name not in ("averaged", "samples")} | {"version": 1}
    older["figures"] = {"samples": cell["samples"]}
    for name, figure in cell["figures"].items():
        older["figures"] |= {name: figure["mean"], f"{name}_deviation": figure["deviation"]}
    for name in ("trained_on", "tested_on"):
        older[name] = {"spoilt" if key == "with_fault" else key: value for key, value in cell[name].items()}
    older["trained"] = {key: value for key, value in cell["trained"].items() if key != "unfinished"}
    return older


def test_cells_and_curves_of_version_1_are_read_as_those_of_this_version(filled, tmp_path):
    shutil.copytree(filled / "results", tmp_path / "results")
    now, then, row = queue_in(filled).cells, queue_in(tmp_path).cells, SMALL.rows[0]
    for column in SMALL.columns:
        path = then.path(SMALL, row, column)
        path.write_text(json.dumps(as_version_1(json.loads(path.read_text()))))
    assert then.of_row(SMALL, row) == now.of_row(SMALL, row)
    path = then.path(SMALL, row, "4-Corners")
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"trained": stored["trained"] | {"stopped": True}}))
    assert then.read(SMALL, row, "4-Corners").trained.unfinished
    path = then.curves.path(row.training)
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"version": 1, "trained": stored["trained"] | {"stopped": True}}))
    assert then.curves.read(row.training).trained.unfinished
    for damage in ({"figures": {"samples": 2, "mae": 0.1}}, {"figures": None}, {"trained": None}, {"tested_on": 3}):
        path = then.path(SMALL, row, "4-Corners")
        path.write_text(json.dumps(as_version_1(json.loads(now.path(SMALL, row, "4-Corners").read_text())) | damage))
        with pytest.raises(BenoError, match="is damaged"):
            then.read(SMALL, row, "4-Corners")


def test_a_cell_that_a_new_metric_or_a_new_setting_does_not_know_is_read(filled, monkeypatch, tmp_path):
    """What has been added since was the default when the cell was made."""
    shutil.copytree(filled / "results", tmp_path / "results")
    cells, row = queue_in(tmp_path).cells, SMALL.rows[0]
    path = cells.path(SMALL, row, "4-Corners")
    stored = json.loads(path.read_text())
    for name in ("trained_on", "tested_on"):
        assert stored[name].pop("contrast") == asdict(Family())["contrast"]
    for setting in ("loss", "points", "start"):
        del stored["trained"]["training"][setting]
    del stored["figures"]["mae"]
    path.write_text(json.dumps(stored))
    monkeypatch.setitem(METRICS, "largest", Metric(lambda predicted, truth: 1.0, "Largest error", "", 1.0, 2))
    cell = cells.read(SMALL, row, "4-Corners")
    assert list(cell.figures) == ["relative_l2"] and cell.lacks_metrics


RIGHT = "published_fault/FNO, right walls"


def found(place):
    """The table, the row and the column of a cell."""
    name, label, column = place.split("/")
    table = TABLES[name]
    return table, next(row for row in table.rows if row.label == label), column


class TestBadInput:
    @pytest.mark.parametrize(
        "change, message",
        [
            ({"version": 99}, "version 99"),
            ({"format": "other"}, "is no beno-cell"),
            ({"smoke": False}, "--smoke"),
        ],
    )
    def test_a_cell_that_is_none_or_is_damaged_or_of_another_place_is_refused(self, tmp_path, change, message):
        queue, row = queue_in(tmp_path), SMALL.rows[0]
        path = queue.cells.path(SMALL, row, "4-Corners")
        queue.cells.write(SMALL, row, "4-Corners", cell_of(row, queue.budget))
        whole = json.loads(path.read_text())
        trained, figures, error = whole["trained"], whole["figures"], whole["figures"]["relative_l2"]
        path.write_text(json.dumps(whole | change))
        with pytest.raises(BenoError, match=message):
            queue.fill([SMALL], float("inf"))
        for damage in (
            {"figures": {}},
            {"figures": {"unheard of": error}},
            {"figures": figures | {"mae": "0.1"}},
            {"figures": figures | {"mae": error | {"deviation": None}}},
            {"figures": figures | {"relative_l2": error | {"mean": float("nan")}}},
            {"samples": "2"},
            {"averaged": "no"},
            {"trained": []},
            {"trained": {"unfinished": True}},
            {"trained": trained | {"parameters": None}},
            {"trained": trained | {"device": None}},
            {"trained": trained | {"device": {"gpu": 1}}},
            {"trained": trained | {"unfinished": "no"}},
            {"trained": trained | {"epochs": -3}},
            {"trained": trained | {"settings": None}},
            {"trained": trained | {"training": []}},
            {"figures": figures | {"relative_l2": error | {"mean": -1}}},
            {"figures": figures | {"relative_l2": error | {"mean": True}}},
            {"figures": figures | {"relative_l2": error | {"mean": 10**400}}},
            {"device": None},
            {"trained_on": None},
            {"tested_on": 4},
            {"trained": trained | {"best_epoch": 3}},
            {"predicted": "0.1 0.2"},
            {"predicted": [0.1, 0.2]},
        ):
            path.write_text(json.dumps(whole | damage))
            with pytest.raises(BenoError, match="is damaged"):
                queue.fill([SMALL], float("inf"))
        for other in (
            {"tested_on": whole["tested_on"] | {"seed": 0}},
            {"tested_on": whole["tested_on"] | {"corners": 0}},
            {"trained": trained | {"seed": 1}},
            {"trained": trained | {"training": trained["training"] | {"seed": 1}}},
        ):
            path.write_text(json.dumps(whole | other))
            with pytest.raises(BenoError, match=r"of another row, .*: use another folder"):
                queue.fill([SMALL], float("inf"))
        path.write_text(json.dumps(whole | {"row": "GKN"}))
        with pytest.raises(BenoError, match="is the cell of another place"):
            queue.fill([SMALL], float("inf"))
        path.write_text("{")
        with pytest.raises(BenoError, match=r"cannot be read.*remove it"):
            queue.fill([SMALL], float("inf"))

    @pytest.mark.parametrize(
        "place, other, message",
        [
            ("zero_boundary/MP-PDE/4-Corners", "resolution_64/MP-PDE/4-Corners", "resolution 32"),
            ("train_4_corners/FNO/4-Corners", "train_4_corners/GKN/4-Corners", "model fno"),
            (
                "train_4_corners/BENO/No-Corner",
                "train_4_corners/BENO, mean over symmetries/No-Corner",
                "averaged False",
            ),
            ("train_4_corners/harmonic, seed 0/4-Corners", "train_4_corners/harmonic, seed 1/4-Corners", "seed 0"),
            ("ablation/BENO/4-Corners", "ablation/BENO w. M/4-Corners", "boundary_in_nodes"),
            (f"{RIGHT}/4-Corners", "published_fault/FNO, wrong walls/4-Corners", "with_fault False"),
            (f"{RIGHT}/4-Corners", f"{RIGHT}/4-Corners, wrong walls", "with_fault False"),
            (f"{RIGHT}/4-Corners", "train_4_corners/FNO/4-Corners", "symmetries False"),
            (f"{RIGHT}/4-Corners", "published_source/FNO, right walls/4-Corners", "source_amplitude 20.0"),
        ],
    )
    def test_a_cell_of_another_row_is_refused(self, tmp_path, place, other, message):
        cells = Cells(tmp_path)
        for one in (place, other):
            table, row, column = found(one)
            cells.write(table, row, column, cell_of(row, cells.budget))
        of_place = json.loads(cells.path(*found(place)).read_text())
        says_other = dict(zip(("table", "row", "column"), other.split("/"), strict=True))
        cells.path(*found(other)).write_text(json.dumps(of_place | says_other))
        with pytest.raises(BenoError, match=f"of another row, .*{message}"):
            cells.read(*found(other))

    def test_a_cell_of_a_run_of_another_size_is_refused(self, tmp_path):
        row, small = SMALL.rows[0], Cells(tmp_path, Budget.smallest())
        with pytest.raises(BenoError, match="samples 100, where 2 is asked for"):
            small.write(SMALL, row, "4-Corners", cell_of(row, replace(small.budget, test_samples=100)))
        small.write(SMALL, row, "4-Corners", cell_of(row, small.budget))
        path = small.path(SMALL, row, "4-Corners")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"smoke": False}))
        with pytest.raises(BenoError, match=r"of another row, .*samples 2, where 100 is asked for"):
            Cells(tmp_path).read(SMALL, row, "4-Corners")

    @pytest.mark.parametrize(
        "change, message",
        [
            ({"version": 99}, "version 99"),
            ({"format": "beno-cell"}, "is no beno-curve"),
            ({"smoke": False}, "--smoke"),
            ({"epoch": [1, 2]}, "is damaged"),
            ({"train_loss": None}, "is damaged"),
            ({"train_loss": ["0.1"]}, "is damaged"),
            ({"validation_relative_l2": [float("nan")]}, "is damaged"),
            ({"epoch": [], "train_loss": [], "validation_relative_l2": []}, "is damaged"),
        ],
    )
    def test_a_curve_that_is_none_or_is_damaged_is_refused(self, filled, tmp_path, change, message):
        shutil.copytree(filled / "results", tmp_path / "results")
        queue, training = queue_in(tmp_path), SMALL.rows[0].training
        path = queue.cells.curves.path(training)
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        with pytest.raises(BenoError, match=message):
            queue.cells.curves.read(training)
