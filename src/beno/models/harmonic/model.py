"""The harmonic operator: the boundary acts through a kernel that a network corrects, and data pass through untouched.

With a potential v that has the right source on the whole box, ``u - v`` is harmonic in the domain, and

    u(x) = v(x) + sum_b  W(x, b) (g_b - v_b)

where W depends on the shape alone. For Dirichlet walls W(x, b) is the harmonic measure of panel b seen from
x: never negative, of sum one. So it is a softmax over the panels, of the log of what a straight wall between
the corners beside it would have (see `lattice` and `nn.pairs`) plus a correction that is learned. u is linear
in (f, g), exact for constants, and obeys the maximum principle, with any weights. Robin walls join the softmax
with ``g / alpha``, the value that they draw u to. Neumann walls act through ``a (1 + c1) + c2`` and shares of
a's images, with a the potential of a flux through a straight wall.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from beno.batches.augmentation import Variety
from beno.batches.coefficient_features import COLUMNS
from beno.batches.panels import DenseBatch, DenseCohort
from beno.datasets.dataset import Metadata
from beno.datasets.records import Sample
from beno.datasets.scales import Scales
from beno.nn.pairs import FEATURES, View, view
from beno.nn.segments import fused_kernels
from beno.problems.problem import Kind
from beno.support.errors import BenoError

BOUNDARIES = ("dirichlet", "neumann", "mixed")
WAVES = (1, 2, 4, 8)  # half waves across the domain, as features of a place
SHARE_SCREENED = 0.7  # of the screening by the mean of q at both ends, which overrates what is between
SMALLEST_WALL = 0.02  # in units of the domain, below which lengths of walls are all alike
OTHER_WALLS = 4.0  # over the domain's size, a rate at which fluxes are absorbed by walls around
NEVER = -1e4  # a logit that leaves no weight
PAIRS_AT_ONCE = {"cpu": 2**20, "cuda": 2**26}  # beyond training: a few hundred bytes each


@dataclass(frozen=True)
class HarmonicConfig:
    width: int = 128
    layers: int = 3  # of attention among the panels
    heads: int = 8
    pair_width: int = 64
    rank: int = 32  # of the part of the correction that is a product of point and panel
    boundary: str = "dirichlet"  # which kinds of walls: dirichlet, neumann, or mixed for all three
    coefficient: bool = False  # Darcy

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "pair_width", "rank"):
            if getattr(self, name) < 1:
                raise BenoError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.width % self.heads:
            raise BenoError(f"width {self.width} must be a multiple of the {self.heads} heads")
        if self.boundary not in BOUNDARIES:
            raise BenoError(f"boundary is {self.boundary!r}; it must be one of {', '.join(BOUNDARIES)}")

    @staticmethod
    def settings_for(data: Metadata) -> dict[str, Any]:
        """What the model must be told of the problems that it is to learn."""
        boundary = {"dirichlet": "dirichlet", "zero": "dirichlet", "neumann": "neumann"}.get(data.boundary, "mixed")
        return {"boundary": boundary, "coefficient": data.equation == "darcy"}

    @property
    def medium_columns(self) -> int:
        """How many features of the coefficient points and panels have."""
        return self.coefficient * COLUMNS

    @property
    def pair_features(self) -> int:
        """What is seen of a panel; in a medium, also what is between. Half precision likes multiples of eight."""
        return FEATURES + 8 * self.coefficient

    @property
    def corrections(self) -> int:
        """How many numbers the network says of a pair: one for the softmax, four for a flux."""
        return {"dirichlet": 1, "neumann": 4, "mixed": 5}[self.boundary]


class Attention(nn.Module):
    """To the panels, from themselves or from points, biased by how each sees the other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_panels = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.bias = nn.Linear(FEATURES, heads, bias=False)
        self.out = nn.Linear(width, width)
        self.norm_after = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(
        self,
        x: Float[Tensor, "s a c"],
        panels: Float[Tensor, "s b c"],
        seen: Float[Tensor, "s a b f"],
        hidden: Float[Tensor, "s b"] | None,
    ) -> Float[Tensor, "s a c"]:
        query = self._by_head(self.query(_normed(self.norm, x)))
        key, value = map(self._by_head, self.key_value(_normed(self.norm_panels, panels)).chunk(2, dim=-1))
        # As a product from the left it comes out by heads, in the order that fused attention asks for.
        bias = (self.bias.weight @ seen.flatten(1, 2).transpose(1, 2)).unflatten(2, seen.shape[1:3])
        if hidden is not None:
            bias = bias.add_(hidden[:, None, None, :])
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias.to(query.dtype))
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(_normed(self.norm_after, x))

    def _by_head(self, x: Float[Tensor, "s a c"]) -> Float[Tensor, "s h a d"]:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


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


class Harmonic(nn.Module):
    def __init__(self, config: HarmonicConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or HarmonicConfig()
        width = config.width
        place = 2 + 4 * len(WAVES)
        kinds = (len(Kind) + 1) * (config.boundary == "mixed")
        self.embed_panels = _mlp(place + 11 + kinds + config.medium_columns, width)
        self.among_panels = nn.ModuleList(Attention(width, config.heads) for _ in range(config.layers))
        self.embed_points = _mlp(place + 4 + config.medium_columns, width)
        self.to_panels = Attention(width, config.heads)
        self.pair = PairNetwork(config)

    @staticmethod
    def cohort(
        samples: Iterable[Sample],
        scales: Scales,
        config: HarmonicConfig,
        device: torch.device | str = "cpu",
        variety: Variety | None = None,
    ) -> DenseCohort:
        return DenseCohort.of(samples, scales, device, variety)

    def forward(self, batch: DenseBatch) -> Float[Tensor, "s n"]:
        """u at every point, in the units of the batch."""
        return self.branches(batch).sum(dim=0)

    def branches(self, batch: DenseBatch) -> Float[Tensor, "2 s n"]:
        """What f makes of u, and what g makes of it."""
        left = batch.left * batch.real[..., None]
        walls = torch.cat([_product(weights, left) for weights in self.kernel(batch)], dim=1)
        parts = (batch.potential + walls).permute(2, 0, 1)
        if self.config.boundary == "neumann":
            counted = batch.real_point.to(parts.dtype)
            parts = parts - (parts * counted).sum(dim=2, keepdim=True) / counted.sum(dim=1, keepdim=True)
        return parts

    def kernel(self, batch: DenseBatch) -> Iterator[Float[Tensor, "s m p"]]:
        """W(x, b), for some of the points after others: all pairs at once may be too many."""
        frame = Frame(batch)
        hidden = torch.where(batch.real, 0.0, NEVER) if batch.is_padded else None
        panels = self._panels(batch, frame, hidden)
        points = batch.points.shape[1]
        at_once = PAIRS_AT_ONCE[batch.points.device.type]
        step = points if torch.is_grad_enabled() else max(1, at_once // (len(batch) * batch.real.shape[1]))
        for start in range(0, points, step):
            yield self._weights(batch, frame, hidden, panels, slice(start, start + step))

    def _panels(self, batch: DenseBatch, frame: "Frame", hidden: Float[Tensor, "s p"] | None) -> Float[Tensor, "s p c"]:
        columns = [
            _place(frame.centres),
            batch.normals,
            frame.centres.norm(dim=-1, keepdim=True),
            torch.log(frame.ends[..., :4] + SMALLEST_WALL),
            frame.ends[..., 4:] / 2,
        ]
        if self.config.boundary == "mixed":
            kinds = (batch.kind[..., None] == torch.arange(len(Kind), device=batch.kind.device)).to(batch.alpha.dtype)
            columns += [kinds, torch.log1p(frame.alpha)[..., None]]
        columns.append(self._medium(batch.medium_at_panels, frame))
        panels = self.embed_panels(torch.cat(columns, dim=-1))
        seen = self._view(batch, frame, frame.centres).features
        for layer in self.among_panels:
            panels = layer(panels, panels, seen, hidden)
        return panels

    def _weights(
        self,
        batch: DenseBatch,
        frame: "Frame",
        hidden: Float[Tensor, "s p"] | None,
        panels: Float[Tensor, "s p c"],
        some: slice,
    ) -> Float[Tensor, "s m p"]:
        config = self.config
        walls = batch.walls[:, some] / frame.size
        seen = self._view(batch, frame, frame.points[:, some])
        columns = [_place(frame.points[:, some]), 2 * walls]
        columns.append(self._medium(batch.medium[:, some], frame))
        points = self.to_panels(self.embed_points(torch.cat(columns, dim=-1)), panels, seen.features, hidden)
        features, log_measure, ratio = seen.features, seen.log_measure, None
        if config.coefficient:
            # The measure and the flux of a smooth coefficient go with the root of its ratio, to first order.
            ratio = (batch.medium_at_panels[:, None, :, 0] - batch.medium[:, some, None, 0]) / 2
            between = Between(batch.medium[:, some], batch.medium_at_panels, ratio, seen.distance * frame.size)
            features = torch.cat([features, between.features], dim=-1)
            log_measure = log_measure + ratio + between.screening
        correction = self.pair(points, panels, features).unbind(-1)
        if config.boundary == "neumann":
            return self._flux(seen, ratio, *correction) * batch.lengths[:, None]
        if config.boundary == "mixed":
            kind = batch.kind[:, None, :]
            drawn = _robin_log_measure(seen, frame.lengths, frame.alpha)
            log_measure = torch.where(kind == Kind.ROBIN, drawn if ratio is None else drawn + ratio, log_measure)
            hidden = torch.where(batch.real & (batch.kind != Kind.NEUMANN), 0.0, NEVER)
        logit = log_measure + correction[0]
        measure = torch.softmax(logit if hidden is None else logit + hidden[:, None], dim=-1)
        if config.boundary == "dirichlet":
            return measure
        flux = self._flux(seen, ratio, *correction[1:]) * batch.lengths[:, None]
        return torch.where(kind == Kind.NEUMANN, flux, measure)

    def _medium(self, medium: Float[Tensor, "s m 4"], frame: "Frame") -> Float[Tensor, "s m columns"]:
        """In units of the domain, and of order one."""
        log_kappa, slope, q = medium.split([1, 2, 1], dim=-1)
        columns = torch.cat([log_kappa, slope * frame.size / 4, torch.asinh(q * frame.size.square() / 8)], dim=-1)
        return columns[..., : self.config.medium_columns]

    def _view(self, batch: DenseBatch, frame: "Frame", places: Float[Tensor, "s a 2"]) -> View:
        config = self.config
        is_flux = batch.kind == Kind.NEUMANN
        arguments = (places, frame.centres, batch.normals, frame.lengths, frame.ends, is_flux)
        with_flux = config.boundary != "dirichlet"
        if not places.is_cuda or fused_kernels() is None:
            return view(*arguments, with_flux)
        from beno.nn.triton.view import fused_view

        half = torch.is_autocast_enabled("cuda")
        return fused_view(*arguments, with_flux, with_flux or config.coefficient, half)

    def _flux(
        self, seen: View, ratio: Tensor | None, factor: Tensor, term: Tensor, *shares: Tensor
    ) -> Float[Tensor, "s m p"]:
        kernel = seen.flux
        corners = sum((1 + share) * gain for share, gain in zip(shares, seen.corner_flux, strict=True))
        flux = kernel * (1 + factor) + corners + term
        return flux if ratio is None else flux * ratio.exp()


class Frame:
    """Lengths in units of the domain: of the longer side of the box around its panels, from the box's centre."""

    def __init__(self, batch: DenseBatch) -> None:
        low, high = batch.centres.amin(dim=1, keepdim=True), batch.centres.amax(dim=1, keepdim=True)
        self.size = (high - low).amax(dim=2, keepdim=True)
        middle = (low + high) / 2
        self.points = (batch.points - middle) / self.size
        self.centres = (batch.centres - middle) / self.size
        self.lengths = batch.lengths / self.size[..., 0]
        self.alpha = batch.alpha * self.size[..., 0]
        self.ends = torch.cat([batch.ends[..., :4] / self.size, batch.ends[..., 4:]], dim=-1)


class Between:
    """What a coefficient does to a panel's measure on the way from a place: where q is positive, it screens.

    On a half-plane with constant q the kernel is ``r sqrt(q) K1(r sqrt(q))`` times the unscreened one.
    """

    def __init__(
        self,
        at_points: Float[Tensor, "s m 4"],
        at_panels: Float[Tensor, "s p 4"],
        ratio: Float[Tensor, "s m p"],
        distance: Float[Tensor, "s m p"],
    ) -> None:
        q = (at_points[:, :, None, 3] + at_panels[:, None, :, 3]) / 2
        depth = q.clamp(min=0).sqrt() * distance
        self.screening = SHARE_SCREENED * (torch.log1p(math.pi / 2 * depth) / 2 - depth)
        flat = q * distance.square()
        steep = [at_points[:, :, None, 1:3].norm(dim=-1) * distance, at_panels[:, None, :, 1:3].norm(dim=-1) * distance]
        columns = [ratio, self.screening, torch.asinh(flat), *(slope / 4 for slope in steep), depth / 2]
        self.features = functional.pad(torch.stack(torch.broadcast_tensors(*columns), dim=-1), (0, 8 - len(columns)))


def _robin_log_measure(
    seen: View, lengths: Float[Tensor, "s p"], alpha: Float[Tensor, "s p"]
) -> Float[Tensor, "s m p"]:
    """That of a flux of alpha, whose potential ends where it is absorbed: after 1 / alpha, or at other walls."""
    alpha = alpha[:, None, :].clamp(min=1e-6)
    return torch.log(lengths[:, None] * alpha * torch.log1p(1 / ((alpha + OTHER_WALLS) * seen.distance)) / math.pi)


def _normed(norm: nn.LayerNorm, x: Float[Tensor, "s m c"]) -> Float[Tensor, "s m c"]:
    """On a GPU by a kernel of our own: the library's takes nine times as long as reading and writing so narrow rows."""
    fused = fused_kernels() if x.is_cuda else None
    if fused is None or not fused.fits(x.shape[-1]):
        return norm(x)
    rows = fused.FusedNorm.apply(x.flatten(0, 1), norm.weight[None, None], norm.bias[None, None], None)
    return rows.view(x.shape)


def _place(places: Float[Tensor, "s m 2"]) -> Float[Tensor, "s m features"]:
    angles = torch.cat([math.pi * wave * places for wave in WAVES], dim=-1)
    return torch.cat([2 * places, angles.sin(), angles.cos()], dim=-1)


def _mlp(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width))


def _product(weights: Float[Tensor, "s m p"], data: Float[Tensor, "s p k"]) -> Float[Tensor, "s m k"]:
    """In single precision throughout: it is the data's own."""
    with torch.autocast(weights.device.type, enabled=False):
        return weights.float() @ data.float()
