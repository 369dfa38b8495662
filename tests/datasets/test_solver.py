"""Which solver makes the u of samples: on a GPU the batched iteration, whose u is the direct solver's to 1e-9."""

import numpy as np
import pytest

from beno.datasets.solver import MOST_CELLS_A_SIDE, solver_for, tolerance
from beno.problems.families import BOUNDARIES, Family
from beno.problems.law import LAWS
from beno.solvers.device.gradients import ConjugateGradients
from beno.solvers.direct import Direct


def assert_agree(family, count, device):
    problems = [family.problem(1, index) for index in range(count)]
    iterated = ConjugateGradients(device, tolerance(family.resolution)).solve_many(problems)
    for ours, exact in zip(iterated, Direct().solve_many(problems), strict=True):
        assert np.abs(ours.u - exact.u).max() < 1e-9 * np.abs(exact.u).max()


def test_it_follows_from_size_and_device():
    assert solver_for(32) == solver_for(4 * MOST_CELLS_A_SIDE) == solver_for(MOST_CELLS_A_SIDE + 1, "cuda") == Direct()
    assert solver_for(32, "cuda") == ConjugateGradients("cuda", 1e-12)
    assert solver_for(MOST_CELLS_A_SIDE, "cuda") == ConjugateGradients("cuda", tolerance(MOST_CELLS_A_SIDE))


@pytest.mark.parametrize("equation", LAWS)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_both_solvers_agree_to_1e_9(equation, boundary):
    for resolution in (8, 32):
        assert_agree(Family(equation, boundary, "mixed", resolution), 5, "cpu")


@pytest.mark.parametrize("resolution", [8, 32, 128, MOST_CELLS_A_SIDE])
def test_both_solvers_agree_to_1e_9_on_a_gpu(resolution):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    for equation in LAWS:
        for boundary in BOUNDARIES:
            assert_agree(Family(equation, boundary, "mixed", resolution), 1 + 128 // resolution, "cuda")
