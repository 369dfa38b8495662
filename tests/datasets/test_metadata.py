"""Metadata says what a dataset claims to be, and comes back from JSON as it was."""

import json
from dataclasses import replace

import pytest

from beno.datasets.metadata import Metadata
from beno.problems.families import BOUNDARIES, Family
from beno.problems.law import LAWS
from beno.support.errors import BenoError

LEAST = {"equation": "poisson", "boundary": "zero", "corners": 4, "resolution": 8, "samples": 6, "origin": "x"}


@pytest.mark.parametrize("equation", LAWS)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_it_comes_back_from_json_as_it_was(equation, boundary):
    family = Family(equation, boundary, "mixed", 16)
    metadata = Metadata.of_family(family, 3, 10)
    assert Metadata.from_json(metadata.to_json()) == metadata
    assert metadata.problem_class == family.problem_class
    without = replace(metadata, seed=None, alpha_range=None)
    assert Metadata.from_json(without.to_json()) == without


def test_the_least_that_it_may_say_is_read():
    assert Metadata.from_json(json.dumps(LEAST)).samples == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resolution": "8"}, "has '8' for resolution; it must be int"),
        ({"resolution": 8.0}, "has 8.0 for resolution; it must be int"),
        ({"samples": True}, "has True for samples; it must be int"),
        ({"origin": None}, "has None for origin; it must be str"),
        ({"resolution": -8}, "below 1"),
        ({"samples": 0}, "below 1"),
        ({"equation": "heat"}, "has 'heat' for equation; there is poisson, darcy"),
        ({"boundary": "darcy"}, "has 'darcy' for boundary; there is dirichlet, zero"),
        ({"colour": "red", "size": 1}, "unknown metadata colour, size"),
    ],
)
def test_what_it_may_not_say_is_refused_by_name(change, words):
    with pytest.raises(BenoError, match=words):
        Metadata.from_json(json.dumps(LEAST | change))


@pytest.mark.parametrize(("text", "words"), [("[]", "no JSON object"), ("[" * 100_000, "nested too deeply")])
def test_what_is_no_object_is_refused(text, words):
    with pytest.raises(BenoError, match=words):
        Metadata.from_json(text)
