"""A dataset is written as a whole or not at all."""

import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from beno.datasets.dataset import Dataset
from beno.datasets.hdf5 import FIELD_AT, GROUPS, ROWS_A_CHUNK, VERSION, Block, write
from beno.datasets.metadata import Metadata
from beno.datasets.records import Record
from beno.problems.families import Family
from beno.problems.fields import FIELDS
from beno.support.errors import BenoError
from tests.datasets.samples import solutions_of, stored

FAMILY = Family(resolution=8)


def test_a_file_has_every_field_at_its_place_and_its_version(tmp_path):
    family = Family("darcy", "mixed", resolution=8)
    with h5py.File(stored(tmp_path / "data.h5", family, solutions_of(family))) as file:
        assert file.attrs["version"] == VERSION
        assert {f"{group}/{name}" for group in GROUPS for name in file[group]} == FIELD_AT.keys()
        for place, field in FIELD_AT.items():
            assert file[place].dtype == field.dtype and file[place].shape[1:] == field.columns
            assert file[place].chunks == (ROWS_A_CHUNK, *field.columns)
            assert len(file[place]) == file[f"offsets/{field.on}"][-1]


def test_a_block_may_be_packed_of_solutions_and_of_records():
    solutions = solutions_of(Family("darcy", "mixed", resolution=8), 3)
    one, other = Block.pack(solutions), Block.pack([Record.of(solution) for solution in solutions])
    assert one.arrays.keys() == other.arrays.keys() and len(one.arrays) == len(FIELDS)
    for place, values in one.arrays.items():
        np.testing.assert_array_equal(values, other.arrays[place])


def test_splits_may_be_given(tmp_path):
    splits = np.array([2, 0, 1], dtype=np.uint8)
    write(tmp_path / "data.h5", Metadata.of_family(FAMILY, 0, 3), [Block.pack(solutions_of(FAMILY, 3))], splits)
    with Dataset(tmp_path / "data.h5") as dataset:
        np.testing.assert_array_equal(dataset.split_number, splits)


def test_a_file_that_is_not_to_last_reads_the_same(tmp_path):
    solutions = solutions_of(FAMILY, 3)
    write(tmp_path / "data.h5", Metadata.of_family(FAMILY, 0, 3), [Block.pack(solutions)], lasting=False)
    with Dataset(tmp_path / "data.h5") as dataset:
        for before, after in zip(solutions, dataset, strict=True):
            np.testing.assert_array_equal(after.u, before.u)


def test_nothing_is_left_behind_when_the_source_of_blocks_fails(tmp_path):
    def blocks():
        yield Block.pack(solutions_of(FAMILY, 2))
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        write(tmp_path / "data.h5", Metadata.of_family(FAMILY, 0, 4), blocks())
    assert list(tmp_path.iterdir()) == []


def test_another_number_of_samples_than_the_metadata_says_is_refused(tmp_path):
    with pytest.raises(BenoError, match="2 samples were written where the metadata says 5"):
        write(tmp_path / "data.h5", Metadata.of_family(FAMILY, 0, 5), [Block.pack(solutions_of(FAMILY, 2))])
    with pytest.raises(BenoError, match="there are no samples to write"):
        write(tmp_path / "data.h5", replace(Metadata.of_family(FAMILY, 0, 1), samples=0), [])
    assert list(tmp_path.iterdir()) == []


def test_samples_of_two_equations_do_not_share_a_file(tmp_path):
    darcy, poisson = solutions_of(Family("darcy", resolution=8), 1), solutions_of(FAMILY, 1)
    with pytest.raises(BenoError, match="one equation"):
        Block.pack(darcy + poisson)
    with pytest.raises(BenoError, match="same arrays"):
        write(tmp_path / "data.h5", Metadata.of_family(FAMILY, 0, 2), [Block.pack(darcy), Block.pack(poisson)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", [".", "/", "", "folder", "/dev/null"])
def test_only_files_are_written_over(tmp_path, place, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(BenoError, match=r"not the name of a file|folder or a device"):
        write(Path(place), Metadata.of_family(FAMILY, 0, 2), [Block.pack(solutions_of(FAMILY, 2))])
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
        for block in [Block.pack(solutions_of(FAMILY, 2))] * 2:
            os.kill(os.getpid(), signal.SIGINT)
            blocks.append(block)
            yield block

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "data.h5", Metadata.of_family(FAMILY, 0, 4), interrupted())
    assert len(blocks) == 1 and not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGINT) is before
