from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.problem import Kind, Problem, darcy
from beno.solvers.box import grid_potential
from beno.solvers.factorised_box import FactorisedPotential
from beno.solvers.finite_volumes import solve
from beno.support.errors import BenoError
from tests.strategies import BOUNDARIES, annulus, domains, problems, random_problem, seeds


def without_source(problem: Problem) -> Problem:
    """The source-free problem that u - v solves: v's own boundary data are taken off g."""
    v = grid_potential(problem)
    robin = problem.alpha * v.at_panels + v.normal_derivative
    taken_off = np.choose(problem.kind, [v.at_panels, v.normal_derivative, robin])
    return replace(problem, source=np.zeros_like(problem.source), g=problem.g - taken_off)


@given(domains(), st.sampled_from(["poisson", "darcy"]), st.sampled_from(BOUNDARIES), seeds)
@example(annulus(), "poisson", "mixed", 0)
@example(annulus(), "darcy", "mixed", 0)
@example(annulus(), "darcy", "neumann", 0)
def test_splitting_off_v_is_exact(domain, equation, boundary, seed):
    problem = random_problem(domain, equation, boundary, seed)
    u = solve(problem).u
    again = solve(without_source(problem)).u + grid_potential(problem).at_points
    if problem.is_pure_neumann:
        again -= again.mean()
    np.testing.assert_allclose(again, u, rtol=0, atol=1e-10 * max(1.0, np.abs(u).max()))


@given(st.integers(1, 12), st.sampled_from(["poisson", "darcy"]), seeds)
def test_v_on_the_whole_box_is_the_solution_with_zero_walls(resolution, equation, seed):
    """A box is its own bounding box: there v is u for g = 0, with kappa at the walls that of the cells."""
    box = Domain.square(resolution)
    problem = random_problem(box, equation, "dirichlet", seed).split()[0]
    if equation == "darcy":
        problem = replace(problem, panel_coefficient=problem.coefficient[box.panels.cell])
    v = grid_potential(problem)
    np.testing.assert_allclose(v.at_points, solve(problem).u, atol=1e-10)
    np.testing.assert_allclose(v.at_panels, 0, atol=1e-10)


@given(problems())
def test_v_does_not_depend_on_the_boundary_conditions(problem):
    other = replace(problem, g=problem.g + 1, kind=np.full_like(problem.kind, Kind.DIRICHLET))
    for name in ("at_points", "at_panels", "normal_derivative"):
        np.testing.assert_array_equal(getattr(grid_potential(other), name), getattr(grid_potential(problem), name))


@given(problems(), st.floats(0.1, 3))
def test_v_is_proportional_to_the_source(problem, factor):
    v, scaled = grid_potential(problem), grid_potential(replace(problem, source=factor * problem.source))
    for name in ("at_points", "at_panels", "normal_derivative"):
        expected = factor * getattr(v, name)
        np.testing.assert_allclose(
            getattr(scaled, name), expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max())
        )


@given(problems())
def test_trace_and_slope_of_v_meet_half_a_cell_from_the_wall(problem):
    v, panels = grid_potential(problem), problem.domain.panels
    expected = v.at_points[panels.cell] + v.normal_derivative * problem.domain.spacing / 2
    np.testing.assert_allclose(v.at_panels, expected, atol=1e-12)


@pytest.mark.parametrize("resolution", [16, 64, 128])
def test_splitting_off_v_is_exact_for_rough_kappa_on_every_grid(resolution):
    domain = Domain.square(resolution, [(resolution // 4, resolution // 8), None, None, None])
    kappa = 40 ** np.random.default_rng(0).uniform(size=len(domain.points))
    problem = darcy(domain, kappa, lambda x, y: np.sin(5 * x) - y, lambda x, y: x * y)
    u = solve(problem).u
    again = solve(without_source(problem)).u + grid_potential(problem).at_points
    np.testing.assert_allclose(again, u, rtol=0, atol=1e-9 * np.abs(u).max())


def test_smooth_kappa_may_have_any_contrast():
    problem = darcy(Domain.square(32), lambda x, y: 1e6 ** (np.sin(12 * x) * np.cos(10 * y)), 1.0)
    problem = replace(problem, panel_coefficient=problem.coefficient[problem.domain.panels.cell])
    u = solve(problem).u
    np.testing.assert_allclose(grid_potential(problem).at_points, u, rtol=0, atol=1e-9 * np.abs(u).max())


def test_kappa_beyond_reach_is_refused_with_its_contrast():
    kappa = 1e10 ** np.random.default_rng(0).uniform(size=16 * 16)
    with pytest.raises(BenoError, match=r"contrast of 8\.8e\+09"):
        grid_potential(darcy(Domain.square(16), kappa, 1.0))


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-300, 1e-155, 1e200])
def test_source_may_be_of_any_size(size):
    problem = random_problem(Domain.square(8), "darcy", "dirichlet", seed=0)
    problem = replace(problem, source=np.sign(problem.source))
    v, scaled = grid_potential(problem), grid_potential(replace(problem, source=size * problem.source))
    np.testing.assert_allclose(scaled.at_points, size * v.at_points, rtol=1e-9)


@settings(deadline=None)
@given(domains(2), seeds)
def test_factorised_once_it_is_the_same_for_many_sources(domain, seed):
    rng = np.random.default_rng(seed)
    problem = darcy(domain, lambda x, y: 1 + 2 * x + np.sin(3 * y) ** 2)
    sources = rng.normal(size=(3, len(domain.points)))
    together = FactorisedPotential(problem)(sources)
    for number, source in enumerate(sources):
        alone = grid_potential(replace(problem, source=source))
        for name in ("at_points", "at_panels", "normal_derivative"):
            expected = getattr(alone, name)
            np.testing.assert_allclose(getattr(together, name)[number], expected, atol=1e-8 * np.abs(expected).max())
