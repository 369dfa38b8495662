"""Problems as pictures: fields on the whole square, for models that know no other domain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from beno.batches.augmentation import Augmentation, Selection
from beno.batches.base import Batch, Batches, Feed, Posed, Selected, as_tensor, problem_of, require_some, scaled_u
from beno.datasets.scales import Scales
from beno.geometry.symmetries import SYMMETRIES, turned_picture
from beno.problems.operator import Elliptic
from beno.problems.walls import Kind
from beno.solvers.box import filled
from beno.support.errors import BenoError

CHANNELS = ("source", "boundary_value", "on_boundary", "log_coefficient", "alpha", *(kind.name for kind in Kind))
LINEAR = ("source", "boundary_value")


@dataclass(eq=False, repr=False)  # not frozen: Fabric rebuilds what it passes to a model field by field
class PictureBatch(Batch):
    """Channels over the square, zero outside the domain; u likewise."""

    channels: Float[Tensor, "s channels n n"]
    inside: Bool[Tensor, "s n n"]
    point_counts: tuple[int, ...]
    u: Float[Tensor, "s n n"] | None = None

    def __len__(self) -> int:
        return len(self.channels)

    def by_sample(self, values: Float[Tensor, "s n n"]) -> Float[Tensor, " s"]:
        return (values * self.inside).sum(dim=(1, 2))

    def split(self, values: Float[Tensor, "*b s n n"]) -> list[Tensor]:
        """In the order in which a domain lists its points."""
        return [values[..., sample, :, :][..., self.inside[sample]] for sample in range(len(self))]


class PictureBatches(Batches[PictureBatch]):
    """Problems of one resolution."""

    POINTS_IN_CACHE = 16000

    def __init__(
        self,
        posed: Sequence[Posed],
        scales: Scales,
        device: torch.device | str = "cpu",
        augmentation: Augmentation | None = None,
    ) -> None:
        require_some(posed)
        self.device, self.augmentation = torch.device(device), augmentation or Augmentation()
        if self.augmentation.parts or self.augmentation.points:
            raise BenoError("a model on pictures learns from whole samples: parts and points must be 0")
        problems = [problem_of(one) for one in posed]
        resolutions = {problem.domain.resolution for problem in problems}
        if len(resolutions) > 1:
            raise BenoError(f"a model on pictures takes problems of one resolution, not of {sorted(resolutions)}")
        self.point_counts = np.array([len(problem.f) for problem in problems])
        self._channels = self._tensor(np.stack([_channels(one, scales) for one in posed]))
        self._inside = self._tensor(np.stack([problem.domain.mask for problem in problems]))
        truths = [scaled_u(one, scales.solution) for one in posed]
        known = [filled(p.domain, u) for p, u in zip(problems, truths, strict=True) if u is not None]
        self._u = self._tensor(np.stack(known)) if len(known) == len(posed) else None
        n = self._inside.shape[-1]
        # Where each cell of a turned picture comes from.
        number = np.arange(n * n).reshape(n, n)
        self._turned = self._tensor(
            np.stack([np.ascontiguousarray(turned_picture(number, turn)).ravel() for turn in range(SYMMETRIES)])
        )
        self._is_linear = self._tensor(np.isin(CHANNELS, LINEAR))

    def __len__(self) -> int:
        return len(self.point_counts)

    def batch(self, indices: Int[np.ndarray, " s"] | range | None = None) -> PictureBatch:
        chosen = np.arange(len(self)) if indices is None else np.asarray(indices)
        rows = self._tensor(chosen)
        u = None if self._u is None else self._u[rows]
        return PictureBatch(self._channels[rows], self._inside[rows], tuple(self.point_counts[chosen].tolist()), u)

    def select(self, indices: Int[np.ndarray, " s"], rng: np.random.Generator) -> Selection:
        count, augmentation = len(indices), self.augmentation
        return Selection.of(indices, augmentation.choose_signs(rng, count), augmentation.choose_turns(rng, count))

    def smallest(self, samples: int) -> Selection:
        """Every selection of so many has the same size here."""
        return self.select(np.zeros(samples, dtype=np.int64), np.random.default_rng(0))

    def feed(self, selection: Selection, samples: int | None = None) -> Selected:
        filled_up = selection.filled_to(samples)
        return Selected(*map(self._tensor, (filled_up.rows, filled_up.signs, filled_up.turns, filled_up.points)))

    def open(self, feed: Feed) -> PictureBatch:
        assert isinstance(feed, Selected)
        source = self._turned[feed.turns]

        def turned(pictures: Tensor) -> Tensor:
            layers = pictures.flatten(2)
            return layers.gather(2, source[:, None, :].expand(-1, layers.shape[1], -1)).view_as(pictures)

        sign = feed.signs[:, None, None, None]
        channels = turned(self._channels[feed.rows])
        channels = torch.where(self._is_linear[:, None, None], sign * channels, channels)
        inside = turned(self._inside[feed.rows][:, None])[:, 0]
        u = None if self._u is None else (sign * turned(self._u[feed.rows][:, None]))[:, 0]
        return PictureBatch(channels, inside, (0,) * len(feed.rows), u)

    def with_data(
        self, batch: PictureBatch, operator: Elliptic, f: Float[Tensor, " n"], g: Float[Tensor, " p"], scales: Scales
    ) -> PictureBatch:
        domain = operator.grid
        points = self._tensor(domain.cells @ (domain.resolution, 1))
        beside = points[self._tensor(domain.panels.cell)]
        empty = torch.zeros(domain.mask.size, dtype=f.dtype, device=f.device)
        count = torch.zeros_like(empty).index_add(0, beside, torch.ones_like(g)).clamp(min=1)
        data = {"source": empty.index_copy(0, points, f / scales.source)}
        data["boundary_value"] = empty.index_add(0, beside, g / scales.boundary) / count
        pictures = {CHANNELS.index(name): values.view(domain.mask.shape) for name, values in data.items()}
        channels = [pictures.get(number, channel) for number, channel in enumerate(batch.channels[0])]
        return replace(batch, channels=torch.stack(channels)[None])

    def _tensor(self, values: np.ndarray) -> Tensor:
        return as_tensor(values, self.device)


def _channels(posed: Posed, scales: Scales) -> Float[np.ndarray, "channels N N"]:
    """A cell beside walls has the mean of their values, and their kinds."""
    problem = problem_of(posed)
    panels, n, walls = problem.domain.panels, len(problem.f), problem.walls
    count = np.bincount(panels.cell, minlength=n)

    def beside(values: np.ndarray) -> np.ndarray:
        return np.bincount(panels.cell, values, minlength=n) / np.maximum(count, 1)

    columns = [
        problem.f / scales.source,
        beside(problem.g) / scales.boundary,
        (count > 0).astype(float),
        np.log(problem.law.at_points(problem.domain)),
        beside(walls.alpha),
        *(beside((walls.kind == kind).astype(float)) for kind in Kind),
    ]
    return filled(problem.domain, np.stack(columns))
