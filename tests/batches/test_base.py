"""What all batches promise to a model and to a training, whatever they are made of."""

from dataclasses import dataclass, fields

import numpy as np
import pytest
import torch

from beno.batches.augmentation import Augmentation, Selection
from beno.batches.base import Column, as_tensor, column, columns_of, padded, problem_of, scaled_u
from beno.batches.graph_inputs import GraphInputs, GraphKind
from beno.batches.graphs import GraphBatches
from beno.batches.panels import PanelBatches, PanelInputs
from beno.batches.pictures import PictureBatches
from beno.datasets.scales import Scales
from beno.problems.turned import turned, with_sign
from beno.support.errors import BenoError
from beno.training.captured import tensors_of
from tests.learning import solution_with_hole, solutions_of

SCALES = Scales(2.0, 3.0, 4.0)


def on_graphs(posed, augmentation=None):
    return GraphBatches.of(posed, SCALES, GraphKind(), augmentation=augmentation)


def on_boundary_nodes(posed, augmentation=None):
    return GraphBatches.of(posed, SCALES, GraphKind(boundary_nodes=True), augmentation=augmentation)


def on_panels(posed, augmentation=None):
    return PanelBatches.of(posed, SCALES, augmentation=augmentation)


def on_pictures(posed, augmentation=None):
    return PictureBatches(posed, SCALES, augmentation=augmentation)


KINDS = (on_graphs, on_boundary_nodes, on_panels, on_pictures)
of_every_kind = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


@pytest.fixture(scope="module")
def solutions():
    return [*solutions_of(4), solution_with_hole()]


@of_every_kind
def test_a_batch_holds_its_problems_in_the_order_asked_for(make, solutions):
    batch = make(solutions).batch(np.array([4, 1]))
    assert len(batch) == 2
    for chosen, u in zip((4, 1), batch.split(batch.truth), strict=True):
        np.testing.assert_allclose(u.numpy() * SCALES.solution, solutions[chosen].u, rtol=1e-5, atol=1e-6)


@of_every_kind
def test_without_indices_a_batch_has_all_problems_as_they_are(make, solutions):
    batches = make(solutions)
    assert len(batches) == len(batches.batch()) == len(solutions)
    assert batches.point_counts.tolist() == [len(solution.u) for solution in solutions]


@of_every_kind
def test_sums_by_sample_count_each_point_once_and_no_padding(make, solutions):
    batch = make(solutions).batch()
    assert batch.by_sample(torch.ones_like(batch.truth)).tolist() == [len(solution.u) for solution in solutions]
    sums = torch.stack([part.sum() for part in batch.split(batch.truth)])
    torch.testing.assert_close(batch.by_sample(batch.truth), sums)


@of_every_kind
def test_problems_without_solutions_make_the_same_batch_without_a_truth(make, solutions):
    with_truth, without = make(solutions).batch(), make([solution.problem for solution in solutions]).batch()
    assert without.u is None
    with pytest.raises(AssertionError, match="without solutions"):
        _ = without.truth
    theirs = dict(named_tensors(with_truth))
    for name, tensor in named_tensors(without):
        assert torch.equal(tensor, theirs.pop(name))
    assert list(theirs) == ["u"]


def named_tensors(batch):
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return [(name, value) for name, value in values.items() if torch.is_tensor(value)]


@of_every_kind
def test_a_feed_opens_as_what_was_selected(make, solutions):
    batches = make(solutions)
    selection = batches.select(np.array([3, 0]), np.random.default_rng(0))
    batch = batches.open(batches.feed(selection))
    assert len(batch) == len(selection) == 2
    expected = [(solutions[index].u / SCALES.solution).sum() for index in (3, 0)]
    np.testing.assert_allclose(batch.by_sample(batch.truth), expected, rtol=1e-4, atol=1e-4)


@of_every_kind
def test_a_feed_shows_the_sign_that_was_drawn(make, solutions):
    batches = make(solutions, Augmentation(symmetries=True))
    drawn = batches.select(np.arange(3), np.random.default_rng(0))
    plain, other = (
        batches.open(batches.feed(Selection(drawn.rows, np.full(3, sign), drawn.turns, drawn.points)))
        for sign in (1.0, -1.0)
    )
    assert torch.equal(other.truth, -plain.truth) and plain.truth.any()


@of_every_kind
def test_all_signs_and_turns_are_drawn_and_they_repeat_with_the_seed(make, solutions):
    batches = make(solutions, Augmentation(symmetries=True))
    indices = np.zeros(400, dtype=np.int64)
    one, again = (batches.select(indices, np.random.default_rng(7)) for _ in range(2))
    for field in fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(again, field.name))
    assert len(set(zip(one.rows.tolist(), one.turns.tolist(), one.signs.tolist(), strict=True))) == 16


@of_every_kind
def test_feeds_filled_to_one_number_have_equal_shapes(make, solutions):
    batches = make(solutions)
    rng = np.random.default_rng(0)
    feeds = [batches.feed(batches.select(np.array(chosen), rng), samples=3) for chosen in ([0, 1, 2], [4, 3], [1])]
    feeds.append(batches.feed(batches.smallest(3), samples=3))
    shapes = [[tensor.shape for tensor in tensors_of(feed)] for feed in feeds]
    assert all(one == shapes[0] for one in shapes) and len(shapes[0]) >= 4
    assert {len(batches.open(feed)) for feed in feeds} == {3}


@of_every_kind
def test_a_cpu_works_on_fewer_problems_together_the_larger_they_are(make):
    small, large = make(solutions_of(2)), make(solutions_of(2, resolution=32))
    assert 1 <= large.worked_on_together(10**6) < small.worked_on_together(10**6)
    assert small.worked_on_together(1) == 1


@of_every_kind
def test_no_problems_at_all_are_refused(make):
    with pytest.raises(BenoError, match="there are no problems"):
        make([])


@dataclass
class Inputs:
    place: np.ndarray = column("points", turn="place")
    f: np.ndarray = column("points", linear=True)
    g: np.ndarray = column("panels", linear=True)
    other: int = 0


def test_columns_are_what_was_declared_of_them():
    assert columns_of(Inputs) == {
        "place": Column("points", turn="place"),
        "f": Column("points", linear=True),
        "g": Column("panels", linear=True),
    }


@pytest.mark.parametrize(("make", "inputs"), [(on_graphs, GraphInputs), (on_panels, PanelInputs)])
def test_a_batch_has_a_tensor_for_every_declared_column(make, inputs, solutions):
    assert columns_of(inputs).keys() <= {name for name, _ in named_tensors(make(solutions).batch())}


def test_padding_repeats_the_last_row():
    rows = padded([np.array([1, 2, 3]), np.array([4])])
    assert rows.tolist() == [[1, 2, 3], [4, 4, 4]]
    assert padded([np.ones((2, 5)), np.zeros((3, 5))]).shape == (2, 3, 5)


@pytest.mark.parametrize(
    ("given", "dtype"),
    [(np.float64, torch.float32), (np.float32, torch.float32), (np.int8, torch.int64), (np.bool_, torch.bool)],
)
def test_numbers_become_single_precision_and_others_what_they_are(given, dtype):
    assert as_tensor(np.ones(3, dtype=given), torch.device("cpu")).dtype == dtype


def test_a_truth_is_known_where_there_is_a_solution(solutions):
    solution = solutions[0]
    assert problem_of(solution) is problem_of(solution.problem) is solution.problem
    np.testing.assert_array_equal(scaled_u(solution, 2.0), solution.u / 2)
    assert scaled_u(solution.problem, 2.0) is None


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("turn", [0, 3, 6])
def test_scales_of_turned_solutions_are_those_of_the_solutions(solutions, turn, sign):
    """So it does not matter that scales are fitted before anything is turned."""
    shown = [with_sign(turned(solution, turn), sign) for solution in solutions]
    ours, theirs = (vars(Scales.fit(some)) for some in (shown, solutions))
    assert ours == pytest.approx(theirs)
