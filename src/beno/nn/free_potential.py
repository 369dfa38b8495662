"""For Neumann walls alone: a potential of f and g on the box that just holds the domain, many at once on any device.

With Neumann walls the five-point scheme on a rectangle is diagonal in cosines, so flows through those walls of the
domain that are the box's own are met exactly: on a whole rectangle the potential is the solution. Flows through walls
within the box are drawn by sinks behind them. A sink draws from both sides, so it has twice the flow, and what is left
for those walls is small and smooth. A constant source outside the domain keeps the balance.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from beno.geometry import DIRECTIONS, Domain
from beno.nn.potential import Potentials

SINKS = 2.0  # as strong as the flow in front of them


class FreePotential:
    def __init__(self, domain: Domain, device: torch.device, dtype: torch.dtype) -> None:
        low = domain.cells.min(axis=0)
        sides = tuple((domain.cells.max(axis=0) - low + 1).tolist())
        self._spacing, self._sides = domain.spacing, sides
        waves = [_cosines(side, device) for side in sides]
        self._forward = [wave.to(dtype) for wave, _ in waves]
        self._back = [(wave * norm[:, None]).to(dtype) for wave, norm in waves]
        eigenvalues = [
            2 * torch.cos(math.pi * torch.arange(n, device=device, dtype=torch.float64) / n) - 2 for n in sides
        ]
        total = (eigenvalues[0][:, None] + eigenvalues[1][None, :]) / domain.spacing**2
        total[0, 0] = math.inf  # of the constant, which is free
        self._inverse = (1 / total).to(dtype)

        panels = domain.panels
        here = domain.cells[panels.cell] - low
        beyond = here + DIRECTIONS[panels.direction]
        within = ((beyond >= 0) & (beyond < sides)).all(axis=1)
        outside = np.ones(sides, dtype=bool)
        outside[tuple((domain.cells - low).T)] = False
        spread = np.flatnonzero(outside) if outside.any() else np.arange(outside.size)

        def number(cells: np.ndarray) -> Tensor:
            return torch.as_tensor(cells @ (sides[1], 1), device=device)

        self._cells, self._here = number(domain.cells - low), number(here)
        self._beyond = number(np.where(within[:, None], beyond, here))
        # Where a panel's flow is taken out of the box: behind the panel, or on the box's own walls before it.
        self._strength = torch.as_tensor(np.where(within, SINKS, 1.0) / domain.spacing, device=device, dtype=dtype)
        self._within, self._spread = (torch.as_tensor(array, device=device) for array in (within, spread))

    def __call__(self, source: Float[Tensor, "k n"], flux: Float[Tensor, "k p"]) -> Potentials:
        count = len(source)
        box = source.new_zeros(count, self._inverse.numel())
        box[:, self._cells] = source
        box.index_add_(1, self._beyond, -self._strength * flux)
        box[:, self._spread] -= box.sum(dim=1, keepdim=True) / len(self._spread)
        spectrum = self._forward[0] @ box.view(count, *self._sides) @ self._forward[1].T
        v = (self._back[0].T @ (spectrum * self._inverse) @ self._back[1]).flatten(1)
        here = v[:, self._here]
        slope = torch.where(self._within, (v[:, self._beyond] - here) / self._spacing, flux)
        return Potentials(v[:, self._cells], here + slope * self._spacing / 2, slope)


def _cosines(side: int, device: torch.device) -> tuple[Float[Tensor, "k n"], Float[Tensor, " k"]]:
    """At the middles of so many cells, and the weight of each on the way back."""
    number = torch.arange(side, device=device, dtype=torch.float64)
    weight = (2 - (number == 0).double()) / side
    return torch.cos(math.pi / side * number[:, None] * (number + 0.5)[None, :]), weight
