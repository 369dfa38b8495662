"""What the choice among solvers goes by: figures that were fitted, and choices that are near the best measured."""

import json
from dataclasses import asdict
from importlib import import_module

import pytest

from beno.learned.costs import COSTS
from tests.places import ROOT


@pytest.fixture(scope="module")
def solver_costs():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield import_module("solver_costs")


def test_costs_are_those_that_were_fitted():
    stored = json.loads((ROOT / "results" / "solver_costs.json").read_text())["figures"]
    written = {device: {method: asdict(cost) for method, cost in costs.items()} for device, costs in COSTS.items()}
    assert json.loads(json.dumps(written)) == stored


def test_the_fit_is_that_of_the_measurements(solver_costs):
    assert {device: solver_costs.fitted(device) for device in solver_costs.DEVICES} == COSTS


def test_nearly_all_choices_take_at_most_half_as_long_again_as_the_quickest(solver_costs):
    cases = list(solver_costs.compared())
    far = [case for case in cases if case.times_the_quickest > 1.5]
    assert len(far) <= 0.1 * len(cases), far
