"""Files of every version keep giving their numbers, to the bit."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from beno.datasets.dataset import Dataset
from beno.datasets.doctor import examine
from beno.datasets.hdf5 import VERSION, write
from beno.datasets.records import Record

FOLDER = Path(__file__).parent.parent / "old_files"
NEW_NAMES = {"source": "f"}  # of what a version called by another name
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("version*/*.h5"))
every_file = pytest.mark.parametrize("file", FILES)


def test_there_are_files_of_every_version():
    assert {file.split("/")[0] for file in FILES} == {f"version{number}" for number in range(1, VERSION + 1)}
    for file in FILES:
        with h5py.File(FOLDER / file) as stored:
            assert f"version{stored.attrs['version']}" == file.split("/")[0]


def answers(file: str) -> dict[str, np.ndarray]:
    """What was stored of the file's samples beside it."""
    path = FOLDER / file
    with np.load(path.with_name("answers.npz")) as stored:
        start = f"samples/{path.stem}/"
        arrays = {name.removeprefix(start): stored[name] for name in stored.files if name.startswith(start)}
        extra = {name: stored[f"{name}/{path.stem}"] for name in ("counts", "split")}
    return {NEW_NAMES.get(name, name): values for name, values in arrays.items()} | extra


def assert_same(records: list[Record], expected: dict[str, np.ndarray]) -> None:
    counts = [(len(record["u"]), len(record["g"])) for record in records]
    np.testing.assert_array_equal(counts, expected["counts"])
    assert records[0].values.keys() == expected.keys() - {"counts", "split"}
    for name in records[0].values:
        found = np.concatenate([record[name] for record in records])
        np.testing.assert_array_equal(found, expected[name], err_msg=name)


@every_file
def test_every_array_of_every_sample_is_what_it_was(file):
    expected = answers(file)
    with Dataset(FOLDER / file) as dataset:
        np.testing.assert_array_equal(dataset.split_number, expected["split"])
        assert_same(list(dataset.records()), expected)
        assert_same([Record.of(solution) for solution in dataset], expected)


@every_file
def test_every_sample_is_found_sound(file):
    with Dataset(FOLDER / file) as dataset:
        report = examine(dataset.records(), dataset.split_number, 1e-10, dataset.metadata)
    assert report.healthy, list(report.findings())


@every_file
def test_written_in_the_present_version_it_is_the_same(file, tmp_path):
    with Dataset(FOLDER / file) as dataset:
        write(tmp_path / "new.h5", dataset.metadata, [dataset.block(0, len(dataset))], dataset.split_number)
        metadata = dataset.metadata
    with Dataset(tmp_path / "new.h5") as again:
        assert again.metadata == metadata
        assert_same(list(again.records()), answers(file))
