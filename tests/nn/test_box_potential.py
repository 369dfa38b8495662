"""The potential that takes f away: a split that the scheme agrees with, and on rectangles often the solution."""

import itertools
from dataclasses import replace

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from beno.batches.panels import potentials_of
from beno.geometry.grid import Domain
from beno.nn.box_potential import BoxPotential
from beno.problems.problem import Problem
from beno.problems.walls import Kind, Walls
from beno.solvers.direct import Direct
from beno.solvers.potential import SourcePotential
from tests.strategies import BOUNDARIES, annulus, domains, random_problem, seeds, with_operator

CPU = torch.device("cpu")


def centred(u):
    return u - u.mean()


def trace(problem: Problem, potential):
    """What g is for a potential."""
    return problem.walls.acting.trace(potential.at_panels, potential.slope)


def box_potential(problem: Problem):
    f, g = (torch.as_tensor(field)[None] for field in (problem.f, problem.g))
    return BoxPotential(problem.domain, problem.walls.acting.kind, CPU, torch.float64)(f, g)


def assert_is_the_solution(problem: Problem, v) -> None:
    exact = Direct().solve(problem).u
    np.testing.assert_allclose(centred(v), centred(exact), atol=1e-10 * (1 + np.abs(exact).max()))


@given(domains(2), st.sampled_from(BOUNDARIES), seeds)
@example(annulus(), "mixed", 0)
def test_splitting_off_the_potentials_is_exact(domain, boundary, seed):
    problem = random_problem(domain, "poisson", boundary, seed)
    of_f, of_g = potentials_of(problem)
    residual = problem.g - trace(problem, of_f) - trace(problem, of_g)
    rest = Direct().solve(problem.with_data(0.0, residual)).u
    u, exact = rest + of_f.at_points + of_g.at_points, Direct().solve(problem).u
    u = problem.operator.without_constant(u)
    np.testing.assert_allclose(u, exact, atol=1e-9 * (1 + np.abs(exact).max()))


@given(domains(2), st.sampled_from(["dirichlet", "robin"]), seeds)
def test_without_neumann_walls_it_is_the_source_potential(domain, boundary, seed):
    problem = random_problem(domain, "poisson", boundary, seed)
    expected, ours = SourcePotential(problem.operator)(problem.f), box_potential(problem)
    for name in ("at_points", "at_panels", "slope"):
        np.testing.assert_allclose(getattr(ours, name)[0].numpy(), getattr(expected, name), atol=1e-10)


def test_whole_sides_of_either_kind_are_met_exactly():
    """A rectangle with Neumann walls on some sides, and zero on the others."""
    domain = Domain.square(12)
    plain = random_problem(domain, "poisson", "dirichlet", 1)
    for free in itertools.product([False, True], repeat=4):
        kind = np.where(np.array(free)[domain.panels.direction], Kind.NEUMANN, Kind.DIRICHLET)
        problem = with_operator(plain, walls=Walls(kind, np.zeros(len(kind))))
        problem = problem.with_data(g=np.where(kind == Kind.NEUMANN, problem.g, 0.0)).balanced()
        of_f, of_g = potentials_of(problem)
        np.testing.assert_allclose(trace(problem, of_f) + trace(problem, of_g), problem.g, atol=1e-12)
        assert_is_the_solution(problem, of_f.at_points + of_g.at_points)


def test_a_constant_needs_no_potential():
    problem = random_problem(Domain.square(9, [(3, 2), None, None, (2, 2)]), "poisson", "mixed", 4)
    constant = problem.walls.trace(np.full_like(problem.g, 3.0), 0 * problem.g)
    for potential in potentials_of(problem.with_data(0.0, constant)):
        assert not potential.at_points.any() and not trace(problem, potential).any()


@given(seeds)
def test_on_a_rectangle_of_neumann_walls_it_is_the_solution(seed):
    mask = np.zeros((12, 12), dtype=bool)
    mask[2:9, 4:] = True
    problem = random_problem(Domain.from_mask(mask), "poisson", "neumann", seed)
    of_f, of_g = potentials_of(problem)
    np.testing.assert_allclose(of_f.slope + of_g.slope, problem.g, atol=1e-12)
    assert_is_the_solution(problem, of_f.at_points + of_g.at_points)


def test_only_walls_within_the_box_are_left_with_a_flow_and_a_small_one():
    domain = Domain.square(32, [(9, 7), None, (5, 12), None])
    problem = random_problem(domain, "poisson", "neumann", 3)
    residual = problem.g - box_potential(problem).slope[0].numpy()
    assert (residual != 0).sum() == 9 + 7 + 5 + 12, "the walls of the cuts alone"
    assert np.linalg.norm(residual) < 0.5 * np.linalg.norm(problem.g)


@given(domains(2), st.sampled_from(BOUNDARIES), seeds)
def test_many_right_hand_sides_at_once_are_each_as_one_alone(domain, boundary, seed):
    problem = random_problem(domain, "poisson", boundary, seed)
    other = replace(problem, right=-2 * problem.right)
    f, g = (torch.as_tensor(np.stack([getattr(p, name) for p in (problem, other)])) for name in ("f", "g"))
    together = BoxPotential(domain, problem.walls.acting.kind, CPU, torch.float64)(f, g)
    for row, one in enumerate((problem, other)):
        for name in ("at_points", "at_panels", "slope"):
            alone = getattr(box_potential(one), name)[0]
            torch.testing.assert_close(getattr(together, name)[row], alone, atol=1e-10, rtol=1e-10)
