"""How much is spent on each training: the same for every model, so that they are compared on equal terms."""

import math
import sys
from dataclasses import dataclass, replace

from beno.models.registry import model_class
from beno.paper.tables import Settings, Training
from beno.problems.families import Family
from beno.training.config import PRESETS, TrainingConfig

GPU_SECONDS = 300.0


@dataclass(frozen=True)
class Budget:
    """Sizes of the data, and the time that a training gets: for good, and before it lets others have a turn.

    Seconds are those of the whole device: beside another training each gets half of them.
    """

    samples: int = 1000
    test_samples: int = 100
    epochs: int = 1000
    seconds: float | None = None  # after which a training ends; if not given, five minutes of a GPU
    pause_after_seconds: float = math.inf  # in all; with a larger number a paused training goes on
    pause_after_epochs: int = sys.maxsize  # the same: a rate that restarts is at its lowest as a cycle ends
    test_unfinished: bool = False  # test trainings as they stand when the time is over; they go on all the same
    smoke: bool = False  # sizes at which every part of every table runs in a few seconds on a CPU

    @classmethod
    def smallest(cls) -> "Budget":
        return cls(samples=12, test_samples=2, epochs=1, smoke=True)

    def family(self, family: Family) -> Family:
        return replace(family, resolution=family.resolution // 4) if self.smoke else family

    def settings(self, training: Training) -> Settings:
        small = dict(model_class(training.model).small) if self.smoke else {}
        return small | training.settings

    def config(self, training: Training) -> TrainingConfig:
        """The preset of the model with the training's changes, within the budget's epochs."""
        settings = {"epochs": self.epochs, **training.changes, "seed": training.seed, "checkpoint_every": 10}
        config = replace(PRESETS[model_class(training.model).preset], **settings)  # type: ignore[arg-type]
        config = replace(config, epochs=min(config.epochs, self.epochs))
        if self.smoke:
            config = replace(config, batch_size=4, precision="32-true", symmetries=False)
            config = replace(config, parts=min(config.parts, 1), points=min(config.points, 16))
            config = replace(config, start=None)  # what ships is of another size
        return config

    def is_spent(self, training: Training, device_seconds: float, device: str) -> bool:
        """Whether a training has had all the time that it gets."""
        most = self.seconds or (GPU_SECONDS if device == "cuda" else math.inf)
        return not training.all_epochs and device_seconds >= most

    def has_paused(self, training: Training, device_seconds: float, epochs: int, device: str) -> bool:
        """Whether a training has had what it gets before others have a turn."""
        most_epochs = min(self.pause_after_epochs, self.config(training).epochs)
        is_enough = device_seconds >= self.pause_after_seconds or epochs >= most_epochs
        return is_enough or self.is_spent(training, device_seconds, device)
