"""Files that are whole or not there: a full disk, a kill or an interruption leaves nothing half-written."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from beno.support.errors import BenoError
from beno.support.interruptions import Handling
from beno.support.locks import Lock

LOCK = "lock"  # the name of the lock file in a folder of ours
UNFINISHED = ".unfinished"


def require_file_place(path: Path) -> Path:
    """The place that a user named, links followed; refused if something other than a file is there."""
    if not path.name or path.name in (".", ".."):
        raise BenoError(f"{str(path)!r} is not the name of a file")
    try:
        _refuse_folders_and_devices(path)
    except OSError as error:
        raise BenoError(f"cannot write {path}: {error.strerror or error}") from error
    place = Path(os.path.realpath(path))
    if place.is_symlink():
        raise BenoError(f"cannot write {path}: it is a link that leads back to itself")
    return place


def _refuse_folders_and_devices(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise BenoError(f"cannot write {path}: it is a folder or a device")


def require_new_file(path: Path, force: bool = False) -> Path:
    """Where a command may write, links followed. It asks before it begins, and not when all its work is done.

    A file that is there stays there, whatever it is, unless the user forces it.
    """
    place = require_file_place(path)
    if not place.parent.is_dir():
        raise BenoError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise BenoError(f"cannot write {path}: nothing may be written in {path.parent}")
    if place.exists() and not force:
        raise BenoError(f"{path} is there already; --force replaces it")
    return place


def require_folder(place: Path) -> None:
    """Made if it is not there; refused if nothing can be written in it."""
    try:
        if place.exists() and not place.is_dir():
            raise BenoError(f"cannot write in {place}: it is a file, not a folder")
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise BenoError(f"cannot write {place}: {error.strerror}") from error


def require_own_folder(place: Path) -> None:
    """A folder of ours, in which files are removed too: never a link, behind which files of others may lie."""
    if place.is_symlink():
        raise BenoError(f"cannot write in {place}: it is a link, where beno keeps a folder of its own; remove the link")
    require_folder(place)


@contextmanager
def whole_file_or_none(path: Path, lasting: bool = True) -> Iterator[Path]:
    """A name to write under, which becomes the path when all is written, and of which nothing stays when not.

    It lies in a folder of its own beside the path, which no other user can enter. So a library may write there as it
    likes, and a link at the path is replaced, not followed. The folder is locked while it is in use: what a killed
    process left behind is known by its lock, and removed by the next that writes the same file. One that is not to last
    need not survive a loss of power, and is in a folder that is cleared as a whole.
    """
    try:
        _refuse_folders_and_devices(path)
        if lasting:
            clear_left_behind(path.parent, path.name)
        with _folder_to_write_in(path) as folder:
            unfinished = folder / f"unfinished{path.suffix}"
            unfinished.touch()
            mode = unfinished.stat().st_mode  # the user's; some libraries write for the owner's eyes alone
            yield unfinished
            unfinished.chmod(mode)
            if lasting:
                _sync(unfinished, os.O_RDWR)
            os.replace(unfinished, path)
            if lasting:
                with suppress(OSError):  # some file systems do not sync folders
                    _sync(path.parent, os.O_RDONLY)
    except OSError as error:
        raise BenoError(f"cannot write {path}: {error.strerror or error}") from error


def clear_left_behind(folder: Path, name: str = "") -> None:
    """Remove what processes that were killed had not finished writing: of one file, or of all in the folder."""
    with suppress(OSError):  # of a folder that cannot be listed; writing says what is wrong with it
        for entry in list(os.scandir(folder)):
            is_ours = entry.name.startswith(f".{name}." if name else ".") and entry.name.endswith(UNFINISHED)
            if is_ours and entry.is_dir(follow_symlinks=False):
                _remove_unless_in_use(Path(entry.path))


def _remove_unless_in_use(folder: Path) -> None:
    lock = Lock(folder / LOCK)
    with suppress(BenoError):  # it is another user's, or just gone
        if lock.take():
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()


@contextmanager
def _folder_to_write_in(path: Path) -> Iterator[Path]:
    while True:
        folder = Path(tempfile.mkdtemp(UNFINISHED, f".{path.name}.", path.parent))
        lock = Lock(folder / LOCK)
        try:
            if lock.take():
                break
        except BenoError:
            if folder.exists():  # the file system has no locks: what is left behind there, stays
                break
        # Another process took it for one that was left behind, before we had its lock.
    try:
        yield folder
    finally:
        lock.release()  # before: removed while it is open, it would stay on a network's disk
        shutil.rmtree(folder, ignore_errors=True)


def _sync(path: Path, how: int) -> None:
    descriptor = os.open(path, how)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Sink(Handling):
    """A file for HDF5 to write to, which crashes when a write fails as it closes, on a full disk say.

    So this one keeps the first error to itself until it is asked, and lets everything after it pass. An
    interruption is kept in the same way: raised while HDF5 calls back, it would be lost.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 (closed on exit)
        self._error: OSError | KeyboardInterrupt | None = None

    def __enter__(self) -> "Sink":
        self.handle(self._interrupt)
        return self

    def _interrupt(self, *_: object) -> None:
        self._error = self._error or KeyboardInterrupt()

    def __exit__(self, *details: object) -> None:
        self.leave_to_others()
        self._file.close()
        self.raise_error()

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:  # whatever has bytes, as h5py gives it
        view = memoryview(data).cast("B")
        self._attempt(lambda: self._write_all(view))
        return len(view)

    def truncate(self, size: int) -> int:
        self._attempt(lambda: self._file.truncate(size))
        return size

    def seek(self, *place: int) -> int:
        return self._file.seek(*place)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:  # likewise
        return self._file.readinto(buffer)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def flush(self) -> None:
        """Nothing is held back."""

    def _write_all(self, view: memoryview) -> None:
        while len(view):
            view = view[self._file.write(view) :]

    def _attempt(self, action: Callable[[], object]) -> None:
        if self._error is not None:
            return
        try:
            action()
        except OSError as error:
            self._error = error
