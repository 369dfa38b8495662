"""The grid potential of `grid_potential` for Poisson's equation, many sources at once on any device.

The five-point scheme on the box is diagonal in sines. As matrix products they cost N**3 where the fast
transform costs N**2 log N, and are over sooner on a GPU at every N of interest.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from beno.geometry import DIRECTIONS, Domain


@dataclass(eq=False)
class Potentials:
    at_points: Float[Tensor, "k n"]
    at_panels: Float[Tensor, "k p"]
    normal_derivative: Float[Tensor, "k p"]


class BoxPotential:
    def __init__(self, domain: Domain, device: torch.device, dtype: torch.dtype) -> None:
        n = domain.resolution
        self._spacing = domain.spacing
        number = torch.arange(1, n + 1, device=device, dtype=torch.float64)
        centre = torch.arange(n, device=device, dtype=torch.float64) + 0.5
        sines = torch.sin(math.pi / n * number[:, None] * centre[None, :])
        norm = (2 - (number == n).double()) / n
        eigenvalue = n * n * (2 * torch.cos(math.pi * number / n) - 2)
        self._forward = sines.to(dtype)
        self._back = (sines * norm[:, None]).to(dtype)
        self._inverse = (1 / (eigenvalue[:, None] + eigenvalue[None, :])).to(dtype)
        self._cells = torch.as_tensor(np.flatnonzero(domain.mask), device=device)
        # Panels read two cells of the box; beyond the box itself v is minus what it is here, so that it is 0 between.
        panels = domain.panels
        here = domain.cells[panels.cell]
        beyond = here + DIRECTIONS[panels.direction]
        on_box = ((beyond < 0) | (beyond >= n)).any(axis=1)
        there = np.where(on_box[:, None], here, beyond)
        self._here, self._there = (torch.as_tensor(cell @ (n, 1), device=device) for cell in (here, there))
        self._sign = torch.as_tensor(np.where(on_box, -1.0, 1.0), device=device, dtype=dtype)

    def __call__(self, source: Float[Tensor, "k n"]) -> Potentials:
        count, n = len(source), len(self._forward)
        box = source.new_zeros(count, n * n)
        box[:, self._cells] = source
        spectrum = self._forward @ box.view(count, n, n) @ self._forward.T
        v = (self._back.T @ (spectrum * self._inverse) @ self._back).reshape(count, n * n)
        here, there = v[:, self._here], self._sign * v[:, self._there]
        return Potentials(v[:, self._cells], (here + there) / 2, (there - here) / self._spacing)
