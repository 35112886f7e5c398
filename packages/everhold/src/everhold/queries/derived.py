"""Parameters computed from a few plain queries, whose intervals follow from the intervals of the parts.

A derived query costs what its parts cost and reveals what they reveal. All intervals of a holdout hold together, so
whatever follows from the intervals of the parts by arithmetic holds with them and needs no further probability.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.answers import Answer, QuotedPrice
from everhold.errors import QueryRejected
from everhold.estimand import about_of
from everhold.ledger.acts import DECLARED
from everhold.queries.means.batch import Means
from everhold.queries.query import IN_ONE_TRANSACTION, Query, RowwiseQuery, digest, rows_of
from everhold.values.base import clips_in_words

if TYPE_CHECKING:
    from everhold.ledger import Entry
    from everhold.mechanisms import State
    from everhold.queries.query import CompileContext, ExecutionResult, QueryPlan
    from everhold.values.base import Schema

Result = TypeVar("Result", covariant=True)

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
        high: Upper end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BoundDerived:
    """A derived query bound to a schema: its parts, and how their means give the parameter.

    Attributes:
        name: What kind of parameter it is, with its article.
        description: Public and canonical, together with those of the parts.
        parts: The queries that it is made of, in the order in which they are asked.
        combine: From the means of the parts' row values, each in [0, 1], to the parameter; pure.
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
        """Check that no tolerance and no guess is given, and that the mechanism can answer the parts."""
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
            QueryRejected: If it cannot be asked of such rows. Nothing is charged.
        """

    def parts(self, schema: Schema) -> tuple[RowwiseQuery, ...]:
        """Return the plain queries. If all were asked before, with own guesses, the derived query is free.

        Raises:
            QueryRejected: If it cannot be asked of such rows. Nothing is charged.
        """
        return self.bind(schema).parts

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile all parts into one plan."""
        bound = self.bind(compiler.schema)
        bound.check(compiler, guess=guess, tolerance=tolerance)
        parts = compiler.prepare(bound.parts, None, together=True)
        return Derived(parts, compiler.schema, compiler.mechanism, bound)


@dataclass(frozen=True)
class JointMeans(Means[Result]):
    """A plan for means that are asked together as the parts of one query.

    Attributes:
        bound: The query that they are parts of.
    """

    bound: BoundDerived

    @property
    def query(self) -> str:
        """SHA-256 of the whole query, in hex."""
        return self.bound.query([line.fingerprint for line in self.asked])

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the price of all new parts, and how far the value can be from the value that the guesses give."""
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
        """Return the largest distance from the value to an end of its interval, or None if a guess is missing."""
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
    """A plan for one derived number: all of its parts are answered or none.

    To wait and see whether the budget ends between them, and to take everything back if it does, would tell for nothing
    that a guess was wrong. So all parts have to be sure of an answer before the first one is looked at.
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
        """Return the value and both ends that follow from the parts, or three None if they are unknown."""
        if not parts:
            return None, None, None
        whole = self.bound.combine(parts)
        return whole.value, whole.low, whole.high


def _stored(answer: Mapping[str, Any]) -> Estimate:
    """Return a stored answer as an estimate of a mean in [0, 1]."""
    return Estimate(answer["value"], answer["low"], answer["high"])


def estimate_between(value: float, low: float, high: float, *, least: float, most: float, slack: float) -> Estimate:
    """Build an estimate whose ends are moved outwards by a rounding error but stay in the possible range.

    Args:
        value: The estimate; moved into the interval where it is outside.
        low: Lower end.
        high: Upper end; ends that contradict each other give the whole range.
        least: Smallest possible value of the parameter.
        most: Largest possible value of the parameter.
        slack: At least what rounding may have done to the ends.
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
    """Return the estimate of the ratio of a part to the whole that contains it, from all quotients up to 1.

    Examples:
        >>> share_of(Estimate(0.2, 0.1, 0.3), Estimate(0.5, 0.4, 0.6)).value
        0.4
    """
    value = min(part.value / whole.value, 1.0) if whole.value > 0.0 else 0.0
    low = max(part.low, 0.0) / whole.high if whole.high > 0.0 else 0.0
    high = part.high / whole.low if whole.low > 0.0 else 1.0
    return estimate_between(value, math.nextafter(min(low, 1.0), 0.0), math.nextafter(min(high, 1.0), 2.0),
                            least=0.0, most=1.0, slack=0.0)  # fmt: skip
