"""Runs a function in a process of its own, on one thread, and says how much memory that took at most."""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

MIB = 2**20
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def run(function: Callable[..., T], *arguments: object) -> tuple[T, float]:
    """The function's answer, and the peak of resident memory in MiB, imports included."""
    os.environ.update(ONE_THREAD)  # read by the new process when it loads its libraries
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_with_peak, function, arguments).result()


def nothing() -> None:
    """What a process takes before it does anything: Python and the imports."""


def _with_peak(function: Callable[..., T], arguments: tuple[object, ...]) -> tuple[T, float]:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return function(*arguments), _peak_mib()


def _peak_mib() -> float:
    # Not getrusage's ru_maxrss: a new process inherits that from its parent, however large it was.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MIB
    raise OSError("the system does not tell the peak memory")
