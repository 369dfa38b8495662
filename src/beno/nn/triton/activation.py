"""SiLU and its slope as kernels have them: in two accuracies, for what comes before and after them.

Where the outcome is rounded to bfloat16 the special function unit's tanh will do; where it is added up over many panels
the exponential is needed.
"""

import os

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


@triton.jit
def _tanh(x):
    """From the special function unit, good to 11 bits: in SiLU and its slope a fifteenth of what rounding to bfloat16
    does. One instruction, where the sigmoid's exponential and division are a dozen."""
    if INTERPRETED:
        return 2.0 * tl.sigmoid(2.0 * x) - 1.0
    return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def fast_silu(x):
    half = 0.5 * x
    return half + half * _tanh(half)


@triton.jit
def fast_silu_slope(x):
    half = 0.5 * x
    tanh = _tanh(half)
    return 0.5 + 0.5 * tanh + (0.5 * half) * (1.0 - tanh * tanh)


@triton.jit
def silu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit
def silu_slope(x):
    gate = 1.0 / (1.0 + tl.exp(-x))
    return gate * (1.0 + x * (1.0 - gate))
