"""The thread of a process that reads the ledgers' news, and those that send what is due."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from everhold.errors import EverholdError
from everhold.service.visitors import Role, Visitor
from everhold.service.webhooks.happenings import events_of
from everhold.service.webhooks.sending import Sender

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from everhold.service.open_holdouts import OpenHoldouts
    from everhold.service.webhooks.store import Behind, Delivery, Webhook, WebhookStore

__all__ = ["WebhookWorker"]

log = logging.getLogger("everhold.service")

_AT_ONCE = 8
_HOUR = 3600.0
_WHOLE = Visitor(Role.STEWARD, "webhooks")


class WebhookWorker:
    """Reads and sends while its context lasts; every process of a service has one.

    Args:
        store: Webhooks and deliveries.
        holdouts: Where the ledgers are read.
        sender: Sends one delivery.
        interval: Seconds between two looks at the ledgers.
    """

    def __init__(
        self, store: WebhookStore, holdouts: OpenHoldouts, *, sender: Sender, interval: float = 1.0
    ) -> None:  # fmt: skip
        self._store, self._holdouts, self._sender, self._interval = store, holdouts, sender, interval
        self._stopped, self._busy, self._lock = threading.Event(), set[str](), threading.Lock()
        self._forgotten = -_HOUR
        self._thread = threading.Thread(target=self._run, name="everhold-webhooks", daemon=True)
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="everhold-webhook")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for what is being sent; what is not sent yet is due at the next start, or in another process."""
        self._stopped.set()
        self._thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        while True:
            self._safely(self._read)
            self._safely(self._send)
            if time.monotonic() - self._forgotten > _HOUR:
                self._forgotten = time.monotonic()
                self._safely(self._store.forget)
            if self._stopped.wait(self._interval):
                return

    def _read(self) -> None:
        for behind in self._store.behind():
            self._safely(self._tell, behind)
            if self._stopped.is_set():
                return

    def _tell(self, behind: Behind) -> None:
        found = self._holdouts.whole(behind.holdout, _WHOLE).news(behind.sequence)
        events, told = events_of(behind.holdout, found, told=behind.told)
        self._store.advance(behind, found.sequence, told, events)

    def _send(self) -> None:
        """Hand out what is due: one delivery at a time to each receiver, so that a slow one holds up no other."""
        while not self._stopped.is_set():
            with self._lock:
                busy = sorted(self._busy)
            taken = self._store.take(busy=busy) if len(busy) < _AT_ONCE else None
            if taken is None:
                return
            with self._lock:
                self._busy.add(taken[0].id)
            self._pool.submit(self._deliver, *taken)

    def _deliver(self, webhook: Webhook, first: Delivery) -> None:
        """Send a delivery, and as long as the receiver takes them, whatever else is due there."""
        try:
            self._safely(self._send_all, webhook, first)
        finally:
            with self._lock:
                self._busy.discard(webhook.id)

    def _send_all(self, webhook: Webhook, first: Delivery) -> None:
        taken: tuple[Webhook, Delivery] | None = (webhook, first)
        while taken is not None:
            webhook, delivery = taken
            sent = self._sender.send(webhook.url, webhook.secret, delivery=delivery.id, body=delivery.body.encode())
            self._store.settle(delivery, sent)
            more = sent.accepted and not self._stopped.is_set()
            taken = self._store.take(of=webhook.id) if more else None

    def _safely(self, work: Callable[..., object], *given: object) -> None:
        """Do something that may fail for a while; it is tried again at the next look."""
        try:
            work(*given)
        except EverholdError as fault:
            log.warning("webhooks wait: %s", type(fault).__name__)
        except Exception as fault:  # its words could quote rows
            log.error("webhooks wait: %s", type(fault).__name__)
