"""Plans of queries about means: one mean, a batch of them, and parameters that follow from a few of them.

Most queries are an average over the rows of something that is computed from each row alone. A derived query, such as a
variance, is computed from a few means. It costs what these parts cost and reveals what they reveal. All intervals of a
holdout hold together, so an interval that is computed from those of the parts also holds, and needs no further
probability.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from everhold.answers import FAILING, Answer, FailingRows, QuotedPrice
from everhold.errors import QueryRejected
from everhold.estimand import about_of, marked
from everhold.guarantees.intervals.means import OfMeans
from everhold.ledger import Committed, Entry, EntryDraft, Outcome
from everhold.ledger.acts import DECLARED
from everhold.mechanisms import Mechanism, Source, State, has_public_levels
from everhold.mechanisms.base import Quote, Replies
from everhold.mechanisms.records import Evaluations
from everhold.queries.procedures import how_made, paying, rows_worth, what_narrows
from everhold.queries.query import (
    IN_ONE_TRANSACTION,
    MOST_SHOWN,
    ExecutionResult,
    Pricing,
    Query,
    QueryPlan,
    RowwiseQuery,
    rows_of,
)
from everhold.sealing.rows.evaluated_rows import noting_failing_rows
from everhold.strict_json import digest
from everhold.values.base import BoundQuery, Joined, Schema, StoredValues, clips_in_words, noted_clips
from everhold.values.evaluation import models_in
from everhold.values.units import UNITS, MeanUnits

if TYPE_CHECKING:
    from everhold.queries.interval_planner import Prepared
    from everhold.queries.query import CompileContext
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows

Result = TypeVar("Result", covariant=True)

_AT_ONCE = {"total": 10_000, "cells": 2_000, "apart": 2_000}  # means for which the sealed rows are looked at in one go
_NUMBERS = 2**23  # of groups or pairs, of all means that are looked at in one go; no more of one mean than rows
_MOST_SHORT = 1_000  # means of a short query; fewer than are evaluated in one go, so that a whole stays one
_SHORT = 2**22  # row values that are computed while the ledger is locked: some 30 ms


def _is_plain(bound: BoundQuery) -> bool:
    """Return whether evaluating the query runs no code and reads no file: an expression or predictions in memory."""
    if bound.pair is not None:
        return _is_plain(bound.pair.first) and _is_plain(bound.pair.second)
    return bound.row_value is not None or (bound.by_position and not isinstance(bound.sealed, (Joined, StoredValues)))


@dataclass(frozen=True)
class Means(QueryPlan[Result]):
    """A plan for means that are asked together, each with one ledger entry.

    Attributes:
        prepared: The means, in order.
        schema: The public facts about the rows.
        mechanism: The mechanism that answers.
        silent: True if no answer is told before the study is unsealed.
        keeping: Number of silent queries that the budget must still cover afterwards.
        full_release: True if the value of each query is told. Then later queries have wider intervals.
    """

    prepared: Sequence[Prepared]
    schema: Schema
    mechanism: Mechanism
    silent: bool = field(default=False, kw_only=True)
    keeping: int = field(default=0, kw_only=True)
    full_release: bool = field(default=False, kw_only=True)

    def silently(self) -> Self:
        """Return the plan as a silent one."""
        return replace(self, silent=True)

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """The drafts of ledger entries, one for each mean."""
        lines = []
        for mean in self.prepared:
            clips = mean.bound.clips
            described = {
                **mean.bound.description, "shown": mean.bound.shown[:MOST_SHOWN], **mean.bound.facts,
                **(noted_clips(clips) if clips else {}), UNITS: MeanUnits.of(mean.bound).to_list(),
            }  # fmt: skip
            described = marked(described, by_position=True) if mean.bound.by_position else described
            lines.append(EntryDraft(mean.bound.query, described))
        return lines

    @property
    def is_free(self) -> bool:
        """Whether all means are members of declared families, so that answers are free."""
        return not self.silent and all(mean.declared == mean.declared for mean in self.prepared)  # no nan

    @property
    def members(self) -> Sequence[BoundQuery]:  # type: ignore[override]
        """The bound queries of all means if all of them are members of declared families, else an empty list."""
        return [mean.bound for mean in self.prepared] if self.is_free else []

    @cached_property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """The pricing of the entries. Each one has the price of the most expensive mean."""
        if self.is_free:
            return Pricing.free()
        finest = min((mean.tolerance for mean in self.prepared if mean.tolerance == mean.tolerance), default=None)
        if finest is None or self.silent:
            procedures = [mean.procedure for mean in self.prepared if mean.procedure is not None]
            return Pricing.planned(
                self.mechanism, procedures, silent=self.silent, keeping=self.keeping,
                failing=any(mean.failing is not None for mean in self.prepared),
            )  # fmt: skip
        budget = paying(self.mechanism)
        return Pricing.fixed(budget, budget.credits_for(budget.scale_for(finest)))

    @property
    def at_once(self) -> int:  # type: ignore[override]
        """Number of queries evaluated in one pass over the sealed rows, as memory allows."""
        most = max(32, _NUMBERS // self.schema.rows)
        return min(_AT_ONCE.get(needs, most) for needs in self._needs)

    @cached_property
    def _needs(self) -> frozenset[str]:
        """The kinds of sums that the interval procedures need."""
        return frozenset("total" if mean.procedure is None else mean.procedure.needs for mean in self.prepared)

    def is_short(self, rows: int) -> bool:
        """Return whether all means are a few expressions or arrays in memory over not too many rows."""
        count = len(self.prepared)
        if rows * count > _SHORT or count > _MOST_SHORT or not self._needs <= _AT_ONCE.keys():
            return False
        return all(_is_plain(mean.bound) for mean in self.prepared)

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> tuple[Evaluations, list[Prepared]]:
        """Evaluate the means at these positions on the sealed rows.

        Returns sums with all that the interval procedures need, and the means. The sums are secret.
        """
        means, unit = [self.prepared[place] for place in places], self.mechanism.unit
        tolerances, described = np.array([mean.tolerance for mean in means]), [*map(attrgetter("described"), means)]
        procedures = [mean.procedure for mean in means if mean.procedure is not None]
        of_rows = [place for place, mean in enumerate(means) if mean.number is None]
        has_models = any(mean.failing is not None for mean in self.prepared)
        totals, seen = np.zeros((len(means), self.mechanism.parts), dtype=np.int64), [None] * len(means)
        with noting_failing_rows() if has_models else nullcontext() as noted:
            if of_rows:
                totals[of_rows], found = sealed.evaluate(
                    [means[place].bound for place in of_rows],
                    ["total" if each is None else each.needs for each in (means[place].procedure for place in of_rows)],
                    parts=self.mechanism.parts,
                    group_by=None if self._needs == {"total"} else self.mechanism.dependence.unit_column,
                    unit=unit,
                )
                for place, summary in zip(of_rows, found, strict=True):
                    seen[place] = summary
            for place, mean in enumerate(means):
                if mean.number is not None:
                    share, seen[place] = mean.number(sealed)
                    totals[place, 0] = math.floor(share * self.mechanism.steps)
        failing: list[Evaluations | None] | None = None
        if noted is not None:
            failing = [
                None if mean.failing is None
                else mean.failing.evaluated(sealed, noted.of(mean.bound, self.schema.rows), self.mechanism)
                for mean in means
            ]  # fmt: skip
        evaluations = Evaluations(
            totals=totals,
            guesses=np.array([mean.guess for mean in means], dtype=np.int64),
            rows=self.schema.rows,
            unit=unit,
            tolerances=None if np.all(np.isnan(tolerances)) else tolerances,
            procedures=procedures if len(procedures) == len(means) else None,
            seen=seen if len(procedures) == len(means) else None,
            silent=self.silent,
            described=described if any(described) else None,
            yes_no=np.array([mean.bound.yes_no and mean.bound.pair is None for mean in means]),
            failing=failing,
        )
        return evaluations, means

    def answer(
        self, state: State, seen: tuple[Evaluations, list[Prepared]], rows: list[int], noise: Noise
    ) -> tuple[State, list[Outcome]]:
        """Return the new state and the outcomes of the means at these positions of ``seen``."""
        every, means = seen
        some = every if rows == [*range(len(means))] else every.some(rows)
        if self.is_free:
            nats = np.array([means[row].declared for row in rows])
            from everhold.mechanisms.releases import answer_declared

            state, replies = answer_declared(self.mechanism, state, some, nats)
        elif self.full_release and has_public_levels(self.mechanism):
            from everhold.mechanisms.releases import release_all

            state, replies = release_all(self.mechanism, state, some)
        else:
            state, replies = self.mechanism.answer_many(state, some, noise)
        return state, [self._outcome(means[row], replies, place) for place, row in enumerate(rows)]

    def _outcome(self, mean: Prepared, replies: Replies, place: int) -> Outcome:
        """Return the outcome of one mean: its answer, with the level and stakes of its interval, and its charge."""
        source, nats = Source(int(replies.sources[place])), float(replies.nats[place])
        trained = source is Source.GUESS and mean.from_training
        told = [float(numbers[place]) for numbers in (replies.values, replies.lows, replies.highs)]
        names = ("value", "low", "high")
        answer: dict[str, Any] = dict.fromkeys(names) if math.isnan(told[0]) else dict(zip(names, told, strict=True))
        answer["source"] = "training" if trained else source.name.lower()
        if (procedure := replies.procedures[place]) is not None:
            answer["node"] = {"by": procedure.name, "nats": nats, **procedure.stakes(nats)}
        if self.mechanism.traits.needs_guess and not self.silent:
            answer["estimate"] = None if mean.estimate < 0 else mean.estimate / self.mechanism.steps
            answer["guess"] = None if mean.guess < 0 else mean.guess / self.mechanism.steps
        if (failing := replies.failing.get(place)) is not None:
            answer[FAILING] = list(failing)
        sealed = tuple(np.clip(replies.sealed[place], 0.0, 1.0).tolist())
        return Outcome(answer, int(replies.charged[place]), None if math.isnan(sealed[0]) else sealed)

    def price(self, mean: Prepared, state: State) -> Quote:
        """Return the price of one mean, in units of a mean over [0, 1]."""
        if self.is_free and mean.procedure is not None:
            from everhold.mechanisms.releases import widest_declared

            at = mean.guess / self.mechanism.steps if mean.guess >= 0 else 0.5
            within, most = widest_declared(self.mechanism, mean.procedure, mean.declared, at=at)
            return Quote(within, most, 0, 0, refused=False)
        if mean.tolerance == mean.tolerance:
            return paying(self.mechanism).quote_at(state, mean.tolerance)
        if mean.procedure is None or mean.guess < 0:
            return self.mechanism.quote(state)
        by = {} if mean.described is None else {"described": mean.described}
        return self.mechanism.quote(state, guess=mean.guess / self.mechanism.steps, procedure=mean.procedure, **by)

    def answers(self, result: ExecutionResult) -> list[Answer]:
        """Return one answer for each mean, in the analyst's units."""
        return [
            self._answer(mean, entry, result) for mean, entry in zip(self.prepared, result.entries, strict=True)
        ]  # fmt: skip

    def _answer(self, mean: Prepared, entry: Committed | None, result: ExecutionResult) -> Answer:
        """Return the answer to one mean in the analyst's units, a refusal without an entry."""
        bound = mean.bound
        about = about_of(self.schema, by_position=bound.by_position)
        if entry is None:
            return self.refusal(bound.query, result, about=about, shown=bound.shown)
        kept = entry.answer
        step = self.mechanism.row_step
        reading = MeanUnits.of(bound)
        value, low, high = reading.in_units(kept["value"], kept["low"], kept["high"], row_step=step)
        sealed, sealed_low, sealed_high = reading.in_units(*entry.sealed or (None, None, None), row_step=step)
        one_law, made, narrower = self.mechanism.traits.one_law, "", ""
        by_description = mean.described is not None and kept.get("node", {}).get("nats") == mean.described.nats
        statement = "S10" if kept["source"] == DECLARED or by_description else result.statement
        by, procedure = kept.get("node", {}).get("by"), mean.procedure
        if procedure is not None and by not in (None, procedure.name):  # then another one made the stored interval
            others = (self.mechanism.in_force(procedure), self.mechanism.procedure)
            procedure = next((each for each in others if each.name == by), None)
        if procedure is not None:
            made = how_made(procedure, bound, mean.guess / self.mechanism.steps, self.schema.rows)
            narrower = what_narrows(procedure, self.mechanism, kept["source"])
        if procedure is None or one_law:
            made = f"{made} {rows_worth(self.mechanism)}".strip()
        clips = bound.clips
        exact = kept["source"] == DECLARED and isinstance(procedure, OfMeans) and bound.yes_no and bound.pair is None
        return Answer(
            value, low, high, kept["source"], entry.charged, result.remaining, bound.query,
            entry.repeated, statement, self.mechanism.confidence, self.mechanism.traits.adaptive,
            made, result.analyst, about, bound.shown,
            sealed, sealed_low, sealed_high, narrower, exact,
            rows_of(kept) if "rows" in kept else None, clips_in_words(clips) if clips else "",
            None if bound.row_value is not None else self.failing_rows(bound.description, kept),
        )  # fmt: skip

    def failing_rows(self, description: Any, *answers: Mapping[str, Any]) -> FailingRows | None:
        """Return the share of failing rows that the answers tell, or None if the query runs no model."""
        if not (answers and models_in(description)):
            return None
        tried = (
            "No training row on which it was tried makes the model fail"
            if self.schema.training_rows  # a model that fails on one is refused
            else "Whether the model fails on real rows is not known, because there are no training rows"
        )
        asks = " Ask eh.metric('failing_rows', model) for the share of such rows." if self.schema.label_classes else ""
        tried = f"{tried}. A sealed row on which it fails counts as the worst.{asks}"
        return max((FailingRows.kept(each, tried) for each in answers), key=lambda share: share.high or 0.0)

    def refusal(self, query: str, result: ExecutionResult, *, about: str | None, shown: str = "") -> Answer:
        """Return the answer that says that a query was refused, which leaves no ledger entry."""
        return Answer(
            None, None, None, "refused", 0, result.remaining, query, False, result.statement,
            self.mechanism.confidence, self.mechanism.traits.adaptive, rows_worth(self.mechanism), result.analyst,
            about, shown,
        )  # fmt: skip


@dataclass(frozen=True)
class OneMean(Means[Answer]):
    """A plan for one mean asked alone."""

    @property
    def is_number(self) -> bool:
        """Whether the plan is for a number that is computed from all rows together, not from row values."""
        return self.prepared[0].number is not None

    def present(self, result: ExecutionResult) -> Answer:
        """Return the answer to the one mean."""
        return self._answer(self.prepared[0], result.entries[0], result)

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the price of the one mean, in the analyst's units."""
        (mean,), (entry,) = self.prepared, stored
        bound, before, reading = mean.bound, entry is not None, MeanUnits.of(mean.bound)
        if entry is None:
            price = self.price(mean, state)
        else:  # without a width for a silent query
            value, low, high = (entry.answer[name] for name in ("value", "low", "high"))
            within = None if value is None or low is None or high is None else max(value - low, high - value)
            price = Quote(within, within, 0, 0, refused=False, confirmed=None if within is None else (low, high))
        at, unsealed = mean.guess / self.mechanism.steps, price.radius_unsealed
        return QuotedPrice(
            query=bound.query,
            radius=reading.radius(price.radius, price.confirmed),
            radius_if_charged=reading.radius(price.radius_if_charged, price.confirmed if before else None),
            charged_if_confirmed=0 if before or self.silent else price.charged_if_confirmed,
            charged_at_most=0 if before or self.silent else price.charged_at_most,
            refused=False,
            answered_before=before,
            remaining={},
            radius_unsealed=reading.radius(unsealed, None if unsealed is None else (at - unsealed, at + unsealed)),
            bits=mean.declared / math.log(2.0) if self.is_free else None,
        )


@dataclass(frozen=True)
class Batch(Means["list[Answer]"]):
    """A plan for several means that do not depend on each other's answers."""

    def parts(self) -> list[tuple[Batch, list[int]]]:
        """Split the batch into members of declared families and all others, each with their positions.

        A part without queries is left out.
        """
        apart = [
            [place for place, mean in enumerate(self.prepared) if mean.is_member is free] for free in (True, False)
        ]
        return [(replace(self, prepared=[self.prepared[place] for place in some]), some) for some in apart if some]

    def present(self, result: ExecutionResult) -> list[Answer]:
        """Return the answers in the order of the queries."""
        return self.answers(result)

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Raise NotImplementedError, because queries of a batch are quoted one at a time."""
        raise NotImplementedError


# Parameters computed from a few means, whose intervals follow from the intervals of the parts.


_COUNTS = {1: "one query", 2: "two queries", 3: "three queries", 4: "four queries", 5: "five queries"}
_BY_WEIGHT = (
    "refused",
    "silent",
    "holdout",
    "declared",
    "standing",
    "guess",
    "training",
)  # sources; that of the whole is the heaviest


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with an interval that is promised to contain the population's value.

    Attributes:
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BoundDerived:
    """A derived query bound to a schema: the means of its parts, and the function from the means to the query's value.

    Attributes:
        name: Name of the kind of parameter, with its article.
        description: Public description, canonical together with those of the parts.
        parts: The means from which the query is computed, in the order in which they are asked.
        combine: Pure function from the means of the parts' row values, each in [0, 1], to the parameter.
    """

    name: str
    description: dict[str, Any]
    parts: tuple[Any, ...]
    combine: Callable[[Sequence[Estimate]], Estimate]
    shown: str = ""

    def query(self, parts: Sequence[str]) -> str:
        """Return the SHA-256 of the description and of the fingerprints of the parts, in hex."""
        return digest({**self.description, "parts": list(parts)})

    def check(self, compiler: CompileContext, *, guess: float | None, tolerance: float | None) -> None:
        """Raise QueryRejected if a guess or tolerance is given, or the mechanism cannot answer the parts."""
        if tolerance is not None:
            raise QueryRejected("A query that is made of several queries takes no tolerance. Leave tolerance out.")
        counted = _COUNTS.get(len(self.parts), f"{len(self.parts)} queries")
        if compiler.mechanism.traits.one_sided:
            raise QueryRejected(
                f"This query ({self.name}) takes {counted}, and the mechanism {compiler.mechanism.name} bounds some "
                "answers from one side only. Ask a single query, or choose another mechanism for the next holdout."
            )
        if guess is not None:
            raise QueryRejected(
                f"This query ({self.name}) takes {counted}, so one guess does not fit. Ask query.parts(holdout.schema) "
                "one by one, each with a guess, and then the whole query, which costs nothing more."
            )


class DerivedQuery(Query[Answer]):
    """A query for a parameter that is a function of the means of a few plain queries."""

    __slots__ = ()

    @abstractmethod
    def bind(self, schema: Schema) -> BoundDerived:
        """Return the derived query about rows of this schema.

        Raises:
            QueryRejected: If the query cannot be asked about rows of this schema. Nothing is charged.
        """

    def parts(self, schema: Schema) -> tuple[RowwiseQuery, ...]:
        """Return the means of the query's parts. If all were asked with guesses, the derived query costs nothing.

        Raises:
            QueryRejected: If the query cannot be asked about rows of this schema. Nothing is charged.
        """
        return self.bind(schema).parts

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the means that the query is made of into one plan."""
        bound = self.bind(compiler.schema)
        bound.check(compiler, guess=guess, tolerance=tolerance)
        parts = compiler.prepare(bound.parts, None, together=True)
        return Derived(parts, compiler.schema, compiler.mechanism, bound)


@dataclass(frozen=True)
class JointMeans(Means[Result]):
    """A plan for several means that are the parts of one query.

    Attributes:
        bound: The query whose parts the means are, bound to the rows.
    """

    bound: BoundDerived

    @property
    def query(self) -> str:
        """SHA-256 of the whole query, in hex."""
        return self.bound.query([line.fingerprint for line in self.asked])

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the price of all new parts, and how far the derived value can be from that of the guesses."""
        known = {line.fingerprint: entry for line, entry in zip(self.asked, stored, strict=True)}
        parts = {line.fingerprint: part for line, part in zip(self.asked, self.prepared, strict=True)}
        new = [fingerprint for fingerprint, entry in known.items() if entry is None]
        prices, worst, quiet, unlucky = [], [], state, state
        one_step = self.mechanism.traits.batch_is_one_step and len(new) <= min(self.at_once, IN_ONE_TRANSACTION)
        failing = any(part.failing is not None for part in self.prepared)
        label = int(self.mechanism.accounts.labels_of(1, failing=failing)[1])
        for fingerprint in new:
            prices.append(self.price(parts[fingerprint], quiet))
            worst.append(self.price(parts[fingerprint], unlucky))
            quiet = quiet.after(charged=prices[-1].charged_if_confirmed)
            unlucky = quiet if one_step else unlucky.after(charged=worst[-1].charged_at_most, labels=label)
        told = dict(zip(new, (price.confirmed for price in prices), strict=True))
        radii = dict(zip(new, (price.radius for price in prices), strict=True))
        charged = dict(zip(new, (price.radius_if_charged for price in worst), strict=True))
        return QuotedPrice(
            query=self.query,
            radius=self._within(known, radii, told),
            radius_if_charged=None if new and self.mechanism.traits.needs_guess else self._within(known, charged, {}),
            charged_if_confirmed=sum(price.charged_if_confirmed for price in prices),
            charged_at_most=sum(price.charged_at_most for price in worst),
            refused=False,
            answered_before=not new,
            remaining={},
        )

    def _within(
        self,
        known: Mapping[str, Entry | None],
        radii: Mapping[str, float | None],
        told: Mapping[str, tuple[float, float] | None],
    ) -> float | None:
        """Return the largest distance from the value to an end of the interval, or None if a guess is missing."""
        estimates = []
        for line, part in zip(self.asked, self.prepared, strict=True):
            entry, radius = known[line.fingerprint], radii.get(line.fingerprint)
            if entry is not None and entry.answer["value"] is None:  # asked silently
                return None
            if entry is not None:
                estimates.append(_stored(entry.answer))
            elif part.guess < 0 or radius is None:
                return None
            else:
                guess = part.guess / self.mechanism.steps
                low, high = told.get(line.fingerprint) or (guess - radius, guess + radius)
                estimates.append(Estimate(guess, max(low, 0.0), min(high, 1.0)))
        whole = self.bound.combine(estimates)
        return max(whole.value - whole.low, whole.high - whole.value) if whole.high < math.inf else None


@dataclass(frozen=True)
class Derived(JointMeans[Answer]):
    """A plan for one number that is derived from several means. All of the means are answered or none.

    If the budget ended after some parts, taking their answers back would reveal at no cost that a guess was wrong. So
    the budget must be certain to pay for all parts before the first one is evaluated.
    """

    whole = True

    def present(self, result: ExecutionResult) -> Answer:
        """Return the answer that follows from the answers to the parts."""
        about = about_of(self.schema, by_position=any(part.bound.by_position for part in self.prepared))
        refusal = self.refusal(self.query, result, about=about, shown=self.bound.shown)
        entries = [entry for entry in result.entries if entry is not None]
        if len(entries) < len(result.entries):
            return refusal
        sources = [entry.answer["source"] for entry in entries]
        told_openly = all(entry.answer["value"] is not None for entry in entries)
        sealed = [Estimate(*entry.sealed) for entry in entries if entry.sealed is not None]
        value, low, high = self._whole([_stored(entry.answer) for entry in entries if told_openly])
        unsealed, unsealed_low, unsealed_high = self._whole(sealed if len(sealed) == len(entries) else [])
        return replace(
            refusal,
            value=value,
            low=low,
            high=high,
            sealed=unsealed,
            sealed_low=unsealed_low,
            sealed_high=unsealed_high,
            source=next(source for source in _BY_WEIGHT if source in sources),
            statement="S10" if {*sources} == {DECLARED} else refusal.statement,
            charged=sum(entry.charged for entry in entries),
            repeated=all(entry.repeated for entry in entries),
            rows=next((rows for entry in entries if (rows := rows_of(entry.answer)) is not None), None),
            clipped=clips_in_words([clip for part in self.prepared for clip in part.bound.clips]),
            failing=self.failing_rows(
                [part.bound.description for part in self.prepared], *(entry.answer for entry in entries)
            ),
        )

    def _whole(self, parts: list[Estimate]) -> tuple[float | None, float | None, float | None]:
        """Return value, lower and upper end computed from the parts, or three None if there are no parts."""
        if not parts:
            return None, None, None
        whole = self.bound.combine(parts)
        return whole.value, whole.low, whole.high


def _stored(answer: Mapping[str, Any]) -> Estimate:
    """Return a stored answer as an estimate of a mean in [0, 1]."""
    return Estimate(answer["value"], answer["low"], answer["high"])


def estimate_between(value: float, low: float, high: float, *, least: float, most: float, slack: float) -> Estimate:
    """Build an estimate whose ends are moved outwards by the rounding error, within the possible range.

    Args:
        value: The estimate, which is moved to the nearest end if it is outside the interval.
        low: Lower end of the interval before rounding.
        high: Upper end. If the lower end is above it, the result is the whole range.
        least: Smallest possible value of the parameter.
        most: Largest possible value of the parameter.
        slack: Upper bound of the rounding error of the ends.
    """
    if not low - slack <= high + slack:  # also for nan: the parts cannot all hold, so nothing is known
        low, high = least, most
    low, high = max(low - slack, least), min(high + slack, most)
    if low > high:
        low, high = least, most
    return Estimate(min(max(value, low), high), low, high)


def widest(estimates: Sequence[Estimate]) -> Estimate:
    """Return the estimate with the widest interval."""
    return max(estimates, key=lambda each: each.high - each.low)


def share_of(part: Estimate, whole: Estimate) -> Estimate:
    """Return the estimate of the ratio of two means, of which the first is a part of the second.

    Examples:
        >>> share_of(Estimate(0.2, 0.1, 0.3), Estimate(0.5, 0.4, 0.6)).value
        0.4
    """
    value = min(part.value / whole.value, 1.0) if whole.value > 0.0 else 0.0
    low = max(part.low, 0.0) / whole.high if whole.high > 0.0 else 0.0
    high = part.high / whole.low if whole.low > 0.0 else 1.0
    return estimate_between(value, math.nextafter(min(low, 1.0), 0.0), math.nextafter(min(high, 1.0), 2.0),
                            least=0.0, most=1.0, slack=0.0)  # fmt: skip
