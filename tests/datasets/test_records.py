"""A record takes nothing on trust: it becomes a solution only if it is one of some problem on some domain."""

import numpy as np
import pytest
from hypothesis import given

from beno.datasets.records import Record
from beno.problems.fields import FIELDS
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.datasets.samples import record_of
from tests.strategies import problems, seeds


def in_other_order(record: Record, seed: int) -> Record:
    """The same with its points in a random order."""
    order = np.random.default_rng(seed).permutation(len(record["u"]))
    at_points = [field.name for field in FIELDS if field.on == "points" and field.name in record.values]
    return record.replace(**{name: record[name][order] for name in at_points})


@given(problems())
def test_a_solution_comes_back_from_its_record(problem):
    solution = Direct().solve(problem)
    again = Record.of(solution).solution()
    np.testing.assert_array_equal(again.problem.domain.mask, problem.domain.mask)
    for name, values in solution.values.items():
        np.testing.assert_array_equal(again.values[name], values, err_msg=name)


@given(problems(), seeds)
def test_the_order_of_its_points_does_not_matter(problem, seed):
    record = Record.of(Direct().solve(problem))
    mixed = in_other_order(record, seed)
    np.testing.assert_array_equal(mixed["points"][mixed.grid_order], record["points"])
    np.testing.assert_array_equal(mixed.solution().u, record["u"])
    np.testing.assert_array_equal(mixed.domain.mask, record.domain.mask)


def test_replaced_values_leave_the_others_and_the_record_as_they_were():
    record = record_of()
    other = record.replace(u=2 * record["u"])
    np.testing.assert_array_equal(other["u"], 2 * record["u"])
    assert other["g"] is record["g"] and other.resolution == record.resolution


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: {"points": r["points"] + 0.01}, "points are not those"),
        (lambda r: {"points": r["points"] + 1.0}, "points lie outside the unit square"),
        (lambda r: {"points": np.full_like(r["points"], 1e300)}, "points lie outside the unit square"),
        (lambda r: {"points": np.full_like(r["points"], -1e300)}, "points lie outside the unit square"),
        (lambda r: {"centres": r["centres"][::-1]}, "boundary faces are not those"),
        (lambda r: {"centres": 1e300 * r["centres"]}, "boundary faces are not those"),
        (lambda r: {"normals": -r["normals"]}, "normals are not those"),
        (lambda r: {"lengths": 3 * r["lengths"]}, "panel lengths are not those"),
        (lambda r: {"ring": r["ring"] + 5}, "rings are not those"),
        (lambda r: {"kind": np.full_like(r["kind"], 7)}, "kind is 7 at panel 0; panel kinds must be"),
        (lambda r: {"alpha": r["alpha"] - 7}, "Robin panels need alpha >= 0"),
        (lambda r: {"coefficient": 0 * r["u"], "panel_coefficient": 0 * r["g"]}, "must be positive"),
        (lambda r: {"coefficient": 1 + 0 * r["u"]}, "no law has just the coefficients coefficient"),
    ],
)
def test_what_is_no_solution_of_any_problem_is_refused(change, words):
    record = record_of()
    with pytest.raises(BenoError, match=words):
        record.replace(**change(record)).solution()


def test_what_is_not_finite_is_named_with_its_place():
    record = record_of()
    g = record["g"].copy()
    g[3] = np.inf
    spoilt = record.replace(g=g)
    assert record.columns_not_finite == [] and spoilt.columns_not_finite == ["g"]
    record.require_finite("here")
    with pytest.raises(BenoError, match="here: g is inf in row 3; every value must be finite"):
        spoilt.require_finite("here")
