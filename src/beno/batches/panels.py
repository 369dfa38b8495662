"""Dense batches, of every point of a sample against every panel, for operators that act through the boundary.

The source is gone from them: what it does is in the potential, and what is left is boundary values.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import joblib
import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from beno.batches.augmentation import Plan, Variety
from beno.batches.coefficient_features import COLUMNS, medium_at_panels, medium_at_points
from beno.datasets.records import Sample
from beno.datasets.scales import Scales
from beno.geometry.corners import wall_ends
from beno.geometry.grid import DIRECTIONS
from beno.geometry.symmetries import SYMMETRIES, matrix
from beno.nn.box_potential import BoxPotential
from beno.problems.problem import Kind, Problem
from beno.problems.solution import cells_of, wall_distance_at
from beno.problems.subproblems import with_parts
from beno.solvers.box import Potential, grid_potential
from beno.support.errors import BenoError

TYPICAL_LOG_KAPPA = 1.63  # the mean over random coefficients of contrast 10
REDUCED_BY_A_WORKER = 2000  # below this a further process is not worth its start


@dataclass(frozen=True, eq=False)
class Reduced:
    """One sample, its source turned into a potential, as arrays."""

    points: Float[np.ndarray, "n 2"]
    walls: Float[np.ndarray, "n 4"]
    potential: Float[np.ndarray, "n 2"]  # that takes the source away: what f makes of it, and what g does
    medium: Float[np.ndarray, "n 4"]  # of the coefficient, see `medium`; zeros for Poisson
    u: Float[np.ndarray, " n"]
    centres: Float[np.ndarray, "p 2"]
    normals: Float[np.ndarray, "p 2"]
    lengths: Float[np.ndarray, " p"]
    ends: Float[np.ndarray, "p 8"]  # see WallEnds.as_columns
    left: Float[np.ndarray, "p 2"]  # for the walls to do, of f and of g: what the potential has there is taken off
    kind: Int[np.ndarray, " p"]
    alpha: Float[np.ndarray, " p"]
    medium_at_panels: Float[np.ndarray, "p 4"]

    @classmethod
    def of(cls, sample: Sample, scales: Scales) -> "Reduced":
        """A sample has the points of its domain in any order."""
        domain = sample.domain
        cell = cells_of(domain, sample.points)
        order = np.argsort(cell)
        kappa = None if sample.coefficient is None else sample.coefficient[order]
        problem = Problem(
            domain, sample.source[order], sample.kind, sample.g, sample.alpha, kappa, sample.panel_coefficient
        )
        potentials = potentials_of(problem)
        at_points = np.stack([v.at_points[cell] for v in potentials], axis=1)
        given = np.stack([np.zeros_like(sample.g), sample.g], axis=1)
        trace = np.stack([v.data(problem) for v in potentials], axis=1)
        # A Robin wall's data are those of the value that it draws u to.
        kind = problem.acting_kind
        medium, at_panels = media(problem, sample.points, sample.coefficient)
        unit = scales.solution * np.where(kind == Kind.ROBIN, sample.alpha, 1.0)
        return cls(
            points=sample.points,
            walls=wall_distance_at(domain, sample.points),
            potential=at_points / scales.solution,
            medium=medium,
            u=sample.u / scales.solution,
            centres=sample.centres,
            normals=sample.normals,
            lengths=sample.lengths,
            ends=wall_ends(sample.normals, sample.lengths, sample.ring, kind).as_columns(),
            left=(given - trace) / unit[:, None],
            kind=kind,
            alpha=sample.alpha,
            medium_at_panels=at_panels,
        )


def potentials_of(problem: Problem) -> tuple[Potential, Potential]:
    """What takes the source away: f's part of it, and g's, which there is where walls are Neumann's."""
    if problem.coefficient is not None or not (problem.acting_kind == Kind.NEUMANN).any():
        of_f, zeros = grid_potential(problem), np.zeros_like(problem.g)
        return of_f, Potential(np.zeros_like(of_f.at_points), zeros, zeros)
    f, g = (torch.as_tensor(field, dtype=torch.float64) for field in (problem.source, problem.g))
    sources, flows = torch.stack([f, torch.zeros_like(f)]), torch.stack([torch.zeros_like(g), g])
    both = BoxPotential(problem.domain, problem.acting_kind, torch.device("cpu"), torch.float64)(sources, flows)
    columns = zip(both.at_points.numpy(), both.at_panels.numpy(), both.normal_derivative.numpy(), strict=True)
    of_f, of_g = (Potential(*each) for each in columns)
    return of_f, of_g


def media(
    problem: Problem, points: Float[np.ndarray, "n 2"], coefficient: Float[np.ndarray, " n"] | None
) -> tuple[Float[np.ndarray, "n 4"], Float[np.ndarray, "p 4"]]:
    """What the coefficient is like at points, where it is given, and at the panels."""
    if problem.coefficient is None or problem.panel_coefficient is None or coefficient is None:
        return np.zeros((len(points), COLUMNS)), np.zeros((len(problem.g), COLUMNS))
    cells = medium_at_points(problem.domain, problem.coefficient, problem.panel_coefficient)
    at_points = cells[cells_of(problem.domain, points)]
    at_points[:, 0] = np.log(coefficient)
    at_panels = medium_at_panels(problem.domain, cells, problem.panel_coefficient)
    # The unit of kappa is nobody's business: its mean level is that of the data that operators are trained on.
    level = cells[:, 0].mean() - TYPICAL_LOG_KAPPA
    at_points[:, 0] -= level
    at_panels[:, 0] -= level
    return at_points, at_panels


@dataclass(eq=False)  # not frozen: Fabric rebuilds what it passes to a model field by field
class DenseBatch:
    """Samples side by side, padded to the most points and the most panels."""

    points: Float[Tensor, "s n 2"]
    walls: Float[Tensor, "s n 4"]
    potential: Float[Tensor, "s n 2"]
    medium: Float[Tensor, "s n 4"]
    u: Float[Tensor, "s n"]
    real_point: Bool[Tensor, "s n"]
    centres: Float[Tensor, "s p 2"]
    normals: Float[Tensor, "s p 2"]
    lengths: Float[Tensor, "s p"]
    ends: Float[Tensor, "s p 8"]
    left: Float[Tensor, "s p 2"]
    kind: Int[Tensor, "s p"]
    alpha: Float[Tensor, "s p"]
    medium_at_panels: Float[Tensor, "s p 4"]
    real: Bool[Tensor, "s p"]
    is_padded: bool  # whether some panels are not real
    point_counts: tuple[int, ...]

    @classmethod
    def of_one(cls, reduced: "Reduced", device: torch.device) -> "DenseBatch":
        tensors = {field.name: _tensor(getattr(reduced, field.name), device)[None] for field in fields(Reduced)}
        points, panels = tensors["u"], tensors["alpha"]
        real = {
            "real_point": torch.ones_like(points, dtype=torch.bool),
            "real": torch.ones_like(panels, dtype=torch.bool),
        }
        return cls(**tensors, **real, is_padded=False, point_counts=(points.shape[1],))

    def __len__(self) -> int:
        return len(self.u)

    def by_sample(self, values: Float[Tensor, "s n"]) -> Float[Tensor, " s"]:
        """Sums over each sample's points."""
        return (values * self.real_point).sum(dim=1)

    def split(self, values: Float[Tensor, "*b s n"]) -> list[Tensor]:
        """Values at all points, sample by sample."""
        return [values[..., sample, :count] for sample, count in enumerate(self.point_counts)]


@dataclass(eq=False)
class Draw:
    """Which samples a step of training sees, at which points, how turned, and with which sign."""

    index: Int[Tensor, " s"]
    chosen: Int[Tensor, "s n"]
    turn: Int[Tensor, " s"]
    sign: Float[Tensor, " s"]


class DenseCohort:
    """Reduced samples on a device. Each may bring parts of itself, which follow it."""

    IN_CACHE = 3200  # points that a CPU works on together

    def __init__(
        self, reduced: Sequence[Reduced], device: torch.device | str = "cpu", variety: Variety | None = None
    ) -> None:
        if not reduced:
            raise BenoError("there are no samples to batch")
        self.device, self.variety = torch.device(device), variety or Variety()
        self.point_counts = np.array([len(one.u) for one in reduced])
        self._panel_counts = np.array([len(one.kind) for one in reduced])
        self._tensors = {
            field.name: self._padded([getattr(one, field.name) for one in reduced]) for field in fields(Reduced)
        }
        for name, counts in (("real_point", self.point_counts), ("real", self._panel_counts)):
            self._tensors[name] = self._padded([np.ones(count, dtype=bool) for count in counts])
        self._is_free = self._tensor(np.array([(one.kind == Kind.NEUMANN).all() for one in reduced]))
        self._turns = self._tensor(np.stack([matrix(turn) for turn in range(SYMMETRIES)]).astype(float))
        self._turned_ends = self._tensor(np.stack([_turned_ends(turn) for turn in range(SYMMETRIES)]))
        self._turned_walls = self._tensor(np.stack([_turned_walls(turn) for turn in range(SYMMETRIES)]))

    @classmethod
    def of(
        cls,
        samples: Iterable[Sample],
        scales: Scales,
        device: torch.device | str = "cpu",
        variety: Variety | None = None,
    ) -> "DenseCohort":
        """With so many parts of each sample after it as the variety asks for, the same ones each time."""
        variety = variety or Variety()
        samples = list(samples)
        jobs = (joblib.delayed(_reduce)(sample, scales, variety.parts, seed) for seed, sample in enumerate(samples))
        workers = min(joblib.cpu_count(), 1 + len(samples) * (1 + variety.parts) // REDUCED_BY_A_WORKER)
        together = joblib.Parallel(n_jobs=workers, batch_size=8)(jobs)
        return cls([reduced for some in together for reduced in some], device, variety)

    def __len__(self) -> int:
        return len(self.point_counts) // (1 + self.variety.parts)

    def batch(self, indices: Int[np.ndarray, " s"] | range | None = None) -> DenseBatch:
        """The samples with these indices, or all, whole and as they are."""
        chosen = (np.arange(len(self)) if indices is None else np.asarray(indices)) * (1 + self.variety.parts)
        most_points, most_panels = self.point_counts[chosen].max(), self._panel_counts[chosen].max()
        rows = self._tensor(chosen)
        tensors = {
            name: values[rows, : most_points if name in _POINT_FIELDS else most_panels]
            for name, values in self._tensors.items()
        }
        padded = bool((self._panel_counts[chosen] < most_panels).any())
        return DenseBatch(**tensors, is_padded=padded, point_counts=tuple(self.point_counts[chosen].tolist()))

    def plan(self, indices: Int[np.ndarray, " s"], rng: np.random.Generator) -> Plan:
        """Each sample, or half of the time a part of it if it has some, at some of its points."""
        count, variety = len(indices), self.variety
        rows = indices * (1 + variety.parts) + variety.choose_parts(rng, count)
        signs = rng.choice([-1.0, 1.0], size=count) if variety.symmetries else np.ones(count)
        turns = rng.integers(SYMMETRIES, size=count) if variety.symmetries else np.zeros(count, dtype=np.int64)
        if variety.points:
            points = (rng.random((count, variety.points)) * self.point_counts[rows][:, None]).astype(np.int64)
        else:  # all of them, and padding, which is not counted
            points = np.tile(np.arange(self.point_counts.max()), (count, 1))
        return Plan(rows, signs, turns, points)

    def feed(self, plan: Plan, samples: int | None = None) -> "Draw":
        """A plan on the device; its last sample is repeated until there are so many."""
        plan = plan.filled_to(samples)
        assert plan.turns is not None and plan.points is not None
        return Draw(*map(self._tensor, (plan.rows, plan.points, plan.turns, plan.signs)))

    def smallest(self, samples: int) -> Plan:
        """Every plan of so many samples has the same size here."""
        return self.plan(np.zeros(samples, dtype=np.int64), np.random.default_rng(0))

    def open(self, draw: Draw) -> DenseBatch:
        """The batch that a draw names. Nothing here waits for a value, so a CUDA graph can hold it."""
        tensors = {}
        for name, values in self._tensors.items():
            rows = values[draw.index]
            if name in _POINT_FIELDS:
                at = draw.chosen if rows.ndim == 2 else draw.chosen[..., None].expand(-1, -1, rows.shape[-1])
                rows = rows.gather(1, at)
            tensors[name] = rows
        # A constant that nothing fixes is taken off here as the operator takes it off.
        real = tensors["real_point"]
        mean = (tensors["u"] * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True)
        tensors["u"] = tensors["u"] - mean * self._is_free[draw.index, None]
        turn, sign = self._turns[draw.turn], draw.sign[:, None]
        walls = self._turned_walls[draw.turn][:, None, :].expand(-1, draw.chosen.shape[1], -1)
        ends = self._turned_ends[draw.turn][:, None, :].expand(-1, tensors["ends"].shape[1], -1)
        tensors |= {
            "points": _turned(tensors["points"] - 0.5, turn) + 0.5,
            "walls": tensors["walls"].gather(2, walls),
            "centres": _turned(tensors["centres"] - 0.5, turn) + 0.5,
            "normals": _turned(tensors["normals"], turn),
            "ends": tensors["ends"].gather(2, ends),
            **{name: _turned_medium(tensors[name], turn) for name in ("medium", "medium_at_panels")},
            "u": sign * tensors["u"],
            **{name: sign[..., None] * tensors[name] for name in ("potential", "left")},
        }
        padded = bool((self._panel_counts < self._panel_counts.max()).any())
        return DenseBatch(**tensors, is_padded=padded, point_counts=(draw.chosen.shape[1],) * len(draw.index))

    def _tensor(self, values: np.ndarray) -> Tensor:
        return _tensor(values, self.device)

    def _padded(self, arrays: list[np.ndarray]) -> Tensor:
        """Padding repeats the last row, so that it is nothing unusual to compute with; but nothing of it is real."""
        most = max(map(len, arrays))
        padded = np.empty((len(arrays), most, *arrays[0].shape[1:]), dtype=arrays[0].dtype)
        for row, array in zip(padded, arrays, strict=True):
            row[: len(array)] = array
            row[len(array) :] = False if array.dtype == bool else array[-1]
        return self._tensor(padded)


def _tensor(values: np.ndarray, device: torch.device) -> Tensor:
    kind = {"f": torch.float32, "b": torch.bool}.get(values.dtype.kind, torch.int64)
    return torch.as_tensor(values, dtype=kind).to(device, non_blocking=True)


_POINT_FIELDS = ("points", "walls", "potential", "medium", "u", "real_point")


def _reduce(sample: Sample, scales: Scales, parts: int, seed: int) -> list[Reduced]:
    """A sample, and after it so many parts of it."""
    return [Reduced.of(one, scales) for one in with_parts(sample, parts, seed)]


def _turned(places: Float[Tensor, "s m 2"], turn: Float[Tensor, "s 2 2"]) -> Float[Tensor, "s m 2"]:
    """In plain sums: a product of matrices may round to half precision."""
    return (places[:, :, None, :] * turn[:, None, :, :]).sum(dim=-1)


def _turned_medium(medium: Float[Tensor, "s m 4"], turn: Float[Tensor, "s 2 2"]) -> Float[Tensor, "s m 4"]:
    return torch.cat([medium[..., :1], _turned(medium[..., 1:3], turn), medium[..., 3:]], dim=-1)


def _turned_walls(turn: int) -> Int[np.ndarray, " 4"]:
    """For each direction the one that a symmetry turns into it."""
    moved = DIRECTIONS @ matrix(turn).T
    return np.array([np.flatnonzero((moved == direction).all(axis=1))[0] for direction in DIRECTIONS])


def _turned_ends(turn: int) -> Int[np.ndarray, " 8"]:
    """A mirrored walk around the boundary goes the other way: what was behind is ahead."""
    backwards = np.linalg.det(matrix(turn)) < 0
    return np.arange(8) ^ 1 if backwards else np.arange(8)
