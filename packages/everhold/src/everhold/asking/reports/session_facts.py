"""A holdout in public facts: its transcript, its status, and its look in a notebook."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everhold.answers import UNSEALED, Transcript
from everhold.asking.accounts.budget import whole_budget
from everhold.asking.accounts.unsealing import as_row, disclosed
from everhold.asking.reports.model_names import with_names
from everhold.asking.reports.worth import worth_now
from everhold.display import Facts, html_bar, html_sentences, html_table
from everhold.estimand import ABOUT, PUBLIC, SEALED, about_of
from everhold.ledger.allotments import ANALYST, Accounts
from everhold.planning.request import USUAL_VALUE
from everhold.sealing.configuration import ALIKE, public_facts
from everhold.values.units import in_own_units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.asking.query_executor import QueryExecutor
    from everhold.asking.session import HoldoutSession
    from everhold.ledger import Entry, Head
    from everhold.mechanisms import Promise

__all__ = ["glance_at", "promise_of", "status_of", "transcript_of"]

_LATEST = 5  # answers that a notebook shows
_GLANCE = ("sequence", "asked", "value", "low", "high", "source", "charged")
_NOT_KEPT = (None, None, None)
_SOME = ("estimate", "guess", "within", "rows")  # told of some queries only
_TOLD = ("value", "low", "high", "source", *_SOME)  # of an entry; a table's rounds are its own matter


def transcript_of(session: HoldoutSession, every: Sequence[Entry]) -> Transcript:
    """Entries of the ledger as people see them; on behalf of an analyst, the analyst's new ones."""
    executor = session.executor
    told, step = disclosed(every), executor.mechanism.row_step

    def unsealed(entry: Entry) -> tuple[float | None, ...]:
        return as_row(entry, told[entry.sequence]) if entry.sequence in told else _NOT_KEPT

    entries, in_charge = [entry for entry in every if not entry.is_act], session.in_charge()
    named = any(ANALYST in entry.description for entry in entries)
    names = session.model_names(every) if in_charge else {}
    if executor.analyst is not None:
        entries = [entry for entry in entries if entry.description.get(ANALYST) == executor.analyst]
    some = {name: None for name in _SOME if any(name in entry.answer for entry in entries)}
    about = [about_of(executor.schema, by_position=ABOUT in entry.description) for entry in entries]

    def hidden(answer: Mapping[str, Any]) -> dict[str, None]:
        return {name: None for each in in_charge for name in each.hidden(answer) & answer.keys()}

    rows = (
        {
            "sequence": entry.sequence,
            "asked_at": entry.asked_at,
            "query": entry.query,
            "asked": with_names(entry.description["shown"], names) if names else entry.description["shown"],
            **some,
            **{name: entry.answer[name] for name in _TOLD if name in entry.answer},
            **hidden(entry.answer),
            **(dict(zip(UNSEALED, unsealed(entry), strict=True)) if told else {}),
            "charged": entry.charged,
            **({ANALYST: entry.description.get(ANALYST)} if named else {}),
            **({ABOUT: meant} if any(about) else {}),
        }
        for entry, meant in zip(entries, about, strict=True)
    )
    return Transcript([
        in_own_units(row, entry.description, row_step=step) for row, entry in zip(rows, entries, strict=True)
    ])  # fmt: skip


def glance_at(session: HoldoutSession, promised: str) -> str:
    """The holdout at a glance, as HTML: its promise, what is left, and the latest answers."""
    executor, head = session.executor, session.executor.ledger.head()
    of = "" if executor.analyst is None else f" on behalf of {executor.analyst}"
    over = ", unsealed and closed" if head.accounts.closed else ""
    rows = f"{executor.schema.rows:,} sealed rows, {executor.schema.training_rows:,} training rows"
    left, whole = executor.remaining(head.state), whole_budget(executor, head.state)
    latest = transcript_of(session, list(executor.ledger.entries(max(head.sequence - _LATEST, 0), _LATEST))).rows
    return (
        html_sentences(f"{executor.record.name}{of}: {rows}, {executor.mechanism.name}{over}")
        + html_sentences(promised)
        + "".join(html_bar(name, count, whole[name]) for name, count in left.items())
        + worth_now(executor, head)._repr_html_()
        + html_sentences("latest answers:" if latest else "")
        + html_table([{name: row.get(name) for name in _GLANCE} for row in latest])
    )


def promise_of(session: HoldoutSession) -> Promise:
    """The promise that all answers keep together, with the half-width that they are expected to have."""
    executor = session.executor
    alike = executor.record.configuration.get(ALIKE)
    return replace(executor.promise, expected=executor.mechanism.expected_radius(USUAL_VALUE, alike))


def status_of(session: HoldoutSession, head: Head, promise: Promise) -> Facts:
    """See `everhold.Holdout.status`."""
    executor = session.executor
    described, state = executor.mechanism.to_dict(), executor.state_from(head.state)
    remaining, parts = executor.remaining(head.state), Accounts.from_state(head.state).parts
    asking = {} if executor.analyst is None else {ANALYST: executor.analyst}
    allotted = {"allotments": [part.to_dict() for part in parts.values()]} if parts else {}
    lost, added = head.accounts.lost.to_dict(), dict[str, Any]()
    outlook = {} if head.accounts.closed else executor.mechanism.outlook(state)
    worth = worth_now(executor, head).to_rows()
    for accessor in session.accessors(head):
        added |= accessor.status_facts(head)
    return Facts({
        "name": executor.record.name,
        **asking,
        "rows": executor.schema.rows,
        "training_rows": executor.schema.training_rows,
        **_stays_in(executor),
        "features": PUBLIC if executor.schema.features_public else SEALED,
        **({} if executor.schema.stratified is None else {"stratified": executor.schema.stratified}),
        **({"missing": {n: str(r) for n, r in rules.items()}} if (rules := executor.schema.missing) else {}),
        "mechanism": described["mechanism"],
        "parameters": described["parameters"],
        "radius": promise.radius,
        "expected": promise.expected,
        "statement": promise.statement,
        "confidence": promise.confidence,
        "dependence": executor.mechanism.dependence.to_dict(),
        "simulation": executor.record.configuration["seed"] is not None,
        "queries_asked": state.asked,
        "queries_left": remaining["queries"],
        "closed": head.accounts.closed,
        "charged": head.charged,
        "remaining": remaining,
        **({"outlook": outlook} if outlook else {}),
        **({"worth": worth} if worth else {}),
        **allotted,
        **added,
        **({"lost": lost} if lost else {}),
        "ledger_head": {"sequence": head.sequence, "entry_hash": head.entry_hash},
    })  # fmt: skip


def _stays_in(executor: QueryExecutor) -> dict[str, Any]:
    """The engine and the tables in which rows stay, if they do; where it is, is the steward's matter."""
    configuration = executor.record.configuration
    facts, table = public_facts(configuration), configuration.get("training_table")
    return ({} if facts is None else {"engine": facts}) | ({} if table is None else {"training_table": dict(table)})
