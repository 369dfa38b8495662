"""The paper's two measures of error, by sample."""

import numpy as np
from jaxtyping import Float


def relative_l2(predicted: Float[np.ndarray, " n"], truth: Float[np.ndarray, " n"]) -> float:
    """The norm of the error over the norm of the truth.

    >>> relative_l2(np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    1.0
    """
    size = np.linalg.norm(truth)
    return float(np.linalg.norm(predicted - truth) / size) if size > 0 else float("inf")


def mean_absolute_error(predicted: Float[np.ndarray, " n"], truth: Float[np.ndarray, " n"]) -> float:
    return float(np.abs(predicted - truth).mean())
