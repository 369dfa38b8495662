"""A dataset gives back what was put in, or says in one line why it cannot."""

import pickle

import h5py
import numpy as np
import pytest

from beno.datasets.dataset import Dataset
from beno.datasets.hdf5 import KINDS_BY_NAME, VERSION
from beno.datasets.metadata import Metadata
from beno.datasets.records import Record
from beno.datasets.splits import SPLITS, split_sizes
from beno.problems.families import Family
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.datasets.samples import SEED, solutions_of, stored


@pytest.mark.parametrize("equation", ["poisson", "darcy"])
@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "robin", "mixed"])
def test_every_array_comes_back_to_the_bit(tmp_path, equation, boundary):
    family = Family(equation, boundary, "mixed", 16)
    solutions = solutions_of(family)
    with Dataset(stored(tmp_path / "data.h5", family, solutions)) as dataset:
        assert len(dataset) == len(solutions)
        assert dataset.metadata == Metadata.of_family(family, SEED, len(solutions))
        for before, after, record in zip(solutions, dataset, dataset.records(), strict=True):
            expected = Record.of(before).values
            assert record.values.keys() == expected.keys()
            for name, values in expected.items():
                np.testing.assert_array_equal(record[name], values, err_msg=name)
                np.testing.assert_array_equal(Record.of(after)[name], values, err_msg=name)
            np.testing.assert_allclose(Direct().solve(after.problem).u, before.u, atol=1e-10)


def test_splits_part_the_samples(tmp_path):
    family = Family(resolution=8)
    with Dataset(stored(tmp_path / "data.h5", family, solutions_of(family, 20))) as dataset:
        everything = np.concatenate([dataset.indices(split) for split in SPLITS])
        np.testing.assert_array_equal(np.sort(everything), np.arange(20))
        assert [len(dataset.indices(split)) for split in SPLITS] == list(split_sizes(20))


def test_a_block_is_its_samples_on_end(tmp_path):
    family = Family("darcy", "mixed", "mixed", 8)
    solutions = solutions_of(family)
    with Dataset(stored(tmp_path / "data.h5", family, solutions)) as dataset:
        block = dataset.block(1, 5)
    assert len(block) == 4
    np.testing.assert_array_equal(block.arrays["points/u"], np.concatenate([one.u for one in solutions[1:5]]))
    np.testing.assert_array_equal(block.panels, [len(one.problem.g) for one in solutions[1:5]])


def test_it_opens_its_file_for_itself_in_another_process(tmp_path):
    family = Family(resolution=8)
    with Dataset(stored(tmp_path / "data.h5", family, solutions_of(family))) as dataset:
        with pickle.loads(pickle.dumps(dataset)) as other:
            np.testing.assert_array_equal(other[3].u, dataset[3].u)
        assert "6 samples, poisson, dirichlet boundary" in repr(dataset)


class TestKindsOfWalls:
    """Files say what their numbers for kinds mean; what other versions call them does not matter."""

    @pytest.fixture
    def path(self, tmp_path):
        family = Family(boundary="mixed", resolution=8)
        return stored(tmp_path / "data.h5", family, solutions_of(family))

    @staticmethod
    def put(path, kinds, dtype):
        with h5py.File(path, "r+") as file:
            del file["panels/kind"]
            file.create_dataset("panels/kind", data=kinds, dtype=dtype)

    @staticmethod
    def kinds_in(path):
        with Dataset(path) as dataset:
            return np.concatenate([solution.problem.walls.kind for solution in dataset])

    def test_they_are_stored_by_name(self, path):
        with h5py.File(path) as file:
            names = h5py.check_enum_dtype(file["panels/kind"].dtype)
        assert names == {"dirichlet": 0, "neumann": 1, "robin": 2} == {kind.label: kind.value for kind in Kind}

    def test_numbers_of_another_version_are_translated_by_their_names(self, path):
        kinds = self.kinds_in(path)
        other = {"robin": 0, "dirichlet": 7, "neumann": -3}
        number = np.array([other[kind.label] for kind in Kind])
        self.put(path, number[kinds], h5py.enum_dtype(other, basetype="i1"))
        np.testing.assert_array_equal(self.kinds_in(path), kinds)

    def test_numbers_without_names_are_those_of_version_1(self, path):
        kinds = self.kinds_in(path)
        self.put(path, kinds, "i1")
        np.testing.assert_array_equal(self.kinds_in(path), kinds)

    def test_an_unknown_name_is_refused(self, path):
        self.put(path, self.kinds_in(path), h5py.enum_dtype({"dirichlet": 0, "neumann": 1, "signorini": 2}, "i1"))
        with pytest.raises(BenoError, match="it has signorini walls; this beno has dirichlet, neumann, robin"):
            Dataset(path)

    @pytest.mark.parametrize("dtype", [KINDS_BY_NAME, h5py.enum_dtype({"robin": 0, "dirichlet": 2}, "i1"), "i1"])
    def test_a_number_without_a_name_is_no_kind(self, path, dtype):
        self.put(path, np.full(len(self.kinds_in(path)), 5), dtype)
        with Dataset(path) as dataset, pytest.raises(BenoError, match=r"sample 0: kind is (5|-1) at panel 0"):
            dataset[0]

    def test_names_of_wide_numbers_are_refused(self, path):
        self.put(path, self.kinds_in(path), h5py.enum_dtype({"dirichlet": 0, "neumann": 1, "robin": 300}, "i4"))
        with pytest.raises(BenoError, match="numbers of more than one byte"):
            Dataset(path)


class TestBadFiles:
    @pytest.fixture
    def path(self, tmp_path):
        family = Family(resolution=8)
        return stored(tmp_path / "data.h5", family, solutions_of(family))

    def refused(self, path, match):
        with pytest.raises(BenoError, match=match) as caught, Dataset(path) as dataset:
            list(dataset)
        assert str(path) in str(caught.value)

    def test_a_file_that_is_not_there_is_refused(self, tmp_path):
        self.refused(tmp_path / "none.h5", "does not exist")

    def test_a_folder_is_refused(self, tmp_path):
        self.refused(tmp_path, "is a folder")

    @pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99])
    def test_a_file_that_was_cut_short_is_refused(self, path, share):
        whole = path.read_bytes()
        path.write_bytes(whole[: int(share * len(whole))])
        self.refused(path, "cut short")

    def test_what_is_not_hdf5_is_refused(self, path):
        path.write_text("x,y,u\n")
        self.refused(path, "not a readable HDF5 file")

    def test_hdf5_of_other_programs_is_refused(self, path):
        with h5py.File(path, "w") as file:
            file["u"] = np.zeros(3)
        self.refused(path, "not written by beno")

    @pytest.mark.parametrize("version", [0, VERSION + 1])
    def test_a_version_that_there_is_not_yet_or_never_was_is_refused(self, path, version):
        with h5py.File(path, "r+") as file:
            file.attrs["version"] = version
        self.refused(path, f"format version {version}; this beno reads 1 to {VERSION}")

    def test_a_missing_array_is_named(self, path):
        with h5py.File(path, "r+") as file:
            del file["panels/g"]
        self.refused(path, "panels/g is missing")

    def test_an_array_that_is_too_short_is_named(self, path):
        with h5py.File(path, "r+") as file:
            file["points/u"].resize(10, axis=0)
        self.refused(path, "points/u is missing or does not have")

    def test_offsets_that_do_not_ascend_are_refused(self, path):
        with h5py.File(path, "r+") as file:
            file["offsets/points"][1] = -4
        self.refused(path, "offsets/points do not fit")

    def test_nan_is_refused_by_place(self, path):
        with h5py.File(path, "r+") as file:
            row = file["offsets/points"][2] + 5
            file["points/u"][row] = np.nan
        self.refused(path, "sample 2: u is nan in row 5")

    def test_what_is_no_domain_is_refused_with_the_sample_and_a_way_to_learn_more(self, path):
        with h5py.File(path, "r+") as file:
            file["panels/normal"][0] = (0.0, 1.0)
        self.refused(path, "sample 0: its normals are not those of the domain .*; `beno data check` says more")

    @pytest.mark.parametrize(
        ("metadata", "words"),
        [
            ("[]", "no JSON object"),
            ("{", "not a sound"),
            ("[" * 100_000, "nested too deeply"),
            ('{"equation": "poisson", "colour": "red"}', "unknown metadata colour"),
        ],
    )
    def test_metadata_that_says_nothing_is_refused(self, path, metadata, words):
        with h5py.File(path, "r+") as file:
            if len(metadata) > 2**15:  # more than HDF5 stores beside the data
                file.attrs.create("metadata", metadata, dtype=h5py.string_dtype())
            else:
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
    def test_arrays_of_the_wrong_shape_or_type_are_refused(self, path, name, values):
        with h5py.File(path, "r+") as file:
            rows = len(file[name]) if name != "split" else len(values)
            del file[name]
            file[name] = np.resize(values, (rows, *values.shape[1:]))
        self.refused(path, "not a sound beno-dataset")

    def test_an_index_beyond_the_end_is_no_sample(self, path):
        with Dataset(path) as dataset, pytest.raises(IndexError, match="samples 0 to 5"):
            dataset[6]
