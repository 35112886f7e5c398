"""Progress of long work: code reports it, and a progress bar appears after two seconds.

Code that works reports how much is done to `progress`, which draws the bar only in a terminal or a notebook, and only
in the main thread. In all other cases, for example if the error stream is a file, nothing is drawn and no time is lost.
The environment variable ``EVERHOLD_PROGRESS=off`` switches every bar off.

A bar is public. It may show plain words and the number of things that were requested, but never results. It counts
queries and never rows. So it shows no more than the time of each query, which anybody can measure by asking the query
alone. The time of a draw of secret noise is part of such a time.
"""

from __future__ import annotations

import html
import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 2.0
"""Seconds that work lasts before a bar appears."""

SWITCH = "EVERHOLD_PROGRESS"
"""Environment variable; ``off`` switches bars off."""

_SETTLED = 0.5  # seconds after which a part of the work takes the bar's place; shorter ones would only flicker
_SECONDS_BETWEEN = 0.2  # drawings in a notebook


@dataclass(slots=True, eq=False)
class Line:
    """Description of the current work and its progress, which the bar shows.

    Attributes:
        what: Name of the work in plain words. It is public.
        total: Amount of work in total. None if it is unknown or secret.
        done: Amount of work that is done.
        since: Time at which the work began, on the clock of `time.monotonic`.
    """

    what: str
    total: int | None = None
    done: int = 0
    since: float = field(default_factory=time.monotonic, init=False)

    def __call__(self, done: int, total: int | None = None) -> None:
        """Report how much is done, and of how much, if that is new."""
        self.done, self.total = done, self.total if total is None else total
        _SCREEN.draw()

    def __str__(self) -> str:
        return f"{self.what}: {self.done:,} of {self.total:,}" if self.counts else self.what

    @property
    def counts(self) -> bool:
        """Whether there is more than one thing to do. Otherwise the bar only moves."""
        return self.total is not None and self.total > 1


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Line]:
    """Context of work that may take long. Counted work inside takes over the bar while it lasts.

    Args:
        what: Name of the work in plain words. It is public.
        total: Amount of work in total. None for a bar that only moves.

    Examples:
        >>> with progress("planning", 2) as line:
        ...     for done in range(2):
        ...         line(done)
        >>> str(line)
        'planning: 1 of 2'
    """
    line = Line(what, total)
    if not (_SCREEN.noted or _somebody_looks()):
        yield line
        return
    _SCREEN.begin(line)
    try:
        yield line
    finally:
        _SCREEN.end()


class _View(Protocol):
    def show(self, line: Line) -> None: ...

    def close(self) -> None: ...


class _Screen:
    """The only progress bar of the process."""

    def __init__(self) -> None:
        self.noted = False
        self._lines: list[Line] = []
        self._view: _View | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()  # the bar appears from a thread of its own

    def begin(self, line: Line) -> None:
        with self._lock:
            self._lines.append(line)
            if len(self._lines) == 1:
                self._timer = threading.Timer(PATIENCE, self._appear)
                self._timer.daemon = True
                self._timer.start()
        self.draw()

    def end(self) -> None:
        with self._lock:
            self._lines.pop()
            if not self._lines:
                if self._timer is not None:
                    self._timer.cancel()
                view, self._timer, self._view = self._view, None, None
                if view is not None:
                    with suppress(Exception):
                        view.close()
        self.draw()

    def draw(self) -> None:
        """Draw the bar. An error of drawing is ignored."""
        if self._view is None:
            return
        with self._lock, suppress(Exception):
            if self._view is not None and self._lines:
                self._view.show(self._innermost())

    def current(self) -> Line | None:
        """Return the line of the work under way, or None if there is none."""
        with self._lock:
            return self._innermost() if self._lines else None

    def _innermost(self) -> Line:
        settled = time.monotonic() - _SETTLED
        return next((line for line in reversed(self._lines) if line.counts and line.since <= settled), self._lines[0])

    def _appear(self) -> None:
        with self._lock, suppress(Exception):
            if threading.current_thread() is self._timer:  # else the work that it was started for is over
                self._view = None if self.noted else _Notebook() if _in_notebook() else _Terminal()
        self.draw()


_SCREEN = _Screen()


def noted() -> Callable[[], Line | None]:
    """Draw no more bars in this process, and return a function that returns the progress line of the work under way."""
    _SCREEN.noted = True
    return _SCREEN.current


def _somebody_looks() -> bool:
    """Return whether a bar can be seen: in a notebook or a terminal, from the main thread, and not switched off."""
    if os.environ.get(SWITCH) == "off" or threading.current_thread() is not threading.main_thread():
        return False
    return _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def _in_notebook() -> bool:
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _Terminal:
    """Progress bar on the error stream, which is removed at the end, also after an interruption."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
            console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None)
        self._shown: Line | None = None
        self._bar.start()

    def show(self, line: Line) -> None:
        if self._shown is not line:  # how long is left is judged anew
            self._shown = line
            self._bar.reset(self._task, start=True)
            self._bar.tasks[0].start_time = line.since
        self._bar.tasks[0].total = line.total if line.counts else None  # `update` takes None for no change
        self._bar.update(self._task, description=str(line), completed=line.done)

    def close(self) -> None:
        self._bar.stop()


class _Notebook:
    """Progress bar below a notebook's cell, in plain HTML without widgets or scripts."""

    def __init__(self) -> None:
        from IPython.display import display

        self._handle = display(_mime(None), raw=True, display_id=True)  # type: ignore[no-untyped-call]
        self._shown: Line | None = None
        self._at = 0.0

    def show(self, line: Line) -> None:
        now = time.monotonic()
        if self._shown is not line or now - self._at >= _SECONDS_BETWEEN:
            self._shown, self._at = line, now
            self._handle.update(_mime(line), raw=True)

    def close(self) -> None:
        self._handle.update(_mime(None), raw=True)


def _mime(line: Line | None) -> dict[str, Any]:
    if line is None:
        return {"text/plain": "", "text/html": ""}
    reached = f' value="{line.done}" max="{line.total}"' if line.counts else ""
    return {"text/plain": str(line), "text/html": f"<progress{reached}></progress> {html.escape(str(line))}"}
