"""Fresh samples for every epoch, prepared while the epoch before trains."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import joblib

from beno.batches.base import Batch, Batches
from beno.datasets.stream import Stream
from beno.problems.problem import Problem
from beno.problems.solution import Solution

Prepare = Callable[[list[Solution]], Batches[Batch]]
Given = TypeVar("Given")
Made = TypeVar("Made")


class FreshBatches:
    """What a model is fed with in each epoch, from a stream.

    Another thread has processes draw problems and prepare batches. The thread that trains solves the problems in
    between: that is quick, and two threads that compute on one GPU at once would change each other's settings.
    """

    def __init__(self, stream: Stream, prepare: Prepare, workers: int = 1) -> None:
        self.stream, self._prepare, self._workers = stream, prepare, workers
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fresh samples")
        self._drawn: dict[int, Future[list[Problem]]] = {}  # by epoch
        self._prepared: dict[int, Future[Batches[Batch]]] = {}

    def of_epoch(self, epoch: int) -> Batches[Batch]:
        """Waits for them if they are not prepared yet."""
        self._start(epoch)
        return self._prepared.pop(epoch).result()

    def look_ahead(self, epoch: int, epochs: int) -> None:
        """Prepare this epoch and draw the one after it, if there are so many, while something else goes on."""
        if epoch < epochs:
            self._start(epoch)
        if epoch + 1 < epochs:
            self._draw(epoch + 1)

    def close(self) -> None:
        """What is not begun is not done any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self, work: Callable[[Given], Made], given: Given) -> Future[Made]:
        def on_workers() -> Made:
            with joblib.parallel_config(backend="loky", n_jobs=self._workers):
                return work(given)

        return self._thread.submit(on_workers)

    def _draw(self, epoch: int) -> None:
        if epoch not in self._drawn:
            self._drawn[epoch] = self._submit(self.stream.problems, epoch)

    def _start(self, epoch: int) -> None:
        if epoch not in self._prepared:
            self._draw(epoch)
            solutions = self.stream.solved(self._drawn.pop(epoch).result())
            self._prepared[epoch] = self._submit(self._prepare, solutions)
