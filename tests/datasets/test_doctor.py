"""The doctor finds each fault by itself, blames nothing that is sound, and mends what the labels determine."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beno.datasets.dataset import Metadata
from beno.datasets.doctor import diagnose, examine, mend
from beno.datasets.records import Sample
from beno.geometry.grid import DIRECTION_NAMES, Domain
from beno.problems.families import Family
from beno.problems.problem import poisson
from beno.solvers.finite_volumes import solve
from beno.support.errors import BenoError


def sample_of(index=0, **choices):
    return Sample.of(solve(Family(resolution=16, **choices).problem(11, index)))


def direction_of(sample):
    return np.array([DIRECTION_NAMES.index({-1: "-", 1: "+"}[sign] + axis) for sign, axis in signed_axes(sample)])


def signed_axes(sample):
    return [(int(nx + ny), "x" if nx else "y") for nx, ny in sample.normals]


def spoil_walls(sample, name, by=0.3):
    here = direction_of(sample) == DIRECTION_NAMES.index(name)
    return replace(sample, g=np.where(here, sample.g + by, sample.g))


def swap_points(sample):
    """As the authors' files have it: x and y of the points exchanged, nothing else."""
    return replace(sample, points=sample.points[:, ::-1])


EVERY_FAMILY = [
    {"equation": equation, "boundary": boundary}
    for equation in ("poisson", "darcy")
    for boundary in ("dirichlet", "neumann", "robin", "mixed")
]


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_sound_samples_are_left_alone(family):
    sample = sample_of(**family)
    assert diagnose(sample).sound(1e-10)
    mended = mend(sample, np.ones(4, dtype=bool))
    np.testing.assert_array_equal(mended.g, sample.g)


@pytest.mark.parametrize("corners", range(5))
@pytest.mark.parametrize("name", DIRECTION_NAMES)
def test_a_wrong_wall_is_named_and_read_back(corners, name):
    sample = sample_of(corners=corners)
    report = examine([spoil_walls(sample, name)])
    assert report.wrong_walls == [name]
    assert not report.healthy
    assert any(f"walls that face {name}" in line for line in report.findings())
    mended = mend(spoil_walls(sample, name), np.isin(DIRECTION_NAMES, report.wrong_walls))
    np.testing.assert_allclose(mended.g, sample.g, atol=1e-9)


@pytest.mark.parametrize("corners", range(5))
def test_swapped_coordinates_are_found_whatever_the_shape(corners):
    """A square is its own transpose, so there only the boundary values can tell."""
    sample = sample_of(corners=corners, index=1)
    report = examine([swap_points(sample)])
    assert report.transposed == 1 and not report.wrong_walls
    mended = mend(swap_points(sample), np.zeros(4, dtype=bool))
    np.testing.assert_array_equal(mended.points, sample.points)
    np.testing.assert_array_equal(mended.u, sample.u)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(DIRECTION_NAMES), st.booleans(), st.sampled_from(["poisson", "darcy"]))
def test_both_faults_at_once_on_any_problem(index, name, swapped, equation):
    sample = sample_of(index, corners=4, equation=equation)
    spoiled = spoil_walls(sample, name)
    spoiled = swap_points(spoiled) if swapped else spoiled
    report = examine([spoiled])
    assert report.wrong_walls == [name]
    assert report.transposed == swapped
    mended = mend(spoiled, np.isin(DIRECTION_NAMES, report.wrong_walls))
    assert diagnose(mended).sound(1e-9)


def test_a_wrong_solution_is_found_away_from_the_walls():
    sample = sample_of()
    middle = np.argmax(sample.domain.wall_distance.min(axis=1))
    u = sample.u.copy()
    u[middle] += 0.01
    report = examine([replace(sample, u=u)])
    assert any("away from the walls" in line for line in report.findings())


def test_nan_is_named_by_column():
    sample = sample_of()
    g = sample.g.copy()
    g[3] = np.nan
    report = examine([replace(sample, g=g)])
    assert list(report.findings()) == ["NaN or infinity in g: 1 of 1 samples"]
    with pytest.raises(BenoError, match="NaN or infinity in g"):
        mend(replace(sample, g=g), np.ones(4, dtype=bool))


def test_points_that_fit_no_boundary():
    cross, square = sample_of(corners=4), sample_of(corners=0)
    mixed_up = replace(cross, points=square.points, source=square.source, u=square.u)
    report = examine([mixed_up])
    assert not report.healthy
    assert "belong to no cell, swapped or not" in next(report.findings())


def test_a_sample_in_train_and_test_is_found_whatever_the_order_of_its_points():
    samples = [sample_of(index) for index in range(4)]
    order = np.random.default_rng(0).permutation(len(samples[1].u))
    copy = replace(samples[1], points=samples[1].points[order], source=samples[1].source[order], u=samples[1].u[order])
    report = examine([*samples, copy], splits=np.array([0, 0, 0, 1, 2]))
    assert report.in_both == [(1, 4)]
    assert any("samples 1 and 4 are the same" in line for line in report.findings())


def test_copies_within_one_split_are_no_leak():
    sample = sample_of()
    assert examine([sample, sample], splits=np.array([0, 0])).healthy


def test_a_source_that_u_does_not_feel_at_the_walls_is_still_missed():
    """With a small h or a small f each equation lacks little; only the solution as a whole tells."""
    sample = Sample.of(solve(Family(boundary="robin", resolution=64, corners="mixed").problem(0, 0)))
    inside = np.bincount(sample.domain.panels.cell, minlength=len(sample.u)) == 0
    report = examine([replace(sample, source=np.where(inside, 0.0, sample.source))])
    assert report.residual < 1e-4
    assert not report.healthy and "u is not the solution" in list(report.findings())[-1]


def test_healthy_means_no_findings_and_only_sound_samples():
    sound, spoiled = sample_of(), spoil_walls(sample_of(), "+y")
    for samples in ([sound], [spoiled], [sound, spoiled]):
        report = examine(samples)
        assert report.healthy == (list(report.findings()) == []) == all(d.sound() for d in report.samples)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: {"normals": -s.normals}, "normals are not those"),
        (lambda s: {"lengths": 3 * s.lengths}, "panel lengths are not those"),
        (lambda s: {"ring": s.ring + 5}, "rings are not those"),
        (lambda s: {"kind": np.full_like(s.kind, 7)}, "panel kinds include"),
        (lambda s: {"alpha": s.alpha - 7}, "must not be negative"),
        (lambda s: {"coefficient": 0 * s.u, "panel_coefficient": 0 * s.g}, "must be positive"),
        (lambda s: {"coefficient": 1 + 0 * s.u}, "both or neither"),
    ],
)
def test_what_makes_no_problem_is_named_and_not_mended(change, words):
    sample = sample_of()
    spoiled = replace(sample, **change(sample))
    assert words in next(examine([spoiled]).findings())
    with pytest.raises(BenoError, match=words):
        mend(spoiled, np.ones(4, dtype=bool))


@pytest.mark.parametrize(
    ("family", "claimed", "words"),
    [
        ({}, {"equation": "darcy"}, "says darcy, but the sample has no kappa"),
        ({"equation": "darcy"}, {"equation": "poisson"}, "says poisson, but the sample has a kappa"),
        ({"boundary": "mixed"}, {"boundary": "robin"}, "says robin boundaries"),
        ({}, {"boundary": "zero"}, "g is not zero"),
    ],
)
def test_metadata_that_the_samples_do_not_bear_out(family, claimed, words):
    metadata = replace(Metadata.of_family(Family(**family), 0, 1), **claimed)
    findings = list(examine([sample_of(**family)], metadata=metadata).findings())
    assert len(findings) == 1 and words in findings[0]


def test_samples_that_differ_in_kappa_alone_are_not_the_same():
    sample = sample_of(equation="darcy")
    other = replace(sample, coefficient=2 * sample.coefficient)
    assert not examine([sample, other], splits=np.array([0, 2])).in_both


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan, np.inf])
def test_a_tolerance_must_be_a_positive_number(tolerance):
    with pytest.raises(BenoError, match="tolerance"):
        examine([], tolerance=tolerance)


@pytest.mark.parametrize("contrast", [10.0, 1e4, 1e6])
def test_labels_in_single_precision_are_sound_whatever_kappa(contrast):
    sample = Sample.of(solve(Family("darcy", contrast=contrast, resolution=32).problem(0, 0)))
    report = examine([replace(sample, u=sample.u.astype(np.float32).astype(float))])
    assert report.healthy, list(report.findings())


def test_rounding_makes_no_sample_look_swapped():
    for resolution in (3, 4):
        domain = Domain.square(resolution)
        for seed in range(30):
            f = 1e8 if seed == 0 else np.random.default_rng(seed).normal(size=len(domain.points))
            assert not diagnose(Sample.of(solve(poisson(domain, f=f)))).transposed


def test_a_shifted_neumann_solution_is_found_and_mended():
    sample = sample_of(boundary="neumann")
    shifted = replace(sample, u=sample.u + 3)
    assert not examine([shifted]).healthy
    np.testing.assert_allclose(mend(shifted, np.zeros(4, dtype=bool)).u, sample.u, atol=1e-12)
