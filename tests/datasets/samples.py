"""Solved problems and files of them, for the tests of data."""

from pathlib import Path

from beno.datasets.hdf5 import Block, write
from beno.datasets.metadata import Metadata
from beno.datasets.records import Record
from beno.problems.families import Family
from beno.problems.solution import Solution
from beno.solvers.direct import Direct

SEED = 3


def solutions_of(family: Family, count: int = 6) -> list[Solution]:
    return [Direct().solve(family.problem(SEED, index)) for index in range(count)]


def record_of(index: int = 0, resolution: int = 16, **choices: object) -> Record:
    return Record.of(Direct().solve(Family(resolution=resolution, **choices).problem(11, index)))


def stored(path: Path, family: Family, solutions: list[Solution]) -> Path:
    """A file of them, written in two blocks where there are more than four."""
    metadata = Metadata.of_family(family, SEED, len(solutions))
    write(path, metadata, [Block.pack(part) for part in (solutions[:4], solutions[4:]) if part])
    return path
