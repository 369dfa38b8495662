"""How far a prediction is from the truth. A new measure is one line of METRICS.

Evaluations, the cells of tables, their pages and the command line all list what is there, in its order. What was
stored before a measure was there does not have it, and is shown as not measured.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from beno.problems.norms import relative_l2


def mean_absolute_error(predicted: Float[np.ndarray, " n"], truth: Float[np.ndarray, " n"]) -> float:
    """In the unit of u."""
    return float(np.abs(predicted - truth).mean())


@dataclass(frozen=True)
class Measured:
    """A measure over the samples of a test."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Float[np.ndarray, " s"]) -> "Measured":
        return cls(float(values.mean()), float(values.std()))


@dataclass(frozen=True)
class Metric:
    """A measure of one prediction, and how its numbers are printed."""

    measure: Callable[[Float[np.ndarray, " n"], Float[np.ndarray, " n"]], float]  # of a prediction and the truth
    title: str
    unit: str  # in which it is printed
    factor: float  # from the number that is stored to the one that is printed
    digits: int  # printed after the point

    @property
    def heading(self) -> str:
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def printed(self, measured: Measured, between: str = "±") -> str:
        """
        >>> METRICS["relative_l2"].printed(Measured(0.3523, 0.1))
        '35.23 ± 10.00'
        """
        mean, deviation = (self.factor * value for value in (measured.mean, measured.deviation))
        return f"{mean:.{self.digits}f} {between} {deviation:.{self.digits}f}"


METRICS = {
    "relative_l2": Metric(relative_l2, "Relative L2", "%", 100.0, 2),
    "mae": Metric(mean_absolute_error, "Mean absolute error", "thousandths", 1000.0, 3),
}
