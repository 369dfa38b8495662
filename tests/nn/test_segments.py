"""Moving features between nodes and edges: the sums that they say they are, and their gradients."""

import pytest
import torch

from beno.nn.segments import (
    Slots,
    Wiring,
    activated_to_nodes,
    over_neighbours,
    spread,
    sum_over_segments,
    to_edges,
    to_nodes,
)
from tests.learning import batches_of, solutions_of


@pytest.fixture(scope="module")
def wiring():
    return batches_of(solutions_of(2)).batch().wiring


def test_to_nodes_and_to_edges_are_what_loops_would_do(wiring):
    nodes, edges = len(wiring.start) - 1, len(wiring.receiver)
    at_edges, at_nodes = torch.randn(edges, 3), torch.randn(nodes, 3)
    looped = torch.zeros(nodes, 3).index_add(0, wiring.receiver, at_edges)
    torch.testing.assert_close(to_nodes(at_edges, wiring), looped)
    torch.testing.assert_close(
        to_edges(at_nodes, 2 * at_nodes, wiring), at_nodes[wiring.receiver] + 2 * at_nodes[wiring.sender]
    )


def test_gradients_are_those_of_finite_differences(wiring):
    nodes, edges = len(wiring.start) - 1, len(wiring.receiver)
    a, c = (torch.randn(nodes, 1, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weight = torch.randn(edges, 1, dtype=torch.float64)

    def composed(a, c):
        return (to_nodes(to_edges(a, c, wiring) * weight, wiring) ** 2).sum()

    assert torch.autograd.gradcheck(composed, (a, c), fast_mode=True)
    segment = torch.tensor([0, 0, 1, 2, 2, 2])
    start = torch.tensor([0, 2, 3, 6])
    values = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: spread(v, segment, start) ** 2, (values,))


def test_a_weighted_sum_over_neighbours_is_what_a_loop_would_do(wiring):
    nodes, edges = len(wiring.start) - 1, len(wiring.receiver)
    values = torch.randn(nodes, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(edges, 1, dtype=torch.float64)
    weight = weight + weight[wiring.reverse]  # of both directions of an edge
    for weights in (weight, None):
        each = values[wiring.sender] * (1 if weights is None else weights)
        looped = torch.zeros_like(values).index_add(0, wiring.receiver, each)
        torch.testing.assert_close(over_neighbours(values, weights, wiring), looped)
        assert torch.autograd.gradcheck(
            lambda v, w=weights: over_neighbours(v, w, wiring) ** 2, (values,), fast_mode=True
        )


def test_slots_hold_what_belongs_to_each_nodes_edges(wiring):
    """What edges have, or their senders, added up over a node's slots is what is added up over its edges."""
    nodes, edges = len(wiring.start) - 1, len(wiring.receiver)
    degree = wiring.start.diff()
    slots = Slots.of(wiring, int(degree.max()))
    at_edges = torch.randn(edges, 2, dtype=torch.float64, requires_grad=True)
    at_nodes = torch.randn(nodes, 2, dtype=torch.float64, requires_grad=True)
    filled, from_senders = slots.fill(at_edges), slots.fill_from_senders(at_nodes)
    assert filled.shape == from_senders.shape == (nodes, degree.max(), 2)
    torch.testing.assert_close(filled.sum(dim=1), to_nodes(at_edges, wiring))
    torch.testing.assert_close(from_senders.sum(dim=1), over_neighbours(at_nodes, None, wiring))
    empty = torch.arange(int(degree.max())) >= degree[:, None]
    assert empty.any() and not filled[empty].any() and not from_senders[empty].any()
    assert torch.autograd.gradcheck(lambda v: slots.fill(v) ** 2, (at_edges,), fast_mode=True)
    assert torch.autograd.gradcheck(lambda v: slots.fill_from_senders(v) ** 2, (at_nodes,), fast_mode=True)


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.bfloat16, 2e-2)])
def test_activating_while_adding_up_is_activating_before_it(wiring, dtype, close):
    exact = torch.randn(len(wiring.receiver), 4, requires_grad=True)
    rounded = exact.detach().to(dtype).requires_grad_()
    ours, theirs = activated_to_nodes(rounded, wiring), to_nodes(torch.nn.functional.silu(exact), wiring)
    along = torch.randn_like(theirs)
    (gradient,) = torch.autograd.grad((ours.float() * along).sum(), rounded)
    (expected,) = torch.autograd.grad((theirs * along).sum(), exact)
    assert ours.dtype == gradient.dtype == dtype
    for one, other in ((ours, theirs), (gradient, expected)):
        assert (one.float() - other).abs().max() <= close * other.abs().max()


def test_a_repeated_wiring_is_as_many_graphs_apart(wiring):
    nodes, edges = len(wiring.start) - 1, len(wiring.receiver)
    twice = wiring.repeat(2)
    x = torch.randn(2 * edges, 2)
    both = to_nodes(x, twice)
    torch.testing.assert_close(both[:nodes], to_nodes(x[:edges], wiring))
    torch.testing.assert_close(both[nodes:], to_nodes(x[edges:], wiring))
    assert (twice.receiver[twice.reverse] == twice.sender).all()


def test_empty_segments_sum_to_zero():
    sums = sum_over_segments(torch.ones(3, 2), torch.tensor([0, 0, 3, 3]))
    assert sums.tolist() == [[0, 0], [3, 3], [0, 0]]


def test_a_node_without_edges_hears_nothing():
    lonely = Wiring(*(torch.zeros(0, dtype=torch.int64) for _ in range(3)), start=torch.zeros(2, dtype=torch.int64))
    assert to_nodes(torch.zeros(0, 4), lonely).shape == (1, 4)
