"""What a training has had of a device that others train on too."""

import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beno.support.errors import BenoError
from beno.support.files import require_folder, whole_file_or_none


class Share:
    """Seconds of the whole device: at every moment, those of the clock over how many trainings there are.

    They are kept in a file, each kind of device's apart, for a training goes on another time. Every process that trains
    holds a lock on a file of its own in a common folder; the lock ends with the process, however that ends.
    """

    def __init__(self, path: Path, at_work: Path, device: str) -> None:
        self._path, self._at_work, self._device = path, at_work, device
        self._clock = 0.0
        try:
            stored = json.loads(path.read_text()) if path.exists() else {}
            self._seconds = {name: float(seconds) for name, seconds in stored.items()}
        except (OSError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise BenoError(f"{path} cannot be read, and must hold seconds: {error}") from error
        if not all(0 <= seconds < math.inf for seconds in self._seconds.values()):
            raise BenoError(f"{path} is damaged: it must hold seconds")

    @property
    def seconds(self) -> float:
        return self._seconds.get(self._device, 0.0)

    @contextmanager
    def working(self, clock: float) -> Iterator[None]:
        """From a time of the training's clock on."""
        self._clock = clock
        require_folder(self._at_work)
        mine = self._at_work / str(os.getpid())
        hidden = self._at_work.with_name(f".{mine.name}.{self._at_work.name}")  # none takes it for a dead one's
        with open(hidden, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            hidden.replace(mine)
            try:
                yield
            finally:
                mine.unlink(missing_ok=True)

    def count_until(self, clock: float) -> None:
        self._seconds[self._device] = self.seconds + (clock - self._clock) / max(1, self._workers())
        self._clock = clock
        with whole_file_or_none(self._path) as unfinished:
            unfinished.write_text(json.dumps(self._seconds))

    def _workers(self) -> int:
        return sum(map(_is_locked, self._at_work.iterdir()))


def _is_locked(path: Path) -> bool:
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:  # just gone
        return False
    path.unlink(missing_ok=True)  # of a process that was killed
    return False
