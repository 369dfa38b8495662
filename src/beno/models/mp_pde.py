"""MP-PDE (Brandstetter, Worrall & Welling, ICLR 2022): neural message passing, for a problem without time.

From the paper: an encoder, message passing with ``m = phi(h_i, h_j, u_i - u_j, x_i - x_j)`` and
``h_i <- h_i + psi(h_i, mean of m)``, two layers each with Swish, instance norm after every step, six steps of width
128. Here the solution's own differences become those of what is given, f and g; the time bundling decoder becomes two
layers; the graph is the one that BENO has, with the boundary's nodes in it.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from beno.batches.graph_inputs import GraphKind
from beno.batches.graphs import GraphBatch
from beno.models.base import GraphModel
from beno.models.nodes import NodeConfig, node_features, offsets
from beno.nn.branch import BranchLinear, BranchMLP
from beno.nn.segments import Wiring, activated_to_nodes, gathered, spread

EPSILON = 1e-5

# Which sample every node belongs to, and where each one's nodes begin.
Samples = tuple[Int[Tensor, " n"], Int[Tensor, " s_plus_one"]]


@dataclass(frozen=True)
class MPPDEConfig(NodeConfig):
    """Sizes as in the paper of MP-PDE."""

    width: int = 128
    steps: int = 6
    nearest: int = 8

    def __post_init__(self) -> None:
        self.require_at_least(width=1, steps=1, nearest=1)


class Step(nn.Module):
    """One step of message passing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # The message's first layer, in parts: what its receiver and its sender give, and what differs between them.
        fan_in = 2 * width + 4
        self.from_receiver = BranchLinear(1, width, width, bias=False, fan_in=fan_in)
        self.from_sender = BranchLinear(1, width, width, bias=False, fan_in=fan_in)
        self.message = BranchMLP(1, 4, width, width, layers=2, fan_in=fan_in)
        self.update = BranchMLP(1, (width, width), width, width, layers=2)
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(
        self, nodes: Float[Tensor, "n c"], edges: Float[Tensor, "e 4"], wiring: Wiring, samples: Samples
    ) -> Float[Tensor, "n c"]:
        ends = self.from_receiver(nodes), self.from_sender(nodes), wiring
        messages = self.message(edges, from_nodes=ends)  # before the activation
        degree = (wiring.start[1:] - wiring.start[:-1]).clamp(min=1)[:, None]
        received = activated_to_nodes(messages, wiring) / degree
        nodes = nodes + functional.silu(self.update(nodes, received))
        return instance_norm(nodes.float(), self.gain, self.shift, samples)


class MPPDE(GraphModel[MPPDEConfig]):
    """Message passing with differences of data and places."""

    name = "mp-pde"
    Config = MPPDEConfig
    small = {"width": 8, "steps": 2}

    def __init__(self, config: MPPDEConfig | None = None) -> None:
        super().__init__(config)
        config = self.config
        self.encode = _two_layers(config.node_columns, config.width, config.width)
        self.steps = nn.ModuleList(Step(config.width) for _ in range(config.steps))
        self.decode = nn.Sequential(nn.Linear(config.width, config.width), nn.SiLU(), nn.Linear(config.width, 1))

    @classmethod
    def graph_kind(cls, config: MPPDEConfig) -> GraphKind:
        return GraphKind(config.nearest, boundary_nodes=True)

    def branches(self, batch: GraphBatch) -> Float[Tensor, "1 n"]:
        given = torch.stack([batch.source, batch.boundary_value], dim=1)
        wiring = batch.wiring
        edges = torch.cat([offsets(batch), given[wiring.receiver] - given[wiring.sender]], dim=1)
        nodes = self.encode(node_features(batch, self.config))
        samples = samples_of(batch)
        for step in self.steps:
            nodes = step(nodes, edges, wiring, samples)
        return self.decode(nodes).float().T


def instance_norm(nodes: Float[Tensor, "n c"], gain: Tensor, shift: Tensor, samples: Samples) -> Float[Tensor, "n c"]:
    """Over the nodes of each sample."""
    _, start = samples
    count = start.diff().clamp(min=1)[:, None]
    centred = nodes - spread(gathered(nodes, *samples) / count, *samples)
    variance = gathered(centred.square(), *samples) / count
    return torch.addcmul(shift, centred, spread(gain * torch.rsqrt(variance + EPSILON), *samples))


def samples_of(batch: GraphBatch) -> Samples:
    """Padding is one more sample."""
    if batch.has_point is None:
        return batch.sample, batch.sample_start
    start = batch.sample_start
    return (
        torch.where(batch.has_point, batch.sample, len(batch)),
        torch.cat([start[:-1], batch.has_point.sum()[None], start[-1:]]),
    )


def _two_layers(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, outputs), nn.SiLU())
