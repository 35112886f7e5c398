"""A time limit for each statement of an engine, kept by one thread of the process.

A timer of its own for each statement would start a thread for each. This thread sleeps until the first limit that it
knows of; nearly always the statement is over by then.
"""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["TimeLimits"]


class TimeLimits:
    """Limits of what is under way in this process; safe to share between threads, and to use after a fork.

    Examples:
        >>> limits, stopped = TimeLimits(), threading.Event()
        >>> with limits.at_most(0.01, stopped.set):
        ...     stopped.wait(60.0)
        True
    """

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._changed = threading.Condition()
        self._limits: dict[object, tuple[float, Callable[[], object]]] = {}
        self._awake_at = 0.0  # infinite while the thread waits for work
        self._thread: threading.Thread | None = None

    @contextmanager
    def at_most(self, seconds: float, stop: Callable[[], object]) -> Iterator[None]:
        """Have ``stop`` called by another thread if the block takes longer; not after it was left.

        Args:
            seconds: The limit.
            stop: Makes the block end soon; must not wait.
        """
        until, key = time.monotonic() + seconds, object()
        with self._changed:
            self._limits[key] = until, stop
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="everhold time limits", daemon=True)
                self._thread.start()
            elif until < self._awake_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._limits.pop(key, None)

    def _watch(self) -> None:
        with self._changed:
            while True:
                self._changed.wait(self._stop_late_ones(time.monotonic()))

    def _stop_late_ones(self, now: float) -> float | None:
        """Seconds until the next limit; None if there is none. Keeps nothing of what it stopped alive."""
        for key, (until, stop) in list(self._limits.items()):
            if until <= now:
                del self._limits[key]
                stop()
        first = min((until for until, _ in self._limits.values()), default=math.inf)
        self._awake_at = first
        return None if first == math.inf else first - now
