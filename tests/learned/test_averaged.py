"""Averaged over the symmetries of the square, an operator has them exactly."""

import numpy as np
import pytest

from beno.geometry.symmetries import turned_domain
from beno.learned.averaged import AveragedOperator
from beno.problems.families import Family
from beno.problems.turned import turned, with_sign
from tests.learning import operator_of, small_model, solutions_of


@pytest.mark.parametrize("turn", [0, 3, 6])
@pytest.mark.parametrize(("equation", "boundary"), [("poisson", "dirichlet"), ("darcy", "mixed")])
def test_an_averaged_operator_has_the_symmetries(turn, equation, boundary):
    """A ball's graph turns with its points; Delaunay's choice of diagonals on a grid would not."""
    family = Family(equation, boundary)
    operator = operator_of(small_model("gkn", family, radius=0.3), family)
    problem = solutions_of(2, equation=equation, boundary=boundary)[1].problem
    _, came_from, _ = turned_domain(problem.domain, turn)
    shown = [problem, with_sign(turned(problem, turn), -1)]
    plain, averaged = (one.predict(shown) for one in (operator, AveragedOperator.of(operator)))
    size = np.abs(averaged[0]).max()
    np.testing.assert_allclose(averaged[1], -averaged[0][came_from], atol=1e-4 * size)
    assert np.abs(plain[1] + plain[0][came_from]).max() > 1e-2 * size


def test_an_operator_that_has_the_symmetries_stays_as_it_is():
    """Mirrored and turned, a square with constant data is the same problem; what is odd in the data averages out."""
    operator = operator_of(small_model("harmonic"))
    problem = solutions_of(1, corners=0)[0].problem.with_data(0.0, 2.0)
    (averaged,) = AveragedOperator.of(operator).predict([problem])
    np.testing.assert_allclose(averaged, 2.0, rtol=1e-5)


def test_no_problems_have_no_answers():
    assert AveragedOperator.of(operator_of(small_model("fno"))).predict([]) == []
