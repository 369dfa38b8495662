"""How far a trained operator is off, sample by sample, on data that it was not trained on."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from beno.datasets.dataset import Dataset
from beno.datasets.metadata import Metadata
from beno.evaluation.metrics import METRICS, Measured
from beno.learned.operator import LearnedOperator
from beno.support.errors import BenoError


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Every metric for every sample of a split."""

    data: Metadata
    split: str
    values: Mapping[str, Float[np.ndarray, " s"]]  # by the names in METRICS, one value a sample

    @property
    def samples(self) -> int:
        return len(next(iter(self.values.values())))

    @property
    def figures(self) -> dict[str, Measured]:
        return {name: Measured.of(values) for name, values in self.values.items()}

    def summary(self) -> dict[str, float | int]:
        """All figures in one flat object, for a file."""
        flat: dict[str, float | int] = {"samples": self.samples}
        for name, measured in self.figures.items():
            flat |= {name: measured.mean, f"{name}_deviation": measured.deviation}
        return flat


def evaluate(operator: LearnedOperator, dataset: Dataset, split: str = "test", batch_size: int = 50) -> Evaluation:
    """Compare an operator's predictions with the solutions of a dataset's split."""
    operator.require_trained_for(dataset.metadata.problem_class, str(dataset.path))
    indices = np.arange(len(dataset)) if split == "all" else dataset.indices(split)
    if not len(indices):
        raise BenoError(f"{dataset.path} has no samples in its {split} split; `--split all` takes every one")
    values: dict[str, list[float]] = {name: [] for name in METRICS}
    for start in range(0, len(indices), batch_size):
        solutions = [dataset[int(index)] for index in indices[start : start + batch_size]]
        predictions = operator.predict([solution.problem for solution in solutions], batch_size)
        for solution, predicted in zip(solutions, predictions, strict=True):
            for name, metric in METRICS.items():
                values[name].append(metric.measure(predicted, solution.u))
    return Evaluation(dataset.metadata, split, {name: np.array(column) for name, column in values.items()})
