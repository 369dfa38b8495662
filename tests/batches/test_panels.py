"""Batches of points against panels: a turned view is the turned problem, and a part is a part."""

import pickle

import joblib
import numpy as np
import pytest
import torch

from beno.batches import panels
from beno.batches.augmentation import Augmentation, Selection
from beno.batches.panels import PanelBatch, PanelBatches, PanelInputs
from beno.datasets.scales import Scales
from beno.geometry.symmetries import SYMMETRIES, turned_domain
from beno.problems.families import Family
from beno.problems.turned import turned
from beno.problems.walls import Kind, Walls
from tests.learning import small_model, solution_with_hole, solutions_of
from tests.strategies import with_operator


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "mixed"])
@pytest.mark.parametrize("turn", range(SYMMETRIES))
def test_a_turned_view_is_the_turned_problem(boundary, turn):
    """As a model sees it: panels may stand in another order, and places differ by rounding."""
    solution = solutions_of(3, boundary=boundary)[2]
    batches = PanelBatches.of([solution], Scales(), augmentation=Augmentation(symmetries=True))
    every = np.arange(len(solution.u))[None]
    feed = batches.feed(Selection(np.array([0]), np.array([-1.0]), np.array([turn]), every))
    model = small_model("harmonic", Family(boundary=boundary))
    with torch.no_grad():
        seen = model(batches.open(feed))[0]
        expected = -model(PanelBatches.of([turned(solution, turn)], Scales()).batch())[0]
    _, came_from, _ = turned_domain(solution.problem.domain, turn)
    assert torch.allclose(seen[came_from], expected, atol=2e-5)
    assert torch.allclose(batches.open(feed).truth[0], torch.as_tensor(-solution.u, dtype=torch.float32), atol=1e-6)


def test_parts_follow_their_problem_and_are_drawn_half_of_the_time():
    solutions = solutions_of(3, resolution=12)
    batches = PanelBatches.of(solutions, Scales(), augmentation=Augmentation(parts=4, points=20))
    assert len(batches) == 3 and len(batches.point_counts) == 15
    selection = batches.select(np.repeat([0, 1, 2], 400), np.random.default_rng(0))
    assert (selection.rows // 5 == np.repeat([0, 1, 2], 400)).all()
    assert 0.4 < (selection.rows % 5 == 0).mean() < 0.6 and set(selection.rows % 5) == set(range(5))
    assert (selection.points < batches.point_counts[selection.rows][:, None]).all()
    batch = batches.open(batches.feed(selection.take(slice(8))))
    assert batch.truth.shape == (8, 20) and batch.has_point.all()
    assert batches.batch().point_counts == tuple(batches.point_counts[::5])


def test_a_chosen_point_has_all_that_it_has_in_the_whole_batch():
    solution = solutions_of(3)[2]
    batches = PanelBatches.of([solution], Scales())
    points = np.array([[7, 0, 7]])
    some, whole = batches.open(batches.feed(Selection.of(np.array([0]), points=points))), batches.batch()
    for name in ("points", "wall_distance", "potential", "kappa", "u"):
        torch.testing.assert_close(getattr(some, name)[0], getattr(whole, name)[0][points[0]])
    for name in ("centres", "ends", "boundary_residual"):
        assert torch.equal(getattr(some, name), getattr(whole, name))


def test_where_a_constant_is_free_the_truth_of_a_view_has_no_mean():
    solution = solutions_of(1, boundary="neumann")[0]
    batches = PanelBatches.of([solution], Scales(), augmentation=Augmentation(points=9))
    view = batches.open(batches.feed(batches.select(np.zeros(50, dtype=np.int64), np.random.default_rng(0))))
    torch.testing.assert_close(view.truth.mean(dim=1), torch.zeros(50), atol=1e-6, rtol=0)


def test_a_short_feed_is_filled_up_with_its_last_problem():
    batches = PanelBatches.of(solutions_of(3), Scales(), augmentation=Augmentation(points=5))
    selection = batches.select(np.arange(2), np.random.default_rng(0))
    assert batches.feed(selection, samples=4).rows.tolist() == [0, 1, 1, 1]


def test_many_workers_prepare_the_same_as_one_does(monkeypatch):
    """In threads: processes would take seconds to start. What goes to them and comes back can be pickled."""
    solutions, augmentation = solutions_of(4), Augmentation(parts=2)
    one = PanelBatches.of(solutions, Scales(), augmentation=augmentation).batch()
    monkeypatch.setattr(panels, "PROBLEMS_A_WORKER", 1)
    with joblib.parallel_config("threading"):
        many = PanelBatches.of(pickle.loads(pickle.dumps(solutions)), Scales(), augmentation=augmentation).batch()
    assert torch.equal(one.boundary_residual, many.boundary_residual) and torch.equal(one.potential, many.potential)
    inputs = PanelInputs.of(solutions[0], Scales())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(inputs)).ends, inputs.ends)


def test_padding_has_no_panels():
    solutions = [*solutions_of(3), solution_with_hole()]
    batches = PanelBatches.of(solutions, Scales())
    batch = batches.batch()
    assert batch.has_panel.sum(dim=1).tolist() == [len(solution.problem.g) for solution in solutions]
    assert batch.is_padded and not batches.batch(np.array([0])).is_padded


def test_one_problem_alone_makes_the_batch_that_batches_make_of_it():
    solution = solution_with_hole()
    alone = PanelBatch.of_one(PanelInputs.of(solution, Scales(solution=0.5)), torch.device("cpu"))
    batch = PanelBatches.of([solution], Scales(solution=0.5)).batch()
    for name, values in vars(batch).items():
        ours = getattr(alone, name)
        assert torch.equal(ours, values) if torch.is_tensor(values) else ours == values, name


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "robin", "mixed"])
def test_the_potential_and_what_is_left_for_the_walls_do_not_depend_on_u_and_scale_with_the_data(boundary):
    solution = solutions_of(2, boundary=boundary)[1]
    problem = solution.problem
    doubled = problem.with_data(2 * problem.f, 2 * problem.g)
    one, two = (PanelInputs.of(posed, Scales()) for posed in (solution, doubled))
    np.testing.assert_allclose(two.potential, 2 * one.potential, atol=1e-12)
    np.testing.assert_allclose(two.boundary_residual, 2 * one.boundary_residual, atol=1e-9)
    assert two.u is None


def test_a_robin_wall_of_next_to_no_alpha_is_fed_as_a_neumann_wall():
    """In single precision it cannot be told from one, and g / alpha would be no number there."""
    mixed = (solution.problem for solution in solutions_of(5, boundary="mixed"))
    problem = next(problem for problem in mixed if Kind.ROBIN in problem.walls.kinds)
    is_robin = problem.walls.kind == Kind.ROBIN
    weak = with_operator(problem, walls=Walls(problem.walls.kind, np.where(is_robin, 1e-40, 0.0)))
    none = with_operator(problem, walls=Walls(np.where(is_robin, Kind.NEUMANN, problem.walls.kind), 0 * problem.g))
    ours, theirs = (PanelInputs.of(posed, Scales()) for posed in (weak, none))
    for name, values in vars(theirs).items():
        assert values is None or np.array_equal(getattr(ours, name), values), name


def test_where_nothing_but_weak_robin_walls_fixes_u_they_stay_robin_walls():
    """Else nothing would fix it at all."""
    problem = solutions_of(1, boundary="robin")[0].problem
    weak = with_operator(problem, walls=Walls(problem.walls.kind, np.full_like(problem.g, 1e-9)))
    assert (PanelInputs.of(weak, Scales()).kind == Kind.ROBIN).all()
