"""A whole training step as one CUDA graph: the host launches it once instead of some seven hundred kernels."""

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass

import torch
from torch import Tensor

from beno.batches.base import Feed
from beno.support.errors import BenoError

Update = Callable[[Feed, Tensor], Tensor]  # with the scale of each sample, to the loss

WARM_UP_STEPS = 3
LARGEST_DIFFERENCE = 0.01  # between the losses of a replayed step and a plain one, which differ by rounding


class CapturedStep:
    """Replays ``update`` on feeds of one size, with the rate and the scale as they are at each call."""

    def __init__(
        self, update: Update, optimizer: torch.optim.Optimizer, rate: Tensor, feed: Feed, samples: int
    ) -> None:
        self._feed = feed
        self._scale = torch.full((samples,), 1 / samples, device=rate.device)

        # Warming up compiles kernels and makes the optimizer allocate its state. With a rate of zero
        # no weight moves; the optimizer's state is put back in place afterwards.
        kept_rate = rate.clone()
        kept_state = {id(p): {k: v.clone() for k, v in s.items()} for p, s in optimizer.state.items()}
        rate.zero_()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                plain = update(self._feed, self._scale)
        torch.cuda.current_stream().wait_stream(side)
        expected = float(plain)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = update(self._feed, self._scale)
        self._graph.replay()
        replayed = float(self._loss)
        if math.isfinite(expected) and not abs(replayed - expected) <= LARGEST_DIFFERENCE * abs(expected):
            raise BenoError(
                f"a captured step has a loss of {replayed:.6g} where a plain one has {expected:.6g}: this device or its"
                " driver goes wrong in replaying; give the process the whole device, or use beno train --no-captured"
            )
        for parameter, state in optimizer.state.items():
            for key, tensor in state.items():
                kept = kept_state.get(id(parameter), {}).get(key)
                tensor.zero_() if kept is None else tensor.copy_(kept)
        rate.copy_(kept_rate)

    def fits(self, feed: Feed) -> bool:
        return [tensor.shape for tensor in tensors_of(feed)] == [tensor.shape for tensor in tensors_of(self._feed)]

    def __call__(self, feed: Feed, scale: Tensor) -> Tensor:
        for old, new in zip(tensors_of(self._feed), tensors_of(feed), strict=True):
            old.copy_(new)
        self._scale.copy_(scale)
        self._graph.replay()
        return self._loss.clone()


def tensors_of(feed: object) -> Iterator[Tensor]:
    """All tensors in a dataclass and in those within it, always in the same order."""
    for field in fields(feed):  # type: ignore[arg-type]
        value = getattr(feed, field.name)
        if isinstance(value, Tensor):
            yield value
        elif is_dataclass(value):
            yield from tensors_of(value)
