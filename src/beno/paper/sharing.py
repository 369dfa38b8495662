"""How much of a device a training has had, where others train on it too."""

import json
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beno.support.errors import BenoError
from beno.support.files import require_own_folder, whole_file_or_none
from beno.support.locks import Lock, is_held


class Share:
    """The seconds of the whole device that a training has had: with n trainings, each gets an nth of every second.

    They are kept in a file, apart for each kind of device, since a training may go on another time. Every process that
    trains holds a lock of its own in a common folder, so that the others can count it.
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
        """Count this process among those that train, from this time of the training's clock."""
        self._clock = clock
        for folder in (self._at_work.parent, self._at_work):
            require_own_folder(folder)
        name = f"{os.getpid()}-{secrets.token_hex(4)}"  # of two machines, processes may have the same number
        with Lock(self._at_work / name) as lock:
            lock.take(wait=True)  # for whoever tries, as it counts, whether a process of this name is alive
            yield

    def count_until(self, clock: float) -> None:
        self._seconds[self._device] = self.seconds + (clock - self._clock) / max(1, self._workers())
        self._clock = clock
        with whole_file_or_none(self._path) as unfinished:
            unfinished.write_text(json.dumps(self._seconds))

    def _workers(self) -> int:
        return sum(map(is_held, self._at_work.iterdir()))
