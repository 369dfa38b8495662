"""A potential that takes f away, many at once on any device, for Poisson's equation.

It is that of `solvers.potential`; where walls are Neumann's it is more than that, on the box that just holds the
domain.

Each side of the box is of one kind: v is 0 there, or its slope is given. Either way the five-point scheme is diagonal
in sines and cosines. As matrix products they cost N**3 where the fast transform costs N**2 log N, and are over sooner
on a GPU at every N of interest.

Where walls of the domain are Neumann's, v takes their flows with it. On a side of the box they are met exactly: on a
rectangle with Neumann walls v is the solution. Flows through walls within the box are drawn by sinks behind them. A
sink draws from both sides, so it has twice the flow, and what is left for those walls is small and smooth.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from beno.geometry.base import DIRECTIONS
from beno.geometry.grid import Domain
from beno.problems.walls import Kind

SINKS = 2.0  # as strong as the flow in front of them


@dataclass(eq=False)
class Potentials:
    """The potential of k sources at points and panels, and its slope at the panels."""

    at_points: Float[Tensor, "k n"]
    at_panels: Float[Tensor, "k p"]
    slope: Float[Tensor, "k p"]


class BoxPotential:
    """The potential v of any source, ``laplace v = f`` in a box around the domain, by transforms on a device."""

    def __init__(self, domain: Domain, kind: Int[np.ndarray, " p"], device: torch.device, dtype: torch.dtype) -> None:
        """``kind`` says what the domain's walls do."""
        panels, is_flow = domain.panels, kind == Kind.NEUMANN
        self._spacing, low, shape = domain.spacing, np.zeros(2, dtype=int), domain.mask.shape
        if is_flow.any():
            low = domain.cells.min(axis=0)
            shape = tuple((domain.cells.max(axis=0) - low + 1).tolist())
        here = domain.cells[panels.cell] - low
        beyond = here + DIRECTIONS[panels.direction]
        within = ((beyond >= 0) & (beyond < shape)).all(axis=1)
        outside = np.ones(shape, dtype=bool)
        outside[tuple((domain.cells - low).T)] = False
        free = _free_sides(panels.direction[~within], is_flow[~within], has_outside=bool(outside.any()))
        sides = [(side, bool(free[2 * axis]), bool(free[2 * axis + 1])) for axis, side in enumerate(shape)]
        (forward, back, along_x), (forward_y, back_y, along_y) = (_waves(*side, device, dtype) for side in sides)
        self._forward, self._back = (forward, forward_y), (back, back_y)
        eigenvalue = (along_x[:, None] + along_y[None, :]) / domain.spacing**2
        # The eigenvalue of the constant, which is free if all sides are, is zero.
        self._inverse = torch.where(eigenvalue == 0, 0.0, 1 / eigenvalue).to(dtype)

        def number(cells: Int[np.ndarray, "m 2"]) -> Int[Tensor, " m"]:
            return torch.as_tensor(cells @ (shape[1], 1), device=device)

        def tensor(values: np.ndarray) -> Tensor:
            return torch.as_tensor(values, device=device, dtype=dtype if values.dtype == float else None)

        self._cells, self._here = number(domain.cells - low), number(here)
        self._beyond = number(np.where(within[:, None], beyond, here))
        self._within = tensor(within)
        on_free_side = ~within & free[panels.direction]
        # Where a panel's flow is taken out of the box: behind the panel, or before a free side of the box.
        strength = np.where(within, SINKS, 1.0) * is_flow * (within | on_free_side) / domain.spacing
        self._strength = tensor(strength)
        self._meets_flow = tensor((is_flow & on_free_side).astype(float))
        self._from_zero = tensor(np.where(~within & ~on_free_side, -2 / domain.spacing, 0.0))
        # Where no side fixes v, what flows in must flow out: a constant source keeps the balance, outside if it can.
        spread = np.flatnonzero(outside) if outside.any() else np.arange(outside.size)
        self._spread = tensor(spread if free.all() else spread[:0])

    def __call__(self, source: Float[Tensor, "k n"], flow: Float[Tensor, "k p"]) -> Potentials:
        """``flow`` is g; only that of Neumann walls counts."""
        count, shape = len(source), self._inverse.shape
        box = source.new_zeros(count, self._inverse.numel())
        box[:, self._cells] = source
        box.index_add_(1, self._beyond, -self._strength * flow)
        if len(self._spread):
            box[:, self._spread] -= box.sum(dim=1, keepdim=True) / len(self._spread)
        spectrum = self._forward[0] @ box.view(count, *shape) @ self._forward[1].T
        v = (self._back[0].T @ (spectrum * self._inverse) @ self._back[1]).flatten(1)
        here = v[:, self._here]
        at_side = self._meets_flow * flow + self._from_zero * here
        slope = torch.where(self._within, (v[:, self._beyond] - here) / self._spacing, at_side)
        return Potentials(v[:, self._cells], here + slope * self._spacing / 2, slope)


def _free_sides(
    direction: Int[np.ndarray, " q"], is_flow: Bool[np.ndarray, " q"], has_outside: bool
) -> Bool[np.ndarray, " 4"]:
    """Which sides of the box are Neumann's: those where most panels are. On a whole box with a panel that is not, one
    side must fix v: the one with the least of them."""
    count = np.bincount(direction, minlength=4)
    share = np.bincount(direction, is_flow, minlength=4) / np.maximum(count, 1)
    free = share > 0.5
    if free.all() and not has_outside and not is_flow.all():
        free[np.argmin(share)] = False
    return free


@lru_cache(maxsize=64)
def _waves(
    side: int, free_start: bool, free_end: bool, device: torch.device, dtype: torch.dtype
) -> tuple[Float[Tensor, "k n"], Float[Tensor, "k n"], Float[Tensor, " k"]]:
    """At the middles of so many cells: the waves with slope zero at free ends and zero at others, the same with their
    weights on the way back, and what the second difference makes of them."""
    number = torch.arange(1, side + 1, dtype=torch.float64)
    number = number - (0.5 if free_start != free_end else float(free_start))
    angle = math.pi / side * number
    phase = angle[:, None] * (torch.arange(side, dtype=torch.float64) + 0.5)[None, :]
    wave = torch.cos(phase) if free_start else torch.sin(phase)
    weight = 1 / wave.square().sum(dim=1)
    back, second_difference = wave * weight[:, None], 2 * torch.cos(angle) - 2
    return wave.to(device, dtype), back.to(device, dtype), second_difference.to(device)
