"""The graph of the paper: Delaunay and nearest neighbours, symmetric, whatever the order of the points."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.spatial import Delaunay

from beno.batches.delaunay import build_ball_graph, build_graph
from beno.geometry.grid import Domain
from beno.support.errors import BenoError


def edge_set(graph):
    return set(zip(graph.receiver.tolist(), graph.sender.tolist(), strict=True))


@st.composite
def point_sets(draw):
    """Points in general position, or on a grid, where every distance ties."""
    if draw(st.booleans()):
        return Domain.square(draw(st.integers(2, 7))).points
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return rng.random((draw(st.integers(1, 60)), 2))


@given(point_sets(), st.integers(1, 10))
def test_every_edge_has_its_reverse_once_and_none_is_a_loop(points, nearest):
    graph = build_graph(points, nearest)
    edges = edge_set(graph)
    assert len(edges) == len(graph)
    assert all(receiver != sender and (sender, receiver) in edges for receiver, sender in edges)
    np.testing.assert_array_equal(graph.receiver[graph.reverse], graph.sender)
    np.testing.assert_array_equal(graph.sender[graph.reverse], graph.receiver)


@given(point_sets(), st.integers(1, 10))
def test_start_lists_the_edges_into_each_node(points, nearest):
    graph = build_graph(points, nearest)
    assert graph.start[0] == 0 and graph.start[-1] == len(graph)
    np.testing.assert_array_equal(np.repeat(np.arange(len(points)), np.diff(graph.start)), graph.receiver)


@given(point_sets(), st.integers(0, 10**6))
def test_the_graph_does_not_depend_on_the_order_of_the_points(points, seed):
    order = np.random.default_rng(seed).permutation(len(points))
    shuffled = {(order[i], order[j]) for i, j in edge_set(build_graph(points[order]))}
    assert shuffled == edge_set(build_graph(points))


def test_the_graph_holds_the_triangles_and_the_nearest():
    points = np.random.default_rng(1).random((80, 2))
    edges = edge_set(build_graph(points, 8))
    for triangle in Delaunay(points).simplices:
        assert {(triangle[0], triangle[1]), (triangle[1], triangle[2]), (triangle[2], triangle[0])} <= edges
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    for node, near in enumerate(np.argsort(distance, axis=1)[:, 1:9]):
        assert {(node, other) for other in near} <= edges


def test_few_points_and_points_on_a_line_are_joined_too():
    assert len(build_graph(np.array([[0.5, 0.5]]))) == 0
    assert len(build_graph(np.array([[0.1, 0.5], [0.9, 0.5]]))) == 2
    line = np.stack([np.linspace(0, 1, 20), np.full(20, 0.5)], axis=1)
    assert (np.diff(build_graph(line, 2).start) >= 2).all()


def test_no_points_are_refused():
    with pytest.raises(BenoError, match="at least 1 point"):
        build_graph(np.empty((0, 2)))


@given(point_sets(), st.floats(0.15, 0.6))
def test_a_ball_joins_just_the_points_within_its_radius(points, radius):
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    near = (distance <= radius) & ~np.eye(len(points), dtype=bool)
    assume(near.any())
    assert edge_set(build_ball_graph(points, radius)) == set(
        zip(*(ends.tolist() for ends in near.nonzero()), strict=True)
    )


def test_a_radius_that_joins_nothing_is_refused():
    with pytest.raises(BenoError, match=r"no two of the 3 points are within a radius of 0\.1"):
        build_ball_graph(np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]]), 0.1)
