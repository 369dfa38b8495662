"""What a run is told: the paper's way, ways that proved themselves, and no numbers that make no sense."""

from dataclasses import asdict, replace

import pytest
import torch

from beno.batches.augmentation import Augmentation
from beno.models.registry import model_class, names
from beno.support.errors import BenoError
from beno.training.config import PRESETS, TrainingConfig, difference, fixed


def test_the_rate_follows_cosines_with_restarts():
    config = TrainingConfig(learning_rate=1.0)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=16, T_mult=2)
    for epoch in range(120):
        assert config.rate(epoch) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-9)
        optimizer.step()
        schedule.step()


def test_without_restarts_the_rate_is_one_cosine_over_the_whole_run():
    config = TrainingConfig(learning_rate=2.0, epochs=10, first_restart=0)
    assert config.rate(0) == 2.0 and config.rate(5) == pytest.approx(1.0)
    rates = [config.rate(epoch) for epoch in range(10)]
    assert rates == sorted(rates, reverse=True) and 0 < rates[-1] < 0.1


def test_the_rate_rises_over_the_first_steps():
    config = TrainingConfig(learning_rate=1.0, warm_up=3)
    assert [config.rate(0, step) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_the_papers_preset_is_what_the_paper_says():
    paper = PRESETS["paper"]
    assert (paper.batch_size, paper.learning_rate, paper.weight_decay, paper.epochs) == (1, 5e-5, 5e-4, 1000)
    assert (paper.first_restart, paper.restart_factor) == (16, 2)
    assert paper.augmentation == Augmentation(), "it shows every sample as it is"


@pytest.mark.parametrize("name", names())
def test_every_model_has_a_preset_that_there_is(name):
    preset = PRESETS[model_class(name).preset]
    assert preset.batch_size > 1 and preset.epochs == 1000 and preset.symmetries


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs is 0; it must be positive"),
        ({"batch_size": 0}, "batch size is 0; it must be positive"),
        ({"learning_rate": -1.0}, r"learning rate is -1\.0; it must be positive"),
        ({"learning_rate": float("nan")}, "learning rate is nan"),
        ({"checkpoint_every": 0}, "checkpoint every is 0"),
        ({"validate_every": 0}, "validate every is 0"),
        ({"restart_factor": 0}, "restart factor is 0"),
        ({"weight_decay": float("inf")}, "weight decay is inf; it must be a finite number of at least 0"),
        ({"seed": -1}, "the seed is -1"),
        ({"seed": 2**63}, "the seed is 9223372036854775808"),
        ({"precision": "8-bit"}, "there is no precision '8-bit'; there is 32-true, bf16-mixed"),
        ({"loss": "absolute"}, "there is no loss 'absolute'; there is mean square, relative"),
        ({"parts": -1}, "parts is -1; it must not be negative"),
        ({"first_restart": -1}, "first restart is -1"),
    ],
)
def test_numbers_that_make_no_training_are_refused(change, message):
    with pytest.raises(BenoError, match=message):
        replace(TrainingConfig(), **change)


def test_a_difference_names_what_differs_and_nothing_else():
    one, other = TrainingConfig(), TrainingConfig(seed=3, batch_size=2)
    assert difference(one, other) == "batch_size 1, where 2 is asked for, seed 0, where 3 is asked for"
    assert difference("beno", "fno") == "beno, where fno is asked for"
    assert difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}) == "a: c 2, where None is asked for"


def test_what_an_older_version_could_not_choose_was_the_default():
    stored = {name: value for name, value in asdict(TrainingConfig()).items() if name != "loss"}
    assert fixed(stored) == fixed(asdict(TrainingConfig()))
    assert fixed(stored) != fixed(asdict(TrainingConfig(loss="relative")))


@pytest.mark.parametrize(
    "change", [{"epochs": 2}, {"checkpoint_every": 5}, {"captured": True}, {"precision": "bf16-mixed"}]
)
def test_what_changes_no_sample_and_no_loss_is_not_fixed(change):
    assert fixed(asdict(replace(TrainingConfig(), **change))) == fixed(asdict(TrainingConfig()))
