"""The products that most of the time goes into, as Triton kernels for half precision on a GPU.

``y = act(x1) @ w1 + act(x2) @ w2 + bias + a[receiver] + c[sender]``, branch by branch, where act is SiLU or
nothing. Features stay in memory as what stands before the activation; it is applied as they are read.
So a layer reads its input once and writes its output once, forward and backward alike.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Rows that one program works on, and its warps: the fastest of four on an H200, except for the norm's, not compared.
FORWARD_TILE, INPUT_TILE, WEIGHT_TILE, NORM_TILE = (64, 4), (64, 4), (128, 8), (16, 4)
MOST_CHUNKS = 64  # partial sums of a weight's gradient, by branch
ROWS_A_CHUNK = 512
NORM_EPSILON = 1e-5


LEAST = 16  # rows and columns of a product that a tensor core takes


def fits(*sizes: int) -> bool:
    """Whether matrices of these sizes suit the kernels, which hold a whole weight at once."""
    return all(size in (LEAST, 32, 64, 128) for size in sizes)


@triton.jit
def _activated(x, ACTIVATE: tl.constexpr):
    if ACTIVATE:
        wide = x.to(tl.float32)
        x = (wide * tl.sigmoid(wide)).to(x.dtype)
    return x


@triton.jit
def _forward_kernel(
    y, x1, w1, x2, w2, bias, a, c, receiver, sender, rows,
    ACTIVATE: tl.constexpr, SECOND: tl.constexpr, BIAS: tl.constexpr, GATHER: tl.constexpr,
    K1: tl.constexpr, K2: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    branch = tl.program_id(1)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    at = branch.to(tl.int64) * rows + row
    o = tl.arange(0, OUT)
    k1 = tl.arange(0, K1)
    left = tl.load(x1 + at[:, None] * K1 + k1[None, :], mask=inside[:, None], other=0.0)
    right = tl.load(w1 + branch * K1 * OUT + k1[:, None] * OUT + o[None, :])
    total = tl.dot(_activated(left, ACTIVATE), right)
    if SECOND:
        k2 = tl.arange(0, K2)
        left = tl.load(x2 + at[:, None] * K2 + k2[None, :], mask=inside[:, None], other=0.0)
        right = tl.load(w2 + branch * K2 * OUT + k2[:, None] * OUT + o[None, :])
        total += tl.dot(_activated(left, ACTIVATE), right)
    if BIAS:
        total += tl.load(bias + branch * OUT + o).to(tl.float32)[None, :]
    if GATHER:
        here = tl.load(receiver + at, mask=inside, other=0)
        there = tl.load(sender + at, mask=inside, other=0)
        total += tl.load(a + here[:, None] * OUT + o[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        total += tl.load(c + there[:, None] * OUT + o[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    tl.store(y + at[:, None] * OUT + o[None, :], total.to(y.dtype.element_ty), mask=inside[:, None])


@triton.jit
def _input_gradient_kernel(
    dx, dy, w, x, rows, ACTIVATE: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr
):
    branch = tl.program_id(1)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    at = branch.to(tl.int64) * rows + row
    o = tl.arange(0, OUT)
    k = tl.arange(0, K)
    gradient = tl.load(dy + at[:, None] * OUT + o[None, :], mask=inside[:, None], other=0.0)
    transposed = tl.load(w + branch * K * OUT + k[None, :] * OUT + o[:, None])
    total = tl.dot(gradient, transposed)
    if ACTIVATE:
        value = tl.load(x + at[:, None] * K + k[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
        gate = tl.sigmoid(value)
        total *= gate * (1.0 + value * (1.0 - gate))
    tl.store(dx + at[:, None] * K + k[None, :], total.to(dx.dtype.element_ty), mask=inside[:, None])


@triton.jit
def _weight_gradient_kernel(
    dw, dbias, x, dy, rows, rows_a_chunk,
    ACTIVATE: tl.constexpr, BIAS: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(0)
    branch = tl.program_id(1)
    o = tl.arange(0, OUT)
    k = tl.arange(0, K)
    total = tl.zeros((K, OUT), dtype=tl.float32)
    bias_total = tl.zeros((OUT,), dtype=tl.float32)
    first = chunk * rows_a_chunk
    last = tl.minimum(first + rows_a_chunk, rows)
    for begin in range(first, last, BLOCK):
        row = begin + tl.arange(0, BLOCK)
        inside = row < last
        at = branch.to(tl.int64) * rows + row
        gradient = tl.load(dy + at[:, None] * OUT + o[None, :], mask=inside[:, None], other=0.0)
        value = tl.load(x + at[:, None] * K + k[None, :], mask=inside[:, None], other=0.0)
        total += tl.dot(tl.trans(_activated(value, ACTIVATE)), gradient)
        if BIAS:
            bias_total += tl.sum(gradient.to(tl.float32), axis=0)
    place = branch * tl.num_programs(0) + chunk
    tl.store(dw + place * K * OUT + k[:, None] * OUT + o[None, :], total)
    if BIAS:
        tl.store(dbias + place * OUT + o, bias_total)


@triton.jit
def _segment_sum_kernel(
    out, values, start, order, weight, ORDERED: tl.constexpr, WEIGHTED: tl.constexpr, WIDTH: tl.constexpr
):
    segment = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), dtype=tl.float32)
    for item in range(tl.load(start + segment), tl.load(start + segment + 1)):
        row = tl.load(order + item) if ORDERED else item
        value = tl.load(values + row * WIDTH + c).to(tl.float32)
        if WEIGHTED:
            value *= tl.load(weight + item)
        total += value
    tl.store(out + segment * WIDTH + c, total.to(out.dtype.element_ty))


@triton.jit
def _norm_kernel(
    y, x, gain, shift, residual, rows,
    RESIDUAL: tl.constexpr, EPSILON: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    branch = tl.program_id(1)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (row < rows)[:, None]
    c = tl.arange(0, WIDTH)
    place = (branch.to(tl.int64) * rows + row)[:, None] * WIDTH + c[None, :]
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    value -= tl.sum(value, axis=1)[:, None] / WIDTH
    value *= tl.rsqrt(tl.sum(value * value, axis=1) / WIDTH + EPSILON)[:, None]
    value = value * tl.load(gain + branch * WIDTH + c)[None, :] + tl.load(shift + branch * WIDTH + c)[None, :]
    if RESIDUAL:
        value += tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + place, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _norm_gradient_kernel(
    dx, dgain, dshift, dy, x, gain, rows, rows_a_chunk,
    EPSILON: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(0)
    branch = tl.program_id(1)
    c = tl.arange(0, WIDTH)
    scale = tl.load(gain + branch * WIDTH + c)[None, :]
    gain_total = tl.zeros((WIDTH,), dtype=tl.float32)
    shift_total = tl.zeros((WIDTH,), dtype=tl.float32)
    first = chunk * rows_a_chunk
    last = tl.minimum(first + rows_a_chunk, rows)
    for begin in range(first, last, BLOCK):
        row = begin + tl.arange(0, BLOCK)
        inside = (row < last)[:, None]
        place = (branch.to(tl.int64) * rows + row)[:, None] * WIDTH + c[None, :]
        value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        gradient = tl.load(dy + place, mask=inside, other=0.0).to(tl.float32)
        value -= tl.sum(value, axis=1)[:, None] / WIDTH
        inverse = tl.rsqrt(tl.sum(value * value, axis=1) / WIDTH + EPSILON)[:, None]
        value *= inverse
        gain_total += tl.sum(gradient * value, axis=0)
        shift_total += tl.sum(gradient, axis=0)
        gradient *= scale
        along = tl.sum(gradient * value, axis=1)[:, None] / WIDTH
        gradient = (gradient - tl.sum(gradient, axis=1)[:, None] / WIDTH - value * along) * inverse
        tl.store(dx + place, gradient.to(dx.dtype.element_ty), mask=inside)
    at = (branch * tl.num_programs(0) + chunk) * WIDTH + c
    tl.store(dgain + at, gain_total)
    tl.store(dshift + at, shift_total)


class FusedNorm(torch.autograd.Function):
    """A layer norm with a gain and a shift a branch, added to what it is an update of."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, residual: Tensor | None) -> Tensor:
        branches, _, width = gain.shape
        rows = len(x) // branches
        block, warps = NORM_TILE
        x, gain, shift = x.contiguous(), gain.contiguous(), shift.contiguous()
        y = torch.empty_like(x)
        _norm_kernel[(triton.cdiv(rows, block), branches)](
            y, x, gain, shift, x if residual is None else residual.contiguous(), rows,
            residual is not None, NORM_EPSILON, width, block, num_warps=warps,
        )  # fmt: skip
        ctx.save_for_backward(x, gain)
        ctx.residual_type = None if residual is None else residual.dtype
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, gain = ctx.saved_tensors
        dy = gradients[0].contiguous()
        branches, _, width = gain.shape
        rows = len(x) // branches
        block, warps = NORM_TILE
        chunks = max(1, min(8 * MOST_CHUNKS, rows // block))
        dx = torch.empty_like(x)
        partial = torch.empty(2, branches, chunks, width, device=x.device)
        _norm_gradient_kernel[(chunks, branches)](
            dx, partial[0], partial[1], dy, x, gain, rows, triton.cdiv(rows, chunks),
            NORM_EPSILON, width, block, num_warps=warps,
        )  # fmt: skip
        dgain, dshift = partial.sum(dim=2, keepdim=True).unbind(0)
        return dx, dgain, dshift, None if ctx.residual_type is None else dy.to(ctx.residual_type)


def segment_sum(values: Tensor, start: Tensor, order: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Sums of consecutive rows of ``values``, or of ``values[order]``, each times its weight if there are some."""
    out = values.new_empty(len(start) - 1, values.shape[1])
    _segment_sum_kernel[(len(out),)](
        out, values, start, start if order is None else order, values if weight is None else weight,
        order is not None, weight is not None, values.shape[1], num_warps=1,
    )  # fmt: skip
    return out


def _forward(
    x1: Tensor, w1: Tensor, x2: Tensor | None, w2: Tensor | None, bias: Tensor | None, gathered: Any, activate: bool
) -> Tensor:
    branches, inputs, outputs = w1.shape
    rows = len(x1) // branches
    block, warps = FORWARD_TILE
    y = x1.new_empty(len(x1), outputs)
    a, c, receiver, sender = gathered or (x1, x1, x1, x1)
    _forward_kernel[(triton.cdiv(rows, block), branches)](
        y, x1, w1, x1 if x2 is None else x2, w1 if w2 is None else w2, w1 if bias is None else bias,
        a, c, receiver, sender, rows,
        activate, x2 is not None, bias is not None, gathered is not None,
        inputs, inputs if w2 is None else w2.shape[1], outputs, block, num_warps=warps,
    )  # fmt: skip
    return y


def _input_gradient(dy: Tensor, w: Tensor, x: Tensor, activate: bool) -> Tensor:
    branches, inputs, outputs = w.shape
    rows = len(x) // branches
    block, warps = INPUT_TILE
    dx = torch.empty_like(x)
    _input_gradient_kernel[(triton.cdiv(rows, block), branches)](
        dx, dy, w, x, rows, activate, inputs, outputs, block, num_warps=warps
    )
    return dx


def _weight_gradient(dy: Tensor, w: Tensor, x: Tensor, activate: bool, bias: bool) -> tuple[Tensor, Tensor | None]:
    branches, inputs, outputs = w.shape
    rows = len(x) // branches
    chunks = max(1, min(MOST_CHUNKS, rows // ROWS_A_CHUNK))
    dw = torch.empty(branches, chunks, inputs, outputs, device=x.device)
    dbias = torch.empty(branches, chunks, outputs, device=x.device)
    block, warps = WEIGHT_TILE
    _weight_gradient_kernel[(chunks, branches)](
        dw, dbias, x, dy, rows, triton.cdiv(rows, chunks), activate, bias, inputs, outputs, block, num_warps=warps
    )
    return dw.sum(dim=1), dbias.sum(dim=1)[:, None] if bias else None


class FusedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x1: Tensor, w1: Tensor, x2: Tensor | None, w2: Tensor | None, bias: Tensor | None,
        a: Tensor | None, c: Tensor | None, wiring: Any, activate: bool, dtype: torch.dtype,
    ) -> Tensor:  # fmt: skip
        x1, w1, x2, w2, bias, a, c = (
            None if tensor is None else tensor.to(dtype).contiguous() for tensor in (x1, w1, x2, w2, bias, a, c)
        )
        gathered = None if a is None else (a, c, wiring.receiver, wiring.sender)
        ctx.save_for_backward(x1, w1, x2, w2)
        ctx.wiring, ctx.activate = wiring, activate
        return _forward(x1, w1, x2, w2, bias, gathered, activate)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x1, w1, x2, w2 = ctx.saved_tensors
        dy = gradients[0].to(x1.dtype).contiguous()
        wants = ctx.needs_input_grad
        dw1, dbias = _weight_gradient(dy, w1, x1, ctx.activate, wants[4])
        dx1 = _input_gradient(dy, w1, x1, ctx.activate) if wants[0] else None
        dx2 = dw2 = da = dc = None
        if x2 is not None:
            dw2, _ = _weight_gradient(dy, w2, x2, ctx.activate, False)
            dx2 = _input_gradient(dy, w2, x2, ctx.activate) if wants[2] else None
        if ctx.wiring is not None:
            da = segment_sum(dy, ctx.wiring.start)
            dc = segment_sum(dy, ctx.wiring.start, ctx.wiring.reverse)
        return dx1, dw1, dx2, dw2, dbias, da, dc, None, None, None
