"""Queries that are means of row values, and how a batch of them is answered.

Most queries are of this kind: an average over the rows of something that is computed from each row alone. What is
made of several of them (`everhold.queries.derived`, `everhold.queries.means.distribution`) is answered as such a batch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from everhold.answers import FAILING, Answer, FailingRows, QuotedPrice
from everhold.estimand import about_of, marked
from everhold.guarantees.intervals.means import OfMeans
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.acts import DECLARED
from everhold.mechanisms import Source, has_public_levels
from everhold.mechanisms.base import Quote
from everhold.mechanisms.records import Evaluations
from everhold.queries.procedures import how_made, paying, rows_worth, what_narrows
from everhold.queries.query import MOST_SHOWN, ExecutionResult, Pricing, QueryPlan, RowwiseQuery, rows_of
from everhold.values.base import Joined, Kept, clips_in_words, noted_clips
from everhold.values.evaluation import failing_in_words
from everhold.values.units import UNITS, MeanUnits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Self

    from numpy.typing import NDArray

    from everhold.ledger import Committed, Entry
    from everhold.mechanisms import Mechanism, State
    from everhold.mechanisms.base import Replies
    from everhold.queries.interval_planner import Prepared
    from everhold.queries.query import CompileContext
    from everhold.randomness import Noise
    from everhold.sealing.rows.evaluated_rows import NotedRows
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

Result = TypeVar("Result", covariant=True)

_AT_ONCE = {"total": 10_000, "cells": 2_000, "apart": 2_000}  # means for which the sealed rows are looked at in one go
_NUMBERS = 2**23  # of groups or pairs, of all means that are looked at in one go; no more of one mean than rows
_MOST_SHORT = 1_000  # means of a short query; fewer than are evaluated in one go, so that a whole stays one
_SHORT = 2**22  # row values that are computed while the ledger is locked: some 30 ms


def _is_plain(bound: BoundQuery) -> bool:
    """Return whether evaluating the query runs no code and reads no file: an expression or predictions in memory."""
    if bound.pair is not None:
        return _is_plain(bound.pair.first) and _is_plain(bound.pair.second)
    return bound.row_value is not None or (bound.by_position and not isinstance(bound.sealed, (Joined, Kept)))


@dataclass(frozen=True)
class Means(QueryPlan[Result]):
    """A plan for means that are asked together, each with one ledger entry.

    Attributes:
        prepared: The means, in order.
        schema: What is known of the rows.
        mechanism: The mechanism that answers.
        silent: Whether nothing is told before the study is unsealed.
        keeping: For so many silent queries there has to be room afterwards.
        full_release: Whether everything is told, by labels for which later queries pay.
    """

    prepared: Sequence[Prepared]
    schema: Schema
    mechanism: Mechanism
    silent: bool = field(default=False, kw_only=True)
    keeping: int = field(default=0, kw_only=True)
    full_release: bool = field(default=False, kw_only=True)

    def silently(self) -> Self:
        """See `QueryPlan.silently`."""
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
            lines.append(EntryDraft(mean.bound.query, marked(described, by_position=mean.bound.by_position)))
        return lines

    @property
    def is_free(self) -> bool:
        """Whether all means are members of declared families and are told at once."""
        return not self.silent and all(mean.declared == mean.declared for mean in self.prepared)  # no nan

    @property
    def members(self) -> Sequence[BoundQuery]:  # type: ignore[override]
        """See `QueryPlan.members`."""
        return [mean.bound for mean in self.prepared] if self.is_free else []

    @cached_property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """The pricing of the entries, each at the price of the dearest one."""
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
        """See `QueryPlan.is_short`: a few expressions or arrays, each summed in one pass over not too many rows."""
        count = len(self.prepared)
        if rows * count > _SHORT or count > _MOST_SHORT or not self._needs <= _AT_ONCE.keys():
            return False
        return all(_is_plain(mean.bound) for mean in self.prepared)

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> tuple[Evaluations, list[Prepared]]:
        """Evaluate the means at these places on the sealed rows. Return the secret sums and the means evaluated.

        Both are secret, with whatever else the procedures need.
        """
        means, unit = [self.prepared[place] for place in places], self.mechanism.unit
        tolerances, described = np.array([mean.tolerance for mean in means]), [*map(attrgetter("described"), means)]
        procedures = [mean.procedure for mean in means if mean.procedure is not None]
        has_models = any(mean.failing is not None for mean in self.prepared)
        with self._noting() if has_models else nullcontext() as noted:
            totals, seen = self._sums(means, sealed)
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
            failing=None if noted is None else self._failing(means, noted, sealed),
        )
        return evaluations, means

    def _sums(self, means: Sequence[Prepared], sealed: StoredRows) -> tuple[NDArray[np.int64], list[Any]]:
        """Return the sum of each mean over the sealed rows, and what its procedure needs besides. Secret.

        A number of all rows has no row values: its sum is the number on the scale of a sum. All are such, or none is.
        """
        numbers = [mean.number for mean in means if mean.number is not None]
        if not numbers:
            return sealed.evaluate(
                [mean.bound for mean in means],
                ["total" if mean.procedure is None else mean.procedure.needs for mean in means],
                parts=self.mechanism.parts,
                group_by=self.mechanism.dependence.unit_column,
                unit=self.mechanism.unit,
            )
        found = [number(sealed) for number in numbers]
        totals = [[math.floor(share * self.mechanism.steps)] for share, _ in found]
        return np.array(totals, dtype=np.int64), [seen for _, seen in found]

    def _noting(self) -> AbstractContextManager[NotedRows | None]:
        """Return a context that notes on which rows models fail, or an empty one without models."""
        if all(mean.failing is None for mean in self.prepared):
            return nullcontext()
        from everhold.sealing.rows.evaluated_rows import noting_failing_rows

        return noting_failing_rows()

    def _failing(
        self, means: Sequence[Prepared], noted: NotedRows | None, sealed: StoredRows
    ) -> list[Evaluations | None] | None:
        """Return the shares of failing rows, one for each mean, or None without models."""
        if noted is None:
            return None
        return [
            None if mean.failing is None
            else mean.failing.evaluated(sealed, noted.of(mean.bound, self.schema.rows), self.mechanism)
            for mean in means
        ]  # fmt: skip

    def answer(
        self, state: State, seen: tuple[Evaluations, list[Prepared]], rows: list[int], noise: Noise
    ) -> tuple[State, list[Outcome]]:
        """Return the new state and the outcomes for the means at these positions of `seen`."""
        every, means = seen
        some = every if rows == [*range(len(means))] else every.some(rows)
        if self.is_free:
            nats = np.array([means[row].declared for row in rows])
            from everhold.mechanisms.declared import answer_declared

            state, replies = answer_declared(self.mechanism, state, some, nats)
        elif self.full_release and has_public_levels(self.mechanism):
            from everhold.mechanisms.full_release import release_all

            state, replies = release_all(self.mechanism, state, some)
        else:
            state, replies = self.mechanism.answer_many(state, some, noise)
        return state, [self._outcome(means[row], replies, place) for place, row in enumerate(rows)]

    def _outcome(self, mean: Prepared, replies: Replies, place: int) -> Outcome:
        """Build one ledger entry from an answer, with the level and stakes that make its interval."""
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
            from everhold.mechanisms.declared import widest_declared

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
        bound = mean.bound
        about = about_of(self.schema, by_position=bound.by_position)
        if entry is None:
            return self.refusal(bound.query, result, about=about, shown=bound.shown)
        kept = entry.answer
        step = self.mechanism.row_step
        reading = MeanUnits.of(bound)
        value, low, high = reading.in_units(kept["value"], kept["low"], kept["high"], row_step=step)
        sealed, sealed_low, sealed_high = reading.in_units(*entry.sealed or (None, None, None), row_step=step)
        made, narrower = rows_worth(self.mechanism), ""
        by_description = mean.described is not None and kept.get("node", {}).get("nats") == mean.described.nats
        statement = "S10" if kept["source"] == DECLARED or by_description else result.statement
        by, procedure = kept.get("node", {}).get("by"), None
        if mean.procedure is not None:  # the one that made the stored interval, if it is still known
            candidates = [mean.procedure, self.mechanism.in_force(mean.procedure), self.mechanism.procedure]
            procedure = next((each for each in candidates if by in (None, each.name)), None)
        if procedure is not None:
            needed = f" {made}" if self.mechanism.traits.one_law else ""
            made = how_made(procedure, bound, mean.guess / self.mechanism.steps, self.schema.rows) + needed
            narrower = what_narrows(procedure, self.mechanism, kept["source"])
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
        """Return what answers tell about failing rows, by the largest share, or None without models."""
        tried = failing_in_words(
            description, training_rows=self.schema.training_rows, classes=bool(self.schema.label_classes)
        )
        found = [FailingRows.kept(answer, tried) for answer in answers]
        return max(found, key=lambda each: each.high or 0.0) if tried and found else None

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
        """Whether the plan is for a number of all rows together, which is no mean of row values."""
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
        """Split the batch into members of declared families and others, each with their places.

        Empty parts are left out.
        """
        apart = [
            [place for place, mean in enumerate(self.prepared) if mean.is_member is free] for free in (True, False)
        ]
        return [(replace(self, prepared=[self.prepared[place] for place in some]), some) for some in apart if some]

    def present(self, result: ExecutionResult) -> list[Answer]:
        """Return the answers in the order of the queries."""
        return self.answers(result)

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Raise NotImplementedError, because the queries of a batch are quoted one by one."""
        raise NotImplementedError


# Queries that are made of two others row by row, such as a difference.


class CombinedQuery(RowwiseQuery):
    """A mean of values computed row by row from two other queries."""

    __slots__ = ()

    @property
    @abstractmethod
    def operands(self) -> tuple[RowwiseQuery, RowwiseQuery]:
        """The two queries that are combined."""

    @abstractmethod
    def combined(self, first: BoundQuery, second: BoundQuery) -> BoundQuery:
        """Combine two queries, bound to the same rows, into one bound query.

        Raises:
            QueryRejected: If they do not fit together. Nothing is charged.
        """

    def needed(self, schema: Schema) -> frozenset[str]:
        """See `RowwiseQuery.needed`."""
        return frozenset[str]().union(*(each.needed(schema) for each in self.operands))

    def tested(self, schema: Schema) -> frozenset[str]:
        """See `RowwiseQuery.tested`."""
        return frozenset[str]().union(*(each.tested(schema) for each in self.operands))

    def bind(self, schema: Schema) -> BoundQuery:
        """Return the bound query about rows of this schema."""
        first, second = self.operands
        return self.combined(first.bind(schema), second.bind(schema))

    def bound_to(self, compiler: CompileContext, *, part: bool = False) -> BoundQuery:
        """Return the bound query about the holdout's rows.

        Two arrays of predictions are set apart where they differ, to bet on each.
        """
        first, second = self.operands
        bound = self.combined(first.bound_to(compiler, part=True), second.bound_to(compiler, part=True))
        if not part:
            from everhold.queries.predictions.public import set_apart

            bound = set_apart(bound, compiler.schema, compiler.mechanism)
        return compiler.checked(bound, part=part)
