"""Public facts about a holdout: transcript, status, promise, and its view in a notebook."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.answers import UNSEALED, Transcript
from everhold.asking.reports.holdout_ledger import with_names
from everhold.asking.unsealing import as_row, disclosed
from everhold.display import Facts, Listing, at_most, escaped, html_bar, html_sentences, html_table, text_table
from everhold.estimand import ABOUT, PUBLIC, SEALED, about_of
from everhold.ledger.acts import ANALYST, Declaration, Declarations, told_as
from everhold.mechanisms import Promise, PublicLevels, State, has_public_levels
from everhold.planning.request import USUAL_VALUE
from everhold.sealing.configuration import ALIKE, assumed_independent, public_facts
from everhold.values.tracked_models import MODELS, tracked_in_words
from everhold.values.units import in_own_units

if TYPE_CHECKING:
    from everhold.asking.query_executor import QueryExecutor
    from everhold.asking.session import HoldoutSession
    from everhold.families.base import BoundFamily
    from everhold.guarantees.intervals.base import Procedure
    from everhold.ledger import Entry, Head

_LATEST = 5  # answers that a notebook shows
_GLANCE = ("sequence", "asked", "value", "low", "high", "source", "charged")
_NOT_KEPT = (None, None, None)
_SOME = ("estimate", "guess", "within", "rows")  # told of some queries only
_TOLD = ("value", "low", "high", "source", *_SOME)  # of an entry; a table's rounds are its own matter


def transcript_of(session: HoldoutSession, every: Sequence[Entry]) -> Transcript:
    """Return the ledger's entries as rows for people.

    An analyst gets only the entries of the analyst's own new queries.
    """
    executor = session.executor
    told, step = disclosed(every), executor.mechanism.row_step

    def unsealed(entry: Entry) -> tuple[float | None, ...]:
        return as_row(entry, told[entry.sequence]) if entry.sequence in told else _NOT_KEPT

    entries, in_charge = [entry for entry in every if not entry.is_act], session.in_charge()
    named, tracked = (any(field in entry.description for entry in entries) for field in (ANALYST, MODELS))
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
            "source": told_as(entry.answer),
            **hidden(entry.answer),
            **(dict(zip(UNSEALED, unsealed(entry), strict=True)) if told else {}),
            "charged": entry.charged,
            **({ANALYST: entry.description.get(ANALYST)} if named else {}),
            **({MODELS: tracked_in_words(entry.description) or None} if tracked else {}),
            **({ABOUT: meant} if any(about) else {}),
        }
        for entry, meant in zip(entries, about, strict=True)
    )
    return Transcript([
        in_own_units(row, entry.description, row_step=step) for row, entry in zip(rows, entries, strict=True)
    ])  # fmt: skip


def glance_at(session: HoldoutSession) -> str:
    """Return a short HTML summary of a holdout: its promise, its remaining budget and the latest answers."""
    executor, head = session.executor, session.executor.ledger.head()
    of = "" if executor.analyst is None else f" on behalf of {executor.analyst}"
    over = ", unsealed and closed" if head.accounts.closed else ""
    rows = f"{executor.schema.rows:,} sealed rows, {executor.schema.training_rows:,} training rows"
    left, promise = executor.remaining(head), promise_of(session)
    whole = promise.budget or left
    latest = transcript_of(session, list(executor.ledger.entries(max(head.sequence - _LATEST, 0), _LATEST))).rows
    return (
        html_sentences(f"{executor.record.name}{of}: {rows}, {executor.mechanism.name}{over}")
        + html_sentences(promise.sentence or "")
        + "".join(html_bar(name, count, whole[name]) for name, count in left.items())
        + worth_now(executor, head)._repr_html_()
        + html_sentences("latest answers:" if latest else "")
        + html_table([{name: row.get(name) for name in _GLANCE} for row in latest])
    )


def promise_of(session: HoldoutSession) -> Promise:
    """Return the promise that all answers keep together, with its sentence and the initial budget."""
    from everhold.certificate import promise_in_words

    executor = session.executor
    return replace(
        executor.promise, expected=_expected(executor),
        sentence=promise_in_words(executor.record, session.first.mechanism),
        budget=executor.whole_budget(executor.ledger.head()),
    )  # fmt: skip


def _expected(executor: QueryExecutor) -> float | None:
    """Return the half-width that answers are expected to have near a usual value."""
    return executor.mechanism.expected_radius(USUAL_VALUE, executor.record.configuration.get(ALIKE))


def status_of(session: HoldoutSession, head: Head) -> Facts:
    """Return the status of a holdout as facts by name, for `everhold.Holdout.status`."""
    executor, promise = session.executor, session.executor.promise
    described, state = executor.mechanism.to_dict(), executor.state_from(head)
    remaining, parts = executor.remaining(head), head.accounts.parts
    asking = {} if executor.analyst is None else {ANALYST: executor.analyst}
    allotted = {"allotments": [part.to_dict() for part in parts.values()]} if parts else {}
    lost, added = head.accounts.lost.to_dict(), dict[str, Any]()
    outlook = {} if head.accounts.closed else executor.mechanism.outlook(state)
    worth, configuration = worth_now(executor, head).to_rows(), executor.record.configuration
    assumed = assumed_independent(configuration, configuration["dependence"])
    facts, table = public_facts(configuration), configuration.get("training_table")  # where rows stay elsewhere
    for accessor in session.accessors(head):
        added |= accessor.status_facts(head)
    return Facts({
        "name": executor.record.name,
        **asking,
        "rows": executor.schema.rows,
        "training_rows": executor.schema.training_rows,
        **({} if facts is None else {"engine": facts}),
        **({} if table is None else {"training_table": dict(table)}),
        "features": PUBLIC if executor.schema.features_public else SEALED,
        **({} if executor.schema.stratified is None else {"stratified": executor.schema.stratified}),
        **({"assumed": assumed} if assumed else {}),
        **({"missing": {n: str(r) for n, r in rules.items()}} if (rules := executor.schema.missing) else {}),
        "mechanism": described["mechanism"],
        "parameters": described["parameters"],
        "radius": promise.radius,
        "expected": _expected(executor),
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


# Widths of the next answers by kind of query, now and after further surprises; all of it from public state.

AHEAD = 5
"""Further surprises after which widths are shown beside those of now."""

_BITS = 20  # of the text query that is shown: about one comparison of a column with a number
_BAR = 20  # signs of the longest bar
_KINDS = {
    "radius": "not declared, guess confirmed",
    "radius_if_charged": "not declared, a surprise",
    "radius_unsealed": "not declared, unsealed",
}


@dataclass(frozen=True, slots=True)
class Worth(Listing):
    """Half-widths of the next answers about shares near one half, where intervals are the widest.

    Attributes:
        rows: One dict for each kind of query: ``query``, the half-width ``now``, and ``later``, after `AHEAD` more
            surprises. A half-width is None if such an answer would be refused.
    """

    rows_called: ClassVar[str] = "worth"

    rows: Sequence[Mapping[str, Any]]

    def to_text(self) -> str:
        """Return two bars for each kind of query: now, and after `AHEAD` more surprises."""
        if not self.rows:
            return ""
        head, after, most = "next query", f"after {AHEAD} more surprises", self._widest
        return text_table([
            {head: row["query"], "now": _within(row["now"]), "": _bar(row["now"], most), after: _within(row["later"]),
             " ": _bar(row["later"], most)}
            for row in self.rows
        ])  # fmt: skip

    @property
    def _widest(self) -> float:
        return max((half for row in self.rows for half in (row["now"], row["later"]) if half), default=0.5)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<tr><td>{escaped(row['query'])}</td>"
            + "".join(f"<td>{_meter(row[when])} {_within(row[when])}</td>" for when in ("now", "later"))
            + "</tr>"
            for row in self.rows
        )
        heads = ("next query", "now", f"after {AHEAD} more surprises")
        head = "".join(f'<th scope="col">{name}</th>' for name in heads)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>" if self.rows else ""


def _within(half: float | None) -> str:
    return "refused" if half is None else f"±{at_most(half)}"


def _bar(half: float | None, widest: float) -> str:
    return "" if half is None else "█" * max(round(_BAR * half / widest), 1)


def _meter(half: float | None) -> str:
    return "" if half is None else f'<meter value="{half:.6g}" max="0.5"></meter>'


def worth_now(executor: QueryExecutor, head: Head) -> Worth:
    """Return the half-widths of the next answers. There are none if no guesses are checked or the study is closed.

    Args:
        executor: The executor of the holdout.
        head: The head of its ledger.
    """
    mechanism, closed = executor.mechanism, head.accounts.closed
    if not has_public_levels(mechanism):
        return Worth(())
    now = executor.state_from(head)
    later = now.after(asked=AHEAD, charged=AHEAD, labels=AHEAD * mechanism.cells.cost)
    at = [mechanism.quote(state, guess=0.5, procedure=mechanism.yes_no_procedure) for state in (now, later)]
    rows = [] if closed else [
        _row(said, *(None if quote.refused else getattr(quote, name) for quote in at)) for name, said in _KINDS.items()
    ]  # fmt: skip
    return Worth([*rows, *_declared(executor, mechanism, head, now, later)])


def _declared(
    executor: QueryExecutor, mechanism: PublicLevels, head: Head, now: State, later: State
) -> list[dict[str, Any]]:
    """Return the widths of queries of declared families, which never change, and of a text by its description."""
    from everhold.families.texts import BoundTexts
    from everhold.mechanisms.releases import widest_declared

    def within(nats: float) -> float:
        procedure: Procedure = mechanism.yes_no_procedure
        if executor.compiler.families.first_rows:
            from everhold.asking.declared import procedure_of_shares

            procedure = procedure_of_shares(executor, nats)
        return widest_declared(mechanism, procedure, nats)[0]

    rows, text = list[dict[str, Any]](), _BITS * math.log(2.0)
    said, known = f"text of {_BITS} bits", False
    for each, family in _families(executor, head):
        if isinstance(family, BoundTexts) and family.most_nats >= text:
            half, known = within(each.nats + text), True
            rows.append(_row(f"{said}, declared as {each.name!r}", half, half))
            continue
        if family.half_width(each.nats) is None:
            half = within(each.nats + family.most_nats)
            rows.append(_row(f"member of {each.name!r}", half, half))
    if known or head.accounts.closed:
        return rows
    room = [mechanism.surely_answers(state, 1) > 0 for state in (now, later)]
    nats = [float(mechanism.nats(state.asked + 1, state.charged, state.labels / 1e6)) for state in (now, later)]
    keep = mechanism.text_bits >= _BITS and not executor.compiler.families.first_rows
    if keep:  # texts keep the level that they are checked at
        nats = [min(each, mechanism.of_text(0.0)) for each in nats]
    halves = [within(each + text) if enough else None for each, enough in zip(nats, room, strict=True)]
    return [*rows, _row(f"{said}, if texts are declared", *halves)]


def _families(executor: QueryExecutor, head: Head) -> list[tuple[Declaration, BoundFamily]]:
    """Return the declared families with their declarations, or none. Their code is imported only if needed."""
    if Declarations.key not in head.state:
        return []
    from everhold.asking.declared import FamilyLevels

    levels = FamilyLevels(executor.schema)
    return [(each, levels.family(each)) for each in head.accounts.of(Declarations).by_name.values()]


def _row(query: str, now: float | None, later: float | None) -> dict[str, Any]:
    return {"query": query, "now": now, "later": later}
