"""Interruptions that come at a bad moment: remembered where they would be lost, held where they would do harm."""

import logging
import signal
import threading
import warnings
from collections.abc import Callable
from typing import Any

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)


class Handling:
    """How the main thread handles interruptions, until this is left."""

    def __init__(self) -> None:
        self._handlers: dict[signal.Signals, Any] = {}  # as `signal.signal` returns and takes them

    def handle(self, handler: Callable[..., None]) -> None:
        if threading.current_thread() is threading.main_thread():
            for sent in INTERRUPTIONS:
                if callable(signal.getsignal(sent)):
                    self._handlers[sent] = signal.signal(sent, handler)

    def leave_to_others(self) -> None:
        for sent, handler in self._handlers.items():
            signal.signal(sent, handler)


class Interruptions(Handling):
    """Remembers an interruption that is lost on its way: NumPy drops whatever is raised while it asks a type for an
    attribute, which Python 3.11 answers for enums in Python."""

    _asked = False

    def __enter__(self) -> "Interruptions":
        self.handle(self._interrupt)
        return self

    def __exit__(self, *details: object) -> None:
        self.leave_to_others()

    def _interrupt(self, *_: object) -> None:
        self._asked = True
        raise KeyboardInterrupt

    def raise_lost(self) -> None:
        if self._asked:
            raise KeyboardInterrupt


class Held(Handling):
    """Until it is left; and, in a process that is started meanwhile, until that lets them through.

    That they are blocked is what the new process inherits. Another thread of this one may get them in spite of it.
    """

    _asked = False

    def __enter__(self) -> None:
        self.handle(self._remember)
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)

    def __exit__(self, *details: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
        self.leave_to_others()
        if self._asked:
            raise KeyboardInterrupt

    def _remember(self, *_: object) -> None:
        self._asked = True


def let_through() -> None:
    """Let interruptions reach this thread."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)


def ignore() -> None:
    """Nothing more is to be heard of interruptions once the program ends for one, nor of what libraries say of it."""
    for sent in INTERRUPTIONS:
        signal.signal(sent, signal.SIG_IGN)
    logging.disable()
    warnings.simplefilter("ignore")
