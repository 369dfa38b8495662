"""Training: it learns, it stops and goes on as if it had not, and two processes do what one does."""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from beno.datasets.dataset import Block, Dataset, write
from beno.datasets.making import make
from beno.datasets.scales import Scales
from beno.learned import checkpoints as checkpoint
from beno.learned.operator import LearnedOperator
from beno.models import make_config, make_model
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.training.config import PRESETS, TrainingConfig
from beno.training.loop import BEST, LOG, STATE, Run

SMALL = {"width": 16, "steps": 2}
CONFIG = TrainingConfig(epochs=6, batch_size=4, learning_rate=2e-3, clip=1.0, warm_up=3)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.h5"
    make(Family(corners="mixed", resolution=8), 0, 25, path)
    return path


def run_in(folder, data, config=CONFIG, **options):
    with Dataset(data) as dataset:
        return Run(folder, dataset, settings=SMALL, config=config, **options)


def weights(folder, name=STATE):
    return {key: tensor for key, tensor in checkpoint.load(folder / name)[1].items() if key != "seconds"}


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.fixture(scope="module")
def unbroken(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    run_in(folder, data).train()
    return folder


def test_it_learns_and_keeps_the_best_epoch(unbroken, data):
    records = [json.loads(line) for line in (unbroken / LOG).read_text().splitlines()]
    assert [record["epoch"] for record in records] == list(range(1, 7))
    assert records[-1]["train_loss"] < records[0]["train_loss"]
    best = min(records, key=lambda record: record["validation_loss"])
    header, _ = checkpoint.load(unbroken / BEST)
    assert header.epoch == best["epoch"] and header.validation_loss == best["validation_loss"]
    assert any((unbroken / "tensorboard").iterdir())


def test_scales_come_from_the_training_split_alone(unbroken, data):
    with Dataset(data) as dataset:
        expected = Scales.fit(dataset[int(index)] for index in dataset.indices("train"))
    assert checkpoint.load(unbroken / BEST)[0].scales == expected


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(unbroken, data, tmp_path):
    run_in(tmp_path / "again", data).train()
    assert_same(weights(tmp_path / "again"), weights(unbroken))
    run_in(tmp_path / "other", data, replace(CONFIG, seed=1, epochs=1)).train()
    assert not torch.equal(next(iter(weights(tmp_path / "other").values())), next(iter(weights(unbroken).values())))


def test_it_starts_from_trained_weights_and_their_scales(unbroken, data, tmp_path):
    with Dataset(data) as dataset:  # with other scales
        louder = [replace(dataset[i], u=3 * dataset[i].u) for i in range(len(dataset))]
        write(tmp_path / "louder.h5", dataset.metadata, [Block.pack([sample]) for sample in louder])
    config = replace(CONFIG, start=str(unbroken), epochs=1, learning_rate=1e-12)
    run_in(tmp_path / "on", tmp_path / "louder.h5", config).train()
    ours, theirs = weights(tmp_path / "on", BEST), weights(unbroken, BEST)
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-9) for name in theirs)
    assert checkpoint.load(tmp_path / "on" / BEST)[0].scales == checkpoint.load(unbroken / BEST)[0].scales
    shutil.copytree(unbroken, tmp_path / "start")
    further = replace(config, epochs=2, learning_rate=2e-3, start=str(tmp_path / "start"))
    run_in(tmp_path / "unbroken", tmp_path / "louder.h5", further).train()
    run_in(tmp_path / "resumed", tmp_path / "louder.h5", further).train(time_limit=1e-9)
    shutil.rmtree(tmp_path / "start")  # no longer needed
    run_in(tmp_path / "resumed", tmp_path / "louder.h5", replace(further, start=None), resume=True).train()
    assert_same(weights(tmp_path / "resumed"), weights(tmp_path / "unbroken"))
    headers = [checkpoint.load_header(tmp_path / name / STATE) for name in ("resumed", "unbroken")]
    assert headers[0] == headers[1] and headers[0].training["start"] == str(tmp_path / "start")
    with pytest.raises(BenoError, match="begun with random weights"):
        shutil.copytree(unbroken, tmp_path / "copy")
        run_in(tmp_path / "copy", data, replace(CONFIG, start="poisson-dirichlet"), resume=True)


@pytest.mark.parametrize("model", ["beno", "fno", "harmonic"])
def test_a_batch_in_pieces_moves_the_weights_as_the_whole_does(model, data, tmp_path):
    taken = []
    for points in (1, 10**9):
        with Dataset(data) as dataset:
            run = Run(tmp_path / str(points), dataset, model, {}, replace(CONFIG, clip=None))
        run.train_set.IN_CACHE = points
        run._step(run.train_set.plan(np.arange(4), np.random.default_rng(0)))
        taken.append({name: parameter.grad for name, parameter in run.network.named_parameters()})
    for name, whole in taken[1].items():
        assert torch.allclose(taken[0][name], whole, rtol=1e-4, atol=1e-6 * float(whole.abs().max() + 1)), name


def test_weights_to_start_from_must_fit(unbroken, data, tmp_path):
    with Dataset(data) as dataset:
        with pytest.raises(BenoError, match="have width 16, where 8 is needed"):
            Run(tmp_path / "a", dataset, "beno", {"width": 8}, replace(CONFIG, start=str(unbroken)))
        with pytest.raises(BenoError, match="have model beno, where fno is needed"):
            Run(tmp_path / "b", dataset, "fno", {}, replace(CONFIG, start=str(unbroken)))
        with pytest.raises(BenoError, match="no operator 'nowhere'"):
            Run(tmp_path / "c", dataset, "beno", {}, replace(CONFIG, start="nowhere"))
    make(Family(boundary="mixed", resolution=8), 0, 12, tmp_path / "mixed.h5")
    with Dataset(tmp_path / "mixed.h5") as dataset, pytest.raises(BenoError, match="kinds False, where True"):
        Run(tmp_path / "d", dataset, "beno", SMALL, replace(CONFIG, start=str(unbroken)))
    make(Family("darcy", resolution=8), 0, 12, tmp_path / "darcy.h5")
    with Dataset(tmp_path / "darcy.h5") as dataset, pytest.raises(BenoError, match="coefficient False, where True"):
        Run(tmp_path / "e", dataset, "harmonic", {}, replace(CONFIG, start="poisson-dirichlet"))
    assert {path.name for path in tmp_path.iterdir()} == {"darcy.h5", "mixed.h5"}, "a refusal leaves nothing behind"


def test_what_weights_to_start_from_do_not_know_counts_for_nothing_at_first(unbroken, tmp_path):
    make(Family("darcy", resolution=8), 0, 12, tmp_path / "darcy.h5")
    run = run_in(tmp_path / "run", tmp_path / "darcy.h5", replace(CONFIG, start=str(unbroken)))
    known = make_model("beno", make_config("beno", SMALL))
    known.load_state_dict(weights(unbroken, BEST))
    batch = run.validation_set.batch(range(len(run.validation_set)))
    assert batch.log_coefficient.abs().max() > 0.1
    torch.testing.assert_close(run.network(batch), known(batch))
    run.train()
    column = run.network.encode_nodes.first.weights[0][:, -1]
    assert column.abs().max() > 0, "it learns what a coefficient is"


def test_for_other_walls_trained_weights_are_a_start_with_scales_of_the_new_data(unbroken, tmp_path):
    path = tmp_path / "neumann.h5"
    make(Family(boundary="neumann", resolution=8), 0, 12, path)
    config = replace(CONFIG, start=str(unbroken), epochs=2)
    run_in(tmp_path / "unbroken", path, config).train()
    with Dataset(path) as dataset:
        run = Run(tmp_path / "run", dataset, "beno", SMALL, config)
        fitted = Scales.fit(dataset[int(index)] for index in dataset.indices("train"))
    theirs = weights(unbroken, BEST)
    assert all(torch.equal(value, theirs[name]) for name, value in run.network.state_dict().items())
    with run:
        run.train(time_limit=1e-9)
    run_in(tmp_path / "run", path, replace(config, start=None), resume=True).train()
    assert_same(weights(tmp_path / "run"), weights(tmp_path / "unbroken"))
    header = checkpoint.load_header(tmp_path / "run" / BEST)
    assert header.scales == fitted != checkpoint.load_header(unbroken / BEST).scales
    assert header.data.boundary == "neumann" and header.training["start"] == str(unbroken)


def test_stopped_at_its_time_limit_it_goes_on_to_the_same_end(unbroken, data, tmp_path):
    outcome = run_in(tmp_path / "run", data).train(time_limit=1e-9)
    assert outcome.epochs == 1 and not outcome.finished
    outcome = run_in(tmp_path / "run", data, resume=True).train()
    assert outcome.finished
    assert_same(weights(tmp_path / "run"), weights(unbroken))
    assert_same(weights(tmp_path / "run", BEST), weights(unbroken, BEST))
    epochs = [json.loads(line)["epoch"] for line in (tmp_path / "run" / LOG).read_text().splitlines()]
    assert epochs == list(range(1, 7))


@pytest.mark.parametrize(("lost_at_most", "saved"), [(0.0, [1, 2, 3, 4, 5, 6]), (3600.0, [4, 6])])
def test_where_epochs_are_long_each_is_saved(data, tmp_path, monkeypatch, lost_at_most, saved):
    monkeypatch.setattr("beno.training.loop.LOST_AT_MOST", lost_at_most)
    epochs = []
    monkeypatch.setattr(Run, "_save_state", lambda run: epochs.append(run.epoch))
    run_in(tmp_path / "run", data, replace(CONFIG, checkpoint_every=4)).train()
    assert epochs == saved


SCRIPT = """
import sys, torch
from pathlib import Path
from beno.datasets.dataset import Dataset
from beno.training.config import TrainingConfig
from beno.training.loop import Run, make_fabric
torch.set_num_threads(1)
folder, data, resume, batch_size = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "resume", int(sys.argv[4])
config = TrainingConfig(epochs=6, batch_size=batch_size, learning_rate=2e-3, clip=1.0, warm_up=3)
fabric = make_fabric("cpu")
with Dataset(data) as dataset:
    run = Run(folder, dataset, settings={"width": 16, "steps": 2}, config=config, fabric=fabric, resume=resume)
run.train()
run.close()
threads = {(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}
assert not any("gloo" in name for name in threads), "one of them may abort the end of the process"
"""


def start(*arguments, launcher=()):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    script = arguments[0].parent / "train_script.py"
    script.write_text(SCRIPT)
    return subprocess.Popen([sys.executable, *launcher, str(script), *map(str, arguments)], env=environment)


@pytest.mark.parametrize("after_epochs", [1, 3])
def test_killed_at_any_moment_it_goes_on_to_the_same_end(unbroken, data, tmp_path, after_epochs):
    folder = tmp_path / "run"
    process = start(folder, data, "anew", 4)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        log = folder / LOG
        if log.exists() and len(log.read_text().splitlines()) >= after_epochs and (folder / STATE).exists():
            break
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert start(folder, data, "resume", 4).wait(timeout=120) == 0
    assert_same(weights(folder), weights(unbroken))
    assert_same(weights(folder, BEST), weights(unbroken, BEST))


@pytest.mark.parametrize("batch_size", [4, 5])
def test_two_processes_do_what_one_does(data, tmp_path, batch_size):
    """A batch of five in two processes is three and two; the last batch of an epoch may leave one with none."""
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone")
    assert start(tmp_path / "two", data, "anew", batch_size, launcher=torchrun).wait(timeout=300) == 0
    run_in(tmp_path / "one", data, replace(CONFIG, batch_size=batch_size)).train()
    one, two = (
        [json.loads(line) for line in (tmp_path / name / LOG).read_text().splitlines()] for name in ("one", "two")
    )
    for ours, theirs in zip(two, one, strict=True):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=1e-4)
        assert ours["validation_loss"] == pytest.approx(theirs["validation_loss"], rel=1e-4)


def test_the_rate_follows_cosines_with_restarts():
    config = TrainingConfig(learning_rate=1.0)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=16, T_mult=2)
    for epoch in range(120):
        assert config.rate(epoch) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-9)
        optimizer.step()
        schedule.step()


def test_the_presets():
    paper = PRESETS["paper"]
    assert (paper.batch_size, paper.learning_rate, paper.weight_decay, paper.epochs) == (1, 5e-5, 5e-4, 1000)
    assert (paper.first_restart, paper.restart_factor) == (16, 2)
    assert PRESETS["fast"].batch_size > 1 and PRESETS["fast"].epochs == 1000


class TestOneFolder:
    """Of two that train in one folder, each would undo what the other one writes."""

    @pytest.mark.parametrize("resume", [False, True])
    def test_a_second_training_is_refused_and_touches_nothing(self, data, tmp_path, resume):
        folder = tmp_path / "run"
        with run_in(folder, data) as first:
            before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
            with pytest.raises(BenoError, match=f"another run is training in .*run: process {os.getpid()} on"):
                run_in(folder, data, resume=resume)
            assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
            first.train(time_limit=1e-9)
        assert run_in(folder, data, resume=True).epoch == 1

    def test_it_is_free_again_after_an_error(self, data, tmp_path):
        with pytest.raises(ZeroDivisionError), run_in(tmp_path / "run", data):
            raise ZeroDivisionError
        run_in(tmp_path / "run", data).close()

    def test_it_is_free_again_when_the_run_is_forgotten(self, data, tmp_path):
        run_in(tmp_path / "run", data)
        gc.collect()
        run_in(tmp_path / "run", data).close()

    def test_what_the_first_process_refuses_the_others_refuse_too(self, data, tmp_path, monkeypatch):
        monkeypatch.setattr(Fabric, "is_global_zero", False)
        monkeypatch.setattr(Fabric, "broadcast", lambda fabric, text: f"{text}another run is training there")
        with pytest.raises(BenoError, match=r"^another run is training there"):
            run_in(tmp_path / "run", data)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("name", [STATE, BEST, LOG, "tensorboard", "lock"])
    def test_a_link_in_the_place_of_what_is_ours_is_refused(self, data, tmp_path, name):
        (tmp_path / "precious").mkdir()
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / name).symlink_to(tmp_path / "precious")
        with pytest.raises(BenoError, match=r"is a link|holds a run already|cannot lock"):
            run_in(tmp_path / "run", data)
        assert not list((tmp_path / "precious").iterdir())

    def test_the_folder_itself_may_be_a_link(self, data, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
        run_in(tmp_path / "run", data).close()
        assert (tmp_path / "elsewhere" / LOG).exists()


class TestRefused:
    def test_a_folder_that_holds_a_run(self, unbroken, data):
        with pytest.raises(BenoError, match="holds a run already"):
            run_in(unbroken, data)

    def test_a_state_that_is_none(self, unbroken, data, tmp_path):
        folder = tmp_path / "run"
        shutil.copytree(unbroken, folder)
        shutil.copy(folder / BEST, folder / STATE)
        with pytest.raises(BenoError, match="is no state of a run"):
            run_in(folder, data, resume=True)

    def test_a_place_that_is_no_folder(self, data, tmp_path):
        (tmp_path / "run").write_text("")
        with pytest.raises(BenoError, match="cannot write"):
            run_in(tmp_path / "run", data)

    def test_nothing_to_resume(self, data, tmp_path):
        with pytest.raises(BenoError, match="no run to resume"):
            run_in(tmp_path / "none", data, resume=True)

    def test_killed_in_its_first_epoch(self, data, tmp_path):
        folder = tmp_path / "run"
        run_in(folder, data).close()
        assert not (folder / STATE).exists()
        (folder / ".state.safetensors.7.unfinished").mkdir()
        assert run_in(folder, data, resume=True).epoch == 0
        assert not list(folder.glob(".*.unfinished"))

    def test_a_damaged_log(self, unbroken, data, tmp_path):
        folder = tmp_path / "run"
        shutil.copytree(unbroken, folder)
        with open(folder / "log.jsonl", "a") as log:
            log.write('{"broken"}\n')
        with pytest.raises(BenoError, match=r"log\.jsonl is damaged"):
            run_in(folder, data, resume=True)

    def test_resuming_with_another_configuration(self, unbroken, data):
        with pytest.raises(BenoError, match=r"begun with another training: learning_rate 0.*where 1\.0"):
            run_in(unbroken, data, replace(CONFIG, learning_rate=1.0), resume=True)

    def test_resuming_with_other_data(self, unbroken, tmp_path):
        make(Family(corners=0, resolution=8), 1, 25, tmp_path / "other.h5")
        with pytest.raises(BenoError, match="begun with another data: corners"):
            run_in(unbroken, tmp_path / "other.h5", resume=True)

    def test_too_few_samples(self, tmp_path):
        make(Family(resolution=8), 0, 3, tmp_path / "few.h5")
        with pytest.raises(BenoError, match="both are needed"):
            run_in(tmp_path / "run", tmp_path / "few.h5")

    def test_a_loss_that_is_no_number(self, data, tmp_path):
        run = run_in(tmp_path / "run", data)
        with torch.no_grad():
            next(run.network.parameters()).fill_(float("nan"))
        with pytest.raises(BenoError, match="training loss is nan"):
            run.train()
        assert not (tmp_path / "run" / BEST).exists()

    @pytest.mark.parametrize("change", [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": -1.0}])
    def test_bad_numbers(self, change):
        with pytest.raises(BenoError, match="must be positive"):
            replace(CONFIG, **change)


def test_a_trained_operator_solves_problems_and_answers_between_the_points(unbroken):
    operator = LearnedOperator.load(unbroken)
    problem = Family(corners=2, resolution=8).problem(9, 0)
    solution = operator.solve(problem)
    assert solution.u.shape == problem.source.shape and np.isfinite(solution.u).all()
    points = problem.domain.points
    np.testing.assert_allclose(solution.at(points), solution.u, atol=1e-12)
    between = points[:5] + 0.3 * problem.domain.spacing
    there = solution.at(between)
    assert there.shape == (5,) and np.isfinite(there).all() and not np.allclose(there, solution.u[:5])
    np.testing.assert_array_equal(there[:2], solution.at(between[:2]), "whatever else is asked")


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (Family("darcy", resolution=8), "trained for poisson, not for darcy"),
        (Family(boundary="neumann", resolution=8), "trained for dirichlet boundaries, not for neumann"),
    ],
)
def test_an_operator_refuses_what_it_was_not_trained_for(unbroken, family, message):
    with pytest.raises(BenoError, match=message):
        LearnedOperator.load(unbroken).solve(family.problem(0, 0))


def test_a_folder_without_weights(tmp_path):
    with pytest.raises(BenoError, match="no trained weights"):
        LearnedOperator.load(tmp_path)


def test_with_symmetries_every_epoch_shows_each_sample_once_in_some_view(data, tmp_path):
    run = run_in(tmp_path / "run", data, replace(CONFIG, symmetries=True, decoupled_decay=True, epochs=2))
    cohort = run.train_set
    plan = cohort.plan(np.arange(len(cohort)), np.random.default_rng(0))
    assert list(plan.rows // 8) == list(range(len(cohort))) and len(set(plan.rows % 8)) > 3
    assert set(plan.signs) == {-1.0, 1.0}
    shown = cohort.feed(replace(plan, signs=-np.ones(len(plan))).take(slice(3)))
    plain = cohort.feed(replace(plan, signs=np.ones(len(plan))).take(slice(3)))
    for name in ("u", "g", "source"):
        assert torch.equal(getattr(shown, name), -getattr(plain, name))
    assert run.train().finished


class TestHarmonic:
    """The same loop with another model: parts, points, the relative loss, and validation now and then."""

    CONFIG = replace(
        PRESETS["harmonic"], epochs=6, first_restart=6, batch_size=4, warm_up=3, parts=2, points=16,
        validate_every=2, precision="32-true",
    )  # fmt: skip
    SMALL = {"width": 16, "layers": 1, "heads": 2, "pair_width": 8, "rank": 4}

    def run_in(self, folder, data, **options):
        with Dataset(data) as dataset:
            return Run(folder, dataset, "harmonic", self.SMALL, self.CONFIG, **options)

    def test_it_learns_and_validates_when_it_is_time(self, data, tmp_path):
        before = self.run_in(tmp_path / "before", data).validate()[1]
        outcome = self.run_in(tmp_path / "run", data).train()
        records = [json.loads(line) for line in (tmp_path / "run" / LOG).read_text().splitlines()]
        looked = [record["epoch"] for record in records if record["validation_loss"] is not None]
        assert looked == [2, 4, 6] and outcome.finished
        assert outcome.best_validation_loss == min(records[epoch - 1]["validation_relative_l2"] for epoch in looked)
        assert outcome.best_validation_loss < before
        operator = LearnedOperator.load(tmp_path / "run")
        problem = Family(resolution=8).problem(9, 0)
        assert np.isfinite(operator.solve(problem).u).all()

    def test_stopped_early_it_has_weights_to_show(self, data, tmp_path):
        outcome = self.run_in(tmp_path / "run", data).train(time_limit=0.0)
        assert outcome.epochs == 1 and np.isfinite(outcome.best_validation_loss)
        assert LearnedOperator.load(tmp_path / "run").header.epoch == 1
        (line,) = (tmp_path / "run" / LOG).read_text().splitlines()
        assert "NaN" not in line

    def test_stopped_it_goes_on_to_the_same_end(self, data, tmp_path):
        self.run_in(tmp_path / "whole", data).train()
        self.run_in(tmp_path / "broken", data).train(time_limit=0.0)
        resumed = self.run_in(tmp_path / "broken", data, resume=True)
        assert resumed.epoch == 1
        resumed.train()
        assert_same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))

    def test_what_it_sees_it_learns(self, tmp_path):
        """From eight samples in some seconds: nothing in the way of learning but how little they say."""
        path = tmp_path / "few.h5"
        make(Family(corners=1, resolution=12), 0, 10, path)
        config = replace(
            self.CONFIG, epochs=150, first_restart=150, symmetries=False, parts=0, points=0,
            learning_rate=3e-3, validate_every=150,
        )  # fmt: skip
        settings = {"width": 32, "layers": 1, "heads": 2, "pair_width": 32, "rank": 8}
        with Dataset(path) as dataset:
            run = Run(tmp_path / "run", dataset, "harmonic", settings, config)
        losses = []
        run.train(lambda record: losses.append(record.train_loss))
        assert losses[-1] < 0.02 and losses[-1] < 0.3 * losses[0]
