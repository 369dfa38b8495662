"""With a learned operator before it the iteration is exact, and short: the weights decide how soon, not how right."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from beno.geometry.gallery import SHAPES, ring
from beno.geometry.grid import Domain
from beno.learned.operator import LearnedOperator
from beno.learned.preconditioned import Preconditioned
from beno.learned.shipped import load
from beno.problems.families import Family
from beno.problems.operator import darcy_operator, poisson_operator
from beno.problems.problem import Problem
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble
from beno.support.errors import BenoError
from tests.strategies import domains, random_right, seeds

TOLERANCE = 1e-8
CROSS = Domain.square(32, [(10, 10)] * 4)
# At 32 x 32 with the weights that ship.
STEPS = {"cross": 4, "L": 4, "disc": 6, "ring": 7, "comb": 10, "spiral": 11}
every_shape = pytest.mark.parametrize("shape", STEPS)


def domain_of(shape):
    return CROSS if shape == "cross" else SHAPES[shape](32)


def relative(u, expected):
    return np.abs(u - expected).max() / np.abs(expected).max()


def smooth(x, y):
    return 10 ** (0.5 + 0.5 * np.sin(5 * x + 1) * np.cos(4 * y))


def thirds(domain):
    """A third of every ring is Dirichlet's, one Neumann's and one Robin's."""
    panels = domain.panels
    return np.floor(3 * panels.arc_length / panels.ring_lengths[panels.ring]).clip(0, 2).astype(int)


@pytest.fixture(scope="module")
def dirichlet():
    return Preconditioned(load("poisson-dirichlet"), TOLERANCE)


@every_shape
def test_it_takes_few_steps_on_shapes_that_training_never_saw(dirichlet, shape):
    operator = poisson_operator(domain_of(shape))
    prepared, right = dirichlet.prepare(operator), random_right(operator, 0, rows=3)
    assert relative(prepared(right), Direct().prepare(operator)(right)) < 1e-7
    assert abs(prepared.report.iterations - STEPS[shape]) <= 3
    assert prepared.report.solver == "preconditioned"


@every_shape
@pytest.mark.parametrize("walls", ["neumann", "mixed"])
def test_walls_of_the_other_kinds(shape, walls):
    domain = domain_of(shape)
    kind = Kind.NEUMANN if walls == "neumann" else thirds(domain)
    operator = poisson_operator(domain, kind, 2.0)
    prepared, right = (
        Preconditioned(load(f"poisson-{walls}"), TOLERANCE).prepare(operator),
        random_right(operator, 0, rows=2),
    )
    u = prepared(right)
    assert relative(u, Direct().prepare(operator)(right)) < 1e-6
    assert prepared.report.iterations <= 2 * STEPS[shape] + 3
    if walls == "neumann":
        np.testing.assert_allclose(u.mean(axis=1), 0, atol=1e-12)


@every_shape
@pytest.mark.parametrize("scaled", [False, True])
def test_kappa_that_varies(shape, scaled):
    operator = darcy_operator(domain_of(shape), smooth)
    solver = Preconditioned(load("darcy-dirichlet"), TOLERANCE, scaled_potential=scaled)
    prepared, right = solver.prepare(operator), random_right(operator, 0, rows=2)
    assert relative(prepared(right), Direct().prepare(operator)(right)) < 1e-6
    assert prepared.report.iterations <= STEPS[shape] + (8 if scaled else 3)


def test_a_chequerboard_is_solved_too():
    domain = ring(32)
    i, j = domain.cells.T
    operator = darcy_operator(domain, np.where((i // 4 + j // 4) % 2 == 0, 1.0, 100.0))
    right = random_right(operator, 0)
    u = Preconditioned(load("darcy-dirichlet"), 1e-10).prepare(operator)(right)
    assert relative(u, Direct().prepare(operator)(right)) < 1e-6


@settings(max_examples=10)
@given(domain=domains(4), seed=seeds, exponent=st.integers(-12, -3))
def test_the_residual_is_within_the_tolerance_whatever_the_shape(dirichlet, domain, seed, exponent):
    operator = poisson_operator(domain)
    right, system = random_right(operator, seed, rows=2), assemble(operator)
    u = Preconditioned(dirichlet.operator, 10.0**exponent).prepare(operator)(right)
    sizes = np.linalg.norm(system.vector(right), axis=1)
    assert (np.linalg.norm(system.residual(right, u), axis=1) <= 1.01 * 10.0**exponent * sizes).all()


def test_rows_together_are_as_each_alone_and_tensors_stay_tensors(dirichlet):
    prepared = dirichlet.prepare(poisson_operator(ring(16)))
    right = random_right(prepared.operator, 0, rows=3)
    together = prepared(right)
    for row, u in enumerate(together):
        np.testing.assert_allclose(prepared(right[row]), u, atol=1e-7 * np.abs(u).max())
    tensor = prepared.solve(torch.as_tensor(right.f), torch.as_tensor(right.g))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor, together, atol=1e-12)


def test_gradients_are_those_of_the_exact_inverse(dirichlet):
    operator = poisson_operator(Domain.square(6, [(2, 2), None, None, None]))
    prepared = Preconditioned(dirichlet.operator, 1e-13).prepare(operator)
    f, g = (torch.tensor(one, requires_grad=True) for one in vars(random_right(operator, 0)).values())
    assert torch.autograd.gradcheck(
        lambda f, g: prepared(RightHandSide(f, g)), (f, g), eps=1e-4, atol=1e-6, fast_mode=True
    )


def test_it_is_a_solver_like_any_other(dirichlet):
    problem = Family(resolution=16).problem(0, 3)
    solution = dirichlet.solve(problem)
    assert isinstance(solution.problem, Problem) and solution.report.iterations < 8
    assert relative(solution.u, Direct().solve(problem).u) < 1e-7


def test_a_model_that_is_not_linear_is_refused_and_so_are_problems_that_weights_do_not_know(dirichlet):
    with pytest.raises(BenoError, match="beno is not linear in f and g, so it cannot precondition an iteration"):
        Preconditioned(load("beno-4-corners"))
    with pytest.raises(BenoError, match="with walls that fix u; with Neumann walls alone none does"):
        dirichlet.prepare(poisson_operator(ring(16), Kind.NEUMANN))
    with pytest.raises(BenoError, match="trained for poisson, not for darcy"):
        dirichlet.prepare(darcy_operator(ring(16), smooth))


def test_weights_that_have_learned_nothing_are_slow_but_right(dirichlet):
    torch.manual_seed(0)
    header = dirichlet.operator.header
    model = type(dirichlet.operator.model)(dirichlet.operator.model.config)
    untrained = LearnedOperator(header, model)
    operator = poisson_operator(ring(16))
    right = random_right(operator, 0)
    prepared, trained = Preconditioned(untrained, TOLERANCE).prepare(operator), dirichlet.prepare(operator)
    assert relative(prepared(right), Direct().prepare(operator)(right)) < 1e-6
    trained(right)
    assert prepared.report.iterations > 1.5 * trained.report.iterations
