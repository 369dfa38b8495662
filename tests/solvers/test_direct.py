"""The factorisation is exact to rounding, is made once, and refuses what it cannot factorise."""

import numpy as np
import pytest
from hypothesis import given

from beno.geometry.grid import Domain
from beno.problems.problem import darcy
from beno.solvers import direct
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.strategies import problems, random_problem, random_right


@given(problems())
def test_it_leaves_no_residual(problem):
    prepared = Direct().prepare(problem.operator)
    residual = prepared.system.residual(problem.right, prepared(problem.right))
    size = max(1.0, np.abs(prepared.system.vector(problem.right)).max())
    np.testing.assert_allclose(residual, 0, atol=1e-10 * size)
    assert prepared.report.iterations == 1


def test_one_factorisation_serves_all_right_hand_sides(monkeypatch):
    made = []
    whole = direct.factorised
    monkeypatch.setattr(direct, "factorised", lambda matrix: made.append(matrix) or whole(matrix))
    operator = random_problem(Domain.square(8), "darcy", "mixed", 0).operator
    prepared = Direct().prepare(operator)
    for seed in range(3):
        prepared(random_right(operator, seed))
    prepared(random_right(operator, 0, rows=5))
    assert len(made) == 1


def test_a_matrix_that_double_precision_cannot_solve_is_refused():
    problem = darcy(
        Domain.square(4), np.where(np.arange(16) < 8, 5e-324, 1.0), 1.0, kappa_at_panels=np.full(16, 5e-324)
    )
    with pytest.raises(BenoError, match=r"cannot be solved in double precision .*is kappa near zero\?"):
        Direct().solve(problem)
