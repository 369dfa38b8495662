"""Locks between processes: a file that one of them holds at a time, and that says who does.

The system takes a lock back when its process ends, however it ends, so a kill leaves nothing that keeps others out.
The file itself is removed when the lock is released; after a kill it lies there until the next one takes it.
"""

import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from beno.support.errors import BenoError

try:
    import fcntl
except ImportError:  # Windows has no such locks, and processes are not kept apart there
    fcntl = None  # type: ignore[assignment]

# Never through a link, and not waiting for whoever would read from a pipe.
OPENED = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
LONGEST_HOLDER = 200  # bytes that are read of a lock file, whoever wrote it


class Lock:
    """A lock file: taken, and released at the latest when the process ends or the lock is collected."""

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = None
        self._taken_by = 0  # the process: a copy in a forked one must not release it
        self._path = path.absolute()
        self.holder = ""  # of a lock that could not be had

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()

    def take(self, wait: bool = False) -> bool:
        """Whether it is ours now; waiting for it, it always is."""
        try:
            while self._descriptor is None:
                descriptor = os.open(self._path, OPENED, 0o666)
                try:
                    if not _is_had(descriptor, wait):
                        self.holder = _printable(os.read(descriptor, LONGEST_HOLDER))
                        return False
                    if _lies_at(descriptor, self._path):  # else its last holder removed it just before we had it
                        self._descriptor, self._taken_by = descriptor, os.getpid()
                        with suppress(OSError):  # on a full disk it is held all the same
                            os.ftruncate(descriptor, 0)
                            os.write(descriptor, _this_process().encode())
                finally:
                    if self._descriptor is None:
                        os.close(descriptor)
        except OSError as error:
            raise BenoError(f"cannot lock {self._path}: {error.strerror}") from error
        return True

    def require(self, busy: str) -> None:
        """Take it, or say in one line what another process is doing, and which one it is."""
        if not self.take():
            raise BenoError(f"{busy}: {self.holder or 'it has not said which'}")

    def release(self) -> None:
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        with suppress(OSError):
            if self._taken_by == os.getpid() and _lies_at(descriptor, self._path):
                self._path.unlink()
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a process holds this lock. The file of one that was killed is removed."""
    with Lock(path) as lock:
        return not lock.take()


def _is_had(descriptor: int, wait: bool) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lies_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one under this name: a lock on one that was removed keeps nobody out."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _this_process() -> str:
    return f"process {os.getpid()} on {platform.node()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _printable(text: bytes) -> str:
    return "".join(filter(str.isprintable, text.decode(errors="replace")))
