"""One problem as a graph: what its nodes and its boundary know."""

import numpy as np
import pytest
import torch

from beno.batches.augmentation import Augmentation, Selection
from beno.batches.graph_inputs import GraphKind
from beno.batches.graphs import GraphBatches
from beno.datasets.scales import Scales
from beno.geometry.symmetries import SYMMETRIES
from beno.problems.turned import turned
from tests.learning import batches_of, solution_with_hole, solutions_of


def test_rings_close_around_each_boundary_by_itself():
    solution = solution_with_hole(12)
    batch = batches_of([solution]).batch()
    before, after, ring = batch.before[0], batch.after[0], solution.problem.domain.panels.ring
    here = torch.arange(len(ring))
    assert (before[after] == here).all() and (after[before] == here).all()
    assert len(set(ring)) == 2 and (ring[after] == ring).all()


@pytest.mark.parametrize("kind", [GraphKind(), GraphKind(radius=0.3, boundary_nodes=True)], ids=["points", "ball"])
@pytest.mark.parametrize("turn", range(SYMMETRIES))
def test_a_turned_view_has_the_nodes_of_the_turned_problem(kind, turn):
    """Each where it was turned to, with all that it has there."""
    solution = solutions_of(3, resolution=12)[2]
    views = GraphBatches.of([solution], Scales(), kind, augmentation=Augmentation(symmetries=True))
    ours = views.feed(Selection.of(np.array([turn]), np.array([-1.0])))
    theirs = GraphBatches.of([turned(solution, turn)], Scales(), kind).batch()
    columns = ["points", "inside", "boundary_kind", "log_coefficient", *["wall_distance"] * (not kind.boundary_nodes)]
    ours, theirs = (
        torch.cat(
            [getattr(batch, name).view(len(batch.source), -1).float() for name in columns]
            + [sign * getattr(batch, name)[:, None] for name in ("source", "boundary_value", "u")],
            dim=1,
        ).numpy()
        for batch, sign in ((ours, -1), (theirs, 1))
    )
    ours, theirs = (rows[np.lexsort(np.round(rows[:, :2].T, 4))] for rows in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_boundary_nodes_stand_after_the_points_and_have_what_the_walls_have():
    solution = solutions_of(1, boundary="mixed", equation="darcy")[0]
    problem, points = solution.problem, len(solution.u)
    batch = GraphBatches.of([solution], Scales(), GraphKind(boundary_nodes=True)).batch()
    assert batch.node_counts == (points + len(problem.g),) and batch.point_counts == (points,)
    for name, at_points, at_panels in (
        ("inside", 1.0, 0.0),
        ("source", problem.f, 0.0),
        ("boundary_value", 0.0, problem.g),
        ("boundary_kind", -1, problem.walls.kind),
        ("boundary_alpha", 0.0, problem.walls.alpha),
        ("log_coefficient", np.log(problem.law.coefficient), np.log(problem.law.panel_coefficient)),
    ):
        values = getattr(batch, name).numpy()
        np.testing.assert_allclose(values[:points], at_points, rtol=1e-5, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(values[points:], at_panels, rtol=1e-5, atol=1e-6, err_msg=name)
