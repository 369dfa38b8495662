"""The paper's tables: complete as data, filled by a queue that stops and goes on, alone or with others."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

from beno import paper, shipped
from beno.checkpoint import load
from beno.dataset import Dataset
from beno.doctor import examine
from beno.errors import BenoError
from beno.experiments.cells import Cells, predictions_of
from beno.experiments.effort import SMALL as MINIATURE
from beno.experiments.effort import Effort
from beno.experiments.figures import FIGURES as FIGURE_NAMES
from beno.experiments.figures import _sample, figures
from beno.experiments.pages import as_latex, as_markdown, write_pages
from beno.experiments.queue import Queue
from beno.experiments.sharing import Share
from beno.experiments.tables import TABLES
from beno.models import make_config
from beno.operator import BEST
from beno.random_problems import Family
from beno.training import LOG, STATE
from tests.test_cli import beno, refused

# A table of three models on few columns.
WHOLE = TABLES["darcy_train_4_corners"]
SMALL = replace(WHOLE, rows=WHOLE.rows[:3], columns={name: WHOLE.columns[name] for name in ("4-Corners", "No-Corner")})


FIGURES = {"samples": 2, "relative_l2": 0.1, "relative_l2_deviation": 0.01, "mae": 0.1, "mae_deviation": 0.01}


def facts_of(row, effort):
    """Of a cell, as a queue of such effort would write them."""
    trained = {"model": row.training.model, "settings": effort.settings(row.training), "seed": row.training.seed}
    trained |= {"training": asdict(effort.config(row.training)), "epochs": 2, "best_epoch": 1, "parameters": 9}
    trained |= {"seconds": 3.0, "device_seconds": 3.0, "device": {"cpu": "one", "gpu": None}}
    return {"figures": FIGURES | {"samples": effort.test_samples}, "trained": trained}


def queue_in(folder):
    return Queue(folder / "runs", folder / "results", Effort.least(), "cpu")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    lines = []
    standing = queue_in(folder).fill([SMALL], float("inf"), lines.append)
    assert standing.missing == 0 and standing.cells == 6
    return folder


def test_every_cell_of_the_paper_has_its_place():
    for name, rows in paper.tables().items():
        table = TABLES[name]
        labels = {row.paper_label for row in table.rows if row.paper_label}
        assert labels == set(rows), name
        for columns in rows.values():
            assert set(columns) == set(table.columns), name
    for table in TABLES.values():
        assert any(row.training.model == "harmonic" for row in table.rows), table.name
        for row in table.rows:
            training = row.training
            make_config(training.model, {**training.settings})
            equation = {family.equation for family in table.columns.values()}
            assert equation == {training.family.equation}
    assert len({training.name for training in trainings()}) == len(set(trainings()))


def trainings():
    return [row.training for table in TABLES.values() for row in table.rows]


def test_test_data_are_never_training_data(filled):
    for path in (filled / "results").rglob("*--*.json"):
        cell = json.loads(path.read_text())
        assert cell["tested_on"]["seed"] >= 100
    data = {path.name for path in (filled / "runs" / "data").glob("*.h5")}
    assert data == {"darcy-dirichlet-4-8-0.h5", "darcy-dirichlet-4-8-104.h5", "darcy-dirichlet-0-8-100.h5"}


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


def test_figures_need_no_weights(tmp_path):
    """Drawn from the results of this project alone, but for two whose cells are older than what they keep."""
    results = Path(__file__).parents[2] / "results" / "tables"
    queue = Queue(tmp_path / "runs", results, Effort(), "cpu")
    drawn = {name for name, figure in figures(queue) if plt.close(figure) is None}
    older = {"predictions_zero", "predictions_64"}
    assert drawn == set(FIGURE_NAMES) - older


def test_what_is_there_is_not_done_again(filled):
    before = {path: path.stat().st_mtime_ns for path in (filled / "results").rglob("*--*.json")}
    lines = []
    queue_in(filled).fill([SMALL], float("inf"), lines.append)
    assert not lines
    assert before == {path: path.stat().st_mtime_ns for path in (filled / "results").rglob("*--*.json")}
    lost = next(iter(before))
    lost.unlink()
    queue_in(filled).fill([SMALL], float("inf"), lines.append)
    assert len(lines) == 1 and lost.exists(), "the cell is tested again, and nothing is trained"


def test_stopped_at_its_time_limit_it_goes_on(tmp_path):
    queue = queue_in(tmp_path)
    assert queue.fill([SMALL], 0.0).missing == 6
    rounds = 0
    while queue.fill([SMALL], 0.01).missing:  # on a busy machine over before a row is taken
        rounds += 1
        assert rounds < 1000
    assert rounds >= 2, "each time a little was done"


def test_a_long_training_tells_how_it_goes(tmp_path, monkeypatch):
    table, lines = replace(SMALL, rows=SMALL.rows[:1]), []
    queue_in(tmp_path / "short").fill([table], float("inf"), lines.append)
    assert not any("epoch 1 of 1" in line for line in lines), "a short one has nothing to tell before its end"
    monkeypatch.setattr("beno.experiments.queue.SECONDS_BETWEEN_LINES", 0.0)
    queue_in(tmp_path / "long").fill([table], float("inf"), lines.append)
    assert any("epoch 1 of 1, train" in line and "validation" in line for line in lines)


def test_an_unfinished_training_can_be_tested_and_goes_on(tmp_path):
    table = replace(SMALL, rows=SMALL.rows[:1])
    effort = replace(Effort.least(), epochs=3, test_unfinished=True)
    queue = Queue(tmp_path / "runs", tmp_path / "results", effort, "cpu")
    seen = []
    while queue.fill([table], 0.01).missing:
        seen += [cell["trained"] for cell in queue.cells.of_row(table, table.rows[0]).values()]
    assert seen and all(trained["stopped"] and trained["epochs"] < 3 for trained in seen)
    assert f"{seen[0]['epochs']}, to go on" in as_markdown(
        table, {table.rows[0]: {"4-Corners": {"figures": FIGURES, "trained": seen[0]}}}
    )
    for cell in queue.cells.of_row(table, table.rows[0]).values():
        assert cell["trained"]["epochs"] == 3 and not cell["trained"]["stopped"]


def test_each_training_gets_its_turn_for_now_and_goes_on_another_time(tmp_path):
    a_moment = replace(Effort.least(), epochs=4, for_now=1e-6)  # noticed an epoch after
    first = Queue(tmp_path / "runs", tmp_path / "results", a_moment, "cpu")
    assert first.fill([SMALL], float("inf")).missing == 0
    trained = [cell["trained"] for row in SMALL.rows for cell in first.cells.of_row(SMALL, row).values()]
    assert all(one["epochs"] == 2 and one["stopped"] for one in trained)
    lines = []
    assert first.fill([SMALL], float("inf"), lines.append).missing == 0 and not lines, "its turn is over"
    lost = first.cells.path(SMALL, SMALL.rows[0], "4-Corners")
    lost.unlink()
    first.fill([SMALL], float("inf"))
    assert json.loads(lost.read_text())["trained"]["epochs"] == 2, "tested as it stands"

    assert first.standing([SMALL]).to_go_on == 6
    longer = Queue(tmp_path / "runs", tmp_path / "results", replace(a_moment, for_now=1e6), "cpu")
    assert (longer.standing([SMALL]).missing, longer.standing([SMALL]).to_go_on) == (6, 0)

    (first.folder_of(SMALL.rows[1].training) / STATE).unlink()  # killed before it saved its state: it begins anew
    for column in SMALL.columns:
        first.cells.path(SMALL, SMALL.rows[1], column).unlink()
    assert first.fill([SMALL], float("inf")).missing == 0
    assert first.cells.read(SMALL, SMALL.rows[1], "4-Corners")["trained"]["epochs"] == 1

    later = Queue(tmp_path / "runs", tmp_path / "results", replace(a_moment, for_now=float("inf")), "cpu")
    assert later.fill([SMALL], float("inf")).missing == 0
    trained = [cell["trained"] for row in SMALL.rows for cell in later.cells.of_row(SMALL, row).values()]
    assert all(one["epochs"] == 4 and not one["stopped"] for one in trained)


def test_turns_are_counted_in_epochs_too_and_tables_that_share_a_training_tell_of_the_same_weights(tmp_path):
    one = replace(SMALL, rows=SMALL.rows[:1])
    other = replace(one, name="another")

    def queue(epochs):
        effort = replace(Effort.least(), epochs=4, epochs_for_now=epochs)
        return Queue(tmp_path / "runs", tmp_path / "results", effort, "cpu")

    def epochs(table):
        return {cell["trained"]["epochs"] for cell in queue(1).cells.of_row(table, table.rows[0]).values()}

    assert queue(2).fill([one, other], float("inf")).to_go_on == 4
    assert epochs(one) == epochs(other) == {2}
    lines = []
    queue(2).fill([one, other], float("inf"), lines.append)
    assert not lines, "they have had their turn"
    assert queue(3).fill([one], float("inf")).missing == 0
    assert epochs(one) == {3} and epochs(other) == {2}
    best = load(queue(1).folder_of(one.rows[0].training) / BEST)[0].epoch
    told = queue(1).cells.read(other, other.rows[0], "4-Corners")["trained"]["best_epoch"]
    assert best != told, "or this tests nothing"
    assert queue(2).standing([other]).missing == 2, "it tells of weights that are gone"
    queue(2).fill([other], float("inf"))
    assert epochs(other) == {3}


def test_seconds_of_a_cpu_are_not_enough_for_a_gpu(tmp_path, monkeypatch):
    queue = Queue(tmp_path / "runs", tmp_path / "results", replace(Effort(), for_now=75.0), "cpu")
    trained = {"device_seconds": 485.0, "epochs": 112, "best_epoch": 112, "device": {"cpu": "one", "gpu": None}}
    assert queue._is_enough_for_now(trained, None)
    monkeypatch.setattr(Queue, "device_name", "cuda")
    assert not queue._is_enough_for_now(trained, None)
    assert queue._is_enough_for_now(trained | {"device": {"cpu": "one", "gpu": "another"}}, None)


def test_what_ships_need_not_be_trained_again(tmp_path):
    columns = {"No-Corner": Family(corners=0)}
    row = next(row for row in TABLES["train_mixed"].rows if row.training.ships_as == "poisson-dirichlet")
    table = replace(TABLES["train_mixed"], columns=columns, rows=(row,))
    queue = Queue(tmp_path / "runs", tmp_path / "results", replace(Effort(), test_samples=2), "cpu")
    cell = Cells(Path(__file__).parents[2] / "results" / "tables").read(TABLES["train_mixed"], row, "4-Corners")
    trained = cell["trained"]
    assert trained["best_epoch"] == shipped.load("poisson-dirichlet").header.epoch
    assert queue._known_of_what_ships(row.training) is None, "nothing is known of its training"
    mixed = TABLES["train_mixed"]
    facts = facts_of(row, queue.effort)
    queue.cells.write(mixed, row, "4-Corners", facts | {"trained": trained})
    lines = []
    assert queue.fill([table], float("inf"), lines.append).missing == 0
    cell = queue.cells.read(table, row, "No-Corner")
    assert cell["trained"] == trained and cell["figures"]["relative_l2"] < 0.01 and len(lines) == 1
    for change in ({"best_epoch": 1}, {"stopped": True}, {"epochs": 1001}):
        queue.cells.write(mixed, row, "4-Corners", facts | {"trained": trained | change})
        queue.cells.path(table, row, "No-Corner").unlink(missing_ok=True)
        assert queue._known_of_what_ships(row.training) is None, "those are other weights"
    assert queue_in(tmp_path / "smoke").operator_of(row.training) is None
    assert {training.ships_as for training in trainings()} >= set(shipped.names())


def test_a_process_beside_ends_with_the_one_that_started_it(tmp_path):
    words = [sys.executable, "-m", "beno", "reproduce", "train_mixed", "--smoke", "--epochs", str(10**6)]
    words += ["--side-by-side", "2", "--device", "cpu", "--only", "fno", "--only", "mp-pde"]
    parent = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        beside = the_process_beside(parent, tmp_path)
    finally:
        parent.kill()
        parent.communicate()
    wait_until(lambda: not is_running(beside))


def test_an_interruption_of_several_processes_says_so_in_one_line(tmp_path):
    words = [sys.executable, "-m", "beno", "reproduce", "train_mixed", "--smoke", "--epochs", str(10**6)]
    words += ["--side-by-side", "2", "--device", "cpu", "--only", "fno", "--only", "mp-pde"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    parent = subprocess.Popen(words, cwd=tmp_path, text=True, process_group=0, **pipes)
    try:
        beside = the_process_beside(parent, tmp_path)
        for _ in range(3):  # as a terminal does it, to all of them
            os.killpg(parent.pid, signal.SIGINT)
        _, said = parent.communicate(timeout=60)
    finally:
        parent.kill()
    assert (parent.returncode, said) == (130, "stopped; what is finished is kept\n")
    wait_until(lambda: not is_running(beside))
    assert not list(tmp_path.rglob("*.unfinished"))


def the_process_beside(parent, folder):
    """When both are at work."""
    at_work = folder / "runs" / "smoke" / "at_work" / "cpu"
    wait_until(lambda: at_work.exists() and len(list(at_work.iterdir())) == 2)
    (beside,) = {int(path.name) for path in at_work.iterdir()} - {parent.pid}
    return beside


def wait_until(holds):
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_row_that_another_process_is_at_is_left_to_it(tmp_path):
    queue = queue_in(tmp_path)
    name = queue.folder_of(SMALL.rows[0].training).name
    (tmp_path / "runs").mkdir()
    with open(tmp_path / "runs" / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        standing = queue.fill([SMALL], float("inf"))
    assert standing.held == 1 and standing.missing == 2
    assert queue.fill([SMALL], float("inf")).missing == 0


def test_pages(filled):
    written = write_pages(queue_in(filled).cells, [SMALL], filled / "pages")
    assert [path.suffix for path in written] == [".md", ".tex"]
    page, latex = (path.read_text() for path in written)
    theirs = paper.tables()["darcy_train_4_corners"]["BENO"]["4-Corners"]["rel_l2"]
    assert f"{100 * theirs:.2f}" in page and "**harmonic**" in page and "difference" in page
    assert latex.count(r" \\") == 1 + 2 * (1 + 3 + 2 + 2) and f"{100 * theirs:.2f}" in latex and "difference" in latex
    assert (
        "with --smoke" in page and latex.startswith("% Made with --smoke") and "booktabs" in latex and r"$\pm$" in latex
    )
    empty = {row: {} for row in SMALL.rows}
    assert "Not trained yet: MP-PDE; BENO; harmonic." in as_markdown(SMALL, empty) and "--" in as_latex(SMALL, empty)
    assert write_pages(queue_in(filled).cells, [TABLES["train_mixed"]], filled / "pages") == []


class TestBadInput:
    def test_an_unknown_table(self, tmp_path):
        refused(beno("reproduce", "table_2", cwd=tmp_path), "no table 'table_2'", "train_4_corners")
        assert not list(tmp_path.iterdir())

    def test_more_epochs_than_the_tables_terms(self, tmp_path):
        refused(beno("reproduce", "squares", "--epochs", 1001, cwd=tmp_path), "--epochs 1001", "1000 at most")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("option", ["--time-limit", "--for-now"])
    def test_what_is_no_duration(self, tmp_path, option):
        for text in ("0s", "soon", ""):
            refused(beno("reproduce", "squares", "--smoke", option, text, cwd=tmp_path), f"{option} '{text}' is not a")
        assert not list(tmp_path.iterdir())

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
            {"tested_on": whole["tested_on"] | {"seed": 0}},
            {"tested_on": whole["tested_on"] | {"corners": 0}},
            {"predicted": "0.1 0.2"},
            {"predicted": [0.1, 0.2]},
        ):
            path.write_text(json.dumps(whole | damage))
            with pytest.raises(BenoError, match="is damaged"):
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
            (("zero_boundary", "MP-PDE", "4-Corners"), ("resolution_64", "MP-PDE", "4-Corners"), "resolution 32"),
            (("train_4_corners", "FNO", "4-Corners"), ("train_4_corners", "GKN", "4-Corners"), "model fno"),
            (("ablation", "BENO", "4-Corners"), ("ablation", "BENO w. M", "4-Corners"), "boundary_in_nodes"),
            (
                ("train_4_corners", "BENO", "No-Corner"),
                ("train_4_corners", "BENO, mean over symmetries", "No-Corner"),
                "averaged False",
            ),
            (
                ("train_4_corners", "harmonic, seed 0", "4-Corners"),
                ("train_4_corners", "harmonic, seed 1", "4-Corners"),
                "seed 0",
            ),
            (
                ("published_fault", "FNO, right walls", "4-Corners"),
                ("published_fault", "FNO, wrong walls", "4-Corners"),
                "spoilt False",
            ),
            (
                ("published_fault", "FNO, right walls", "4-Corners"),
                ("published_fault", "FNO, right walls", "4-Corners, wrong walls"),
                "spoilt False",
            ),
            (
                ("published_fault", "FNO, right walls", "4-Corners"),
                ("train_4_corners", "FNO", "4-Corners"),
                "symmetries False",
            ),
            (
                ("published_fault", "BENO, going on, right walls", "4-Corners"),
                ("published_source", "BENO, going on, right walls", "4-Corners"),
                "source_amplitude 20.0",
            ),
        ],
    )
    def test_a_cell_of_another_row(self, tmp_path, place, other, message):
        cells = Cells(tmp_path)

        def found(place):
            table = TABLES[place[0]]
            return table, next(row for row in table.rows if row.label == place[1]), place[2]

        table, row, column = found(place)
        cells.write(table, row, column, facts_of(row, cells.effort))
        cell = json.loads(cells.path(table, row, column).read_text())
        cells.write(found(other)[0], found(other)[1], other[2], facts_of(found(other)[1], cells.effort))
        cells.path(*found(other)).write_text(
            json.dumps(cell | dict(zip(("table", "row", "column"), other, strict=True)))
        )
        with pytest.raises(BenoError, match=f"of another row: .*{message}"):
            cells.read(*found(other))

    def test_a_cell_of_other_size(self, tmp_path):
        row, small = SMALL.rows[0], Cells(tmp_path, Effort.least())
        with pytest.raises(BenoError, match="samples 100, where 2 is asked for"):
            small.write(SMALL, row, "4-Corners", facts_of(row, replace(small.effort, test_samples=100)))
        small.write(SMALL, row, "4-Corners", facts_of(row, small.effort))
        path = small.path(SMALL, row, "4-Corners")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"smoke": False}))
        with pytest.raises(BenoError, match=r"of another row: .*samples 2, where 100 is asked for"):
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

    @pytest.mark.parametrize("values", ["a", "nan", "0.1"])
    def test_predictions_that_are_none(self, tmp_path, values):
        """They are asked for as a figure is drawn."""
        table, queue = TABLES["train_4_corners"], queue_in(tmp_path)
        for label in ("GKN", "BENO", "harmonic, seed 0"):
            row = next(row for row in table.rows if row.label == label)
            facts = facts_of(row, queue.effort) | {"predicted": [values] * 2}
            queue.cells.write(table, row, "4-Corners", facts)
        with pytest.raises(BenoError, match="is damaged: predicted" if values != "0.1" else "of other samples"):
            list(figures(queue))

    def test_data_that_do_not_fit(self, filled, tmp_path):
        queue = queue_in(tmp_path)
        folder = tmp_path / "runs" / "data"
        folder.mkdir(parents=True)
        source = filled / "runs" / "data" / "darcy-dirichlet-0-8-100.h5"
        (folder / "darcy-dirichlet-4-8-0.h5").write_bytes(source.read_bytes())
        assert all("use another folder" in reason for reason in queue.fill([SMALL], float("inf")).failed)

    def test_places_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        for option in ("--pages", "--figures", "--folder", "--results"):
            refused(beno("reproduce", "squares", "--smoke", option, "file", cwd=tmp_path), "cannot write", "file")


def test_the_command_does_all_of_it_in_two_processes(tmp_path):
    result = beno(
        "reproduce", "all", "--smoke", "--side-by-side", 2, "--device", "cpu",
        "--pages", "pages", "--figures", "figures", cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    cells = sum(len(table.rows) * len(table.columns) for table in TABLES.values())
    assert cells == 357 and f"{cells} of {cells} cells are filled" in result.stdout
    assert len(list((tmp_path / "pages").glob("*.md"))) == len(TABLES)
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {f"{name}{suffix}" for name in FIGURE_NAMES for suffix in (".svg", ".png")}
    assert "train_mixed" in beno("reproduce", "list").stdout


def test_one_model_of_several_tables(tmp_path):
    words = ("reproduce", "darcy_train_mixed", "kinds_train_mixed", "--only", "harmonic", "--epochs", 2, "--smoke")
    result = beno(*words, "--device", "cpu", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "10 of 10 cells are filled" in result.stdout
    cells = [json.loads(path.read_text()) for path in (tmp_path / "runs" / "smoke" / "tables").rglob("*--*.json")]
    assert not (tmp_path / "results").exists(), "smoke stays away from real results"
    assert {cell["trained"]["epochs"] for cell in cells} == {2}
    refused(beno(*words, "--only", "beno2", cwd=tmp_path), "no model 'beno2'")
    refused(beno("reproduce", "sensitivity", "--only", "fno", cwd=tmp_path), "sensitivity has no row of fno")


def test_spoilt_data_are_the_right_ones_with_wrong_walls(tmp_path):
    queue, family = queue_in(tmp_path), Family(resolution=8)
    with Dataset(queue._dataset(family, 0, 4)) as right, Dataset(queue._dataset(family, 0, 4, spoilt=True)) as spoilt:
        assert spoilt.metadata.origin == "spoilt"
        for one, other in ((right[i], spoilt[i]) for i in range(4)):
            np.testing.assert_array_equal(one.u, other.u)
            changed = one.g != other.g
            assert changed.any() and (one.normals[changed] == [-1, 0]).all()
    assert "-x" in examine([other]).wrong_walls


def test_a_training_beside_others_counts_its_share(tmp_path):
    path, at_work = tmp_path / "share.json", tmp_path / "at_work"
    share = Share(path, at_work, "cuda")
    with share.working(5.0):
        share.count_until(6.0)
        (at_work / "killed").touch()
        with open(at_work / "another", "w") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            share.count_until(10.0)
        share.count_until(13.0)
    assert share.seconds == 1.0 + 4.0 / 2 + 3.0 and not list(at_work.iterdir())
    assert Share(path, at_work, "cuda").seconds == share.seconds
    other = Share(path, at_work, "cpu")
    assert other.seconds == 0.0, "seconds of another device are others"
    with other.working(13.0):
        other.count_until(15.0)
    assert Share(path, at_work, "cpu").seconds == 2.0 and Share(path, at_work, "cuda").seconds == share.seconds
    for damage in ("[]", "{", '{"cuda": NaN}', '{"cuda": -1}', '{"cuda": "x"}'):
        path.write_text(damage)
        with pytest.raises(BenoError, match=r"cannot be read|is damaged"):
            Share(path, at_work, "cuda")


def test_a_training_ends_when_it_has_had_its_share(tmp_path):
    effort = replace(Effort.least(), epochs=10**6, seconds=2.0)  # more than an epoch takes, on a busy machine too
    table = replace(SMALL, rows=SMALL.rows[-1:])
    queue = Queue(tmp_path / "runs", tmp_path / "results", effort, "cpu")
    assert queue.fill([table], 0.1).missing == len(table.columns)  # too little time for it
    at_work = tmp_path / "runs" / "at_work" / "cpu"
    at_work.mkdir(parents=True, exist_ok=True)
    with open(at_work / "another", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert queue.fill([table], float("inf")).missing == 0
    for cell in queue.cells.of_row(table, table.rows[0]).values():
        trained = cell["trained"]
        assert 2.0 <= trained["device_seconds"] < 0.8 * trained["seconds"]


def test_fewer_epochs_than_a_table_has_are_to_go_on(tmp_path):
    """--epochs 1 fills a cell for now; told of more, the training goes on to where an unbroken one ends."""
    table = replace(SMALL, rows=tuple(row for row in SMALL.rows if row.training.model == "mp-pde"))
    row, tiny = table.rows[0], replace(Effort(), samples=12, test_samples=2)

    def fill(folder, epochs):
        queue = Queue(tmp_path / folder, tmp_path / folder / "results", replace(tiny, epochs=epochs), "cpu")
        standing = queue.fill([table], float("inf"))
        return standing, {column: cell["trained"] for column, cell in queue.cells.of_row(table, row).items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Effort, "settings", lambda effort, training: MINIATURE[training.model])
        standing, once = fill("runs", 1)
        assert standing.missing == 0 and standing.to_go_on == 2
        assert {trained["stopped"] for trained in once.values()} == {True}
        again, the_same = fill("runs", 1)
        assert again == standing and the_same == once
        _, longer = fill("runs", 2)
        _, unbroken = fill("other", 2)
    for column, trained in longer.items():
        assert trained["epochs"] == 2 and trained["best_epoch"] == unbroken[column]["best_epoch"]


@pytest.mark.parametrize("file", [STATE, "tensorboard"])
def test_a_row_that_fails_does_not_keep_the_others(tmp_path, file):
    queue = queue_in(tmp_path)
    broken = queue.folder_of(SMALL.rows[0].training)
    broken.mkdir(parents=True)
    (broken / file).write_text("no state, nor a folder")
    standing = queue.fill([SMALL], float("inf"))
    assert standing.missing == 2 and len(standing.failed) == 1 and SMALL.rows[0].label in standing.failed[0]


def test_a_row_that_has_no_room_does_not_keep_the_others(tmp_path, monkeypatch):
    train = Queue._train

    def no_room_for_beno(queue, training, *rest):
        if training.model == "beno":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore of it")
        return train(queue, training, *rest)

    monkeypatch.setattr(Queue, "_train", no_room_for_beno)
    standing = queue_in(tmp_path).fill([SMALL], float("inf"))
    assert standing.missing == 2
    assert [line.split(": ", 1)[1] for line in standing.failed] == ["CUDA out of memory. Tried to allocate 2 GiB"]


def test_weights_that_are_gone_are_told(filled, tmp_path):
    shutil.copytree(filled / "runs", tmp_path / "runs")
    queue = Queue(tmp_path / "runs", tmp_path / "results", Effort.least(), "cpu")
    (queue.folder_of(SMALL.rows[0].training) / BEST).unlink()
    standing = queue.fill([SMALL], float("inf"))
    assert standing.missing == 2 and "is done, but has no best.safetensors" in standing.failed[0]


@pytest.mark.parametrize("name", [BEST, STATE])
def test_weights_of_another_training_are_not_taken(filled, tmp_path, name):
    """They would be tested under the row's name."""
    shutil.copytree(filled / "runs", tmp_path / "runs")
    queue, (one, other) = queue_in(tmp_path), (queue_in(tmp_path).folder_of(row.training) for row in SMALL.rows[:2])
    shutil.copy(other / name, one / name)
    if name == STATE:
        (one / "done.json").unlink()
    standing = queue.fill([SMALL], float("inf"))
    assert len(standing.failed) == 1 and "is of another training: model beno" in standing.failed[0]
    assert not queue.cells.of_row(SMALL, SMALL.rows[0])


def test_a_log_that_is_damaged_keeps_no_other_row_from_being_filled(filled, tmp_path):
    for damage in (b'{"train_loss": 1.0}\n', b"\xff}\n", b"[1}\n"):
        shutil.copytree(filled / "runs", tmp_path / "runs")
        queue = queue_in(tmp_path)
        (queue.folder_of(SMALL.rows[0].training) / LOG).write_bytes(damage)
        standing = queue.fill([SMALL], float("inf"))
        assert len(standing.failed) == 1 and f"{LOG} is damaged" in standing.failed[0] and standing.missing == 2
        shutil.rmtree(tmp_path)


def test_a_younger_training_in_another_folder_does_not_take_the_place_of_an_older(tmp_path):
    """What a GPU has done, a CPU that begins anew would spoil."""
    table = replace(SMALL, rows=SMALL.rows[:1])
    row = table.rows[0]

    def fill(folder, epochs, say=lambda line: None):
        effort = replace(Effort.least(), epochs=10, epochs_for_now=epochs)
        queue = Queue(tmp_path / folder, tmp_path / "results", effort, "cpu")
        return queue, queue.fill([table], float("inf"), say)

    queue, _ = fill("first", 3)
    before, curve = queue.cells.of_row(table, row), queue.cells.curve(row.training)
    assert {cell["trained"]["epochs"] for cell in before.values()} == {3} and curve["epoch"] == [1, 2, 3]
    lines = []
    fill("second", 2, lines.append)
    assert not lines, "it has had its turn"
    with pytest.MonkeyPatch.context() as patch:  # as if the first had been on a GPU, whose seconds are others
        patch.setattr(Queue, "_is_enough_for_now", lambda *_: False)
        _, standing = fill("second", 2, lines.append)
    assert (standing.missing, standing.young) == (
        2,
        2,
    ) and "2 epochs so far; 2 cells are of another run, with 3, and stay" in lines[-1]
    assert queue.cells.of_row(table, row) == before and queue.cells.curve(row.training) == curve
    fill("second", 4)
    assert {cell["trained"]["epochs"] for cell in queue.cells.of_row(table, row).values()} == {4}
    assert queue.cells.curve(row.training)["epoch"] == [1, 2, 3, 4]


def test_a_device_that_is_not_there_is_refused_at_once(tmp_path):
    refused(beno("reproduce", "all", "--smoke", "--device", "tpu", cwd=tmp_path), "there is no device 'tpu'")
    assert not list(tmp_path.iterdir())


def test_what_was_trained_otherwise_is_not_taken(filled, tmp_path):
    shutil.copytree(filled / "runs", tmp_path / "runs")
    queue = Queue(tmp_path / "runs", tmp_path / "results", replace(Effort.least(), epochs=3), "cpu")
    (*_, reason) = queue.fill([SMALL], float("inf")).failed
    assert "epochs 1, not 3" in reason
    done = queue.folder_of(SMALL.rows[0].training) / "done.json"
    whole = json.loads(done.read_text())
    for text in ("{", "{}", json.dumps(whole | {"epochs": "x"})):
        done.write_text(text)
        assert "cannot be read" in queue.fill([SMALL], float("inf")).failed[0]
    done.write_text(json.dumps(whole | {"model": "fno"}))
    assert "was trained with model fno" in queue.fill([SMALL], float("inf")).failed[0]
    assert not list((tmp_path / "results").rglob("*--*.json"))
    assert "smoke" in done.parent.name, "a smoke test's weights are never taken for others"


def test_pages_have_all_rows_whatever_was_trained(filled):
    words = ("reproduce", SMALL.name, "--smoke", "--only", "harmonic", "--no-train")
    result = beno(*words, "--folder", "runs", "--results", "results", "--pages", "whole", cwd=filled)
    assert result.returncode == 0, result.stderr
    assert "**BENO**" in (filled / "whole" / f"{SMALL.name}.md").read_text()


def test_the_spread_of_seeds_stands_in_the_page_for_every_row_that_has_several(filled):
    known = {}
    for row in SMALL.rows[-2:]:
        cell = queue_in(filled).cells.of_row(SMALL, row)["4-Corners"]
        for seed, error in enumerate((0.1, 0.2, 0.3)):
            twin = replace(row, label=f"{row.label}, seed {seed}", training=replace(row.training, seed=seed))
            known[twin] = {"4-Corners": cell | {"figures": cell["figures"] | {"relative_l2": error}}}
    for label in ("BENO", "harmonic"):
        assert f"| **{label}, 3 seeds**: mean ± deviation of their means | 20.00 ± 10.00 |" in as_markdown(SMALL, known)
        assert f"{label}, 3 seeds, deviation of their means &  & 20.00 $\\pm$ 10.00 &" in as_latex(SMALL, known)


def test_a_row_of_several_stages_says_so(filled):
    row = SMALL.rows[0]
    cells = queue_in(filled).cells.of_row(SMALL, row)
    cells["4-Corners"] |= {"trained": cells["4-Corners"]["trained"] | {"epochs": 48, "best_epoch": 47, "stopped": True}}
    page, latex = as_markdown(SMALL, {row: cells}), as_latex(SMALL, {row: cells})
    assert f"| {row.label} | 48, to go on / 1 | 47 / 1 |" in page
    assert rf"{row.label} & 48$^\dagger$ / 1 &" in latex and "to go on" in latex


def test_the_difference_has_its_sign(filled):
    row = next(row for row in SMALL.rows if row.label == "BENO")
    theirs = 100 * paper.tables()["darcy_train_4_corners"]["BENO"]["4-Corners"]["rel_l2"]
    cell = queue_in(filled).cells.of_row(SMALL, row)["4-Corners"]
    better = {row: {"4-Corners": cell | {"figures": cell["figures"] | {"relative_l2": 0.01}}}}
    assert f"| *difference* | -{theirs - 1:.2f} |" in as_markdown(SMALL, better)
    assert rf"\quad difference &  & $-${theirs - 1:.2f} &" in as_latex(SMALL, better)
