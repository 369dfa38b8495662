"""Which of the operators that ship is taken for a problem, and that a solver that is given is the one that solves."""

import numpy as np
import pytest

import beno
from beno.evaluation.metrics import relative_l2
from beno.learned.choice import name_for
from beno.learned.shipped import load
from beno.problems.families import Family
from beno.problems.walls import Kind, Walls
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.strategies import with_operator


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (Family(), "poisson-dirichlet"),
        (Family(boundary="zero"), "poisson-dirichlet"),
        (Family(boundary="neumann"), "poisson-neumann"),
        (Family(boundary="robin"), "poisson-mixed"),
        (Family(boundary="mixed"), "poisson-mixed"),
        (Family("darcy"), "darcy-dirichlet"),
    ],
    ids=lambda value: value.name if isinstance(value, Family) else None,
)
def test_each_problem_gets_the_operator_that_was_trained_for_its_like(family, name):
    assert name_for(family.problem(0, 0).operator) == name


def test_where_no_operator_ships_it_is_said_which_there_are():
    operator = Family("darcy", "neumann", resolution=8).problem(0, 0).operator
    with pytest.raises(
        BenoError, match=r"no operator is shipped for darcy with neumann walls; there is .*poisson-mixed"
    ):
        name_for(operator)


def test_the_learned_method_is_the_operator_that_ships():
    problem = Family().problem(0, 3)
    u = beno.solve(problem, tolerance=None, method="learned", device="cpu").u
    np.testing.assert_array_equal(u, load("poisson-dirichlet").solve(problem).u)
    assert 0 < relative_l2(u, Direct().solve(problem).u) < 0.05


def test_robin_walls_without_alpha_get_the_operator_for_neumann_walls():
    neumann = Family(boundary="neumann", resolution=16).problem(5, 0)
    robin = with_operator(neumann, walls=Walls.uniform(len(neumann.g), Kind.ROBIN))
    operator = load(name_for(robin.operator))
    expected = operator.solve(neumann).u
    np.testing.assert_allclose(operator.solve(robin).u, expected)
    np.testing.assert_allclose(operator.prepare(robin.operator)(robin.right), expected, atol=1e-5)


def test_a_solver_that_is_given_is_the_one_that_solves():
    problem = Family(resolution=8).problem(0, 3)
    exact = Direct().solve(problem).u
    np.testing.assert_allclose(beno.solve(problem, solver=Direct()).u, exact, atol=1e-12)
    np.testing.assert_allclose(beno.prepare(problem.operator, solver=Direct())(problem.right), exact, atol=1e-12)


def test_a_problem_without_a_solution_is_refused_before_anything_is_loaded():
    problem = Family(boundary="neumann", resolution=8).problem(0, 0)
    with pytest.raises(BenoError, match="a pure Neumann problem needs"):
        beno.solve(problem.with_data(problem.f + 1.0))
