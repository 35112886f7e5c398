"""The certificate of a holdout: the whole ledger is checked, then its facts are signed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.asking.accounts.unsealing import disclosed_at
from everhold.asking.reports.certificate_answers import chosen_answers
from everhold.asking.reports.query_list import MOST_LISTED, listed_queries
from everhold.certificate import CertifiedAccount, TimestampAuthority, make_certificate
from everhold.ledger.verification import check_unaltered
from everhold.progress import progress
from everhold.sealing.duplicates.resealing import also_sealed_as

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.asking.reports.certificate_answers import Choice
    from everhold.asking.session import HoldoutSession
    from everhold.certificate import Certificate, Timestamper

__all__ = ["certificate_of"]


def certificate_of(
    session: HoldoutSession, answers: Mapping[str, Choice] | Sequence[Choice] | None, *, queries: bool,
    timestamp: Timestamper | str | None,
) -> Certificate:  # fmt: skip
    """See `everhold.Holdout.certificate`."""
    stamper = TimestampAuthority(timestamp) if isinstance(timestamp, str) else timestamp
    executor, head = session.executor, session.executor.ledger.head()
    with progress("certifying"):
        if session.engine is not None:
            session.engine.check_unaltered(executor.record.configuration, executor.key)
            if executor.growth is not None:
                executor.growth.check_unaltered()
        checked = check_unaltered(executor.store, executor.record.name, head, seal_key=executor.key.seal_key)
        told = disclosed_at(executor, checked.counts.unsealing)
        listed = (
            listed_queries(executor, last=head.sequence, told=told, names=session.model_names)
            if queries and head.asked <= MOST_LISTED
            else None
        )
    added: dict[str, Any] = {}
    for accessor in session.accessors(head):
        added |= accessor.certificate_facts(head, checked.counts)
    account = CertifiedAccount(
        head=head, counts=checked.counts, since=checked.since, extensions=added, queries=listed,
        also_sealed_as=also_sealed_as(executor.store, executor.record),
        answers=chosen_answers(
            executor, answers if queries or answers is not None else (), last=head.sequence, told=told
        ),
    )  # fmt: skip
    return make_certificate(
        executor.record, account, mechanism=session.first.mechanism, key=executor.key, timestamp=stamper
    )
