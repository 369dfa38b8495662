"""Making: the same file from any number of workers, through any interruption, in bounded pieces."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace

import h5py
import numpy as np
import pytest

from beno.datasets import making
from beno.datasets.dataset import Dataset
from beno.datasets.doctor import examine
from beno.datasets.making import is_made, make, make_block
from beno.datasets.solver import solver_for
from beno.problems.families import Family
from beno.solvers.device.gradients import ConjugateGradients
from beno.support.errors import BenoError

SMALL = Family(corners="mixed", resolution=8)
BLOCK = 16  # samples; as many as usual would prove no more, and take sixteen times as long


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(making, "MOST_SAMPLES_A_BLOCK", BLOCK)


def contents(path):
    with Dataset(path) as dataset:
        return dataset.metadata, dataset.block(0, len(dataset))


def assert_same(one, other):
    (metadata, block), (other_metadata, other_block) = contents(one), contents(other)
    assert metadata == other_metadata
    np.testing.assert_array_equal(block.points, other_block.points)
    assert block.arrays.keys() == other_block.arrays.keys()
    for name, values in block.arrays.items():
        np.testing.assert_array_equal(values, other_block.arrays[name], err_msg=name)


def test_any_number_of_workers_makes_the_same(tmp_path):
    count = 2 * BLOCK + 30
    make(SMALL, 5, count, tmp_path / "one.h5")
    make(SMALL, 5, count, tmp_path / "two.h5", workers=2)
    assert_same(tmp_path / "one.h5", tmp_path / "two.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.h5", "two.h5"]


def test_a_larger_dataset_begins_with_the_smaller(tmp_path):
    make(SMALL, 5, 7, tmp_path / "seven.h5")
    make(SMALL, 5, 12, tmp_path / "twelve.h5")
    with Dataset(tmp_path / "seven.h5") as few, Dataset(tmp_path / "twelve.h5") as many:
        for index in range(7):
            np.testing.assert_array_equal(few[index].u, many[index].u)


@pytest.mark.parametrize("equation", ["poisson", "darcy"])
@pytest.mark.parametrize("boundary", ["dirichlet", "zero", "neumann", "robin", "mixed"])
def test_what_is_made_is_sound(tmp_path, equation, boundary):
    make(Family(equation, boundary, "mixed", 16), 0, 10, tmp_path / "data.h5")
    with Dataset(tmp_path / "data.h5") as dataset:
        report = examine(dataset.records(), dataset.split_number, tolerance=1e-10)
    assert report.healthy, list(report.findings())


def test_making_goes_on_where_it_was_killed(tmp_path):
    target = tmp_path / "data.h5"
    count = 12 * BLOCK
    script = (
        "import time; from pathlib import Path; from beno.datasets import making;"
        f"from beno.problems.families import Family; making.MOST_SAMPLES_A_BLOCK = {BLOCK};"
        f"making.make(Family(corners='mixed', resolution=8), 5, {count}, Path({str(target)!r}),"
        "progress=lambda done: time.sleep(0.1))"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    parts = tmp_path / ".data.h5.parts"
    deadline = time.monotonic() + 60
    while len(list(parts.glob("*.h5"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not target.exists()
    kept = {part.name: part.stat().st_mtime_ns for part in parts.glob("[0-9]*.h5")}
    assert 2 <= len(kept) < 12

    heard = []
    make(SMALL, 5, count, target, progress=heard.append)
    assert heard[0] == len(kept) * BLOCK, "finished blocks are not made again"
    assert heard[-1] == count
    make(SMALL, 5, count, tmp_path / "unbroken.h5")
    assert_same(target, tmp_path / "unbroken.h5")
    assert not parts.exists()


def test_blocks_of_another_dataset_are_not_taken_up(tmp_path):
    target = tmp_path / "data.h5"

    def stop(done):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(SMALL, 5, 2 * BLOCK, target, progress=stop)
    other = replace(SMALL, boundary_amplitude=1.0)
    make(other, 5, BLOCK, target)
    make(other, 5, BLOCK, tmp_path / "clean.h5")
    assert_same(target, tmp_path / "clean.h5")


def test_a_damaged_block_is_made_again(tmp_path):
    target = tmp_path / "data.h5"
    count = 2 * BLOCK

    def stop(done):
        if done == BLOCK:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(SMALL, 5, count, target, progress=stop)
    (tmp_path / ".data.h5.parts" / "000000000.h5").write_bytes(b"")
    make(SMALL, 5, count, target)
    make(SMALL, 5, count, tmp_path / "clean.h5")
    assert_same(target, tmp_path / "clean.h5")


def test_two_at_once_on_one_file_are_kept_apart(tmp_path):
    target = tmp_path / "data.h5"

    def second(done):
        if done == 0:
            with pytest.raises(BenoError, match=f"another process is making .*: process {os.getpid()} on"):
                make(SMALL, 5, 10, target)

    make(SMALL, 5, 10, target, progress=second)
    assert len(contents(target)[1]) == 10


def test_a_link_that_a_user_names_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link.h5").symlink_to(tmp_path / "there" / "target.h5")
    make(SMALL, 5, 10, tmp_path / "link.h5")
    assert (tmp_path / "link.h5").is_symlink() and len(contents(tmp_path / "there" / "target.h5")[1]) == 10
    assert len(list(tmp_path.rglob("*"))) == 3


def test_a_link_in_the_place_of_its_blocks_is_refused(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "mine.h5").touch()
    (tmp_path / ".data.h5.parts").symlink_to(tmp_path / "precious")
    with pytest.raises(BenoError, match=r"\.data\.h5\.parts: it is a link"):
        make(SMALL, 5, 10, tmp_path / "data.h5")
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["mine.h5"]


def test_the_same_dataset_is_known_again(tmp_path):
    target = tmp_path / "data.h5"
    assert not is_made(SMALL, 5, 10, target)
    make(SMALL, 5, 10, target)
    assert is_made(SMALL, 5, 10, target)
    assert not is_made(SMALL, 5, 11, target) and not is_made(SMALL, 6, 10, target)
    assert not is_made(replace(SMALL, resolution=16), 5, 10, target)
    target.write_text("")
    assert not is_made(SMALL, 5, 10, target)


def test_a_dask_cluster_makes_the_same(tmp_path):
    distributed = pytest.importorskip("distributed", reason="the dask extra is not installed")
    make(SMALL, 5, 50, tmp_path / "here.h5")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as cluster:
        make(SMALL, 5, 50, tmp_path / "there.h5", dask_address=cluster.scheduler_address)
    assert_same(tmp_path / "here.h5", tmp_path / "there.h5")


def test_a_dask_scheduler_that_is_not_there_is_refused(tmp_path):
    pytest.importorskip("distributed", reason="the dask extra is not installed")
    with pytest.raises(BenoError, match="no Dask scheduler answers at nonsense"):
        make(SMALL, 5, 2, tmp_path / "data.h5", dask_address="nonsense://nowhere:1")
    assert not (tmp_path / "data.h5").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [({"samples": 0}, "0 samples"), ({"workers": 0}, "0 workers"), ({"seed": -1}, "the seed is -1")],
)
def test_numbers_that_make_no_dataset_are_refused(tmp_path, change, message):
    arguments = {"family": SMALL, "seed": 0, "samples": 3, "path": tmp_path / "data.h5"} | change
    with pytest.raises(BenoError, match=message):
        make(**arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["no/such/folder/data.h5", "a_folder", "a_file/data.h5"])
def test_places_that_cannot_be_written_are_refused_and_left_as_they_were(tmp_path, place):
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_file").touch()
    with pytest.raises(BenoError, match="cannot write"):
        make(SMALL, 0, 3, tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a_file", "a_folder"]


@pytest.fixture
def iteration(monkeypatch):
    """The solver of a GPU, on the CPU."""
    monkeypatch.setattr(making, "solver_for", lambda resolution, device: ConjugateGradients("cpu", 1e-12))


def test_the_solver_of_a_gpu_makes_the_same_samples_to_1e_9(tmp_path, iteration, monkeypatch):
    count = 2 * BLOCK + 3
    make(SMALL, 5, count, tmp_path / "iterated.h5", device="cuda")
    make(SMALL, 5, count, tmp_path / "two.h5", workers=2, device="cuda")
    assert_same(tmp_path / "iterated.h5", tmp_path / "two.h5")
    monkeypatch.undo()
    make(SMALL, 5, count, tmp_path / "direct.h5")
    (said, ours), (said_of_direct, direct) = (contents(tmp_path / name) for name in ("iterated.h5", "direct.h5"))
    assert (said.solver, said_of_direct.solver) == ("box-gradients", "direct")
    assert replace(said, solver="direct") == said_of_direct
    for name, values in direct.arrays.items():
        exact = 1e-9 * np.abs(values).max() if name == "points/u" else 0.0
        np.testing.assert_allclose(ours.arrays[name], values, rtol=0, atol=exact, err_msg=name)


def test_a_dataset_of_another_solver_is_another_one(tmp_path, iteration, monkeypatch):
    make(SMALL, 5, 10, tmp_path / "data.h5", device="cuda")
    assert is_made(SMALL, 5, 10, tmp_path / "data.h5", device="cuda")
    monkeypatch.setattr(making, "solver_for", solver_for)
    assert not is_made(SMALL, 5, 10, tmp_path / "data.h5")


def test_a_file_that_does_not_say_its_solver_was_made_by_the_direct_one(tmp_path):
    make(SMALL, 5, 10, tmp_path / "data.h5")
    with h5py.File(tmp_path / "data.h5", "a") as file:
        said = json.loads(file.attrs["metadata"])
        assert said.pop("solver") == "direct"
        file.attrs["metadata"] = json.dumps(said)
    assert contents(tmp_path / "data.h5")[0].solver is None
    assert is_made(SMALL, 5, 10, tmp_path / "data.h5")


def test_a_block_does_not_depend_on_what_else_is_made():
    alone = make_block(SMALL, 5, 17, 18)
    together = make_block(SMALL, 5, 10, 20)
    start = together.points[:7].sum()
    np.testing.assert_array_equal(
        alone.arrays["points/u"], together.arrays["points/u"][start : start + alone.points[0]]
    )


def test_an_interruption_that_a_library_drops_is_remembered(tmp_path, monkeypatch):
    whole = making.make_block

    def dropping(*arguments):
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        return whole(*arguments)

    monkeypatch.setattr(making, "make_block", dropping)
    with pytest.raises(KeyboardInterrupt):
        making.make(Family(resolution=8), 0, 10 * BLOCK, tmp_path / "data.h5")
    assert len(list(tmp_path.glob(".data.h5.parts/0*.h5"))) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
