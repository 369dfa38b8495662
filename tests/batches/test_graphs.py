"""Graphs on end: each apart from the others, ragged or padded, and stored once for all turns of a problem."""

import numpy as np
import pytest
import torch

from beno.batches.augmentation import Augmentation, Selection
from beno.batches.delaunay import build_graph
from beno.batches.graphs import BatchSize, GraphBatches
from beno.datasets.scales import Scales
from beno.geometry.symmetries import SYMMETRIES
from beno.problems.subproblems import with_parts
from beno.support.errors import BenoError
from tests.learning import batches_of, solution_with_hole, solutions_of


@pytest.fixture(scope="module")
def solutions():
    return [*solutions_of(4, resolution=12), solution_with_hole(12)]


def test_a_batch_holds_f_and_g_in_the_units_of_a_network(solutions):
    scales = Scales.fit(solutions)
    batch = batches_of(solutions).batch(np.array([4, 1]))
    for chosen, source in zip((4, 1), batch.split(batch.source), strict=True):
        np.testing.assert_allclose(source * scales.source, solutions[chosen].problem.f, rtol=1e-5, atol=1e-5)
    g = [solutions[chosen].problem.g for chosen in (4, 1)]
    np.testing.assert_allclose(batch.g[0, : len(g[0])] * scales.boundary, g[0], atol=1e-6)
    assert batch.has_panel is not None and batch.has_panel.sum() == len(g[0]) + len(g[1])


def assert_wiring_is_sound(wiring):
    assert (wiring.receiver[wiring.reverse] == wiring.sender).all()
    assert (torch.repeat_interleave(wiring.start.diff()) == wiring.receiver).all()


def test_graphs_of_a_batch_stay_apart(solutions):
    batch = batches_of(solutions).batch()
    assert (batch.sample[batch.wiring.receiver] == batch.sample[batch.wiring.sender]).all()
    assert_wiring_is_sound(batch.wiring)


def test_every_view_of_a_problem_has_the_graph_of_that_problem(solutions):
    batches = GraphBatches.of(solutions, Scales(), augmentation=Augmentation(symmetries=True, parts=1))
    whole_and_parts = [one for seed, solution in enumerate(solutions) for one in with_parts(solution, 1, seed)]
    views = [(number, number * SYMMETRIES + turn) for number in (0, 3, 9) for turn in (0, 5)]
    batch = batches.feed(Selection.of(np.array([row for _, row in views])))
    assert batch.node_counts == tuple(len(whole_and_parts[number].u) for number, _ in views)
    first = 0
    for number, _ in views:
        graph, last = build_graph(whole_and_parts[number].problem.domain.points), first + len(whole_and_parts[number].u)
        here = (batch.wiring.receiver >= first) & (batch.wiring.receiver < last)
        assert np.array_equal(batch.wiring.receiver[here] - first, graph.receiver)
        assert np.array_equal(batch.wiring.sender[here] - first, graph.sender)
        first = last


@pytest.mark.parametrize("chosen", [[0, 1, 2], [4, 3], [4]])
def test_padding_keeps_the_batch_and_its_laws(solutions, chosen):
    batches = batches_of(solutions)
    size = BatchSize(samples=4, points=900, edges=8000)
    plain, padded = batches.batch(np.array(chosen)), batches.padded_batch(np.array(chosen), size)
    points, edges = len(plain.truth), len(plain.wiring.receiver)
    assert len(padded.truth) == 900 and len(padded.wiring.receiver) == 8000 and len(padded) == 4
    assert torch.equal(padded.truth[:points], plain.truth)
    assert torch.equal(padded.wiring.sender[:edges], plain.wiring.sender)
    assert padded.has_point.sum() == points
    assert_wiring_is_sound(padded.wiring)
    assert (torch.repeat_interleave(padded.sample_start.diff()) == padded.sample).all()
    assert (padded.wiring.receiver[edges:] >= points).all(), "padding touches no real point"
    assert padded.wiring.start.diff()[points:].max() < 2 * 8000 / 900, "no padding point has many neighbours"
    torch.testing.assert_close(padded.by_sample(padded.truth)[: len(chosen)], plain.by_sample(plain.truth))


def test_what_does_not_fit_a_size_is_not_padded_to_it(solutions):
    batches = batches_of(solutions)
    assert batches.padded_batch(np.array([0]), BatchSize(1, len(solutions[0].u), 10**6)) is None
    assert batches.padded_batch(np.array([0, 1]), BatchSize(1, 10**4, 10**6)) is None


def test_the_common_size_fits_nearly_all_random_batches():
    batches = batches_of(solutions_of(40))
    size = batches.common_size(6)
    rng = np.random.default_rng(0)
    fitting = [batches.padded_batch(rng.permutation(40)[:6], size) is not None for _ in range(50)]
    assert sum(fitting) >= 48


def test_the_smallest_selection_has_the_fewest_edges(solutions):
    batches = batches_of(solutions)
    chosen = batches.smallest(2).rows
    assert sorted(batches.edge_counts[chosen]) == sorted(batches.edge_counts)[:2]


def test_parts_of_problems_and_their_symmetries_are_views(solutions):
    batches = GraphBatches.of(solutions[:3], Scales(), augmentation=Augmentation(symmetries=True, parts=2))
    assert len(batches) == 3 and batches.views == 24 and len(batches.node_counts) == 72
    selection = batches.select(np.repeat([0, 1, 2], 300), np.random.default_rng(0))
    assert (selection.rows // 24 == np.repeat([0, 1, 2], 300)).all()
    part = selection.rows % 24 // 8
    assert 0.4 < (part == 0).mean() < 0.6 and set(part) == {0, 1, 2}
    assert batches.batch().point_counts == tuple(len(one.u) for one in solutions[:3]), "as they are: whole"


def test_a_number_of_points_is_refused(solutions):
    with pytest.raises(BenoError, match="points must be 0"):
        GraphBatches.of(solutions, Scales(), augmentation=Augmentation(points=2))


def test_a_boundary_of_zeros_stays_one(solutions):
    zero = solutions_of(2, boundary="zero")
    assert Scales.fit(zero).boundary == 1.0
    assert (batches_of(zero).batch().g == 0).all()
