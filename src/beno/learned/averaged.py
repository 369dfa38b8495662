"""An operator's answer averaged over the symmetries that the problem has and the network only learned.

Turned, mirrored, or with the opposite sign, a linear problem has the turned, mirrored or opposite solution. A network
that was shown such samples knows it roughly. The mean of its sixteen answers, each brought back, has the symmetries
exactly; what is off at random in each of them is less so in the mean. It takes sixteen times as long.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from beno.geometry.symmetries import SYMMETRIES, turned_domain
from beno.learned.operator import LearnedOperator
from beno.problems.problem import Problem
from beno.problems.turned import turned, with_sign


class AveragedOperator(LearnedOperator):
    """A learned operator whose answers are means over all symmetries and both signs."""

    @classmethod
    def of(cls, operator: LearnedOperator) -> "AveragedOperator":
        return cls(operator.header, operator.model, operator.device)

    def predict_branches(self, problems: Sequence[Problem], batch_size: int = 50) -> list[Float[np.ndarray, "b _"]]:
        total: list[np.ndarray] | None = None
        for symmetry in range(SYMMETRIES):
            back = [np.argsort(turned_domain(problem.domain, symmetry)[1]) for problem in problems]
            for sign in (1, -1):
                shown = [with_sign(turned(problem, symmetry), sign) for problem in problems]
                predicted = super().predict_branches(shown, batch_size)
                answers = [sign * one[:, order] for one, order in zip(predicted, back, strict=True)]
                total = answers if total is None else [a + b for a, b in zip(total, answers, strict=True)]
        return [answer / (2 * SYMMETRIES) for answer in total or []]
