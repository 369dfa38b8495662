"""A particular solution on the box takes the source off a problem, exactly for the scheme."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.law import Darcy
from beno.problems.problem import Problem, darcy
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Walls
from beno.solvers.direct import Direct
from beno.solvers.potential import SourcePotential
from tests.strategies import BOUNDARIES, annulus, domains, problems, random_problem, seeds, with_operator

FIELDS = ("at_points", "at_panels", "slope")


def potential(problem, solver=None):
    return SourcePotential(problem.operator, solver)(problem.f)


def without_source(problem: Problem) -> Problem:
    """The problem without source that u - v solves: what v has at the walls is taken off g."""
    v = potential(problem)
    return Problem(
        problem.operator, RightHandSide(0 * problem.f, problem.g - problem.walls.trace(v.at_panels, v.slope))
    )


def put_together(problem: Problem) -> np.ndarray:
    u = Direct().solve(without_source(problem)).u + potential(problem).at_points
    return problem.operator.without_constant(u)


@given(domains(), st.sampled_from(["poisson", "darcy"]), st.sampled_from(BOUNDARIES), seeds)
@example(annulus(), "poisson", "mixed", 0)
@example(annulus(), "darcy", "mixed", 0)
@example(annulus(), "darcy", "neumann", 0)
def test_splitting_off_v_is_exact(domain, equation, boundary, seed):
    problem = random_problem(domain, equation, boundary, seed)
    u = Direct().solve(problem).u
    np.testing.assert_allclose(put_together(problem), u, rtol=0, atol=1e-10 * max(1.0, np.abs(u).max()))


@given(st.integers(1, 12), st.sampled_from(["poisson", "darcy"]), seeds)
def test_v_on_the_whole_box_is_the_solution_with_zero_walls(resolution, equation, seed):
    """A box is its own bounding box: there v is u for g = 0, with kappa at the walls that of the cells."""
    box = Domain.square(resolution)
    problem = random_problem(box, equation, "dirichlet", seed).split()[0]
    if equation == "darcy":
        kappa = problem.law.coefficient
        problem = with_operator(problem, law=Darcy(kappa, kappa[box.panels.cell]))
    v = potential(problem)
    np.testing.assert_allclose(v.at_points, Direct().solve(problem).u, atol=1e-10)
    np.testing.assert_allclose(v.at_panels, 0, atol=1e-10)


@given(problems())
def test_v_does_not_depend_on_what_the_walls_do(problem):
    other = with_operator(problem, walls=Walls.uniform(len(problem.g)))
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(potential(other), name), getattr(potential(problem), name))


@given(problems(), st.floats(0.1, 3))
def test_v_is_proportional_to_the_source(problem, factor):
    v, scaled = (SourcePotential(problem.operator)(times * problem.f) for times in (1, factor))
    for name in FIELDS:
        expected = factor * getattr(v, name)
        np.testing.assert_allclose(
            getattr(scaled, name), expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max())
        )


@given(problems())
def test_trace_and_slope_of_v_meet_half_a_cell_from_the_wall(problem):
    v, panels = potential(problem), problem.domain.panels
    expected = v.at_points[panels.cell] + v.slope * problem.domain.spacing / 2
    np.testing.assert_allclose(v.at_panels, expected, atol=1e-12 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("resolution", [16, 64])
def test_splitting_off_v_is_exact_for_rough_kappa_on_every_grid(resolution):
    domain = Domain.square(resolution, [(resolution // 4, resolution // 8), None, None, None])
    kappa = 40 ** np.random.default_rng(0).uniform(size=len(domain.points))
    problem = darcy(domain, kappa, lambda x, y: np.sin(5 * x) - y, lambda x, y: x * y)
    u = Direct().solve(problem).u
    np.testing.assert_allclose(put_together(problem), u, rtol=0, atol=1e-9 * np.abs(u).max())


@pytest.mark.parametrize("solver", [None, Direct()], ids=["box", "direct"])
@given(domain=domains(2), equation=st.sampled_from(["poisson", "darcy"]), seed=seeds)
def test_prepared_once_it_is_the_same_for_many_sources(solver, domain, equation, seed):
    problem = random_problem(domain, equation, "dirichlet", seed)
    sources = np.random.default_rng(seed).normal(size=(3, len(domain.points)))
    together = SourcePotential(problem.operator, solver)(sources)
    for number, source in enumerate(sources):
        alone = SourcePotential(problem.operator)(source)
        for name in FIELDS:
            expected = getattr(alone, name)
            np.testing.assert_allclose(getattr(together, name)[number], expected, atol=1e-8 * np.abs(expected).max())
