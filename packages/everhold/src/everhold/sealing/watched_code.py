"""Code of declared models runs without files, programs and network: what it read there could change with answers.

A member of a declared family has a level because its model was fixed before anything was told. A model that reads a
file when it predicts is fixed only as long as the file is. Python reports such events to an audit hook, which refuses
them while declared code runs. On training rows that is an error of the query. On sealed rows the row counts as one on
which the model fails, so refusing tells nothing. Threads of the model's own, compiled code that opens files itself,
clocks and the environment are not seen.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGES = frozenset(("site-packages", "dist-packages"))
_OWN = str(Path(__file__).resolve().parents[1])  # modules of everhold that are imported when they are needed
_STANDARD = tuple({str(Path(sysconfig.get_path(kind)).resolve()) for kind in ("stdlib", "platstdlib")})

_OUTSIDE = frozenset([
    "open", "sqlite3.connect", "socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec",
    "os.posix_spawn",
])  # fmt: skip
_OF_THE_MACHINE = ("/proc/", "/sys/", "/dev/null", "/dev/urandom")  # how many processors there are, and the like


class _Watch(threading.local):
    """Events that were refused while declared code ran in this thread; None where none is watched."""

    refused: list[str] | None = None
    calling: bool = False


_WATCH = _Watch()


@contextmanager
def declared_code() -> Iterator[list[str]]:
    """Context in which code that everhold calls is that of a declared model; gives what was refused to it so far."""
    _add_hook()
    before, found = _WATCH.refused, list[str]()
    _WATCH.refused = found
    try:
        yield found
    finally:
        _WATCH.refused = before


@contextmanager
def used_alone(when: str) -> Iterator[None]:
    """Context in which code of a declared model runs on public rows.

    Args:
        when: What the model does there, in words.

    Raises:
        QueryRejected: If the model used anything outside of itself. Nothing is charged.
    """
    with declared_code() as refused:
        try:
            yield
        except Exception:
            if not refused:
                raise
    if refused:
        raise QueryRejected(
            f"A model to be declared uses {refused[0]} when it {when}, and what it finds there may change. Load what "
            "the model needs into the model."
        )


@contextmanager
def calling_code() -> Iterator[None]:
    """Context of a call of an analyst's code; nothing is refused outside of `declared_code`."""
    before, _WATCH.calling = _WATCH.calling, True
    try:
        yield
    finally:
        _WATCH.calling = before


@cache
def _add_hook() -> None:
    """Add the hook, which stays as long as the process; threads that call no declared code leave it at once."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    refused = _WATCH.refused
    if refused is None or not _WATCH.calling or event not in _OUTSIDE:
        return
    subject = arguments[0] if arguments else ""
    _WATCH.calling = False  # what is looked up here is everhold's own
    try:
        if event == "open" and _is_installed(subject):
            return
        named = os.fsdecode(subject) if isinstance(subject, str | bytes | os.PathLike) else type(subject).__name__
        refused.append(f"{event} {named!r}")
    finally:
        _WATCH.calling = True
    raise PermissionError("code of a declared model cannot use files, programs or the network")


def _is_installed(file: Any) -> bool:
    """True for a file of an installed package, which counts by its version, of the machine, and an open descriptor."""
    if not isinstance(file, str | bytes | os.PathLike):
        return True
    found = Path(os.fsdecode(file)).resolve()
    return is_of_a_package(found) or str(found).startswith((_OWN, *_OF_THE_MACHINE))


def is_of_a_package(file: Path) -> bool:
    """True for a file of Python or of an installed package, in whatever environment it lies."""
    return not _PACKAGES.isdisjoint(file.parts) or str(file).startswith(_STANDARD)
