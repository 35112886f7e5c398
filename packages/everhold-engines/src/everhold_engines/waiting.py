"""Waiting for an engine so that Ctrl-C is heard: the statement runs in a thread of its own, and is ended there."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Found = TypeVar("Found")

_PATIENCE = 5.0  # seconds for an engine to end what was interrupted


def heard_while(run: Callable[[], Found], interrupt: Callable[[], None]) -> Found:
    """Call ``run``; Ctrl-C interrupts it at once and cancels the statement in the engine.

    Most engines' clients wait where Python cannot interrupt them. Signals come to the main thread alone, so in others
    nothing is to be done.

    Args:
        run: Waits for an engine.
        interrupt: Makes that end soon; must not wait.

    Raises:
        KeyboardInterrupt: After the engine was told.

    Examples:
        >>> heard_while(lambda: 42, lambda: None)
        42
    """
    if threading.current_thread() is not threading.main_thread():
        return run()
    found: Future[Found] = Future()
    threading.Thread(target=_keep, args=(run, found), name="everhold engine", daemon=True).start()
    try:
        return found.result()
    except KeyboardInterrupt:
        interrupt()
        with suppress(Exception, KeyboardInterrupt):  # whatever came of it
            found.exception(_PATIENCE)
        raise


def _keep(run: Callable[[], Found], found: Future[Found]) -> None:
    try:
        found.set_result(run())
    except BaseException as error:
        found.set_exception(error)
