"""What a node is told: the same for all models that have the boundary's nodes in their graph."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from beno.batches.graph_inputs import GraphKind
from beno.batches.graphs import GraphBatches
from beno.datasets.scales import Scales
from beno.models.nodes import NodeConfig, node_features, offsets
from beno.problems.families import Family
from tests.learning import batches_for, small_model, solutions_of
from tests.models.plain import nodes_and_graph

FAMILIES = {
    (): Family(),
    ("coefficient",): Family("darcy"),
    ("kinds",): Family(boundary="robin"),
    ("coefficient", "kinds"): Family("darcy", "mixed"),
}


@pytest.mark.parametrize("told", FAMILIES, ids=lambda told: " and ".join(told) or "neither")
def test_a_family_asks_for_what_varies_in_it(told):
    settings = NodeConfig.settings_for(FAMILIES[told].problem_class)
    assert {name for name in ("coefficient", "kinds") if settings[name]} == set(told)


@pytest.mark.parametrize("told", FAMILIES, ids=lambda told: " and ".join(told) or "neither")
def test_features_are_place_f_g_inside_and_what_is_asked_for(told):
    family, scales = FAMILIES[told], Scales(2.0, 3.0, 4.0)
    solution = solutions_of(5, equation=family.equation, boundary=family.boundary)[4]
    config = NodeConfig(**dict.fromkeys(told, True))
    batch = GraphBatches.of([solution], scales, GraphKind(boundary_nodes=True)).batch()
    features = node_features(batch, config)

    class WithGraph:
        coefficient, kinds, nearest = config.coefficient, config.kinds, 8

    expected, _ = nodes_and_graph(WithGraph, solution.problem, scales)
    assert features.shape == (len(batch.source), config.node_columns)
    np.testing.assert_allclose(features, expected, atol=1e-5)


def test_offsets_go_from_sender_to_receiver_and_back():
    batch = GraphBatches.of(solutions_of(2), Scales()).batch()
    there = offsets(batch)
    assert torch.equal(there[batch.wiring.reverse], -there)
    places = (batch.points * 12**0.5)[batch.wiring.sender] + there
    torch.testing.assert_close(places, (batch.points * 12**0.5)[batch.wiring.receiver], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["gkn", "gnn-pde", "mp-pde"])
def test_models_that_are_told_see_which_nodes_are_the_boundary(name):
    model = small_model(name)
    batch = batches_for(model, solutions_of(2)).batch()
    with torch.no_grad():
        before, after = model(batch), model(replace(batch, inside=1 - batch.inside))
    assert (before - after).abs().max() > 1e-4
