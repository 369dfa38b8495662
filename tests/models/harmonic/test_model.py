"""What the harmonic operator obeys by construction, with whatever weights."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beno.batches.panels import PanelBatches
from beno.datasets.scales import Scales
from beno.evaluation.metrics import relative_l2
from beno.geometry.grid import Domain
from beno.models.harmonic import model as harmonic
from beno.problems.families import Family
from beno.problems.law import Darcy
from beno.problems.problem import poisson
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from tests.learning import harmonic_operator, operator_of, small_model, solutions_of
from tests.strategies import domains, random_problem, random_right, seeds, with_operator

BOUNDARIES = ["dirichlet", "neumann", "robin", "mixed"]


@given(domains(2), seeds, seeds)
def test_dirichlet_walls_obey_the_maximum_principle_and_keep_constants(domain, seed, weights):
    operator = harmonic_operator(seed=weights)
    g = np.random.default_rng(seed).normal(size=len(domain.panels))
    u = operator.solve(poisson(domain, g=g)).u
    assert g.min() - 1e-5 <= u.min() and u.max() <= g.max() + 1e-5
    np.testing.assert_allclose(operator.solve(poisson(domain, g=3.0)).u, 3.0, rtol=1e-5)
    matrix = operator.assemble(domain).matrix
    assert (matrix >= 0).all() and torch.allclose(matrix.sum(dim=1), torch.ones(len(matrix)), atol=1e-5)


@given(domains(2), st.sampled_from(["robin", "mixed"]), st.sampled_from(["poisson", "darcy"]), seeds)
def test_walls_of_other_kinds_keep_constants_too(domain, boundary, equation, seed):
    operator, problem = harmonic_operator(equation, boundary), random_problem(domain, equation, boundary, seed)
    constant = problem.walls.trace(np.full_like(problem.g, 3.0), 0 * problem.g)
    np.testing.assert_allclose(operator.solve(problem.with_data(0.0, constant)).u, 3.0, rtol=1e-4)


@given(domains(2), st.sampled_from(BOUNDARIES), st.sampled_from(["poisson", "darcy"]), seeds, st.floats(-3, 3))
def test_u_is_linear_in_f_and_g(domain, boundary, equation, seed, factor):
    operator, one = harmonic_operator(equation, boundary), random_problem(domain, equation, boundary, seed)
    other = type(one)(one.operator, random_right(one.operator, seed + 1))
    both = type(one)(one.operator, one.right + factor * other.right).balanced()
    u, v = operator.solve(one).u, operator.solve(other).u
    size = 1 + np.abs(u).max() + np.abs(v).max()
    np.testing.assert_allclose(operator.solve(both).u, u + factor * v, atol=3e-4 * size)


def test_untrained_it_is_the_kernel_of_a_straight_wall():
    """And by that already as close as what the paper reports for its trained model."""
    operator = operator_of(small_model("harmonic", noise=0.0))
    solution = Direct().solve(Family(corners=0).problem(0, 0))
    assert relative_l2(operator.solve(solution.problem).u, solution.u) < 0.55


def test_where_a_constant_is_free_u_has_no_mean():
    solution = harmonic_operator(boundary="neumann").solve(Family(boundary="neumann", resolution=8).problem(1, 0))
    assert abs(solution.u.mean()) < 1e-6


def test_a_robin_wall_without_alpha_is_a_neumann_wall():
    operator, domain = harmonic_operator(boundary="mixed"), Domain.square(8)
    kind = np.where(domain.panels.normals[:, 0] > 0, Kind.ROBIN, Kind.DIRICHLET)
    as_neumann = np.where(kind == Kind.ROBIN, Kind.NEUMANN, kind)
    one, other = (operator.solve(poisson(domain, 1.0, 0.5, kinds, alpha=0.0)).u for kinds in (kind, as_neumann))
    np.testing.assert_allclose(one, other, atol=1e-6)


@given(domains(3), seeds, st.floats(1e-6, 1e6))
def test_the_unit_of_kappa_does_not_matter(domain, seed, factor):
    operator, problem = harmonic_operator("darcy"), random_problem(domain, "darcy", "dirichlet", seed)
    law = Darcy(factor * problem.law.coefficient, factor * problem.law.panel_coefficient)
    scaled = with_operator(problem, law=law).with_data(factor * problem.f, problem.g)
    u = operator.solve(problem).u
    np.testing.assert_allclose(operator.solve(scaled).u, u, atol=2e-4 * (1 + np.abs(u).max()))


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
def test_there_is_no_jump_at_the_walls(boundary):
    """The walls of the square belong to it, the far ones too."""
    operator, domain = harmonic_operator(boundary=boundary), Domain.square(16)
    g = (lambda x, y: np.sin(3 * x) + y) if boundary == "dirichlet" else (lambda x, y: (x == 1) * 1.0 - (x == 0))
    solution = operator.solve(poisson(domain, g=g, kind=Kind[boundary.upper()]))
    on_walls = domain.panels.centres[[0, 20, 33, 50]]
    inside = on_walls - 1e-5 * domain.panels.normals[[0, 20, 33, 50]]
    np.testing.assert_allclose(solution.at(on_walls), solution.at(inside), atol=1e-3)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_kernel_made_a_few_points_at_a_time_is_the_whole_kernel(boundary, monkeypatch):
    model = harmonic_operator(boundary=boundary).model
    batch = PanelBatches.of(solutions_of(2, boundary=boundary), Scales()).batch()
    with torch.no_grad():
        (whole,) = model.kernel(batch)
        monkeypatch.setattr(harmonic, "PAIRS_AT_ONCE", {"cpu": 5 * batch.has_panel.numel()})
        pieces = list(model.kernel(batch))
    assert len(pieces) == -(-whole.shape[1] // 5)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole)


@given(domains(2), seeds)
def test_the_answer_is_the_potential_and_the_kernel_times_what_is_left(domain, seed):
    """u = v + W (g - trace of v), branch by branch."""
    problem = random_problem(domain, "poisson", "mixed", seed)
    model, batch = harmonic_operator(boundary="mixed").model, PanelBatches.of([problem], Scales()).batch()
    with torch.no_grad():
        (kernel,) = model.kernel(batch)
        branches = model.branches(batch)
    expected = (batch.potential + kernel @ batch.boundary_residual).permute(2, 0, 1)
    torch.testing.assert_close(branches, expected, atol=1e-5, rtol=1e-5)


def test_f_makes_nothing_of_a_right_hand_side_without_it():
    problem = random_problem(Domain.square(8), "poisson", "dirichlet", 0)
    no_source = type(problem)(problem.operator, RightHandSide(0 * problem.f, problem.g))
    (branches,) = harmonic_operator().predict_branches([no_source])
    assert not branches[0].any() and branches[1].any()
