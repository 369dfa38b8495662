"""What a coefficient is like around a place, held against smooth fields whose slope and potential are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beno.batches.coefficient_features import TYPICAL_LOG_KAPPA, kappa_features
from beno.geometry.grid import Domain
from beno.problems.operator import darcy_operator, poisson_operator
from tests.strategies import annulus, domains, seeds


def kappa(x, y):
    return np.exp(np.sin(2 * x) * np.cos(3 * y))


def expected(x, y):
    """log kappa, its slope, and q, by hand."""
    log_kappa = np.sin(2 * x) * np.cos(3 * y)
    slope = 2 * np.cos(2 * x) * np.cos(3 * y), -3 * np.sin(2 * x) * np.sin(3 * y)
    q = -13 * log_kappa / 2 + (slope[0] ** 2 + slope[1] ** 2) / 4
    return np.stack([log_kappa, *slope, q], axis=1)


def errors(resolution):
    domain = Domain.square(resolution, [(resolution // 4, resolution // 4), None, None, None])
    operator = darcy_operator(domain, kappa, kappa_at_panels=kappa(*domain.panels.centres.T))
    ours, theirs = kappa_features(operator)[0], expected(*domain.points.T)
    # The mean level is not told, and beside walls second differences are of first order.
    ours[:, 0] += theirs[:, 0].mean() - TYPICAL_LOG_KAPPA
    away = (domain.neighbours >= 0).all(axis=1)
    return np.abs(ours - theirs)[away].max(axis=0)


def test_slope_and_potential_are_of_second_order():
    coarse, fine = (errors(resolution) for resolution in (16, 32))
    assert coarse[0] < 1e-9 and (fine[1:] < 0.3 * coarse[1:]).all() and fine[1:].max() < 0.05


@given(domains(2), seeds, st.floats(1e-6, 1e6))
def test_the_unit_of_kappa_is_not_told(domain, seed, factor):
    rng = np.random.default_rng(seed)
    values, at_panels = rng.uniform(1, 9, len(domain.points)), rng.uniform(1, 9, len(domain.panels))
    plain, scaled = (
        kappa_features(darcy_operator(domain, unit * values, kappa_at_panels=unit * at_panels)) for unit in (1, factor)
    )
    for one, other in zip(plain, scaled, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-7 * (1 + np.abs(one).max()))


@pytest.mark.parametrize("domain", [Domain.square(8), annulus()], ids=["square", "annulus"])
def test_a_constant_coefficient_has_neither_slope_nor_potential(domain):
    for features in kappa_features(darcy_operator(domain, 5.0)):
        np.testing.assert_allclose(features[:, 0], TYPICAL_LOG_KAPPA)
        np.testing.assert_allclose(features[:, 1:], 0, atol=1e-9)


def test_where_kappa_is_1_everywhere_nothing_is_told():
    points, panels = kappa_features(poisson_operator(annulus()))
    assert not points.any() and not panels.any()


def test_panels_are_told_their_own_kappa_and_the_slope_in_their_cell():
    domain = annulus(12)
    operator = darcy_operator(domain, kappa, kappa_at_panels=kappa(*domain.panels.centres.T))
    points, panels = kappa_features(operator)
    np.testing.assert_array_equal(panels[:, 1:], points[domain.panels.cell, 1:])
    difference = panels[:, 0] - points[domain.panels.cell, 0]
    at_points, at_panels = operator.law.at_points(domain), operator.law.at_panels(domain)
    np.testing.assert_allclose(difference, np.log(at_panels / at_points[domain.panels.cell]), atol=1e-12)
