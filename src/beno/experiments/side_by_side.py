"""Several processes that fill the same tables, each at the rows that no other one is at."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import connection, resource_tracker

import torch

from beno.errors import BenoError
from beno.experiments.queue import Queue, Standing
from beno.experiments.tables import Table

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)


def fill(
    queue: Queue, tables: list[Table], time_limit: float, processes: int, say: Callable[[str], None]
) -> tuple[Standing, bool]:
    """What is left to do, and whether all processes beside this one could fill their rows."""
    context = multiprocessing.get_context("spawn")
    beside = [
        context.Process(target=_fill_beside, args=(queue, tables, time_limit, processes)) for _ in range(processes - 1)
    ]
    try:
        resource_tracker.ensure_running()  # which lets interruptions through as it starts
        with _interruptions_held():
            for process in beside:
                process.start()
        if beside:
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
    return standing, not any(process.exitcode for process in beside)


def _fill_beside(queue: Queue, tables: list[Table], time_limit: float, processes: int) -> None:
    """In a process of its own, which ends with the one that started it, however that ends."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the one that started it to end it
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left half-written
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)
        parent = multiprocessing.parent_process()
        if parent is not None:
            threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
        _share_cores(processes)
        failed = queue.fill(tables, time_limit, partial(print, flush=True)).failed
    except (BenoError, OSError) as error:
        print(error, flush=True)
        failed = (str(error),)
    except KeyboardInterrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once more would only disturb the end
        sys.exit(1)
    sys.exit(bool(failed))


@contextmanager
def _interruptions_held() -> Iterator[None]:
    """Until the end of this; and, in a process that is started meanwhile, until it is ready for them.

    That they are blocked is what the new process inherits. Another thread of this one may get them in spite of it.
    """
    asked: list[int] = []
    handlers = {sent: signal.getsignal(sent) for sent in INTERRUPTIONS}
    handlers = {sent: handler for sent, handler in handlers.items() if callable(handler)}  # not what is ignored
    for sent in handlers:
        signal.signal(sent, lambda number, frame: asked.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for sent, handler in handlers.items():
            signal.signal(sent, handler)
    if asked:
        raise KeyboardInterrupt


def _share_cores(processes: int) -> None:
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
