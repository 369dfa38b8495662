"""The pair network as two Triton kernels, forward and backward: from the features of every pair to its corrections.

The hidden layers never leave the chip; the backward pass computes them again. So of a pair only its features and its
corrections are in memory, where plain layers would keep some four hundred numbers.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from beno.nn.autograd import Context, Gradients
from beno.nn.triton.activation import silu, silu_slope

# Places and panels that one program works on at a time, and its warps: the fastest of seven on an H200.
TILE, BACKWARD_TILE = (2, 32, 4), (4, 16, 4)
OUTPUTS = 16  # the least that a product of matrices may have on the chip; the rest are zeros


@triton.jit
def _first_layer(
    features, from_point, from_panel, first, row, point, panel, inside,
    F: tl.constexpr, F_PADDED: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """What stands before the first activation, and the features that it is made of."""
    h, f = tl.arange(0, H), tl.arange(0, F_PADDED)
    seen = tl.load(features + row[:, None] * F + f[None, :], mask=inside[:, None] & (f < F)[None, :], other=0.0)
    weights = tl.load(first + f[:, None] * H + h[None, :], mask=(f < F)[:, None], other=0.0)
    before = tl.dot(seen, weights)
    before += tl.load(from_point + point[:, None] * H + h[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    before += tl.load(from_panel + panel[:, None] * H + h[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    return before, seen


@triton.jit
def _pair_kernel(
    out, features, from_point, from_panel, first, second, second_bias, last, last_bias,
    count_points, count_panels,
    F: tl.constexpr, F_PADDED: tl.constexpr, H: tl.constexpr, OUT: tl.constexpr, OUT_PADDED: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(2).to(tl.int64)
    pair = tl.arange(0, A * B)
    a = tl.program_id(0) * A + pair // B
    b = tl.program_id(1) * B + pair % B
    inside = (a < count_points) & (b < count_panels)
    point, panel = sample * count_points + a, sample * count_panels + b
    row = point * count_panels + b
    h, o = tl.arange(0, H), tl.arange(0, OUT_PADDED)

    before, seen = _first_layer(features, from_point, from_panel, first, row, point, panel, inside, F, F_PADDED, H)
    hidden = tl.dot(silu(before).to(seen.dtype), tl.load(second + h[:, None] * H + h[None, :]))
    hidden = silu(hidden + tl.load(second_bias + h)[None, :])
    if OUT == 1:
        # One number a pair: a plain sum, in single precision.
        result = tl.sum(hidden * tl.load(last + h * OUT)[None, :], axis=1) + tl.load(last_bias)
        tl.store(out + row, result, mask=inside)
    else:
        weights = tl.load(last + h[:, None] * OUT + o[None, :], mask=(o < OUT)[None, :], other=0.0)
        result = tl.dot(hidden, weights, input_precision="tf32x3")
        result += tl.load(last_bias + o, mask=o < OUT, other=0.0)[None, :]
        tl.store(out + row[:, None] * OUT + o[None, :], result, mask=inside[:, None] & (o < OUT)[None, :])


# Longer than 60 lines: what is made again stays in registers, which a second kernel could not share.
@triton.jit
def _pair_gradient_kernel(
    d_point, d_panel, d_first, d_second, d_second_bias, d_last,
    d_out, features, from_point, from_panel, first, second, second_bias, last,
    count_points, count_panels,
    F: tl.constexpr, F_PADDED: tl.constexpr, H: tl.constexpr, OUT: tl.constexpr, OUT_PADDED: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """A program has some points of a sample and goes through its panels. Sums over its pairs are its own part of the
    weights' gradients, which are added up afterwards."""
    sample = tl.program_id(1).to(tl.int64)
    program = sample * tl.num_programs(0) + tl.program_id(0)
    pair = tl.arange(0, A * B)
    a = tl.program_id(0) * A + pair // B
    point = sample * count_points + a
    h, f, o = tl.arange(0, H), tl.arange(0, F_PADDED), tl.arange(0, OUT_PADDED)
    second_weights = tl.load(second + h[:, None] * H + h[None, :])
    second_turned = tl.load(second + h[None, :] * H + h[:, None])
    shift = tl.load(second_bias + h)[None, :]
    total_point = tl.zeros((A, H), dtype=tl.float32)
    total_first = tl.zeros((F_PADDED, H), dtype=tl.float32)
    total_second = tl.zeros((H, H), dtype=tl.float32)
    total_shift = tl.zeros((H,), dtype=tl.float32)
    total_last = tl.zeros((H,), dtype=tl.float32) if OUT == 1 else tl.zeros((H, OUT_PADDED), dtype=tl.float32)
    for start in range(0, count_panels, B):
        b = start + pair % B
        inside = (a < count_points) & (b < count_panels)
        row = point * count_panels + b
        panel = sample * count_panels + b
        before, seen = _first_layer(features, from_point, from_panel, first, row, point, panel, inside, F, F_PADDED, H)
        hidden = silu(before).to(seen.dtype)
        between = tl.dot(hidden, second_weights) + shift
        if OUT == 1:
            given = tl.load(d_out + row, mask=inside, other=0.0)
            total_last += tl.sum(silu(between) * given[:, None], axis=0)
            slope = given[:, None] * tl.load(last + h)[None, :]
        else:
            given = tl.load(
                d_out + row[:, None] * OUT + o[None, :], mask=inside[:, None] & (o < OUT)[None, :], other=0.0
            )
            turned = tl.load(last + h[None, :] * OUT + o[:, None], mask=(o < OUT)[:, None], other=0.0)
            total_last += tl.dot(tl.trans(silu(between)), given)
            slope = tl.dot(given, turned)
        slope *= silu_slope(between)
        total_shift += tl.sum(slope, axis=0)
        narrow = slope.to(seen.dtype)
        total_second += tl.dot(tl.trans(hidden), narrow)
        slope = tl.dot(narrow, second_turned) * silu_slope(before)
        total_first += tl.dot(tl.trans(seen), slope.to(seen.dtype))
        by_place = tl.reshape(slope, (A, B, H))
        total_point += tl.sum(by_place, axis=1)
        at = start + tl.arange(0, B)
        tl.atomic_add(
            d_panel + (sample * count_panels + at)[:, None] * H + h[None, :],
            tl.sum(by_place, axis=0), mask=(at < count_panels)[:, None], sem="relaxed",
        )  # fmt: skip
    place = tl.program_id(0) * A + tl.arange(0, A)
    tl.store(
        d_point + (sample * count_points + place)[:, None] * H + h[None, :],
        total_point, mask=(place < count_points)[:, None],
    )  # fmt: skip
    tl.store(d_first + program * F * H + f[:, None] * H + h[None, :], total_first, mask=(f < F)[:, None])
    tl.store(d_second + program * H * H + h[:, None] * H + h[None, :], total_second)
    tl.store(d_second_bias + program * H + h, total_shift)
    if OUT == 1:
        tl.store(d_last + program * H + h, total_last)
    else:
        tl.store(d_last + program * H * OUT + h[:, None] * OUT + o[None, :], total_last, mask=(o < OUT)[None, :])


class FusedPair(torch.autograd.Function):
    """``last(silu(second(silu(first(features) + point + panel))))``, weights as (inputs, outputs), the last single."""

    @staticmethod
    def forward(
        ctx: Context, features: Tensor, from_point: Tensor, from_panel: Tensor, first: Tensor, second: Tensor,
        second_bias: Tensor, last: Tensor, last_bias: Tensor,
    ) -> Tensor:  # fmt: skip
        samples, points, panels, _ = features.shape
        inputs = [tensor.contiguous() for tensor in (features, from_point, from_panel, first, second)]
        inputs += [tensor.float().contiguous() for tensor in (second_bias, last)]
        ctx.save_for_backward(*inputs)
        ctx.kinds = [tensor.dtype for tensor in (from_point, from_panel, first, second, second_bias, last, last_bias)]
        out = torch.empty(samples, points, panels, last.shape[1], dtype=torch.float32, device=features.device)
        a, b, warps = TILE
        grid = (triton.cdiv(points, a), triton.cdiv(panels, b), samples)
        _pair_kernel[grid](
            out, *inputs, last_bias.float(), points, panels, **_sizes(features, last), A=a, B=b, num_warps=warps
        )
        return out

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        inputs = ctx.saved_tensors
        features, last = inputs[0], inputs[-1]
        samples, points, panels, count = features.shape
        hidden, outputs = last.shape
        d_out = gradients[0].float().contiguous()
        a, b, warps = BACKWARD_TILE
        programs = triton.cdiv(points, a), samples
        many = programs[0] * programs[1]
        new = {"dtype": torch.float32, "device": features.device}
        d_point = torch.empty(samples, points, hidden, **new)
        d_panel = torch.zeros(samples, panels, hidden, **new)
        shares = [
            torch.empty(many, *shape, **new)
            for shape in ((count, hidden), (hidden, hidden), (hidden,), (hidden, outputs))
        ]
        _pair_gradient_kernel[programs](
            d_point, d_panel, *shares, d_out, *inputs, points, panels, **_sizes(features, last),
            A=a, B=b, num_warps=warps,
        )  # fmt: skip
        of_weights = [share.sum(dim=0) for share in shares]
        of_inputs = [d_point, d_panel, *of_weights, d_out.sum(dim=(0, 1, 2))]
        return None, *(gradient.to(kind) for gradient, kind in zip(of_inputs, ctx.kinds, strict=True))


def _sizes(features: Tensor, last: Tensor) -> dict[str, int]:
    count, (hidden, outputs) = features.shape[-1], last.shape
    return {
        "F": count,
        "F_PADDED": triton.next_power_of_2(count),
        "H": hidden,
        "OUT": outputs,
        "OUT_PADDED": max(OUTPUTS, triton.next_power_of_2(outputs)),
    }


fused_pair = FusedPair.apply
