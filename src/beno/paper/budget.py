"""How much is spent on each training: the same for every model, so that they stand on equal terms."""

import math
import sys
from dataclasses import dataclass, replace
from typing import Any

from beno.paper.tables import Training
from beno.problems.families import Family
from beno.training.config import PRESETS, TrainingConfig

GPU_SECONDS = 300.0

# Sizes at which every part of every table runs in a few seconds on a CPU.
SMALL: dict[str, dict[str, Any]] = {
    "beno": {"width": 8, "steps": 2},
    "harmonic": {"width": 8, "layers": 1, "heads": 2, "pair_width": 8, "rank": 2},
    "gkn": {"width": 4, "kernel_width": 8, "depth": 2, "radius": 0.2},
    "fno": {"width": 4, "layers": 2, "modes": 3, "projection": 8},
    "gnn-pde": {"width": 8, "layers": 2, "terms": 3},
    "mp-pde": {"width": 8, "steps": 2},
}


@dataclass(frozen=True)
class Effort:
    samples: int = 1000
    test_samples: int = 100
    epochs: int = 1000
    seconds: float | None = None  # of the whole device, whichever ends first; if not given, five minutes of a GPU
    for_now: float = math.inf  # seconds of it after which a training makes room for others, to go on another time
    epochs_for_now: int = sys.maxsize  # the same, in epochs: a rate that restarts is at its lowest as a cycle ends
    test_unfinished: bool = False  # trainings as they stand when the time is over; they go on all the same
    smoke: bool = False

    @classmethod
    def least(cls) -> "Effort":
        return cls(samples=12, test_samples=2, epochs=1, smoke=True)

    def family(self, family: Family) -> Family:
        return replace(family, resolution=family.resolution // 4) if self.smoke else family

    def settings(self, training: Training) -> dict[str, Any]:
        return {**(SMALL[training.model] if self.smoke else {}), **training.settings}

    def config(self, training: Training) -> TrainingConfig:
        preset = PRESETS["harmonic" if training.model == "harmonic" else "fast"]
        config = replace(preset, **{"epochs": self.epochs, **training.changes}, seed=training.seed, checkpoint_every=10)
        config = replace(config, epochs=min(config.epochs, self.epochs))
        if self.smoke:
            config = replace(config, batch_size=4, precision="32-true", symmetries=False, parts=min(config.parts, 1))
            config = replace(config, start=None)  # what ships is of another size
        return config
