"""Making a dataset: block by block, on any number of workers, taking up where it stopped.

On the CPU each worker solves what it draws. With a GPU the workers draw, and this process solves their blocks on it.

Blocks are themselves small datasets in a folder beside the target, `.NAME.parts`. A block is there
whole or not at all, so a second run makes only what is missing; at the end all blocks are joined.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from beno.datasets.dataset import Dataset
from beno.datasets.hdf5 import Block, write
from beno.datasets.metadata import Metadata
from beno.datasets.solver import solver_for
from beno.problems.families import Family
from beno.problems.problem import Problem
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from beno.support.files import LOCK, clear_left_behind, require_file_place, require_own_folder, whole_file_or_none
from beno.support.interruptions import Interruptions
from beno.support.locks import Lock

MOST_SAMPLES_A_BLOCK = 256
MOST_SAMPLES = 10**8
BLOCKS_UNDER_WAY = 4  # by worker, before their results are taken
BLOCKS_SOLVED_TOGETHER = 8  # on a GPU, which solves so many in hardly more time than one
MOST_CELLS_A_BLOCK = 2**18  # keeps a block near 10 MB, whatever the resolution


Work = TypeVar("Work")  # what is made of some problems


def make_block(family: Family, seed: int, start: int, stop: int) -> Block:
    """Some problems of a family, solved."""
    return Block.pack([Direct().solve(family.problem(seed, index)) for index in range(start, stop)])


def draw(family: Family, seed: int, start: int, stop: int) -> list[Problem]:
    """Some problems of a family."""
    return [family.problem(seed, index) for index in range(start, stop)]


def make(
    family: Family,
    seed: int,
    samples: int,
    path: Path,
    workers: int = 1,
    dask_address: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
    device: str = "cpu",
) -> None:
    """Write ``samples`` solved problems to ``path``; ``progress`` hears how many are done.

    The device is cpu or cuda; `solver_for` says which solver that means.
    """
    path = require_file_place(path)
    if samples < 1:
        raise BenoError(f"{samples} samples were asked for; a dataset needs at least 1")
    if samples > MOST_SAMPLES:
        raise BenoError(f"{samples} samples were asked for; a dataset holds {MOST_SAMPLES} at most")
    if workers < 1:
        raise BenoError(f"{workers} workers were asked for; at least 1 is needed")
    if seed < 0:
        raise BenoError(f"the seed is {seed}; it must not be negative")
    metadata = _metadata(family, seed, samples, device)
    size = max(1, min(MOST_SAMPLES_A_BLOCK, MOST_CELLS_A_BLOCK // family.resolution**2))
    with Interruptions() as interruptions, _parts_folder(path, metadata) as folder:
        parts = {start: folder / f"{start:09d}.h5" for start in range(0, samples, size)}
        missing = [start for start, part in parts.items() if not _is_whole(part, min(size, samples - start))]
        done = samples - sum(min(size, samples - start) for start in missing)
        progress(done)
        ranges = [(start, min(start + size, samples)) for start in missing]
        blocks = _make_blocks(family, seed, ranges, workers, dask_address, device)
        for start, block in zip(missing, blocks, strict=True):
            write(parts[start], replace(metadata, samples=len(block)), [block], lasting=False)
            interruptions.raise_lost()
            done += len(block)
            progress(done)
        write(path, metadata, _read_parts(list(parts.values())))


def is_made(family: Family, seed: int, samples: int, path: Path, device: str = "cpu") -> bool:
    """Whether the file is this very dataset, made by this version and with this device's solver."""
    try:
        with Dataset(path) as dataset:
            found = replace(dataset.metadata, solver=dataset.metadata.solver or Direct.name)  # as it was for all once
            return found == _metadata(family, seed, samples, device)
    except BenoError:
        return False


def _metadata(family: Family, seed: int, samples: int, device: str) -> Metadata:
    return Metadata.of_family(family, seed, samples, solver_for(family.resolution, device).name)


def _make_blocks(
    family: Family, seed: int, ranges: list[tuple[int, int]], workers: int, dask_address: str | None, device: str
) -> Iterator[Block]:
    solver = solver_for(family.resolution, device)
    if isinstance(solver, Direct):
        yield from _on_workers(make_block, family, seed, ranges, workers, dask_address)
        return
    drawn = _on_workers(draw, family, seed, ranges, workers, dask_address)
    while some := list(islice(drawn, BLOCKS_SOLVED_TOGETHER)):
        solutions = iter(solver.solve_many([problem for problems in some for problem in problems]))
        yield from (Block.pack(list(islice(solutions, len(problems)))) for problems in some)


def _on_workers(
    work: Callable[[Family, int, int, int], Work],
    family: Family,
    seed: int,
    ranges: list[tuple[int, int]],
    workers: int,
    dask_address: str | None,
) -> Iterator[Work]:
    """What is made of each range of problems, in their order."""
    if workers == 1 and dask_address is None:
        yield from (work(family, seed, *limits) for limits in ranges)
        return
    import joblib

    with (
        _dask_backend(dask_address) if dask_address else nullcontext(),
        joblib.Parallel(n_jobs=-1 if dask_address else workers, return_as="generator") as run,
    ):
        # In waves, since finished blocks that nobody has taken yet pile up in memory.
        wave = BLOCKS_UNDER_WAY * run.n_jobs if run.n_jobs > 0 else len(ranges)
        for first in range(0, len(ranges), wave):
            try:
                yield from run(joblib.delayed(work)(family, seed, *limits) for limits in ranges[first : first + wave])
            except (RuntimeError, OSError) as error:  # a worker was killed, or the cluster is gone
                reason = str(error).strip().split("\n")[0]
                raise BenoError(f"a worker stopped ({reason}); the same command goes on where it was") from error


@contextmanager
def _dask_backend(address: str) -> Iterator[None]:
    try:
        from distributed import Client
    except ImportError as error:
        raise BenoError("--dask needs the package distributed: pip install 'beno[dask]'") from error
    import joblib

    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise BenoError(f"no Dask scheduler answers at {address}: {error}") from error
    with client, joblib.parallel_config(backend="dask"):
        yield


@contextmanager
def _parts_folder(path: Path, metadata: Metadata) -> Iterator[Path]:
    """The folder of finished blocks, held by one process at a time; emptied if made for another dataset.

    It goes when the dataset is there, or when there is no block to go on from.
    """
    folder = path.with_name(f".{path.name}.parts")
    finished = False
    try:
        if not path.parent.is_dir():
            raise BenoError(f"cannot write {path}: there is no folder {path.parent}")
        require_own_folder(folder)
        with Lock(folder / LOCK) as lock:
            lock.require(f"another process is making {path}")
            try:
                _claim(folder, metadata)
                yield folder
                finished = True
            finally:
                if finished or not any(folder.glob("*.h5")):
                    shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise BenoError(f"cannot write {path}: {error.strerror or error}") from error


def _claim(folder: Path, metadata: Metadata) -> None:
    clear_left_behind(folder)
    claim = folder / "metadata.json"
    if claim.exists() and claim.read_text() == metadata.to_json():
        return
    for part in folder.glob("*.h5"):
        part.unlink()
    with whole_file_or_none(claim, lasting=False) as unfinished:
        unfinished.write_text(metadata.to_json())


def _is_whole(part: Path, samples: int) -> bool:
    """A block that a loss of power left empty or short is made again."""
    if not part.exists():
        return False
    try:
        with Dataset(part) as dataset:
            return len(dataset) == samples
    except BenoError:
        return False


def _read_parts(parts: list[Path]) -> Iterator[Block]:
    for part in parts:
        with Dataset(part) as dataset:
            yield dataset.block(0, len(dataset))
