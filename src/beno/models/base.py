"""What a model is: how problems become its inputs, what it must be told of them, and how it is trained.

A model of another package derives from `Model` and joins through an entry point of the group ``beno.models``, or by
`register`. docs/extending.md has an example.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Generic, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from beno.batches.augmentation import Augmentation
from beno.batches.base import Batch, Batches, Posed
from beno.batches.graph_inputs import GraphKind
from beno.batches.graphs import GraphBatch, GraphBatches
from beno.batches.panels import PanelBatch, PanelBatches
from beno.batches.pictures import PictureBatch, PictureBatches
from beno.datasets.metadata import Metadata
from beno.datasets.scales import Scales
from beno.problems.families import ProblemClass
from beno.problems.walls import Kind
from beno.support.errors import BenoError

BatchType = TypeVar("BatchType", bound=Batch)
Setting = bool | int | float | str


@dataclass(frozen=True)
class ModelConfig:
    """The settings of a model: a frozen dataclass of plain values, which checkpoints keep."""

    @classmethod
    def settings_for(cls, problems: ProblemClass) -> dict[str, Setting]:
        """What the model must be told of the problems that it is to learn."""
        return {}

    @classmethod
    def from_settings(cls: type["ConfigType"], settings: Mapping[str, object]) -> "ConfigType":
        """An unknown setting, or one of the wrong type, is refused."""
        known = {field.name: field.type for field in fields(cls)}
        for name, value in settings.items():
            if name not in known:
                raise BenoError(f"there is no setting {name!r}; there is {', '.join(known)}")
            if type(value) is not known[name]:
                wanted = getattr(known[name], "__name__", known[name])
                raise BenoError(f"the setting {name} is {value!r}; it must be {wanted}")
        return cls(**settings)

    def require_at_least(self, **least: int) -> None:
        """Refuse numbers below these."""
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise BenoError(f"{name} is {getattr(self, name)}; it must be at least {smallest}")


ConfigType = TypeVar("ConfigType", bound=ModelConfig)


@dataclass(frozen=True)
class ConfigWithKinds(ModelConfig):
    """Settings of a model that may be told the kinds of walls. It has an input for every kind that it was made with."""

    known_kinds: str = "dirichlet neumann robin"

    @property
    def kind_numbers(self) -> list[int]:
        """What panels of these kinds have for a kind, in the order of the model's inputs."""
        try:
            return [Kind[name.upper()].value for name in self.known_kinds.split()]
        except KeyError as error:
            known = ", ".join(kind.label for kind in Kind)
            raise BenoError(f"known_kinds is {self.known_kinds!r}; there is {known}") from error

    @classmethod
    def settings_for(cls, problems: ProblemClass) -> dict[str, Setting]:
        return {"known_kinds": " ".join(kind.label for kind in Kind)}

    def told_kinds(self, kind: Int[Tensor, "*m"]) -> Float[Tensor, "*m kinds"]:
        """One column for each kind that the model knows."""
        numbers = [kind == number for number in self.kind_numbers]  # one by one: an index cannot be captured
        return torch.stack(numbers, dim=-1).float()


class Model(nn.Module, ABC, Generic[ConfigType, BatchType]):
    """A network from batches of problems to u at their points."""

    name: ClassVar[str]  # on the command line and in checkpoints
    Config: ClassVar[type[ModelConfig]]
    preset: ClassVar[str] = "fast"  # how it is trained unless told otherwise: one of `training.config.PRESETS`
    small: ClassVar[Mapping[str, Setting]] = {}  # sizes at which it runs in moments, to see that all works
    # Settings whose inputs stand after all others: weights that do not know them can start a training that has them.
    inputs_that_come_last: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, config: ConfigType | None = None) -> None:
        super().__init__()
        self.config = config or cast(ConfigType, self.Config())

    def __repr__(self) -> str:
        """One line; `named_modules` lists the layers."""
        weights = sum(weight.numel() for weight in self.parameters())
        return f"{type(self).__name__}({weights:,} weights, {self.config})"

    @classmethod
    @abstractmethod
    def batches(
        cls,
        posed: Sequence[Posed],
        scales: Scales,
        config: ConfigType,
        device: torch.device | str = "cpu",
        augmentation: Augmentation | None = None,
    ) -> Batches[BatchType]:
        """Problems on a device, as the model is fed with them; with u where solutions are given."""

    @classmethod
    def upgraded(
        cls, tensors: dict[str, Tensor], version: int, config: ConfigType, data: Metadata
    ) -> dict[str, Tensor]:
        """Weights, or the state of a training, of an older version of the checkpoint's format as this one has them."""
        return tensors

    @abstractmethod
    def branches(self, batch: BatchType) -> Float[Tensor, "b *values"]:
        """What each branch of the model adds to u, in the units of the batch; a plain model has one branch."""

    def forward(self, batch: BatchType) -> Float[Tensor, "*values"]:
        """u at every point, in the units of the batch."""
        return self.branches(batch).sum(dim=0)


class GraphModel(Model[ConfigType, GraphBatch]):
    """A model that passes messages along a graph."""

    @classmethod
    @abstractmethod
    def graph_kind(cls, config: ConfigType) -> GraphKind:
        """Which graph."""

    @classmethod
    def batches(
        cls,
        posed: Sequence[Posed],
        scales: Scales,
        config: ConfigType,
        device: torch.device | str = "cpu",
        augmentation: Augmentation | None = None,
    ) -> GraphBatches:
        return GraphBatches.of(posed, scales, cls.graph_kind(config), device, augmentation)


class PictureModel(Model[ConfigType, PictureBatch]):
    """A model that sees the whole square as a picture."""

    @classmethod
    def batches(
        cls,
        posed: Sequence[Posed],
        scales: Scales,
        config: ConfigType,
        device: torch.device | str = "cpu",
        augmentation: Augmentation | None = None,
    ) -> PictureBatches:
        return PictureBatches(posed, scales, device, augmentation)


class LinearModel(Model[ConfigType, PanelBatch]):
    """A model that is linear in (f, g) and has a matrix for every operator: u = v + W (g - trace of v)."""

    @classmethod
    def batches(
        cls,
        posed: Sequence[Posed],
        scales: Scales,
        config: ConfigType,
        device: torch.device | str = "cpu",
        augmentation: Augmentation | None = None,
    ) -> PanelBatches:
        return PanelBatches.of(posed, scales, device, augmentation)

    @abstractmethod
    def kernel(self, batch: PanelBatch) -> Iterator[Float[Tensor, "s m p"]]:
        """W, for some of the points after others: all pairs at once may be too many."""
