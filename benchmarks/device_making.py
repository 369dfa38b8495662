"""Samples a second of `data make` on the CPU and with a GPU, and what training on a stream of them costs."""

import argparse
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from record import RESULTS, record
from rich.console import Console
from rich.table import Table

from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.models.registry import model_class
from beno.problems.families import Family
from beno.training.config import PRESETS
from beno.training.fabric import make_fabric
from beno.training.run import Run

SAMPLES = {32: 8192, 128: 512, 256: 128, 512: 32}  # by cells along a side
TRAINED_ON = 1000  # samples, 810 of which are for training
EPOCHS = 10
MODELS = ("harmonic", "beno", "fno")


def samples_a_second(resolution: int, device: str, workers: int, folder: Path) -> float:
    """The time of the second file is taken: the first one starts processes, and compiles kernels."""
    count = SAMPLES[resolution] if workers > 1 or device == "cuda" else SAMPLES[resolution] // 8
    for number in range(2):
        start = perf_counter()
        make(Family(resolution=resolution), 0, count, folder / f"{number}.h5", workers, device=device)
        seconds = perf_counter() - start
    return count / seconds


def seconds_an_epoch(model: str, stream: bool, device: str, folder: Path) -> float:
    """The time of an epoch, without the first ones, which start processes, and the last, which prepares no next one."""
    preset = PRESETS[model_class(model).preset]
    config = replace(preset, epochs=EPOCHS, stream=stream, validate_every=EPOCHS)
    ends: list[float] = []
    with Dataset(folder / "data.h5") as dataset:
        run = Run(folder / f"{model}-{stream}", dataset, model, config=config, fabric=make_fabric(device))
    with run:
        run.train(lambda record: ends.append(record.seconds))
    return median(np.diff(ends)[2:-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()

    ways = [(device, workers) for device in ("cpu", options.device) for workers in (1, options.workers)]
    figures: dict[str, object] = {}
    names = [f"{device}, {workers} workers" for device, workers in ways]
    table = Table("cells a side", *names, title="Samples a second")
    for resolution in SAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            rates = [samples_a_second(resolution, *way, Path(folder)) for way in ways]
        figures[f"{resolution} cells a side"] = dict(zip(names, rates, strict=True))
        table.add_row(str(resolution), *(f"{rate:.3g}" for rate in rates))
    Console().print(table)
    training = Table("model", "from a dataset", "from a stream", title="Seconds an epoch of 810 samples")
    with tempfile.TemporaryDirectory() as folder:
        make(Family(), 0, TRAINED_ON, Path(folder) / "data.h5", options.workers)
        for model in MODELS:
            times = [seconds_an_epoch(model, stream, options.device, Path(folder)) for stream in (False, True)]
            figures[f"{model}, seconds an epoch"] = dict(zip(("dataset", "stream"), times, strict=True))
            training.add_row(model, *(f"{time:.2f}" for time in times))
    Console().print(training)
    record("device_making", {"workers": options.workers, "device": options.device}, figures, options.out)


if __name__ == "__main__":
    main()
