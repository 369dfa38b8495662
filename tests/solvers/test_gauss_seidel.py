"""Gauss-Seidel comes closer with every sweep, makes no more than it may, and says when it has not arrived."""

import numpy as np
import pytest
from hypothesis import given

from beno.geometry.grid import Domain
from beno.solvers.direct import Direct
from beno.solvers.gauss_seidel import GaussSeidel
from beno.support.errors import BenoError
from tests.strategies import problems, random_problem

CUT_SQUARE = Domain.square(16, [(4, 2), None, (2, 6), (6, 4)])


@given(problems(smallest=6))
def test_tighter_tolerance_takes_more_sweeps_and_comes_closer(problem):
    exact = Direct().solve(problem).u
    loose, tight = (GaussSeidel(tolerance, sweeps_between_checks=1).solve(problem) for tolerance in (1e-3, 1e-9))
    assert loose.report.iterations <= tight.report.iterations
    assert np.linalg.norm(tight.u - exact) <= np.linalg.norm(loose.u - exact)


def test_it_sees_that_its_last_sweeps_arrived():
    problem = random_problem(Domain.square(1), "poisson", "dirichlet", seed=0)  # one sweep solves it
    assert GaussSeidel(most_sweeps=1, sweeps_between_checks=1).solve(problem).report.iterations == 1


def test_it_makes_no_more_sweeps_than_allowed():
    problem = random_problem(CUT_SQUARE, "poisson", "dirichlet", seed=0)
    with pytest.raises(BenoError, match="in 70 sweeps"):
        GaussSeidel(most_sweeps=70).solve(problem)


def test_a_tolerance_that_is_not_reached_is_an_error():
    problem = random_problem(CUT_SQUARE, "poisson", "dirichlet", seed=0)
    with pytest.raises(BenoError, match="100 sweeps"):
        GaussSeidel(tolerance=1e-14, most_sweeps=100).solve(problem)
