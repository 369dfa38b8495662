"""Gradients of u in f and g through every exact solver, of first and second order."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from beno.geometry.grid import Domain
from beno.problems.right_hand_side import RightHandSide
from beno.solvers.device.capacitance import Capacitance
from beno.solvers.device.gradients import ConjugateGradients
from beno.solvers.direct import Direct
from beno.solvers.gauss_seidel import GaussSeidel
from beno.solvers.multigrid import Multigrid
from tests.strategies import BOUNDARIES, random_problem, random_right

DOMAIN = Domain.square(5, [(2, 1), None, None, (1, 2)])
SOLVERS = {
    "capacitance": Capacitance(tolerance=1e-13),
    "gradients": ConjugateGradients(tolerance=1e-13),
    "near gradients": ConjugateGradients(tolerance=1e-13, nearby="capacitance"),
    "direct": Direct(),
    "multigrid": Multigrid(tolerance=1e-13),
    "gauss-seidel": GaussSeidel(tolerance=1e-13),
}
every_solver = pytest.mark.parametrize("name", SOLVERS)
every_wall = pytest.mark.parametrize("boundary", BOUNDARIES)
every_law = pytest.mark.parametrize("equation", ["poisson", "darcy"])


def prepared_of(name, equation, boundary):
    return SOLVERS[name].prepare(random_problem(DOMAIN, equation, boundary, 0).operator)


def tensors(right):
    return tuple(torch.tensor(field, requires_grad=True) for field in (right.f, right.g))


@every_solver
@every_law
@every_wall
def test_gradients_are_those_of_differences(name, equation, boundary):
    prepared = prepared_of(name, equation, boundary)
    operator = prepared.operator

    def answer(f, g):
        """In balance however f and g are changed."""
        return prepared(operator.balanced(RightHandSide(f, g)))

    inputs = tensors(random_right(operator, 1, rows=2))
    assert torch.autograd.gradcheck(answer, inputs, eps=1e-4, atol=1e-6, fast_mode=True)
    if name == "capacitance":
        assert torch.autograd.gradgradcheck(lambda f, g: answer(f, g) ** 2, inputs, eps=1e-4, atol=1e-5, fast_mode=True)


@every_solver
@every_wall
def test_apply_alone_has_the_gradients_of_a_symmetric_map(name, boundary):
    """Also out of balance: the mean is taken off what comes in and what comes out."""
    prepared = prepared_of(name, "darcy", boundary)
    f, g = tensors(random_right(prepared.operator, 1))
    assert torch.autograd.gradcheck(
        lambda f, g: prepared.apply(RightHandSide(f, g)), (f, g), eps=1e-4, atol=1e-6, fast_mode=True
    )


@every_solver
@every_wall
def test_tensors_are_answered_as_arrays_are(name, boundary):
    prepared = prepared_of(name, "darcy", boundary)
    right = random_right(prepared.operator, 2, rows=3)
    f, g = tensors(right)
    u = prepared(RightHandSide(f, g))
    assert u.requires_grad and u.shape == f.shape and prepared.report.iterations >= 1
    np.testing.assert_allclose(u.detach(), prepared(right), atol=1e-9)
    half = prepared.apply(RightHandSide(f.detach().float()[0], g.detach().float()[0]))
    assert half.dtype == torch.float32 and not half.requires_grad


def test_one_field_may_need_gradients_and_the_other_not():
    prepared = prepared_of("capacitance", "poisson", "mixed")
    f, g = tensors(random_right(prepared.operator, 0))
    prepared(RightHandSide(f.detach(), g)).sum().backward()
    assert f.grad is None and g.grad is not None


def test_a_source_is_found_from_what_it_does():
    """Descent on f alone brings u to what it should be: the gradient points the right way."""
    prepared = replace(SOLVERS["capacitance"], tolerance=1e-10).prepare(
        random_problem(DOMAIN, "poisson", "dirichlet", 0).operator
    )
    wanted = prepared(random_right(prepared.operator, 3))
    f = torch.zeros(len(DOMAIN.points), dtype=torch.float64, requires_grad=True)
    g = torch.as_tensor(random_right(prepared.operator, 3).g)
    optimiser = torch.optim.LBFGS([f], max_iter=200, tolerance_grad=1e-14, tolerance_change=1e-16)

    def loss():
        optimiser.zero_grad()
        value = (prepared(RightHandSide(f, g)) - torch.as_tensor(wanted)).square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    np.testing.assert_allclose(prepared(RightHandSide(f.detach(), g)), wanted, atol=1e-5)
