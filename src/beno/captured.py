"""A whole training step as one CUDA graph: the host launches it once instead of some seven hundred kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from beno.batch import Batch, BatchSize, Cohort, copy_into

WARM_UP_STEPS = 3


class CapturedStep:
    """Replays ``update`` on batches of one size, with the rate and the scale as they are at each call."""

    def __init__(
        self, update: Callable[[Batch, Tensor], Tensor], optimizer: Any, rate: Tensor, cohort: Cohort, size: BatchSize
    ) -> None:
        self.size = size
        batch = cohort.padded_batch(_indices_that_fit(cohort, size), size)
        assert batch is not None
        self._batch = batch
        self._scale = torch.zeros((), device=cohort.device)

        # Warming up compiles kernels and makes the optimizer allocate its state. With a rate of zero
        # no weight moves; the optimizer's state is put back in place afterwards.
        kept_rate = rate.clone()
        kept_state = {id(p): {k: v.clone() for k, v in s.items()} for p, s in optimizer.state.items()}
        rate.zero_()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                update(self._batch, self._scale)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = update(self._batch, self._scale)
        for parameter, state in optimizer.state.items():
            for key, tensor in state.items():
                kept = kept_state.get(id(parameter), {}).get(key)
                tensor.zero_() if kept is None else tensor.copy_(kept)
        rate.copy_(kept_rate)

    def __call__(self, batch: Batch, scale: float) -> Tensor:
        copy_into(self._batch, batch)
        self._scale.fill_(scale)
        self._graph.replay()
        return self._loss.clone()


def _indices_that_fit(cohort: Cohort, size: BatchSize) -> np.ndarray:
    """Some samples, few enough for the size: what they are does not matter, only that shapes are right."""
    smallest_first = np.argsort(cohort.edge_counts)
    return smallest_first[: min(size.samples, len(cohort))]
