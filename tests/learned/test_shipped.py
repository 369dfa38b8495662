"""The operators that come with the package keep their laws and their promises, from the files that ship."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beno
from beno.evaluation.metrics import relative_l2
from beno.geometry.grid import Domain
from beno.learned.shipped import WEIGHTS, load, name_for, names
from beno.paper.cells import Cells
from beno.paper.tables import TABLES
from beno.problems.families import Family
from beno.problems.problem import Kind, poisson
from beno.solvers.finite_volumes import solve
from beno.support.errors import BenoError
from tests.places import TABLES_FOLDER
from tests.strategies import domains, seeds

# The table and the row that each one's training stands in.
ROWS = {
    "poisson-dirichlet": ("train_mixed", "harmonic"),
    "poisson-neumann": ("neumann_train_mixed", "harmonic"),
    "poisson-mixed": ("kinds_train_mixed", "harmonic"),
    "darcy-dirichlet": ("darcy_train_mixed", "harmonic"),
    "beno-4-corners": ("train_4_corners", "BENO"),
}
CELLS = Cells(TABLES_FOLDER)


@pytest.fixture(scope="module")
def operators():
    return {name: load(name) for name in names()}


def test_all_are_there_and_small():
    assert set(names()) == set(ROWS)
    for name in names():
        assert len((WEIGHTS / f"{name}.safetensors").read_bytes()) < 16 * 2**20


@pytest.mark.parametrize("name", ROWS)
def test_they_are_as_good_as_the_results_say(operators, name):
    """On problems that neither training nor the results have seen."""
    table = TABLES[ROWS[name][0]]
    row = next(row for row in table.rows if row.label == ROWS[name][1])
    operator, cells = operators[name], CELLS.of_row(table, row)
    trained = operator.header.data
    assert (operator.header.model, trained.corners) == (row.training.model, row.training.family.corners)
    for column, corners in (("4-Corners", 4), ("No-Corner", 0)):
        family = Family(trained.equation, trained.boundary, corners)
        errors = []
        for index in range(4):
            problem = family.problem(seed=31, index=index)
            errors.append(relative_l2(operator.solve(problem).u, solve(problem).u))
        promised = cells[column]["figures"]
        # Four samples' mean deviates by half of what one does.
        assert np.mean(errors) < promised["relative_l2"] + 1.5 * promised["relative_l2_deviation"] + 1e-6


@settings(deadline=None, max_examples=15)
@given(domains(4), seeds)
def test_trained_it_still_obeys_the_maximum_principle_and_keeps_constants(operators, domain, seed):
    operator = operators["poisson-dirichlet"]
    g = np.random.default_rng(seed).normal(size=len(domain.panels))
    u = operator.solve(poisson(domain, g=g)).u
    assert g.min() - 1e-5 <= u.min() and u.max() <= g.max() + 1e-5
    np.testing.assert_allclose(operator.solve(poisson(domain, g=-2.0)).u, -2.0, rtol=1e-5)


@settings(deadline=None, max_examples=10)
@given(domains(4), seeds, st.floats(-3, 3))
def test_trained_it_is_still_linear(operators, domain, seed, factor):
    operator = operators["poisson-dirichlet"]
    rng = np.random.default_rng(seed)
    f, g = rng.normal(size=(2, len(domain.points))), rng.normal(size=(2, len(domain.panels)))
    one, other = (operator.solve(poisson(domain, f[k], g[k])).u for k in (0, 1))
    both = operator.solve(poisson(domain, f[0] + factor * f[1], g[0] + factor * g[1])).u
    np.testing.assert_allclose(both, one + factor * other, atol=1e-4 * (1 + np.abs(one).max() + np.abs(other).max()))


def test_solve_takes_the_operator_that_fits():
    for family, name in (
        (Family(), "poisson-dirichlet"),
        (Family(boundary="zero"), "poisson-dirichlet"),
        (Family(boundary="neumann"), "poisson-neumann"),
        (Family(boundary="robin"), "poisson-mixed"),
        (Family(boundary="mixed"), "poisson-mixed"),
        (Family("darcy"), "darcy-dirichlet"),
    ):
        assert name_for(family.problem(0, 0)) == name
    problem = Family(resolution=16).problem(0, 3)
    assert relative_l2(beno.solve(problem).u, solve(problem).u) < 0.1
    with pytest.raises(BenoError, match="no operator is shipped for darcy with neumann walls"):
        beno.solve(Family("darcy", "neumann").problem(0, 0))


def test_what_is_not_there():
    with pytest.raises(BenoError, match="no operator 'posson'"):
        beno.load("posson")
    with pytest.raises(AttributeError):
        _ = beno.sovle


def test_on_a_wall_u_is_what_is_given_there(operators):
    domain = Domain.square(32)
    panels = domain.panels
    solution = operators["poisson-dirichlet"].solve(poisson(domain, g=lambda x, y: np.sin(3 * x) + y))
    given = np.sin(3 * panels.centres[:, 0]) + panels.centres[:, 1]
    assert relative_l2(solution.at(panels.centres), given) < 0.002


@pytest.mark.parametrize("name, least", [("poisson-dirichlet", 0.01), ("beno-4-corners", 0.15)])
def test_between_the_points_they_are_as_good_as_at_them(operators, name, least):
    rng = np.random.default_rng(0)
    problem = Family().problem(77, 0)
    domain = problem.domain
    places = domain.points + (rng.random(domain.points.shape) - 0.5) * domain.spacing
    learned, exact = operators[name].solve(problem), solve(problem)
    at_points, between = relative_l2(learned.u, exact.u), relative_l2(learned.at(places), exact.at(places))
    assert between < 1.3 * at_points + 0.002 and at_points < least


def test_a_hole_within_reach_of_the_mixed_operator(operators):
    """Far from what it was trained on: a promise of order, not of percent."""
    mask = np.ones((32, 32), dtype=bool)
    mask[12:18, 14:20] = False
    domain = Domain.from_mask(mask)
    kind = np.where(domain.panels.ring == 1, Kind.NEUMANN, Kind.DIRICHLET)
    problem = poisson(domain, 0.0, np.where(kind == Kind.NEUMANN, 0.0, domain.panels.centres[:, 0]), kind)
    assert relative_l2(operators["poisson-mixed"].solve(problem).u, solve(problem).u) < 0.3


def test_robin_walls_without_alpha_are_neumann_walls(operators):
    neumann = Family(boundary="neumann").problem(5, 0)
    robin = replace(neumann, kind=np.full_like(neumann.kind, Kind.ROBIN))
    np.testing.assert_allclose(beno.solve(robin).u, beno.solve(neumann).u)
    assembled = operators["poisson-neumann"].assemble(neumann.domain, kind=Kind.ROBIN)
    np.testing.assert_allclose(assembled(neumann.source, neumann.g), beno.solve(neumann).u, atol=1e-5)


@pytest.mark.parametrize("name, kind", [("poisson-neumann", Kind.NEUMANN), ("poisson-dirichlet", Kind.DIRICHLET)])
def test_no_right_hand_sides_have_no_solutions(operators, name, kind):
    domain = Domain.square(8)
    assembled = operators[name].assemble(domain, kind=kind)
    none = np.zeros((0, len(domain.points))), np.zeros((0, len(domain.panels)))
    assert assembled(*none).shape == none[0].shape
    assert assembled(none[0], 0.0).shape == none[0].shape


def test_many_problems_are_solved_as_one_is(operators):
    operator = operators["poisson-dirichlet"]
    problems = [Family(corners=corners, resolution=16).problem(6, corners) for corners in (4, 0, 2)]
    for problem, solution in zip(problems, operator.solve_many(problems, batch_size=2), strict=True):
        assert solution.problem is problem
        np.testing.assert_allclose(solution.u, operator.solve(problem).u, atol=1e-5)
        np.testing.assert_allclose(solution.at(problem.domain.points[:3]), solution.u[:3], atol=1e-5)
    assert operator.solve_many([]) == []
    with pytest.raises(BenoError, match="not for neumann"):
        operator.solve_many([problems[0], Family(boundary="neumann", resolution=16).problem(0, 0)])
