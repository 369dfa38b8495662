"""GKN against the plain way of computing it."""

import pytest
import torch

from beno.models.gkn import GKNConfig, KernelSum
from beno.models.nodes import node_features
from beno.support.errors import BenoError
from tests.learning import batches_for, small_model, solution_with_hole, solutions_of


@pytest.mark.parametrize("at_a_time", [2, 100])
def test_a_kernel_after_the_sum_is_a_matrix_for_every_edge(at_a_time, monkeypatch):
    """Answer and gradients, against a matrix for every edge times what is sent along it."""
    monkeypatch.setattr(KernelSum, "NODES_AT_A_TIME", at_a_time)
    model = small_model("gkn", radius=0.3).double()
    batch = batches_for(model, [*solutions_of(2), solution_with_hole()]).batch()
    for name, value in vars(batch).items():
        if torch.is_tensor(value) and value.is_floating_point():
            setattr(batch, name, value.double())

    def edge_by_edge():
        wiring, width = batch.wiring, model.config.width
        features = node_features(batch, model.config)
        hidden = model.kernel(
            model.from_receiver(features)[wiring.receiver] + model.from_sender(features)[wiring.sender]
        )
        last = model.matrix.weight.view(width, -1, width)  # receives, hidden, sends
        matrices = torch.einsum("ohs,eh->eos", last, hidden) + model.mean_matrix.weight
        nodes = model.lift(features)
        for _ in range(model.config.depth):
            sent = (matrices @ nodes[wiring.sender][:, :, None])[:, :, 0]
            total = torch.zeros_like(nodes).index_add(0, wiring.receiver, sent)
            degree = torch.bincount(wiring.receiver, minlength=len(nodes)).clamp(min=1)[:, None]
            nodes = torch.relu(model.root(nodes) + total / degree)
        return model.project(nodes)[:, 0]

    weights = tuple(model.parameters())
    answers = model.branches(batch)[0], edge_by_edge()
    torch.testing.assert_close(answers[0], answers[1].float())
    ours, plain = (torch.autograd.grad(answer.square().sum(), weights) for answer in answers)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6 * float(other.abs().max()))


@pytest.mark.parametrize("radius", [0.0, -0.1])
def test_a_radius_must_be_positive(radius):
    with pytest.raises(BenoError, match=f"radius is {radius}; it must be positive"):
        GKNConfig.from_settings({"radius": radius})


def test_the_kernel_has_a_first_layer_of_half_its_width():
    with pytest.raises(BenoError, match="kernel_width is 1; it must be at least 2"):
        GKNConfig.from_settings({"kernel_width": 1})
