"""The box's fast solvers give what a factorisation of the box gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.law import Darcy
from beno.problems.operator import darcy_operator, poisson_operator
from beno.problems.walls import Kind
from beno.solvers.box import Box, box_of, extended_to_box, filled, inverse_laplacian
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.strategies import domains, random_problem, random_right, seeds


def close(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max()))


@settings(max_examples=15)
@given(st.integers(1, 12), st.sampled_from(["poisson", "darcy"]), seeds, st.sampled_from([None, 1, 3]))
def test_the_box_is_solved_as_by_factorisation_whatever_its_walls_say(resolution, equation, seed, rows):
    """Also where kappa at the walls is not that of the cells beside them."""
    operator = random_problem(Domain.square(resolution), equation, "dirichlet", seed).operator
    right = random_right(operator, seed, rows)
    prepared = Box().prepare(operator)
    for one in (right, right.sources, right.boundary_values):
        close(prepared(one), Direct().prepare(operator)(one))
    assert prepared.report.solver == "box"


@given(st.integers(1, 12), seeds)
def test_sine_transforms_invert_the_laplacian(resolution, seed):
    operator = poisson_operator(Domain.square(resolution))
    f = np.random.default_rng(seed).normal(size=resolution**2)
    u = inverse_laplacian(f.reshape(resolution, resolution)).ravel()
    close(u, Direct().prepare(operator)(operator.right(f)))


@given(domains(), seeds)
def test_the_box_of_an_operator_has_its_law_inside_and_dirichlet_walls(domain, seed):
    operator = random_problem(domain, "darcy", "mixed", seed).operator
    box = box_of(operator)
    assert box.grid.mask.all() and box.walls.kinds == {Kind.DIRICHLET} and isinstance(box.law, Darcy)
    kappa = box.law.coefficient.reshape(domain.mask.shape)
    np.testing.assert_array_equal(kappa[domain.mask], operator.law.coefficient)
    np.testing.assert_array_equal(box.law.panel_coefficient, box.law.coefficient[box.grid.panels.cell])


def test_boxes_of_uniform_laws_are_made_once():
    operators = [
        poisson_operator(domain) for domain in (Domain.square(6, [(2, 2), None, None, None]), Domain.square(6))
    ]
    assert box_of(operators[0]) is box_of(operators[1])


def test_outside_the_domain_each_cell_has_the_value_of_the_nearest_inside():
    domain = Domain.square(4, [(2, 2), None, None, None])
    values = np.arange(12.0)
    picture = extended_to_box(domain, values)
    np.testing.assert_array_equal(picture[domain.mask], values)
    assert picture[0, 1] == picture[0, 2] and picture[1, 0] == picture[2, 0]
    stack = filled(domain, np.stack([values, 2 * values]))
    np.testing.assert_array_equal(stack[:, ~domain.mask], 0)
    np.testing.assert_array_equal(stack[1], 2 * stack[0])


@pytest.mark.parametrize("resolution", [16, 64, 128])
def test_rough_kappa_is_solved_on_every_grid(resolution):
    kappa = 40 ** np.random.default_rng(0).uniform(size=resolution**2)
    operator = box_of(darcy_operator(Domain.square(resolution), kappa))
    right = operator.right(lambda x, y: np.sin(5 * x) - y)
    expected = Direct().prepare(operator)(right)
    np.testing.assert_allclose(Box().prepare(operator)(right), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_smooth_kappa_may_have_any_contrast():
    operator = box_of(darcy_operator(Domain.square(32), lambda x, y: 1e6 ** (np.sin(12 * x) * np.cos(10 * y))))
    u = Direct().prepare(operator)(operator.right(1.0))
    np.testing.assert_allclose(Box().prepare(operator)(operator.right(1.0)), u, rtol=0, atol=1e-9 * np.abs(u).max())


def test_kappa_beyond_reach_is_refused_with_its_contrast():
    kappa = 1e10 ** np.random.default_rng(0).uniform(size=16 * 16)
    operator = box_of(darcy_operator(Domain.square(16), kappa))
    with pytest.raises(BenoError, match=r"contrast of 8\.8e\+09"):
        Box().prepare(operator).solve(1.0)


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-300, 1e-155, 1e200])
def test_sources_may_be_of_any_size(size):
    problem = random_problem(Domain.square(8), "darcy", "dirichlet", seed=0)
    prepared = Box().prepare(box_of(problem.operator))
    f = np.sign(problem.f)
    np.testing.assert_allclose(prepared.solve(size * f), size * prepared.solve(f), rtol=1e-9)


def test_what_is_no_box_is_refused():
    for operator in (
        poisson_operator(Domain.square(4, [(1, 1), None, None, None])),
        poisson_operator(Domain.square(4), Kind.ROBIN, 1.0),
    ):
        with pytest.raises(BenoError, match="whole square with Dirichlet walls"):
            Box().prepare(operator)
