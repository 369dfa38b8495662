"""Tables filled by a queue that stops and goes on, alone or with others."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from beno.datasets.dataset import Dataset
from beno.datasets.doctor import examine
from beno.evaluation.metrics import METRICS, Metric
from beno.learned import shipped
from beno.learned.checkpoints import load
from beno.learned.operator import BEST
from beno.models.registry import model_class
from beno.paper.budget import Budget
from beno.paper.cells import Cells
from beno.paper.pages import as_markdown
from beno.paper.queue import Queue
from beno.paper.tables import TABLES
from beno.paper.trained import Machine
from beno.paper.trainings import Trainings
from beno.problems.families import Family
from beno.support.locks import Lock
from beno.training.run_folder import LOG, STATE
from tests.paper.small import ONE_ROW, SMALL, cell_of, queue_in, trainings
from tests.places import TABLES_FOLDER


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


def test_a_new_metric_is_measured_where_the_weights_are_at_hand(filled, tmp_path, monkeypatch):
    shutil.copytree(filled, tmp_path / "copy")
    queue = queue_in(tmp_path / "copy")
    monkeypatch.setitem(METRICS, "largest", Metric(lambda one, other: float(abs(one - other).max()), "Max", "", 1.0, 2))
    (queue.trainings.folder_of(SMALL.rows[0].training) / BEST).unlink()
    assert queue.standing([SMALL]).missing == 4, "the row whose weights are gone stays as it is"
    before = queue.cells.of_row(SMALL, SMALL.rows[1])
    assert queue.fill([SMALL], float("inf")).missing == 0
    for column, cell in queue.cells.of_row(SMALL, SMALL.rows[1]).items():
        assert cell.figures["largest"].mean > cell.figures["mae"].mean
        assert cell.trained == before[column].trained and cell.figures["mae"] == before[column].figures["mae"]


def test_stopped_at_its_time_limit_it_goes_on(tmp_path):
    queue = queue_in(tmp_path)
    assert queue.fill([SMALL], 0.0).missing == 6
    rounds = 0
    while queue.fill([SMALL], 0.01).missing:  # on a busy machine over before a row is taken
        rounds += 1
        assert rounds < 1000
    assert rounds >= 2, "each time a little was done"


def test_a_long_training_tells_how_it_goes(tmp_path, monkeypatch):
    lines = []
    queue_in(tmp_path / "short").fill([ONE_ROW], float("inf"), lines.append)
    assert not any("epoch 1 of 1" in line for line in lines), "a short one has nothing to tell before its end"
    monkeypatch.setattr("beno.paper.trainings.SECONDS_BETWEEN_LINES", 0.0)
    queue_in(tmp_path / "long").fill([ONE_ROW], float("inf"), lines.append)
    assert any("epoch 1 of 1, train" in line and "validation" in line for line in lines)


def test_an_unfinished_training_can_be_tested_and_goes_on(tmp_path):
    table, row = ONE_ROW, ONE_ROW.rows[0]
    queue = queue_in(tmp_path, epochs=3, test_unfinished=True)
    early = []
    while queue.fill([table], 0.01).missing:
        early += queue.cells.of_row(table, row).values()
    assert early and all(cell.trained.unfinished and cell.trained.epochs < 3 for cell in early)
    assert f"{early[0].trained.epochs}, to go on" in as_markdown(table, {row: {"4-Corners": early[0]}})
    for cell in queue.cells.of_row(table, row).values():
        assert cell.trained.epochs == 3 and not cell.trained.unfinished


def test_each_training_pauses_after_its_seconds_and_goes_on_another_time(tmp_path):
    first = queue_in(tmp_path, epochs=4, pause_after_seconds=1e-6)  # noticed an epoch after
    assert first.fill([SMALL], float("inf")).missing == 0
    trained = [cell.trained for row in SMALL.rows for cell in first.cells.of_row(SMALL, row).values()]
    assert all(one.epochs == 2 and one.unfinished for one in trained)
    lines = []
    assert first.fill([SMALL], float("inf"), lines.append).missing == 0 and not lines, "all have paused"
    first.cells.path(SMALL, SMALL.rows[0], "4-Corners").unlink()
    first.fill([SMALL], float("inf"))
    assert first.cells.read(SMALL, SMALL.rows[0], "4-Corners").trained.epochs == 2, "tested as it stands"

    assert first.standing([SMALL]).to_go_on == 6
    longer = queue_in(tmp_path, epochs=4, pause_after_seconds=1e6)
    assert (longer.standing([SMALL]).missing, longer.standing([SMALL]).to_go_on) == (6, 0)

    # A training that was killed before it saved its state begins anew.
    (first.trainings.folder_of(SMALL.rows[1].training) / STATE).unlink()
    for column in SMALL.columns:
        first.cells.path(SMALL, SMALL.rows[1], column).unlink()
    assert first.fill([SMALL], float("inf")).missing == 0
    assert first.cells.read(SMALL, SMALL.rows[1], "4-Corners").trained.epochs == 1

    later = queue_in(tmp_path, epochs=4)
    assert later.fill([SMALL], float("inf")).missing == 0
    trained = [cell.trained for row in SMALL.rows for cell in later.cells.of_row(SMALL, row).values()]
    assert all(one.epochs == 4 and not one.unfinished for one in trained)


def test_trainings_pause_after_epochs_too_and_tables_that_share_one_tell_of_the_same_weights(tmp_path):
    one = ONE_ROW
    other = replace(one, name="another")

    def queue(epochs):
        return queue_in(tmp_path, epochs=4, pause_after_epochs=epochs)

    def epochs(table):
        return {cell.trained.epochs for cell in queue(1).cells.of_row(table, table.rows[0]).values()}

    assert queue(2).fill([one, other], float("inf")).to_go_on == 4
    assert epochs(one) == epochs(other) == {2}
    lines = []
    queue(2).fill([one, other], float("inf"), lines.append)
    assert not lines, "they have paused"
    assert queue(3).fill([one], float("inf")).missing == 0
    assert epochs(one) == {3} and epochs(other) == {2}
    best = load(queue(1).trainings.folder_of(one.rows[0].training) / BEST)[0].epoch
    told = queue(1).cells.read(other, other.rows[0], "4-Corners").trained.best_epoch
    assert best != told, "or this tests nothing"
    assert queue(2).standing([other]).missing == 2, "it tells of weights that are gone"
    queue(2).fill([other], float("inf"))
    assert epochs(other) == {3}


def test_seconds_of_a_cpu_are_not_enough_for_a_gpu(tmp_path, monkeypatch):
    queue = Queue(tmp_path / "runs", tmp_path / "results", Budget(pause_after_seconds=75.0), "cpu")
    of_cpu = {"device_seconds": 485.0, "epochs": 112, "best_epoch": 112, "device": Machine("one")}
    trained = cell_of(SMALL.rows[0], queue.budget, **of_cpu).trained
    assert queue._had_paused(trained, None)
    monkeypatch.setattr(Trainings, "device_name", "cuda")
    assert not queue._had_paused(trained, None)
    assert queue._had_paused(replace(trained, device=Machine("one", "another")), None)


def test_what_ships_need_not_be_trained_again(tmp_path):
    columns = {"No-Corner": Family(corners=0)}
    row = next(row for row in TABLES["train_mixed"].rows if row.training.ships_as == "poisson-dirichlet")
    table = replace(TABLES["train_mixed"], columns=columns, rows=(row,))
    queue = Queue(tmp_path / "runs", tmp_path / "results", Budget(test_samples=2), "cpu")
    mixed = TABLES["train_mixed"]
    trained = Cells(TABLES_FOLDER).read(mixed, row, "4-Corners").trained
    assert trained.best_epoch == shipped.load("poisson-dirichlet").header.epoch
    assert queue.trainings.known_of_what_ships(row.training) is None, "nothing is known of its training"
    known = replace(cell_of(row, queue.budget), trained=trained)
    queue.cells.write(mixed, row, "4-Corners", known)
    lines = []
    assert queue.fill([table], float("inf"), lines.append).missing == 0
    cell = queue.cells.read(table, row, "No-Corner")
    assert cell.trained == trained and cell.figures["relative_l2"].mean < 0.01 and len(lines) == 1
    for change in ({"best_epoch": 1}, {"unfinished": True}, {"epochs": 1001}):
        queue.cells.write(mixed, row, "4-Corners", replace(known, trained=replace(trained, **change)))
        queue.cells.path(table, row, "No-Corner").unlink(missing_ok=True)
        assert queue.trainings.known_of_what_ships(row.training) is None, "those are other weights"
    assert queue_in(tmp_path / "smoke").trainings.operator_of(row.training) is None
    assert {training.ships_as for training in trainings()} >= set(shipped.names())


def test_a_row_that_another_process_is_at_is_left_to_it(tmp_path):
    queue = queue_in(tmp_path)
    name = queue.trainings.name_of(SMALL.rows[0].training)
    (tmp_path / "runs").mkdir()
    with Lock(tmp_path / "runs" / f"{name}.lock") as lock:
        lock.take()
        standing = queue.fill([SMALL], float("inf"))
    assert standing.held == 1 and standing.missing == 2
    assert queue.fill([SMALL], float("inf")).missing == 0


def test_data_with_the_published_fault_are_the_right_ones_with_wrong_values_where_walls_face_left(tmp_path):
    data, family = queue_in(tmp_path).trainings.data, Family(resolution=8)
    right_path, wrong_path = data.path(family, 0, 4), data.path(family, 0, 4, with_fault=True)
    with Dataset(right_path) as right, Dataset(wrong_path) as wrong:
        assert wrong.metadata.origin == "spoilt", "as older files have it"
        for one, other in ((right[i], wrong[i]) for i in range(4)):
            np.testing.assert_array_equal(one.u, other.u)
            changed = one.problem.g != other.problem.g
            assert changed.any() and (one.problem.domain.panels.normals[changed] == [-1, 0]).all()
        assert "-x" in examine([wrong.record(3)]).wrong_walls


def test_fewer_epochs_than_a_table_has_are_to_go_on(tmp_path):
    """--epochs 1 fills a cell for now; told of more, the training goes on to where an unbroken one ends."""
    table = replace(SMALL, rows=tuple(row for row in SMALL.rows if row.training.model == "mp-pde"))
    row, tiny = table.rows[0], Budget(samples=12, test_samples=2)

    def fill(folder, epochs):
        queue = Queue(tmp_path / folder, tmp_path / folder / "results", replace(tiny, epochs=epochs), "cpu")
        standing = queue.fill([table], float("inf"))
        return standing, {column: cell.trained for column, cell in queue.cells.of_row(table, row).items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "settings", lambda budget, training: dict(model_class(training.model).small))
        standing, once = fill("runs", 1)
        assert standing.missing == 0 and standing.to_go_on == 2
        assert {trained.unfinished for trained in once.values()} == {True}
        again, the_same = fill("runs", 1)
        assert again == standing and the_same == once
        _, longer = fill("runs", 2)
        _, unbroken = fill("other", 2)
    for column, trained in longer.items():
        assert trained.epochs == 2 and trained.best_epoch == unbroken[column].best_epoch


@pytest.mark.parametrize("file", [STATE, "tensorboard"])
def test_a_row_that_fails_does_not_keep_the_others(tmp_path, file):
    queue = queue_in(tmp_path)
    broken = queue.trainings.folder_of(SMALL.rows[0].training)
    broken.mkdir(parents=True)
    (broken / file).write_text("no state, nor a folder")
    standing = queue.fill([SMALL], float("inf"))
    assert standing.missing == 2 and len(standing.failed) == 1 and SMALL.rows[0].label in standing.failed[0]


def test_a_row_that_has_no_room_does_not_keep_the_others(tmp_path, monkeypatch):
    train = Trainings.train

    def no_room_for_beno(trainings, training, *rest):
        if training.model == "beno":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore of it")
        return train(trainings, training, *rest)

    monkeypatch.setattr(Trainings, "train", no_room_for_beno)
    standing = queue_in(tmp_path).fill([SMALL], float("inf"))
    assert standing.missing == 2
    assert [line.split(": ", 1)[1] for line in standing.failed] == ["CUDA out of memory. Tried to allocate 2 GiB"]


def test_a_row_whose_weights_are_gone_fails_and_says_so(filled, tmp_path):
    shutil.copytree(filled / "runs", tmp_path / "runs")
    queue = queue_in(tmp_path)
    (queue.trainings.folder_of(SMALL.rows[0].training) / BEST).unlink()
    standing = queue.fill([SMALL], float("inf"))
    assert standing.missing == 2 and "is done, but has no best.safetensors" in standing.failed[0]


@pytest.mark.parametrize("name", [BEST, STATE])
def test_weights_of_another_training_are_not_taken(filled, tmp_path, name):
    """They would be tested under the row's name."""
    shutil.copytree(filled / "runs", tmp_path / "runs")
    queue = queue_in(tmp_path)
    one, other = (queue.trainings.folder_of(row.training) for row in SMALL.rows[:2])
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
        (queue.trainings.folder_of(SMALL.rows[0].training) / LOG).write_bytes(damage)
        standing = queue.fill([SMALL], float("inf"))
        assert len(standing.failed) == 1 and f"{LOG} is damaged" in standing.failed[0] and standing.missing == 2
        shutil.rmtree(tmp_path)


def test_a_training_that_came_less_far_does_not_take_the_place_of_one_in_another_folder(tmp_path):
    """What a GPU has done, a CPU that begins anew would spoil."""
    table, row = ONE_ROW, ONE_ROW.rows[0]

    def fill(folder, epochs, say=lambda line: None):
        budget = replace(Budget.smallest(), epochs=10, pause_after_epochs=epochs)
        queue = Queue(tmp_path / folder, tmp_path / "results", budget, "cpu")
        return queue, queue.fill([table], float("inf"), say)

    queue, _ = fill("first", 3)
    before, curve = queue.cells.of_row(table, row), queue.cells.curves.read(row.training)
    assert {cell.trained.epochs for cell in before.values()} == {3} and curve.epoch == [1, 2, 3]
    lines = []
    fill("second", 2, lines.append)
    assert not lines, "it has paused"
    with pytest.MonkeyPatch.context() as patch:  # as if the first had been on a GPU, whose seconds are others
        patch.setattr(Queue, "_had_paused", lambda *_: False)
        _, standing = fill("second", 2, lines.append)
    assert (standing.missing, standing.early) == (2, 2)
    assert "2 epochs so far; 2 cells are of another run, with 3, and stay" in lines[-1]
    assert queue.cells.of_row(table, row) == before and queue.cells.curves.read(row.training) == curve
    fill("second", 4)
    assert {cell.trained.epochs for cell in queue.cells.of_row(table, row).values()} == {4}
    assert queue.cells.curves.read(row.training).epoch == [1, 2, 3, 4]


def test_what_was_trained_otherwise_is_not_taken(filled, tmp_path):
    shutil.copytree(filled / "runs", tmp_path / "runs")
    queue = queue_in(tmp_path, epochs=3)
    (*_, reason) = queue.fill([SMALL], float("inf")).failed
    assert "trained with epochs 1, where 3 is asked for" in reason
    done = queue.trainings.folder_of(SMALL.rows[0].training) / "done.json"
    whole = json.loads(done.read_text())
    older = {"stopped" if name == "unfinished" else name: value for name, value in whole.items()}
    done.write_text(json.dumps(older))
    assert "trained with epochs 1" in queue.fill([SMALL], float("inf")).failed[0], "as earlier versions wrote it"
    for text in ("{", "{}", json.dumps(whole | {"epochs": "x"})):
        done.write_text(text)
        assert "done.json" in queue.fill([SMALL], float("inf")).failed[0]
    done.write_text(json.dumps(whole | {"model": "fno"}))
    assert "was trained with model fno" in queue.fill([SMALL], float("inf")).failed[0]
    assert not list((tmp_path / "results").rglob("*--*.json"))
    assert "smoke" in done.parent.name, "a smoke test's weights are never taken for others"


class TestBadInput:
    def test_data_that_are_not_those_of_the_table_are_refused(self, filled, tmp_path):
        queue = queue_in(tmp_path)
        folder = tmp_path / "runs" / "data"
        folder.mkdir(parents=True)
        source = filled / "runs" / "data" / "darcy-dirichlet-0-8-100.h5"
        (folder / "darcy-dirichlet-4-8-0.h5").write_bytes(source.read_bytes())
        assert all("use another folder" in reason for reason in queue.fill([SMALL], float("inf")).failed)
