"""Scales bring f, g and u to size one and leave zero at zero."""

import numpy as np
import pytest

from beno.datasets.scales import Scales
from beno.problems.families import Family
from beno.support.errors import BenoError
from tests.datasets.samples import solutions_of


def test_what_is_divided_by_them_has_size_one():
    solutions = solutions_of(Family("darcy", "mixed", "mixed", 8))
    scales = Scales.fit(solutions)
    for scale, values in (
        (scales.source, [one.problem.f for one in solutions]),
        (scales.boundary, [one.problem.g for one in solutions]),
        (scales.solution, [one.u for one in solutions]),
    ):
        assert np.sqrt(np.mean((np.concatenate(values) / scale) ** 2)) == pytest.approx(1.0)


def test_what_is_zero_throughout_keeps_its_scale():
    assert Scales.fit(solutions_of(Family(boundary="zero", resolution=8))).boundary == 1.0
    assert Scales.fit([]) == Scales()


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_must_be_a_positive_number(bad):
    with pytest.raises(BenoError, match=f"the scale of the source is {bad}; it must be a positive number"):
        Scales(source=bad)
