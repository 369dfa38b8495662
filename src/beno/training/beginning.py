"""What a run begins with: random weights, trained ones, or its own from before."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import torch
from torch import nn

from beno.datasets.dataset import Dataset
from beno.datasets.metadata import Metadata
from beno.datasets.scales import Scales
from beno.learned import checkpoints, shipped
from beno.learned.checkpoints import Header
from beno.learned.operator import LearnedOperator
from beno.models.registry import model_class
from beno.support.errors import BenoError
from beno.training.config import TrainingConfig
from beno.training.run_folder import RunFolder


@dataclass(frozen=True, eq=False)
class Beginning:
    """The model, its settings and the weights to start from, all checked against the data."""

    model: str
    settings: dict[str, object]
    config: TrainingConfig
    start: LearnedOperator | None  # whose weights to take; a run that goes on has them already
    scales: Scales | None  # those of weights that go on; for problems of another kind they are a start, and no more

    @classmethod
    def of(
        cls,
        folder: RunFolder,
        data: Metadata,
        model: str,
        settings: Mapping[str, object],
        config: TrainingConfig,
        resume: bool,
    ) -> "Beginning":
        network = model_class(model)
        wanted = {**network.Config.settings_for(data.problem_class), **settings}
        network.Config.from_settings(wanted)  # which refuses what no configuration can have
        start, origin = None, None
        if resume and folder.state.exists():
            config, origin = _as_begun(folder, config)
        elif config.start is not None:
            start = shipped.load(config.start)
            origin = start.header
        if origin is None:
            return cls(model, wanted, config, None, None)
        _require_fit(origin, {"model": model, **wanted}, network.inputs_that_come_last)
        goes_on = start is None or start.problem_class.lacks(data.problem_class) is None
        return cls(model, {**origin.config, **wanted}, config, start, origin.scales if goes_on else None)

    def header(self, dataset: Dataset) -> Header:
        """What the run's checkpoints say of it; scales are those of the samples to train on, unless it has some."""
        scales = self.scales or Scales.fit(dataset[int(index)] for index in dataset.indices("train"))
        settings = asdict(model_class(self.model).Config.from_settings(self.settings))
        return Header(self.model, settings, scales, dataset.metadata, asdict(self.config))


def _as_begun(folder: RunFolder, config: TrainingConfig) -> tuple[TrainingConfig, Header | None]:
    """The run's own start and header, if it once started from trained weights. Those are not needed again."""
    header = checkpoints.load_header(folder.state)
    started_from = header.training.get("start")
    start = None if started_from is None else str(started_from)
    if start is None and config.start is not None:
        raise BenoError(f"{folder.path} was begun with random weights, not with those of {config.start}")
    return replace(config, start=start), header if start is not None else None


def _require_fit(origin: Header, wanted: dict[str, object], may_be_new: frozenset[str]) -> None:
    """Weights to start from must be those of the model that is asked for, but for inputs that they need not know."""
    known = {"model": origin.model, **origin.config}
    for name, value in wanted.items():
        is_new = name in may_be_new and value and not known.get(name)
        if known.get(name) != value and not is_new:
            raise BenoError(f"the weights to start from have {name} {known.get(name)}, where {value} is needed")


@torch.no_grad()
def take_weights(network: nn.Module, start: nn.Module) -> None:
    """Inputs that the start does not know come last, and count for nothing at first."""
    theirs = start.state_dict()
    for name, ours in network.state_dict().items():
        ours.zero_()
        ours[tuple(slice(size) for size in theirs[name].shape)] = theirs[name]
