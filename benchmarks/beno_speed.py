"""How long BENO takes to train on and to infer one 4-Corners sample, and how far that is from the device's floor.

The floating-point operations and the bytes are counted from the sizes of the graphs; the ceilings, a large
matrix product and a large copy, are measured in the same run. Meant for a GPU: `python benchmarks/beno_speed.py`.
"""

import argparse
import shutil
import tempfile
import time
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from record import record

from beno.batches.augmentation import Selection
from beno.batches.graphs import GraphBatches
from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.models.beno import BENOConfig
from beno.problems.families import Family
from beno.training.config import PRESETS
from beno.training.fabric import make_fabric
from beno.training.run import Run

# The authors' code on one H200 with the paper's list of parameters, ms a sample.
AUTHORS_TRAINING, AUTHORS_INFERENCE = 72.5, 18.6
VARIANTS = {"paper's equations": {}, "residuals and layer norms": {"residual": True, "layer_norm": True}}


def operations(config: BENOConfig, points: float, edges: float, panels: int) -> float:
    """Floating-point operations of one forward pass over one sample, products only."""
    square = 2 * config.width**2
    layers = config.mlp_layers
    an_edge = layers + (layers + 1) * (config.steps - 1) / config.steps
    a_node = 2 + (layers + 1)
    message_passing = config.steps * square * (edges * an_edge + points * a_node)
    encoders = square * (edges + points)  # their second layers; the first are narrow
    boundary = config.steps * config.boundary_layers * panels * (12 * square + 4 * panels * config.width)
    return config.branch_count * (message_passing + encoders + points * square + boundary)


def bytes_moved(config: BENOConfig, edges: float) -> float:
    """The fewest bytes of one training step over one sample: every layer on edges reads and writes each of its
    tensors once forward, and backward reads the gradient and the input and writes one gradient."""
    layers = config.mlp_layers * config.steps + (config.mlp_layers + 1) * (config.steps - 1)
    return config.branch_count * edges * config.width * 2 * layers * (2 + 3)


def ceilings(device: torch.device) -> tuple[float, float]:
    """Operations a second of a large product in bfloat16, and bytes a second of a large copy."""
    a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    product = seconds(lambda: a @ a)
    big = torch.randn(2**28, device=device)
    target = torch.empty_like(big)
    copy = seconds(lambda: target.copy_(big))
    return 2 * 8192**3 / product, 2 * big.nbytes / copy


def seconds(action, repeats: int = 10) -> float:
    for _ in range(3):
        action()
    synchronise()
    start = time.perf_counter()
    for _ in range(repeats):
        action()
    synchronise()
    return (time.perf_counter() - start) / repeats


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batch-sizes", type=int, nargs="+", default=[16, 32, 64])
    arguments.add_argument("--samples", type=int, default=1000)
    arguments.add_argument("--resolution", type=int, default=32)
    arguments.add_argument("--width", type=int, default=128)
    options = arguments.parse_args()

    folder = Path(tempfile.mkdtemp())
    make(Family(resolution=options.resolution), 0, options.samples, folder / "four.h5")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    product, copy = ceilings(device) if device.type == "cuda" else (float("nan"), float("nan"))
    rows = []
    for variant, settings in VARIANTS.items():
        for batch_size in options.batch_sizes:
            rows.append(measure(folder, variant, {"width": options.width, **settings}, batch_size, product, copy))
            print(
                f"{variant:28s} batch {batch_size:3d}: {rows[-1]['train_ms']:.3f} ms to train, "
                f"{rows[-1]['infer_ms']:.3f} ms to infer, floor {rows[-1]['floor_ms']:.3f} ms",
                flush=True,
            )
    shutil.rmtree(folder)
    figures = {
        "rows": rows,
        "product_flops": product,
        "copy_bytes_a_second": copy,
        "authors_train_ms": AUTHORS_TRAINING,
        "authors_infer_ms": AUTHORS_INFERENCE,
    }
    record("beno_speed", vars(options) | {"seed": 0}, figures)


def selection_of(batches: GraphBatches, batch_size: int, seed: int) -> Selection:
    rng = np.random.default_rng(seed)
    return batches.select(rng.permutation(len(batches))[:batch_size], rng)


def measure(folder: Path, variant: str, settings: dict, batch_size: int, product: float, copy: float) -> dict:
    config = PRESETS["fast"]
    fabric = make_fabric()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with Dataset(folder / "four.h5") as dataset:
        run = Run(
            Path(tempfile.mkdtemp(dir=folder)) / "run",
            dataset,
            settings=settings,
            config=replace(config, batch_size=batch_size),
            fabric=fabric,
        )
    batches = run.train_set
    selections = cycle([selection_of(batches, batch_size, i) for i in range(10)])
    train = seconds(lambda: run.steps(next(selections), config.learning_rate))
    run.network.eval()
    with torch.no_grad(), run.steps.autocast():
        batch = batches.batch(np.arange(min(100, len(batches))))
        infer = seconds(lambda: run.network(batch)) / len(batch)
    model = run.network.config
    points, edges = batches.point_counts.mean(), batches.edge_counts.mean()
    flops = 3 * operations(model, points, edges, int(batches.panel_counts[0]))
    moved = bytes_moved(model, edges)
    return {
        "variant": variant,
        "batch_size": batch_size,
        "train_ms": 1000 * train / batch_size,
        "infer_ms": 1000 * infer,
        "train_gflop": flops / 1e9,
        "train_megabytes": moved / 1e6,
        "floor_ms": 1000 * max(flops / product, moved / copy),
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None,
    }


if __name__ == "__main__":
    main()
