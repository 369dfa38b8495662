"""Samples as pictures: fields on the whole square, for models that know no other domain."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from beno.batches.augmentation import Plan, Variety
from beno.datasets.records import Sample
from beno.datasets.scales import Scales
from beno.geometry.symmetries import SYMMETRIES
from beno.problems.problem import Kind
from beno.support.errors import BenoError

CHANNELS = ("source", "boundary_value", "on_boundary", "log_coefficient", "alpha", *(kind.name for kind in Kind))


@dataclass(eq=False)  # not frozen: Fabric rebuilds what it passes to a model field by field
class GridBatch:
    """Channels over the square, zero outside the domain; u likewise."""

    channels: Float[Tensor, "s channels n n"]
    u: Float[Tensor, "s n n"]
    mask: Bool[Tensor, "s n n"]
    point_counts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.u)

    def by_sample(self, values: Float[Tensor, "s n n"]) -> Float[Tensor, " s"]:
        """Sums over each sample's points."""
        return (values * self.mask).sum(dim=(1, 2))

    def split(self, values: Float[Tensor, "*b s n n"]) -> list[Tensor]:
        """Values at all points, sample by sample, in the order of the mask."""
        return [values[..., sample, :, :][..., self.mask[sample]] for sample in range(len(self))]


@dataclass(eq=False)
class GridFeed:
    index: Int[Tensor, " s"]
    turn: Int[Tensor, " s"]
    sign: Float[Tensor, " s"]


class GridCohort:
    """Samples of one resolution on a device."""

    IN_CACHE = 16000  # points that a CPU works on together

    def __init__(
        self, samples: Sequence[Sample], scales: Scales, device: torch.device | str, variety: Variety | None
    ) -> None:
        if not samples:
            raise BenoError("there are no samples to batch")
        self.device, self.variety = torch.device(device), variety or Variety()
        if self.variety.parts or self.variety.points:
            raise BenoError("a model on grids learns from whole samples: parts and points must be 0")
        resolutions = {sample.resolution for sample in samples}
        if len(resolutions) > 1:
            raise BenoError(f"a model on grids takes samples of one resolution, not of {sorted(resolutions)}")
        self.point_counts = np.array([len(sample.u) for sample in samples])
        fields = np.stack([_fields(sample, scales) for sample in samples])
        self._fields = torch.as_tensor(fields, dtype=torch.float32).to(self.device)
        n = fields.shape[-1]
        # Where each cell of a turned picture comes from.
        number = np.arange(n * n).reshape(n, n)
        turned = [_turned(number, turn).ravel() for turn in range(SYMMETRIES)]
        self._turned = torch.as_tensor(np.stack(turned)).to(self.device)

    @classmethod
    def of(
        cls,
        samples: Iterable[Sample],
        scales: Scales,
        device: torch.device | str = "cpu",
        variety: Variety | None = None,
    ) -> "GridCohort":
        return cls(list(samples), scales, device, variety)

    def __len__(self) -> int:
        return len(self.point_counts)

    def plan(self, indices: Int[np.ndarray, " s"], rng: np.random.Generator) -> Plan:
        count = len(indices)
        if not self.variety.symmetries:
            return Plan(indices, np.ones(count), np.zeros(count, dtype=np.int64))
        return Plan(indices, rng.choice([-1.0, 1.0], size=count), rng.integers(SYMMETRIES, size=count))

    def smallest(self, samples: int) -> Plan:
        """Every plan of so many samples has the same size here."""
        return self.plan(np.zeros(samples, dtype=np.int64), np.random.default_rng(0))

    def feed(self, plan: Plan, samples: int | None = None) -> GridFeed:
        """A plan on the device; its last sample is repeated until there are so many."""
        plan = plan.filled_to(samples)
        assert plan.turns is not None
        index, turn = (torch.as_tensor(values).to(self.device) for values in (plan.rows, plan.turns))
        return GridFeed(index, turn, torch.as_tensor(plan.signs, dtype=torch.float32).to(self.device))

    def open(self, feed: GridFeed) -> GridBatch:
        """Nothing here waits for a value, so a CUDA graph can hold it."""
        fields = self._fields[feed.index]
        source = self._turned[feed.turn][:, None, :].expand(-1, fields.shape[1], -1)
        fields = fields.flatten(2).gather(2, source).view_as(fields)
        sign = torch.ones_like(fields[:, :, 0, 0])
        sign[:, 0] = sign[:, 1] = sign[:, -2] = feed.sign  # f, g and u
        return self._as_batch(fields * sign[:, :, None, None], (0,) * len(fields))

    def batch(self, indices: Int[np.ndarray, " s"] | range | None = None) -> GridBatch:
        """The samples with these indices, or all, as they are."""
        chosen = np.arange(len(self)) if indices is None else np.asarray(indices)
        fields = self._fields[torch.as_tensor(chosen).to(self.device)]
        return self._as_batch(fields, tuple(self.point_counts[chosen].tolist()))

    @staticmethod
    def _as_batch(fields: Float[Tensor, "s all n n"], counts: tuple[int, ...]) -> GridBatch:
        return GridBatch(fields[:, :-2], fields[:, -2], fields[:, -1] > 0.5, counts)


def _fields(sample: Sample, scales: Scales) -> Float[np.ndarray, "all N N"]:
    """The channels, u, and the mask. A cell beside walls has the mean of their values, and their kinds."""
    domain = sample.domain
    sample = sample.in_grid_order()
    panels, n = domain.panels, len(domain.points)
    walls = np.bincount(panels.cell, minlength=n)

    def beside(values: np.ndarray) -> np.ndarray:
        return np.bincount(panels.cell, values, minlength=n) / np.maximum(walls, 1)

    columns = [
        sample.source / scales.source,
        beside(sample.g) / scales.boundary,
        (walls > 0).astype(float),
        np.zeros(n) if sample.coefficient is None else np.log(sample.coefficient),
        beside(sample.alpha),
        *(beside((sample.kind == kind).astype(float)) for kind in Kind),
        sample.u / scales.solution,
        np.ones(n),
    ]
    fields = np.zeros((len(columns), *domain.mask.shape))
    fields[:, domain.mask] = np.stack(columns)
    return fields


def _turned(picture: Int[np.ndarray, "n n"], turn: int) -> Int[np.ndarray, "n n"]:
    """As `symmetry.matrix` turns places; the first index of a picture runs along x."""
    picture = picture.T if turn >= SYMMETRIES // 2 else picture
    return np.rot90(picture, turn % 4)
