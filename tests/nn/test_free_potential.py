"""The potential of Neumann problems: the solution on rectangles, a split that the scheme agrees with everywhere."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given

from beno.dense import potentials_of
from beno.finite_volume import solve
from beno.geometry import Domain
from beno.nn.free_potential import FreePotential
from tests.strategies import domains, random_problem, seeds


def centred(u):
    return u - u.mean()


@given(domains(2), seeds)
def test_what_is_left_is_the_same_problem_without_a_source(domain, seed):
    problem = random_problem(domain, "poisson", "neumann", seed)
    of_f, of_g = potentials_of(problem)
    left = problem.g - of_f.normal_derivative - of_g.normal_derivative
    rest = solve(replace(problem, source=np.zeros_like(problem.source), g=left)).u
    u = centred(rest + of_f.at_points + of_g.at_points)
    exact = solve(problem).u
    np.testing.assert_allclose(u, centred(exact), atol=1e-9 * (1 + np.abs(exact).max()))


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
    potential = FreePotential(domain, torch.device("cpu"), torch.float64)(f, g)
    left = (g - potential.normal_derivative)[0].numpy()
    assert (left != 0).sum() == 9 + 7 + 5 + 12, "the walls of the cuts alone"
    assert np.linalg.norm(left) < 0.5 * np.linalg.norm(problem.g)
