"""A stream's samples are those that `data make` would make of its seed, and no two of them are the same."""

from dataclasses import replace

import joblib
import numpy as np
import pytest

from beno.datasets import stream as stream_module
from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.datasets.records import Record
from beno.datasets.stream import FIRST_SEED, Stream
from beno.problems.families import Family
from beno.support.errors import BenoError

FAMILY = Family("darcy", "mixed", "mixed", resolution=8, contrast=5.0)


@pytest.fixture
def data(tmp_path):
    make(FAMILY, 3, 12, tmp_path / "data.h5")
    with Dataset(tmp_path / "data.h5") as dataset:
        yield dataset


def test_samples_and_their_means_are_those_of_a_dataset_of_the_seed(data):
    stream = Stream(FAMILY, seed=3, samples=6)
    streamed = [solution for epoch in (0, 1) for solution in stream.solutions(epoch)]
    for ours, stored in zip(streamed, data, strict=True):
        for name, values in Record.of(ours).values.items():
            np.testing.assert_array_equal(values, Record.of(stored)[name], err_msg=name)
    for name in ("u", "f", "g"):
        ours, stored = ([np.abs(Record.of(one)[name]).mean() for one in some] for some in (streamed, data))
        assert ours == stored


def test_several_processes_draw_the_same(data, monkeypatch):
    monkeypatch.setattr(stream_module, "PROBLEMS_A_TASK", 5)
    with joblib.parallel_config(n_jobs=2):
        streamed = Stream(FAMILY, seed=3, samples=12).solutions(0)
    for ours, stored in zip(streamed, data, strict=True):
        np.testing.assert_array_equal(ours.u, stored.u)


def test_no_sample_is_seen_twice(monkeypatch):
    seen, problem = [], Family.problem
    monkeypatch.setattr(Family, "problem", lambda *which: seen.append(which[1:]) or problem(*which))
    stream = Stream(FAMILY, seed=3, samples=7)
    sources = [one.f.tobytes() for epoch in range(4) for one in stream.problems(epoch)]
    assert seen == [(3, index) for index in range(28)]
    assert len(set(sources)) == 28


def test_it_is_like_the_dataset_but_has_none_of_its_samples(data):
    stream = Stream.like(data.metadata, seed=3, samples=6)
    assert stream.family == FAMILY and stream.seed == FIRST_SEED + 3
    theirs = {solution.problem.f.tobytes() for solution in data}
    assert not theirs & {problem.f.tobytes() for epoch in (0, 1) for problem in stream.problems(epoch)}
    other = Stream.like(data.metadata, seed=4, samples=6)
    assert other.problems(0)[0].f.tobytes() != stream.problems(0)[0].f.tobytes()


@pytest.mark.parametrize("origin", ["published", "mended", "spoilt"])
def test_there_is_none_like_samples_that_were_not_drawn(data, origin):
    with pytest.raises(BenoError, match=f"its samples are {origin}: there is no family to draw others"):
        Stream.like(replace(data.metadata, origin=origin), seed=0, samples=6)


def test_what_an_older_file_does_not_say_of_its_family_was_the_default(data):
    assert replace(data.metadata, contrast=None, alpha_range=None).family == replace(FAMILY, contrast=10.0)
