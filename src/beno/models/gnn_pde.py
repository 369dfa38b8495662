"""GNN-PDE (Lötzsch, Ohler & Otterbach, 2022): spectral graph convolutions between two multilayer perceptrons.

From the paper and its code: an encoder of two layers, three Chebyshev convolutions with polynomials of five terms over
the graph weighted by the lengths of its edges, a decoder of two layers, width 128. Here the places of nodes stay among
their features, as all baselines have them; the graph is the one that BENO has, with the boundary's nodes in it.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from beno.batches.graph_inputs import GraphKind
from beno.batches.graphs import GraphBatch
from beno.models.base import GraphModel
from beno.models.nodes import NodeConfig, node_features, offsets
from beno.nn.segments import Wiring, over_neighbours, to_nodes


@dataclass(frozen=True)
class GNNPDEConfig(NodeConfig):
    """Sizes as in the paper of GNN-PDE."""

    width: int = 128
    layers: int = 3
    terms: int = 5  # of each Chebyshev polynomial
    nearest: int = 8

    def __post_init__(self) -> None:
        self.require_at_least(width=1, layers=1, terms=1, nearest=1)


class ChebyshevConvolution(nn.Module):
    """A polynomial of the graph's normalised Laplacian, whose spectrum is shifted to [-1, 1]."""

    def __init__(self, width: int, terms: int) -> None:
        super().__init__()
        self.terms = nn.ModuleList(nn.Linear(width, width, bias=term == 0) for term in range(terms))

    def forward(
        self, nodes: Float[Tensor, "n c"], weight: Float[Tensor, "e 1"], wiring: Wiring
    ) -> Float[Tensor, "n c"]:
        def shifted_laplacian(values: Tensor) -> Tensor:
            return -over_neighbours(values, weight, wiring)

        # In single precision: the recursion of the polynomials adds up what rounding leaves.
        before, now = None, nodes.float()
        out = self.terms[0](now)
        for term in list(self.terms)[1:]:
            next_ = shifted_laplacian(now)
            before, now = now, next_ if before is None else 2 * next_ - before
            out = out + term(now)
        return out


class GNNPDE(GraphModel[GNNPDEConfig]):
    """Chebyshev convolutions on a graph."""

    name = "gnn-pde"
    Config = GNNPDEConfig
    small = {"width": 8, "layers": 2, "terms": 3}

    def __init__(self, config: GNNPDEConfig | None = None) -> None:
        super().__init__(config)
        config = self.config
        width = config.width
        self.encode = nn.Sequential(
            nn.Linear(config.node_columns, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
        )
        self.layers = nn.ModuleList(ChebyshevConvolution(width, config.terms) for _ in range(config.layers))
        self.decode = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    @classmethod
    def graph_kind(cls, config: GNNPDEConfig) -> GraphKind:
        return GraphKind(config.nearest, boundary_nodes=True)

    def branches(self, batch: GraphBatch) -> Float[Tensor, "1 n"]:
        weight = self._weights(batch)
        nodes = self.encode(node_features(batch, self.config))
        for layer in self.layers:
            nodes = functional.relu(layer(nodes, weight, batch.wiring))
        return self.decode(nodes).float().T

    def _weights(self, batch: GraphBatch) -> Float[Tensor, "e 1"]:
        """Lengths of edges over the root of what their two nodes have of them."""
        wiring = batch.wiring
        length = offsets(batch).norm(dim=1, keepdim=True)
        degree = to_nodes(length, wiring).clamp(min=1e-9)
        return length * torch.rsqrt(degree[wiring.receiver] * degree[wiring.sender])
