"""Problems as pictures: a turned view is the picture of the turned problem, and nothing is outside."""

import numpy as np
import pytest
import torch

from beno.batches.augmentation import Augmentation, Selection
from beno.batches.pictures import CHANNELS, PictureBatches
from beno.datasets.scales import Scales
from beno.geometry.symmetries import SYMMETRIES
from beno.problems.turned import turned, with_sign
from beno.problems.walls import Kind
from beno.support.errors import BenoError
from tests.learning import solution_with_hole, solutions_of


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("turn", range(SYMMETRIES))
@pytest.mark.parametrize("solution", [solutions_of(3, equation="darcy", boundary="mixed")[2], solution_with_hole()])
def test_a_turned_view_is_the_picture_of_the_turned_problem(solution, turn, sign):
    views = PictureBatches([solution], Scales(), augmentation=Augmentation(symmetries=True))
    ours = views.open(views.feed(Selection.of(np.array([0]), np.array([sign]), np.array([turn]))))
    theirs = PictureBatches([with_sign(turned(solution, turn), sign)], Scales()).batch()
    for name in ("channels", "inside", "u"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("solution", [*solutions_of(3, equation="darcy", boundary="mixed"), solution_with_hole()])
def test_a_cell_beside_walls_has_the_mean_of_their_values_and_their_kinds(solution):
    problem, scales = solution.problem, Scales(2.0, 3.0, 4.0)
    batch = PictureBatches([solution], scales).batch()
    (pictures,) = batch.split(batch.channels.transpose(0, 1))
    channel = dict(zip(CHANNELS, pictures.numpy(), strict=True))
    walls, cell = problem.walls, problem.domain.panels.cell
    np.testing.assert_allclose(channel["source"], problem.f / 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(channel["log_coefficient"], np.log(problem.law.at_points(problem.domain)), atol=1e-5)
    for number in range(len(problem.f)):
        beside = cell == number
        assert channel["on_boundary"][number] == beside.any()
        columns = {"boundary_value": problem.g / 3, "alpha": walls.alpha}
        columns |= {kind.name: walls.kind == kind for kind in Kind}
        for name, values in columns.items():
            expected = values[beside].mean() if beside.any() else 0
            assert channel[name][number] == pytest.approx(expected, rel=1e-5, abs=1e-6), name


def test_outside_the_domain_all_channels_and_the_truth_are_zero():
    batch = PictureBatches(solutions_of(5, equation="darcy", boundary="mixed"), Scales()).batch()
    outside = ~batch.inside
    assert outside.any() and not batch.channels.transpose(0, 1)[:, outside].any() and not batch.truth[outside].any()


@pytest.mark.parametrize("augmentation", [Augmentation(parts=1), Augmentation(points=5)])
def test_parts_and_points_are_refused(augmentation):
    with pytest.raises(BenoError, match="whole samples"):
        PictureBatches(solutions_of(2), Scales(), augmentation=augmentation)


def test_problems_of_two_resolutions_are_refused():
    with pytest.raises(BenoError, match=r"one resolution, not of \[8, 12\]"):
        PictureBatches([*solutions_of(2), *solutions_of(1, resolution=12)], Scales())
