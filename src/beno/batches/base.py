"""The contract between models and what they are fed.

`Batches` holds many problems on one device, prepared once. A `Batch` is some of them side by side, as a model takes
them. In training each step selects problems on the host (`Selection`), sends what the device needs to know of that
(`Feed`), and opens it there, where nothing waits for the host: so a whole step can be captured as one CUDA graph.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from beno.batches.augmentation import Augmentation, Selection
from beno.datasets.scales import Scales
from beno.problems.operator import Elliptic
from beno.problems.problem import Problem
from beno.problems.solution import Solution
from beno.support.errors import BenoError

Posed = Problem | Solution
On = Literal["points", "panels"]
Turn = Literal["place", "vector", "directions", "ends", "kappa"]


@dataclass(frozen=True)
class Column:
    """An array of a model's inputs: one row a point or a panel."""

    on: On
    linear: bool = False  # whether it changes sign with the data
    turn: Turn | None = None  # how it is turned with the domain, if it is


def column(on: On, linear: bool = False, turn: Turn | None = None) -> Any:  # as dataclasses.field, whatever the type
    """Declare an array of a dataclass of inputs."""
    return field(metadata={"column": Column(on, linear, turn)})


def columns_of(inputs: type) -> dict[str, Column]:
    """The arrays that were declared by `column`, by name."""
    return {one.name: one.metadata["column"] for one in fields(inputs) if "column" in one.metadata}


def problem_of(posed: Posed) -> Problem:
    """The problem itself, of a solution too."""
    return posed.problem if isinstance(posed, Solution) else posed


def scaled_u(posed: Posed, scale: float) -> Float[np.ndarray, " n"] | None:
    """The truth in the units of a network, where it is known."""
    return posed.u / scale if isinstance(posed, Solution) else None


class Feed:
    """A dataclass of tensors: all that the device must be sent for a step."""


class Batch(ABC):
    """Problems side by side."""

    u: Tensor | None  # the truth, in the units of a network, where it is known

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} problems{'' if self.u is None else ', with u'})"

    @property
    def truth(self) -> Tensor:
        assert self.u is not None, "these problems came without solutions"
        return self.u

    @abstractmethod
    def __len__(self) -> int:
        """How many problems."""

    @abstractmethod
    def by_sample(self, values: Float[Tensor, "*n"]) -> Float[Tensor, " s"]:
        """Sums over each problem's points."""

    @abstractmethod
    def split(self, values: Float[Tensor, "*bn"]) -> list[Tensor]:
        """Values at all points, problem by problem."""


BatchType = TypeVar("BatchType", bound=Batch)


class Batches(ABC, Generic[BatchType]):
    """Prepared problems on a device."""

    POINTS_IN_CACHE: ClassVar[int]  # points that a CPU works on together
    device: torch.device
    augmentation: Augmentation
    point_counts: Int[np.ndarray, " all"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} problems on {self.device})"

    @abstractmethod
    def __len__(self) -> int:
        """How many problems there are, apart from parts and turns of them."""

    @abstractmethod
    def batch(self, indices: Int[np.ndarray, " s"] | range | None = None) -> BatchType:
        """The problems with these indices, or all, whole and as they are."""

    @abstractmethod
    def select(self, indices: Int[np.ndarray, " s"], rng: np.random.Generator) -> Selection:
        """How the problems with these indices are shown this time."""

    @abstractmethod
    def smallest(self, samples: int) -> Selection:
        """A selection of so many that surely fits the size that all feeds of so many have."""

    @abstractmethod
    def feed(self, selection: Selection, samples: int | None = None) -> Feed:
        """A selection on the device, filled up to so many problems if that is given."""

    @abstractmethod
    def open(self, feed: Feed) -> BatchType:
        """The batch that a feed stands for. Nothing here waits for a value, so a CUDA graph can hold it."""

    def with_data(
        self, batch: BatchType, operator: Elliptic, f: Float[Tensor, " n"], g: Float[Tensor, " p"], scales: Scales
    ) -> BatchType:
        """A batch of one problem with another right-hand side, through which gradients pass."""
        raise BenoError(f"{type(self).__name__} takes right-hand sides as arrays alone, not as tensors")

    def worked_on_together(self, most: int) -> int:
        """How many problems at once: on a GPU all, on a CPU so many that what one layer writes is in the cache for the
        next."""
        if self.device.type == "cuda":
            return most
        return max(1, min(most, int(self.POINTS_IN_CACHE / self.point_counts.mean())))


def require_some(posed: Sequence[object]) -> None:
    """Refuse an empty list."""
    if not posed:
        raise BenoError("there are no problems to batch")


def as_tensor(values: np.ndarray, device: torch.device) -> Tensor:
    """In single precision, or as the kind of number that it is."""
    kind = {"f": torch.float32, "b": torch.bool}.get(values.dtype.kind, torch.int64)
    return torch.as_tensor(values, dtype=kind).to(device, non_blocking=True)


def padded(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Side by side. Padding repeats the last row, so that it is nothing unusual to compute with."""
    most = max(map(len, arrays))
    rows = np.empty((len(arrays), most, *arrays[0].shape[1:]), dtype=arrays[0].dtype)
    for row, array in zip(rows, arrays, strict=True):
        row[: len(array)] = array
        row[len(array) :] = array[-1]
    return rows


@dataclass(eq=False)
class Selected(Feed):
    """A selection on the device."""

    rows: Int[Tensor, " s"]
    signs: Float[Tensor, " s"]
    turns: Int[Tensor, " s"]
    points: Int[Tensor, "s n"]
