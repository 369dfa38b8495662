"""Tables filled by a queue that stops and goes on, alone or with others."""

import fcntl
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from beno.datasets.dataset import Dataset
from beno.datasets.doctor import examine
from beno.learned import shipped
from beno.learned.checkpoints import load
from beno.learned.operator import BEST
from beno.paper.budget import SMALL as MINIATURE
from beno.paper.budget import Effort
from beno.paper.cells import Cells
from beno.paper.pages import as_markdown
from beno.paper.queue import Queue
from beno.paper.tables import TABLES
from beno.problems.families import Family
from beno.training.loop import LOG, STATE
from tests.paper.small import FIGURES, SMALL, facts_of, queue_in, trainings
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
    monkeypatch.setattr("beno.paper.queue.SECONDS_BETWEEN_LINES", 0.0)
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
    cell = Cells(TABLES_FOLDER).read(TABLES["train_mixed"], row, "4-Corners")
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


def test_a_row_that_another_process_is_at_is_left_to_it(tmp_path):
    queue = queue_in(tmp_path)
    name = queue.folder_of(SMALL.rows[0].training).name
    (tmp_path / "runs").mkdir()
    with open(tmp_path / "runs" / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        standing = queue.fill([SMALL], float("inf"))
    assert standing.held == 1 and standing.missing == 2
    assert queue.fill([SMALL], float("inf")).missing == 0


def test_spoilt_data_are_the_right_ones_with_wrong_walls(tmp_path):
    queue, family = queue_in(tmp_path), Family(resolution=8)
    with Dataset(queue._dataset(family, 0, 4)) as right, Dataset(queue._dataset(family, 0, 4, spoilt=True)) as spoilt:
        assert spoilt.metadata.origin == "spoilt"
        for one, other in ((right[i], spoilt[i]) for i in range(4)):
            np.testing.assert_array_equal(one.u, other.u)
            changed = one.g != other.g
            assert changed.any() and (one.normals[changed] == [-1, 0]).all()
    assert "-x" in examine([other]).wrong_walls


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


def test_what_was_trained_otherwise_is_not_taken(filled, tmp_path):
    shutil.copytree(filled / "runs", tmp_path / "runs")
    queue = Queue(tmp_path / "runs", tmp_path / "results", replace(Effort.least(), epochs=3), "cpu")
    (*_, reason) = queue.fill([SMALL], float("inf")).failed
    assert "trained with epochs 1, where 3 is asked for" in reason
    done = queue.folder_of(SMALL.rows[0].training) / "done.json"
    whole = json.loads(done.read_text())
    for text in ("{", "{}", json.dumps(whole | {"epochs": "x"})):
        done.write_text(text)
        assert "done.json" in queue.fill([SMALL], float("inf")).failed[0]
    done.write_text(json.dumps(whole | {"model": "fno"}))
    assert "was trained with model fno" in queue.fill([SMALL], float("inf")).failed[0]
    assert not list((tmp_path / "results").rglob("*--*.json"))
    assert "smoke" in done.parent.name, "a smoke test's weights are never taken for others"


class TestBadInput:
    def test_data_that_do_not_fit(self, filled, tmp_path):
        queue = queue_in(tmp_path)
        folder = tmp_path / "runs" / "data"
        folder.mkdir(parents=True)
        source = filled / "runs" / "data" / "darcy-dirichlet-0-8-100.h5"
        (folder / "darcy-dirichlet-4-8-0.h5").write_bytes(source.read_bytes())
        assert all("use another folder" in reason for reason in queue.fill([SMALL], float("inf")).failed)
