"""An operator's answer averaged over the symmetries that the problem has and the network only learned.

Turned, mirrored, or with the opposite sign, a linear problem has the turned, mirrored or opposite solution. A network
that was shown such samples knows it roughly. The mean of its sixteen answers, each brought back, has the symmetries
exactly; what is off at random in each of them is less so in the mean. It takes sixteen times as long.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from beno.datasets.records import Sample
from beno.geometry.symmetries import SYMMETRIES, transformed
from beno.learned.operator import LearnedOperator


class AveragedOperator(LearnedOperator):
    @classmethod
    def of(cls, operator: LearnedOperator) -> "AveragedOperator":
        return cls(operator.header, operator.model, operator.device)

    def predict_branches(self, samples: Sequence[Sample], batch_size: int = 50) -> list[Float[np.ndarray, "b _"]]:
        total: list[np.ndarray] | None = None
        for symmetry in range(SYMMETRIES):
            turned = [transformed(sample, symmetry) for sample in samples]
            for sign in (1, -1):
                signed = [replace(sample, source=sign * sample.source, g=sign * sample.g) for sample in turned]
                answers = [sign * answer for answer in super().predict_branches(signed, batch_size)]
                total = answers if total is None else [a + b for a, b in zip(total, answers, strict=True)]
        return [answer / (2 * SYMMETRIES) for answer in total or []]
