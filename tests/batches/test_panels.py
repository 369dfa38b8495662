"""Dense batches: a turned view is the turned sample, a part is a part, and plans repeat."""

import numpy as np
import pytest
import torch

from beno.batches import panels as dense
from beno.batches.augmentation import Plan, Variety
from beno.batches.panels import DenseCohort
from beno.datasets.scales import Scales
from beno.geometry.symmetries import SYMMETRIES, transformed
from beno.models.harmonic.model import Harmonic, HarmonicConfig
from beno.support.errors import BenoError
from tests.learning import sample_with_hole, samples_of


def a_model(boundary):
    torch.manual_seed(0)
    model = Harmonic(HarmonicConfig(width=16, layers=1, heads=2, pair_width=8, rank=4, boundary=boundary))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "mixed"])
@pytest.mark.parametrize("turn", range(SYMMETRIES))
def test_a_turned_view_is_the_turned_sample(boundary, turn):
    """As the model sees it: panels may stand in another order, and places differ by rounding."""
    sample = samples_of(3, boundary=boundary)[2]
    cohort = DenseCohort.of([sample], Scales(), variety=Variety(symmetries=True))
    every = np.arange(len(sample.u))[None]
    feed = cohort.feed(Plan(np.array([0]), np.array([-1.0]), np.array([turn]), every))
    model = a_model(boundary)
    with torch.no_grad():
        seen = model(cohort.open(feed))[0]
        expected = -model(DenseCohort.of([transformed(sample, turn)], Scales()).batch())[0]
    assert torch.allclose(seen, expected, atol=2e-5)
    assert torch.allclose(cohort.open(feed).u[0], torch.as_tensor(-sample.u, dtype=torch.float32), atol=1e-6)


def test_parts_follow_their_sample_and_are_drawn_half_of_the_time():
    cohort = DenseCohort.of(samples_of(3, resolution=12), Scales(), variety=Variety(parts=4, points=20))
    assert len(cohort) == 3 and len(cohort.point_counts) == 15
    rng = np.random.default_rng(0)
    plan = cohort.plan(np.repeat([0, 1, 2], 400), rng)
    assert (plan.rows // 5 == np.repeat([0, 1, 2], 400)).all()
    assert 0.4 < (plan.rows % 5 == 0).mean() < 0.6 and set(plan.rows % 5) == set(range(5))
    assert (plan.points < cohort.point_counts[plan.rows][:, None]).all()
    batch = cohort.open(cohort.feed(plan.take(slice(8))))
    assert batch.u.shape == (8, 20) and batch.real_point.all()
    whole = cohort.batch()
    assert whole.point_counts == tuple(cohort.point_counts[::5])


def test_without_a_number_of_points_all_are_seen():
    samples = samples_of(3)
    cohort = DenseCohort.of(samples, Scales())
    batch = cohort.open(cohort.feed(cohort.plan(np.arange(3), np.random.default_rng(0))))
    assert batch.by_sample(torch.ones_like(batch.u)).tolist() == [len(sample.u) for sample in samples]
    assert torch.allclose(batch.by_sample(batch.u), torch.tensor([sample.u.sum() for sample in samples]).float())


def test_a_short_feed_is_filled_up():
    cohort = DenseCohort.of(samples_of(3), Scales(), variety=Variety(points=5))
    plan = cohort.plan(np.arange(2), np.random.default_rng(0))
    feed = cohort.feed(plan, samples=4)
    assert feed.index.tolist() == [0, 1, 1, 1]


def test_many_workers_reduce_as_one_does(monkeypatch):
    samples = samples_of(4)
    one = DenseCohort.of(samples, Scales(), variety=Variety(parts=2)).batch()
    monkeypatch.setattr(dense, "REDUCED_BY_A_WORKER", 1)
    many = DenseCohort.of(samples, Scales(), variety=Variety(parts=2)).batch()
    assert torch.equal(one.left, many.left) and torch.equal(one.potential, many.potential)


def test_padding_is_not_counted():
    samples = [*samples_of(3), sample_with_hole()]
    batch = DenseCohort.of(samples, Scales()).batch()
    assert batch.by_sample(torch.ones_like(batch.u)).tolist() == [len(sample.u) for sample in samples]
    assert batch.real.sum(dim=1).tolist() == [len(sample.g) for sample in samples]
    with pytest.raises(BenoError, match="no samples"):
        DenseCohort.of([], Scales())
