"""Makes the certificate of a holdout: checks the whole ledger, then signs its facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isclose
from typing import TYPE_CHECKING, Any

from everhold.answers import SILENT, Answer, FailingRows
from everhold.arguments import as_whole, brief, is_text
from everhold.asking.reports.holdout_ledger import with_names
from everhold.asking.unsealing import disclosed_at
from everhold.certificate import Certificate, CertifiedAccount, TimestampAuthority, Timestamper, make_certificate
from everhold.certificate.form import in_document
from everhold.certificate.page import MOST_AT_LENGTH
from everhold.errors import QueryRejected
from everhold.estimand import ABOUT
from everhold.ledger import Committed, Entry
from everhold.ledger.acts import CHECK, told_as
from everhold.ledger.store import all_entries
from everhold.ledger.verification import check_unaltered
from everhold.progress import progress
from everhold.queries.means.plans import Derived, OneMean
from everhold.queries.query import ExecutionResult, Query, rows_of
from everhold.queries.selection.choice import Choice as BestOf
from everhold.sealing.resealing import also_sealed_as
from everhold.values.base import clips_in_words, kept_clips
from everhold.values.tracked_models import tracked_in_words
from everhold.values.units import MeanUnits, measure_of

if TYPE_CHECKING:
    from everhold.asking.query_executor import QueryExecutor
    from everhold.asking.session import HoldoutSession
    from everhold.ledger.chain import Numbers

    Names = Callable[[Sequence[Entry]], Mapping[str, str]]


def certificate_of(
    session: HoldoutSession, answers: Mapping[str, Choice] | Sequence[Choice] | None, *, queries: bool,
    timestamp: Timestamper | str | None,
) -> Certificate:  # fmt: skip
    """Return the certificate of a holdout, for `everhold.Holdout.certificate`.

    If `queries` is true, the certificate lists all queries.
    """
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
        listed = listed and list(map(accessor.as_listed, listed))
    by_default = queries and "competition" not in added  # whose board says more than its latest pairs
    account = CertifiedAccount(
        head=head, counts=checked.counts, since=checked.since, extensions=added, queries=listed,
        also_sealed_as=also_sealed_as(executor.store, executor.record),
        answers=chosen_answers(
            executor, () if answers is None and not by_default else answers, last=head.sequence, told=told
        ),
    )  # fmt: skip
    return make_certificate(
        executor.record, account, mechanism=session.first.mechanism, key=executor.key, timestamp=stamper
    )


# Answers in a certificate, as the ledger holds them and in the units in which they were asked.

Choice = Answer | BestOf | Query[Any] | str | int
"""An answer, the best of several, the query that was asked, or its id: ``sequence`` or the hash ``query``."""

MOST_CHOSEN = 50
MOST_LATEST = 8
"""Answers that a certificate shows where none are chosen."""

_LOOKED_BACK = 1_000  # entries
LONGEST_LABEL = 100
_SHORTEST_HASH = 8
_CLAIMS = re.compile(r"%|[.!?:;](\s|$)")  # in a name they would make a sentence of their own on the page
_SAID = ("right", "wrong", "precision", "recall", "share", "mean")  # the sentence says what the number is
_OF = re.compile("^(?:accuracy|error|precision|recall|mean) of ")
_DIGEST = re.compile(r"(?<= of )(\w+) [0-9a-f]{8}\b")
_MEASURES_OF_PARTS = {"precision": "precision", "recall": "recall"}


def chosen_answers(
    executor: QueryExecutor, answers: Mapping[str, Choice] | Sequence[Choice] | None, *, last: int,
    told: Mapping[int, Numbers],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the facts of the answers that a certificate shows. Nothing is asked, and no sealed row is read.

    Args:
        executor: Executor of the open holdout.
        answers: Answers by the name that each gets on the certificate, or a list of answers that are named by their
            queries. None for the latest answers.
        last: Number of the last entry that may be shown.
        told: Unsealed numbers, by the number of the entry.

    Raises:
        QueryRejected: If an answer is not in the ledger, or is not a number.
        ValueError: If a name cannot be used, or an answer or a name occurs twice.
    """
    stored = _StoredAnswers(executor, last, told)
    if answers is None:
        latest = stored.latest(MOST_LATEST)
        return _called(latest, [None] * len(latest))
    if isinstance(answers, str) or not isinstance(answers, (Mapping, Sequence)):
        raise ValueError(
            f"answers is {brief(answers)}. Pass a dict from names to answers, such as "
            "{'model B': answer}, or a list of answers."
        )
    named = [*answers.items()] if isinstance(answers, Mapping) else [(None, choice) for choice in answers]
    if len(named) > MOST_CHOSEN:
        raise ValueError(f"{len(named):,} answers are chosen. Choose at most {MOST_CHOSEN}.")
    labels = [_checked_label(name) for name, _ in named]
    facts = _called([stored.found(choice) for _, choice in named], labels)
    for field in ("name", "query"):
        if len({fact[field] for fact in facts}) < len(facts):
            raise ValueError(
                f"Two of the chosen answers have the same {field}. Pass each answer once, with its own name."
            )
    return facts


def _without(found: re.Match[str]) -> str:
    return "the model" if found[1] == "predictions" else found[1]


def _called(facts: Sequence[Mapping[str, Any]], labels: Sequence[str | None]) -> list[dict[str, Any]]:
    """Return the facts of answers, each with a name: its label, or else a text without digests of models.

    The text names the bounds beyond which values count as the bound if the page has no room for what was asked.

    >>> _called([{"name": "accuracy of predictions bcb7ee19", "measure": "right", "entries": [3]}], [None])[0]["name"]
    'the model of entry 3'
    """
    found = []
    for fact, label in zip(facts, labels, strict=True):
        name = label
        if name is None:
            name = str(fact["name"])
            entry = f"entry {fact['entries'][0]:,}"
            if _DIGEST.search(name):  # nothing that a reader could know a model by
                name = f"{_DIGEST.sub(_without, name)} ({entry})"
            if fact["measure"] in _SAID:
                name = _OF.sub("", name).replace(f"the model ({entry})", f"the model of {entry}")
            if len(facts) > MOST_AT_LENGTH and fact.get("clips"):
                name = f"{name}; {fact['clips']}"
        found.append({key: value for key, value in fact.items() if key != "clips"} | {"name": name})
    names = Counter(fact["name"] for fact in found)
    return [
        {**fact, "name": f"{fact['name']} (entry {fact['entries'][0]:,})"}
        if label is None and names[fact["name"]] > 1 else fact
        for fact, label in zip(found, labels, strict=True)
    ]  # fmt: skip


def _checked_label(name: Any) -> str | None:
    if name is None:
        return None
    usable = is_text(name, longest=LONGEST_LABEL) and name and name.isprintable() and name == " ".join(name.split())
    if not usable or _CLAIMS.search(name):
        raise ValueError(
            f"The name {brief(name)} of an answer cannot be used. Pass 1 to {LONGEST_LABEL} printable characters "
            "such as 'model B', without percentages, ends of sentences, or leading, trailing or double spaces."
        )
    return str(name)


@dataclass(frozen=True, slots=True)
class _StoredAnswers:
    """Reader that finds the answers for a certificate in the ledger and checks their seals."""

    executor: QueryExecutor
    last: int
    told: Mapping[int, Numbers]

    def found(self, choice: Choice) -> dict[str, Any]:
        """Return the facts of one answer, chosen by an answer, an entry's number, a hash or a query."""
        if isinstance(choice, (Answer, BestOf)):
            return self._of_answer(choice)
        number = as_whole(choice)
        if number is not None:
            return self._of_entry(self._numbered(number))
        if isinstance(choice, str) and re.fullmatch(f"[0-9a-f]{{{_SHORTEST_HASH},64}}", choice):
            found = [each for each in self.executor.ledger.beginning_with(choice) if each.sequence <= self.last]
            if len(found) != 1:
                raise QueryRejected(
                    f"The id {choice!r} belongs to {len(found)} entries. Pass the 'query' of one "
                    "line of the transcript, or its 'sequence'."
                )
            return self._of_entry(found[0])
        return self._of_query(choice)  # type: ignore[arg-type]  # what is no query is refused there

    def latest(self, most: int) -> list[dict[str, Any]]:
        """Return the facts of the last ``most`` numeric answers, in the order of asking."""
        found: list[dict[str, Any]] = []
        end = self.last
        while end > max(0, self.last - _LOOKED_BACK) and len(found) < most:
            begin = max(0, end - most)
            for entry in reversed([*self.executor.ledger.entries(begin, end - begin)]):
                with suppress(QueryRejected):  # an act, a verdict, or what was asked silently
                    found.append(self._of_entry(entry))
            end = begin
        return found[:most][::-1]

    def _numbered(self, number: int) -> Entry:
        found = [*self.executor.ledger.entries(number - 1, 1)] if 1 <= number <= self.last else []
        if not found:
            raise QueryRejected(
                f"The ledger has no entry {brief(number)}. Pass a number from 1 to "
                f"{self.last:,}, the 'sequence' of the transcript."
            )
        return found[0]

    def _asked(self, query: str) -> Entry | None:
        """Return the entry of a query by its complete fingerprint, or None."""
        entry = self.executor.ledger.find(query)
        return entry if entry is not None and entry.sequence <= self.last else None

    def _of_answer(self, answer: Answer | BestOf) -> dict[str, Any]:
        """Return the ledger's facts about an answer object, in the units of that object: accuracies or error rates."""
        entry = self._asked(answer.query)
        if entry is None:
            raise QueryRejected(
                "The answer is not one entry of this ledger: it was refused, belongs to another holdout, or has "
                "several parts. Pass its query in place of the answer."
            )
        kept = self._reading(entry)
        for reading in filter(None, (kept, kept.turned())):
            fact = self._of_entry(entry, reading)
            told = [(fact[name], getattr(answer, name)) for name in ("value", "low", "high")]
            if all(_same(kept, given, abs(reading.at_one - reading.at_zero)) for kept, given in told):
                return fact
        raise QueryRejected(
            "The answer differs from the one in the ledger. Ask the query again, which is free, and pass that answer."
        )

    def _reading(self, entry: Entry) -> MeanUnits:
        if entry.is_act or (reading := MeanUnits.kept(entry.description)) is None:
            raise QueryRejected(
                f"Entry {entry.sequence} has no numeric answer. Choose the answer to a "
                "mean, or to a query made of means."
            )
        return reading

    def _of_entry(self, entry: Entry, reading: MeanUnits | None = None) -> dict[str, Any]:
        reading = reading or self._reading(entry)
        step, answer = self.executor.mechanism.row_step, entry.answer
        numbers = reading.in_units(answer["value"], answer["low"], answer["high"], row_step=step)
        sealed = self.told.get(entry.sequence)
        return _Shown(
            entries=[entry], told=numbers, sealed=reading.in_units(*sealed or (None, None, None), row_step=step),
            measure=reading.measure, asked=asked_in_words(entry), name=asked_in_words(entry, short=True),
            clips=clips_in_words(kept_clips(entry.description)),
            query=entry.query, source=answer["source"],
        ).fact()  # fmt: skip

    def _of_query(self, query: Query[Any] | str) -> dict[str, Any]:
        """Return the facts of a query that was asked before, even if it has several ledger entries."""
        ready = self.executor.compiler.compile(query, None, None)
        if not isinstance(ready, (OneMean, Derived)):
            raise QueryRejected(
                f"{brief(query)} has no single number with an interval. Choose a mean, a "
                "query made of means, or single answers of a histogram."
            )
        found = [self._asked(line.fingerprint) for line in ready.asked]
        entries = [entry for entry in found if entry is not None]
        if None in found:
            missing = ready.asked[found.index(None)].description["shown"]
            raise QueryRejected(f"{brief(missing)} was not asked yet. Ask it first.")
        answer: Answer = ready.present(
            ExecutionResult(
                [Committed(each.sequence, each.answer, 0, True, self.told.get(each.sequence)) for each in entries],
                {}, "", None,
            )
        )  # fmt: skip
        asked = f"{answer.shown}; {answer.clipped}" if answer.clipped else answer.shown
        return _Shown(
            entries=entries, told=(answer.value, answer.low, answer.high),
            sealed=(answer.sealed, answer.sealed_low, answer.sealed_high), measure=_measure(ready), asked=asked,
            name=answer.shown, clips=answer.clipped, query=answer.query, source=answer.source,
        ).fact()  # fmt: skip


def _measure(ready: OneMean | Derived) -> str:
    """Return the name of what a query measures, such as "share", "mean" or "points"."""
    if isinstance(ready, OneMean):
        return measure_of(ready.prepared[0].bound)
    described, part = ready.bound.description, ready.prepared[0].bound
    if described["kind"] == "conditional mean":
        return "share" if part.yes_no and "ends" not in described else "mean"
    if described["kind"] in ("difference", "risk difference"):
        return "points" if part.yes_no else "difference"  # of two rates, or of two means
    return _MEASURES_OF_PARTS.get(str(described["kind"]), "value")


def _same(kept: float | None, given: float | None, width: float) -> bool:
    """Return whether two numbers of an answer are equal up to rounding.

    Numbers of silent answers are None, and equal.
    """
    if kept is None or given is None:
        return kept is given
    return isclose(kept, given, rel_tol=1e-9, abs_tol=1e-6 * width)


Told3 = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One answer on a certificate: the numbers that the analyst got, and the unsealed numbers if there are any."""

    entries: Sequence[Entry]
    measure: str
    name: str
    clips: str
    asked: str
    query: str
    source: str
    told: Told3
    sealed: Told3

    def fact(self) -> dict[str, Any]:
        """Return the answer as the dict that the certificate signs."""
        if None in self.told and None in self.sealed:
            silent = "its query was silent, and nothing is told of it before the study is unsealed"
            why = silent if self.source == SILENT else "it has no number"
            raise QueryRejected(
                f"The answer to {brief(self.asked)} cannot be shown, because {why}. Choose another answer."
            )
        about = [rows for entry in self.entries if (rows := rows_of(entry.answer)) is not None]
        return {
            **{name: getattr(self, name) for name in ("name", "clips", "measure", "asked", "query")},
            "entries": [entry.sequence for entry in self.entries],
            "source": self.source,
            "by_position": any(ABOUT in entry.description for entry in self.entries),
            **_numbers(self.told),
            **({} if None in self.sealed else {"unsealed": _numbers(self.sealed)}),
            **({"rows": list(about[0])} if about else {}),
        }


def _numbers(three: Told3) -> dict[str, float | str | None]:
    return {name: in_document(number) for name, number in zip(("value", "low", "high"), three, strict=True)}


# All queries of a holdout with their answers, as a certificate lists them.

MOST_LISTED = 2_000
"""Queries in the list of a certificate; of more there is no list, so that the file stays small."""

_NAMES = ("value", "low", "high")


def listed_queries(
    executor: QueryExecutor, *, last: int, told: Mapping[int, Numbers], names: Names
) -> list[dict[str, Any]]:
    """List every query up to a ledger entry, in order, with its numbers in the units of the query.

    Args:
        executor: Executor of the open holdout.
        last: Number of the last entry.
        told: Unsealed numbers, by the number of the entry.
        names: Function from entries to the names of models by SHA-256.
    """
    entries = all_entries(executor.ledger, last)
    known, step = names(entries), executor.mechanism.row_step
    listed = (_listed(entry, told.get(entry.sequence), step) for entry in entries if not entry.is_act)
    return [{**query, "asked": with_names(query["asked"], known)} for query in listed]


def _listed(entry: Entry, sealed: Numbers | None, step: float) -> dict[str, Any]:
    answer, reading = entry.answer, MeanUnits.kept(entry.description)
    numbers = [answer.get(name) for name in _NAMES]
    has_interval = reading is not None and all(isinstance(number, (int, float)) for number in numbers)
    shown = reading.in_units(*numbers, row_step=step) if reading is not None and has_interval else (None,) * 3
    unsealed = reading.in_units(*sealed, row_step=step) if reading is not None and sealed is not None else None
    return {
        "entry": entry.sequence,
        "asked": asked_in_words(entry),
        "measure": "value" if reading is None else reading.measure,
        "source": answer["source"],
        **{name: in_document(number) for name, number in zip(_NAMES, shown, strict=True)},
        "charged": entry.charged,
        **({"verdict": told_as(answer)} if CHECK in entry.description else {}),
        **({} if (rows := rows_of(answer)) is None else {"rows": list(rows)}),
        **({} if unsealed is None else {"unsealed": dict(zip(_NAMES, map(in_document, unsealed), strict=True))}),
    }


def asked_in_words(entry: Entry, *, short: bool = False) -> str:
    """Describe a query in words, with its models and clips and, if the answer has it, the share of failing rows.

    Args:
        entry: The query's entry of the ledger.
        short: Whether to leave out clips and failing rows, as in a name.
    """
    shown = [str(entry.description["shown"]), tracked_in_words(entry.description)]
    if not short:
        fails = FailingRows.kept(entry.answer)
        shown += [str(fails) if fails else "", clips_in_words(kept_clips(entry.description))]
    return "; ".join(filter(None, shown))
