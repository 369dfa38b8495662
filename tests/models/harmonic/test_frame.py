"""In units of its own domain a problem looks the same wherever it stands and however large it is."""

import math
from dataclasses import replace

import pytest
import torch

from beno.batches.panels import PanelBatches
from beno.datasets.scales import Scales
from beno.models.harmonic.frame import SHARE_SCREENED, Between, Frame
from tests.learning import solutions_of


@pytest.fixture(scope="module")
def batch():
    return PanelBatches.of(solutions_of(4, boundary="mixed"), Scales()).batch()


def test_the_domain_is_one_long_and_stands_about_the_origin(batch):
    frame = Frame(batch)
    low, high = frame.centres.amin(dim=1), frame.centres.amax(dim=1)
    torch.testing.assert_close((high - low).amax(dim=1), torch.ones(len(batch)))
    torch.testing.assert_close(low, -high)
    assert frame.points.abs().max() < 0.5


def test_a_problem_that_is_moved_and_stretched_has_the_same_frame(batch):
    factor, shift = 3.0, 7.0
    ends = torch.cat([factor * batch.ends[..., :4], batch.ends[..., 4:]], dim=-1)  # lengths, then angles
    moved = replace(
        batch,
        points=factor * batch.points + shift,
        centres=factor * batch.centres + shift,
        lengths=factor * batch.lengths,
        alpha=batch.alpha / factor,
        ends=ends,
    )
    ours, theirs = vars(Frame(moved)), vars(Frame(batch))
    torch.testing.assert_close(ours.pop("size"), factor * theirs.pop("size"))
    for name, values in theirs.items():
        torch.testing.assert_close(ours[name], values, atol=1e-5, rtol=1e-5)


def features(q):
    """Eight columns for one point and three panels, at distances 0.1, 1 and 10, with q all over."""
    kappa = torch.tensor([0.0, 0.0, 0.0, q]).expand(1, 1, 4)
    distance = torch.tensor([0.1, 1.0, 10.0])[None, None]
    return Between(kappa, kappa.expand(1, 3, 4), torch.zeros(1, 1, 3), distance), distance[0, 0]


def test_without_a_potential_nothing_is_screened():
    between, _ = features(0.0)
    assert not between.screening.any() and between.features.shape == (1, 1, 3, 8) and not between.features.any()


def test_a_negative_potential_screens_nothing():
    assert not features(-4.0)[0].screening.any()


def test_far_away_a_positive_potential_screens_as_the_bessel_function_does():
    """``r sqrt(q) K1(r sqrt(q))`` goes as ``sqrt(pi r sqrt(q) / 2) exp(-r sqrt(q))``."""
    between, distance = features(4.0)
    depth = 2 * distance
    expected = SHARE_SCREENED * (0.5 * torch.log(math.pi / 2 * depth) - depth)
    torch.testing.assert_close(between.screening[0, 0, 2], expected[2], atol=0.05, rtol=0)
    assert (between.screening[0, 0].diff() < 0).all(), "more of it the farther away"
