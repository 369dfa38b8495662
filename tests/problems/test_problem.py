import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from beno.geometry.grid import Domain
from beno.problems.problem import Kind, darcy, poisson
from beno.solvers.finite_volumes import solve
from beno.support.errors import BenoError
from tests.strategies import annulus, domains, problems, seeds

CUT_SQUARE = Domain.square(8, [(2, 3), None, None, (3, 2)])
POINTS, PANELS = len(CUT_SQUARE.points), len(CUT_SQUARE.panels)


def unbalanced(domain, seed):
    rng = np.random.default_rng(seed)
    kappa, at_panels = rng.uniform(1, 5, size=len(domain.points)), rng.uniform(1, 5, size=len(domain.panels))
    f, g = rng.uniform(1, 2, size=len(domain.points)), rng.uniform(-2, -1, size=len(domain.panels))
    return darcy(domain, kappa, f, g, Kind.NEUMANN, kappa_at_panels=at_panels)


# The split


@given(problems())
def test_parts_of_the_split_add_to_the_whole(problem):
    forced, driven = problem.split()
    np.testing.assert_allclose(forced.source + driven.source, problem.source, atol=1e-12)
    np.testing.assert_array_equal(forced.g + driven.g, problem.g)
    whole = solve(problem).u
    np.testing.assert_allclose(solve(forced).u + solve(driven).u, whole, atol=1e-10 * max(1, np.abs(whole).max()))


@given(problems())
def test_forced_part_has_no_g_and_driven_part_no_f_but_a_balancing_constant(problem):
    forced, driven = problem.split()
    assert (forced.g == 0).all()
    assert np.ptp(driven.source) == 0
    if problem.is_pure_neumann:
        assert forced.source.mean() == pytest.approx(0, abs=1e-12)
    else:
        assert (driven.source == 0).all()


@given(problems(boundaries=("neumann",)))
def test_both_parts_of_a_balanced_neumann_problem_balance(problem):
    for part in problem.split():
        part.require_solvable()


# The balance of pure Neumann problems


@given(domains(), seeds)
def test_imbalance_is_the_source_less_the_outflow(domain, seed):
    problem = unbalanced(domain, seed)
    area, panels = domain.spacing**2, domain.panels
    expected = sum(area * f for f in problem.source)
    expected -= sum(map(np.prod, zip(problem.panel_coefficient, problem.g, panels.lengths, strict=True)))
    assert problem.imbalance == pytest.approx(expected)


@given(domains(), seeds)
def test_unbalanced_neumann_problem_is_refused_with_the_imbalance(domain, seed):
    problem = unbalanced(domain, seed)
    with pytest.raises(BenoError, match=re.escape(f"differ by {problem.imbalance:.3g}")):
        solve(problem)


@given(domains(), seeds)
def test_balanced_mends_the_imbalance_by_a_constant_in_f(domain, seed):
    problem = unbalanced(domain, seed)
    mended = problem.balanced()
    np.testing.assert_allclose(mended.source - problem.source, -problem.imbalance / domain.area)
    assert mended.imbalance == pytest.approx(0, abs=1e-10)
    np.testing.assert_array_equal(mended.g, problem.g)
    solve(mended)


@given(problems(boundaries=("dirichlet", "robin", "mixed")))
def test_problems_with_a_fixed_level_need_no_balance(problem):
    assert not problem.is_pure_neumann
    assert problem.balanced() is problem
    problem.require_solvable()


def test_robin_walls_without_alpha_are_neumann_walls():
    problem = poisson(CUT_SQUARE, f=1.0, kind=Kind.ROBIN, alpha=0.0)
    assert problem.is_pure_neumann
    with pytest.raises(BenoError, match="pure Neumann"):
        solve(problem)
    one_panel = np.zeros(PANELS)
    one_panel[3] = 0.5
    assert not poisson(CUT_SQUARE, f=1.0, kind=Kind.ROBIN, alpha=one_panel).is_pure_neumann


# Fields


def test_callables_arrays_and_numbers_say_the_same():
    (x, y), (at_x, at_y) = CUT_SQUARE.points.T, CUT_SQUARE.panels.centres.T
    kind = np.full(PANELS, Kind.ROBIN)
    called = darcy(
        CUT_SQUARE, lambda x, y: 2 + x * y, lambda x, y: x - y, lambda x, y: x + y, Kind.ROBIN, lambda x, y: 3.0
    )
    listed = darcy(CUT_SQUARE, 2 + x * y, x - y, at_x + at_y, kind, np.full(PANELS, 3.0), 2 + at_x * at_y)
    for name in ("source", "g", "kind", "alpha", "coefficient", "panel_coefficient"):
        np.testing.assert_array_equal(getattr(called, name), getattr(listed, name))


def test_equation_is_poisson_without_a_coefficient_and_darcy_with_one():
    assert poisson(CUT_SQUARE).equation == "poisson"
    assert (poisson(CUT_SQUARE).wall_coefficient == 1).all()
    assert darcy(CUT_SQUARE, 1.0).equation == "darcy"


def test_problem_keeps_its_own_copy_of_the_arrays():
    f, g, kappa = np.ones(POINTS), np.ones(PANELS), np.ones(POINTS)
    problem = darcy(CUT_SQUARE, kappa, f, g)
    for values in (f, g, kappa):
        values[:] = 7
    assert all((values == 1).all() for values in (problem.source, problem.g, problem.coefficient))


def test_alpha_is_zero_except_on_robin_panels():
    kind = np.arange(PANELS) % 3
    np.testing.assert_array_equal(poisson(CUT_SQUARE, kind=kind, alpha=2.5).alpha, np.where(kind == 2, 2.5, 0))
    assert (poisson(CUT_SQUARE, kind=Kind.NEUMANN, alpha=-1.0).alpha == 0).all()


# The coefficient at the walls


@given(domains(smallest=4))
def test_extrapolated_kappa_is_exact_for_exponentials(domain):
    def kappa(x, y):
        return np.exp(2 * x - 3 * y)

    panels = domain.panels
    at_walls = darcy(domain, kappa(*domain.points.T)).panel_coefficient
    behind = domain.neighbours[panels.cell, panels.direction ^ 1] >= 0
    np.testing.assert_allclose(at_walls[behind], kappa(*panels.centres.T)[behind])
    np.testing.assert_allclose(at_walls[~behind], kappa(*domain.points.T)[panels.cell[~behind]])


@given(domains(), seeds)
def test_extrapolated_kappa_is_positive(domain, seed):
    kappa = np.exp(np.random.default_rng(seed).uniform(-8, 8, size=len(domain.points)))
    assert (darcy(domain, kappa).panel_coefficient > 0).all()


# What is refused


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_kappa_that_is_not_positive_is_refused_with_its_place(bad):
    with pytest.raises(BenoError, match="kappa is"):
        darcy(CUT_SQUARE, bad)
    kappa = np.ones(POINTS)
    kappa[5] = bad
    x, y = CUT_SQUARE.points[5]
    with pytest.raises(BenoError, match=re.escape(f"kappa is {bad:.3g} at ({x:.4g}, {y:.4g})")):
        darcy(CUT_SQUARE, kappa)
    at_panels = np.ones(PANELS)
    at_panels[7] = bad
    x, y = CUT_SQUARE.panels.centres[7]
    with pytest.raises(BenoError, match=re.escape(f"kappa is {bad:.3g} at ({x:.4g}, {y:.4g})")):
        darcy(CUT_SQUARE, np.ones(POINTS), kappa_at_panels=at_panels)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("name", "length"), [("f", POINTS), ("g", PANELS), ("alpha", PANELS), ("kappa", POINTS)])
def test_values_that_are_not_finite_are_refused_with_their_place(name, length, bad):
    values = np.ones(length)
    values[4] = bad
    make = darcy if name == "kappa" else poisson
    with pytest.raises(BenoError, match=rf"{name} is {bad} at (point|panel) 4"):
        make(CUT_SQUARE, **{name: values, "kind": Kind.ROBIN})


@pytest.mark.parametrize("name", ["f", "g", "alpha", "kappa"])
@pytest.mark.parametrize("shape", [(3,), (POINTS + PANELS,), (2, 2)])
def test_arrays_of_the_wrong_shape_are_refused_with_both_sizes(name, shape):
    right = POINTS if name in ("f", "kappa") else PANELS
    make = darcy if name == "kappa" else poisson
    with pytest.raises(BenoError, match=re.escape(f"{name} has shape {shape}") + f".*{right} "):
        make(CUT_SQUARE, **{name: np.ones(shape)})


@pytest.mark.parametrize("bad", [-1, 3])
def test_unknown_kinds_are_refused_with_the_known_ones(bad):
    kind = np.zeros(PANELS, dtype=int)
    kind[2] = bad
    with pytest.raises(BenoError, match=r"0 \(dirichlet\), 1 \(neumann\), 2 \(robin\)"):
        poisson(CUT_SQUARE, kind=kind)


@pytest.mark.parametrize("bad", [256, 257, 0.7, 1.7])
def test_kinds_are_not_wrapped_or_rounded_to_known_ones(bad):
    kind = np.zeros(PANELS, dtype=type(bad))
    kind[2:] = bad
    with pytest.raises(BenoError, match=f"kind is {bad} at panel 2; panel kinds must be"):
        poisson(CUT_SQUARE, kind=kind)


def test_kinds_of_the_wrong_shape_are_refused():
    with pytest.raises(BenoError, match=rf"kind has shape \({PANELS - 1},\); the domain has {PANELS} panels"):
        poisson(CUT_SQUARE, kind=np.zeros(PANELS - 1, dtype=int))


def test_negative_alpha_is_refused_with_its_panel():
    alpha = np.ones(PANELS)
    alpha[6] = -0.5
    with pytest.raises(BenoError, match=r"alpha is -0\.5 at panel 6"):
        poisson(CUT_SQUARE, kind=Kind.ROBIN, alpha=alpha)


def test_holes_carry_conditions_of_their_own():
    domain = annulus()
    on_hole = domain.panels.ring == 1
    problem = poisson(domain, g=np.where(on_hole, 1.0, 0.0), kind=np.where(on_hole, Kind.DIRICHLET, Kind.NEUMANN))
    np.testing.assert_allclose(solve(problem).u, 1)
    np.testing.assert_allclose(solve(replace(problem, g=problem.g * 3)).u, 3)
