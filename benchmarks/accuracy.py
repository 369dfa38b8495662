"""How far trained operators are off, by the paper's protocol: 810 samples to learn from, 90 to choose the epoch with,
100 unseen ones a column. Everything is made from seeds that are written here.

    python benchmarks/accuracy.py harmonic-mixed harmonic-4-corners --folder runs/accuracy

A row is trained where it was stopped before (`--time-limit`, for each), then tested on all its columns, and leaves
accuracy/ROW.json and its weights under --out, in half precision where that is asked for; results/accuracy/ has the
files of the runs on the device.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import joblib
import torch
from record import record

from beno import checkpoint
from beno.dataset import Dataset
from beno.evaluation import evaluate
from beno.making import make
from beno.operator import LearnedOperator
from beno.paper import COLUMNS
from beno.random_problems import Family
from beno.training import PRESETS, Run, make_fabric

TRAINING_SEED, TEST_SEED = 0, 100  # a column adds its number of corners
SAMPLES, TEST_SAMPLES = 1000, 100


def columns(**choices) -> dict[str, Family]:
    return {name: Family(corners=corners, **choices) for corners, name in COLUMNS.items()}


@dataclass(frozen=True)
class Row:
    trained_on: Family
    tested_on: dict[str, Family]
    model: str = "harmonic"
    epochs: int = 1000
    settings: dict = field(default_factory=dict)


ROWS = {
    "beno-4-corners": Row(Family(), columns(), "beno", settings={"residual": True, "layer_norm": True}),
    "harmonic-mixed": Row(Family(corners="mixed"), columns()),
    "harmonic-4-corners": Row(Family(), columns()),
    "harmonic-no-corner": Row(Family(corners=0), columns()),
    "harmonic-zero": Row(
        Family(boundary="zero"),
        columns(boundary="zero")
        | {f"{name} at 64²": family for name, family in columns(boundary="zero", resolution=64).items()},
    ),
    "harmonic-neumann-mixed": Row(Family(boundary="neumann", corners="mixed"), columns(boundary="neumann")),
    "harmonic-neumann-4-corners": Row(Family(boundary="neumann"), columns(boundary="neumann")),
    "harmonic-darcy-mixed": Row(Family("darcy", corners="mixed"), columns(equation="darcy")),
    "harmonic-darcy-4-corners": Row(Family("darcy"), columns(equation="darcy")),
    "harmonic-mixed-kinds": Row(Family(boundary="mixed", corners="mixed"), columns(boundary="mixed")),
}


def dataset(folder: Path, family: Family, seed: int, samples: int) -> Path:
    name = f"{family.equation}-{family.boundary}-{family.corners}-{family.resolution}-{seed}-{samples}.h5"
    if not (folder / name).exists():
        make(family, seed, samples, folder / name)
    return folder / name


def test_seed(family: Family) -> int:
    return TEST_SEED + int(family.corners)


def run_row(name: str, row: Row, options: argparse.Namespace) -> None:
    preset = PRESETS["harmonic" if row.model == "harmonic" else "fast"]
    epochs = options.epochs or row.epochs
    config = replace(preset, epochs=epochs, seed=options.seed, checkpoint_every=100)
    if options.learning_rate:
        config = replace(config, learning_rate=options.learning_rate)
    data = dataset(options.folder, row.trained_on, TRAINING_SEED, options.samples)
    folder = options.folder / f"{name}-{options.seed}"
    with Dataset(data) as training:
        settings = {**row.settings, **json.loads(options.settings)}
        resume = (folder / "state.safetensors").exists()
        run = Run(folder, training, row.model, settings, config, make_fabric(), resume=resume)
    outcome = run.train(time_limit=options.time_limit)
    print(
        f"{name}: {outcome.epochs} epochs, {outcome.seconds:.0f} s, best {outcome.best_validation_loss:.5f}", flush=True
    )

    header, tensors = checkpoint.load(folder / "best.safetensors")
    options.out.mkdir(parents=True, exist_ok=True)
    weights = options.out / f"{name}.safetensors"
    checkpoint.save(weights, header, checkpoint.cast_to_half(tensors) if options.half else tensors)
    operator = LearnedOperator.load(weights, run.fabric.device)
    figures = {}
    for column, family in row.tested_on.items():
        with Dataset(dataset(options.folder, family, test_seed(family), options.test_samples)) as test:
            figures[column] = evaluate(operator, test, "all").summary()
    print(
        "   " + "  ".join(f"{column} {100 * figure['relative_l2']:.2f}%" for column, figure in figures.items()),
        flush=True,
    )
    record(
        f"accuracy/{name}" + (f"-{options.seed}" if options.seed else ""),
        {
            "row": name,
            "model": json.loads(header.to_json()),
            "trained_on": asdict(row.trained_on) | {"seed": TRAINING_SEED, "samples": options.samples},
            "tested_on": {c: asdict(f) | {"seed": test_seed(f)} for c, f in row.tested_on.items()},
            "seed": options.seed,
            "epochs": outcome.epochs,
            "best_epoch": header.epoch,
            "finished": outcome.finished,
            "training_seconds": outcome.seconds,
            "parameters": sum(parameter.numel() for parameter in run.network.parameters()),
        },
        figures,
        folder=options.out,
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("rows", nargs="+", choices=ROWS)
    arguments.add_argument("--folder", type=Path, default=Path("runs/accuracy"), help="of datasets and runs")
    arguments.add_argument("--out", type=Path, default=Path("runs/accuracy/weights"), help="of weights and figures")
    arguments.add_argument("--epochs", type=int)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--samples", type=int, default=SAMPLES)
    arguments.add_argument("--test-samples", type=int, default=TEST_SAMPLES)
    arguments.add_argument("--time-limit", type=float, default=float("inf"), help="seconds, for each row")
    arguments.add_argument("--settings", default="{}", help="of the model, as JSON")
    arguments.add_argument("--learning-rate", type=float)
    arguments.add_argument("--half", action="store_true", help="store the weights in half precision")
    options = arguments.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    start = time.time()
    wanted = {}
    for name in options.rows:
        row = ROWS[name]
        wanted[dataset_key(row.trained_on, TRAINING_SEED)] = (row.trained_on, TRAINING_SEED, options.samples)
        for family in row.tested_on.values():
            wanted[dataset_key(family, test_seed(family))] = (family, test_seed(family), options.test_samples)
    joblib.Parallel(n_jobs=-1)(joblib.delayed(dataset)(options.folder, *job) for job in wanted.values())
    print(f"data: {time.time() - start:.0f} s", flush=True)
    for name in options.rows:
        run_row(name, ROWS[name], options)
        print(f"   {time.time() - start:.0f} s in all", flush=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def dataset_key(family: Family, seed: int) -> str:
    return f"{family}{seed}"


if __name__ == "__main__":
    main()
