"""Several processes that fill the same tables, each at the rows that no other one is at."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import connection, resource_tracker

import torch

from beno.paper.queue import Queue, Standing
from beno.paper.tables import Table
from beno.support.errors import BenoError
from beno.support.interruptions import Held, ignore, let_through

LARGEST = 15 * 2**30  # bytes of a GPU that the largest training takes, GKN's on mixed shapes


def fitting(device: str) -> int:
    """How many trainings fit beside each other.

    On a GPU as many as its free memory and the cores of the host allow; on a CPU one, which all cores work at.
    """
    if device != "cuda":
        return 1
    try:
        free, _ = torch.cuda.mem_get_info()
    except RuntimeError:  # too full even to tell, which the training itself will say
        return 1
    return max(1, min(free // LARGEST, os.cpu_count() or 1))


def fill(
    queue: Queue, tables: list[Table], time_limit: float, processes: int, say: Callable[[str], None]
) -> tuple[Standing, bool]:
    """Fill tables in several processes: how far they are filled then, and whether no other process failed."""
    context = multiprocessing.get_context("spawn")
    beside = [
        context.Process(target=_fill_beside, args=(queue, tables, time_limit, processes)) for _ in range(processes - 1)
    ]
    try:
        if beside:
            resource_tracker.ensure_running()  # which lets interruptions through as it starts
            with Held():
                for process in beside:
                    process.start()
            _share_cores(processes)
        standing = queue.fill(tables, time_limit, say)
        for process in beside:
            process.join()
    finally:
        started = [process for process in beside if process.pid is not None]
        for process in started:
            process.terminate()
        for process in started:
            process.join()
    now = replace(queue.standing(tables), held=standing.held, failed=standing.failed)
    return now, not any(process.exitcode for process in beside)


def _fill_beside(queue: Queue, tables: list[Table], time_limit: float, processes: int) -> None:
    """What each process beside the first one does; it ends when the first one does, however that ends."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left half-written
        let_through()
        parent = multiprocessing.parent_process()
        if parent is not None:
            threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
        _share_cores(processes)
        failed = queue.fill(tables, time_limit, partial(print, flush=True)).failed
    except (BenoError, OSError) as error:
        print(error, flush=True)
        failed = (str(error),)
    except KeyboardInterrupt:
        ignore()
        sys.exit(1)
    sys.exit(bool(failed))


def _share_cores(processes: int) -> None:
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
