"""Runs that take a fraction of a second."""

from pathlib import Path

import torch

from beno.datasets.dataset import Dataset
from beno.learned import checkpoints
from beno.training.config import TrainingConfig
from beno.training.run import Run
from beno.training.run_folder import STATE

SETTINGS = {"width": 8, "steps": 2}
CONFIG = TrainingConfig(epochs=4, batch_size=5, learning_rate=2e-3, clip=1.0, warm_up=3)


def run_in(folder: Path, data: Path, config: TrainingConfig = CONFIG, model: str = "beno", **options: object) -> Run:
    with Dataset(data) as dataset:
        return Run(folder, dataset, model, **({"settings": SETTINGS, "config": config} | options))


def weights(folder: Path, name: str = STATE) -> dict[str, torch.Tensor]:
    """What a file of a run holds, but for the time that it took."""
    return {key: tensor for key, tensor in checkpoints.load(folder / name)[1].items() if key != "seconds"}


def assert_same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name
