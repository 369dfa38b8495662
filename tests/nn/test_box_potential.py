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
from beno.problems.problem import Kind
from beno.solvers.box import grid_potential
from beno.solvers.finite_volumes import solve
from tests.strategies import BOUNDARIES, annulus, domains, random_problem, seeds


def centred(u):
    return u - u.mean()


@given(domains(2), st.sampled_from(BOUNDARIES), seeds)
@example(annulus(), "mixed", 0)
def test_what_is_left_is_the_same_problem_without_a_source(domain, boundary, seed):
    problem = random_problem(domain, "poisson", boundary, seed)
    of_f, of_g = potentials_of(problem)
    left = problem.g - of_f.data(problem) - of_g.data(problem)
    rest = solve(replace(problem, source=np.zeros_like(problem.source), g=left)).u
    u, exact = rest + of_f.at_points + of_g.at_points, solve(problem).u
    if problem.is_pure_neumann:
        u, exact = centred(u), centred(exact)
    np.testing.assert_allclose(u, exact, atol=1e-9 * (1 + np.abs(exact).max()))


@given(domains(2), st.sampled_from(["dirichlet", "robin"]), seeds)
def test_without_neumann_walls_it_is_the_grid_potential(domain, boundary, seed):
    problem = random_problem(domain, "poisson", boundary, seed)
    expected = grid_potential(problem)
    f, g = (torch.as_tensor(field)[None] for field in (problem.source, problem.g))
    ours = BoxPotential(domain, problem.acting_kind, torch.device("cpu"), torch.float64)(f, g)
    for name in ("at_points", "at_panels", "normal_derivative"):
        np.testing.assert_allclose(getattr(ours, name)[0].numpy(), getattr(expected, name), atol=1e-10)


def test_whole_sides_of_either_kind_are_met_exactly():
    """A rectangle with Neumann walls on some sides, and zero on the others."""
    domain = Domain.square(12)
    for free in itertools.product([False, True], repeat=4):
        kind = np.where(np.array(free)[domain.panels.direction], Kind.NEUMANN, Kind.DIRICHLET)
        problem = random_problem(domain, "poisson", "dirichlet", 1)
        problem = replace(problem, kind=kind, g=np.where(kind == Kind.NEUMANN, problem.g, 0.0)).balanced()
        of_f, of_g = potentials_of(problem)
        np.testing.assert_allclose(of_f.data(problem) + of_g.data(problem), problem.g, atol=1e-12)
        exact = solve(problem).u
        np.testing.assert_allclose(
            centred(of_f.at_points + of_g.at_points), centred(exact), atol=1e-10 * (1 + np.abs(exact).max())
        )


def test_a_constant_needs_no_potential():
    problem = random_problem(Domain.square(9, [(3, 2), None, None, (2, 2)]), "poisson", "mixed", 4)
    g = np.choose(problem.acting_kind, [np.full_like(problem.g, 3.0), 0 * problem.g, 3 * problem.alpha])
    for potential in potentials_of(replace(problem, source=0 * problem.source, g=g)):
        assert not potential.at_points.any() and not potential.data(problem).any()


@given(seeds)
def test_on_a_rectangle_it_is_the_solution(seed):
    mask = np.zeros((12, 12), dtype=bool)
    mask[2:9, 4:] = True
    problem = random_problem(Domain.from_mask(mask), "poisson", "neumann", seed)
    of_f, of_g = potentials_of(problem)
    np.testing.assert_allclose(of_f.normal_derivative + of_g.normal_derivative, problem.g, atol=1e-12)
    exact = centred(solve(problem).u)
    np.testing.assert_allclose(centred(of_f.at_points + of_g.at_points), exact, atol=1e-10 * (1 + np.abs(exact).max()))


def test_little_is_left_for_the_walls_within():
    domain = Domain.square(32, [(9, 7), None, (5, 12), None])
    problem = random_problem(domain, "poisson", "neumann", 3)
    f, g = (torch.as_tensor(field)[None] for field in (problem.source, problem.g))
    potential = BoxPotential(domain, problem.kind, torch.device("cpu"), torch.float64)(f, g)
    left = (g - potential.normal_derivative)[0].numpy()
    assert (left != 0).sum() == 9 + 7 + 5 + 12, "the walls of the cuts alone"
    assert np.linalg.norm(left) < 0.5 * np.linalg.norm(problem.g)
