"""BENO, the boundary-embedded neural operator (Wang et al., ICLR 2024), as its paper writes it.

Two branches of the same form, added at the end: one sees f on a boundary of zeros, the other g with no
source. Each encodes nodes and edges, embeds the boundary into one vector a step, and passes messages

    m_ij = MLP(v_i, v_j, e_ij, p_i - p_j)
    v_i <- MLP(v_i, B, sum_j m_ij)          e_ij <- MLP(e_ij, m_ij)

The branches run side by side (see `nn.branch`), and what an MLP's first layer does to a node it does
before the node's features are copied to its edges: the same numbers, at a third of the arithmetic.
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from beno.batches.graph_inputs import GraphKind
from beno.batches.graphs import GraphBatch
from beno.models.base import GraphModel
from beno.models.nodes import NodeConfig
from beno.nn.boundary import BoundaryEncoder, Tokens
from beno.nn.branch import BranchLinear, BranchMLP
from beno.nn.segments import Wiring, spread, to_nodes
from beno.support.errors import BenoError

TYPICAL_DEGREE = 9  # of a node, on a grid


@dataclass(frozen=True)
class BENOConfig(NodeConfig):
    """The paper's list; options below the line are where the authors' code, or an ablation, differs."""

    width: int = 128
    steps: int = 5  # T, of message passing
    mlp_layers: int = 3  # M
    boundary_layers: int = 1  # L
    heads: int = 2
    nearest: int = 8  # K

    # The authors' code.
    residual: bool = False  # add each update of nodes and edges to what was there
    layer_norm: bool = False  # at the end of every MLP but the decoder's
    mean_messages: bool = False  # instead of their sum
    max_pool: bool = False  # over the boundary, instead of the mean
    shared_boundary: bool = False  # one boundary encoder for all steps, instead of one a step
    both_walls: bool = False  # distances to the walls on both sides, instead of to the nearer one
    source_gradient: bool = False  # f smoothed over the graph, and its slope, as further node features

    # The paper's ablations.
    boundary_in_nodes: bool = True  # False: M, plain message passing that keeps to the interior
    two_branches: bool = True  # False: w/o D
    boundary_in_messages: bool = False  # True: E
    boundary_convolution: bool = False  # True: G, a graph convolution in place of the Transformer

    # The unit of length that the network sees. By default the deviation of a coordinate that is
    # uniform on the unit interval, which z-scores it; a smaller unit lets functions of place vary faster.
    length_unit: float = 12**-0.5

    def __post_init__(self) -> None:
        self.require_at_least(width=1, steps=1, mlp_layers=1, boundary_layers=1, heads=1, nearest=1)
        if self.width % self.heads or self.width % 2:
            raise BenoError(f"width {self.width} must be even and a multiple of the {self.heads} heads")
        if not 0 < self.length_unit < math.inf:
            raise BenoError(f"length_unit is {self.length_unit}; it must be a positive number")

    @property
    def branch_count(self) -> int:
        return 2 if self.two_branches else 1

    @property
    def uses_boundary(self) -> bool:
        return self.boundary_in_nodes or self.boundary_in_messages


class MessagePassing(nn.Module):
    """One step, all branches at once."""

    def __init__(self, config: BENOConfig, last: bool) -> None:
        super().__init__()
        self.config = config
        width, branches = config.width, config.branch_count
        mlp = partial(
            BranchMLP,
            branches,
            hidden=width,
            outputs=width,
            layers=config.mlp_layers,
            layer_norm=config.layer_norm,
        )
        # The message's first layer, in parts: what comes from the edge, its ends, and their offset.
        fan_in = (3 + config.boundary_in_messages) * width
        part = partial(BranchLinear, branches, bias=False, fan_in=fan_in)
        self.message = mlp(width, fan_in=fan_in)
        self.from_receiver = part(width, width)
        self.from_sender = part(width, width)
        self.from_offset = part(2, width)
        self.boundary_to_message = part(width, width) if config.boundary_in_messages else None

        fan_in = (2 + config.boundary_in_nodes) * width
        self.node = mlp((width, width), fan_in=fan_in)
        self.boundary_to_node = (
            BranchLinear(branches, width, width, bias=False, fan_in=fan_in) if config.boundary_in_nodes else None
        )
        if not config.mean_messages:
            with torch.no_grad():  # a sum over neighbours is to weigh no more than the node itself
                self.node.first.weights[1] /= TYPICAL_DEGREE
        # Nothing reads the edges after the last step.
        self.edge = None if last else mlp((width, width))

    def forward(
        self,
        nodes: Float[Tensor, "bn c"],
        edges: Float[Tensor, "be c"],
        place: Float[Tensor, "bn 2"],
        boundary: Float[Tensor, "bs c"] | None,
        samples: tuple[Tensor, Tensor],
        wiring: Wiring,
    ) -> tuple[Float[Tensor, "bn c"], Float[Tensor, "be c"]]:
        offset = self.from_offset(place)
        at_receiver, at_sender = self.from_receiver(nodes) + offset, self.from_sender(nodes) - offset
        if self.boundary_to_message is not None and boundary is not None:
            at_receiver = at_receiver + spread(self.boundary_to_message(boundary), *samples)
        message = self.message(edges, from_nodes=(at_receiver, at_sender, wiring))

        gathered = to_nodes(message, wiring)
        if self.config.mean_messages:
            gathered = gathered / (wiring.start[1:] - wiring.start[:-1]).clamp(min=1)[:, None]
        update = self.node.first(nodes, gathered)
        if self.boundary_to_node is not None and boundary is not None:
            update = update + spread(self.boundary_to_node(boundary), *samples)
        kept = self.config.residual
        new_nodes = self.node.after_first(update, residual=nodes if kept else None)
        if self.edge is None:
            return new_nodes, edges
        return new_nodes, self.edge(edges, message, residual=edges if kept else None)


class BENO(GraphModel[BENOConfig]):
    """The network of the paper; see the module for its equations."""

    name = "beno"
    Config = BENOConfig
    small = {"width": 8, "steps": 2}
    inputs_that_come_last = frozenset({"coefficient"})

    def __init__(self, config: BENOConfig | None = None) -> None:
        super().__init__(config)
        config = self.config
        width, branches = config.width, config.branch_count
        node_features = 3 + (4 if config.both_walls else 2) + 3 * config.source_gradient + config.coefficient
        mlp = partial(BranchMLP, branches, hidden=width, outputs=width, layers=2, layer_norm=config.layer_norm)
        self.encode_nodes = mlp(node_features)
        self.encode_edges = mlp(7)
        self.encode_boundary = (
            BoundaryEncoder(
                copies=branches * (1 if config.shared_boundary else config.steps),
                features=4 + config.kind_columns,
                width=width,
                layers=config.boundary_layers,
                heads=config.heads,
                convolution=config.boundary_convolution,
                max_pool=config.max_pool,
            )
            if config.uses_boundary
            else None
        )
        self.steps = nn.ModuleList(
            MessagePassing(config, last=step == config.steps - 1) for step in range(config.steps)
        )
        self.decode = BranchMLP(branches, width, hidden=width, outputs=1, layers=2, last_gain=0.1)

    @classmethod
    def graph_kind(cls, config: BENOConfig) -> GraphKind:
        return GraphKind(config.nearest)

    def branches(self, batch: GraphBatch) -> Float[Tensor, "b n"]:
        """What each branch adds to u: the part that f makes, and the part that g makes."""
        branches, points = self.config.branch_count, len(batch.source)
        wiring = batch.wiring.repeat(branches)
        place = ((batch.points - 0.5) / self.config.length_unit).repeat(branches, 1)
        source = self._only_branch(batch.source, branch=0)
        nodes = self.encode_nodes(self._node_features(batch, place, source, wiring))
        edges = self.encode_edges(_edge_features(place, source, wiring))
        boundary = self._boundary(batch)
        samples = self._samples(batch)
        for number, step in enumerate(self.steps):
            vector = None if boundary is None else boundary[:, number % boundary.shape[1]].flatten(0, 1)
            nodes, edges = step(nodes, edges, place, vector, samples, wiring)
        return self.decode(nodes).view(branches, points).float()

    def _samples(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Which sample every row belongs to, and where each one's rows begin, over all branches."""
        branch = torch.arange(self.config.branch_count, device=batch.sample.device)[:, None]
        start = (batch.sample_start[:-1] + len(batch.source) * branch).flatten()
        end = batch.sample_start[-1:] * self.config.branch_count
        return (batch.sample + len(batch) * branch).flatten(), torch.cat([start, end])

    def _only_branch(self, values: Float[Tensor, "*shape"], branch: int) -> Float[Tensor, "b *shape"]:
        """The values in one branch, zero in the other; a single branch sees everything."""
        if not self.config.two_branches:
            return values[None]
        zero = torch.zeros_like(values)
        return torch.stack([values, zero] if branch == 0 else [zero, values])

    def _node_features(
        self, batch: GraphBatch, place: Float[Tensor, "bn 2"], source: Float[Tensor, "b n"], wiring: Wiring
    ) -> Float[Tensor, "bn features"]:
        branches = self.config.branch_count
        distance = batch.wall_distance / self.config.length_unit
        if not self.config.both_walls:
            distance = distance.view(-1, 2, 2).amin(dim=2)
        columns = [place, source.view(-1, 1), distance.repeat(branches, 1)]
        if self.config.source_gradient:
            columns.append(_smoothed_with_slope(source.view(-1), place, wiring))
        if self.config.coefficient:
            columns.append(batch.log_coefficient.repeat(branches)[:, None])
        return torch.cat(columns, dim=1)

    def _boundary(self, batch: GraphBatch) -> Float[Tensor, "b steps s c"] | None:
        if self.encode_boundary is None:
            return None
        config = self.config
        g = self._only_branch(batch.g, branch=1)
        columns = [
            *((batch.centres - 0.5) / config.length_unit).unbind(-1),
            batch.centroid_distance / config.length_unit,
        ]
        if config.kinds:
            columns += [*config.told_kinds(batch.kind).unbind(-1), batch.alpha]
        shared = torch.stack(columns, dim=-1).expand(config.branch_count, -1, -1, -1)
        features = torch.cat([shared, g[..., None]], dim=-1)
        per_branch = self.encode_boundary.copies // config.branch_count
        repeated = features.repeat_interleave(per_branch, dim=0)
        vectors = self.encode_boundary(Tokens(repeated, batch.position, batch.before, batch.after, batch.has_panel))
        return vectors.view(config.branch_count, per_branch, *vectors.shape[1:])


def _edge_features(place: Float[Tensor, "bn 2"], source: Float[Tensor, "b n"], wiring: Wiring) -> Float[Tensor, "be 7"]:
    """Where an edge's ends lie, what f is there, and how far apart they are."""
    ends = torch.cat([place, source.view(-1, 1)], dim=1)
    receiver, sender = ends[wiring.receiver], ends[wiring.sender]
    distance = (receiver[:, :2] - sender[:, :2]).norm(dim=1, keepdim=True)
    return torch.cat([receiver, sender, distance], dim=1)


def _smoothed_with_slope(
    source: Float[Tensor, " bn"], place: Float[Tensor, "bn 2"], wiring: Wiring
) -> Float[Tensor, "bn 3"]:
    """f averaged over each node's neighbours, and the slope of a plane through it, by least squares."""
    degree = (wiring.start[1:] - wiring.start[:-1]).clamp(min=1)[:, None]
    smooth = to_nodes(source[wiring.sender][:, None], wiring) / degree
    away = place[wiring.sender] - place[wiring.receiver]
    rise = smooth[wiring.sender, 0] - smooth[wiring.receiver, 0]
    moments = to_nodes((away[:, :, None] * away[:, None, :]).flatten(1), wiring).view(-1, 2, 2)
    right = to_nodes(away * rise[:, None], wiring)
    # The 2 x 2 system in closed form; a node whose neighbours all lie on one line has no slope across it.
    xx, xy, yy = moments[:, 0, 0], moments[:, 0, 1], moments[:, 1, 1]
    determinant = (xx * yy - xy * xy).clamp(min=1e-9)
    slope_x = (yy * right[:, 0] - xy * right[:, 1]) / determinant
    slope_y = (xx * right[:, 1] - xy * right[:, 0]) / determinant
    return torch.cat([smooth, slope_x[:, None], slope_y[:, None]], dim=1)
