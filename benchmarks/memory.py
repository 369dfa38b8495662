"""Peak memory of making and of reading a dataset: it must not grow with the number of samples."""

import argparse
import tempfile
from pathlib import Path

import fresh_process
from record import record
from rich.console import Console
from rich.table import Table

from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.problems.families import Family

MOST_GROWTH = 0.1  # of the peak, from the fewest samples to the most


def read_all(path: Path) -> int:
    with Dataset(path) as dataset:
        return sum(1 for _ in dataset)


def peaks(samples: int, seed: int) -> dict[str, float]:
    """MiB, each in a process of its own; the file lies in a temporary folder and goes with it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.h5"
        _, making = fresh_process.run(make, Family(), seed, samples, path)
        read, reading = fresh_process.run(read_all, path)
        if read != samples:
            raise ValueError(f"{read} samples were read where {samples} were made")
        return {"samples": samples, "making": making, "reading": reading, "file": path.stat().st_size / 2**20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    _, imports = fresh_process.run(fresh_process.nothing)
    rows = [peaks(samples, options.seed) for samples in sorted(options.samples)]
    growth = {what: rows[-1][what] / rows[0][what] - 1 for what in ("making", "reading")}
    figures = {
        "imports_mib": imports,
        "peak_mib": rows,
        "growth": growth,
        "reached": max(growth.values()) <= MOST_GROWTH if len(rows) > 1 else None,  # one count cannot show growth
    }

    table = Table("samples", "making", "reading", "file", title=f"Peak memory in MiB; imports alone {imports:.0f}")
    for row in rows:
        table.add_row(f"{row['samples']:,}", f"{row['making']:.0f}", f"{row['reading']:.0f}", f"{row['file']:.0f}")
    table.add_row("growth", f"{growth['making']:+.1%}", f"{growth['reading']:+.1%}", "")
    Console().print(table)
    record("memory", vars(options) | {"most_growth": MOST_GROWTH}, figures)


if __name__ == "__main__":
    main()
