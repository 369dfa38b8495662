"""How to train: what a run is told, and the ways that proved themselves."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass

from beno.batches.augmentation import Augmentation
from beno.support.errors import BenoError

PRECISIONS = ("32-true", "bf16-mixed")
LOSSES = ("mean square", "relative")


@dataclass(frozen=True)
class TrainingConfig:
    """The paper's way to train; `PRESETS` has the other."""

    epochs: int = 1000
    batch_size: int = 1
    learning_rate: float = 5e-5
    weight_decay: float = 5e-4
    first_restart: int = 16  # epochs until the learning rate's first warm restart, or 0 for none; each further span is
    restart_factor: int = 2  # this many times longer
    warm_up: int = 0  # steps over which the rate rises from zero at the start
    clip: float | None = None  # largest norm of a gradient
    precision: str = "32-true"  # or bf16-mixed: half precision, on devices that gain by it
    seed: int = 0
    checkpoint_every: int = 1  # epochs
    decoupled_decay: bool = False  # decay the weights themselves (AdamW) instead of adding to the gradient
    symmetries: bool = False  # show every sample in a random one of the square's symmetries, with a random sign
    parts: int = 0  # subdomains cut out of every sample, which half of its showings are
    points: int = 0  # of a sample that a step looks at, chosen anew each time; 0 for all
    loss: str = "mean square"  # over points; or relative: the mean over samples of the relative L2 error
    validate_every: int = 1  # epochs
    captured: bool = False  # on a GPU, replay each step as one CUDA graph over padded batches
    stream: bool = False  # train on fresh samples of the dataset's family, as many an epoch as it has to train on
    start: str | None = (
        None  # a trained operator, by name or place, whose weights to start from, and scales if it knows such problems
    )

    def __post_init__(self) -> None:
        for name in (
            "epochs",
            "batch_size",
            "learning_rate",
            "restart_factor",
            "checkpoint_every",
            "validate_every",
        ):
            if not getattr(self, name) > 0:
                raise BenoError(f"{name.replace('_', ' ')} is {getattr(self, name)}; it must be positive")
        if not 0 <= self.weight_decay < math.inf:
            raise BenoError(f"weight decay is {self.weight_decay}; it must be a finite number of at least 0")
        if not 0 <= self.seed < 2**63:
            raise BenoError(f"the seed is {self.seed}; it must be a whole number of at least 0")
        if self.precision not in PRECISIONS:
            raise BenoError(f"there is no precision {self.precision!r}; there is {', '.join(PRECISIONS)}")
        if self.loss not in LOSSES:
            raise BenoError(f"there is no loss {self.loss!r}; there is {', '.join(LOSSES)}")
        for name in ("first_restart", "parts", "points"):
            if getattr(self, name) < 0:
                raise BenoError(f"{name.replace('_', ' ')} is {getattr(self, name)}; it must not be negative")

    @property
    def augmentation(self) -> Augmentation:
        return Augmentation(self.symmetries, self.parts, self.points)

    def rate(self, epoch: int, step: int = 10**9) -> float:
        """Cosine annealing with warm restarts (Loshchilov & Hutter 2016), by epoch."""
        span, since = self.first_restart or self.epochs, epoch
        while since >= span:
            since -= span
            span *= self.restart_factor
        cosine = self.learning_rate * (1 + math.cos(math.pi * since / span)) / 2
        return cosine * min(1.0, (step + 1) / (self.warm_up + 1))


PRESETS = {
    "paper": TrainingConfig(),
    "fast": TrainingConfig(
        batch_size=16,
        learning_rate=1e-3,
        weight_decay=0.05,
        decoupled_decay=True,
        warm_up=200,
        clip=1.0,
        precision="bf16-mixed",
        symmetries=True,
        captured=True,
    ),
    "harmonic": TrainingConfig(
        epochs=1000,
        batch_size=16,
        learning_rate=1e-3,
        weight_decay=1e-3,
        decoupled_decay=True,
        first_restart=0,  # one cosine over the whole run
        warm_up=200,
        clip=1.0,
        precision="bf16-mixed",
        symmetries=True,
        parts=6,
        points=256,
        loss="relative",
        validate_every=5,
        captured=True,
    ),
}


def difference(stored: object, given: object) -> str:
    """What two settings, or sets of them, differ in."""
    stored, given = (asdict(one) if is_dataclass(one) else one for one in (stored, given))  # type: ignore[arg-type]
    if not isinstance(stored, dict) or not isinstance(given, dict):
        return f"{stored}, where {given} is asked for"
    names = [name for name in {**stored, **given} if stored.get(name) != given.get(name)]
    return ", ".join(_named(name, stored.get(name), given.get(name)) for name in names)


def _named(name: str, stored: object, given: object) -> str:
    sets = isinstance(stored, dict) and isinstance(given, dict)
    return f"{name}: {difference(stored, given)}" if sets else f"{name} {difference(stored, given)}"


def fixed(training: Mapping[str, object]) -> dict[str, object]:
    """What may not change in the middle of a run. What an older version could not choose yet was the default."""
    may_change = ("epochs", "checkpoint_every", "captured", "precision")
    return {n: value for n, value in {**asdict(TrainingConfig()), **training}.items() if n not in may_change}
