"""L = (domain, law, walls): what it makes of right-hand sides, and when there is a solution."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beno.geometry.bare_panels import BarePanels
from beno.geometry.grid import Domain
from beno.problems.law import Poisson
from beno.problems.operator import Elliptic, darcy_operator, poisson_operator
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind, Walls
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.strategies import disc, domains, random_problem, random_right, seeds

SQUARE = Domain.square(8, [(2, 3), None, None, (3, 2)])
POINTS, PANELS = len(SQUARE.points), len(SQUARE.panels)
kinds_of_values = pytest.mark.parametrize("tensors", [False, True], ids=["arrays", "tensors"])


def neumann(domain, seed):
    """Darcy with Neumann walls, and a right-hand side that is out of balance."""
    rng = np.random.default_rng(seed)
    kappa, at_panels = rng.uniform(1, 5, size=len(domain.points)), rng.uniform(1, 5, size=len(domain.panels))
    operator = darcy_operator(domain, kappa, Kind.NEUMANN, kappa_at_panels=at_panels)
    f, g = rng.uniform(1, 2, size=len(domain.points)), rng.uniform(-2, -1, size=len(domain.panels))
    return operator, RightHandSide(f, g)


def as_given(right, tensors):
    return RightHandSide(torch.as_tensor(right.f), torch.as_tensor(right.g)) if tensors else right


def imbalance(operator, right):
    put_in, out, _ = operator.flows(right)
    return put_in - out


# Right-hand sides


@kinds_of_values
def test_arrays_give_arrays_and_tensors_give_tensors(tensors):
    operator, right = neumann(SQUARE, 0)
    kind = torch.Tensor if tensors else np.ndarray
    for made in (as_given(right, tensors), as_given(RightHandSide.stack([right, 2 * right]), tensors)):
        read = operator.right(made.f, made.g)
        balanced = operator.balanced(read)
        for values in (read.f, read.g, balanced.f, balanced.g, operator.without_constant(balanced.f)):
            assert isinstance(values, kind) and values.ndim == made.f.ndim
        operator.require_solvable(balanced)
        with pytest.raises(BenoError, match="pure Neumann"):
            operator.require_solvable(read)


@kinds_of_values
def test_a_number_or_a_function_beside_a_tensor_becomes_one(tensors):
    operator = poisson_operator(SQUARE)
    f = torch.ones(4, POINTS, dtype=torch.float32) if tensors else np.ones((4, POINTS))
    for g in (2.0, lambda x, y: 2.0 + 0 * x):
        right = operator.right(f, g)
        assert type(right.g) is type(f) and right.g.dtype == f.dtype and tuple(right.g.shape) == (4, PANELS)
        assert bool((right.g == 2).all())


def test_gradients_pass_through_the_balance():
    operator, right = neumann(SQUARE, 0)
    g = torch.tensor(right.g, requires_grad=True)
    operator.balanced(operator.right(right.f, g)).f.sum().backward()
    weight = operator.law.at_panels(SQUARE) * SQUARE.panels.lengths  # what leaves through the walls f must put in
    np.testing.assert_allclose(g.grad, weight / SQUARE.spacing**2)


@kinds_of_values
@given(domains(), seeds)
def test_stacks_are_balanced_row_by_row(tensors, domain, seed):
    operator, _ = neumann(domain, seed)
    rows = [neumann(domain, seed + number)[1] for number in range(3)]
    stack = operator.balanced(as_given(RightHandSide.stack(rows), tensors))
    for number, row in enumerate(rows):
        np.testing.assert_allclose(stack[number].f, operator.balanced(row).f, rtol=1e-12)
        np.testing.assert_array_equal(stack[number].g, row.g)
    operator.require_solvable(stack)


# Balance


@given(domains(), seeds)
def test_flows_are_the_integral_of_the_source_and_of_kappa_g_over_the_walls(domain, seed):
    operator, right = neumann(domain, seed)
    put_in, out, size = operator.flows(right)
    kappa = operator.law.at_panels(domain)
    assert put_in == pytest.approx(sum(domain.spacing**2 * f for f in right.f))
    assert out == pytest.approx(sum(map(np.prod, zip(kappa, right.g, domain.panels.lengths, strict=True))))
    assert size == pytest.approx(abs(put_in) + abs(out))


@given(domains(), seeds)
def test_unbalanced_neumann_problem_is_refused_with_the_imbalance(domain, seed):
    operator, right = neumann(domain, seed)
    with pytest.raises(BenoError, match=re.escape(f"differ by {imbalance(operator, right):.3g}")):
        operator.require_solvable(right)
    with pytest.raises(BenoError, match=re.escape(f"differ by {imbalance(operator, right):.3g} in row 1")):
        operator.require_solvable(RightHandSide.stack([operator.balanced(right), right]))
    with pytest.raises(BenoError, match="pure Neumann"):
        Direct().prepare(operator)(right)


@given(domains(), seeds)
def test_balanced_mends_the_imbalance_by_a_constant_in_f(domain, seed):
    operator, right = neumann(domain, seed)
    mended = operator.balanced(right)
    np.testing.assert_allclose(mended.f - right.f, -imbalance(operator, right) / domain.area)
    assert imbalance(operator, mended) == pytest.approx(0, abs=1e-10)
    np.testing.assert_array_equal(mended.g, right.g)
    operator.require_solvable(mended)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_what_was_balanced_in_any_precision_is_in_balance(dtype):
    operator, right = neumann(SQUARE, 3)
    one = RightHandSide(torch.as_tensor(right.f).to(dtype), torch.as_tensor(right.g).to(dtype))
    operator.require_solvable(operator.balanced(one))
    with pytest.raises(BenoError, match="pure Neumann"):
        operator.require_solvable(one)


@given(domains(), st.sampled_from(["dirichlet", "robin", "mixed"]), seeds)
def test_where_a_wall_fixes_u_no_balance_is_needed(domain, boundary, seed):
    operator = random_problem(domain, "darcy", boundary, seed).operator
    right = random_right(operator, seed)
    assert not operator.leaves_constant_free
    assert operator.balanced(right) is right and operator.without_constant(right.f) is right.f
    operator.require_solvable(right)


def test_robin_walls_without_alpha_are_neumann_walls():
    operator = poisson_operator(SQUARE, Kind.ROBIN, 0.0)
    assert operator.leaves_constant_free
    with pytest.raises(BenoError, match="pure Neumann"):
        operator.require_solvable(operator.right(1.0))
    one_panel = np.where(np.arange(PANELS) == 3, 0.5, 0.0)
    assert not poisson_operator(SQUARE, Kind.ROBIN, one_panel).leaves_constant_free


@kinds_of_values
def test_without_constant_every_row_has_zero_mean(tensors):
    operator, _ = neumann(SQUARE, 0)
    u = np.random.default_rng(0).normal(size=(3, POINTS))
    mean = operator.without_constant(torch.as_tensor(u) if tensors else u).mean(-1)
    np.testing.assert_allclose(mean, 0, atol=1e-12)


# Walls


def test_alpha_is_zero_except_on_robin_panels():
    kind = np.arange(PANELS) % 3
    walls = poisson_operator(SQUARE, kind, 2.5).walls
    np.testing.assert_array_equal(walls.alpha, np.where(kind == 2, 2.5, 0))
    assert (poisson_operator(SQUARE, Kind.NEUMANN, -1.0).walls.alpha == 0).all()


@pytest.mark.parametrize("bad", [-1, 3, 256, 257, 0.7, 1.7])
def test_kinds_are_not_wrapped_or_rounded_to_known_ones(bad):
    kind = np.zeros(PANELS, dtype=type(bad))
    kind[2:] = bad
    said = f"kind is {bad} at panel 2; panel kinds must be 0 (dirichlet), 1 (neumann), 2 (robin)"
    with pytest.raises(BenoError, match=re.escape(said)):
        poisson_operator(SQUARE, kind)


def test_kinds_of_the_wrong_shape_are_refused():
    with pytest.raises(BenoError, match=rf"kind has shape \({PANELS - 1},\); the domain has {PANELS} panels"):
        poisson_operator(SQUARE, np.zeros(PANELS - 1, dtype=int))
    with pytest.raises(BenoError, match=f"the walls are of 3 panels; the domain has {PANELS} of them"):
        Elliptic(SQUARE, Poisson(), Walls.uniform(3))


def test_negative_alpha_is_refused_with_its_panel():
    with pytest.raises(BenoError, match=r"alpha is -0\.5 at panel 6"):
        poisson_operator(SQUARE, Kind.ROBIN, np.where(np.arange(PANELS) == 6, -0.5, 1.0))


# The coefficient at the walls


@given(domains(smallest=4))
def test_extrapolated_kappa_is_exact_for_exponentials(domain):
    def kappa(x, y):
        return np.exp(2 * x - 3 * y)

    panels = domain.panels
    at_walls = darcy_operator(domain, kappa(*domain.points.T)).law.at_panels(domain)
    behind = domain.neighbours[panels.cell, panels.direction ^ 1] >= 0
    np.testing.assert_allclose(at_walls[behind], kappa(*panels.centres.T)[behind])
    np.testing.assert_allclose(at_walls[~behind], kappa(*domain.points.T)[panels.cell[~behind]])


@given(domains(), seeds)
def test_extrapolated_kappa_is_positive(domain, seed):
    kappa = np.exp(np.random.default_rng(seed).uniform(-8, 8, size=len(domain.points)))
    assert (darcy_operator(domain, kappa).law.at_panels(domain) > 0).all()


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_kappa_that_is_not_positive_is_refused_with_its_place(bad):
    with pytest.raises(BenoError, match="kappa is"):
        darcy_operator(SQUARE, bad)
    x, y = SQUARE.points[5]
    with pytest.raises(BenoError, match=re.escape(f"kappa is {bad:.3g} at ({x:.4g}, {y:.4g})")):
        darcy_operator(SQUARE, np.where(np.arange(POINTS) == 5, bad, 1.0))
    x, y = SQUARE.panels.centres[7]
    with pytest.raises(BenoError, match=re.escape(f"kappa is {bad:.3g} at ({x:.4g}, {y:.4g})")):
        at_panels = np.where(np.arange(PANELS) == 7, bad, 1.0)
        darcy_operator(SQUARE, np.ones(POINTS), kappa_at_panels=at_panels)


# Domains without cells


def test_bare_panels_have_right_hand_sides_and_no_grid():
    bare = BarePanels.from_panels(*disc())
    operator = poisson_operator(bare)
    right = operator.right(0.0, lambda x, y: x)
    np.testing.assert_array_equal(right.g, bare.panels.centres[:, 0])
    operator.require_solvable(right)
    poisson_operator(bare, Kind.NEUMANN).require_solvable(right)  # no cells, so no one to say how large f is
    with pytest.raises(BenoError, match="needs a domain of cells, not BarePanels"):
        Direct().prepare(operator)
