"""How far a trained operator is off, sample by sample, on data that it has not seen."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from beno.datasets.dataset import Dataset, Metadata
from beno.evaluation.metrics import mean_absolute_error, relative_l2
from beno.learned.operator import LearnedOperator
from beno.support.errors import BenoError


@dataclass(frozen=True, eq=False)
class Evaluation:
    data: Metadata
    split: str
    relative_l2: Float[np.ndarray, " s"]
    mae: Float[np.ndarray, " s"]

    def summary(self) -> dict[str, float | int]:
        return {
            "samples": len(self.mae),
            "relative_l2": float(self.relative_l2.mean()),
            "relative_l2_deviation": float(self.relative_l2.std()),
            "mae": float(self.mae.mean()),
            "mae_deviation": float(self.mae.std()),
        }


def evaluate(operator: LearnedOperator, dataset: Dataset, split: str = "test", batch_size: int = 50) -> Evaluation:
    operator.require_trained_on(dataset.metadata, dataset.path)
    indices = np.arange(len(dataset)) if split == "all" else dataset.indices(split)
    if not len(indices):
        raise BenoError(f"{dataset.path} has no samples in its {split} split; `--split all` takes every one")
    relative, absolute = [], []
    for start in range(0, len(indices), batch_size):
        samples = [dataset[int(index)] for index in indices[start : start + batch_size]]
        for sample, predicted in zip(samples, operator.predict(samples, batch_size), strict=True):
            relative.append(relative_l2(predicted, sample.u))
            absolute.append(mean_absolute_error(predicted, sample.u))
    return Evaluation(dataset.metadata, split, np.array(relative), np.array(absolute))
