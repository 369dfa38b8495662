"""The harmonic operator: the boundary acts through a kernel that a network corrects, and data pass through untouched.

With a potential v that has the right source on the whole box, ``u - v`` is harmonic in the domain, and

    u(x) = v(x) + sum_b  W(x, b) (g_b - v_b)

where W depends on the shape alone. For Dirichlet walls W(x, b) is the harmonic measure of panel b seen from
x: never negative, of sum one. So it is a softmax over the panels, of the log of what a straight wall between
the corners beside it would have (see `nn.half_plane` and `nn.pairs`) plus a correction that is learned. u is linear
in (f, g), exact for constants, and obeys the maximum principle, with any weights. Robin walls join the softmax
with ``g / alpha``, the value that they draw u to. Neumann walls act through ``a (1 + c1) + c2`` and shares of
a's images, with a the potential of a flux through a straight wall.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from beno.batches.panels import PanelBatch
from beno.models.base import LinearModel
from beno.models.harmonic.attention import Attention
from beno.models.harmonic.config import HarmonicConfig
from beno.models.harmonic.frame import Between, Frame
from beno.models.harmonic.pair_network import PairNetwork
from beno.nn.pairs import View, view
from beno.nn.segments import fused_kernels
from beno.problems.walls import Kind

WAVES = (1, 2, 4, 8)  # half waves across the domain, as features of a place
SMALLEST_WALL = 0.02  # in units of the domain, below which lengths of walls are all alike
OTHER_WALLS = 4.0  # over the domain's size, a rate at which fluxes are absorbed by walls around
NEVER = -1e4  # a logit that leaves no weight
PAIRS_AT_ONCE = {"cpu": 2**20, "cuda": 2**26}  # beyond training: a few hundred bytes each


class Harmonic(LinearModel[HarmonicConfig]):
    """A softmax of analytic kernels and learned corrections; docs/harmonic.md derives it."""

    name = "harmonic"
    Config = HarmonicConfig
    preset = "harmonic"
    small = {"width": 8, "layers": 1, "heads": 2, "pair_width": 8, "rank": 2}

    def __init__(self, config: HarmonicConfig | None = None) -> None:
        super().__init__(config)
        config = self.config
        width = config.width
        place = 2 + 4 * len(WAVES)
        kinds = (len(config.kind_numbers) + 1) * config.tells_kinds
        self.embed_panels = _mlp(place + 11 + kinds + config.kappa_columns, width)
        self.among_panels = nn.ModuleList(Attention(width, config.heads) for _ in range(config.layers))
        self.embed_points = _mlp(place + 4 + config.kappa_columns, width)
        self.to_panels = Attention(width, config.heads)
        self.pair = PairNetwork(config)

    def branches(self, batch: PanelBatch) -> Float[Tensor, "2 s n"]:
        """What f makes of u, and what g makes of it."""
        residual = batch.boundary_residual * batch.has_panel[..., None]
        from_walls = torch.cat([_product(weights, residual) for weights in self.kernel(batch)], dim=1)
        parts = (batch.potential + from_walls).permute(2, 0, 1)
        if not self.config.has_measure:
            counted = batch.has_point.to(parts.dtype)
            parts = parts - (parts * counted).sum(dim=2, keepdim=True) / counted.sum(dim=1, keepdim=True)
        return parts

    def kernel(self, batch: PanelBatch) -> Iterator[Float[Tensor, "s m p"]]:
        """W(x, b), for some of the points after others: all pairs at once may be too many."""
        frame = Frame(batch)
        hidden = torch.where(batch.has_panel, 0.0, NEVER) if batch.is_padded else None
        panels = self._panels(batch, frame, hidden)
        points = batch.points.shape[1]
        at_once = PAIRS_AT_ONCE[batch.points.device.type]
        step = points if torch.is_grad_enabled() else max(1, at_once // (len(batch) * batch.has_panel.shape[1]))
        for start in range(0, points, step):
            yield self._weights(batch, frame, hidden, panels, slice(start, start + step))

    def _panels(self, batch: PanelBatch, frame: Frame, hidden: Float[Tensor, "s p"] | None) -> Float[Tensor, "s p c"]:
        columns = [
            _place(frame.centres),
            batch.normals,
            frame.centres.norm(dim=-1, keepdim=True),
            torch.log(frame.ends[..., :4] + SMALLEST_WALL),
            frame.ends[..., 4:] / 2,
        ]
        if self.config.tells_kinds:
            columns += [self.config.told_kinds(batch.kind), torch.log1p(frame.alpha)[..., None]]
        columns.append(self._kappa(batch.kappa_at_panels, frame))
        panels = self.embed_panels(torch.cat(columns, dim=-1))
        seen = self._view(batch, frame, frame.centres).features
        for layer in self.among_panels:
            panels = layer(panels, panels, seen, hidden)
        return panels

    def _weights(
        self,
        batch: PanelBatch,
        frame: Frame,
        hidden: Float[Tensor, "s p"] | None,
        panels: Float[Tensor, "s p c"],
        some: slice,
    ) -> Float[Tensor, "s m p"]:
        config = self.config
        distance = batch.wall_distance[:, some] / frame.size
        seen = self._view(batch, frame, frame.points[:, some])
        columns = [_place(frame.points[:, some]), 2 * distance]
        columns.append(self._kappa(batch.kappa[:, some], frame))
        points = self.to_panels(self.embed_points(torch.cat(columns, dim=-1)), panels, seen.features, hidden)
        features, log_measure, ratio = seen.features, seen.log_measure, None
        if config.coefficient:
            # The measure and the flux of a smooth coefficient go with the root of its ratio, to first order.
            ratio = (batch.kappa_at_panels[:, None, :, 0] - batch.kappa[:, some, None, 0]) / 2
            between = Between(batch.kappa[:, some], batch.kappa_at_panels, ratio, seen.distance * frame.size)
            features = torch.cat([features, between.features], dim=-1)
            log_measure = log_measure + ratio + between.screening
        correction = self.pair(points, panels, features).unbind(-1)
        if not config.has_measure:
            return self._flux(seen, ratio, *correction) * batch.lengths[:, None]
        if config.tells_kinds:
            kind = batch.kind[:, None, :]
            drawn = _robin_log_measure(seen, frame.lengths, frame.alpha)
            log_measure = torch.where(kind == Kind.ROBIN, drawn if ratio is None else drawn + ratio, log_measure)
            hidden = torch.where(batch.has_panel & (batch.kind != Kind.NEUMANN), 0.0, NEVER)
        logit = log_measure + correction[0]
        measure = torch.softmax(logit if hidden is None else logit + hidden[:, None], dim=-1)
        if not config.has_flux:
            return measure
        flux = self._flux(seen, ratio, *correction[1:]) * batch.lengths[:, None]
        return torch.where(kind == Kind.NEUMANN, flux, measure)

    def _kappa(self, kappa: Float[Tensor, "s m 4"], frame: Frame) -> Float[Tensor, "s m columns"]:
        """In units of the domain, and of order one."""
        log_kappa, slope, q = kappa.split([1, 2, 1], dim=-1)
        columns = torch.cat([log_kappa, slope * frame.size / 4, torch.asinh(q * frame.size.square() / 8)], dim=-1)
        return columns[..., : self.config.kappa_columns]

    def _view(self, batch: PanelBatch, frame: Frame, places: Float[Tensor, "s a 2"]) -> View:
        config = self.config
        is_flux = batch.kind == Kind.NEUMANN
        arguments = (places, frame.centres, batch.normals, frame.lengths, frame.ends, is_flux)
        if not places.is_cuda or fused_kernels() is None:
            return view(*arguments, config.has_flux)
        from beno.nn.triton.view import fused_view

        half = torch.is_autocast_enabled("cuda")
        return fused_view(*arguments, config.has_flux, config.has_flux or config.coefficient, half)

    def _flux(
        self, seen: View, ratio: Tensor | None, factor: Tensor, term: Tensor, *shares: Tensor
    ) -> Float[Tensor, "s m p"]:
        kernel = seen.flux
        corners = sum((1 + share) * gain for share, gain in zip(shares, seen.corner_flux, strict=True))
        flux = kernel * (1 + factor) + corners + term
        return flux if ratio is None else flux * ratio.exp()


def _robin_log_measure(
    seen: View, lengths: Float[Tensor, "s p"], alpha: Float[Tensor, "s p"]
) -> Float[Tensor, "s m p"]:
    """The log measure of a flux of alpha, whose potential ends where it is absorbed: after 1 / alpha, or at other
    walls."""
    alpha = alpha[:, None, :].clamp(min=torch.finfo(alpha.dtype).tiny)  # 0 where the wall is of another kind
    return torch.log(lengths[:, None] * alpha * torch.log1p(1 / ((alpha + OTHER_WALLS) * seen.distance)) / math.pi)


def _place(places: Float[Tensor, "s m 2"]) -> Float[Tensor, "s m features"]:
    angles = torch.cat([math.pi * wave * places for wave in WAVES], dim=-1)
    return torch.cat([2 * places, angles.sin(), angles.cos()], dim=-1)


def _mlp(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width))


def _product(weights: Float[Tensor, "s m p"], data: Float[Tensor, "s p k"]) -> Float[Tensor, "s m k"]:
    """In single precision throughout: it is the data's own."""
    with torch.autocast(weights.device.type, enabled=False):
        return weights.float() @ data.float()
