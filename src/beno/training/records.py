"""What is known of a training as it goes, and when it has stopped."""

import math
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class EpochRecord:
    """What is logged of one epoch. Mean squares are in units of the scaled solution."""

    epoch: int  # counted from 1
    train_loss: float
    validation_loss: float  # not a number where an epoch went by without a look at the validation samples
    validation_relative_l2: float
    learning_rate: float
    seconds: float  # of training in all, over all pieces of the run

    @property
    def losses(self) -> str:
        training = f"train {self.train_loss:.4f}"
        if math.isnan(self.validation_loss):
            return training
        return f"{training}  validation {self.validation_loss:.4f} (relative L2 {self.validation_relative_l2:.3f})"

    @property
    def known(self) -> dict[str, int | float | None]:
        """As it is logged."""
        return {name: None if math.isnan(value) else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Outcome:
    """How a training stands."""

    epochs: int
    finished: bool
    best_validation_loss: float
    seconds: float
