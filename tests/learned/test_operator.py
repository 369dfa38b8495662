"""A trained model as a solver: it answers problems one by one or many at once, and none that it was not trained for."""

import numpy as np
import pytest
import torch

from beno.datasets.scales import Scales
from beno.geometry.grid import Domain
from beno.learned.operator import LearnedOperator
from beno.problems.families import Family
from beno.problems.problem import poisson
from beno.problems.walls import Kind
from beno.support.errors import BenoError
from tests.learning import harmonic_operator, operator_of, small_model, solution_with_hole, solutions_of

BOUNDARIES = ["dirichlet", "neumann", "robin", "mixed"]


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("equation", ["poisson", "darcy"])
def test_many_problems_are_answered_as_each_alone(boundary, equation):
    operator = harmonic_operator(equation, boundary)
    problems = [solution.problem for solution in solutions_of(3, equation=equation, boundary=boundary)]
    if (boundary, equation) == ("dirichlet", "poisson"):
        problems.append(solution_with_hole().problem)
    together = operator.predict(problems, batch_size=3)
    for problem, predicted in zip(problems, together, strict=True):
        np.testing.assert_allclose(operator.predict([problem])[0], predicted, atol=1e-5)
        (branches,) = operator.predict_branches([problem])
        assert branches.shape == (2, len(problem.f))
        np.testing.assert_allclose(branches.sum(axis=0), predicted, atol=1e-5)


def test_solutions_are_of_the_problems_given_in_their_order():
    operator = harmonic_operator()
    problems = [Family(corners=corners, resolution=8).problem(6, corners) for corners in (4, 0, 2)]
    solutions = operator.solve_many(problems, batch_size=2)
    for problem, solution in zip(problems, solutions, strict=True):
        assert solution.problem is problem and solution.report.solver == "harmonic"
        np.testing.assert_allclose(solution.u, operator.solve(problem).u, atol=1e-5)
    assert operator.solve_many([]) == []


def test_the_scales_of_training_are_those_of_the_answer():
    """A network in other units, fed and read in the units of the problem."""
    model, problem = small_model("fno"), Family(resolution=8).problem(0, 0)
    plain = operator_of(model).solve(problem).u
    scaled = operator_of(model, scales=Scales(2.0, 3.0, 4.0)).solve(problem.with_data(2 * problem.f, 3 * problem.g)).u
    np.testing.assert_allclose(scaled, 4 * plain, rtol=1e-4, atol=1e-5)


def test_between_its_points_an_answer_is_between_its_values():
    operator, domain = harmonic_operator(), Domain.square(12, [(3, 4), None, None, (2, 2)])
    solution = operator.solve(poisson(domain, f=5.0, g=lambda x, y: np.sin(5 * x) + y))
    np.testing.assert_allclose(solution.at(domain.points[3:9]), solution.u[3:9], atol=1e-5)
    between = (domain.points[40] + domain.points[41]) / 2
    low, high = sorted(solution.u[[40, 41]])
    assert low - 0.5 < solution.at(between[None])[0] < high + 0.5
    with pytest.raises(BenoError, match="outside the domain"):
        solution.at(np.array([[0.01, 0.01]]))


@pytest.mark.parametrize(
    ("trained_for", "equation", "boundary", "message"),
    [
        ("dirichlet", "darcy", "dirichlet", "trained for poisson, not for darcy"),
        ("dirichlet", "poisson", "robin", "trained for dirichlet walls, not for robin"),
        ("dirichlet", "poisson", "neumann", "trained with walls that fix u"),
        ("mixed", "poisson", "neumann", "trained with walls that fix u"),
        ("mixed", "poisson", "robin", "trained with some Dirichlet walls among the others; here is none"),
        ("neumann", "poisson", "mixed", "trained for neumann walls, not for dirichlet"),
    ],
)
def test_problems_of_another_class_are_refused(trained_for, equation, boundary, message):
    solutions = solutions_of(5, equation=equation, boundary=boundary)
    problem = max((solution.problem for solution in solutions), key=lambda problem: len(problem.walls.kinds))
    operator, walls = harmonic_operator(boundary=trained_for), problem.walls
    for refuse in (
        lambda: operator.solve(problem),
        lambda: operator.solve_many([problem]),
        lambda: operator.prepare(problem.operator),
        lambda: operator.assemble(problem.domain, walls.kind, walls.alpha, None if equation == "poisson" else 2.0),
    ):
        with pytest.raises(BenoError, match=f"the problem: this harmonic was {message}"):
            refuse()


def test_a_right_hand_side_out_of_balance_is_refused():
    operator, domain = harmonic_operator(boundary="neumann"), Domain.square(8)
    with pytest.raises(BenoError, match="a pure Neumann problem needs the integral of f"):
        operator.solve(poisson(domain, 1.0, kind=Kind.NEUMANN))


def test_numbers_beyond_single_precision_are_refused_by_a_model_that_is_not_linear():
    with pytest.raises(BenoError, match="the operator's answer is not finite"):
        operator_of(small_model("fno")).solve(poisson(Domain.square(8), g=1e300))


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_numbers_beyond_single_precision_are_no_trouble_to_a_linear_model(size):
    operator, problem = harmonic_operator(), Family(resolution=8).problem(0, 0)
    scaled = operator.solve(problem.with_data(size * problem.f, size * problem.g))
    np.testing.assert_allclose(scaled.u / size, operator.solve(problem).u, rtol=1e-5, atol=1e-6)


def test_a_model_that_is_not_linear_has_no_matrix():
    with pytest.raises(BenoError, match="beno is not linear in f and g and has no matrix; a harmonic operator has"):
        operator_of(small_model("beno")).assemble(Domain.square(8))


def test_a_model_that_is_not_linear_prepares_to_be_fed_row_by_row():
    operator, problem = operator_of(small_model("gkn")), Family(resolution=8).problem(0, 0)
    prepared = operator.prepare(problem.operator)
    rows = prepared.solve(np.stack([problem.f, 3 * problem.f]), np.stack([problem.g, 0 * problem.g]))
    assert rows.shape == (2, len(problem.f))
    np.testing.assert_allclose(rows[0], operator.solve(problem).u, atol=1e-6)
    np.testing.assert_allclose(prepared(problem.right), rows[0], atol=1e-6)


@pytest.mark.parametrize("name", ["beno", "fno", "gkn", "gnn-pde", "mp-pde"])
def test_tensors_come_back_as_tensors_and_gradients_pass_through_any_model(name):
    operator, problem = operator_of(small_model(name)), Family(resolution=8).problem(0, 0)
    prepared, rng = operator.prepare(problem.operator), np.random.default_rng(0)
    f, g = (torch.as_tensor(data).requires_grad_() for data in (problem.f, problem.g))
    u = prepared(problem.operator.right(f, g))
    assert isinstance(u, torch.Tensor) and u.dtype == f.dtype and u.shape == f.shape
    np.testing.assert_allclose(u.detach(), operator.solve(problem).u, atol=1e-5)
    weight = torch.as_tensor(rng.normal(size=len(u)))
    (u @ weight).backward()
    for given, step in ((f, torch.as_tensor(rng.normal(size=len(f)))), (g, torch.as_tensor(rng.normal(size=len(g))))):
        aside = []
        for sign in (1, -1):
            moved = {"f": f.detach(), "g": g.detach()}
            moved["f" if given is f else "g"] = given.detach() + sign * 0.03 * step
            aside.append(prepared.solve(**moved))
        slope = float((aside[0] - aside[1]) @ weight) / 0.06
        assert float(given.grad @ step) == pytest.approx(slope, rel=0.03, abs=0.03 * float(u.detach().norm()))


def test_a_folder_without_weights_is_refused(tmp_path):
    with pytest.raises(BenoError, match=r"has no trained weights: best\.safetensors is missing"):
        LearnedOperator.load(tmp_path)


def test_it_says_what_it_was_trained_for():
    assert repr(harmonic_operator("darcy")) == "LearnedOperator(harmonic, trained for darcy with dirichlet walls)"
