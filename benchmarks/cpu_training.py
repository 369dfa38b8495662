"""What half precision and pieces of a batch that stay in the cache are worth in training on a CPU, for every model.

One core, 4-Corners at 32², batches of 16, an epoch each in turns: in single precision with the batch as a whole, in
half precision likewise, and in half precision piece by piece, which is what `beno train` does where the CPU can.
Milliseconds a sample are recorded; what counts is their ratios.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import torch
from record import record
from rich.console import Console
from rich.table import Table

from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.models.registry import model_class, names
from beno.nn.device import multiplies_in_half
from beno.paper.tables import AUTHORS_SETTINGS
from beno.problems.families import Family
from beno.training.config import PRESETS
from beno.training.run import Run

WAYS = {"single, whole": ("32-true", False), "half, whole": ("bf16-mixed", False), "half, pieces": ("bf16-mixed", True)}


def run_of(model: str, way: str, data: Path, folder: Path) -> Run:
    precision, in_pieces = WAYS[way]
    preset = PRESETS[model_class(model).preset]
    with Dataset(data) as dataset:
        settings = AUTHORS_SETTINGS if model == "beno" else {}
        run = Run(folder / f"{model}, {way}", dataset, model, settings, replace(preset, precision=precision))
    if not in_pieces:
        run.train_set.POINTS_IN_CACHE = sys.maxsize
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=40, help="of which four fifths are trained on")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if not multiplies_in_half(torch.device("cpu")):
        raise SystemExit("this CPU has no instructions for half precision")
    torch.set_num_threads(1)
    figures = {}
    table = Table("model", "gain by half precision", "and by pieces", "an epoch over FNO's")
    with TemporaryDirectory() as name:
        folder = Path(name)
        make(Family(), 0, options.samples, folder / "data.h5")
        for model in names():
            runs = {way: run_of(model, way, folder / "data.h5", folder) for way in WAYS}
            times: dict[str, list[float]] = {way: [] for way in WAYS}
            for repeat in range(options.repeats + 1):
                for way, run in runs.items():
                    start = perf_counter()
                    run._train_epoch()
                    if repeat:  # the first one warms up
                        times[way].append(1000 * (perf_counter() - start) / len(run.train_set))
            figures[model] = {way: median(each) for way, each in times.items()}
    for model, by_way in figures.items():
        by_way["over_fno"] = by_way["half, pieces"] / figures["fno"]["half, pieces"]
        gains = [by_way["single, whole"] / by_way[way] for way in ("half, whole", "half, pieces")]
        table.add_row(model, *(f"{gain:.2f}" for gain in gains), f"{by_way['over_fno']:.1f}")
    Console().print(table)
    record("cpu_training", vars(options), figures)


if __name__ == "__main__":
    main()
