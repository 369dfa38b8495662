"""MP-PDE (Brandstetter, Worrall & Welling, ICLR 2022): neural message passing, for a problem without time.

From the paper: an encoder, message passing with ``m = phi(h_i, h_j, u_i - u_j, x_i - x_j)`` and
``h_i <- h_i + psi(h_i, mean of m)``, two layers each with Swish, instance norm after every step, six steps of width
128. Here the solution's own differences become those of what is given, f and g; the time bundling decoder becomes two
layers; the graph is the one that BENO has, with the boundary's nodes in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from beno.batch import Batch, Cohort
from beno.dataset import Metadata
from beno.errors import BenoError
from beno.models.nodes import node_columns, node_features, offsets, settings_for
from beno.nn.branch import BranchLinear, BranchMLP
from beno.nn.segments import gathered, spread, to_nodes
from beno.sample import Sample
from beno.scaling import Scales
from beno.variety import Variety

EPSILON = 1e-5


@dataclass(frozen=True)
class MPPDEConfig:
    width: int = 128
    steps: int = 6
    nearest: int = 8
    coefficient: bool = False
    kinds: bool = False

    def __post_init__(self) -> None:
        for name in ("width", "steps", "nearest"):
            if getattr(self, name) < 1:
                raise BenoError(f"{name} is {getattr(self, name)}; it must be at least 1")

    @staticmethod
    def settings_for(data: Metadata) -> dict[str, Any]:
        return settings_for(data)


class Step(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        # The message's first layer, in parts: what its receiver and its sender give, and what differs between them.
        fan_in = 2 * width + 4
        self.from_receiver = BranchLinear(1, width, width, bias=False, fan_in=fan_in)
        self.from_sender = BranchLinear(1, width, width, bias=False, fan_in=fan_in)
        self.message = BranchMLP(1, 4, width, width, layers=2, fan_in=fan_in)
        self.update = BranchMLP(1, (width, width), width, width, layers=2)
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, nodes: Float[Tensor, "n c"], edges: Float[Tensor, "e 4"], batch: Batch) -> Float[Tensor, "n c"]:
        wiring = batch.wiring
        ends = self.from_receiver(nodes), self.from_sender(nodes), wiring
        messages = functional.silu(self.message(edges, from_nodes=ends))
        degree = (wiring.start[1:] - wiring.start[:-1]).clamp(min=1)[:, None]
        received = to_nodes(messages, wiring) / degree
        nodes = nodes + functional.silu(self.update(nodes, received))
        return instance_norm(nodes.float(), batch) * self.gain + self.shift


class MPPDE(nn.Module):
    def __init__(self, config: MPPDEConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or MPPDEConfig()
        self.encode = _two_layers(node_columns(config.coefficient, config.kinds), config.width, config.width)
        self.steps = nn.ModuleList(Step(config.width) for _ in range(config.steps))
        self.decode = nn.Sequential(nn.Linear(config.width, config.width), nn.SiLU(), nn.Linear(config.width, 1))

    @staticmethod
    def cohort(
        samples: Iterable[Sample],
        scales: Scales,
        config: MPPDEConfig,
        device: torch.device | str = "cpu",
        variety: Variety | None = None,
    ) -> Cohort:
        return Cohort.of(samples, scales, config.nearest, device, variety, boundary_nodes=True)

    def forward(self, batch: Batch) -> Float[Tensor, " n"]:
        return self.branches(batch)[0]

    def branches(self, batch: Batch) -> Float[Tensor, "1 n"]:
        given = torch.stack([batch.source, batch.boundary_value], dim=1)
        wiring = batch.wiring
        edges = torch.cat([offsets(batch), given[wiring.receiver] - given[wiring.sender]], dim=1)
        nodes = self.encode(node_features(batch, self.config.coefficient, self.config.kinds))
        for step in self.steps:
            nodes = step(nodes, edges, batch)
        return self.decode(nodes).float().T


def instance_norm(nodes: Float[Tensor, "n c"], batch: Batch) -> Float[Tensor, "n c"]:
    """Over the nodes of each sample; padding is not counted."""
    real = None if batch.real_point is None else batch.real_point[:, None].to(nodes.dtype)

    def mean(values: Tensor) -> Tensor:
        total = sample_sum(values if real is None else values * real, batch)
        return total / count

    ones = torch.ones_like(nodes[:, :1]) if real is None else real
    count = sample_sum(ones, batch).clamp(min=1)
    centred = nodes - mean(nodes)
    return centred * torch.rsqrt(mean(centred.square()) + EPSILON)


def sample_sum(values: Float[Tensor, "n c"], batch: Batch) -> Float[Tensor, "n c"]:
    """Each sample's sum, at every one of its nodes."""
    where = (batch.sample, batch.sample_start)
    return spread(gathered(values, *where), *where)


def _two_layers(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, outputs), nn.SiLU())
