"""What child processes of the tests run; kept apart from pytest, so that a child starts fast."""

import contextlib
import os
import secrets
import threading
import time

from ledger_samples import ask, new_study, query, spend

from everhold.errors import EverholdError
from everhold.ledger.store import LedgerStore

CAP = 300
THREADS = 4


class RefusedError(Exception):
    pass


def spend_up_to_the_cap(state, indices):
    if state["spent"] + len(indices) > CAP:
        raise RefusedError
    return spend(state, indices)


def spend_from_a_state_read_earlier(store, record):
    """What must not be done: the state comes from outside the transaction."""
    earlier = store.head(record.id).state
    return lambda _state, indices: spend_up_to_the_cap(earlier, indices)


def ask_many(url, worker, barrier, results, asks, careless):
    """Ask different queries; report the sequence numbers granted."""
    granted = []
    with LedgerStore.open(url) as store:
        record = store.record("study")
        barrier.wait()
        for k in range(asks):
            step = spend_from_a_state_read_earlier(store, record) if careless else spend_up_to_the_cap
            try:
                granted += [c.sequence for c in ask(store, record, f"{worker}/{k}", step=step)]
            except RefusedError:
                continue
    results.put(granted)


def create_at_once(url, worker, barrier, results):
    barrier.wait()
    with LedgerStore.open(url) as store:
        try:
            new_study(store, f"study {worker}")
            new_study(store, "study")
            results.put("both")
        except EverholdError as error:
            results.put(type(error).__name__)


def commit_until_killed(url, acknowledged):
    """Commit ones and batches for ever in threads, whose groups are committed together.

    Each notes its answer in a file once it has been handed out.
    """
    with LedgerStore.open(url) as store, acknowledged.open("ab", buffering=0) as file:
        record = store.record("study")

        def commit_for_ever():
            while True:
                commit_once()

        def commit_once():
            numbers = [secrets.token_hex(8) for _ in range(1 + secrets.randbelow(4))]
            committed = ask(store, record, *numbers)
            lines = [f"\n{c.sequence} {query(n).fingerprint}\n" for c, n in zip(committed, numbers, strict=True)]
            os.write(file.fileno(), "".join(lines).encode())

        for _ in range(THREADS):
            threading.Thread(target=commit_for_ever).start()
        threading.Event().wait()


def commit_up_to_the_cap_until_killed(url, acknowledged):
    """As `commit_until_killed`, on a server that may stop meanwhile; refusals are no end, as others may be killed."""
    with acknowledged.open("ab", buffering=0) as file:
        while True:
            with contextlib.suppress(EverholdError, RefusedError), LedgerStore.open(url, create=False) as store:
                record = store.record("study")
                while True:
                    asked = secrets.token_hex(8)
                    (committed,) = ask(store, record, asked, step=spend_up_to_the_cap)
                    os.write(file.fileno(), f"\n{committed.sequence} {query(asked).fingerprint}\n".encode())
            time.sleep(0.01)
