"""Batches: the same samples, ragged or padded, wherever they stand."""

import numpy as np
import pytest
import torch

from beno.batches.augmentation import Plan, Variety
from beno.batches.delaunay import build_graph
from beno.batches.graphs import BatchSize, Cohort
from beno.datasets.scales import Scales
from beno.geometry.symmetries import SYMMETRIES
from beno.problems.subproblems import with_parts
from beno.support.errors import BenoError
from beno.training.captured import tensors_of
from tests.learning import cohort_of, sample_with_hole, samples_of


@pytest.fixture(scope="module")
def samples():
    return [*samples_of(4, resolution=12), sample_with_hole(12)]


def test_a_batch_holds_its_samples_in_their_order(samples):
    scales = Scales.fit(samples)
    batch = cohort_of(samples).batch(np.array([4, 1]))
    for chosen, u, source in zip((4, 1), batch.split(batch.u), batch.split(batch.source), strict=True):
        np.testing.assert_allclose(u.numpy() * scales.solution, samples[chosen].u, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(source.numpy() * scales.source, samples[chosen].source, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(batch.g[0, : len(samples[4].g)] * scales.boundary, samples[4].g, atol=1e-6)
    assert batch.real is not None and batch.real.sum() == len(samples[4].g) + len(samples[1].g)


def test_graphs_of_a_batch_stay_apart(samples):
    batch = cohort_of(samples).batch()
    wiring = batch.wiring
    assert (batch.sample[wiring.receiver] == batch.sample[wiring.sender]).all()
    assert (wiring.receiver[wiring.reverse] == wiring.sender).all()
    degree = wiring.start.diff()
    assert (torch.repeat_interleave(degree) == wiring.receiver).all()


def test_every_view_of_a_sample_has_the_graph_of_that_sample(samples):
    """Which is stored once for all its turns."""
    cohort = Cohort.of(samples, Scales.fit(samples), variety=Variety(symmetries=True, parts=1))
    shapes = [part for seed, sample in enumerate(samples) for part in with_parts(sample, 1, seed)]
    views = [(number, number * SYMMETRIES + turn) for number in (0, 3, 9) for turn in (0, 5)]
    batch = cohort.feed(Plan(np.array([row for _, row in views]), np.ones(len(views))))
    assert batch.node_counts == tuple(len(shapes[number].u) for number, _ in views)
    first = 0
    for number, _ in views:
        graph = build_graph(shapes[number].points)
        here = (batch.wiring.receiver >= first) & (batch.wiring.receiver < first + len(shapes[number].u))
        assert np.array_equal(batch.wiring.receiver[here] - first, graph.receiver)
        assert np.array_equal(batch.wiring.sender[here] - first, graph.sender)
        first += len(shapes[number].u)


@pytest.mark.parametrize("chosen", [[0, 1, 2], [4, 3], [4]])
def test_padding_keeps_the_batch_and_its_laws(samples, chosen):
    cohort = cohort_of(samples)
    size = BatchSize(samples=4, points=900, edges=8000)
    plain, padded = cohort.batch(np.array(chosen)), cohort.padded_batch(np.array(chosen), size)
    points, edges = len(plain.u), len(plain.wiring.receiver)
    assert len(padded.u) == 900 and len(padded.wiring.receiver) == 8000 and len(padded) == 4
    assert torch.equal(padded.u[:points], plain.u)
    assert torch.equal(padded.wiring.sender[:edges], plain.wiring.sender)
    assert padded.real_point.sum() == points
    wiring = padded.wiring
    assert (wiring.receiver[wiring.reverse] == wiring.sender).all()
    assert (torch.repeat_interleave(wiring.start.diff()) == wiring.receiver).all()
    assert (torch.repeat_interleave(padded.sample_start.diff()) == padded.sample).all()
    assert (wiring.receiver[edges:] >= points).all(), "padding touches no real point"
    assert wiring.start.diff()[points:].max() < 2 * 8000 / 900, "no padding point has many neighbours"


def test_what_does_not_fit_is_not_padded(samples):
    cohort = cohort_of(samples)
    assert cohort.padded_batch(np.array([0]), BatchSize(1, len(samples[0].u), 10**6)) is None
    assert cohort.padded_batch(np.array([0, 1]), BatchSize(1, 10**4, 10**6)) is None


def test_the_common_size_fits_random_batches():
    cohort = cohort_of(samples_of(40))
    size = cohort.common_size(6)
    rng = np.random.default_rng(0)
    fitting = [cohort.padded_batch(rng.permutation(40)[:6], size) is not None for _ in range(50)]
    assert sum(fitting) >= 48


def test_feeds_of_one_size_have_the_same_tensors(samples):
    cohort = cohort_of(samples)
    feeds = [cohort.feed(Plan(np.array(chosen), np.ones(2)), samples=2) for chosen in ([0, 1], [2, 3])]
    shapes = [[tensor.shape for tensor in tensors_of(feed)] for feed in feeds]
    assert shapes[0] == shapes[1] and len(shapes[0]) > 15


def test_parts_of_samples_and_their_symmetries_are_views(samples):
    cohort = Cohort.of(samples[:3], Scales(), variety=Variety(symmetries=True, parts=2))
    assert len(cohort) == 3 and cohort.views == 24 and len(cohort.node_counts) == 72
    plan = cohort.plan(np.repeat([0, 1, 2], 300), np.random.default_rng(0))
    part = plan.rows % 24 // 8
    assert 0.4 < (part == 0).mean() < 0.6 and set(part) == {0, 1, 2}
    batch = cohort.batch()
    assert batch.point_counts == tuple(len(sample.u) for sample in samples[:3]), "as they are: whole"
    with pytest.raises(BenoError, match="points must be 0"):
        Cohort.of(samples, Scales(), variety=Variety(points=2))


def test_scales_keep_zero_at_zero_and_come_from_what_they_are_given(samples):
    scales = Scales.fit(samples[:2])
    u = np.concatenate([sample.u for sample in samples[:2]])
    assert scales.solution == pytest.approx(np.sqrt(np.mean(u**2)))
    zero = Scales.fit(samples_of(2, boundary="zero"))
    assert zero.boundary == 1.0
    assert (cohort_of(samples_of(2, boundary="zero")).batch().g == 0).all()


def test_no_samples():
    with pytest.raises(BenoError, match="no samples"):
        Cohort([])
