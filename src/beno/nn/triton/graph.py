"""The products that most of the time goes into, as Triton kernels for half precision on a GPU.

``y = act(x1) @ w1 + act(x2) @ w2 + bias + a[receiver] + c[sender]``, branch by branch, where act is SiLU or
nothing. Features stay in memory as what stands before the activation; it is applied as they are read.
So a layer reads its input once and writes its output once, and its gradients take one pass over both.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from beno.nn.autograd import Context, Gradients
from beno.nn.segments import Wiring
from beno.nn.triton.activation import fast_silu, fast_silu_slope
from beno.nn.triton.rows import segment_sum

# Rows that a program works on at a time, and its warps.
FORWARD_TILE, BACKWARD_TILE, NORM_TILE = (64, 4), (64, 8), (8, 2)
FORWARD_PROGRAMS, BACKWARD_PROGRAMS = 2, 1  # for each processor: they keep their weights while tiles pass by
ROWS_A_CHUNK = 128  # least, for each partial sum of a weight's gradient
NORM_PROGRAMS = 512
NORM_EPSILON = 1e-5

LEAST = 16  # rows and columns of a product that a tensor core takes


def fits(*sizes: int) -> bool:
    """Whether matrices of these sizes suit the kernels, which hold a whole weight at once."""
    return all(size in (LEAST, 32, 64, 128) for size in sizes)


@triton.jit
def _activated(x, ACTIVATE: tl.constexpr):
    if ACTIVATE:
        x = fast_silu(x.to(tl.float32)).to(x.dtype)
    return x


@triton.jit
def _rows(x, first, left, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """A tile of so many rows as are left."""
    row = tl.arange(0, BLOCK)
    c = tl.arange(0, WIDTH)
    return tl.load(x + first * WIDTH + (row[:, None] * WIDTH + c[None, :]), mask=(row < left)[:, None], other=0.0)


@triton.jit
def _forward_kernel(
    y, x1, w1, x2, w2, bias, a, c, receiver, sender, rows,
    ACTIVATE: tl.constexpr, SECOND: tl.constexpr, BIAS: tl.constexpr, GATHER: tl.constexpr,
    K1: tl.constexpr, K2: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Weights stay, tiles pass by; the next tile is on its way while one is worked on."""
    branch = tl.program_id(1)
    row = tl.arange(0, BLOCK)
    o = tl.arange(0, OUT)
    k1 = tl.arange(0, K1)
    k2 = tl.arange(0, K2)
    weight1 = tl.load(w1 + branch * K1 * OUT + k1[:, None] * OUT + o[None, :])
    if SECOND:
        weight2 = tl.load(w2 + branch * K2 * OUT + k2[:, None] * OUT + o[None, :])
    if BIAS:
        shift = tl.load(bias + branch * OUT + o).to(tl.float32)[None, :]
    begin = tl.program_id(0) * BLOCK
    step = tl.num_programs(0) * BLOCK
    first = branch.to(tl.int64) * rows + begin
    next1 = _rows(x1, first, rows - begin, K1, BLOCK)
    if SECOND:
        next2 = _rows(x2, first, rows - begin, K2, BLOCK)
    if GATHER:
        next_here = tl.load(receiver + first + row, mask=begin + row < rows, other=0)
        next_there = tl.load(sender + first + row, mask=begin + row < rows, other=0)
    for at in range(begin, rows, step):
        inside = (at + row < rows)[:, None]
        value1 = next1
        next1 = _rows(x1, first + step, rows - at - step, K1, BLOCK)
        if SECOND:
            value2 = next2
            next2 = _rows(x2, first + step, rows - at - step, K2, BLOCK)
        if GATHER:
            at_receiver = tl.load(a + next_here[:, None] * OUT + o[None, :], mask=inside, other=0.0)
            at_sender = tl.load(c + next_there[:, None] * OUT + o[None, :], mask=inside, other=0.0)
            next_here = tl.load(receiver + first + step + row, mask=at + step + row < rows, other=0)
            next_there = tl.load(sender + first + step + row, mask=at + step + row < rows, other=0)
        total = tl.dot(_activated(value1, ACTIVATE), weight1)
        if SECOND:
            total = tl.dot(_activated(value2, ACTIVATE), weight2, total)
        if BIAS:
            total += shift
        if GATHER:
            total += at_receiver.to(tl.float32) + at_sender.to(tl.float32)
        tl.store(y + first * OUT + (row[:, None] * OUT + o[None, :]), total.to(y.dtype.element_ty), mask=inside)
        first += step


@triton.jit
def _backward_kernel(
    dx, partial, dy, w, x, rows,
    ACTIVATE: tl.constexpr, BIAS: tl.constexpr, TO_INPUT: tl.constexpr,
    K: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Both gradients in one pass: what a tile's rows give to the weight's is added up, what they have is stored."""
    chunk = tl.program_id(0)
    branch = tl.program_id(1)
    row = tl.arange(0, BLOCK)
    o = tl.arange(0, OUT)
    k = tl.arange(0, K)
    if TO_INPUT:
        transposed = tl.load(w + branch * K * OUT + k[None, :] * OUT + o[:, None])
    total = tl.zeros((K, OUT), dtype=tl.float32)
    bias_total = tl.zeros((OUT,), dtype=tl.float32)
    begin = chunk * BLOCK
    step = tl.num_programs(0) * BLOCK
    first = branch.to(tl.int64) * rows + begin
    next_gradient = _rows(dy, first, rows - begin, OUT, BLOCK)
    next_value = _rows(x, first, rows - begin, K, BLOCK)
    for at in range(begin, rows, step):
        gradient, value = next_gradient, next_value
        next_gradient = _rows(dy, first + step, rows - at - step, OUT, BLOCK)
        next_value = _rows(x, first + step, rows - at - step, K, BLOCK)
        total = tl.dot(tl.trans(_activated(value, ACTIVATE)), gradient, total)
        if BIAS:
            bias_total += tl.sum(gradient.to(tl.float32), axis=0)
        if TO_INPUT:
            back = tl.dot(gradient, transposed)
            if ACTIVATE:
                back *= fast_silu_slope(value.to(tl.float32))
            place = dx + first * K + (row[:, None] * K + k[None, :])
            tl.store(place, back.to(dx.dtype.element_ty), mask=(at + row < rows)[:, None])
        first += step
    mine = partial + (branch * tl.num_programs(0) + chunk) * (K + 1) * OUT
    tl.store(mine + k[:, None] * OUT + o[None, :], total)
    tl.store(mine + K * OUT + o, bias_total)


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
    gain_total = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    shift_total = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
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
        gain_total += gradient * value
        shift_total += gradient
        gradient *= scale
        along = tl.sum(gradient * value, axis=1)[:, None] / WIDTH
        gradient = (gradient - tl.sum(gradient, axis=1)[:, None] / WIDTH - value * along) * inverse
        tl.store(dx + place, gradient.to(dx.dtype.element_ty), mask=inside)
    at = (branch * tl.num_programs(0) + chunk) * WIDTH + c
    tl.store(dgain + at, tl.sum(gain_total, axis=0))
    tl.store(dshift + at, tl.sum(shift_total, axis=0))


class FusedNorm(torch.autograd.Function):
    """A layer norm with a gain and a shift a branch, added to what it is an update of."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, gain: Tensor, shift: Tensor, residual: Tensor | None) -> Tensor:
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
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        x, gain = ctx.saved_tensors
        dy = gradients[0].contiguous()
        branches, _, width = gain.shape
        rows = len(x) // branches
        block, warps = NORM_TILE
        chunks = max(1, min(NORM_PROGRAMS, rows // block))
        dx = torch.empty_like(x)
        partial = torch.empty(2, branches, chunks, width, device=x.device)
        _norm_gradient_kernel[(chunks, branches)](
            dx, partial[0], partial[1], dy, x, gain, rows, triton.cdiv(rows, chunks),
            NORM_EPSILON, width, block, num_warps=warps,
        )  # fmt: skip
        dgain, dshift = partial.sum(dim=2, keepdim=True).unbind(0)
        return dx, dgain, dshift, None if ctx.residual_type is None else dy.to(ctx.residual_type)


def _programs(branches: int, most: int, a_processor: int, device: torch.device) -> int:
    """For each branch, as many as the device has room for at once."""
    return max(1, min(most, a_processor * _processors(device) // branches))


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


def _forward(
    x1: Tensor, w1: Tensor, x2: Tensor | None, w2: Tensor | None, bias: Tensor | None,
    gathered: tuple[Tensor, Tensor, Tensor, Tensor] | None, activate: bool,
) -> Tensor:  # fmt: skip
    branches, inputs, outputs = w1.shape
    rows = len(x1) // branches
    block, warps = FORWARD_TILE
    y = x1.new_empty(len(x1), outputs)
    a, c, receiver, sender = gathered or (x1, x1, x1, x1)
    programs = _programs(branches, triton.cdiv(rows, block), FORWARD_PROGRAMS, x1.device)
    _forward_kernel[(programs, branches)](
        y, x1, w1, x1 if x2 is None else x2, w1 if w2 is None else w2, w1 if bias is None else bias,
        a, c, receiver, sender, rows,
        activate, x2 is not None, bias is not None, gathered is not None,
        inputs, inputs if w2 is None else w2.shape[1], outputs, block, num_warps=warps,
    )  # fmt: skip
    return y


def _backward(
    dy: Tensor, w: Tensor, x: Tensor, activate: bool, bias: bool, to_input: bool
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    """Gradients of the input, the weight and the bias."""
    branches, inputs, outputs = w.shape
    rows = len(x) // branches
    block, warps = BACKWARD_TILE
    chunks = _programs(branches, rows // ROWS_A_CHUNK, BACKWARD_PROGRAMS, x.device)
    dx = torch.empty_like(x) if to_input else None
    partial = torch.empty(branches, chunks, inputs + 1, outputs, device=x.device)  # the bias's in the last row
    _backward_kernel[(chunks, branches)](
        x if dx is None else dx, partial, dy, w, x, rows,
        activate, bias, to_input, inputs, outputs, block, num_warps=warps,
    )  # fmt: skip
    total = partial.sum(dim=1)
    return dx, total[:, :-1], total[:, -1:] if bias else None


class FusedLinear(torch.autograd.Function):
    """The product that this module is about, and its gradients."""

    @staticmethod
    def forward(
        ctx: Context, x1: Tensor, w1: Tensor, x2: Tensor | None, w2: Tensor | None, bias: Tensor | None,
        a: Tensor | None, c: Tensor | None, wiring: Wiring | None, activate: bool, dtype: torch.dtype,
    ) -> Tensor:  # fmt: skip
        x1, w1, x2, w2, bias, a, c = (
            None if tensor is None else tensor.to(dtype).contiguous() for tensor in (x1, w1, x2, w2, bias, a, c)
        )
        gathered = None if a is None else (a, c, wiring.receiver, wiring.sender)
        ctx.save_for_backward(x1, w1, x2, w2)
        ctx.wiring, ctx.activate = wiring, activate
        return _forward(x1, w1, x2, w2, bias, gathered, activate)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        x1, w1, x2, w2 = ctx.saved_tensors
        dy = gradients[0].to(x1.dtype).contiguous()
        wants = ctx.needs_input_grad
        dx1, dw1, dbias = _backward(dy, w1, x1, ctx.activate, wants[4], wants[0])
        dx2 = dw2 = da = dc = None
        if x2 is not None:
            dx2, dw2, _ = _backward(dy, w2, x2, ctx.activate, False, wants[2])
        if ctx.wiring is not None:
            da = segment_sum(dy, ctx.wiring.start)
            dc = segment_sum(dy, ctx.wiring.start, ctx.wiring.reverse)
        return dx1, dw1, dx2, dw2, dbias, da, dc, None, None, None
