"""Batches of every point of a problem against every panel, for operators that act through the boundary.

The source is gone from them: a potential takes it away, and what is left for the walls to do is boundary values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

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
    Selected,
    Turn,
    as_tensor,
    column,
    columns_of,
    padded,
    problem_of,
    require_some,
    scaled_u,
)
from beno.batches.coefficient_features import kappa_features
from beno.datasets.scales import Scales
from beno.geometry.corners import wall_ends
from beno.geometry.symmetries import SYMMETRIES, direction_before, is_mirrored, matrix
from beno.nn.box_potential import BoxPotential
from beno.problems.operator import Elliptic
from beno.problems.problem import Problem
from beno.problems.solution import Solution
from beno.problems.subproblems import with_parts
from beno.problems.walls import Kind, Walls
from beno.solvers.potential import Potential, SourcePotential

PROBLEMS_A_WORKER = 2000  # below this a further process is not worth its start
WEAKEST_ALPHA = 1e-6  # of a Robin wall that single precision tells from a Neumann wall


@dataclass(frozen=True, eq=False)
class PanelInputs:
    """One problem as arrays, its source turned into a potential."""

    points: Float[np.ndarray, "n 2"] = column("points", turn="place")
    wall_distance: Float[np.ndarray, "n 4"] = column("points", turn="directions")
    potential: Float[np.ndarray, "n 2"] = column("points", linear=True)  # what f makes of it, and what g does
    kappa: Float[np.ndarray, "n 4"] = column("points", turn="kappa")  # see `coefficient_features`
    centres: Float[np.ndarray, "p 2"] = column("panels", turn="place")
    normals: Float[np.ndarray, "p 2"] = column("panels", turn="vector")
    lengths: Float[np.ndarray, " p"] = column("panels")
    ends: Float[np.ndarray, "p 8"] = column("panels", turn="ends")  # of walls: see WallEnds.as_columns
    # What is left for the walls to do, of f and of g: boundary values less those of the potential.
    boundary_residual: Float[np.ndarray, "p 2"] = column("panels", linear=True)
    kind: Int[np.ndarray, " p"] = column("panels")
    alpha: Float[np.ndarray, " p"] = column("panels")
    kappa_at_panels: Float[np.ndarray, "p 4"] = column("panels", turn="kappa")
    u: Float[np.ndarray, " n"] | None = column("points", linear=True)

    @classmethod
    def of(cls, posed: Posed, scales: Scales) -> "PanelInputs":
        problem = problem_of(posed)
        walls = acting_walls(problem.walls)
        potentials = potentials_of(problem)
        given = np.stack([np.zeros_like(problem.g), problem.g], axis=1)
        trace = np.stack([walls.trace(v.at_panels, v.slope) for v in potentials], axis=1)
        # A Robin wall's data are those of the value that it draws u to.
        unit = scales.solution * np.where(walls.kind == Kind.ROBIN, walls.alpha, 1.0)
        return cls.of_operator(
            problem.operator,
            potential=np.stack([v.at_points for v in potentials], axis=1) / scales.solution,
            boundary_residual=(given - trace) / unit[:, None],
            u=scaled_u(posed, scales.solution),
        )

    @classmethod
    def of_operator(
        cls,
        operator: Elliptic,
        potential: Float[np.ndarray, "n 2"] | None = None,
        boundary_residual: Float[np.ndarray, "p 2"] | None = None,
        u: Float[np.ndarray, " n"] | None = None,
    ) -> "PanelInputs":
        """What does not depend on the right-hand side, and the rest if it is given."""
        domain, walls = operator.domain, acting_walls(operator.walls)
        panels, points = domain.panels, domain.points
        kappa, kappa_at_panels = kappa_features(operator)
        reflection = np.where(walls.fixes_value, -1.0, 1.0)
        return cls(
            points=points,
            wall_distance=domain.wall_distance,
            potential=np.zeros((len(points), 2)) if potential is None else potential,
            kappa=kappa,
            centres=panels.centres,
            normals=panels.normals,
            lengths=panels.lengths,
            ends=wall_ends(panels, walls.kind, reflection).as_columns(),
            boundary_residual=np.zeros((len(panels), 2)) if boundary_residual is None else boundary_residual,
            kind=walls.kind,
            alpha=walls.alpha,
            kappa_at_panels=kappa_at_panels,
            u=u,
        )


COLUMNS = columns_of(PanelInputs)
ON = {name: about.on for name, about in COLUMNS.items()} | {"has_point": "points", "has_panel": "panels"}


def acting_walls(walls: Walls) -> Walls:
    """The walls as a network feels them: a Robin wall with next to no alpha is a Neumann wall.

    Its data are ``g / alpha``, which would not be finite in single precision. Where nothing else fixes u it stays.
    """
    walls = walls.acting
    weak = (walls.kind == Kind.ROBIN) & (walls.alpha < WEAKEST_ALPHA)
    if not weak.any():
        return walls
    felt = Walls(np.where(weak, Kind.NEUMANN, walls.kind), np.where(weak, 0.0, walls.alpha))
    return walls if felt.leave_constant_free else felt


def potentials_of(problem: Problem) -> tuple[Potential, Potential]:
    """What takes the source away: f's part of it, and g's, which there is where walls are Neumann's."""
    walls = acting_walls(problem.walls)
    if not problem.law.is_uniform or Kind.NEUMANN not in walls.kinds:
        of_f, zeros = SourcePotential(problem.operator)(problem.f), np.zeros_like(problem.g)
        return of_f, Potential(np.zeros_like(of_f.at_points), zeros, zeros)
    f, g = (torch.as_tensor(field, dtype=torch.float64) for field in (problem.f, problem.g))
    sources, flows = torch.stack([f, torch.zeros_like(f)]), torch.stack([torch.zeros_like(g), g])
    both = BoxPotential(problem.domain, walls.kind, torch.device("cpu"), torch.float64)(sources, flows)
    columns = zip(both.at_points.numpy(), both.at_panels.numpy(), both.slope.numpy(), strict=True)
    of_f, of_g = (Potential(*each) for each in columns)
    return of_f, of_g


@dataclass(eq=False, repr=False)  # not frozen: Fabric rebuilds what it passes to a model field by field
class PanelBatch(Batch):
    """Problems side by side, padded to the most points and the most panels."""

    points: Float[Tensor, "s n 2"]
    wall_distance: Float[Tensor, "s n 4"]
    potential: Float[Tensor, "s n 2"]
    kappa: Float[Tensor, "s n 4"]
    centres: Float[Tensor, "s p 2"]
    normals: Float[Tensor, "s p 2"]
    lengths: Float[Tensor, "s p"]
    ends: Float[Tensor, "s p 8"]
    boundary_residual: Float[Tensor, "s p 2"]
    kind: Int[Tensor, "s p"]
    alpha: Float[Tensor, "s p"]
    kappa_at_panels: Float[Tensor, "s p 4"]
    has_point: Bool[Tensor, "s n"]  # where it is not padding
    has_panel: Bool[Tensor, "s p"]
    is_padded: bool  # whether some panels are not there
    point_counts: tuple[int, ...]
    u: Float[Tensor, "s n"] | None = None

    @classmethod
    def of_one(cls, inputs: PanelInputs, device: torch.device) -> "PanelBatch":
        arrays = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
        tensors = {name: as_tensor(values, device)[None] for name, values in arrays.items() if values is not None}
        return cls(
            **tensors,
            has_point=torch.ones(tensors["points"].shape[:2], dtype=torch.bool, device=device),
            has_panel=torch.ones(tensors["alpha"].shape, dtype=torch.bool, device=device),
            is_padded=False,
            point_counts=(len(inputs.points),),
        )

    def __len__(self) -> int:
        return len(self.points)

    def by_sample(self, values: Float[Tensor, "s n"]) -> Float[Tensor, " s"]:
        return (values * self.has_point).sum(dim=1)

    def split(self, values: Float[Tensor, "*b s n"]) -> list[Tensor]:
        return [values[..., sample, :count] for sample, count in enumerate(self.point_counts)]


class PanelBatches(Batches[PanelBatch]):
    """Each problem may bring parts of itself, which follow it."""

    POINTS_IN_CACHE = 3200

    def __init__(
        self,
        inputs: Sequence[PanelInputs],
        device: torch.device | str = "cpu",
        augmentation: Augmentation | None = None,
    ) -> None:
        self.device, self.augmentation = torch.device(device), augmentation or Augmentation()
        self.point_counts = np.array([len(one.points) for one in inputs])
        self._panel_counts = np.array([len(one.kind) for one in inputs])
        names = [name for name in COLUMNS if getattr(inputs[0], name) is not None]
        self._tensors = {name: self._padded([getattr(one, name) for one in inputs]) for name in names}
        self._tensors["has_point"] = self._counted(self.point_counts)
        self._tensors["has_panel"] = self._counted(self._panel_counts)
        self._is_free = self._tensor(np.array([(one.kind == Kind.NEUMANN).all() for one in inputs]))
        self._turns = {
            "matrix": self._tensor(np.stack([matrix(turn) for turn in range(SYMMETRIES)]).astype(float)),
            "directions": self._tensor(np.stack([direction_before(turn) for turn in range(SYMMETRIES)])),
            # A mirrored walk around the boundary goes the other way: what was behind is ahead.
            "ends": self._tensor(np.stack([np.arange(8) ^ int(is_mirrored(turn)) for turn in range(SYMMETRIES)])),
        }

    @classmethod
    def of(
        cls,
        posed: Sequence[Posed],
        scales: Scales,
        device: torch.device | str = "cpu",
        augmentation: Augmentation | None = None,
    ) -> "PanelBatches":
        """With so many parts of each after it as the augmentation asks for, the same ones each time."""
        augmentation = augmentation or Augmentation()
        require_some(posed)
        parts = augmentation.parts
        jobs = (joblib.delayed(_inputs_of)(one, scales, parts, seed) for seed, one in enumerate(posed))
        worth_their_start = min(joblib.cpu_count(), 1 + len(posed) * (1 + parts) // PROBLEMS_A_WORKER)
        workers = max(worth_their_start, joblib.effective_n_jobs(None))  # as `joblib.parallel_config` says
        together = joblib.Parallel(n_jobs=workers, batch_size=8)(jobs)
        return cls([inputs for some in together for inputs in some], device, augmentation)

    def __len__(self) -> int:
        return len(self.point_counts) // (1 + self.augmentation.parts)

    def batch(self, indices: Int[np.ndarray, " s"] | range | None = None) -> PanelBatch:
        chosen = (np.arange(len(self)) if indices is None else np.asarray(indices)) * (1 + self.augmentation.parts)
        most = {"points": self.point_counts[chosen].max(), "panels": self._panel_counts[chosen].max()}
        rows = self._tensor(chosen)
        tensors = {name: values[rows, : most[ON[name]]] for name, values in self._tensors.items()}
        is_padded = bool((self._panel_counts[chosen] < most["panels"]).any())
        return PanelBatch(**tensors, is_padded=is_padded, point_counts=tuple(self.point_counts[chosen].tolist()))

    def select(self, indices: Int[np.ndarray, " s"], rng: np.random.Generator) -> Selection:
        """Each problem, or half of the time a part of it if it has some, at some of its points."""
        count, augmentation = len(indices), self.augmentation
        rows = indices * (1 + augmentation.parts) + augmentation.choose_parts(rng, count)
        signs = augmentation.choose_signs(rng, count)
        turns = augmentation.choose_turns(rng, count)
        if augmentation.points:
            share = rng.random((count, augmentation.points))
            points = (share * self.point_counts[rows][:, None]).astype(np.int64)
        else:  # all of them, and padding, which is not counted
            points = np.tile(np.arange(self.point_counts.max()), (count, 1))
        return Selection(rows, signs, turns, points)

    def smallest(self, samples: int) -> Selection:
        """Every selection of so many has the same size here."""
        return self.select(np.zeros(samples, dtype=np.int64), np.random.default_rng(0))

    def feed(self, selection: Selection, samples: int | None = None) -> Selected:
        filled = selection.filled_to(samples)
        return Selected(*map(self._tensor, (filled.rows, filled.signs, filled.turns, filled.points)))

    def open(self, feed: Feed) -> PanelBatch:
        assert isinstance(feed, Selected)
        tensors = {}
        for name, values in self._tensors.items():
            rows = values[feed.rows]
            if ON[name] == "points":
                at = feed.points if rows.ndim == 2 else feed.points[..., None].expand(-1, -1, rows.shape[-1])
                rows = rows.gather(1, at)
            tensors[name] = rows
        if "u" in tensors:
            # A constant that nothing fixes is taken off here as the operator takes it off.
            has_point = tensors["has_point"]
            mean = (tensors["u"] * has_point).sum(dim=1, keepdim=True) / has_point.sum(dim=1, keepdim=True)
            tensors["u"] = tensors["u"] - mean * self._is_free[feed.rows, None]
        for name, about in COLUMNS.items():
            if about.turn is not None:
                tensors[name] = self._turned(tensors[name], about.turn, feed.turns)
            if about.linear and name in tensors:
                tensors[name] = tensors[name] * feed.signs.view(-1, *[1] * (tensors[name].ndim - 1))
        is_padded = bool((self._panel_counts < self._panel_counts.max()).any())
        return PanelBatch(**tensors, is_padded=is_padded, point_counts=(feed.points.shape[1],) * len(feed.rows))

    def _turned(self, values: Tensor, how: Turn, turns: Int[Tensor, " s"]) -> Tensor:
        if how in ("directions", "ends"):
            return values.gather(2, self._turns[how][turns][:, None, :].expand(-1, values.shape[1], -1))
        move = self._turns["matrix"][turns]
        if how == "place":
            return _rotated(values - 0.5, move) + 0.5
        if how == "vector":
            return _rotated(values, move)
        return torch.cat([values[..., :1], _rotated(values[..., 1:3], move), values[..., 3:]], dim=-1)

    def _tensor(self, values: np.ndarray) -> Tensor:
        return as_tensor(values, self.device)

    def _padded(self, arrays: list[np.ndarray]) -> Tensor:
        return self._tensor(padded(arrays))

    def _counted(self, counts: Int[np.ndarray, " all"]) -> Tensor:
        return self._tensor(np.arange(counts.max()) < counts[:, None])


def _inputs_of(posed: Posed, scales: Scales, parts: int, seed: int) -> list[PanelInputs]:
    """A problem, and after it so many parts of it, for which its solution must be known."""
    whole_and_parts = with_parts(posed, parts, seed) if isinstance(posed, Solution) else [posed]
    return [PanelInputs.of(one, scales) for one in whole_and_parts]


def _rotated(places: Float[Tensor, "s m 2"], move: Float[Tensor, "s 2 2"]) -> Float[Tensor, "s m 2"]:
    """In plain sums: a product of matrices may round to half precision."""
    return (places[:, :, None, :] * move[:, None, :, :]).sum(dim=-1)
