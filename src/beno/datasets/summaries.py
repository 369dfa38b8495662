"""The spread of values in a dataset, gathered sample by sample in constant memory."""

from dataclasses import dataclass

import numpy as np

from beno.datasets.dataset import Dataset


@dataclass
class Spread:
    """Smallest, largest and root mean square of what it has seen."""

    smallest: float = np.inf
    largest: float = -np.inf
    square_sum: float = 0.0
    count: int = 0

    def see(self, values: np.ndarray) -> None:
        self.smallest = min(self.smallest, float(values.min()))
        self.largest = max(self.largest, float(values.max()))
        self.square_sum += float(np.square(values, dtype=float).sum())
        self.count += values.size

    @property
    def rms(self) -> float:
        return (self.square_sum / self.count) ** 0.5

    def __str__(self) -> str:
        return f"{self.smallest:.4g} to {self.largest:.4g}, root mean square {self.rms:.4g}"


def summarise(dataset: Dataset) -> dict[str, Spread]:
    """Spreads by name, in the order in which a person would read them."""
    spreads = {name: Spread() for name in ("points a sample", "panels a sample", "f", "g", "kappa", "u")}
    for solution in dataset:
        problem = solution.problem
        spreads["points a sample"].see(np.array([len(solution.u)]))
        spreads["panels a sample"].see(np.array([len(problem.g)]))
        spreads["f"].see(problem.f)
        spreads["g"].see(problem.g)
        spreads["u"].see(solution.u)
        if not problem.law.is_uniform:
            spreads["kappa"].see(problem.law.at_points(problem.domain))
    return {name: spread for name, spread in spreads.items() if spread.count}
