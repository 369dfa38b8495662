"""GNN-PDE is what its papers say."""

import numpy as np
import pytest
from numpy.polynomial.chebyshev import chebvander

from beno.datasets.scales import Scales
from beno.problems.families import Family
from tests.learning import small_model, solutions_of
from tests.models.plain import assert_is_the_formula, linear, nodes_and_graph, relu


def gnn_pde(weights, config, problem, scales):
    """Defferrard et al., 2016: Chebyshev polynomials of 2 L / most - 1, where L = 1 - D^-1/2 A D^-1/2 and no eigenvalue
    of it exceeds ``most``. In A stand the lengths of edges, as Lötzsch et al., 2022, have them."""
    nodes, graph = nodes_and_graph(config, problem, scales)
    one, adjacency, most = np.eye(len(nodes)), np.zeros((len(nodes), len(nodes))), 2
    ends = graph.receiver, graph.sender
    adjacency[ends] = np.linalg.norm(nodes[ends[0], :2] - nodes[ends[1], :2], axis=1)
    degree = adjacency.sum(axis=1)
    laplacian = one - adjacency / np.sqrt(np.outer(degree, degree))
    eigenvalues, vectors = np.linalg.eigh(2 * laplacian / most - one)
    polynomials = [vectors * values @ vectors.T for values in chebvander(eigenvalues, config.terms - 1).T]
    nodes = relu(linear(weights, "encode.2", relu(linear(weights, "encode.0", nodes))))
    for layer in range(config.layers):
        terms = enumerate(polynomials)
        nodes = relu(sum(linear(weights, f"layers.{layer}.terms.{k}", matrix @ nodes) for k, matrix in terms))
    return linear(weights, "decode.2", relu(linear(weights, "decode.0", nodes)))[: len(problem.f), 0]


@pytest.mark.parametrize("terms", [1, 5])
@pytest.mark.parametrize("equation, boundary", [("poisson", "dirichlet"), ("darcy", "mixed")])
def test_it_is_what_its_papers_say(equation, boundary, terms):
    solutions = solutions_of(2, equation=equation, boundary=boundary)
    model = small_model("gnn-pde", Family(equation, boundary), terms=terms)
    assert_is_the_formula(model, gnn_pde, solutions, Scales.fit(solutions))
