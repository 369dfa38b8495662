"""FNO, the Fourier neural operator (Li et al., 2021), on the whole square.

From the paper: a lift, four layers that mix the lowest 12 Fourier modes along each axis and add a pointwise map, GELU
between them, a projection through 128; width 32. As BENO's authors adapt it, what lies outside the domain has a large
number for every input. g stands in the cells beside the walls, as the mean of those that a cell has.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from beno.batches.pictures import CHANNELS, PictureBatch
from beno.datasets.metadata import Metadata
from beno.models.base import PictureModel
from beno.models.nodes import LENGTH_UNIT, NodeConfig
from beno.problems.walls import Kind


@dataclass(frozen=True)
class FNOConfig(NodeConfig):
    """Sizes as in the paper of FNO."""

    width: int = 32
    layers: int = 4
    modes: int = 12  # along each axis
    projection: int = 128
    outside: float = 10.0  # what every input is there, in units of its size

    def __post_init__(self) -> None:
        self.require_at_least(width=1, layers=1, modes=1, projection=1)

    @property
    def channels(self) -> list[int]:
        """Which of a picture's it sees."""
        wanted = ["source", "boundary_value", "on_boundary"]
        wanted += ["log_coefficient"] * self.coefficient
        wanted += ["alpha", *(Kind(number).name for number in self.kind_numbers)] * self.kinds
        return [CHANNELS.index(name) for name in wanted]


class FourierLayer(nn.Module):
    """A linear map of the lowest modes, and a pointwise one of all."""

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
        positive, negative = torch.complex(self.weight[0], self.weight[1])[..., :modes].unbind(0)
        positive, negative = positive[..., :modes, :], negative[..., -modes:, :]  # the last row has frequency -1
        out = torch.zeros_like(spectrum)
        out[:, :, :modes, :modes] = torch.einsum("sixy,ioxy->soxy", spectrum[:, :, :modes, :modes], positive)
        out[:, :, -modes:, :modes] = torch.einsum("sixy,ioxy->soxy", spectrum[:, :, -modes:, :modes], negative)
        return torch.fft.irfft2(out, s=(n, n), norm="forward")


class FNO(PictureModel[FNOConfig]):
    """Fourier layers on the whole square."""

    name = "fno"
    Config = FNOConfig
    small = {"width": 4, "layers": 2, "modes": 3, "projection": 8}

    def __init__(self, config: FNOConfig | None = None) -> None:
        super().__init__(config)
        config = self.config
        self.lift = nn.Conv2d(len(config.channels) + 2, config.width, 1)
        self.layers = nn.ModuleList(FourierLayer(config.width, config.modes) for _ in range(config.layers))
        self.project = nn.Sequential(
            nn.Conv2d(config.width, config.projection, 1), nn.GELU(), nn.Conv2d(config.projection, 1, 1)
        )

    @classmethod
    def upgraded(cls, tensors: dict[str, Tensor], version: int, config: FNOConfig, data: Metadata) -> dict[str, Tensor]:
        """Version 1 had the negative frequencies of grids too coarse for all modes in the first rows."""
        modes = min(config.modes, data.resolution // 2)
        if version > 1 or modes == config.modes:
            return tensors
        return {name: _to_last_rows(tensor, modes) if tensor.ndim == 6 else tensor for name, tensor in tensors.items()}

    def branches(self, batch: PictureBatch) -> Float[Tensor, "1 s n n"]:
        # One by one: an index made on the host cannot be part of a CUDA graph.
        given = torch.stack([batch.channels[:, channel] for channel in self.config.channels], dim=1)
        given = torch.where(batch.inside[:, None], given, self.config.outside)
        n = given.shape[-1]
        centre = ((torch.arange(n, device=given.device) + 0.5) / n - 0.5) / LENGTH_UNIT
        place = torch.stack(torch.meshgrid(centre, centre, indexing="ij")).expand(len(given), -1, -1, -1)
        x = self.lift(torch.cat([given, place], dim=1))
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number < len(self.layers) - 1:
                x = functional.gelu(x)
        return self.project(x)[:, 0].float()[None]


def _to_last_rows(weight: Float[Tensor, "2 2 c c m m"], modes: int) -> Float[Tensor, "2 2 c c m m"]:
    moved = weight.clone()
    moved[:, 1, ..., -modes:, :] = weight[:, 1, ..., :modes, :]
    return moved
