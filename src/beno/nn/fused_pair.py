"""The pair network's forward pass as one Triton kernel: from the features of every pair to its corrections, the hidden
layers never leaving the chip. For inference; training keeps what its backward pass needs."""

import torch
import triton
import triton.language as tl
from torch import Tensor

PLACES, PANELS = 4, 32  # the pairs that one program works on
OUTPUTS = 16  # the least that a product of matrices may have on the chip; the rest are zeros


@triton.jit
def _silu(x):
    return x / (1.0 + tl.exp(-x))


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
    h, f, o = tl.arange(0, H), tl.arange(0, F_PADDED), tl.arange(0, OUT_PADDED)

    seen = tl.load(features + row[:, None] * F + f[None, :], mask=inside[:, None] & (f < F)[None, :], other=0.0)
    weights = tl.load(first + f[:, None] * H + h[None, :], mask=(f < F)[:, None], other=0.0)
    hidden = tl.dot(seen, weights)
    hidden += tl.load(from_point + point[:, None] * H + h[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    hidden += tl.load(from_panel + panel[:, None] * H + h[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    hidden = _silu(hidden).to(seen.dtype)
    hidden = tl.dot(hidden, tl.load(second + h[:, None] * H + h[None, :]))
    hidden = _silu(hidden + tl.load(second_bias + h)[None, :])
    if OUT == 1:
        # One number a pair: a plain sum, in single precision.
        result = tl.sum(hidden * tl.load(last + h * OUT)[None, :], axis=1) + tl.load(last_bias)
        tl.store(out + row, result, mask=inside)
    else:
        weights = tl.load(last + h[:, None] * OUT + o[None, :], mask=(o < OUT)[None, :], other=0.0)
        result = tl.dot(hidden, weights, input_precision="tf32x3")
        result += tl.load(last_bias + o, mask=o < OUT, other=0.0)[None, :]
        tl.store(out + row[:, None] * OUT + o[None, :], result, mask=inside[:, None] & (o < OUT)[None, :])


def fused_pair(
    features: Tensor,
    from_point: Tensor,
    from_panel: Tensor,
    first: Tensor,
    second: Tensor,
    second_bias: Tensor,
    last: Tensor,
    last_bias: Tensor,
) -> Tensor:
    """``last(silu(second(silu(first(features) + point + panel))))``, weights as (inputs, outputs), the last single."""
    samples, points, panels, count = features.shape
    hidden, outputs = last.shape
    out = torch.empty(samples, points, panels, outputs, dtype=torch.float32, device=features.device)
    grid = (triton.cdiv(points, PLACES), triton.cdiv(panels, PANELS), samples)
    _pair_kernel[grid](
        out, features.contiguous(), from_point.contiguous(), from_panel.contiguous(), first.contiguous(),
        second.contiguous(), second_bias.float(), last.float().contiguous(), last_bias.float(), points, panels,
        F=count, F_PADDED=triton.next_power_of_2(count), H=hidden, OUT=outputs,
        OUT_PADDED=max(OUTPUTS, triton.next_power_of_2(outputs)), A=PLACES, B=PANELS, num_warps=4,
    )  # fmt: skip
    return out
