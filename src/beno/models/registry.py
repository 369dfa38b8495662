"""The models that there are, by name: those of the package, and those that other packages bring."""

from importlib.metadata import entry_points

from beno.models.base import Model
from beno.models.beno import BENO
from beno.models.fno import FNO
from beno.models.gkn import GKN
from beno.models.gnn_pde import GNNPDE
from beno.models.harmonic.model import Harmonic
from beno.models.mp_pde import MPPDE
from beno.support.errors import BenoError

GROUP = "beno.models"

ModelClass = type[Model]

_KNOWN: dict[str, ModelClass] = {model.name: model for model in (BENO, Harmonic, GKN, FNO, GNNPDE, MPPDE)}


def register(model: ModelClass) -> ModelClass:
    """Make a model known under its name, as a decorator or a call; another class of that name is refused."""
    known = _KNOWN.setdefault(model.name, model)
    if known is not model:
        raise BenoError(f"there is a model {model.name!r} already: {known.__module__}.{known.__qualname__}")
    return model


def names() -> list[str]:
    """The models that there are, those of other packages too."""
    return list({**_KNOWN, **dict.fromkeys(entry.name for entry in entry_points(group=GROUP))})


def model_class(name: str) -> ModelClass:
    """The model of this name: one that is registered, or else what an installed package has as an entry point."""
    if name in _KNOWN:
        return _KNOWN[name]
    for entry in entry_points(group=GROUP, name=name):
        loaded = entry.load()
        if not (isinstance(loaded, type) and issubclass(loaded, Model)):
            raise BenoError(f"the entry point {entry.value} for the model {name!r} is no beno.models.base.Model")
        return register(loaded)
    raise BenoError(f"there is no model {name!r}; there is {', '.join(names())}")
