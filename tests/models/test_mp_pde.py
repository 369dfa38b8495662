"""MP-PDE is what its paper says, and norms each sample by itself."""

import numpy as np
import pytest
import torch

from beno.batches.augmentation import Selection
from beno.datasets.scales import Scales
from beno.models.mp_pde import instance_norm, samples_of
from beno.problems.families import Family
from tests.learning import batches_for, small_model, solutions_of
from tests.models.plain import assert_is_the_formula, linear, nodes_and_graph, swish


def mp_pde(weights, config, problem, scales):
    """Brandstetter et al., 2022, (8) and (9), edge by edge and node by node; the norm of their code."""
    given, graph = nodes_and_graph(config, problem, scales)
    nodes = swish(linear(weights, "encode.2", swish(linear(weights, "encode.0", given))))
    for step in (f"steps.{number}" for number in range(config.steps)):
        messages = [[] for _ in nodes]
        for i, j in zip(graph.receiver, graph.sender, strict=True):
            first = linear(weights, f"{step}.message.first", given[i, :4] - given[j, :4])  # of places, f and g
            first += linear(weights, f"{step}.from_receiver", nodes[i])
            first += linear(weights, f"{step}.from_sender", nodes[j])
            messages[i].append(swish(linear(weights, f"{step}.message.rest.0", swish(first))))
        updated = []
        for node, received in zip(nodes, messages, strict=True):
            first = linear(weights, f"{step}.update.first", np.concatenate([node, np.mean(received, axis=0)]))
            updated.append(node + swish(linear(weights, f"{step}.update.rest.0", swish(first))))
        normal = (updated - np.mean(updated, axis=0)) / np.sqrt(np.var(updated, axis=0) + 1e-5)
        nodes = weights[f"{step}.gain"] * normal + weights[f"{step}.shift"]
    return linear(weights, "decode.2", swish(linear(weights, "decode.0", nodes)))[: len(problem.f), 0]


@pytest.mark.parametrize("equation, boundary", [("poisson", "dirichlet"), ("darcy", "mixed")])
def test_it_is_what_its_paper_says(equation, boundary):
    solutions = solutions_of(2, equation=equation, boundary=boundary)
    assert_is_the_formula(small_model("mp-pde", Family(equation, boundary)), mp_pde, solutions, Scales.fit(solutions))


@pytest.mark.parametrize("padded", [False, True])
def test_each_sample_is_normed_by_itself(padded):
    batches = batches_for(small_model("mp-pde"), solutions_of(3))
    batch = batches.feed(Selection.of(np.arange(3)), 4) if padded else batches.batch()
    assert (batch.has_point is not None) == padded
    values = torch.randn(len(batch.source), 4) * (1 + batch.sample[:, None]) + batch.sample[:, None]
    if padded:
        values[~batch.has_point] = 1e3
    normed = instance_norm(values, torch.ones(4), torch.zeros(4), samples_of(batch))
    for number in range(3):
        here = normed[(batch.sample == number) & (batch.has_point if padded else True)]
        torch.testing.assert_close(here.mean(dim=0), torch.zeros(4), atol=1e-5, rtol=0)
        torch.testing.assert_close(here.var(dim=0, unbiased=False), torch.ones(4), atol=1e-3, rtol=0)
