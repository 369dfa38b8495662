"""Whether one branch, or the boundary in the messages too, makes BENO worse: in small, several seeds of each.

Squares with four cut corners at 8²; one dataset, and for each seed other weights at the start and another order of the
samples. It takes some ten minutes of a core for each training.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from record import record
from rich.console import Console
from rich.table import Table

from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.evaluation.evaluation import evaluate
from beno.learned.operator import LearnedOperator
from beno.paper.tables import ABLATIONS, AUTHORS_SETTINGS
from beno.problems.families import Family
from beno.training.config import PRESETS
from beno.training.run import Run

TRAINING_SEED, TEST_SEED, TEST_SAMPLES = 0, 100, 200
LAST_EPOCHS_OF_CYCLES = (16, 48, 112, 240, 496)


def train(folder: Path, variant: str, seed: int, epochs: int, width: int, steps: int) -> dict[str, object]:
    torch.set_num_threads(1)
    settings = {**AUTHORS_SETTINGS, "width": width, "steps": steps, **ABLATIONS[variant]}
    config = replace(PRESETS["fast"], epochs=epochs, seed=seed, captured=False)
    run_folder = folder / f"{variant}-{seed}"
    validation: list[float] = []
    with Dataset(folder / "train.h5") as dataset:
        run = Run(run_folder, dataset, "beno", settings, config)
    with run:
        run.train(lambda epoch: validation.append(float(epoch.validation_relative_l2)))
    with Dataset(folder / "test.h5") as dataset:
        error = evaluate(LearnedOperator.load(run_folder), dataset, "all").figures["relative_l2"].mean
    by_epoch = {str(epoch): validation[epoch - 1] for epoch in LAST_EPOCHS_OF_CYCLES if epoch <= epochs}
    print(f"{variant}, seed {seed}: {100 * error:.1f} %", flush=True)
    return {"variant": variant, "seed": seed, "relative_l2": error, "validation_relative_l2": by_epoch}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", nargs="+", choices=ABLATIONS, default=["BENO", "BENO w/o. D", "BENO w. E"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=240, help="the end of a cycle of the rate")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="trainings at once")
    options = parser.parse_args()

    folder, family = Path(tempfile.mkdtemp()), Family(resolution=8)
    make(family, TRAINING_SEED, options.samples, folder / "train.h5")
    make(family, TEST_SEED, TEST_SAMPLES, folder / "test.h5")
    rows = Parallel(options.jobs)(
        delayed(train)(folder, variant, seed, options.epochs, options.width, options.steps)
        for seed in range(options.seeds)
        for variant in options.variants
    )
    table = Table("variant", "relative L2, %, by seed", "mean ± deviation over seeds")
    for variant in options.variants:
        errors = [100 * row["relative_l2"] for row in rows if row["variant"] == variant]
        spread = np.std(errors, ddof=1) if len(errors) > 1 else np.nan
        table.add_row(variant, ", ".join(f"{one:.1f}" for one in errors), f"{np.mean(errors):.1f} ± {spread:.1f}")
    Console().print(table)
    config = vars(options) | {"training_seed": TRAINING_SEED, "test_seed": TEST_SEED, "test_samples": TEST_SAMPLES}
    record("beno_ablation", config, {"rows": rows})


if __name__ == "__main__":
    main()
