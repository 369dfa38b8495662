"""Samples as graphs on a device, for models that pass messages (`dense` is for those that act through the boundary).

A `Cohort` holds many prepared samples on one device, on end; a `Batch` is some of them, picked out by a
few gathers, so that training never waits for the host.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from beno.batches.augmentation import Plan, Variety
from beno.batches.delaunay import Graph, build_ball_graph, build_graph
from beno.datasets.records import Sample
from beno.datasets.scales import Scales
from beno.geometry.symmetries import SYMMETRIES, about_centre, matrix, transformed
from beno.nn.segments import Wiring, gathered
from beno.problems.subproblems import with_parts
from beno.support.errors import BenoError

# Panels a unit of length on the paper's grid, by which positions along the boundary are counted.
PANELS_A_SIDE = 32


@dataclass(frozen=True, eq=False)
class Prepared:
    """One sample with its graph, as arrays in the units that networks see."""

    points: Float[np.ndarray, "n 2"]
    wall_distance: Float[np.ndarray, "n 4"]
    source: Float[np.ndarray, " n"]
    log_coefficient: Float[np.ndarray, " n"]  # zero for Poisson
    u: Float[np.ndarray, " n"]
    inside: Float[np.ndarray, " n"]  # 1, and 0 at boundary nodes, which stand after the points where there are some
    boundary_value: Float[np.ndarray, " n"]  # g at boundary nodes; zero inside
    boundary_kind: Int[np.ndarray, " n"]  # at boundary nodes; -1 inside
    boundary_alpha: Float[np.ndarray, " n"]
    graph: Graph
    centres: Float[np.ndarray, "p 2"]
    centroid_distance: Float[np.ndarray, " p"]
    position: Float[np.ndarray, " p"]
    g: Float[np.ndarray, " p"]
    kind: Int[np.ndarray, " p"]
    alpha: Float[np.ndarray, " p"]
    before: Int[np.ndarray, " p"]
    after: Int[np.ndarray, " p"]

    @classmethod
    def of(cls, sample: Sample, scales: Scales, graph: Graph) -> "Prepared":
        """The sample's points are the nodes."""
        n = len(sample.u)
        before, after = _ring_neighbours(sample.ring)
        return cls(
            points=sample.points,
            wall_distance=sample.wall_distance,
            source=sample.source / scales.source,
            log_coefficient=np.zeros(n) if sample.coefficient is None else np.log(sample.coefficient),
            u=sample.u / scales.solution,
            inside=np.ones(n),
            boundary_value=np.zeros(n),
            boundary_kind=np.full(n, -1),
            boundary_alpha=np.zeros(n),
            graph=graph,
            centres=sample.centres,
            centroid_distance=np.linalg.norm(sample.centres - sample.domain.centroid, axis=1),
            position=(np.cumsum(sample.lengths) - sample.lengths / 2) * PANELS_A_SIDE,
            g=sample.g / scales.boundary,
            kind=sample.kind,
            alpha=sample.alpha,
            before=before,
            after=after,
        )

    @classmethod
    def with_boundary_nodes(cls, sample: Sample, scales: Scales, graph: Graph, turn: int = 0) -> "Prepared":
        """The panels' centres are nodes as well, after the points; all is turned as a symmetry of the square says."""
        plain = cls.of(sample, scales, graph)
        zero, one = np.zeros(len(sample.g)), np.ones(len(sample.g))
        at_panels = zero if sample.panel_coefficient is None else np.log(sample.panel_coefficient)

        def joined(inside: np.ndarray, boundary: np.ndarray) -> np.ndarray:
            return np.concatenate([inside, boundary])

        return replace(
            plain,
            points=about_centre(joined(sample.points, sample.centres), matrix(turn)),
            wall_distance=np.zeros((len(sample.u) + len(sample.g), 4)),
            source=joined(plain.source, zero),
            log_coefficient=joined(plain.log_coefficient, at_panels),
            u=joined(plain.u, zero),
            inside=joined(plain.inside, zero),
            boundary_value=joined(plain.boundary_value, plain.g),
            boundary_kind=joined(plain.boundary_kind, sample.kind),
            boundary_alpha=joined(plain.boundary_alpha, sample.alpha * one),
        )


def _ring_neighbours(ring: Int[np.ndarray, " p"]) -> tuple[Int[np.ndarray, " p"], Int[np.ndarray, " p"]]:
    """The panels before and after each one, around its own ring."""
    here = np.arange(len(ring))
    first = np.searchsorted(ring, ring, side="left")
    last = np.searchsorted(ring, ring, side="right") - 1
    return np.where(here == first, last, here - 1), np.where(here == last, first, here + 1)


@dataclass(eq=False)  # not frozen: Fabric rebuilds what it passes to a model field by field
class Batch:
    """Graphs on end; panels side by side, padded to the longest boundary."""

    points: Float[Tensor, "n 2"]
    wall_distance: Float[Tensor, "n 4"]
    source: Float[Tensor, " n"]
    log_coefficient: Float[Tensor, " n"]
    u: Float[Tensor, " n"]
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
    real: Bool[Tensor, "s p"] | None  # which panels are not padding; None where all are real
    real_point: Bool[Tensor, " n"] | None  # likewise for points
    node_counts: tuple[int, ...]
    point_counts: tuple[int, ...]
    most_neighbours: int  # that a real node has, in any batch of the cohort

    def __len__(self) -> int:
        return len(self.point_counts)

    def by_sample(self, values: Float[Tensor, " n"]) -> Float[Tensor, " s"]:
        """Sums over each sample's points."""
        values = values * self.inside
        if self.real_point is not None:
            values = values * self.real_point
        return gathered(values[:, None], self.sample, self.sample_start)[:, 0]

    def split(self, values: Float[Tensor, "*b n"]) -> list[Tensor]:
        """Values at all points, sample by sample."""
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


class Cohort:
    """Prepared samples on a device."""

    IN_CACHE = 1600  # points that a CPU works on together

    POINT_TENSORS = (
        "points", "wall_distance", "source", "log_coefficient", "u", "inside",
        "boundary_value", "boundary_kind", "boundary_alpha",
    )  # fmt: skip
    PANEL_TENSORS = ("centres", "centroid_distance", "position", "g", "kind", "alpha", "before", "after")
    GRAPH_TENSORS = ("receiver", "sender", "reverse")

    def __init__(
        self, prepared: Sequence[Prepared], device: torch.device | str = "cpu", variety: Variety | None = None
    ) -> None:
        if not prepared:
            raise BenoError("there are no samples to batch")
        self.device, self.variety = torch.device(device), variety or Variety()
        self._turns = SYMMETRIES if self.variety.symmetries else 1
        self.views = self._turns * (1 + self.variety.parts)  # of a sample, one after the other
        self._points = {name: self._join([getattr(p, name) for p in prepared]) for name in self.POINT_TENSORS}
        # Most of what is stored, and the same however a sample is turned: once for all its turns.
        graphs = [p.graph for p in prepared[:: self._turns]]
        self._edges = {name: self._join([getattr(graph, name) for graph in graphs]) for name in self.GRAPH_TENSORS}
        self._edge_ends = self._join([p.graph.start[1:] for p in prepared])
        self.node_counts = np.array([len(p.u) for p in prepared])
        self.point_counts = np.array([int(p.inside.sum()) for p in prepared])
        self.panel_counts = np.array([len(p.g) for p in prepared])
        self.edge_counts = np.array([len(p.graph) for p in prepared])
        self.most_neighbours = max(int(np.diff(p.graph.start).max()) for p in prepared)
        self._panels = {name: self._pad([getattr(p, name) for p in prepared]) for name in self.PANEL_TENSORS}

    @classmethod
    def of(
        cls,
        samples: Iterable[Sample],
        scales: Scales,
        nearest: int = 8,
        device: torch.device | str = "cpu",
        variety: Variety | None = None,
        boundary_nodes: bool = False,
        radius: float | None = None,
    ) -> "Cohort":
        """Every sample, or all its symmetries one after the other if the variety asks for them. The graph joins nearest
        neighbours, as the paper's does, or all within a radius."""
        variety = variety or Variety()
        if variety.points:
            raise BenoError("a model on graphs sees all points of a sample: points must be 0")
        turns = SYMMETRIES if variety.symmetries else 1
        prepared = []
        for sample in (one for seed, whole in enumerate(samples) for one in with_parts(whole, variety.parts, seed)):
            nodes = np.concatenate([sample.points, sample.centres]) if boundary_nodes else sample.points
            # The costly part, and the same however the sample is turned.
            graph = build_graph(nodes, nearest) if radius is None else build_ball_graph(nodes, radius)
            if boundary_nodes:
                prepared += [Prepared.with_boundary_nodes(sample, scales, graph, turn) for turn in range(turns)]
            else:
                prepared += [Prepared.of(transformed(sample, turn), scales, graph) for turn in range(turns)]
        return cls(prepared, device, variety)

    def __len__(self) -> int:
        return len(self.point_counts) // self.views

    def plan(self, indices: Int[np.ndarray, " s"], rng: np.random.Generator) -> Plan:
        """Each sample, or a part of it, in a random one of its symmetries, then with a random sign: all is linear."""
        count = len(indices)
        view = self.variety.choose_parts(rng, count) * self._turns
        if self._turns == 1:
            return Plan(indices * self.views + view, np.ones(count))
        turn = rng.integers(self._turns, size=count)
        return Plan(indices * self.views + view + turn, rng.choice([-1.0, 1.0], size=count))

    def feed(self, plan: Plan, samples: int | None = None) -> Batch:
        """What a plan names, padded to the common size of so many samples if that is given and it fits."""
        size = self.common_size(samples) if samples else None
        batch = self.padded_batch(plan.rows, size) if size else None
        batch = self._batch(plan.rows) if batch is None else batch
        if self._turns == 1:
            return batch
        sign = self._tensor(np.pad(plan.signs, (0, len(batch) - len(plan)), constant_values=1.0))
        at_points = sign[batch.sample]
        signed = {name: getattr(batch, name) * at_points for name in ("source", "u", "boundary_value")}
        return replace(batch, **signed, g=batch.g * sign[:, None])

    def open(self, feed: Batch) -> Batch:
        return feed

    def smallest(self, samples: int) -> Plan:
        """A plan that surely fits the common size."""
        rows = np.argsort(self.edge_counts)[:samples]
        return Plan(rows, np.ones(len(rows)))

    def common_size(self, samples: int) -> BatchSize:
        """A size that almost every batch of so many samples fits: three deviations over the mean."""

        def generous(counts: Int[np.ndarray, " all"]) -> int:
            return int(np.ceil((samples * counts.mean() + 3 * samples**0.5 * counts.std()) / 64) + 1) * 64

        return BatchSize(samples, generous(self.node_counts), generous(self.edge_counts))

    def padded_batch(self, indices: Int[np.ndarray, " s"], size: BatchSize) -> Batch | None:
        """The samples with these indices, padded to a size; None if they do not fit it."""
        counts = (len(indices), int(self.node_counts[indices].sum()), int(self.edge_counts[indices].sum()))
        if not size.holds(*counts):
            return None
        return _pad_batch(self._batch(indices), size, counts[1], counts[2], int(self.panel_counts.max()))

    def batch(self, indices: Int[np.ndarray, " s"] | range | None = None) -> Batch:
        """The samples with these indices, or all, as they are."""
        return self._batch((np.arange(len(self)) if indices is None else np.asarray(indices)) * self.views)

    def _batch(self, chosen: Int[np.ndarray, " s"]) -> Batch:
        """Nothing here waits for the device."""
        points, sample = self._rows(self.node_counts, chosen)
        edges, sample_of_edge = self._rows(self.edge_counts[:: self._turns], chosen // self._turns)
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
        panels = {name: values[rows, :longest] for name, values in self._panels.items()}
        return Batch(
            **{name: values[points] for name, values in self._points.items()},
            **panels,
            sample=sample,
            sample_start=torch.cat([first_point, self._tensor(self.node_counts[chosen].sum()[None])]),
            wiring=wiring,
            real=self._real(chosen, longest),
            real_point=None,
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

    def _real(self, chosen: Int[np.ndarray, " s"], longest: int) -> Tensor | None:
        counts = self.panel_counts[chosen]
        if (counts == longest).all():
            return None
        return torch.arange(longest, device=self.device) < self._tensor(counts)[:, None]

    def _tensor(self, values: np.ndarray) -> Tensor:
        kind = torch.float32 if values.dtype.kind == "f" else torch.int64
        return torch.as_tensor(values, dtype=kind).to(self.device, non_blocking=True)

    def _join(self, arrays: list[np.ndarray]) -> Tensor:
        return self._tensor(np.concatenate(arrays))

    def _pad(self, arrays: list[np.ndarray]) -> Tensor:
        padded = np.zeros((len(arrays), max(map(len, arrays)), *arrays[0].shape[1:]), dtype=arrays[0].dtype)
        for row, array in zip(padded, arrays, strict=True):
            row[: len(array)] = array
        return self._tensor(padded)


def _starts(counts: Int[np.ndarray, " s"]) -> Int[np.ndarray, " s"]:
    return np.cumsum(counts) - counts


def _pad_batch(batch: Batch, size: BatchSize, points: int, edges: int, panels: int) -> Batch:
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
    real = batch.real if batch.real is not None else torch.ones_like(batch.g, dtype=torch.bool)
    if extra_panels:
        real = torch.cat([real, real.new_zeros(len(real), extra_panels)], dim=1)
    return replace(
        batch,
        **{name: more_rows(getattr(batch, name), extra_points) for name in Cohort.POINT_TENSORS},
        **{name: more_panels(getattr(batch, name)) for name in Cohort.PANEL_TENSORS},
        sample=torch.cat([batch.sample, batch.sample.new_full((extra_points,), size.samples - 1)]),
        sample_start=torch.cat([more_rows(start, extra_samples)[: size.samples], start.new_full((1,), size.points)]),
        wiring=Wiring(
            receiver=torch.cat([wiring.receiver, loop]),
            sender=torch.cat([wiring.sender, loop]),
            reverse=torch.cat([wiring.reverse, edges + number]),
            start=torch.cat([wiring.start, ends]),
        ),
        real=more_rows(real, extra_samples) if batch.real is not None or extra_panels else None,
        real_point=torch.arange(size.points, device=device) < points,
        node_counts=(*batch.node_counts, *[0] * extra_samples),
        point_counts=(*batch.point_counts, *[0] * extra_samples),
        most_neighbours=batch.most_neighbours,
    )
