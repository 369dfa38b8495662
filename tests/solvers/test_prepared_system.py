"""What the solvers of the scheme's equations have in common."""

import numpy as np
import pytest

from beno.geometry.grid import Domain
from beno.problems.operator import poisson_operator
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.solvers.gauss_seidel import GaussSeidel
from beno.solvers.multigrid import Multigrid


@pytest.mark.parametrize("solver", [Direct(), Multigrid(), GaussSeidel()], ids=lambda solver: solver.name)
def test_what_is_out_of_balance_by_rounding_is_solved_all_the_same(solver):
    operator = poisson_operator(Domain.square(8), Kind.NEUMANN)
    f = np.random.default_rng(0).normal(size=64)
    off = RightHandSide(f - f.mean() + 1e-10, np.zeros(32))
    exact = Direct().prepare(operator)(operator.balanced(off))
    np.testing.assert_allclose(solver.prepare(operator)(off), exact, atol=1e-6)


def test_the_report_tells_the_iterations_of_the_row_that_took_the_most():
    operator = poisson_operator(Domain.square(16))
    rows = [operator.right(), operator.right(np.random.default_rng(0).normal(size=256))]
    prepared = GaussSeidel().prepare(operator)
    alone = []
    for row in rows:
        prepared(row)
        alone.append(prepared.report.iterations)
    prepared(RightHandSide.stack(rows))
    assert alone[0] == 0 and prepared.report.iterations == max(alone)
