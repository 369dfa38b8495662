"""Moving features between nodes and edges: the sums that they say they are, and their gradients."""

import pytest
import torch

from beno.nn.segments import Wiring, from_senders, over_neighbours, spread, sum_over_segments, to_edges, to_nodes
from tests.learning import cohort_of, samples_of


@pytest.fixture(scope="module")
def wiring():
    return cohort_of(samples_of(2)).batch().wiring


def test_to_nodes_and_to_edges_are_what_loops_would_do(wiring):
    nodes, edges = len(wiring.start) - 1, len(wiring.receiver)
    at_edges, at_nodes = torch.randn(edges, 3), torch.randn(nodes, 3)
    looped = torch.zeros(nodes, 3).index_add(0, wiring.receiver, at_edges)
    torch.testing.assert_close(to_nodes(at_edges, wiring), looped)
    torch.testing.assert_close(
        to_edges(at_nodes, 2 * at_nodes, wiring), at_nodes[wiring.receiver] + 2 * at_nodes[wiring.sender]
    )


def test_gradients_against_finite_differences(wiring):
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


def test_senders_and_weighted_neighbours(wiring):
    nodes, edges = len(wiring.start) - 1, len(wiring.receiver)
    values = torch.randn(nodes, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(edges, 1, dtype=torch.float64)
    weight = weight + weight[wiring.reverse]  # of both directions of an edge
    torch.testing.assert_close(from_senders(values, wiring), values[wiring.sender])
    looped = torch.zeros_like(values).index_add(0, wiring.receiver, weight * values[wiring.sender])
    torch.testing.assert_close(over_neighbours(values, weight, wiring), looped)
    assert torch.autograd.gradcheck(lambda v: from_senders(v, wiring) ** 2, (values,), fast_mode=True)
    assert torch.autograd.gradcheck(lambda v: over_neighbours(v, weight, wiring) ** 2, (values,), fast_mode=True)


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
