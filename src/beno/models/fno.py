"""FNO, the Fourier neural operator (Li et al., 2021), on the whole square.

From the paper: a lift, four layers that mix the lowest 12 Fourier modes along each axis and add a pointwise map, GELU
between them, a projection through 128; width 32. As BENO's authors adapt it, what lies outside the domain has a large
number for every input. g stands in the cells beside the walls, as the mean of those that a cell has.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from beno.batches.augmentation import Variety
from beno.batches.pictures import CHANNELS, GridBatch, GridCohort
from beno.datasets.dataset import Metadata
from beno.datasets.records import Sample
from beno.datasets.scales import Scales
from beno.models.nodes import LENGTH_UNIT, settings_for
from beno.problems.problem import Kind
from beno.support.errors import BenoError


@dataclass(frozen=True)
class FNOConfig:
    width: int = 32
    layers: int = 4
    modes: int = 12  # along each axis
    projection: int = 128
    outside: float = 10.0  # what every input is there, in units of its size
    coefficient: bool = False
    kinds: bool = False

    def __post_init__(self) -> None:
        for name in ("width", "layers", "modes", "projection"):
            if getattr(self, name) < 1:
                raise BenoError(f"{name} is {getattr(self, name)}; it must be at least 1")

    @staticmethod
    def settings_for(data: Metadata) -> dict[str, Any]:
        return settings_for(data)

    @property
    def channels(self) -> list[int]:
        """Of those that a picture has."""
        wanted = ["source", "boundary_value", "on_boundary"]
        wanted += ["log_coefficient"] * self.coefficient
        wanted += ["alpha", *(kind.name for kind in Kind)] * self.kinds
        return [CHANNELS.index(name) for name in wanted]


class FourierLayer(nn.Module):
    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        # Real and imaginary parts of a matrix for every mode, of positive and of negative frequency along x.
        self.weight = nn.Parameter(torch.randn(2, 2, width, width, modes, modes) / width)
        self.pointwise = nn.Conv2d(width, width, 1)

    def forward(self, x: Float[Tensor, "s c n n"]) -> Float[Tensor, "s c n n"]:
        with torch.autocast(x.device.type, enabled=False):
            mixed = self._mix_modes(x.float())
        return mixed + self.pointwise(x)

    def _mix_modes(self, x: Float[Tensor, "s c n n"]) -> Float[Tensor, "s c n n"]:
        n = x.shape[-1]
        modes = min(self.modes, n // 2)  # a coarse grid has no more
        spectrum = torch.fft.rfft2(x, norm="forward")
        weight = torch.complex(self.weight[0], self.weight[1])[..., :modes, :modes]
        out = torch.zeros_like(spectrum)
        out[:, :, :modes, :modes] = torch.einsum("sixy,ioxy->soxy", spectrum[:, :, :modes, :modes], weight[0])
        out[:, :, -modes:, :modes] = torch.einsum("sixy,ioxy->soxy", spectrum[:, :, -modes:, :modes], weight[1])
        return torch.fft.irfft2(out, s=(n, n), norm="forward")


class FNO(nn.Module):
    def __init__(self, config: FNOConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or FNOConfig()
        self.lift = nn.Conv2d(len(config.channels) + 2, config.width, 1)
        self.layers = nn.ModuleList(FourierLayer(config.width, config.modes) for _ in range(config.layers))
        self.project = nn.Sequential(
            nn.Conv2d(config.width, config.projection, 1), nn.GELU(), nn.Conv2d(config.projection, 1, 1)
        )

    @staticmethod
    def cohort(
        samples: Iterable[Sample],
        scales: Scales,
        config: FNOConfig,
        device: torch.device | str = "cpu",
        variety: Variety | None = None,
    ) -> GridCohort:
        return GridCohort.of(samples, scales, device, variety)

    def forward(self, batch: GridBatch) -> Float[Tensor, "s n n"]:
        return self.branches(batch)[0]

    def branches(self, batch: GridBatch) -> Float[Tensor, "1 s n n"]:
        # One by one: an index made on the host cannot be part of a CUDA graph.
        given = torch.stack([batch.channels[:, channel] for channel in self.config.channels], dim=1)
        given = torch.where(batch.mask[:, None], given, self.config.outside)
        n = given.shape[-1]
        centre = ((torch.arange(n, device=given.device) + 0.5) / n - 0.5) / LENGTH_UNIT
        place = torch.stack(torch.meshgrid(centre, centre, indexing="ij")).expand(len(given), -1, -1, -1)
        x = self.lift(torch.cat([given, place], dim=1))
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number < len(self.layers) - 1:
                x = functional.gelu(x)
        return self.project(x)[:, 0].float()[None]
