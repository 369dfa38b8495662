"""GKN, the graph kernel network (Li et al., 2020): ``v <- relu(W v + mean over a ball of kappa(x, y) v(y))``.

From the paper and its authors' code: the kernel's network sees both places and what is given at them, has two hidden
layers and makes a matrix for every edge, the same in all six steps. Balls have a radius of 0.1; width 64, the kernel's
layers 128 and 256, as in the authors' later code, where GKN is the baseline. Here the nodes of the boundary stand in
the graph too, told apart by their features.

No matrix is ever made. The kernel's last layer is linear, so it may act after the sum over neighbours,

    sum_j (A h_ij) v_j = A (sum_j h_ij v_j^T),

once for every node instead of once for every edge: see `KernelSum`.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from beno.batches.graph_inputs import GraphKind
from beno.batches.graphs import GraphBatch
from beno.models.base import GraphModel
from beno.models.nodes import NodeConfig, node_features
from beno.nn.autograd import Context, Gradients
from beno.nn.segments import Slots, over_neighbours, to_edges
from beno.support.errors import BenoError


@dataclass(frozen=True)
class GKNConfig(NodeConfig):
    """Sizes as in the papers of GKN; docs/baselines.md says which."""

    width: int = 64
    kernel_width: int = 256  # of its second hidden layer; the first has half of it
    depth: int = 6
    radius: float = 0.1

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("kernel_width", 2), ("depth", 1)):
            if getattr(self, name) < least:
                raise BenoError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        if not self.radius > 0:
            raise BenoError(f"radius is {self.radius}; it must be positive")


class GKN(GraphModel[GKNConfig]):
    """Sums over balls, weighted by a learned kernel."""

    name = "gkn"
    Config = GKNConfig
    small = {"width": 4, "kernel_width": 8, "depth": 2, "radius": 0.2}

    def __init__(self, config: GKNConfig | None = None) -> None:
        super().__init__(config)
        config = self.config
        width, columns = config.width, config.node_columns
        self.lift = nn.Linear(columns, width)
        # The kernel's first layer, in two parts: what an edge's receiver and what its sender gives.
        first, second = config.kernel_width // 2, config.kernel_width
        self.from_receiver = nn.Linear(columns, first)
        self.from_sender = nn.Linear(columns, first, bias=False)
        self.kernel = nn.Sequential(nn.ReLU(), nn.Linear(first, second), nn.ReLU())
        self.matrix = nn.Linear(second * width, width, bias=False)
        self.mean_matrix = nn.Linear(width, width, bias=False)  # the bias of the kernel's last layer
        # As the layer of ``second`` inputs that it is for every edge.
        for layer in (self.matrix, self.mean_matrix):
            nn.init.uniform_(layer.weight, -(second**-0.5), second**-0.5)
        self.root = nn.Linear(width, width)
        self.project = nn.Linear(width, 1)

    @classmethod
    def graph_kind(cls, config: GKNConfig) -> GraphKind:
        return GraphKind(radius=config.radius, boundary_nodes=True)

    def branches(self, batch: GraphBatch) -> Float[Tensor, "1 n"]:
        wiring = batch.wiring
        features = node_features(batch, self.config)
        hidden = self.kernel(to_edges(self.from_receiver(features), self.from_sender(features), wiring))
        slots = Slots.of(wiring, batch.most_neighbours)
        hidden = slots.fill(hidden)  # the same in all steps
        degree = (wiring.start[1:] - wiring.start[:-1]).clamp(min=1)[:, None]
        nodes = self.lift(features)
        for _ in range(self.config.depth):
            sending = nodes.to(hidden.dtype)
            received = KernelSum.apply(hidden, slots.fill_from_senders(sending), self.matrix.weight.to(hidden.dtype))
            received = received + self.mean_matrix(over_neighbours(sending, None, wiring))
            nodes = functional.relu(self.root(nodes) + received / degree)
        return self.project(nodes).float().T


class KernelSum(torch.autograd.Function):
    """At each node ``A (sum_j h_j v_j^T)``.

    The sums, k c numbers a node, are what would fill the memory: so they are made for a few nodes at a time, which a
    CPU has in its cache, and made again for the gradients.
    """

    NODES_AT_A_TIME = 128  # on a CPU

    @staticmethod
    def forward(
        ctx: Context, hidden: Float[Tensor, "n most k"], sent: Float[Tensor, "n most c"], matrix: Float[Tensor, "o kc"]
    ) -> Float[Tensor, "n o"]:
        ctx.save_for_backward(hidden, sent, matrix)
        return torch.cat([_sums(hidden[here], sent[here]).flatten(1) @ matrix.T for here in _pieces(hidden)])

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Gradients:
        hidden, sent, matrix = ctx.saved_tensors
        gradient = gradients[0].to(hidden.dtype)
        to_hidden, to_sent = torch.empty_like(hidden), torch.empty_like(sent)
        to_matrix = torch.zeros_like(matrix, dtype=torch.promote_types(matrix.dtype, torch.float32))
        for here in _pieces(hidden):
            sums = _sums(hidden[here], sent[here])
            to_matrix += gradient[here].T @ sums.flatten(1)
            to_sums = (gradient[here] @ matrix).view_as(sums)
            torch.bmm(sent[here], to_sums.transpose(1, 2), out=to_hidden[here])
            torch.bmm(hidden[here], to_sums, out=to_sent[here])
        return to_hidden, to_sent, to_matrix.to(matrix.dtype)


def _sums(hidden: Float[Tensor, "n most k"], sent: Float[Tensor, "n most c"]) -> Float[Tensor, "n k c"]:
    return torch.bmm(hidden.transpose(1, 2), sent)


def _pieces(hidden: Float[Tensor, "n most k"]) -> list[slice]:
    length = len(hidden) if hidden.is_cuda else KernelSum.NODES_AT_A_TIME
    return [slice(first, first + length) for first in range(0, len(hidden), length)]
