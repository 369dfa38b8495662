"""The stencil is the scheme's matrix, for every law, wall and shape; and the equations' vectors are the scheme's."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.right_hand_side import RightHandSide
from beno.solvers.box import filled
from beno.solvers.device.stencil import Equations, Stencil, ToleranceMissed, as_given, as_tensors
from beno.solvers.finite_volumes import assemble
from tests.strategies import BOUNDARIES, domains, problems, random_problem, random_right, seeds

CPU = torch.device("cpu")


def pictures_of(operator, rows):
    return torch.as_tensor(filled(operator.grid, rows))


@given(problem=problems(), seed=seeds)
def test_it_is_the_schemes_matrix(problem, seed):
    operator = problem.operator
    u = np.random.default_rng(seed).normal(size=(2, len(operator.domain.points)))
    image = Stencil.of([operator], CPU)(pictures_of(operator, u)).numpy()
    expected = (assemble(operator).matrix @ u.T).T
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(image[:, operator.grid.mask], expected, atol=1e-13 * size)


@settings(max_examples=15)
@given(many=st.lists(problems(smallest=7), min_size=1, max_size=4), seed=seeds)
def test_operators_side_by_side_are_each_of_them_alone(many, seed):
    operators = [problem.operator for problem in many]
    largest = max(operator.grid.resolution for operator in operators)
    operators = [operator for operator in operators if operator.grid.resolution == largest]
    u = torch.as_tensor(np.random.default_rng(seed).normal(size=(len(operators), largest, largest)))
    together = Stencil.of(operators, CPU)
    image = together(u * together.inside)
    for number, operator in enumerate(operators):
        alone = Stencil.of([operator], CPU)
        torch.testing.assert_close(image[number], alone(u[number] * alone.inside)[0], rtol=0, atol=1e-12)
        np.testing.assert_array_equal(together.inside[number], operator.grid.mask)


@given(problem=problems())
def test_nothing_joins_the_domain_to_the_outside(problem):
    stencil = Stencil.of([problem.operator], CPU)
    mask = torch.tensor(problem.domain.mask)
    assert not stencil.diagonal[0][~mask].any() and not stencil.east[0][~mask].any()
    assert not stencil.north[0][~mask].any() and not stencil.east[0][-1].any() and not stencil.north[0][:, -1].any()


@given(problem=problems(), seed=seeds)
def test_the_vectors_are_the_schemes_and_come_back_from_pictures(problem, seed):
    operator = problem.operator
    right = random_right(operator, seed, rows=3)
    equations = Equations(operator, CPU)
    rows = equations.vectors(*as_tensors(right, CPU, torch.float64))
    expected = assemble(operator).vector(right)
    np.testing.assert_allclose(rows, expected, atol=1e-13 * max(1.0, np.abs(expected).max()))
    pictures = equations.pictures(rows)
    np.testing.assert_array_equal(pictures, filled(operator.grid, rows.numpy()))
    np.testing.assert_array_equal(equations.at_points(pictures), rows)


@given(problem=problems(), seed=seeds)
def test_a_constant_is_taken_off_where_it_is_free(problem, seed):
    rows = torch.as_tensor(np.random.default_rng(seed).normal(size=(2, len(problem.domain.points))))
    without = Equations(problem.operator, CPU).without_mean(rows)
    if problem.operator.leaves_constant_free:
        assert without.mean(dim=1).abs().max() < 1e-14
        np.testing.assert_allclose(rows - without, rows.mean(dim=1, keepdim=True).expand_as(rows), atol=1e-14)
    else:
        assert without is rows


def test_single_precision_is_that():
    operators = [random_problem(Domain.square(6), "darcy", "mixed", seed).operator for seed in range(2)]
    single, double = Stencil.of(operators, CPU, torch.float32), Stencil.of(operators, CPU)
    assert single.diagonal.dtype == single.east.dtype == torch.float32
    torch.testing.assert_close(single.diagonal.double(), double.diagonal, rtol=1e-6, atol=0)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_law_that_does_not_vary_needs_no_faces(boundary):
    """Kappa of one everywhere, by either way of assembling."""
    problem = random_problem(Domain.square(8, [(3, 2), None, (1, 1), None]), "darcy", boundary, 0)
    ones = np.ones(len(problem.domain.points)), np.ones(len(problem.domain.panels))
    uniform = random_problem(problem.domain, "poisson", boundary, 0).operator
    darcy = type(problem.operator)(uniform.domain, type(problem.law)(*ones), uniform.walls)
    one, other = Stencil.of([uniform], CPU), Stencil.of([darcy], CPU)
    for name in ("diagonal", "east", "north", "inside"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=1e-13)


@given(domain=domains(2))
def test_what_is_given_comes_back_in_its_form(domain):
    n, p = len(domain.points), len(domain.panels)
    f, g = np.ones(n), np.ones(p)
    for right in (RightHandSide(f, g), RightHandSide(np.stack([f, f]), np.stack([g, g]))):
        rows, _ = as_tensors(right, CPU, torch.float64)
        assert rows.ndim == 2
        back = as_given(rows, right)
        assert isinstance(back, np.ndarray) and back.shape == right.f.shape
        tensors = RightHandSide(torch.as_tensor(right.f).float(), torch.as_tensor(right.g).float())
        back = as_given(as_tensors(tensors, CPU, torch.float64)[0], tensors)
        assert isinstance(back, torch.Tensor) and back.dtype == torch.float32 and back.shape == right.f.shape


def test_an_error_names_what_it_is_about():
    assert "for row 3;" in str(ToleranceMissed("it", [3], 1e-3))
    assert "for rows 0, 1, 2, 3, 4 and others;" in str(ToleranceMissed("it", list(range(7)), 1e-3))
    assert ToleranceMissed.unless(torch.tensor([True, False, False]), "it", 1e-3).rows == [1, 2]
    again = pickle.loads(pickle.dumps(ToleranceMissed("it", [3], 1e-3)))
    assert again.rows == [3] and "for row 3;" in str(again)
