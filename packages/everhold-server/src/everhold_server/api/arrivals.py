"""Appending over HTTP, also from a form of a page: once for each request, counted, and compared with other holdouts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everhold.asking.arrivals.appending import Arrived
from everhold.ledger import LedgerStore
from everhold.sealing.duplicates.resealing import Sealer, sealing_for, untold_matches
from everhold.sealing.storage import rows_folder, storage_url
from everhold_server.api.holdouts import rows_of
from everhold_server.audit import AuditLog, noted

if TYPE_CHECKING:
    from fastapi import Request

    from everhold.operations.arrivals import Append
    from everhold_server.open_holdouts import OpenHoldouts
    from everhold_server.principals import Principal
    from everhold_server.uploads import RequestContent


def append_rows(
    request: Request, holdouts: OpenHoldouts, principal: Principal, name: str, appending: Append,
    received: RequestContent,
) -> Arrived:  # fmt: skip
    """Append the rows that a request brought; the same request of the same token again changes nothing.

    Appends count against the same limit as sealings. A token for some holdouts that did not seal this one appends at
    least 1,000 rows of each kind at once, and what else has the same rows is told to the audit log alone.

    Args:
        request: The request.
        holdouts: All that are open.
        principal: The steward.
        name: Of the holdout.
        appending: The operation, without its rows.
        received: Files ``rows`` and ``training``; at least one of them.

    Raises:
        HoldoutRejected: If the rows do not fit or are there already. Nothing was changed.
        QueryRejected: If this holdout cannot grow. Nothing was changed.
        Unusable: If there are other files, or a file is packed. Nothing was changed.
    """
    whole = holdouts.whole(name, principal)
    secret = request.headers.get("authorization") or request.headers.get("cookie", "")
    content = received.digest({"until": appending.until}, key=secret)
    appending = replace(appending, **rows_of(received, "rows", "training"))
    log: AuditLog = request.app.state.audit
    with holdouts.being_made(name):  # a request that was sent again waits for the first one
        done = log.facts_of(principal, name, act=appending.act, content=content)
        if done is not None and (before := _arrived(whole.arrivals.timeline(), int(done["arrival"]))) is not None:
            noted(request, "append rows again", holdout=name)
            return before
        sealer = None if principal.holdouts is None else Sealer(principal.token, principal.holdouts)
        with sealing_for(sealer):
            arrived = whole.perform(appending)
        noted(request, appending.act, holdout=name, content=content, **appending.facts(arrived))
        log.insert_now(request.scope, appending.status)
    if sealer is not None:
        with LedgerStore.open(storage_url(holdouts.storage), create=False) as store:
            untold = untold_matches(rows_folder(holdouts.storage), store.record(name), arrival=arrived.arrival)
        # written whatever was found: the duration must not tell
        log.insert_act("compare rows", request.state.request_id, principal, sealed=name, same_rows=untold or [])
    return arrived


def _arrived(rows: list[dict[str, Any]], number: int) -> Arrived | None:
    """An arrival that was there already; None if the ledger lost it."""
    row = next((row for row in rows if row["arrival"] == number), None)
    return None if row is None else Arrived.of(row)
