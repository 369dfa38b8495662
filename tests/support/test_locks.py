"""Locks: one process at a time, named to the others, and none after a kill."""

import os
import signal
import subprocess
import sys

import pytest

from beno.support import locks
from beno.support.errors import BenoError
from beno.support.locks import Lock, is_held

HOLD = """
import sys, time
from pathlib import Path
from beno.support.locks import Lock
lock = Lock(Path(sys.argv[1]))
print(lock.take(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process, with the lock of a file."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "True\n"
    yield process
    process.kill()
    process.communicate()


def test_it_is_held_by_one_and_removed_when_released(tmp_path):
    path = tmp_path / "lock"
    with Lock(path) as first, Lock(path) as second:
        assert first.take() and first.take() and not second.take()
        assert is_held(path)
        first.release()
        assert not path.exists() and not is_held(path)
        assert second.take() and not first.take()
    assert not list(tmp_path.iterdir())


def test_who_holds_it_is_told(tmp_path, holder):
    with (
        Lock(tmp_path / "lock") as lock,
        pytest.raises(BenoError, match=rf"^busy: process {holder.pid} on .*, since 2"),
    ):
        lock.require("busy")


def test_a_kill_releases_it(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "lock").exists()
    with Lock(tmp_path / "lock") as lock:
        lock.require("busy")
    assert not (tmp_path / "lock").exists()


def test_the_file_of_a_killed_process_is_removed_by_whoever_asks(tmp_path, holder):
    assert is_held(tmp_path / "lock")
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert not is_held(tmp_path / "lock") and not list(tmp_path.iterdir())


def test_a_lock_on_a_file_that_its_holder_just_removed_is_none(tmp_path, monkeypatch):
    path, had = tmp_path / "lock", locks._is_had

    def had_just_after_its_release(descriptor, wait):
        monkeypatch.setattr(locks, "_is_had", had)
        path.unlink()
        return had(descriptor, wait)

    monkeypatch.setattr(locks, "_is_had", had_just_after_its_release)
    with Lock(path) as lock, Lock(path) as other:
        assert lock.take() and path.exists()
        assert not other.take(), "the one that is held lies under the name"


def test_releasing_leaves_the_file_of_another_holder(tmp_path):
    path = tmp_path / "lock"
    with Lock(path) as first, Lock(path) as second:
        assert first.take()
        path.unlink()  # with its folder, as a rule
        assert second.take()
        first.release()
        assert is_held(path)


def test_a_forked_process_releases_nothing(tmp_path):
    path = tmp_path / "lock"
    with Lock(path) as lock:
        lock.take()
        child = os.fork()
        if not child:
            lock.release()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert is_held(path)


def test_a_discarded_lock_is_released(tmp_path):
    lock = Lock(tmp_path / "lock")
    lock.take()
    del lock
    assert not list(tmp_path.iterdir())


def test_a_link_or_a_pipe_in_its_place_is_refused(tmp_path):
    (tmp_path / "precious").write_text("text")
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with Lock(tmp_path / "lock") as lock, pytest.raises(BenoError, match="cannot lock"):
        lock.take()
    assert (tmp_path / "precious").read_text() == "text"


def test_nonsense_in_it_is_not_shown(tmp_path):
    path = tmp_path / "lock"
    with Lock(path) as first, Lock(path) as second:
        first.take()
        path.write_bytes(b"\x1b[2J\xff\n" + b"x" * 1000)
        assert not second.take()
        assert second.holder.isprintable() and len(second.holder) <= 200
