"""Errors are summed sample by sample, over real points alone, and have a slope everywhere."""

import numpy as np
import pytest
import torch

from beno.batches.augmentation import Selection
from beno.batches.graphs import GraphBatches
from beno.batches.panels import PanelBatches
from beno.batches.pictures import PictureBatches
from beno.datasets.scales import Scales
from beno.problems.norms import relative_l2
from beno.training.losses import relative_errors, squared_errors
from tests.learning import solutions_of

every_kind = pytest.mark.parametrize("batches", [GraphBatches.of, PanelBatches.of, PictureBatches])


@every_kind
def test_errors_are_those_of_each_sample(batches):
    solutions = solutions_of(4)
    batch = batches(solutions, Scales()).batch()
    torch.manual_seed(0)
    predicted = batch.truth + torch.randn_like(batch.truth)
    parts = [part.double().numpy() for part in batch.split(predicted)]
    squares = [((part - one.u) ** 2).sum() for part, one in zip(parts, solutions, strict=True)]
    relative = [relative_l2(part, one.u) for part, one in zip(parts, solutions, strict=True)]
    np.testing.assert_allclose(squared_errors(predicted, batch), squares, rtol=1e-4)
    np.testing.assert_allclose(relative_errors(predicted, batch), relative, rtol=1e-4)


@every_kind
def test_the_truth_has_no_error(batches):
    batch = batches(solutions_of(4), Scales()).batch()
    assert not squared_errors(batch.truth, batch).any() and relative_errors(batch.truth, batch).max() < 1e-5


def test_the_slope_is_finite_at_the_truth_and_where_a_padded_sample_has_no_points():
    batches = GraphBatches.of(solutions_of(5), Scales())
    batch = batches.feed(Selection.of(np.array([0])), samples=4)
    assert batch.point_counts[1:] == (0, 0, 0)
    predicted = batch.truth.clone().requires_grad_()
    relative_errors(predicted, batch).sum().backward()
    assert predicted.grad.isfinite().all()


def test_half_precision_is_not_what_errors_are_measured_in():
    batch = GraphBatches.of(solutions_of(2), Scales()).batch()
    predicted = batch.truth.bfloat16()
    assert squared_errors(predicted, batch).dtype == torch.float32
