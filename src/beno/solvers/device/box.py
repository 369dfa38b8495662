"""The inverse of the five-point scheme on the whole square with Dirichlet walls, for many sources at once.

In the sine transform of type II the scheme is diagonal. As four products of N x N matrices the transforms there and
back take 8 N³ operations a source, which a GPU does sooner than fast transforms at every N of interest.
"""

import math
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor


class SineBox:
    """G, the inverse of minus the second differences in units of one cell: ``(4 u - neighbours) = source``."""

    def __init__(self, resolution: int, device: torch.device, dtype: torch.dtype = torch.float64) -> None:
        n = resolution
        mode = torch.arange(1, n + 1, dtype=torch.float64)
        place = torch.arange(n, dtype=torch.float64) + 0.5
        wave = torch.sin(math.pi / n * mode[:, None] * place[None, :]) * math.sqrt(2 / n)
        wave[-1] /= math.sqrt(2)
        eigenvalue = 2 - 2 * torch.cos(math.pi / n * mode)
        self.resolution, self.device, self.dtype = n, device, dtype
        self.waves = wave.to(device, dtype)  # orthonormal, one a row
        self.eigenvalues = eigenvalue.to(device, dtype)
        self._inverse = 1 / (self.eigenvalues[:, None] + self.eigenvalues[None, :])

    def __call__(self, source: Float[Tensor, "*k N N"]) -> Float[Tensor, "*k N N"]:
        spectrum = self.waves @ source @ self.waves.T
        return self.waves.T @ (spectrum * self._inverse) @ self.waves

    @property
    def table(self) -> Float[Tensor, "N N N"]:
        """G between two columns i, i' of cells, by the wave l across: sums over k of s_k(i) s_k(i') / (λ_k + λ_l)."""
        return _table(self.resolution, self.device, self.dtype)


@lru_cache(maxsize=4)
def sine_box(resolution: int, device: torch.device, dtype: torch.dtype = torch.float64) -> SineBox:
    """Made once for all shapes."""
    return SineBox(resolution, device, dtype)


@lru_cache(maxsize=2)
def _table(resolution: int, device: torch.device, dtype: torch.dtype) -> Float[Tensor, "N N N"]:
    box = sine_box(resolution, device, dtype)
    table = torch.empty(resolution, resolution, resolution, device=device, dtype=dtype)
    for number, across in enumerate(box.eigenvalues):
        table[:, :, number] = (box.waves.T / (box.eigenvalues + across)) @ box.waves
    return table
