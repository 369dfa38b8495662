"""BENO's laws, with its options and its ablations."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from beno.batches.delaunay import Graph, build_graph
from beno.batches.graphs import Cohort, Prepared
from beno.datasets.scales import Scales
from beno.models import make_config
from beno.models.beno import BENO, BENOConfig
from beno.support.errors import BenoError
from tests.learning import cohort_of, sample_with_hole, samples_of

SMALL = {"width": 16, "steps": 3}
VARIANTS = {
    "paper": {},
    "authors' code": {
        "residual": True, "layer_norm": True, "mean_messages": True, "max_pool": True,
        "both_walls": True, "source_gradient": True, "nearest": 10, "boundary_layers": 3,
    },
    "one boundary encoder": {"shared_boundary": True},
    "M": {"boundary_in_nodes": False},
    "w/o D": {"two_branches": False},
    "E": {"boundary_in_messages": True},
    "G": {"boundary_convolution": True, "boundary_layers": 2},
    "Darcy, mixed kinds": {"coefficient": True, "kinds": True},
}  # fmt: skip
every_variant = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())


def model_of(settings):
    torch.manual_seed(0)
    return BENO(BENOConfig(**SMALL, **settings)).eval()


@pytest.fixture(scope="module")
def samples():
    family = {"equation": "darcy", "boundary": "mixed"}
    return [*samples_of(3, **family), replace(sample_with_hole(), coefficient=None)]


@pytest.fixture(scope="module")
def cohort(samples):
    return cohort_of(samples)


def test_the_defaults_are_the_papers_list():
    config = BENOConfig()
    assert (config.width, config.steps, config.mlp_layers, config.boundary_layers, config.heads, config.nearest) == (
        128, 5, 3, 1, 2, 8,
    )  # fmt: skip
    assert config.branches == 2 and config.uses_boundary


@every_variant
def test_a_batch_is_as_its_samples_one_by_one(cohort, settings):
    model = model_of(settings)
    together = model(cohort.batch())
    alone = torch.cat([model(cohort.batch(np.array([index]))) for index in range(len(cohort))])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


@every_variant
def test_every_parameter_receives_a_gradient(cohort, settings):
    model = model_of(settings)
    batch = cohort.batch()
    (model(batch) - batch.u).square().mean().backward()
    dead = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert dead == []


@every_variant
def test_the_order_of_the_nodes_does_not_matter(samples, settings):
    model = model_of(settings)
    sample = samples[0]
    order = np.random.default_rng(0).permutation(len(sample.u))
    moved = replace(
        sample,
        points=sample.points[order],
        source=sample.source[order],
        u=sample.u[order],
        coefficient=sample.coefficient[order],
    )
    there, here = (model(cohort_of([some]).batch()) for some in (moved, sample))
    torch.testing.assert_close(there, here[torch.as_tensor(order)], atol=1e-5, rtol=1e-5)


def test_the_order_of_edges_into_a_node_does_not_matter(samples):
    """Edges are kept by receiver; within one receiver their order is free."""
    model = model_of({})
    prepared = Prepared.of(samples[0], Scales(), build_graph(samples[0].points))
    graph = prepared.graph
    order = np.lexsort((-graph.sender, graph.receiver))
    place = np.argsort(order)
    shuffled = Graph(graph.receiver[order], graph.sender[order], place[graph.reverse[order]], graph.start)
    ours = model(Cohort([prepared]).batch())
    theirs = model(Cohort([replace(prepared, graph=shuffled)]).batch())
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


BLIND = [name for name in VARIANTS if name != "w/o D"]


@pytest.mark.parametrize("name", BLIND)
def test_the_branch_of_f_is_blind_to_g_and_the_other_to_f(samples, name):
    model = model_of(VARIANTS[name])
    sample = samples[0]
    scales = Scales.fit([sample])

    def branches(**changed):
        return model.branches(Cohort.of([replace(sample, **changed)], scales).batch())

    before = branches()
    without_g, without_f = branches(g=0 * sample.g), branches(source=0 * sample.source)
    assert torch.equal(before[0], without_g[0]) and torch.equal(before[1], without_f[1])
    assert not torch.equal(before[0], without_f[0])
    if VARIANTS[name].get("boundary_in_nodes", True):
        assert not torch.equal(before[1], without_g[1])


def test_a_single_branch_sees_both(samples):
    model = model_of(VARIANTS["w/o D"])
    sample = samples[0]
    scales = Scales.fit([sample])
    before, without_g, without_f = (
        model(Cohort.of([some], scales).batch())
        for some in (sample, replace(sample, g=0 * sample.g), replace(sample, source=0 * sample.source))
    )
    assert not torch.equal(before, without_g) and not torch.equal(before, without_f)


def test_plain_message_passing_knows_nothing_of_the_boundary(cohort):
    assert model_of(VARIANTS["M"]).encode_boundary is None


@pytest.mark.parametrize("settings", [{}, {"residual": True, "layer_norm": True}], ids=["paper", "authors' code"])
def test_four_samples_can_be_learned_by_heart(settings):
    torch.manual_seed(0)
    batch = cohort_of(samples_of(4, resolution=10, corners=4)).batch()
    model = BENO(BENOConfig(width=32, steps=3, **settings))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    steps = 600
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(batch) - batch.u).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        errors = [
            ((ours - truth).norm() / truth.norm()).item()
            for ours, truth in zip(batch.split(model(batch)), batch.split(batch.u), strict=True)
        ]
    assert max(errors) < 0.02, errors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, "width is 0"),
        ({"width": 15}, "multiple of the 2 heads"),
        ({"steps": -1}, "steps is -1"),
        ({"colour": 3}, "no setting 'colour'"),
        ({"width": 16.0}, "must be int"),
        ({"residual": 1}, "must be bool"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(BenoError, match=message):
        make_config("beno", settings)


def test_an_unknown_model():
    with pytest.raises(BenoError, match="there is no model 'gru'"):
        make_config("gru", {})
