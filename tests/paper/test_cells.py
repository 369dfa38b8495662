"""Cells and curves: what a file says, and what is refused."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from beno.learned.operator import BEST
from beno.paper.budget import Effort
from beno.paper.cells import Cells, predictions_of
from beno.paper.figures import _sample
from beno.paper.tables import TABLES
from beno.support.errors import BenoError
from beno.training.loop import LOG
from tests.paper.small import FIGURES, SMALL, facts_of, queue_in


def test_a_cell_says_all_that_is_needed_to_find_it_again(filled):
    cells = [json.loads(path.read_text()) for path in (filled / "results").rglob("*--*.json")]
    assert len(cells) == 6
    for cell in cells:
        assert cell["figures"]["samples"] == 2 and cell["figures"]["relative_l2"] > 0
        assert cell["trained"]["epochs"] == 1 and cell["trained"]["parameters"] > 100
        assert cell["commit"] is not None and cell["date"] and cell["device"]["cpu"]


def test_a_curve_is_kept_of_every_training(filled):
    queue = queue_in(filled)
    for row in SMALL.rows:
        curve = queue.cells.curve(row.training)
        assert curve["epoch"] == [1] and 0 < curve["validation_relative_l2"][0] < 10 and curve["train_loss"][0] > 0
        trained = json.loads(queue.cells.curve_path(row.training).read_text())["trained"]
        assert trained["commit"] and trained["seed"] == 0 and trained["model"] == row.training.model
    assert queue.cells.curve(replace(row.training, seed=1)) is None


def test_the_curve_of_a_training_that_was_done_before_is_had_from_its_log(filled, tmp_path):
    shutil.copytree(filled / "runs", tmp_path / "runs")
    queue, rows = queue_in(tmp_path), SMALL.rows
    (queue.folder_of(rows[0].training) / LOG).unlink()
    queue.fill([SMALL], float("inf"))
    assert queue.cells.curve(rows[0].training) is None, "nothing is known of it, and nothing is written"
    assert queue.cells.curve(rows[1].training) == queue_in(filled).cells.curve(rows[1].training)


def test_a_cell_keeps_the_predictions_that_figures_show(tmp_path):
    """They are those of the weights, on the samples that the figure draws."""
    queue = queue_in(tmp_path)
    without = replace(SMALL, rows=SMALL.rows[:1], keeps={})
    queue.fill([without], float("inf"))
    table, row = replace(without, keeps={"4-Corners": 2}), SMALL.rows[0]
    assert predictions_of(queue.cells.read(table, row, "4-Corners")) == []
    assert queue.standing([table]).missing == 1, "weights are at hand"
    queue.fill([table], float("inf"))
    kept = predictions_of(queue.cells.read(table, row, "4-Corners"))
    samples = [_sample(queue.effort.family(table.columns["4-Corners"]), index) for index in range(2)]
    expected = queue.operator_of(row.training).predict(samples)
    assert len(kept) == 2
    for one, other in zip(kept, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-12)
    assert predictions_of(queue.cells.read(table, row, "No-Corner")) == []
    (queue.folder_of(row.training) / BEST).unlink()
    assert queue.standing([replace(table, keeps={"4-Corners": 3})]).missing == 0, "they cannot be had any more"


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
    def test_a_cell_of_another_kind(self, tmp_path, change, message):
        queue, row = queue_in(tmp_path), SMALL.rows[0]
        path, facts = queue.cells.path(SMALL, row, "4-Corners"), facts_of(row, queue.effort)
        queue.cells.write(SMALL, row, "4-Corners", facts)
        whole, trained = json.loads(path.read_text()), facts["trained"]
        path.write_text(json.dumps(whole | change))
        with pytest.raises(BenoError, match=message):
            queue.fill([SMALL], float("inf"))
        for damage in (
            {"figures": {}},
            {"figures": FIGURES | {"mae": "0.1"}},
            {"figures": FIGURES | {"relative_l2": float("nan")}},
            {"trained": []},
            {"trained": {"stopped": True}},
            {"trained": trained | {"parameters": None}},
            {"trained": trained | {"device": None}},
            {"trained": trained | {"device": {"gpu": 1}}},
            {"trained": trained | {"stopped": "no"}},
            {"trained": trained | {"epochs": -3}},
            {"trained": trained | {"settings": None}},
            {"trained": trained | {"training": []}},
            {"figures": FIGURES | {"relative_l2": -1}},
            {"figures": FIGURES | {"relative_l2": True}},
            {"figures": FIGURES | {"relative_l2": 10**400}},
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
            (f"{RIGHT}/4-Corners", "published_fault/FNO, wrong walls/4-Corners", "spoilt False"),
            (f"{RIGHT}/4-Corners", f"{RIGHT}/4-Corners, wrong walls", "spoilt False"),
            (f"{RIGHT}/4-Corners", "train_4_corners/FNO/4-Corners", "symmetries False"),
            (f"{RIGHT}/4-Corners", "published_source/FNO, right walls/4-Corners", "source_amplitude 20.0"),
        ],
    )
    def test_a_cell_of_another_row(self, tmp_path, place, other, message):
        cells = Cells(tmp_path)
        for one in (place, other):
            table, row, column = found(one)
            cells.write(table, row, column, facts_of(row, cells.effort))
        of_place = json.loads(cells.path(*found(place)).read_text())
        says_other = dict(zip(("table", "row", "column"), other.split("/"), strict=True))
        cells.path(*found(other)).write_text(json.dumps(of_place | says_other))
        with pytest.raises(BenoError, match=f"of another row, .*{message}"):
            cells.read(*found(other))

    def test_a_cell_of_other_size(self, tmp_path):
        row, small = SMALL.rows[0], Cells(tmp_path, Effort.least())
        with pytest.raises(BenoError, match="samples 100, where 2 is asked for"):
            small.write(SMALL, row, "4-Corners", facts_of(row, replace(small.effort, test_samples=100)))
        small.write(SMALL, row, "4-Corners", facts_of(row, small.effort))
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
    def test_a_curve_of_another_kind(self, filled, tmp_path, change, message):
        shutil.copytree(filled / "results", tmp_path / "results")
        queue, training = queue_in(tmp_path), SMALL.rows[0].training
        path = queue.cells.curve_path(training)
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        with pytest.raises(BenoError, match=message):
            queue.cells.curve(training)
