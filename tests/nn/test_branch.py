"""Layers with a branch dimension are as many ordinary layers."""

import torch
from torch.nn import functional

from beno.nn.branch import SILU_GAIN, BranchLayerNorm, BranchLinear, BranchMLP


def test_each_branch_is_a_linear_layer_of_its_own():
    torch.manual_seed(0)
    layer = BranchLinear(2, (3, 4), 5)
    x, y = torch.randn(2 * 7, 3), torch.randn(2 * 7, 4)
    out = layer(x, y).view(2, 7, 5)
    for branch in range(2):
        both = torch.cat([x.view(2, 7, 3)[branch], y.view(2, 7, 4)[branch]], dim=1)
        weight = torch.cat([part[branch] for part in layer.weights]).T
        torch.testing.assert_close(out[branch], functional.linear(both, weight, layer.bias[branch, 0]))


def test_an_activating_layer_activates_what_it_reads():
    layer = BranchLinear(1, 4, 4)
    x = torch.randn(6, 4)
    torch.testing.assert_close(layer(x, activate=True), layer(functional.silu(x)))


def test_layer_norm_by_branch_and_residual():
    torch.manual_seed(0)
    norm = BranchLayerNorm(2, 8)
    with torch.no_grad():
        norm.gain.normal_()
        norm.shift.normal_()
    x, residual = torch.randn(2 * 5, 8), torch.randn(2 * 5, 8)
    expected = torch.cat(
        [functional.layer_norm(x.view(2, 5, 8)[b], (8,), norm.gain[b, 0], norm.shift[b, 0]) for b in range(2)]
    )
    torch.testing.assert_close(norm(x), expected)
    torch.testing.assert_close(norm(x, residual), residual + expected)


def test_a_deep_network_keeps_the_size_of_its_signal():
    """Without this a network of the paper's depth, which has no residuals, does not learn at all."""
    torch.manual_seed(0)
    x = torch.randn(256, 64)
    for _ in range(10):
        x = BranchMLP(1, 64, hidden=64, outputs=64, layers=3)(x)
    assert 0.3 < x.std() < 3
    assert 1.6 < SILU_GAIN < 1.7
