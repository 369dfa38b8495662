"""Weights on disk: safetensors with a JSON header. Loading one never runs code from it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from beno.datasets.dataset import Metadata
from beno.datasets.scales import Scales
from beno.models import MODELS, make_config, make_model
from beno.support.errors import BenoError
from beno.support.files import whole_file_or_none
from beno.version import __version__

FORMAT = "beno-checkpoint"
VERSION = 1


@dataclass(frozen=True)
class Header:
    """All that is needed to use the weights, and where they come from."""

    model: str
    config: dict[str, Any]
    scales: Scales
    data: Metadata
    training: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0  # how many were done
    validation_loss: float = float("inf")
    beno_version: str = __version__

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Header":
        stored = json.loads(text)
        stored["scales"] = Scales(**stored["scales"])
        stored["data"] = Metadata.from_json(json.dumps(stored["data"]))
        return cls(**stored)

    def build(self) -> nn.Module:
        """The model that the weights are for, with fresh ones."""
        return make_model(self.model, make_config(self.model, self.config))


def save(path: Path, header: Header, tensors: dict[str, Tensor]) -> None:
    """Write beside the place, then rename: the file is the old one or the new one, never half of either."""
    metadata = {"format": FORMAT, "version": str(VERSION), "header": header.to_json()}
    with whole_file_or_none(path) as unfinished:
        try:
            save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, unfinished, metadata)
        except SafetensorError as error:
            raise BenoError(f"cannot write {path}: {error}") from error


def load(path: Path) -> tuple[Header, dict[str, Tensor]]:
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    return load_header(path), tensors


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise BenoError(f"{path} is not a checkpoint file")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise BenoError(f"{path} is not a readable safetensors file, or was cut short: {error}") from error


def load_header(path: Path) -> Header:
    with _opened(path) as file:
        metadata = file.metadata() or {}
    if metadata.get("format") != FORMAT:
        raise BenoError(f"{path} is a safetensors file, but no {FORMAT}")
    version = metadata.get("version", "")
    if not version.isdecimal() or int(version) > VERSION:
        raise BenoError(f"{path} has version {version}; this beno reads up to {VERSION}, a newer one is needed")
    try:
        header = Header.from_json(metadata["header"])
    except (KeyError, TypeError, ValueError, AttributeError, BenoError) as error:
        raise BenoError(f"{path} has a header that cannot be read: {error}") from error
    if not isinstance(header.model, str) or header.model not in MODELS:
        raise BenoError(f"{path} holds a model {header.model!r}; this beno has {', '.join(MODELS)}")
    return header


def load_model(path: Path) -> tuple[Header, nn.Module]:
    """The model with its weights, in single precision."""
    header, tensors = load(path)
    try:
        model = header.build()
    except BenoError as error:
        raise BenoError(f"{path}: {error}") from error
    except (TypeError, AttributeError, ValueError, RuntimeError, MemoryError) as error:
        raise BenoError(f"{path} has a header that describes no model: {error}") from error
    wanted = model.state_dict()
    weights = {name: tensor.float() for name, tensor in tensors.items() if name in wanted}
    for name, parameter in wanted.items():
        if name not in weights or weights[name].shape != parameter.shape:
            raise BenoError(f"{path} does not fit the {header.model} that its header describes: {name}")
    model.load_state_dict(weights)
    return header, model.eval()


def cast_to_half(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(torch.float16) for name, tensor in tensors.items()}
