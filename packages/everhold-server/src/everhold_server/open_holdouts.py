"""Holdouts that a process has open, each once, and the view of them that a principal gets."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Annotated
from weakref import WeakValueDictionary

from everhold.errors import HoldoutNotFound
from everhold.holdout import Holdout
from everhold.ledger import LedgerStore
from everhold.sealing.storage import storage_url
from everhold_server.principals import Role, kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everhold.ledger.database import LedgerDatabase
    from everhold_server.principals import Principal


_MOST_OPEN = 16


class OpenHoldouts:
    """Cache of a storage's open holdouts, opened on first use. Thread-safe.

    The most recently used holdouts stay open. Others are dropped, and requests that still use them are completed.
    """

    def __init__(self, storage: str) -> None:
        self.storage = storage
        self._open: dict[str, Holdout] = {}
        self._opening: dict[str, threading.Lock] = {}  # an engine may read a whole table then; nobody else waits
        self._making: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._lock = threading.Lock()

    def whole(self, name: str, principal: Principal) -> Holdout:
        """Return a holdout with a steward's rights, if the principal may see the holdout.

        Raises:
            HoldoutNotFound: If there is no such holdout, or the principal may not see it. The error is the same in
                both cases.
        """
        if not principal.may_see(name):
            raise _not_found(name)
        with self._lock:
            if name in self._open:
                self._open[name] = self._open.pop(name)  # the last one to be let go
                return self._open[name]
            opening = self._opening.setdefault(name, threading.Lock())
        with opening:
            if (found := self._open.get(name)) is None:
                try:
                    found = Holdout.open(self.storage, name)
                except HoldoutNotFound:  # its own message names others
                    raise _not_found(name) from None
                finally:
                    self._opening.pop(name, None)
                with self._lock:
                    self._open[name] = found
                    for oldest in [*self._open][:-_MOST_OPEN]:
                        self._open.pop(oldest)._executor.store.close()  # idle connections alone
            return found

    def asked_by(self, name: str, principal: Principal) -> Holdout:
        """Return a holdout with the rights of a principal: all rights for a steward, an allotment for an analyst.

        Raises:
            HoldoutNotFound: If there is no such holdout, or the principal may not see it.
            QueryRejected: If an analyst has no allotment.
        """
        whole = self.whole(name, principal)
        return whole if principal.role is Role.STEWARD else whole.analyst(principal.name)

    def shown_to(self, principal: Principal, text: str) -> str:
        """Return a text without the names of holdouts that a principal may not see."""
        if principal.holdouts is None:
            return text
        with LedgerStore.open(storage_url(self.storage), create=False) as store:
            hidden = [name for name in store.names() if not principal.may_see(name)]
        for name in hidden:
            text = text.replace(repr(name), "one that is not for you")
        return text

    def open(self) -> dict[str, Holdout]:
        """Return the holdouts that are open, by name."""
        with self._lock:
            return dict(self._open)

    def databases(self) -> list[LedgerDatabase]:
        """Return the databases of the holdouts that are open."""
        return [holdout._executor.store.database for holdout in self.open().values()]

    @contextlib.contextmanager
    def being_made(self, name: str) -> Iterator[None]:
        """Return a context with a lock on a name, so that no other request of this process creates this holdout."""
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            yield

    def close(self) -> None:
        """Close all open holdouts."""
        with self._lock, contextlib.ExitStack() as stack:
            for holdout in self._open.values():
                stack.callback(holdout.close)
            self._open = {}


def _not_found(name: str) -> HoldoutNotFound:
    return HoldoutNotFound(
        f"There is no holdout named {name!r} for you. Check the name, or ask the steward.", name=name
    )


Holdouts = Annotated[OpenHoldouts, kept("holdouts")]
