"""What every solver answers with, classical or learned."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from beno.problem import Problem


@dataclass(frozen=True, eq=False)
class Solution:
    problem: Problem
    u: Float[np.ndarray, " n"]  # at the domain's points
    solver: str
    iterations: int = 1

    @property
    def mean(self) -> float:
        return float(self.u.mean())
