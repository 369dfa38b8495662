"""Files are whole or not there, in their own place, and nothing else is touched."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from beno.support.errors import BenoError
from beno.support.files import (
    clear_left_behind,
    require_file_place,
    require_new_file,
    require_own_folder,
    whole_file_or_none,
)
from beno.support.locks import Lock

WRITE_AND_BE_KILLED = """
import os, signal, sys
from pathlib import Path
from beno.support.files import whole_file_or_none
with whole_file_or_none(Path(sys.argv[1])) as unfinished:
    unfinished.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def put(path, text="text"):
    with whole_file_or_none(path) as unfinished:
        unfinished.write_text(text)


def test_it_is_there_when_all_is_written(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with whole_file_or_none(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old" and unfinished.suffix == ".txt"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_stays_of_what_was_not_finished(tmp_path, error):
    with pytest.raises(error), whole_file_or_none(tmp_path / "file") as unfinished:
        unfinished.write_text("half")
        raise error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_its_mode_is_the_users(tmp_path, umask):
    before = os.umask(umask)
    try:
        with whole_file_or_none(tmp_path / "file") as unfinished:
            unfinished.unlink()
            unfinished.write_text("by a library that replaces the file")
            unfinished.chmod(0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~umask


def test_no_other_user_can_enter_where_it_is_written(tmp_path):
    with whole_file_or_none(tmp_path / "file") as one, whole_file_or_none(tmp_path / "file") as other:
        assert one.parent.stat().st_mode & 0o777 == 0o700
        assert one != other
        one.write_text("first")
        other.write_text("second")
    assert (tmp_path / "file").read_text() == "first"


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "file").symlink_to(tmp_path / "precious")
    put(tmp_path / "file")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "file").is_symlink() and (tmp_path / "file").read_text() == "text"


def test_what_a_killed_process_left_behind_is_removed_by_the_next(tmp_path):
    path = tmp_path / "file"
    killed = subprocess.run([sys.executable, "-c", WRITE_AND_BE_KILLED, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left_behind,) = tmp_path.iterdir()
    put(tmp_path / "another")
    assert left_behind.exists()
    put(path)
    assert {one.name for one in tmp_path.iterdir()} == {"file", "another"}


def test_what_another_process_is_writing_stays(tmp_path):
    with whole_file_or_none(tmp_path / "file") as unfinished:
        put(tmp_path / "file", "by another")
        clear_left_behind(tmp_path)
        assert unfinished.exists()
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_link_that_looks_like_a_thing_left_behind_is_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / ".file.123.unfinished").symlink_to(tmp_path / "precious")
    put(tmp_path / "file")
    assert list((tmp_path / "precious").iterdir()) == [tmp_path / "precious" / "file"]


def test_where_there_are_no_locks_it_is_written_all_the_same(tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("beno.support.locks._is_had", unknown)
    with whole_file_or_none(tmp_path / "file") as unfinished:
        put(tmp_path / "file", "by another")
        assert unfinished.exists(), "nobody can tell whether it is left behind"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_one_that_is_taken_for_left_behind_as_it_begins_is_begun_again(tmp_path, monkeypatch):
    take, cleared = Lock.take, []

    def take_late(lock, wait=False):
        if not cleared:
            cleared.append(True)
            clear_left_behind(tmp_path)
        return take(lock, wait)

    monkeypatch.setattr(Lock, "take", take_late)
    put(tmp_path / "file")
    assert [one.name for one in tmp_path.iterdir()] == ["file"] and cleared


@pytest.mark.parametrize("place", ["a_folder", "no/such/folder", "a_file/inside", "pipe", "x" * 300])
def test_what_cannot_be_written_is_said(tmp_path, place):
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_file").touch()
    os.mkfifo(tmp_path / "pipe")
    for refuse in (put, require_new_file, lambda path: require_new_file(path, force=True)):
        with pytest.raises(BenoError, match="cannot write"):
            refuse(tmp_path / place)
    assert {one.name for one in tmp_path.iterdir()} == {"a_folder", "a_file", "pipe"}


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path):
    path = tmp_path / "file"
    assert require_new_file(path) == path
    path.touch()
    with pytest.raises(BenoError, match="file is there already; --force replaces it"):
        require_new_file(path)
    assert require_new_file(path, force=True) == path


def test_a_folder_in_which_nothing_may_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # as root everything may
    with pytest.raises(BenoError, match="nothing may be written in"):
        require_new_file(tmp_path / "file")


def test_links_that_a_user_names_are_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert require_new_file(tmp_path / "link") == tmp_path / "file"
    (tmp_path / "file").touch()
    with pytest.raises(BenoError, match="link is there already"):
        require_new_file(tmp_path / "link")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(BenoError, match="back to itself"):
        require_file_place(tmp_path / "loop")
    for name in ("", ".", ".."):
        with pytest.raises(BenoError, match="is not the name of a file"):
            require_file_place(Path(name))


def test_a_folder_of_ours_is_no_link(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").symlink_to(tmp_path / "theirs")
    with pytest.raises(BenoError, match="ours: it is a link"):
        require_own_folder(tmp_path / "ours")
    require_own_folder(tmp_path / "new")
    assert (tmp_path / "new").is_dir()
