"""Training on a stream: fresh samples in each epoch, and the same ones in a run that was killed and went on."""

import multiprocessing
import os
import signal
from dataclasses import replace

import pytest
import torch

from beno.datasets.dataset import Dataset
from beno.datasets.scales import Scales
from beno.datasets.stream import Stream
from beno.learned import checkpoints
from beno.learned.operator import BEST
from beno.models.registry import model_class
from beno.support.errors import BenoError
from beno.training import run as run_module
from beno.training.config import TrainingConfig
from tests.training.small import CONFIG, assert_same, run_in, weights

STREAMED = replace(CONFIG, stream=True)


@pytest.fixture(scope="module")
def streamed(data, tmp_path_factory):
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("runs") / "streamed"
    run_in(folder, data, STREAMED).train()
    return folder


def test_each_epoch_has_its_own_samples_and_the_validation_split_stays(data, tmp_path, monkeypatch):
    drawn, problems = [], Stream.problems
    monkeypatch.setattr(Stream, "problems", lambda stream, epoch: drawn.append(epoch) or problems(stream, epoch))
    trained_on = []
    with run_in(tmp_path / "run", data, replace(STREAMED, epochs=3)) as run:
        assert len(run.train_set) == 21 == run.fresh.stream.samples
        run.train(lambda record: trained_on.append(run.train_set.batch().u.clone()))
        assert len(run.validation_set) == 2
    assert drawn == [0, 1, 2], "each epoch's samples are drawn once, and none for an epoch that does not come"
    assert len({epoch.numpy().tobytes() for epoch in trained_on}) == 3
    header = checkpoints.load_header(tmp_path / "run" / BEST)
    assert header.training["stream"] is True
    with Dataset(data) as dataset:
        assert header.data == dataset.metadata
        assert header.scales == Scales.fit(dataset[int(index)] for index in dataset.indices("train"))


def test_it_learns_other_weights_than_from_the_dataset(streamed, unbroken):
    assert any(not torch.equal(tensor, weights(unbroken)[name]) for name, tensor in weights(streamed).items())
    assert all(torch.isfinite(tensor).all() for tensor in weights(streamed).values())


def train_until_killed(folder, data):
    """In the third epoch, after a step of it, while the next one's samples are prepared."""
    steps, count = run_module.Steps, [0]
    step = steps.__call__

    def dies(*arguments):
        count[0] += 1
        return os.kill(os.getpid(), signal.SIGKILL) if count[0] == 13 else step(*arguments)

    steps.__call__ = dies
    run_in(folder, data, STREAMED).train()


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, forked processes take no gradients")
def test_killed_it_goes_on_to_the_same_end(streamed, data, tmp_path):
    folder = tmp_path / "run"
    process = multiprocessing.get_context("fork").Process(target=train_until_killed, args=(folder, data))
    process.start()
    process.join(timeout=60)
    assert process.exitcode == -signal.SIGKILL
    assert checkpoints.load_header(folder / "state.safetensors").epoch == 2
    run_in(folder, data, STREAMED, resume=True).train()
    assert_same(weights(folder), weights(streamed))
    assert_same(weights(folder, BEST), weights(streamed, BEST))


@pytest.mark.parametrize("name", ["harmonic", "fno"])
def test_models_of_each_kind_of_batch_stop_and_go_on(name, data, tmp_path):
    config = replace(STREAMED, epochs=2, parts=2 if name == "harmonic" else 0, symmetries=True)
    for folder, limits in (("whole", [float("inf")]), ("stopped", [0.0, float("inf")])):
        for number, limit in enumerate(limits):
            options = {"settings": model_class(name).small, "resume": number > 0}
            with run_in(tmp_path / folder, data, config, name, **options) as run:
                run.train(time_limit=limit)
    assert_same(weights(tmp_path / "stopped"), weights(tmp_path / "whole"))


def test_a_run_on_a_dataset_does_not_go_on_with_a_stream(unbroken, data):
    with pytest.raises(BenoError, match="was begun with another training: stream False, where True is asked for"):
        run_in(unbroken, data, STREAMED, resume=True)
    assert TrainingConfig().stream is False


def test_an_error_in_the_preparing_thread_ends_the_training(data, tmp_path, monkeypatch):
    problems = Stream.problems

    def fails_later(stream, epoch):
        if epoch == 2:
            raise BenoError("no more of these")
        return problems(stream, epoch)

    monkeypatch.setattr(Stream, "problems", fails_later)
    with pytest.raises(BenoError, match="no more of these"), run_in(tmp_path / "run", data, STREAMED) as run:
        run.train()
    assert run.epoch == 1
