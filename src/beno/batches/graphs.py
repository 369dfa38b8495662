"""Problems as graphs, for models that pass messages (`panels` is for those that act through the boundary).

Graphs of any size lie on end on the device; a batch is some of them, picked out by a few gathers, so that training
never waits for the host.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import joblib
import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from beno.batches.augmentation import Augmentation, Selection
from beno.batches.base import (
    Batch,
    Batches,
    Feed,
    Posed,
    as_tensor,
    padded,
    problem_of,
    require_some,
)
from beno.batches.delaunay import Graph
from beno.batches.graph_inputs import GRAPH_ARRAYS, LINEAR_COLUMNS, PANEL_COLUMNS, POINT_COLUMNS, GraphInputs, GraphKind
from beno.datasets.scales import Scales
from beno.nn.segments import Wiring, gathered
from beno.problems.operator import Elliptic
from beno.problems.solution import Solution
from beno.problems.subproblems import with_parts
from beno.support.errors import BenoError


@dataclass(eq=False, repr=False)  # not frozen: Fabric rebuilds what it passes to a model field by field
class GraphBatch(Batch, Feed):
    """Graphs on end; panels side by side, padded to the longest boundary."""

    points: Float[Tensor, "n 2"]
    wall_distance: Float[Tensor, "n 4"]
    source: Float[Tensor, " n"]
    log_coefficient: Float[Tensor, " n"]
    inside: Float[Tensor, " n"]
    boundary_value: Float[Tensor, " n"]
    boundary_kind: Int[Tensor, " n"]
    boundary_alpha: Float[Tensor, " n"]
    sample: Int[Tensor, " n"]  # which sample each point belongs to
    sample_start: Int[Tensor, " s_plus_one"]  # where each sample's points begin
    wiring: Wiring
    centres: Float[Tensor, "s p 2"]
    centroid_distance: Float[Tensor, "s p"]
    position: Float[Tensor, "s p"]
    g: Float[Tensor, "s p"]
    kind: Int[Tensor, "s p"]
    alpha: Float[Tensor, "s p"]
    before: Int[Tensor, "s p"]
    after: Int[Tensor, "s p"]
    has_panel: Bool[Tensor, "s p"] | None  # where it is not padding; None where nothing is
    has_point: Bool[Tensor, " n"] | None  # likewise for points
    node_counts: tuple[int, ...]
    point_counts: tuple[int, ...]
    most_neighbours: int  # that a node has, padding aside, in any batch of these
    u: Float[Tensor, " n"] | None = None

    def __len__(self) -> int:
        return len(self.point_counts)

    def by_sample(self, values: Float[Tensor, " n"]) -> Float[Tensor, " s"]:
        values = values * self.inside
        if self.has_point is not None:
            values = values * self.has_point
        return gathered(values[:, None], self.sample, self.sample_start)[:, 0]

    def split(self, values: Float[Tensor, "*b n"]) -> list[Tensor]:
        parts = values.split(list(self.node_counts), dim=-1)
        return [part[..., :points] for part, points in zip(parts, self.point_counts, strict=True)]


@dataclass(frozen=True)
class BatchSize:
    """What a batch is padded to, so that every batch of a run looks the same to the device."""

    samples: int
    points: int
    edges: int

    def holds(self, samples: int, points: int, edges: int) -> bool:
        """Padding edges join padding points, so there is to be one of those."""
        return samples <= self.samples and points < self.points and edges <= self.edges


class GraphBatches(Batches[GraphBatch]):
    """Every problem with its parts, and each of these in all its turns, if the augmentation asks for them."""

    POINTS_IN_CACHE = 1600

    def __init__(
        self,
        inputs: Sequence[GraphInputs],
        device: torch.device | str = "cpu",
        augmentation: Augmentation | None = None,
    ) -> None:
        require_some(inputs)
        self.device, self.augmentation = torch.device(device), augmentation or Augmentation()
        self.views = self.augmentation.turns * (1 + self.augmentation.parts)  # of a sample, one after the other
        known = [name for name in POINT_COLUMNS if getattr(inputs[0], name) is not None]
        graphs = [_graph_of(one) for one in inputs]
        self._points = {name: self._join([getattr(one, name) for one in inputs]) for name in known}
        # Most of what is stored, and the same however a sample is turned: once for all its turns.
        once = graphs[:: self.augmentation.turns]
        self._edges = {name: self._join([getattr(graph, name) for graph in once]) for name in GRAPH_ARRAYS}
        self._edge_ends = self._join([graph.start[1:] for graph in graphs])
        self.node_counts = np.array([len(one.points) for one in inputs])
        self.point_counts = np.array([int(one.inside.sum()) for one in inputs])
        self.panel_counts = np.array([len(one.g) for one in inputs])
        self.edge_counts = np.array([len(graph) for graph in graphs])
        self.most_neighbours = max(int(np.diff(graph.start).max()) for graph in graphs)
        self._panels = {name: self._tensor(padded([getattr(one, name) for one in inputs])) for name in PANEL_COLUMNS}

    @classmethod
    def of(
        cls,
        posed: Sequence[Posed],
        scales: Scales,
        kind: GraphKind | None = None,
        device: torch.device | str = "cpu",
        augmentation: Augmentation | None = None,
    ) -> "GraphBatches":
        kind, augmentation = kind or GraphKind(), augmentation or Augmentation()
        if augmentation.points:
            raise BenoError("a model on graphs sees all points of a sample: points must be 0")
        jobs = (joblib.delayed(_inputs_of)(one, scales, kind, augmentation, seed) for seed, one in enumerate(posed))
        together = joblib.Parallel(batch_size=8)(jobs)  # on as many workers as `joblib.parallel_config` says
        return cls([inputs for some in together for inputs in some], device, augmentation)

    def __len__(self) -> int:
        return len(self.point_counts) // self.views

    def select(self, indices: Int[np.ndarray, " s"], rng: np.random.Generator) -> Selection:
        """Each problem, or a part of it, in a random one of its symmetries, then with a random sign: all is linear."""
        count, augmentation = len(indices), self.augmentation
        view = augmentation.choose_parts(rng, count) * augmentation.turns
        if augmentation.turns == 1:
            return Selection.of(indices * self.views + view)
        turn = augmentation.choose_turns(rng, count)
        return Selection.of(indices * self.views + view + turn, augmentation.choose_signs(rng, count))

    def feed(self, selection: Selection, samples: int | None = None) -> GraphBatch:
        """What a selection names, padded to the common size of so many samples if that is given and it fits."""
        size = self.common_size(samples) if samples else None
        batch = self.padded_batch(selection.rows, size) if size else None
        batch = self._batch(selection.rows) if batch is None else batch
        if self.augmentation.turns == 1:
            return batch
        sign = self._tensor(np.pad(selection.signs, (0, len(batch) - len(selection)), constant_values=1.0))
        at_points = sign[batch.sample]
        linear = {name: getattr(batch, name) for name in LINEAR_COLUMNS if getattr(batch, name) is not None}
        return replace(batch, **{name: v * (at_points if v.ndim == 1 else sign[:, None]) for name, v in linear.items()})

    def open(self, feed: Feed) -> GraphBatch:
        assert isinstance(feed, GraphBatch)
        return feed

    def smallest(self, samples: int) -> Selection:
        return Selection.of(np.argsort(self.edge_counts)[:samples])

    def common_size(self, samples: int) -> BatchSize:
        """A size that almost every batch of so many samples fits: three deviations over the mean."""

        def generous(counts: Int[np.ndarray, " all"]) -> int:
            return int(np.ceil((samples * counts.mean() + 3 * samples**0.5 * counts.std()) / 64) + 1) * 64

        return BatchSize(samples, generous(self.node_counts), generous(self.edge_counts))

    def padded_batch(self, indices: Int[np.ndarray, " s"], size: BatchSize) -> GraphBatch | None:
        """The samples with these indices, padded to a size; None if they do not fit it."""
        counts = (len(indices), int(self.node_counts[indices].sum()), int(self.edge_counts[indices].sum()))
        if not size.holds(*counts):
            return None
        return _padded_to(self._batch(indices), size, counts[1], counts[2], int(self.panel_counts.max()))

    def batch(self, indices: Int[np.ndarray, " s"] | range | None = None) -> GraphBatch:
        return self._batch((np.arange(len(self)) if indices is None else np.asarray(indices)) * self.views)

    def with_data(
        self, batch: GraphBatch, operator: Elliptic, f: Float[Tensor, " n"], g: Float[Tensor, " p"], scales: Scales
    ) -> GraphBatch:
        source, values = f / scales.source, g / scales.boundary
        if len(batch.source) == len(f):  # the points alone are nodes
            return replace(batch, source=source, g=values[None])
        source, at_nodes = torch.cat([source, torch.zeros_like(g)]), torch.cat([torch.zeros_like(f), values])
        return replace(batch, source=source, boundary_value=at_nodes, g=values[None])

    def _batch(self, chosen: Int[np.ndarray, " s"]) -> GraphBatch:
        """Nothing here waits for the device."""
        turns = self.augmentation.turns
        points, sample = self._rows(self.node_counts, chosen)
        edges, sample_of_edge = self._rows(self.edge_counts[::turns], chosen // turns)
        first_point = self._tensor(_starts(self.node_counts[chosen]))
        first_edge = self._tensor(_starts(self.edge_counts[chosen]))

        point_shift, edge_shift = first_point[sample_of_edge], first_edge[sample_of_edge]
        ends = self._edge_ends[points] + first_edge[sample]
        wiring = Wiring(
            receiver=self._edges["receiver"][edges] + point_shift,
            sender=self._edges["sender"][edges] + point_shift,
            reverse=self._edges["reverse"][edges] + edge_shift,
            start=torch.cat([ends.new_zeros(1), ends]),
        )
        longest = int(self.panel_counts[chosen].max())
        rows = self._tensor(chosen)
        return GraphBatch(
            **{name: values[points] for name, values in self._points.items()},
            **{name: values[rows, :longest] for name, values in self._panels.items()},
            sample=sample,
            sample_start=torch.cat([first_point, self._tensor(self.node_counts[chosen].sum()[None])]),
            wiring=wiring,
            has_panel=self._has_panel(chosen, longest),
            has_point=None,
            node_counts=tuple(self.node_counts[chosen].tolist()),
            point_counts=tuple(self.point_counts[chosen].tolist()),
            most_neighbours=self.most_neighbours,
        )

    def _rows(self, counts: Int[np.ndarray, " all"], chosen: Int[np.ndarray, " s"]) -> tuple[Tensor, Tensor]:
        """Where the chosen samples' rows lie, and which sample each belongs to."""
        total = int(counts[chosen].sum())
        jump = self._tensor(_starts(counts)[chosen] - _starts(counts[chosen]))
        sample = torch.repeat_interleave(self._tensor(counts[chosen]), output_size=total)
        return torch.arange(total, device=self.device) + jump[sample], sample

    def _has_panel(self, chosen: Int[np.ndarray, " s"], longest: int) -> Tensor | None:
        counts = self.panel_counts[chosen]
        if (counts == longest).all():
            return None
        return torch.arange(longest, device=self.device) < self._tensor(counts)[:, None]

    def _tensor(self, values: np.ndarray) -> Tensor:
        return as_tensor(values, self.device)

    def _join(self, arrays: list[np.ndarray]) -> Tensor:
        return self._tensor(np.concatenate(arrays))


def _graph_of(inputs: GraphInputs) -> Graph:
    assert inputs.graph is not None
    return inputs.graph


def _inputs_of(
    posed: Posed, scales: Scales, kind: GraphKind, augmentation: Augmentation, seed: int
) -> list[GraphInputs]:
    """A problem, and after it so many parts of it, for which its solution must be known; each in all its turns."""
    whole_and_parts = with_parts(posed, augmentation.parts, seed) if isinstance(posed, Solution) else [posed]
    make = GraphInputs.with_boundary_nodes if kind.boundary_nodes else GraphInputs.turned
    inputs = []
    for one in whole_and_parts:
        graph = kind.build(problem_of(one))  # the costly part, and the same however the sample is turned
        inputs += [make(one, scales, graph, turn) for turn in range(augmentation.turns)]
    return inputs


def _starts(counts: Int[np.ndarray, " s"]) -> Int[np.ndarray, " s"]:
    return np.cumsum(counts) - counts


def _padded_to(batch: GraphBatch, size: BatchSize, points: int, edges: int, panels: int) -> GraphBatch:
    """Extra points in the last sample, joined to nothing but themselves; extra samples without points."""
    extra_points, extra_edges = size.points - points, size.edges - edges
    extra_samples, extra_panels = size.samples - len(batch), panels - batch.g.shape[1]
    wiring, device = batch.wiring, batch.g.device

    def more_rows(values: Tensor, count: int) -> Tensor:
        return torch.cat([values, values[-1:].expand(count, *values.shape[1:])]) if count else values

    def more_panels(values: Tensor) -> Tensor:
        wider = torch.cat([values, values[:, -1:].expand(-1, extra_panels, *values.shape[2:])], dim=1)
        return more_rows(wider, extra_samples)

    # The extra edges are shared out evenly among the extra points: no sum over neighbours is long.
    number = torch.arange(extra_edges, device=device)
    loop = points + number * extra_points // max(extra_edges, 1)
    ends = edges - (-extra_edges * torch.arange(1, extra_points + 1, device=device)) // extra_points
    start = batch.sample_start
    exists = batch.has_panel if batch.has_panel is not None else torch.ones_like(batch.g, dtype=torch.bool)
    if extra_panels:
        exists = torch.cat([exists, exists.new_zeros(len(exists), extra_panels)], dim=1)
    at_points = {name: getattr(batch, name) for name in POINT_COLUMNS}
    longer = {name: more_rows(values, extra_points) for name, values in at_points.items() if values is not None}
    longer |= {name: more_panels(getattr(batch, name)) for name in PANEL_COLUMNS}
    return replace(
        batch,
        **longer,  # type: ignore[arg-type]
        sample=torch.cat([batch.sample, batch.sample.new_full((extra_points,), size.samples - 1)]),
        sample_start=torch.cat([more_rows(start, extra_samples)[: size.samples], start.new_full((1,), size.points)]),
        wiring=Wiring(
            receiver=torch.cat([wiring.receiver, loop]),
            sender=torch.cat([wiring.sender, loop]),
            reverse=torch.cat([wiring.reverse, edges + number]),
            start=torch.cat([wiring.start, ends]),
        ),
        has_panel=more_rows(exists, extra_samples) if batch.has_panel is not None or extra_panels else None,
        has_point=torch.arange(size.points, device=device) < points,
        node_counts=(*batch.node_counts, *[0] * extra_samples),
        point_counts=(*batch.point_counts, *[0] * extra_samples),
    )
