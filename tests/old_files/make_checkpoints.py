"""Writes small checkpoints of the present version, and what they answer, for later versions to answer the same.

    PYTHONPATH=src python tests/old_files/make_checkpoints.py

Run once for each version of the format; files of a version that has been published are never made again.
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from beno.datasets.metadata import Metadata
from beno.datasets.scales import Scales
from beno.learned import checkpoints
from beno.learned.checkpoints import Header
from beno.learned.operator import LearnedOperator
from beno.models.registry import model_class
from beno.problems.families import Family

HERE = Path(__file__).parent
SEED, SAMPLES = 5, 2

# The file's stem, and the model, its family and settings beyond the small ones.
CHECKPOINTS = {
    "beno": ("beno", Family("darcy", "mixed"), {"width": 4, "steps": 1, "residual": True, "layer_norm": True}),
    "fno": ("fno", Family("darcy", "mixed"), {}),
    "fno-modes-6": ("fno", Family(), {"modes": 6, "width": 2}),  # of which a grid of 8 has four
    "gkn": ("gkn", Family(boundary="robin"), {}),
    "gnn-pde": ("gnn-pde", Family(boundary="neumann"), {}),
    "mp-pde": ("mp-pde", Family("darcy"), {}),
    "harmonic-dirichlet": ("harmonic", Family(), {}),
    "harmonic-neumann": ("harmonic", Family(boundary="neumann"), {}),
    "harmonic-darcy-mixed": ("harmonic", Family("darcy", "mixed"), {}),
}


def save(path: Path, stem: str) -> None:
    """Weights drawn by a seed, each moved by a little noise; nothing is trained."""
    name, family, settings = CHECKPOINTS[stem]
    network = model_class(name)
    told = network.Config.settings_for(family.problem_class)
    config = network.Config.from_settings({**told, **network.small, **settings})
    torch.manual_seed(1 + list(CHECKPOINTS).index(stem))
    model = network(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    header = Header(name, asdict(config), Scales(2.0, 0.5, 0.25), Metadata.of_family(family, SEED, SAMPLES), epoch=7)
    checkpoints.save(path, header, model.state_dict())


def answers(path: Path) -> dict[str, np.ndarray]:
    """What each branch adds to u, and the problems' f and g, by `checkpoint/array/sample`."""
    operator = LearnedOperator.load(path)
    _, family, _ = CHECKPOINTS[path.stem]
    family = replace(family, resolution=8, corners="mixed")
    found = {}
    for index in range(SAMPLES):
        problem = family.problem(SEED, index)
        branches = operator.predict_branches([problem])[0].astype(np.float32)
        arrays = {"f": problem.f, "g": problem.g, "branches": branches}
        found |= {f"{path.stem}/{name}/{index}": array for name, array in arrays.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--over", action="store_true", help="replace the checkpoints of this version")
    folder = HERE / f"version{checkpoints.VERSION}"
    known = folder / "answers_checkpoints.npz"
    if known.exists() and not parser.parse_args().over:
        raise SystemExit(f"{known} exists; --over replaces it and the checkpoints")
    torch.set_num_threads(1)
    folder.mkdir(exist_ok=True)
    found = {}
    for stem in CHECKPOINTS:
        save(folder / f"{stem}.safetensors", stem)
        found |= answers(folder / f"{stem}.safetensors")
    np.savez_compressed(known, **found)


if __name__ == "__main__":
    main()
