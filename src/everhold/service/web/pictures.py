"""Pictures for pages: drawn by another process, one after the other, and kept for as long as nothing changes.

A page is never kept waiting: while a picture is being drawn there is a placeholder, which asks again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

__all__ = ["Drawer", "Gallery", "Pictures", "Sketch", "Status"]

_MOST_KEPT = 200  # pictures, of about 50 kB each
_MOST_WAITING = 32
_LONGEST = 90.0  # seconds that a picture may take; then its process is ended
_INHERITED = ("PATH", "PYTHONPATH", "HOME", "LANG", "LC_ALL", "SYSTEMROOT", "VIRTUAL_ENV", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Sketch:
    """A picture before it is drawn.

    Attributes:
        name: Of its kind, in `everhold.charts.drawing.DRAWINGS`.
        title: What stands above it.
        alt: What it shows, for those who do not see it.
        caption: What stands below it.
        facts: What it is drawn from, which its visitor may see; asked for only if it has to be drawn.
    """

    name: str
    title: str
    alt: str
    caption: str
    facts: Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Status:
    """How far a picture is: drawn, being drawn, or not to be had.

    Attributes:
        svg: The picture; None until it is there.
        failed: Whether there will be none.
    """

    svg: str | None = None
    failed: bool = False


class Drawer:
    """A process that draws; started when it is needed, and anew if it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def draw(self, name: str, title: str, facts: Mapping[str, Any]) -> str | None:
        """The picture as SVG; None if it cannot be drawn."""
        wish = json.dumps({"name": name, "title": title, "facts": facts})
        process = self._running()
        if process is None:
            return None
        late = threading.Timer(_LONGEST, process.kill)
        late.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{wish}\n")
            process.stdin.flush()
            drawn: str | None = json.loads(process.stdout.readline() or "null")
        except (OSError, ValueError):
            return None
        finally:
            late.cancel()
        return drawn

    def _running(self) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._closed:
                return None
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "everhold.charts.drawing"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, text=True, start_new_session=True,
                    env={name: os.environ[name] for name in _INHERITED if name in os.environ},
                )  # fmt: skip
            return self._process

    def stop(self) -> None:
        """End the process, also while it draws; there will be no other."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Forget the process, once nobody waits for it."""
        self.stop()
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            with suppress(OSError):
                self._process.communicate()
            self._process = None


class Pictures:
    """Pictures by what they are drawn from; safe to share between threads, and to use again after it was closed.

    Args:
        begin: Makes who draws.
        most: How many are kept.
    """

    def __init__(self, begin: Callable[[], Drawer] = Drawer, *, most: int = _MOST_KEPT) -> None:
        self._begin, self._most = begin, most
        self._kept: OrderedDict[Hashable, Status] = OrderedDict()
        self._waiting: set[Hashable] = set()
        self._lock = threading.Lock()
        self._at_work: tuple[Drawer, ThreadPoolExecutor] | None = None

    def status(self, key: Hashable, sketch: Sketch) -> Status:
        """How far a picture is; if nobody has asked for it yet, it will be drawn.

        Args:
            key: All that the picture depends on: holdout, ledger head, whose view, and so on.
            sketch: The picture.
        """
        key = (sketch.name, key)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            if key in self._waiting or len(self._waiting) >= _MOST_WAITING:
                return Status()
            self._waiting.add(key)
        try:
            facts = sketch.facts()
        except BaseException:
            with self._lock:
                self._waiting.discard(key)
            raise
        with self._lock:
            if self._at_work is None:
                thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="everhold-pictures")
                self._at_work = self._begin(), thread
            drawer, thread = self._at_work
            thread.submit(self._draw, drawer, key, sketch, facts)
        return Status()

    def _draw(self, drawer: Drawer, key: Hashable, sketch: Sketch, facts: Mapping[str, Any]) -> None:
        svg = drawer.draw(sketch.name, sketch.alt, facts)
        with self._lock:
            self._waiting.discard(key)
            self._kept[key] = Status(svg, failed=svg is None)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def close(self) -> None:
        """Draw no more of what was asked for."""
        with self._lock:
            ending, self._at_work = self._at_work, None
        if ending is not None:
            drawer, thread = ending
            thread.shutdown(wait=False, cancel_futures=True)
            drawer.stop()
            thread.shutdown()
            drawer.close()
        with self._lock:
            self._waiting.clear()


def _of_request(request: Request) -> Pictures:
    pictures: Pictures = request.app.state.pictures
    return pictures


Gallery = Annotated[Pictures, Depends(_of_request)]
