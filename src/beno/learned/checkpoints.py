"""Weights on disk: safetensors with a JSON header. Loading one never runs code from it.

Version 2 keeps the kinds of walls that a network knows by name. What version 1 had otherwise is turned into what this
version has by the model itself: see `Model.upgraded`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from beno.datasets.metadata import Metadata
from beno.datasets.scales import Scales
from beno.models.base import Model, ModelConfig
from beno.models.registry import ModelClass, model_class
from beno.support.errors import BenoError
from beno.support.files import whole_file_or_none
from beno.version import __version__

FORMAT = "beno-checkpoint"
VERSION = 2


@dataclass(frozen=True)
class Header:
    """All that is needed to use the weights, and where they come from."""

    model: str
    config: dict[str, object]  # plain values: the model's own configuration makes sense of them
    scales: Scales
    data: Metadata
    training: dict[str, object] = field(default_factory=dict)
    epoch: int = 0  # how many were done
    validation_loss: float = float("inf")
    beno_version: str = __version__

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Header":
        """Settings that an older version did not have are the defaults that it went by."""
        stored = json.loads(text)
        stored["scales"] = Scales(**stored["scales"])
        stored["data"] = Metadata.from_json(json.dumps(stored["data"]))
        header = cls(**stored)
        if not isinstance(header.model, str):
            raise BenoError(f"it is of a model {header.model!r}")
        return replace(header, config=asdict(header.model_config))

    @property
    def model_class(self) -> ModelClass:
        return model_class(self.model)

    @property
    def model_config(self) -> ModelConfig:
        return self.model_class.Config.from_settings(self.config)

    def build(self) -> Model:
        """The model that the weights are for, with fresh ones."""
        return self.model_class(self.model_config)


def save(path: Path, header: Header, tensors: dict[str, Tensor]) -> None:
    """Write beside the place, then rename: the file is the old one or the new one, never half of either."""
    metadata = {"format": FORMAT, "version": str(VERSION), "header": header.to_json()}
    with whole_file_or_none(path) as unfinished:
        try:
            save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, unfinished, metadata)
        except SafetensorError as error:
            raise BenoError(f"cannot write {path}: {error}") from error


def load(path: Path) -> tuple[Header, dict[str, Tensor]]:
    """The header and all tensors, as this version has them."""
    header, version = _read_header(path)
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    return header, header.model_class.upgraded(tensors, version, header.model_config, header.data)


def load_header(path: Path) -> Header:
    """What a checkpoint says of its weights, without reading them."""
    return _read_header(path)[0]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:  # safetensors has no type for it
    if not path.is_file():
        raise BenoError(f"{path} is not a checkpoint file")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise BenoError(f"{path} is not a readable safetensors file, or was cut short: {error}") from error


def _read_header(path: Path) -> tuple[Header, int]:
    """The header, and the version of the format that the file has."""
    with _opened(path) as file:
        metadata = file.metadata() or {}
    if metadata.get("format") != FORMAT:
        raise BenoError(f"{path} is a safetensors file, but no {FORMAT}")
    version = metadata.get("version", "")
    if not version.isdecimal() or len(version) > 9 or int(version) > VERSION:
        raise BenoError(f"{path} has version {version}; this beno reads up to {VERSION}, a newer one is needed")
    try:
        return Header.from_json(metadata["header"]), int(version)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BenoError(f"{path} has a header that cannot be read: {error}") from error


def load_model(path: Path) -> tuple[Header, Model]:
    """The model with its weights, in single precision.

    Its shapes are compared before anything is allocated: a header may promise a network of any size.
    """
    header, tensors = load(path)
    try:
        with torch.device("meta"):
            model = header.build()
    except BenoError as error:
        raise BenoError(f"{path}: {error}") from error
    except (TypeError, AttributeError, ValueError, RuntimeError, MemoryError, OverflowError) as error:
        raise BenoError(f"{path} has a header that describes no model: {error}") from error
    wanted = model.state_dict()
    for name, parameter in wanted.items():
        if name not in tensors or tensors[name].shape != parameter.shape:
            raise BenoError(f"{path} does not fit the {header.model} that its header describes: {name}")
    model.load_state_dict({name: tensors[name].float() for name in wanted}, assign=True)
    return header, model.eval()


def cast_to_half(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """All tensors in half precision."""
    return {name: tensor.to(torch.float16) for name, tensor in tensors.items()}
