"""The trained operators that come with the package."""

from importlib import resources
from pathlib import Path

from beno.learned.operator import LearnedOperator
from beno.nn.device import choose_device
from beno.support.errors import BenoError

WEIGHTS = resources.files("beno.learned") / "weights"


def names() -> list[str]:
    """The operators that ship."""
    return sorted(entry.name.removesuffix(".safetensors") for entry in WEIGHTS.iterdir() if entry.name[0] != ".")


def load(name: str | Path, device: str = "cpu") -> LearnedOperator:
    """By name, as "poisson-dirichlet", or from a checkpoint or the folder of a training run; on auto, cpu or cuda."""
    device = choose_device(device)
    if str(name) in names():
        with resources.as_file(WEIGHTS / f"{name}.safetensors") as path:
            return LearnedOperator.load(path, device)
    if not Path(name).exists():
        raise BenoError(f"there is no operator {str(name)!r}, nor a file of that name; there is {', '.join(names())}")
    return LearnedOperator.load(name, device)
