"""Every wall says ``a u + b du/dn = g``; what else there is to say of a kind follows from a and b."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.problem import poisson
from beno.problems.walls import Kind, Walls
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.strategies import random_walls, seeds

distances = st.floats(1e-3, 1.0)


def some_walls(seed, boundary="mixed", panels=30):
    return random_walls(np.random.default_rng(seed), boundary, panels)


@pytest.mark.parametrize("kind", Kind)
@given(seed=seeds)
def test_trace_is_a_u_plus_b_slope_for_each_kind(kind, seed):
    rng = np.random.default_rng(seed)
    alpha, value, slope = rng.uniform(0, 5), rng.normal(size=4), rng.normal(size=4)
    expected = {Kind.DIRICHLET: value, Kind.NEUMANN: slope, Kind.ROBIN: alpha * value + slope}[kind]
    np.testing.assert_allclose(Walls.uniform(4, kind, alpha).trace(value, slope), expected)


@given(seeds, distances)
def test_the_line_through_an_inside_value_meets_the_walls_condition(seed, distance):
    rng, walls = np.random.default_rng(seed), some_walls(seed)
    inside, g = rng.normal(size=(2, len(walls)))
    value = walls.value_beyond(inside, g, distance)
    np.testing.assert_allclose(walls.trace(value, (value - inside) / distance), g, atol=1e-9)


@given(seeds, distances)
def test_response_is_what_a_unit_of_g_adds_to_the_slope(seed, distance):
    rng, walls = np.random.default_rng(seed), some_walls(seed)
    inside, g = rng.normal(size=(2, len(walls)))
    slopes = [(walls.value_beyond(inside, more, distance) - inside) / distance for more in (g, g + 1)]
    np.testing.assert_allclose(slopes[1] - slopes[0], walls.response(distance), rtol=1e-6)


@given(seeds, distances)
def test_traces_of_stacks_are_the_traces_of_their_rows(seed, distance):
    rng, walls = np.random.default_rng(seed), some_walls(seed)
    value, slope = rng.normal(size=(2, 3, len(walls)))
    for row, expected in enumerate(walls.trace(value, slope)):
        np.testing.assert_array_equal(walls.trace(value[row], slope[row]), expected)


def solved(kind, alpha, g):
    """On a square whose left wall is held at 1, with g on the other three walls."""
    panels = Domain.square(12).panels
    held = panels.normals[:, 0] < 0
    kinds = np.where(held, Kind.DIRICHLET, kind)
    problem = poisson(Domain.square(12), f=1.0, g=np.where(held, 1.0, g), kind=kinds, alpha=alpha)
    return Direct().solve(problem).u


@pytest.mark.parametrize("alpha", [1e-3, 1e-6, 1e-9, 1e-12, 0.0])
def test_robin_walls_become_neumann_walls_as_alpha_goes_to_zero(alpha):
    neumann = solved(Kind.NEUMANN, 0.0, 0.5)
    assert np.abs(solved(Kind.ROBIN, alpha, 0.5) - neumann).max() <= 2 * alpha * np.abs(neumann).max() + 1e-12


@pytest.mark.parametrize("alpha", [1e3, 1e6, 1e9, 1e12])
def test_robin_walls_become_dirichlet_walls_as_alpha_goes_to_infinity(alpha):
    dirichlet = solved(Kind.DIRICHLET, 0.0, 0.5)
    # The slope at a wall is at most about that of the grid: a jump of 1/2 over half a cell.
    assert np.abs(solved(Kind.ROBIN, alpha, 0.5 * alpha) - dirichlet).max() <= 30 / alpha + 1e-12


def test_a_robin_wall_without_alpha_acts_as_a_neumann_wall():
    walls = Walls(np.array([0, 1, 2, 2]), np.array([0.0, 0.0, 0.0, 2.0]))
    assert walls.acting.kind.tolist() == [Kind.DIRICHLET, Kind.NEUMANN, Kind.NEUMANN, Kind.ROBIN]
    assert walls.acting.kinds == set(Kind) and walls.acting.acting is walls.acting
    np.testing.assert_array_equal(walls.acting.value_weight, walls.value_weight)
    np.testing.assert_array_equal(walls.acting.slope_weight, walls.slope_weight)


@given(seeds, st.sampled_from(["dirichlet", "neumann", "robin", "mixed"]))
def test_a_constant_is_free_only_where_no_wall_has_a_say_in_u(seed, boundary):
    walls = some_walls(seed, boundary)
    assert walls.leave_constant_free == (boundary == "neumann")
    assert walls.leave_constant_free == (not walls.trace(np.ones(len(walls)), np.zeros(len(walls))).any())
    assert Walls.uniform(3, Kind.ROBIN, 0.0).leave_constant_free
    np.testing.assert_array_equal(walls.fixes_value, walls.kind == Kind.DIRICHLET)


@given(seeds)
def test_taken_walls_are_those_of_the_panels_asked_for(seed):
    walls, chosen = some_walls(seed), np.random.default_rng(seed).permutation(30)[:7]
    np.testing.assert_array_equal(walls.taken(chosen).kind, walls.kind[chosen])
    np.testing.assert_array_equal(walls.taken(chosen).alpha, walls.alpha[chosen])
    assert len(walls.taken(slice(3, 9))) == 6


def test_uniform_walls_have_alpha_only_where_they_are_robins():
    assert (Walls.uniform(3, Kind.ROBIN, 2.0).alpha == 2).all()
    assert (Walls.uniform(3, Kind.NEUMANN, 2.0).alpha == 0).all()
    assert Walls.uniform(3).kinds == {Kind.DIRICHLET}


@pytest.mark.parametrize(
    ("kind", "alpha", "message"),
    [
        ([0, 3], [0.0, 0.0], r"kind is 3 at panel 1; panel kinds must be 0 \(dirichlet\), 1 \(neumann\), 2 \(robin\)"),
        ([0, -1], [0.0, 0.0], "kind is -1 at panel 1"),
        ([2, 2], [0.0, -0.5], r"alpha is -0\.5 at panel 1; Robin panels need alpha >= 0"),
        ([2, 2], [0.0, np.nan], "alpha is not finite at panel 1"),
        ([2, 2], [0.0], "2 kinds of panels and 1 values of alpha"),
    ],
)
def test_what_is_no_wall_is_refused_with_its_panel(kind, alpha, message):
    jaxtyping = pytest.importorskip("jaxtyping")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(BenoError, match=message):
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which would refuse arrays of unequal length first
        Walls(np.array(kind), np.array(alpha))
