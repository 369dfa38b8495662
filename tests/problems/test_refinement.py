"""On a finer grid the problem is the same: constants and planes stay, and so do balance and flows."""

import numpy as np
import pytest
from hypothesis import given

from beno.geometry.grid import Domain
from beno.problems.problem import Problem, darcy, poisson
from beno.problems.refinement import Refinement, refined
from beno.problems.walls import Kind
from tests.strategies import BOUNDARIES, annulus, problems


@given(problems())
def test_each_cell_falls_into_four_and_each_panel_into_two(problem):
    finer = refined(problem)
    assert finer.domain.resolution == 2 * problem.domain.resolution
    assert finer.domain.area == pytest.approx(problem.domain.area)
    refinement = Refinement(problem)
    assert (np.bincount(refinement.cell) == 4).all() and (np.bincount(refinement.panel) == 2).all()
    centre = np.zeros_like(problem.domain.panels.centres)
    np.add.at(centre, refinement.panel, finer.domain.panels.centres / 2)
    np.testing.assert_allclose(centre, problem.domain.panels.centres, atol=1e-12)
    np.testing.assert_array_equal(finer.walls.kind, problem.walls.kind[refinement.panel])


@given(problems())
def test_the_parts_of_a_cell_or_panel_have_its_value_in_the_mean(problem):
    refinement = Refinement(problem)
    mean = np.bincount(refinement.cell, refinement.at_points(problem.f)) / 4
    np.testing.assert_allclose(mean, problem.f, atol=1e-12)
    for limited in (False, True):
        mean = np.bincount(refinement.panel, refinement.at_panels(problem.g, limited)) / 2
        np.testing.assert_allclose(mean, problem.g, atol=1e-12)


@given(problems(boundaries=("neumann",)))
def test_flows_and_balance_stay(problem):
    finer = refined(problem)
    for before, after in zip(problem.operator.flows(problem.right), finer.operator.flows(finer.right), strict=True):
        assert after == pytest.approx(before, abs=1e-10) or after >= before  # the third is a sum of sizes
    finer.require_solvable()


@given(problems())
def test_coefficients_stay_between_their_neighbours(problem):
    finer = refined(problem)
    for name, values in {**problem.law.values, "alpha": problem.walls.alpha}.items():
        assert finer.values[name].min() >= values.min() - 1e-12
        assert finer.values[name].max() <= values.max() + 1e-12


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_constants_stay(boundary):
    kind = np.arange(40) % 3 if boundary == "mixed" else np.full(40, Kind[boundary.upper()])
    problem = darcy(annulus(), 3.0, 2.0, 5.0, kind, 0.7)
    finer = refined(problem)
    assert (finer.f == 2).all() and (finer.g == 5).all() and (finer.law.at_points(finer.domain) == 3).all()
    np.testing.assert_array_equal(finer.walls.alpha, np.where(finer.walls.kind == Kind.ROBIN, 0.7, 0.0))


def test_planes_stay_inside_and_along_walls():
    def plane(x, y):
        return 3 + 2 * x - y

    domain = Domain.square(8, [(3, 2), None, None, None])
    finer = refined(poisson(domain, plane, plane))
    np.testing.assert_allclose(finer.f, plane(*finer.domain.points.T), atol=1e-12)
    np.testing.assert_allclose(finer.g, plane(*finer.domain.panels.centres.T), atol=1e-12)
    kappa = refined(darcy(Domain.square(8), plane)).law.at_points(Domain.square(16))
    inside = (np.abs(Domain.square(16).points - 0.5) < 0.375).all(axis=1)
    np.testing.assert_allclose(kappa[inside], plane(*Domain.square(16).points[inside].T), atol=1e-12)


def test_jumps_of_kappa_stay_where_they_are():
    domain = Domain.square(8)
    kappa = np.where(domain.points[:, 0] < 0.5, 1.0, 1000.0)
    finer = refined(darcy(domain, kappa))
    np.testing.assert_array_equal(
        finer.law.at_points(finer.domain), np.where(finer.domain.points[:, 0] < 0.5, 1.0, 1000.0)
    )


def test_smooth_fields_are_met_at_second_order():
    def field(x, y):
        return np.sin(3 * x + y)

    errors = []
    for resolution in (16, 32, 64):
        finer = refined(poisson(Domain.square(resolution), field, field))
        errors.append(
            [
                np.abs(finer.f - field(*finer.domain.points.T)).max(),
                np.abs(finer.g - field(*finer.domain.panels.centres.T)).max(),
            ]
        )
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > 1.8).all(), orders


def test_refining_twice_is_refining_to_a_quarter():
    problem = poisson(annulus(), f=lambda x, y: x - y, g=1.0, kind=Kind.NEUMANN).balanced()
    twice = refined(refined(problem))
    assert isinstance(twice, Problem) and twice.domain.resolution == 32
    twice.require_solvable()
