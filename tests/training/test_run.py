"""Training: it learns, and stopped or killed at any moment it goes on as if it had not been."""

import json
import multiprocessing
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.datasets.scales import Scales
from beno.learned import checkpoints
from beno.learned.operator import BEST, LearnedOperator
from beno.models.registry import model_class, names
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.training import run as run_module
from beno.training.config import PRESETS
from beno.training.run import Run
from beno.training.run_folder import LOG, STATE, RunFolder
from tests.training.small import CONFIG, SETTINGS, assert_same, run_in, weights


def log_of(folder):
    return [json.loads(line) for line in (folder / LOG).read_text().splitlines()]


def test_it_learns_and_keeps_the_best_epoch(unbroken):
    records = log_of(unbroken)
    assert [record["epoch"] for record in records] == [1, 2, 3, 4]
    assert records[-1]["train_loss"] < records[0]["train_loss"]
    best = min(records, key=lambda record: record["validation_loss"])
    header, _ = checkpoints.load(unbroken / BEST)
    assert header.epoch == best["epoch"] and header.validation_loss == best["validation_loss"]
    assert any((unbroken / "tensorboard").iterdir())


def test_scales_come_from_the_training_split_alone(unbroken, data):
    with Dataset(data) as dataset:
        expected = Scales.fit(dataset[int(index)] for index in dataset.indices("train"))
    assert checkpoints.load_header(unbroken / BEST).scales == expected


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(unbroken, data, tmp_path):
    run_in(tmp_path / "again", data).train()
    assert_same(weights(tmp_path / "again"), weights(unbroken))
    run_in(tmp_path / "other", data, replace(CONFIG, seed=1, epochs=1)).train()
    assert not torch.equal(next(iter(weights(tmp_path / "other").values())), next(iter(weights(unbroken).values())))


@pytest.mark.parametrize("name", names())
def test_every_model_can_be_trained_and_taken_up_again(name, data, tmp_path):
    """As its preset has it, at its small size."""
    network = model_class(name)
    whole_samples = {"symmetries": False, "parts": 0, "points": 0}  # quicker to prepare
    config = replace(PRESETS[network.preset], epochs=2, batch_size=8, precision="32-true", **whole_samples)
    for folder, limits in (("whole", [float("inf")]), ("stopped", [0.0, float("inf")])):
        for number, limit in enumerate(limits):
            options = {"settings": network.small, "resume": number > 0}
            run_in(tmp_path / folder, data, config, name, **options).train(time_limit=limit)
    assert_same(weights(tmp_path / "stopped"), weights(tmp_path / "whole"))
    assert_same(weights(tmp_path / "stopped", BEST), weights(tmp_path / "whole", BEST))
    losses = [record["train_loss"] for record in log_of(tmp_path / "stopped")]
    assert losses == [record["train_loss"] for record in log_of(tmp_path / "whole")] and np.isfinite(losses).all()


def test_stopped_at_its_time_limit_it_goes_on_to_the_same_end(unbroken, data, tmp_path):
    outcome = run_in(tmp_path / "run", data).train(time_limit=1e-9)
    assert outcome.epochs == 1 and not outcome.finished
    outcome = run_in(tmp_path / "run", data, resume=True).train()
    assert outcome.finished
    assert_same(weights(tmp_path / "run"), weights(unbroken))
    assert_same(weights(tmp_path / "run", BEST), weights(unbroken, BEST))
    assert [record["epoch"] for record in log_of(tmp_path / "run")] == [1, 2, 3, 4]


def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)


def train_until_killed(folder, data, moment):
    """In the third epoch: in the middle of it, or before something of it is written."""
    count = {"calls": 0}
    owner, name, last = MOMENTS[moment]
    done = getattr(owner, name)

    def dies_in_the_third(*arguments, **options):
        count["calls"] += 1
        return die() if count["calls"] == last else done(*arguments, **options)

    setattr(owner, name, dies_in_the_third)
    run_in(folder, data).train()


# What is called, and at which of its calls the process is killed: five steps an epoch, and one of each of the others.
MOMENTS = {
    "in an epoch": (run_module.Steps, "__call__", 13),
    "before the best weights": (RunFolder, "save_best", 3),
    "before the log": (RunFolder, "write_log", 3),
    "as the state is put in place": (os, "replace", 6),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_it_goes_on_to_the_same_end(unbroken, data, tmp_path, moment):
    """By a signal that leaves time for nothing, in a process that was forked: a fresh one takes seconds to start."""
    folder = tmp_path / "run"
    process = multiprocessing.get_context("fork").Process(target=train_until_killed, args=(folder, data, moment))
    process.start()
    process.join(timeout=60)
    assert process.exitcode == -signal.SIGKILL
    run_in(folder, data, resume=True).train()
    assert_same(weights(folder), weights(unbroken))
    assert_same(weights(folder, BEST), weights(unbroken, BEST))
    losses = [record["validation_loss"] for record in log_of(folder)]
    assert losses == [record["validation_loss"] for record in log_of(unbroken)]
    assert not list(folder.glob(".*.unfinished"))


@pytest.mark.parametrize(("lost_at_most", "saved"), [(0.0, [1, 2, 3, 4]), (3600.0, [3, 4])])
def test_where_epochs_are_long_each_is_saved(data, tmp_path, monkeypatch, lost_at_most, saved):
    monkeypatch.setattr(run_module, "LOST_AT_MOST", lost_at_most)
    epochs = []
    monkeypatch.setattr(Run, "_save_state", lambda run: epochs.append(run.epoch))
    run_in(tmp_path / "run", data, replace(CONFIG, checkpoint_every=3)).train()
    assert epochs == saved


def test_it_ends_when_it_is_enough(data, tmp_path):
    run = run_in(tmp_path / "run", data)
    outcome = run.train(is_enough=lambda: run.epoch >= 2)
    assert outcome.epochs == 2 and not outcome.finished


def test_with_symmetries_every_epoch_shows_each_sample_once_in_some_view(data, tmp_path):
    run = run_in(tmp_path / "run", data, replace(CONFIG, symmetries=True, decoupled_decay=True, epochs=2))
    batches = run.train_set
    selection = batches.select(np.arange(len(batches)), np.random.default_rng(0))
    assert list(selection.rows // 8) == list(range(len(batches))) and len(set(selection.rows % 8)) > 3
    assert set(selection.signs) == {-1.0, 1.0}
    assert run.train().finished


class TestHarmonic:
    """The same loop with all that the preset adds: parts, points, the relative loss, and validation now and then."""

    CONFIG = replace(
        PRESETS["harmonic"], epochs=4, first_restart=4, batch_size=4, warm_up=3, parts=2, points=16,
        validate_every=2, precision="32-true",
    )  # fmt: skip

    def run_in(self, folder, data, **options):
        return run_in(folder, data, self.CONFIG, "harmonic", settings=model_class("harmonic").small, **options)

    def test_it_learns_and_validates_when_it_is_time(self, data, tmp_path):
        run = self.run_in(tmp_path / "run", data)
        before = run.validate()[1]
        outcome = run.train()
        records = log_of(tmp_path / "run")
        looked = [record["epoch"] for record in records if record["validation_loss"] is not None]
        assert looked == [2, 4] and outcome.finished
        assert outcome.best_validation_loss == min(records[epoch - 1]["validation_relative_l2"] for epoch in looked)
        assert outcome.best_validation_loss < before
        operator = LearnedOperator.load(tmp_path / "run")
        assert np.isfinite(operator.solve(Family(resolution=8).problem(9, 0)).u).all()

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

    def test_the_loop_fits_the_samples_that_it_sees(self, data, tmp_path):
        """To half of where it began, which is close to the truth already."""
        config = replace(
            self.CONFIG, epochs=15, first_restart=15, symmetries=False, parts=0, points=0, learning_rate=1e-2,
            validate_every=15,
        )  # fmt: skip
        losses = []
        run = run_in(tmp_path / "run", data, config, "harmonic", settings=model_class("harmonic").small)
        run.train(lambda record: losses.append(record.train_loss))
        assert np.mean(losses[-5:]) < losses[0] / 2


def test_too_few_samples_are_refused(tmp_path):
    make(Family(resolution=8), 0, 3, tmp_path / "few.h5")
    with pytest.raises(BenoError, match="3 samples to train on and 0 to validate with; both are needed"):
        run_in(tmp_path / "run", tmp_path / "few.h5")


def test_a_loss_that_is_no_number_ends_the_run(data, tmp_path):
    run = run_in(tmp_path / "run", data)
    with torch.no_grad():
        next(run.network.parameters()).fill_(float("nan"))
    with pytest.raises(BenoError, match="training loss is nan in epoch 1; a smaller rate may help"):
        run.train()
    assert not (tmp_path / "run" / BEST).exists()


def test_what_it_trained_solves_problems_and_answers_between_the_points(unbroken):
    operator = LearnedOperator.load(unbroken)
    problem = Family(corners=2, resolution=8).problem(9, 0)
    solution = operator.solve(problem)
    assert solution.u.shape == problem.f.shape and np.isfinite(solution.u).all()
    points = problem.domain.points
    np.testing.assert_allclose(solution.at(points), solution.u, atol=1e-12)
    there = solution.at(points[:5] + 0.3 * problem.domain.spacing)
    assert np.isfinite(there).all() and not np.allclose(there, solution.u[:5])


def test_the_state_of_a_run_is_no_larger_than_its_weights_and_two_moments(unbroken):
    state, best = (sum(tensor.numel() for tensor in weights(unbroken, name).values()) for name in (STATE, BEST))
    parameters = len(list(LearnedOperator.load(unbroken).model.parameters()))
    assert state == 3 * best + parameters
    assert checkpoints.load_header(unbroken / STATE).config == checkpoints.load_header(unbroken / BEST).config
    assert SETTINGS.items() <= checkpoints.load_header(unbroken / BEST).config.items()
