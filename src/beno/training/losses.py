"""How far predictions are off, as sums over the points of each sample of a batch."""

from jaxtyping import Float
from torch import Tensor

from beno.batches.base import Batch

TINY = 1e-12


def squared_errors(predicted: Float[Tensor, "*n"], batch: Batch) -> Float[Tensor, " s"]:
    """Summed over each sample's points."""
    return batch.by_sample((predicted.float() - batch.truth).square())


def relative_errors(predicted: Float[Tensor, "*n"], batch: Batch) -> Float[Tensor, " s"]:
    """The relative L2 error of each sample.

    Unlike `problems.norms.relative_l2` it has a slope everywhere, also where a padded sample has no points at all.
    """
    return (squared_errors(predicted, batch) / (batch.by_sample(batch.truth.square()) + TINY) + TINY).sqrt()


LOSS_NAMED = {"mean square": squared_errors, "relative": relative_errors}
