"""Files that are whole or not there: a full disk, a kill or an interruption leaves nothing half-written."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from beno.support.errors import BenoError
from beno.support.interruptions import Handling


def require_file_place(path: Path) -> Path:
    """The place, links followed; refused if something other than a file is there."""
    if not path.name or path.name in (".", ".."):
        raise BenoError(f"{str(path)!r} is not the name of a file")
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            raise BenoError(f"cannot write {path}: it is a folder or a device")
    except OSError as error:
        raise BenoError(f"cannot write {path}: {error.strerror or error}") from error
    return path


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


# It can be read only by setting it, which is no thing to do while other threads write.
_UMASK = os.umask(0)
os.umask(_UMASK)


@contextmanager
def whole_file_or_none(path: Path) -> Iterator[Path]:
    """A name to write under, which becomes the path when all is written and is removed when not."""
    path = require_file_place(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")  # its own, if others write there too
    try:
        yield unfinished
        unfinished.chmod(0o666 & ~_UMASK)  # some libraries write for the owner's eyes alone
        os.replace(unfinished, path)
    except OSError as error:
        raise BenoError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


class Sink(Handling):
    """A file for HDF5 to write to, which crashes when a write fails as it closes, on a full disk say.

    So this one keeps the first error to itself until it is asked, and lets everything after it pass. An
    interruption is kept in the same way: raised while HDF5 calls back, it would be lost.
    """

    def __init__(self, path: Path, lasting: bool) -> None:
        super().__init__()
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 (closed on exit)
        self._lasting = lasting  # to survive a loss of power, and not only of the process
        self._error: OSError | KeyboardInterrupt | None = None

    def __enter__(self) -> "Sink":
        self.handle(self._interrupt)
        return self

    def _interrupt(self, *_: object) -> None:
        self._error = self._error or KeyboardInterrupt()

    def __exit__(self, *details: object) -> None:
        self.leave_to_others()
        if self._lasting:
            self._attempt(lambda: os.fsync(self._file.fileno()))
        self._file.close()
        self.raise_error()

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
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

    def readinto(self, buffer: Any) -> int:
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
