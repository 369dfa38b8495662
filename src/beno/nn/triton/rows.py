"""Rows moved between nodes and edges and added up, as Triton kernels."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from beno.nn.triton.activation import fast_silu, fast_silu_slope

GATHERED_AT_ONCE, SUMMED_AT_ONCE = 4096, 2048  # numbers that a program loads
LONG_SEGMENT, MOST_PIECES = 64, 32  # rows from which on a sum is split, and into how many


@triton.jit
def _gather_kernel(
    out, a, here, c, there, x, rows,
    SECOND: tl.constexpr, SLOPE: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, WIDTH)[None, :]
    inside = row < rows
    mask = inside[:, None]
    from_a = tl.load(here + row, mask=inside, other=0)
    value = tl.load(a + from_a[:, None] * WIDTH + column, mask=mask & (from_a >= 0)[:, None], other=0.0).to(tl.float32)
    if SECOND:
        from_c = tl.load(there + row, mask=inside, other=0)
        mask_c = mask & (from_c >= 0)[:, None]
        value += tl.load(c + from_c[:, None] * WIDTH + column, mask=mask_c, other=0.0).to(tl.float32)
    if SLOPE:
        value *= fast_silu_slope(tl.load(x + row[:, None] * WIDTH + column, mask=mask, other=0.0).to(tl.float32))
    tl.store(out + row[:, None] * WIDTH + column, value.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _segment_sum_kernel(
    out, values, start, order, weight,
    ORDERED: tl.constexpr, WEIGHTED: tl.constexpr, ACTIVATE: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum over a segment, or over one of the pieces that it is split into."""
    segment = tl.program_id(0).to(tl.int64)
    piece = tl.program_id(1)
    pieces = tl.num_programs(1)
    c = tl.arange(0, WIDTH)
    begin = tl.load(start + segment)
    end = tl.load(start + segment + 1)
    length = tl.cdiv(end - begin, pieces)
    first = begin + piece * length
    last = tl.minimum(first + length, end)
    total = tl.zeros((WIDTH,), dtype=tl.float32)
    for item in range(first, last, BLOCK):
        row = item + tl.arange(0, BLOCK)
        inside = row < last
        where = tl.load(order + row, mask=inside, other=0) if ORDERED else row
        value = tl.load(values + where[:, None] * WIDTH + c[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        if ACTIVATE:
            value = fast_silu(value)
        if WEIGHTED:
            value *= tl.load(weight + row, mask=inside, other=0.0)[:, None]
        total += tl.sum(value, axis=0)
    tl.store(out + (segment * pieces + piece) * WIDTH + c, total.to(out.dtype.element_ty))


def segment_sum(
    values: Tensor,
    start: Tensor,
    order: Tensor | None = None,
    weight: Tensor | None = None,
    activate: bool = False,
) -> Tensor:
    """Sums of consecutive rows of ``values``, or of ``values[order]``, each times its weight if there are some."""
    segments, width = len(start) - 1, values.shape[1]
    weight = None if weight is None else weight.contiguous()
    rows = len(values) if order is None else len(order)
    pieces = max(1, min(MOST_PIECES, triton.cdiv(rows, LONG_SEGMENT * max(1, segments))))
    out = values.new_empty(segments, pieces, width, dtype=values.dtype if pieces == 1 else torch.float32)
    _segment_sum_kernel[(segments, pieces)](
        out, values, start, start if order is None else order, values if weight is None else weight,
        order is not None, weight is not None, activate, width, max(1, min(16, SUMMED_AT_ONCE // width)), num_warps=1,
    )  # fmt: skip
    return out[:, 0] if pieces == 1 else out.sum(dim=1).to(values.dtype)


def gather(
    a: Tensor, here: Tensor, c: Tensor | None = None, there: Tensor | None = None, at_slope_of: Tensor | None = None
) -> Tensor:
    """``a[here] + c[there]``, times the activation's slope; zero where there is no row, at -1. The library's own takes
    three times as long."""
    width = a.shape[1]
    out = a.new_empty(len(here), width)
    block = max(1, min(64, GATHERED_AT_ONCE // width))
    _gather_kernel[(triton.cdiv(len(here), block),)](
        out, a, here, a if c is None else c, here if there is None else there,
        a if at_slope_of is None else at_slope_of, len(here),
        c is not None, at_slope_of is not None, width, block,
    )  # fmt: skip
    return out
