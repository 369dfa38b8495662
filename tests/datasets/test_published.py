"""The authors' own sample: data that this code did not make."""

import numpy as np
import pytest

from beno.datasets.doctor import diagnose, examine, mend
from beno.datasets.published import read_published, with_published_fault
from beno.datasets.records import Record
from beno.geometry.base import DIRECTION_NAMES
from beno.problems.families import Family
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.places import PUBLISHED_DATA

FOLDER = PUBLISHED_DATA
needs_published_data = pytest.mark.skipif(
    not (FOLDER / "RHS_N32_10.npy").exists(),
    reason="the authors' ten samples are not here; BENO_PUBLISHED_DATA says where they are",
)


@pytest.fixture(scope="module")
def published():
    return read_published(FOLDER)


@needs_published_data
class TestTheAuthorsSample:
    def test_both_faults_and_the_empty_column_are_found(self, published):
        report = examine(published.samples)
        assert published.nan_columns == ["BC column 3 (unused)"]
        assert report.transposed == 10
        assert report.wrong_walls == ["-x"]
        assert all(sample.misfit[0] > 0.1 and sample.inner_residual < 1e-4 for sample in report.samples)

    def test_its_fault_can_be_put_in_again(self, published):
        distrusted = np.isin(DIRECTION_NAMES, ["-x"])
        for record in published.samples:
            spoilt = Record.of(with_published_fault(mend(record, distrusted)))
            np.testing.assert_allclose(np.sort(spoilt["g"]), np.sort(record["g"]), atol=1e-4)
            assert examine([spoilt]).wrong_walls == ["-x"]
            left = spoilt["normals"][:, 0] < -0.5
            order, theirs = np.lexsort(spoilt["centres"].T), np.lexsort(record["centres"].T)
            np.testing.assert_allclose(spoilt["g"][order][left[order]], record["g"][theirs][left[order]], atol=1e-4)

    def test_every_sample_can_be_mended(self, published):
        distrusted = np.isin(DIRECTION_NAMES, ["-x"])
        for record in published.samples:
            mended = mend(record, distrusted)
            assert diagnose(Record.of(mended)).residual < 1e-4
            assert np.linalg.norm(Direct().solve(mended.problem).u - mended.u) < 1e-5 * np.linalg.norm(mended.u)
            untouched = ~distrusted[mended.problem.domain.panels.direction]
            np.testing.assert_array_equal(mended.problem.g[untouched], record["g"][untouched])

    def test_the_wrong_walls_are_copies_of_the_upper_ones(self, published):
        """What the fault is, as far as the numbers tell."""
        for record in published.samples:
            left = np.sort(record["g"][record["normals"][:, 0] == -1])
            upper = np.sort(record["g"][record["normals"][:, 1] == 1])
            np.testing.assert_array_equal(left, upper)


def write_set(folder, samples=2, cells=64, faces=32, **changed):
    n = round(cells**0.5)
    x, y = (np.indices((n, n)).reshape(2, -1) + 0.5) / n
    t = (np.arange(n) + 0.5) / n
    zero, one = np.zeros(n), np.ones(n)
    walls = np.concatenate([np.stack(pair, axis=1) for pair in ((t, zero), (one, t), (t, one), (zero, t))])
    arrays = {
        "RHS": np.tile(np.stack([x, y, 0 * x, 0 * x], axis=1), (samples, 1, 1)),
        "SOL": np.ones((samples, cells, 1)),
        "BC": np.tile(
            np.concatenate([walls, np.ones((4 * n, 1)), np.full((4 * n, 1), np.nan)], axis=1), (samples, 1, 1)
        ),
    } | changed
    for name, array in arrays.items():
        if array is not None:
            np.save(folder / f"{name}_N8_2.npy", array)
    return arrays


@pytest.mark.parametrize("index", range(3))
def test_the_published_fault_is_found_by_the_doctor_and_mended(index):
    solution = Direct().solve(Family(resolution=16).problem(0, index))
    spoilt = Record.of(with_published_fault(solution))
    assert examine([spoilt]).wrong_walls == ["-x"]
    mended = mend(spoilt, np.isin(DIRECTION_NAMES, ["-x"]))
    np.testing.assert_allclose(mended.problem.g, solution.problem.g, atol=1e-9)


def test_a_set_that_was_made_by_hand_is_read_and_found_healthy(tmp_path):
    write_set(tmp_path)
    published = read_published(tmp_path)
    assert published.metadata.corners == 0 and published.metadata.resolution == 8
    assert examine(published.samples).healthy


def test_what_is_no_set_is_refused_with_the_file_or_the_sample(tmp_path):
    with pytest.raises(BenoError, match="0 files RHS"):
        read_published(tmp_path)
    arrays = write_set(tmp_path)
    (tmp_path / "SOL_N8_2.npy").unlink()
    with pytest.raises(BenoError, match=r"SOL_N8_2.npy is missing"):
        read_published(tmp_path)
    write_set(tmp_path, SOL=np.ones((2, 63, 1)))
    with pytest.raises(BenoError, match=r"SOL_N8_2.npy has shape"):
        read_published(tmp_path)
    write_set(tmp_path, RHS=np.full((2, 64, 4), np.nan))
    with pytest.raises(BenoError, match="sample 0: NaN or infinity"):
        read_published(tmp_path)
    outside = arrays["RHS"].copy()
    outside[0, :, 3] = 1
    write_set(tmp_path, RHS=outside)
    with pytest.raises(BenoError, match="sample 0: no cell is inside"):
        read_published(tmp_path)
    write_set(tmp_path, **{name: array[:0] for name, array in arrays.items()})
    with pytest.raises(BenoError, match="0 samples of 64 cells"):
        read_published(tmp_path)
    write_set(tmp_path, SOL=np.full((2, 64, 1), np.nan))
    assert list(examine(read_published(tmp_path).samples).findings()) == ["NaN or infinity in u: 2 of 2 samples"]
    write_set(tmp_path, BC=arrays["BC"][:, 1:])
    with pytest.raises(BenoError, match=r"do not close around a region|mask"):
        read_published(tmp_path)
    (tmp_path / "BC_N8_2.npy").write_bytes(b"not an array")
    with pytest.raises(BenoError, match=r"BC_N8_2\.npy is not a readable"):
        read_published(tmp_path)
    np.save(tmp_path / "BC_N8_2.npy", np.array([{"code": "run me"}], dtype=object))
    with pytest.raises(BenoError, match=r"BC_N8_2\.npy is not a readable"):
        read_published(tmp_path)
