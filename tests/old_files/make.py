"""Writes the small files of the present version, which later versions must read as they are read now.

    PYTHONPATH=src python tests/old_files/make.py

Run once for each version of a format; files of a version that has been published are never made again.
"""

import argparse
from pathlib import Path

import numpy as np

from beno.datasets import hdf5
from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.problems.families import Family

HERE = Path(__file__).parent
SEED, SAMPLES = 5, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--over", action="store_true", help="replace the files of this version")
    folder = HERE / f"version{hdf5.VERSION}"
    if folder.exists() and not parser.parse_args().over:
        raise SystemExit(f"{folder} exists; --over replaces what is in it")
    folder.mkdir(exist_ok=True)
    hdf5.ROWS_A_CHUNK = 64  # in place of 4096, only to make the file smaller
    path = folder / "darcy-mixed.h5"
    make(Family("darcy", "mixed", corners="mixed", resolution=8), SEED, SAMPLES, path)
    with Dataset(path) as dataset:
        records = list(dataset.records())
        split = dataset.split_number
    answers = {
        f"samples/{path.stem}/{name}": np.concatenate([record[name] for record in records])
        for name in records[0].values
    }
    answers[f"counts/{path.stem}"] = np.array([(len(record["u"]), len(record["g"])) for record in records])
    answers[f"split/{path.stem}"] = split
    np.savez_compressed(folder / "answers.npz", **answers)


if __name__ == "__main__":
    main()
