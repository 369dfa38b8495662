"""How many epochs a small BENO takes until it learns anything of the boundary.

With Dirichlet walls, with Neumann walls, and with these without symmetries.

Training and validation by epoch are recorded, for squares with cut corners at 8². It takes a quarter of an hour of a
core.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from record import record
from rich.console import Console
from rich.table import Table

from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.problems.families import Family
from beno.training.config import PRESETS
from beno.training.records import EpochRecord
from beno.training.run import Run

SETTINGS = {"residual": True, "layer_norm": True, "width": 32, "steps": 3}
VARIANTS = {"dirichlet": {}, "neumann": {}, "neumann, no symmetries": {"symmetries": False}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=240, help="the end of a cycle of the rate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.set_num_threads(1)
    folder, figures = Path(tempfile.mkdtemp()), {}
    table = Table("walls", "validation, relative L2, %, at the ends of cycles")
    for variant, changes in VARIANTS.items():
        data = folder / f"{variant}.h5"
        make(Family(boundary=variant.split(",")[0], resolution=8), options.seed, options.samples, data)
        config = replace(PRESETS["fast"], epochs=options.epochs, seed=options.seed, captured=False, **changes)
        history: list[EpochRecord] = []
        with Dataset(data) as dataset:
            run = Run(folder / variant, dataset, "beno", SETTINGS, config)
        with run:
            run.train(history.append)
        figures[variant] = {
            "train_loss": [one.train_loss for one in history],
            "validation_relative_l2": [one.validation_relative_l2 for one in history],
        }
        last = [one for one in history if one.epoch in (16, 48, 112, 240)]  # of their cycles
        table.add_row(variant, ", ".join(f"{100 * one.validation_relative_l2:.1f}" for one in last))
    Console().print(table)
    record("beno_start", vars(options) | {"settings": SETTINGS}, figures)


if __name__ == "__main__":
    main()
