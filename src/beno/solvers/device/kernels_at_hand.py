"""The Triton kernels, where there is a Triton to compile them."""

from functools import cache
from types import ModuleType


@cache
def fused_kernels() -> ModuleType | None:
    """None where there is none."""
    try:
        from beno.solvers.device import kernels
    except ImportError:
        return None
    return kernels
