"""The correction to the kernel, from what point, panel, and the view of one from the other are."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from beno.models.harmonic.config import HarmonicConfig
from beno.nn.segments import fused_kernels


class PairNetwork(nn.Module):
    """The correction to the kernel, from what point, panel, and the view of one from the other are."""

    def __init__(self, config: HarmonicConfig) -> None:
        super().__init__()
        self.rank, self.outputs = config.rank, config.corrections
        hidden = config.pair_width
        self.from_point = nn.Linear(config.width, hidden)
        self.from_panel = nn.Linear(config.width, hidden, bias=False)
        self.from_view = nn.Linear(config.pair_features, hidden, bias=False)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, self.outputs)
        self.point_factor = nn.Linear(config.width, self.rank * self.outputs)
        self.panel_factor = nn.Linear(config.width, self.rank * self.outputs)
        for layer in (self.last, self.point_factor):  # a straight wall's kernel is where it starts
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self, points: Float[Tensor, "s n c"], panels: Float[Tensor, "s p c"], seen: Float[Tensor, "s n p f"]
    ) -> Float[Tensor, "s n p o"]:
        layers = self.fused if self._suits_the_kernel(points) else self.through_layers
        with torch.autocast(points.device.type, enabled=False):
            product = self._product(points.float(), panels.float())
        return layers(points, panels, seen).add_(product)

    def _suits_the_kernel(self, points: Tensor) -> bool:
        """In half precision, and not too wide for the chip's own memory."""
        half = points.is_cuda and torch.is_autocast_enabled("cuda")
        return half and fused_kernels() is not None and self.second.out_features in (16, 32, 64)

    def through_layers(
        self, points: Float[Tensor, "s n c"], panels: Float[Tensor, "s p c"], seen: Float[Tensor, "s n p f"]
    ) -> Float[Tensor, "s n p o"]:
        first = self.from_view(seen) + self.from_point(points)[:, :, None] + self.from_panel(panels)[:, None]
        hidden = functional.silu(self.second(functional.silu(first)))
        with torch.autocast(hidden.device.type, enabled=False):
            # Rounded to half precision, the corrections of many panels add up to an error in u of a percent.
            return self.last(hidden.float())

    def fused(
        self, points: Float[Tensor, "s n c"], panels: Float[Tensor, "s p c"], seen: Float[Tensor, "s n p f"]
    ) -> Float[Tensor, "s n p o"]:
        """The same in one kernel."""
        from beno.nn.triton.pair_network import fused_pair

        kind = torch.bfloat16 if torch.is_autocast_enabled("cuda") else seen.dtype
        first, second = (layer.weight.T.to(kind) for layer in (self.from_view, self.second))
        at_points, at_panels = self.from_point(points), self.from_panel(panels)
        last = (self.last.weight.T, self.last.bias)
        return fused_pair(seen.to(kind), at_points, at_panels, first, second, self.second.bias, *last)

    def _product(self, points: Float[Tensor, "s n c"], panels: Float[Tensor, "s p c"]) -> Float[Tensor, "s n p o"]:
        shape = (self.outputs, self.rank)
        left = self.point_factor(points).unflatten(2, shape).transpose(1, 2)
        right = self.panel_factor(panels).unflatten(2, shape).transpose(1, 2)
        return (left @ right.transpose(2, 3) / math.sqrt(self.rank)).permute(0, 2, 3, 1)
