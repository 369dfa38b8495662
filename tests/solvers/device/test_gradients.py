"""Conjugate gradients meet their tolerance for many problems at once and for many right-hand sides of one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from beno.geometry.gallery import SHAPES, ring
from beno.geometry.grid import Domain
from beno.problems.operator import darcy_operator, poisson_operator
from beno.problems.problem import Problem
from beno.solvers.device import gradients
from beno.solvers.device.gradients import ConjugateGradients
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.solvers.device.shapes import in_pieces, operators, smooth
from tests.strategies import BOUNDARIES, random_problem, random_right, seeds

PRECISE = ConjugateGradients(tolerance=1e-12)
nearby = pytest.mark.parametrize("nearby", ["box", "capacitance"])


def relative(u, expected):
    return np.abs(u - expected).max() / max(1e-300, np.abs(expected).max())


def problem_of(operator, seed=0):
    return Problem(operator, random_right(operator, seed))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("equation", ["poisson", "darcy"])
def test_many_problems_of_several_sizes_are_each_the_direct_solution(equation, boundary):
    problems = [
        random_problem(make(size), equation, boundary, seed)
        for seed, (make, size) in enumerate((make, size) for make in SHAPES.values() for size in (16, 24))
    ]
    problems.append(random_problem(Domain.square(16), equation, boundary, 9))
    solutions = PRECISE.solve_many(problems)
    for problem, solution in zip(problems, solutions, strict=True):
        assert solution.problem is problem and solution.report.solver == ConjugateGradients.name
        assert relative(solution.u, Direct().solve(problem).u) < 1e-9


@settings(max_examples=15)
@given(many=st.lists(operators(smooth, contrast=10.0, largest=12), min_size=1, max_size=5), seed=seeds)
def test_problems_together_are_as_each_alone(many, seed):
    problems = [problem_of(operator, seed) for operator in many]
    for problem, solution in zip(problems, PRECISE.solve_many(problems), strict=True):
        assert relative(solution.u, PRECISE.solve_many([problem])[0].u) < 1e-8
        assert relative(solution.u, Direct().solve(problem).u) < 1e-8


def test_laws_and_walls_may_be_of_all_kinds_side_by_side():
    problems = [
        random_problem(ring(16), equation, boundary, 3) for equation in ("poisson", "darcy") for boundary in BOUNDARIES
    ]
    for problem, solution in zip(problems, PRECISE.solve_many(problems), strict=True):
        assert relative(solution.u, Direct().solve(problem).u) < 1e-9


@nearby
@pytest.mark.parametrize("contrast", [10.0, 1000.0])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_for_darcy_of_every_contrast_it_is_the_direct_solution(boundary, contrast, nearby):
    walls = random_problem(ring(24), "poisson", boundary, 0).walls
    operator = darcy_operator(ring(24), smooth(contrast, 0), walls.kind, walls.alpha)
    right = random_right(operator, 1, rows=3)
    prepared = replace(PRECISE, nearby=nearby).prepare(operator)
    assert relative(prepared(right), Direct().prepare(operator)(right)) < 1e-9
    assert 1 < prepared.report.iterations <= 200


@nearby
@settings(max_examples=15)
@given(operator=operators(in_pieces, contrast=100.0), seed=seeds)
def test_the_residual_is_within_the_tolerance_on_every_shape(nearby, operator, seed):
    right = random_right(operator, seed, rows=2)
    prepared = ConjugateGradients(tolerance=1e-8, nearby=nearby).prepare(operator)
    u = torch.as_tensor(prepared(right))
    vectors = prepared._equations.vectors(torch.as_tensor(right.f), torch.as_tensor(right.g))
    image = prepared._equations.at_points(prepared._stencil(prepared._equations.pictures(u)))
    assert ((vectors - image).norm(dim=1) <= 1.01e-8 * vectors.norm(dim=1)).all()


def test_the_nearer_inverse_takes_fewer_steps():
    operator = darcy_operator(ring(32), smooth(10.0, 0))
    right = random_right(operator, 0)
    steps = {}
    for name in ("box", "capacitance"):
        prepared = ConjugateGradients(nearby=name).prepare(operator)
        prepared(right)
        steps[name] = prepared.report.iterations
    assert steps["capacitance"] < steps["box"] / 2


@nearby
def test_tensors_come_back_as_tensors_and_it_is_linear(nearby):
    operator = random_problem(ring(16), "darcy", "mixed", 0).operator
    prepared = replace(PRECISE, nearby=nearby).prepare(operator)
    one, other = random_right(operator, 0, rows=2), random_right(operator, 1, rows=2)
    parts = prepared(one), prepared(other)
    size = max(np.abs(part).max() for part in parts)
    np.testing.assert_allclose(prepared(2 * one - 3 * other), 2 * parts[0] - 3 * parts[1], atol=1e-9 * size)
    u = prepared.solve(torch.as_tensor(one.f).float(), torch.as_tensor(one.g).float())
    assert isinstance(u, torch.Tensor) and u.dtype == torch.float32
    np.testing.assert_allclose(u, parts[0], atol=1e-4 * size)
    np.testing.assert_allclose(prepared(one[0]), parts[0][0], atol=1e-9 * size)


def test_those_that_miss_the_tolerance_are_named():
    solvable = poisson_operator(Domain.square(8))
    problems = [Problem(solvable, solvable.right(0.0, 0.0)), problem_of(poisson_operator(ring(8)))]
    with pytest.raises(BenoError, match=r"conjugate gradients has not met the tolerance of 1.0e-12 for row 1;"):
        replace(PRECISE, most_steps=2).solve_many(problems)
    operator = poisson_operator(ring(8))
    with pytest.raises(BenoError, match=r"for rows 0, 1;"):
        ConjugateGradients(tolerance=1e-30).prepare(operator)(random_right(operator, 0, rows=2))


def test_those_of_several_sizes_are_named_by_their_place_among_all():
    easy, hard = poisson_operator(Domain.square(8)), poisson_operator(ring(16))
    problems = [Problem(easy, easy.right(0.0, 0.0)), Problem(easy, easy.right(0.0, 0.0)), problem_of(hard)]
    with pytest.raises(BenoError, match=r"for row 2;"):
        replace(PRECISE, most_steps=2).solve_many(problems)


def test_zeros_are_answered_with_zeros():
    for operator in (poisson_operator(ring(8)), darcy_operator(ring(8), smooth(10.0, 0))):
        prepared = ConjugateGradients().prepare(operator)
        assert not prepared(0 * random_right(operator, 0, rows=2)).any()
        assert prepared.report.iterations == 0


def test_no_more_cells_are_worked_on_together_than_fit(monkeypatch):
    problems = [random_problem(ring(8), "poisson", "dirichlet", seed) for seed in range(5)]
    whole = PRECISE.solve_many(problems)
    monkeypatch.setitem(gradients.MOST_CELLS_TOGETHER, "cpu", 128)
    for one, other in zip(whole, PRECISE.solve_many(problems), strict=True):
        np.testing.assert_allclose(one.u, other.u, atol=1e-9)
    assert PRECISE.solve_many([]) == []
