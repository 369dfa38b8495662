"""Multigrid meets the tolerance that it is given, or says that it does not."""

import numpy as np
import pytest

from beno.geometry.grid import Domain
from beno.solvers.direct import Direct, Factorised
from beno.solvers.multigrid import NOTHING_TO_COARSEN, Multigrid
from beno.support.errors import BenoError
from tests.strategies import BOUNDARIES, random_problem


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("tolerance", [1e-4, 1e-8, 1e-12])
def test_the_residual_is_within_the_tolerance(tolerance, boundary):
    problem = random_problem(Domain.square(32), "darcy", boundary, seed=3)
    prepared = Multigrid(tolerance).prepare(problem.operator)
    residual = prepared.system.residual(problem.right, prepared(problem.right))
    assert np.linalg.norm(residual) <= 2 * tolerance * np.linalg.norm(prepared.system.vector(problem.right))


def test_cycles_hardly_grow_with_the_grid():
    cycles = [
        Multigrid().solve(random_problem(Domain.square(resolution), "poisson", "dirichlet", 0)).report.iterations
        for resolution in (32, 128)
    ]
    assert cycles[1] <= cycles[0] + 4


def test_where_there_is_nothing_to_coarsen_it_factorises():
    operator = random_problem(Domain.square(3), "poisson", "dirichlet", 0).operator
    assert len(operator.domain.points) < NOTHING_TO_COARSEN
    prepared = Multigrid().prepare(operator)
    assert isinstance(prepared, Factorised) and prepared.report.solver == Multigrid.name
    assert Direct().prepare(operator).report.solver == Direct.name


def test_a_tolerance_out_of_reach_is_an_error():
    problem = random_problem(Domain.square(16), "poisson", "dirichlet", seed=0)
    with pytest.raises(BenoError, match="multigrid stopped"):
        Multigrid(tolerance=1e-30).solve(problem)
