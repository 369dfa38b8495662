"""BENO's laws, with its options and its ablations."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from beno.batches.delaunay import Graph
from beno.batches.graph_inputs import GraphInputs
from beno.batches.graphs import GraphBatches
from beno.datasets.scales import Scales
from beno.models.beno import BENO, BENOConfig
from beno.problems.families import Family
from beno.support.errors import BenoError
from tests.learning import batches_of, small_model, solution_with_hole, solutions_of, with_values

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
    return small_model("beno", noise=0.02, width=16, steps=3, **settings)


@pytest.fixture(scope="module")
def solutions():
    return [*solutions_of(3, equation="darcy", boundary="mixed"), solution_with_hole()]


@pytest.fixture(scope="module")
def batches(solutions):
    return batches_of(solutions)


def test_the_defaults_are_the_papers_list():
    config = BENOConfig()
    assert (config.width, config.steps, config.mlp_layers, config.boundary_layers, config.heads, config.nearest) == (
        128, 5, 3, 1, 2, 8,
    )  # fmt: skip
    assert config.branch_count == 2 and config.uses_boundary


@every_variant
def test_a_batch_answers_as_its_problems_do_one_by_one(batches, settings):
    model = model_of(settings)
    with torch.no_grad():
        together = model(batches.batch())
        alone = torch.cat([model(batches.batch(np.array([index]))) for index in range(len(batches))])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


@every_variant
def test_every_parameter_gets_a_gradient(batches, settings):
    model, batch = model_of(settings), batches.batch()
    (model(batch) - batch.truth).square().mean().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert silent == []


def inputs_of(solution):
    kind = BENO.graph_kind(BENOConfig())
    return GraphInputs.turned(solution, Scales(), kind.build(solution.problem), 0)


@every_variant
def test_the_numbers_of_the_nodes_do_not_matter(solutions, settings):
    model, inputs = model_of(settings), inputs_of(solutions[0])
    order = np.random.default_rng(0).permutation(len(inputs.points))
    here, there = (model(GraphBatches([one]).batch()) for one in (inputs, renumbered(inputs, order)))
    torch.testing.assert_close(there, here[torch.as_tensor(order)], atol=1e-5, rtol=1e-5)


def renumbered(inputs: GraphInputs, order) -> GraphInputs:
    """The same nodes and edges; node i of it is what node order[i] was."""
    number, graph = np.argsort(order), inputs.graph
    receiver, sender = number[graph.receiver], number[graph.sender]
    sorting = np.lexsort((sender, receiver))
    start = np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=len(order)))])
    moved = Graph(receiver[sorting], sender[sorting], np.argsort(sorting)[graph.reverse[sorting]], start)
    names = ("points", "wall_distance", "source", "log_coefficient", "inside")
    names += ("boundary_value", "boundary_kind", "boundary_alpha", "u")
    return replace(inputs, graph=moved, **{name: getattr(inputs, name)[order] for name in names})


def test_the_order_of_edges_into_a_node_does_not_matter(solutions):
    """Edges are kept by receiver; within one receiver their order is free."""
    model, inputs = model_of({}), inputs_of(solutions[0])
    graph = inputs.graph
    order = np.lexsort((-graph.sender, graph.receiver))
    place = np.argsort(order)
    shuffled = Graph(graph.receiver[order], graph.sender[order], place[graph.reverse[order]], graph.start)
    ours, theirs = (model(GraphBatches([one]).batch()) for one in (inputs, replace(inputs, graph=shuffled)))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def without(solution, what):
    return with_values(solution, **{what: 0 * solution.values[what]})


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "w/o D"])
def test_the_branch_of_f_is_blind_to_g_and_the_other_to_f(solutions, name):
    model, solution = model_of(VARIANTS[name]), solutions[0]

    def branches(some):
        return model.branches(GraphBatches.of([some], Scales.fit([solution])).batch())

    before, without_g, without_f = map(branches, (solution, without(solution, "g"), without(solution, "f")))
    assert torch.equal(before[0], without_g[0]) and torch.equal(before[1], without_f[1])
    assert not torch.equal(before[0], without_f[0])
    if VARIANTS[name].get("boundary_in_nodes", True):
        assert not torch.equal(before[1], without_g[1])


def test_a_single_branch_sees_both(solutions):
    model, solution = model_of(VARIANTS["w/o D"]), solutions[0]
    before, without_g, without_f = (
        model(GraphBatches.of([some], Scales.fit([solution])).batch())
        for some in (solution, without(solution, "g"), without(solution, "f"))
    )
    assert not torch.equal(before, without_g) and not torch.equal(before, without_f)


def test_plain_message_passing_knows_nothing_of_the_boundary():
    assert model_of(VARIANTS["M"]).encode_boundary is None


@pytest.mark.parametrize("settings", [{}, {"residual": True, "layer_norm": True}], ids=["paper", "authors' code"])
def test_it_can_fit_a_few_problems_of_two_branches(settings):
    """f and g both drive u here: a network that lost either, or where a branch lies, could not do it."""
    solutions = solutions_of(2, corners=4)
    batch = batches_of(solutions).batch()
    torch.manual_seed(0)
    model = BENO(BENOConfig(width=32, steps=3, **settings))
    optimizer, steps = torch.optim.Adam(model.parameters(), lr=5e-3), 100
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(batch) - batch.truth).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        errors = [
            float((ours - truth).norm() / truth.norm())
            for ours, truth in zip(batch.split(model(batch)), batch.split(batch.truth), strict=True)
        ]
    assert max(errors) < 0.1, errors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 15}, "width 15 must be even and a multiple of the 2 heads"),
        ({"width": 16, "heads": 3}, "multiple of the 3 heads"),
        ({"steps": -1}, "steps is -1"),
        ({"residual": 1}, "must be bool"),
        ({"length_unit": 0.0}, "length_unit is 0.0; it must be a positive number"),
        ({"length_unit": float("nan")}, "length_unit is nan"),
    ],
)
def test_settings_that_make_no_network_are_refused(settings, message):
    with pytest.raises(BenoError, match=message):
        BENOConfig.from_settings(settings)


@pytest.mark.parametrize(
    ("family", "told"),
    [
        (Family(), (False, False)),
        (Family("darcy"), (True, False)),
        (Family(boundary="robin"), (False, True)),
        (Family("darcy", "mixed"), (True, True)),
    ],
)
def test_a_family_asks_for_the_inputs_that_vary_in_it(family, told):
    settings = BENOConfig.settings_for(family.problem_class)
    assert (settings["coefficient"], settings["kinds"]) == told
