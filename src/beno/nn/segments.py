"""Moving features between the nodes and edges of a graph, forward and backward, without atomic additions.

The edges are ordered by receiver and each knows where its reverse stands, so both directions of both
moves are gathers or sums over consecutive rows: fast, and the same to the bit every time.
"""

from dataclasses import dataclass
from functools import cache
from types import ModuleType

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from beno.nn.autograd import Context, Gradients


@cache
def fused_kernels() -> ModuleType | None:
    """The Triton kernels, where there is a Triton to compile them."""
    try:
        from beno.nn.triton import graph as fused
    except ImportError:
        return None
    return fused


@dataclass(eq=False)  # not frozen: Fabric rebuilds what it passes to a model field by field
class Wiring:
    """The edges of a graph, ordered by receiver; each knows where its reverse stands."""

    receiver: Int[Tensor, " e"]
    sender: Int[Tensor, " e"]
    reverse: Int[Tensor, " e"]
    start: Int[Tensor, " n_plus_one"]

    def repeat(self, copies: int) -> "Wiring":
        """The same graph several times over, for tensors that hold several branches."""
        if copies == 1:
            return self
        nodes, edges = len(self.start) - 1, len(self.receiver)
        shift = torch.arange(copies, device=self.start.device)[:, None]
        return Wiring(
            receiver=(self.receiver + nodes * shift).flatten(),
            sender=(self.sender + nodes * shift).flatten(),
            reverse=(self.reverse + edges * shift).flatten(),
            start=torch.cat([(self.start[:-1] + edges * shift).flatten(), self.start[-1:] * copies]),
        )


def sum_over_segments(
    values: Float[Tensor, "rows c"],
    start: Int[Tensor, " n_plus_one"],
    order: Int[Tensor, " e"] | None = None,
    weight: Float[Tensor, "e 1"] | None = None,
    activate: bool = False,
) -> Float[Tensor, "n c"]:
    """Sums of consecutive rows: segment i is the rows start[i] to start[i + 1], of ``values`` or of ``values[order]``,
    each times its weight if there are some; of what SiLU makes of them, if told to."""
    kernels = _kernels_for(values)
    if kernels is not None:
        return kernels.segment_sum(values.contiguous(), start, order, weight, activate)
    values = functional.silu(values) if activate else values
    if not values.is_cuda:
        # Gathers, weighs and adds in one pass over what is in the cache; segment_reduce takes 15 to 200 times as long.
        rows = torch.arange(len(values)) if order is None else order
        weights = None if weight is None else weight[:, 0].to(values.dtype)
        return functional.embedding_bag(
            rows, values, start, mode="sum", per_sample_weights=weights, include_last_offset=True
        )
    values = values if order is None else values.index_select(0, order)
    values = values if weight is None else weight * values
    return torch.segment_reduce(values, "sum", offsets=start, axis=0, unsafe=True, initial=0.0)


def _kernels_for(values: Tensor) -> ModuleType | None:
    """They add up in single precision, and take powers of two for widths."""
    fits = values.is_cuda and values.shape[1].bit_count() == 1 and values.dtype != torch.float64
    if not fits or fused_kernels() is None:
        return None
    from beno.nn.triton import rows as fused_rows

    return fused_rows


def _rows_of(
    values: Float[Tensor, "n c"], index: Int[Tensor, " e"], some_missing: bool = False
) -> Float[Tensor, "e c"]:
    """``values[index]``; zero at -1, if some are."""
    kernels = _kernels_for(values)
    if kernels is not None:
        return kernels.gather(values.contiguous(), index)
    if not some_missing:
        return values.index_select(0, index)
    return values.index_select(0, index.clamp(min=0)).masked_fill_((index < 0)[:, None], 0)


class _ToEdges(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context,
        at_receiver: Tensor,
        at_sender: Tensor,
        receiver: Tensor,
        sender: Tensor,
        reverse: Tensor,
        start: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(reverse, start)
        kernels = _kernels_for(at_receiver)
        if kernels is not None and at_receiver.dtype == at_sender.dtype:
            return kernels.gather(at_receiver.contiguous(), receiver, at_sender.contiguous(), sender)
        return at_receiver.index_select(0, receiver) + at_sender.index_select(0, sender)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        (gradient,) = gradients
        reverse, start = ctx.saved_tensors
        to_receiver = sum_over_segments(gradient, start)
        to_sender = sum_over_segments(gradient, start, reverse)
        return to_receiver, to_sender, None, None, None, None


class _ToSegments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, values: Tensor, receiver: Tensor, start: Tensor) -> Tensor:
        ctx.save_for_backward(receiver)
        return sum_over_segments(values, start)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        (receiver,) = ctx.saved_tensors
        return _rows_of(gradients[0], receiver), None, None


def to_edges(
    at_receiver: Float[Tensor, "n c"], at_sender: Float[Tensor, "n c"], wiring: Wiring
) -> Float[Tensor, "e c"]:
    """What each edge's receiver and its sender have to say, added."""
    return _ToEdges.apply(at_receiver, at_sender, wiring.receiver, wiring.sender, wiring.reverse, wiring.start)


def to_nodes(values: Float[Tensor, "e c"], wiring: Wiring) -> Float[Tensor, "n c"]:
    """The sum over each node's incoming edges."""
    return _ToSegments.apply(values, wiring.receiver, wiring.start)


class _ActivatedToNodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, values: Tensor, receiver: Tensor, start: Tensor) -> Tensor:
        ctx.save_for_backward(values, receiver)
        return sum_over_segments(values, start, activate=True)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        values, receiver = ctx.saved_tensors
        kernels = _kernels_for(values)
        if kernels is not None:
            return kernels.gather(gradients[0].contiguous(), receiver, at_slope_of=values.contiguous()), None, None
        return torch.ops.aten.silu_backward(gradients[0].index_select(0, receiver), values), None, None


def activated_to_nodes(values: Float[Tensor, "e c"], wiring: Wiring) -> Float[Tensor, "n c"]:
    """The sum over each node's incoming edges of what SiLU makes of them."""
    if values.dtype in (torch.bfloat16, torch.float16):  # the kernels' SiLU is good enough for these
        return _ActivatedToNodes.apply(values, wiring.receiver, wiring.start)
    return to_nodes(functional.silu(values), wiring)


@dataclass(frozen=True, eq=False)
class Slots:
    """Edges as a rectangle: a row for every receiver, as long as the most neighbours that a node has."""

    edge: Int[Tensor, " n_most"]  # which one is in a slot, and its sender; -1 where there is none
    sender: Int[Tensor, " n_most"]
    place: Int[Tensor, " e"]  # the slot of each edge, and of its reverse
    place_of_reverse: Int[Tensor, " e"]
    start: Int[Tensor, " n_plus_one"]
    most: int

    @classmethod
    def of(cls, wiring: Wiring, most: int) -> "Slots":
        """A node of padding may have more edges than fit; whatever it has is not looked at."""
        start = wiring.start
        edge = start[:-1, None] + torch.arange(most, device=start.device)
        edge = torch.where(edge < start[1:, None], edge, -1).flatten()
        sender = torch.where(edge < 0, -1, wiring.sender[edge.clamp(min=0)])
        number = torch.arange(len(wiring.receiver), device=start.device) - start[wiring.receiver]
        place = wiring.receiver * most + number.clamp(max=most - 1)
        return cls(edge, sender, place, place[wiring.reverse], start, most)

    def fill(self, values: Float[Tensor, "e c"]) -> Float[Tensor, "n most c"]:
        """With what edges have, and zero where there is none."""
        return _Filled.apply(values, self.edge, self.place).unflatten(0, (-1, self.most))

    def fill_from_senders(self, nodes: Float[Tensor, "n c"]) -> Float[Tensor, "n most c"]:
        """With what their senders have."""
        filled = _FilledFromSenders.apply(nodes, self.sender, self.place_of_reverse, self.start)
        return filled.unflatten(0, (-1, self.most))


class _Filled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, values: Tensor, edge: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        return _rows_of(values, edge, some_missing=True)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        (place,) = ctx.saved_tensors
        return _rows_of(gradients[0], place), None, None


class _FilledFromSenders(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, nodes: Tensor, sender: Tensor, place_of_reverse: Tensor, start: Tensor) -> Tensor:
        ctx.save_for_backward(start, place_of_reverse)
        return _rows_of(nodes, sender, some_missing=True)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        start, place_of_reverse = ctx.saved_tensors
        return sum_over_segments(gradients[0], start, place_of_reverse), None, None, None


class _OverNeighbours(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, nodes: Tensor, weight: Tensor | None, sender: Tensor, start: Tensor) -> Tensor:
        ctx.save_for_backward(start, sender, weight)
        return sum_over_segments(nodes, start, sender, weight)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        start, sender, weight = ctx.saved_tensors
        return sum_over_segments(gradients[0], start, sender, weight), None, None, None


def over_neighbours(
    nodes: Float[Tensor, "n c"], weight: Float[Tensor, "e 1"] | None, wiring: Wiring
) -> Float[Tensor, "n c"]:
    """Sums of what each node's neighbours have, each times its weight if there are some. A weight must be that of the
    reverse edge too: then this is a symmetric matrix, and its own gradient."""
    return _OverNeighbours.apply(nodes, weight, wiring.sender, wiring.start)


def gathered(
    values: Float[Tensor, "n c"], segment: Int[Tensor, " n"], start: Int[Tensor, " s_plus_one"]
) -> Float[Tensor, "s c"]:
    """The sum over each segment's rows; the opposite of `spread`."""
    return _ToSegments.apply(values, segment, start)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, values: Tensor, segment: Tensor, start: Tensor) -> Tensor:
        ctx.save_for_backward(start)
        return _rows_of(values, segment)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        (start,) = ctx.saved_tensors
        return sum_over_segments(gradients[0], start), None, None


def spread(
    values: Float[Tensor, "s c"], segment: Int[Tensor, " n"], start: Int[Tensor, " s_plus_one"]
) -> Float[Tensor, "n c"]:
    """Each segment's value for every row of the segment; ``segment`` says which one a row is in."""
    return _Spread.apply(values, segment, start)
