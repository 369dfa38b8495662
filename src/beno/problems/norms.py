"""How far one field is from another."""

import numpy as np
from jaxtyping import Float


def relative_l2(found: Float[np.ndarray, " n"], truth: Float[np.ndarray, " n"]) -> float:
    """The norm of the difference over the norm of the truth; 0 where both are zero, infinite where only the truth is.

    >>> relative_l2(np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    1.0
    """
    size = float(max(np.abs(truth).max(), np.abs(found).max()))  # divided out, for squares that are no numbers
    if size == 0:
        return 0.0
    norm = np.linalg.norm(truth / size)
    return float(np.linalg.norm((found - truth) / size) / norm) if norm > 0 else float("inf")
