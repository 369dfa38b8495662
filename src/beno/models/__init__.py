"""The networks, one a file, each with its configuration beside it."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import nn

from beno.models.beno import BENO, BENOConfig
from beno.models.fno import FNO, FNOConfig
from beno.models.gkn import GKN, GKNConfig
from beno.models.gnn_pde import GNNPDE, GNNPDEConfig
from beno.models.harmonic.model import Harmonic, HarmonicConfig
from beno.models.mp_pde import MPPDE, MPPDEConfig
from beno.support.errors import BenoError

# Each class makes its own batches, through `cohort`; each configuration knows what its model must be told of the data.
MODELS: dict[str, tuple[Any, Any]] = {
    "beno": (BENO, BENOConfig),
    "harmonic": (Harmonic, HarmonicConfig),
    "gkn": (GKN, GKNConfig),
    "fno": (FNO, FNOConfig),
    "gnn-pde": (GNNPDE, GNNPDEConfig),
    "mp-pde": (MPPDE, MPPDEConfig),
}


def require_model(model: str) -> None:
    if model not in MODELS:
        raise BenoError(f"there is no model {model!r}; there is {', '.join(MODELS)}")


def make_config(model: str, settings: Mapping[str, Any]) -> Any:
    """The model's configuration; an unknown setting, or one of the wrong type, is refused."""
    require_model(model)
    config_class = MODELS[model][1]
    known = {field.name: field.type for field in fields(config_class)}
    for name, value in settings.items():
        if name not in known:
            raise BenoError(f"{model} has no setting {name!r}; it has {', '.join(known)}")
        if type(value) is not known[name]:
            raise BenoError(f"{model}'s setting {name} is {value!r}; it must be {getattr(known[name], '__name__', '')}")
    return config_class(**settings)


def make_model(model: str, config: Any) -> nn.Module:
    return MODELS[model][0](config)
