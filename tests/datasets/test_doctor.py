"""The doctor finds each fault by itself, blames nothing that is sound, and mends what the labels determine."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beno.datasets.doctor import diagnose, examine, mend
from beno.datasets.metadata import Metadata
from beno.datasets.records import Record
from beno.geometry.base import DIRECTION_NAMES, DIRECTIONS
from beno.geometry.grid import Domain
from beno.problems.families import Family
from beno.problems.problem import poisson
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.datasets.samples import record_of


def spoil_walls(record, name, by=0.3):
    here = (record["normals"] == DIRECTIONS[DIRECTION_NAMES.index(name)]).all(axis=1)
    return record.replace(g=np.where(here, record["g"] + by, record["g"]))


def swap_points(record):
    """As the authors' files have it: x and y of the points exchanged, nothing else."""
    return record.replace(points=record["points"][:, ::-1])


EVERY_FAMILY = [
    {"equation": equation, "boundary": boundary}
    for equation in ("poisson", "darcy")
    for boundary in ("dirichlet", "neumann", "robin", "mixed")
]


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_sound_samples_are_left_alone(family):
    record = record_of(**family)
    assert diagnose(record).sound(1e-10)
    mended = mend(record, np.ones(4, dtype=bool))
    np.testing.assert_array_equal(mended.problem.g, record["g"])


@pytest.mark.parametrize("corners", range(5))
@pytest.mark.parametrize("name", DIRECTION_NAMES)
def test_a_wrong_wall_is_named_and_read_back(corners, name):
    record = record_of(corners=corners)
    report = examine([spoil_walls(record, name)])
    assert report.wrong_walls == [name]
    assert not report.healthy
    assert any(f"walls that face {name}" in line for line in report.findings())
    mended = mend(spoil_walls(record, name), np.isin(DIRECTION_NAMES, report.wrong_walls))
    np.testing.assert_allclose(mended.problem.g, record["g"], atol=1e-9)


@pytest.mark.parametrize("corners", range(5))
def test_swapped_coordinates_are_found_whatever_the_shape(corners):
    """A square is its own transpose, so there only the boundary values can tell."""
    record = record_of(corners=corners, index=1)
    report = examine([swap_points(record)])
    assert report.transposed == 1 and not report.wrong_walls
    mended = mend(swap_points(record), np.zeros(4, dtype=bool))
    np.testing.assert_array_equal(mended.problem.domain.points, record["points"])
    np.testing.assert_array_equal(mended.u, record["u"])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(DIRECTION_NAMES), st.booleans(), st.sampled_from(["poisson", "darcy"]))
def test_both_faults_at_once_on_any_problem(index, name, swapped, equation):
    spoiled = spoil_walls(record_of(index, corners=4, equation=equation), name)
    spoiled = swap_points(spoiled) if swapped else spoiled
    report = examine([spoiled])
    assert report.wrong_walls == [name]
    assert report.transposed == swapped
    mended = mend(spoiled, np.isin(DIRECTION_NAMES, report.wrong_walls))
    assert diagnose(Record.of(mended)).sound(1e-9)


def test_a_wrong_solution_is_found_away_from_the_walls():
    record = record_of()
    u = record["u"].copy()
    u[np.argmax(record.domain.wall_distance.min(axis=1))] += 0.01
    report = examine([record.replace(u=u)])
    assert any("away from the walls" in line for line in report.findings())


def test_nan_is_named_by_column():
    record = record_of()
    g = record["g"].copy()
    g[3] = np.nan
    report = examine([record.replace(g=g)])
    assert list(report.findings()) == ["NaN or infinity in g: 1 of 1 samples"]
    with pytest.raises(BenoError, match="NaN or infinity in g"):
        mend(record.replace(g=g), np.ones(4, dtype=bool))


def test_points_that_fit_no_boundary_are_said_to_fit_none_swapped_or_not():
    cross, square = record_of(corners=4), record_of(corners=0)
    mixed_up = cross.replace(**{name: square[name] for name in ("points", "f", "u")})
    report = examine([mixed_up])
    assert not report.healthy
    assert "belong to no cell, swapped or not" in next(report.findings())


def test_a_sample_in_train_and_test_is_found_whatever_the_order_of_its_points():
    records = [record_of(index) for index in range(4)]
    order = np.random.default_rng(0).permutation(len(records[1]["u"]))
    copy = records[1].replace(**{name: records[1][name][order] for name in ("points", "f", "u")})
    report = examine([*records, copy], splits=np.array([0, 0, 0, 1, 2]))
    assert report.in_both == [(1, 4)]
    assert any("samples 1 and 4 are the same" in line for line in report.findings())


def test_copies_within_one_split_are_no_leak():
    record = record_of()
    assert examine([record, record], splits=np.array([0, 0])).healthy


def test_a_source_that_u_does_not_feel_at_the_walls_is_still_missed():
    """With a small h or a small f each equation lacks little; only the solution as a whole tells."""
    solution = Direct().solve(Family(boundary="robin", resolution=64, corners="mixed").problem(0, 0))
    inside = np.bincount(solution.problem.domain.panels.cell, minlength=len(solution.u)) == 0
    report = examine([Record.of(solution).replace(f=np.where(inside, 0.0, solution.problem.f))])
    assert report.residual < 1e-4
    assert not report.healthy and "u is not the solution" in list(report.findings())[-1]


def test_healthy_means_no_findings_and_only_sound_samples():
    sound, spoiled = record_of(), spoil_walls(record_of(), "+y")
    for records in ([sound], [spoiled], [sound, spoiled]):
        report = examine(records)
        assert report.healthy == (list(report.findings()) == []) == all(d.sound() for d in report.samples)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: {"normals": -r["normals"]}, "normals are not those"),
        (lambda r: {"lengths": 3 * r["lengths"]}, "panel lengths are not those"),
        (lambda r: {"ring": r["ring"] + 5}, "rings are not those"),
        (lambda r: {"kind": np.full_like(r["kind"], 7)}, "panel kinds must be"),
        (lambda r: {"alpha": r["alpha"] - 7}, "Robin panels need alpha >= 0"),
        (lambda r: {"coefficient": 0 * r["u"], "panel_coefficient": 0 * r["g"]}, "must be positive"),
        (lambda r: {"coefficient": 1 + 0 * r["u"]}, "no law has just the coefficients coefficient"),
        (lambda r: {"centres": 1e300 * r["centres"]}, "belong to no cell, swapped or not"),
        (lambda r: {"points": 1e300 * r["points"]}, "belong to no cell, swapped or not"),
    ],
)
def test_what_makes_no_problem_is_named_and_not_mended(change, words):
    record = record_of()
    spoiled = record.replace(**change(record))
    assert words in next(examine([spoiled]).findings())
    with pytest.raises(BenoError, match=words):
        mend(spoiled, np.ones(4, dtype=bool))


@pytest.mark.parametrize(
    ("family", "claimed", "words"),
    [
        ({}, {"equation": "darcy"}, "says darcy, but the sample has no coefficient"),
        ({"equation": "darcy"}, {"equation": "poisson"}, "has a coefficient and a panel coefficient"),
        ({"boundary": "mixed"}, {"boundary": "robin"}, "says robin boundaries"),
        ({}, {"boundary": "zero"}, "g is not zero"),
    ],
)
def test_metadata_that_the_samples_do_not_bear_out_is_a_finding(family, claimed, words):
    metadata = replace(Metadata.of_family(Family(**family), 0, 1), **claimed)
    findings = list(examine([record_of(**family)], metadata=metadata).findings())
    assert len(findings) == 1 and words in findings[0]


def test_samples_that_differ_in_kappa_alone_are_not_the_same():
    record = record_of(equation="darcy")
    other = record.replace(coefficient=2 * record["coefficient"])
    assert not examine([record, other], splits=np.array([0, 2])).in_both


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan, np.inf])
def test_a_tolerance_must_be_a_positive_number(tolerance):
    with pytest.raises(BenoError, match="tolerance"):
        examine([], tolerance=tolerance)


@pytest.mark.parametrize("contrast", [10.0, 1e4, 1e6])
def test_labels_in_single_precision_are_sound_whatever_kappa(contrast):
    record = Record.of(Direct().solve(Family("darcy", contrast=contrast, resolution=32).problem(0, 0)))
    report = examine([record.replace(u=record["u"].astype(np.float32).astype(float))])
    assert report.healthy, list(report.findings())


def test_rounding_makes_no_sample_look_swapped():
    for resolution in (3, 4):
        domain = Domain.square(resolution)
        for seed in range(30):
            f = 1e8 if seed == 0 else np.random.default_rng(seed).normal(size=len(domain.points))
            assert not diagnose(Record.of(Direct().solve(poisson(domain, f=f)))).transposed


def test_a_shifted_neumann_solution_is_found_and_mended():
    record = record_of(boundary="neumann")
    shifted = record.replace(u=record["u"] + 3)
    assert not examine([shifted]).healthy
    np.testing.assert_allclose(mend(shifted, np.zeros(4, dtype=bool)).u, record["u"], atol=1e-12)
