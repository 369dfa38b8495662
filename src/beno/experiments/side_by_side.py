"""Several processes that fill the same tables, each at the rows that no other one is at."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import connection

import torch

from beno.errors import BenoError
from beno.experiments.queue import Queue, Standing
from beno.experiments.tables import Table


def fill(
    queue: Queue, tables: list[Table], time_limit: float, processes: int, say: Callable[[str], None]
) -> tuple[Standing, bool]:
    """What is left to do, and whether all processes beside this one could fill their rows."""
    context = multiprocessing.get_context("spawn")
    beside = [
        context.Process(target=_fill_beside, args=(queue, tables, time_limit, processes)) for _ in range(processes - 1)
    ]
    with _interruptions_ignored():  # which they inherit: it is for this one to end them
        for process in beside:
            process.start()
    try:
        if beside:
            _share_cores(processes)
        standing = queue.fill(tables, time_limit, say)
        for process in beside:
            process.join()
    finally:
        for process in beside:
            process.terminate()
        for process in beside:
            process.join()
    return standing, not any(process.exitcode for process in beside)


def _fill_beside(queue: Queue, tables: list[Table], time_limit: float, processes: int) -> None:
    """In a process of its own, which ends with the one that started it, however that ends."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interruption, which leaves nothing half-written
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _share_cores(processes)
    try:
        failed = queue.fill(tables, time_limit, partial(print, flush=True)).failed
    except (BenoError, OSError) as error:
        print(error, flush=True)
        failed = (str(error),)
    except KeyboardInterrupt:
        sys.exit(1)
    sys.exit(bool(failed))


@contextmanager
def _interruptions_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _share_cores(processes: int) -> None:
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
