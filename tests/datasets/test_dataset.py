"""A dataset gives back what was put in, or says in one line why it cannot."""

import os
import resource
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import h5py
import numpy as np
import pytest

from beno.datasets.dataset import SPLITS, VERSION, Block, Dataset, Metadata, split_sizes, write
from beno.datasets.records import Sample
from beno.datasets.summaries import summarise
from beno.problems.families import Family
from beno.solvers.finite_volumes import solve
from beno.support.errors import BenoError


def samples_of(family, count=6):
    return [Sample.of(solve(family.problem(3, index))) for index in range(count)]


def stored(path, family, samples):
    write(path, Metadata.of_family(family, 3, len(samples)), [Block.pack(samples[:4]), Block.pack(samples[4:])])
    return path


@pytest.mark.parametrize("equation", ["poisson", "darcy"])
@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "robin", "mixed"])
def test_every_array_comes_back_to_the_bit(tmp_path, equation, boundary):
    family = Family(equation, boundary, "mixed", 16)
    samples = samples_of(family)
    with Dataset(stored(tmp_path / "data.h5", family, samples)) as dataset:
        assert len(dataset) == len(samples)
        assert dataset.metadata == Metadata.of_family(family, 3, len(samples))
        for before, after in zip(samples, dataset, strict=True):
            for name in (field.name for field in fields(Sample)):
                np.testing.assert_array_equal(getattr(after, name), getattr(before, name), err_msg=name)
            np.testing.assert_allclose(solve(after.problem).u, before.u, atol=1e-10)


def test_splits_follow_the_paper():
    assert split_sizes(1000) == (810, 90, 100)
    assert all(sum(split_sizes(count)) == count for count in range(1, 300))


def test_splits_part_the_samples(tmp_path):
    family = Family(resolution=8)
    with Dataset(stored(tmp_path / "data.h5", family, samples_of(family, 20))) as dataset:
        everything = np.concatenate([dataset.indices(split) for split in SPLITS])
        np.testing.assert_array_equal(np.sort(everything), np.arange(20))
        assert [len(dataset.indices(split)) for split in SPLITS] == list(split_sizes(20))


def test_nothing_is_left_behind_when_the_source_of_blocks_fails(tmp_path):
    family = Family(resolution=8)

    def blocks():
        yield Block.pack(samples_of(family, 2))
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        write(tmp_path / "data.h5", Metadata.of_family(family, 0, 4), blocks())
    assert list(tmp_path.iterdir()) == []


def test_too_few_samples_are_refused(tmp_path):
    family = Family(resolution=8)
    with pytest.raises(BenoError, match="2 samples were written where the metadata says 5"):
        write(tmp_path / "data.h5", Metadata.of_family(family, 0, 5), [Block.pack(samples_of(family, 2))])
    assert list(tmp_path.iterdir()) == []


def test_samples_of_two_equations_do_not_share_a_file(tmp_path):
    darcy, poisson = samples_of(Family("darcy", resolution=8), 1), samples_of(Family(resolution=8), 1)
    with pytest.raises(BenoError, match="one equation"):
        Block.pack(darcy + poisson)
    with pytest.raises(BenoError, match="same arrays"):
        write(tmp_path / "data.h5", Metadata.of_family(Family(), 0, 2), [Block.pack(darcy), Block.pack(poisson)])
    assert list(tmp_path.iterdir()) == []


def test_summary_agrees_with_the_whole(tmp_path):
    family = Family("darcy", resolution=8)
    samples = samples_of(family)
    with Dataset(stored(tmp_path / "data.h5", family, samples)) as dataset:
        summary = summarise(dataset)
    everything = np.concatenate([sample.u for sample in samples])
    assert summary["u"].rms == pytest.approx(np.sqrt(np.mean(everything**2)))
    assert summary["kappa"].smallest >= 1
    assert summary["points a sample"].largest == max(len(sample.u) for sample in samples)


class TestBadFiles:
    @pytest.fixture
    def path(self, tmp_path):
        family = Family(resolution=8)
        return stored(tmp_path / "data.h5", family, samples_of(family))

    def refused(self, path, match):
        with pytest.raises(BenoError, match=match) as caught, Dataset(path) as dataset:
            list(dataset)
        assert str(path) in str(caught.value)

    def test_missing(self, tmp_path):
        self.refused(tmp_path / "none.h5", "does not exist")

    def test_folder(self, tmp_path):
        self.refused(tmp_path, "is a folder")

    @pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99])
    def test_truncated(self, path, share):
        whole = path.read_bytes()
        path.write_bytes(whole[: int(share * len(whole))])
        self.refused(path, "cut short")

    def test_not_hdf5(self, path):
        path.write_text("x,y,u\n")
        self.refused(path, "not a readable HDF5 file")

    def test_foreign_hdf5(self, path):
        with h5py.File(path, "w") as file:
            file["u"] = np.zeros(3)
        self.refused(path, "not written by beno")

    def test_newer_version(self, path):
        with h5py.File(path, "r+") as file:
            file.attrs["version"] = VERSION + 1
        self.refused(path, f"format version {VERSION + 1}")

    def test_missing_array(self, path):
        with h5py.File(path, "r+") as file:
            del file["panels/g"]
        self.refused(path, "panels/g is missing")

    def test_short_array(self, path):
        with h5py.File(path, "r+") as file:
            file["points/u"].resize(10, axis=0)
        self.refused(path, "points/u is missing or does not have")

    def test_broken_offsets(self, path):
        with h5py.File(path, "r+") as file:
            file["offsets/points"][1] = -4
        self.refused(path, "offsets/points do not fit")

    def test_unknown_metadata(self, path):
        with h5py.File(path, "r+") as file:
            file.attrs["metadata"] = '{"equation": "poisson", "colour": "red"}'
        self.refused(path, "unknown metadata colour")

    def test_nan_is_refused_by_place(self, path):
        with h5py.File(path, "r+") as file:
            row = file["offsets/points"][2] + 5
            file["points/u"][row] = np.nan
        self.refused(path, "sample 2: u is nan in row 5")

    @pytest.mark.parametrize(
        ("metadata", "words"),
        [
            ("[]", "no JSON object"),
            (
                '{"equation": "poisson", "boundary": "zero", "resolution": "8", "samples": 6, "origin": "x"}',
                "resolution",
            ),
            ('{"equation": "poisson", "boundary": "zero", "resolution": -8, "samples": 6, "origin": "x"}', "below 1"),
            ("{", "not a sound"),
        ],
    )
    def test_malformed_metadata(self, path, metadata, words):
        with h5py.File(path, "r+") as file:
            file.attrs["metadata"] = metadata
        self.refused(path, words)

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("points/u", np.zeros((4, 2))),
            ("points/position", np.zeros(4)),
            ("panels/g", np.zeros(4, dtype=complex)),
            ("split", np.zeros(3, dtype=np.uint8)),
            ("split", np.full(6, 9, dtype=np.uint8)),
        ],
    )
    def test_arrays_of_the_wrong_shape_or_type(self, path, name, values):
        with h5py.File(path, "r+") as file:
            rows = len(file[name]) if name != "split" else len(values)
            del file[name]
            file[name] = np.resize(values, (rows, *values.shape[1:]))
        self.refused(path, "not a sound beno-dataset")

    def test_an_older_version_than_the_first(self, path):
        with h5py.File(path, "r+") as file:
            file.attrs["version"] = 0
        self.refused(path, "format version 0")

    def test_index_beyond_the_end(self, path):
        with Dataset(path) as dataset, pytest.raises(IndexError, match="samples 0 to 5"):
            dataset[6]


@pytest.mark.parametrize("place", [".", "/", "", "folder", "/dev/null"])
def test_only_files_are_written_over(tmp_path, place, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    family = Family(resolution=8)
    with pytest.raises(BenoError, match=r"not the name of a file|folder or a device"):
        write(Path(place), Metadata.of_family(family, 0, 2), [Block.pack(samples_of(family, 2))])
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="the system has no limit on the size of files")
def test_a_disk_that_is_full_leaves_a_message_and_no_file(tmp_path):
    """A limit on the size of files stands for the full disk: a write fails in the middle, as there."""
    script = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000));"
        "from pathlib import Path; from beno.datasets.making import make; from beno.problems.families import Family;"
        "make(Family(resolution=16), 0, 40, Path('data.h5'))"
    )
    result = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1, (result.returncode, result.stderr)
    assert "BenoError: cannot write" in result.stderr and "File too large" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_while_it_is_written_is_not_lost(tmp_path):
    """HDF5 swallows what is raised while it calls back; the file is not left half-written either."""
    before = signal.getsignal(signal.SIGINT)
    blocks = []

    def interrupted():
        for block in [Block.pack(samples_of(Family(resolution=8), 2))] * 2:
            os.kill(os.getpid(), signal.SIGINT)
            blocks.append(block)
            yield block

    metadata = Metadata.of_family(Family(resolution=8), 0, 4)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "data.h5", metadata, interrupted())
    assert len(blocks) == 1 and not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGINT) is before
