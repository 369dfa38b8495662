"""The operators that come with the package keep their laws and their promises, from the files that ship."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beno
from beno.evaluation.metrics import relative_l2
from beno.geometry.grid import Domain
from beno.learned.shipped import WEIGHTS, load, names
from beno.paper.cells import Cells
from beno.paper.tables import TABLES
from beno.problems.families import Family
from beno.problems.problem import poisson
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
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
        problems = [family.problem(seed=31, index=index) for index in range(4)]
        errors = [
            relative_l2(learned.u, Direct().solve(problem).u)
            for learned, problem in zip(operator.solve_many(problems), problems, strict=True)
        ]
        promised = cells[column].figures["relative_l2"]
        # Four samples' mean deviates by half of what one does.
        assert np.mean(errors) < promised.mean + 1.5 * promised.deviation + 1e-6


@settings(max_examples=10)
@given(domains(4), seeds)
def test_trained_it_still_obeys_the_maximum_principle_and_keeps_constants(operators, domain, seed):
    prepared = operators["poisson-dirichlet"].assemble(domain)
    g = np.random.default_rng(seed).normal(size=len(domain.panels))
    u, constant = prepared.solve(0.0, np.stack([g, np.full_like(g, -2.0)]))
    assert g.min() - 1e-5 <= u.min() and u.max() <= g.max() + 1e-5
    np.testing.assert_allclose(constant, -2.0, rtol=1e-5)


@settings(max_examples=10)
@given(domains(4), seeds, st.floats(-3, 3))
def test_trained_it_is_still_linear(operators, domain, seed, factor):
    operator = operators["poisson-dirichlet"]
    rng = np.random.default_rng(seed)
    f, g = rng.normal(size=(2, len(domain.points))), rng.normal(size=(2, len(domain.panels)))
    both = f[0] + factor * f[1], g[0] + factor * g[1]
    one, other, u = (
        solution.u
        for solution in operator.solve_many([poisson(domain, *data) for data in (*zip(f, g, strict=True), both)])
    )
    np.testing.assert_allclose(u, one + factor * other, atol=1e-4 * (1 + np.abs(one).max() + np.abs(other).max()))


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
    learned, exact = operators[name].solve(problem), Direct().solve(problem)
    at_points, between = relative_l2(learned.u, exact.u), relative_l2(learned.at(places), exact.at(places))
    assert between < 1.3 * at_points + 0.002 and at_points < least


def test_a_hole_is_within_reach_of_the_mixed_operator(operators):
    """Far from what it was trained on: a promise of order, not of percent."""
    mask = np.ones((32, 32), dtype=bool)
    mask[12:18, 14:20] = False
    domain = Domain.from_mask(mask)
    kind = np.where(domain.panels.ring == 1, Kind.NEUMANN, Kind.DIRICHLET)
    problem = poisson(domain, 0.0, np.where(kind == Kind.NEUMANN, 0.0, domain.panels.centres[:, 0]), kind)
    assert relative_l2(operators["poisson-mixed"].solve(problem).u, Direct().solve(problem).u) < 0.3


@pytest.mark.parametrize("alpha", [9e-7, 1e-9, 1e-20, 1e-40, 1e-300])
def test_robin_walls_of_next_to_no_alpha_are_answered_as_neumann_walls(operators, alpha):
    """In single precision g / alpha would have no number; u tends to what it is for Neumann walls."""
    operator, domain = operators["poisson-mixed"], Domain.square(16)
    is_left = domain.panels.normals[:, 0] < 0
    robin, neumann = (np.where(is_left, Kind.DIRICHLET, kind) for kind in (Kind.ROBIN, Kind.NEUMANN))
    g = np.where(is_left, domain.panels.centres[:, 1], 0.5)
    weak, none = poisson(domain, 1.0, g, robin, alpha), poisson(domain, 1.0, g, neumann)
    expected = operator.solve(none).u
    np.testing.assert_allclose(operator.solve(weak).u, expected, atol=1e-5)
    np.testing.assert_allclose(operator.prepare(weak.operator)(weak.right), expected, atol=1e-5)
    assert relative_l2(Direct().solve(weak).u, Direct().solve(none).u) < 1e-5, "as it is in truth"


def test_an_operator_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(BenoError, match=r"no operator 'posson', nor a file of that name; there is .*poisson-dirichlet"):
        beno.load("posson")


def test_a_name_that_the_package_has_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'sovle'"):
        _ = beno.sovle
