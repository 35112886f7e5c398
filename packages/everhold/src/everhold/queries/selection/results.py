"""Results with more than one number, plans with one ledger entry, and the candidates of choices and scans."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

import numpy as np

from everhold.answers import QuotedPrice, estimand_in_words, order_of_rows, which_rows
from everhold.arguments import brief
from everhold.display import Display, left_in_words, plain, wider_in_words
from everhold.errors import QueryRejected
from everhold.estimand import about_of, marked
from everhold.guarantees.intervals.means import OfMeans
from everhold.ledger import Entry, EntryDraft, Outcome
from everhold.ledger.acts import DECLARED
from everhold.mechanisms import PublicLevels, State, has_public_levels, those_with
from everhold.mechanisms.base import alike
from everhold.mechanisms.labels import DEAREST, in_millionths
from everhold.queries.interval_planner import MemberLevels, Prepared
from everhold.queries.makers import as_rowwise
from everhold.queries.means.plans import Batch, OneMean
from everhold.queries.metrics.query import MetricQuery
from everhold.queries.query import MOST_SHOWN, ExecutionResult, Pricing, Query, QueryPlan, RowwiseQuery, rows_of
from everhold.strict_json import digest
from everhold.values.base import BoundQuery, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.queries.query import CompileContext
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows

Result = TypeVar("Result", covariant=True)

Released: TypeAlias = tuple[dict[str, Any], float, tuple[float, float, float] | None]
"""The ledger's answer without its source, ln(1 / prior) of the label that it tells, and what may be unsealed."""

CHOSEN = "chosen"
"""Source of an answer that is a label of the sealed rows, always told and never a surprise (S9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult(Display):
    """The fields that every result of a query has, such as its charge and the remaining budget.

    Attributes:
        charged: Charge of the query; 0 for a refusal and a repeated query.
        remaining: The budget that is left, by name.
        query: SHA-256 of the query.
        repeated: True if the query had been answered before; False if this is its first answer.
        confidence: Probability with which all statements of the holdout hold together.
        about: Words for what the answer is about, if not the population: labels drawn anew on these rows.
    """

    charged: int
    remaining: Mapping[str, int]
    query: str
    repeated: bool
    confidence: float
    about: str | None = None
    shown: str = ""

    def _headline(self) -> str:
        return f"{self.shown}: {self}" if self.shown else str(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid(QueryResult):
    """Base of results that explain their finding in words and state by how much later intervals widen.

    Attributes:
        widens: Factor by which the intervals of later queries are wider because of this answer, about; 1 if it costs
            them nothing, or if the query was answered before.
        rows: Numbers of the first and last sealed row that the answer is about, in the order of arrival; None if no
            rows were appended.
    """

    widens: float = 1.0
    rows: tuple[int, int] | None = None

    @property
    def refused(self) -> bool:
        """Whether the query was refused, because the remaining budget may not pay for the answer."""
        return self._found() is None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data: the fields of its own by name, then the payment. An infinite end is None."""
        own = [each.name for each in fields(self) if each.name not in Paid.__dataclass_fields__]
        return {**{name: plain(getattr(self, name)) for name in own}, **self.payment()}

    def payment(self) -> dict[str, Any]:
        """Return the fields that end each `to_dict`: charged, remaining and query, if needed widens, about and rows."""
        about = {} if self.about is None else {"about": self.about}
        widens = {} if self.widens == 1.0 else {"widens": self.widens}
        rows = {} if self.rows is None else {"rows": list(self.rows)}
        paid = {"charged": self.charged, "remaining": dict(self.remaining), "query": self.query}
        return {**paid, **widens, **about, **rows}

    @abstractmethod
    def _found(self) -> str | None:
        """Return the finding in a few words, or None if the query was refused."""

    @abstractmethod
    def _meaning(self) -> str:
        """Return sentences about what the answer says about the population, and what would narrow the interval."""

    def __str__(self) -> str:
        left, found = left_in_words(self.remaining), self._found()
        if found is None:
            return f"refused: what is left does not pay for it ({left} left)"
        which = which_rows(self.rows, "; ")
        return f"{found}, charged {self.charged:,}{wider_in_words(self.widens)}, {left} left{which}"

    def explain(self) -> str:
        """Explain in words what the answer says about the population, and what would make its interval narrower."""
        if self._found() is None:
            return (
                "The query was refused because what is left of the budget, or of the analyst's allotment, does not "
                "pay for it. Nothing was charged. Ask something cheaper. quote(...) says what a query costs."
            )
        return (
            f"With probability {100.0 * self.confidence:.8g} %, and together with all other answers of this holdout, "
            f"this holds for {self.about or 'the population'}: {self._meaning()} {estimand_in_words(self.about)}"
            f"{order_of_rows(self.rows, ' ')}"
        )


def checks_guesses(
    compiler: CompileContext, what: str, *, guess: float | None, tolerance: float | None
) -> PublicLevels:
    """Return the mechanism, after checking that it can answer such a query from sealed rows without noise.

    Args:
        compiler: The compiler of the holdout.
        what: Name of the query in messages, such as "a choice".
        guess: The analyst's own guess; it must be None.
        tolerance: A requested half-width; it must be None.

    Raises:
        QueryRejected: If the mechanism is another one, or a guess or a tolerance was given. Nothing is charged.
    """
    mechanism = compiler.mechanism
    if not has_public_levels(mechanism):
        private = ", or ask the query whose name begins with private_" if mechanism.traits.sells_tolerances else ""
        raise QueryRejected(
            f"The mechanism {mechanism.name} cannot answer {what} without noise. Use a holdout with the mechanism "
            f"{those_with('public_levels')}{private}."
        )
    if guess is not None or tolerance is not None:
        raise QueryRejected(f"{what.capitalize()} takes no guess and no tolerance. Leave both out.")
    if compiler.silent:
        raise QueryRejected(
            f"{what.capitalize()} cannot be asked silently, because its answer is always told. Leave silent=True out, "
            "or ask about means."
        )
    return mechanism


def released_once(mechanism: PublicLevels) -> Pricing:
    """Return the pricing of entries that cost no surprise, but have labels that widen later intervals."""
    return Pricing(0, partial(mechanism.surely_answers, procedures=()))


@dataclass(frozen=True)
class OneEntry(QueryPlan[Result]):
    """A plan for a query with one ledger entry, whose answer is always told and never checks a guess (S9).

    Attributes:
        declared: ln(1 / level) if a declared family has the query, which then uses no planned query (S10). nan for
            other queries.
        anew: True if the query was answered before a family declared it. As a query of the family it then has another
            identity.
    """

    schema: Schema
    mechanism: PublicLevels
    declared: float = field(default=math.nan, kw_only=True)
    anew: bool = field(default=False, kw_only=True)

    @property
    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Public and canonical description. Its SHA-256, with the rows it is about, identifies the query."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The query as text for people."""

    @property
    def by_position(self) -> bool:
        """Whether the query reads predictions by the position of rows."""
        return False

    @property
    def beside(self) -> dict[str, Any]:
        """Fields of the ledger entry that are no part of the query's identity."""
        return {}

    @abstractmethod
    def release(self, nats: float, seen: Any) -> Released:
        """Compute the answer and its label at the level of the entry.

        Args:
            nats: ln(1 / level) of the entry.
            seen: The secret result of `evaluate`.

        Returns:
            The ledger's answer without its source, ln(1 / prior) of its label, and what may be unsealed.
        """

    @abstractmethod
    def bound(self, nats: float) -> float:
        """Return the largest width at a level in the query's units, from public facts alone."""

    @abstractmethod
    def result(self, answer: Mapping[str, Any] | None, **paid: Any) -> Result:
        """Return the result, with the fields of `Paid`, for the ledger's answer; None stands for a refused query."""

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """A list with the draft of the query's ledger entry, whose identity includes the rows that it is about."""
        identity = self._bound.description
        described = {**identity, "shown": self.shown[:MOST_SHOWN], **self.beside}
        return [EntryDraft(digest(identity), marked(described, by_position=self.by_position))]

    @property
    def _bound(self) -> BoundQuery:
        """The query as a `BoundQuery`: its identity is the description and the rows that it is about."""
        anew = {"declared": True} if self.anew else {}
        identity = {**self.description, **dict(self.schema.about), **anew}
        return BoundQuery(identity, self.shown, by_position=self.by_position)

    @property
    def _is_member(self) -> bool:
        return not math.isnan(self.declared)

    @property
    def members(self) -> Sequence[BoundQuery]:  # type: ignore[override]
        """The query, in a list, if it is a member of a declared family; else an empty list."""
        return [self._bound] if self._is_member else []

    def declared_by(self, families: MemberLevels) -> Self:
        """Return the plan at the level of the declared families that have it as a member, or unchanged if none has."""
        if (nats := families.level_of(self._bound)) is None:
            return self
        member = replace(self, declared=nats, anew=True)
        anew = families.asked_of_tree(self.query, member.query)
        return member if anew else replace(self, declared=nats)

    @cached_property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """The pricing of the entry: one query without a surprise, or free for a member of a family."""
        return Pricing.free() if self._is_member else released_once(self.mechanism)

    def silently(self) -> Self:
        """Raise an error, because this query cannot be silent."""
        raise QueryRejected(
            "The query cannot be asked silently, because its answer is always told. Ask about means, or about ratios "
            "and differences of means."
        )

    def nats(self, state: State) -> float:
        """Return ln(1 / level) of the entry: that of the next query, or of the member of a declared family."""
        return (
            self.declared
            if self._is_member
            else float(self.mechanism.nats(state.asked + 1, state.charged, state.labels / 1e6))
        )

    def answer(self, state: State, seen: Any, rows: list[int], noise: Noise) -> tuple[State, list[Outcome]]:
        """Return the new state and the outcome. The label of the answer widens later intervals."""
        nats = self.nats(state)
        told, label, sealed = self.release(nats, seen)
        source, cost = DECLARED if self._is_member else CHOSEN, in_millionths(label)
        answer = {"value": None, "low": None, "high": None, **told, "source": source}
        answer["node"] = {"by": self.description["kind"], "nats": nats, "widens": self._widening(state, cost)}
        return self._after(state, cost), [Outcome(answer, 0, sealed)]

    def _after(self, state: State, label: int) -> State:
        """Return the state after the entry, with one more query and the cost of its label."""
        return state.after(asked=0 if self._is_member else 1, charged=0, labels=label)

    def present(self, result: ExecutionResult) -> Result:
        """Return the result in the analyst's units."""
        (entry,) = result.entries
        return self.result(
            None if entry is None else entry.answer,
            charged=0 if entry is None else entry.charged,
            remaining=result.remaining,
            query=self.asked[0].fingerprint,
            repeated=entry is not None and entry.repeated,
            confidence=self.mechanism.confidence,
            about=about_of(self.schema, by_position=self.by_position),
            shown=self.shown,
            rows=None if entry is None else rows_of(entry.answer),
            widens=1.0 if entry is None or entry.repeated else entry.answer["node"]["widens"],
        )

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the expected and the largest width of a new answer, or the width of the stored answer for a repeat."""
        if (entry := stored[0]) is not None:
            within = most = self.released_width(entry.answer)
        else:
            within, most = self.usual(self.nats(state)), self.bound(self.nats(state))
        widens = 1.0 if entry is not None else self._widening(state, in_millionths(DEAREST))
        return QuotedPrice(
            self.asked[0].fingerprint, within, most, 0, 0, False, entry is not None, {}, widens=widens
        )  # fmt: skip

    def _widening(self, state: State, label: int) -> float:
        """Return the factor by which a label of this cost widens the next yes-or-no answer."""
        now, then = (self.mechanism.outlook(each).get("now") for each in (state, self._after(state, label)))
        return 1.0 if not now or not then else round(then / now, 2)

    def usual(self, nats: float) -> float:
        """Return the expected width if sealed rows are like training rows. By default it is the width `bound`."""
        return self.bound(nats)

    @abstractmethod
    def released_width(self, answer: Mapping[str, Any]) -> float:
        """Return the width of a stored answer, measured as `bound` does."""


# Candidates to compare with each other: read, bound to the rows, and evaluated together.

MOST_SHOWN_NAMES = 3


def listed(candidates: Any, *, what: str, most: int) -> list[Any]:
    """Return the candidates as a list, after checking how many there are.

    Args:
        candidates: Any iterable but a text.
        what: Name of the candidates in messages.
        most: Largest number of candidates.

    Raises:
        QueryRejected: If ``candidates`` is not a list of candidates, or holds none or too many. Nothing is charged.
    """
    try:
        found = None if isinstance(candidates, (str, bytes)) else list(candidates)
    except TypeError:
        found = None
    if found is None:
        raise QueryRejected(f"The {what} are {brief(candidates)}. Pass a list of 1 to {most:,}.")
    if not 1 <= len(found) <= most:
        raise QueryRejected(f"There are {len(found):,} {what}. Pass 1 to {most:,}.")
    return found


def query_of(candidate: Any, loss: Callable[[Any], Query[Any] | str] | None) -> RowwiseQuery:
    """Return the query of one candidate, after checking that it is a mean of row values.

    Raises:
        QueryRejected: If the candidate is not a mean of row values. Nothing is charged.
    """
    return as_rowwise(query_or_metric(candidate, loss))


def query_or_metric(candidate: Any, loss: Callable[[Any], Query[Any] | str] | None) -> RowwiseQuery | MetricQuery:
    """Return the query of one candidate, after checking that it is a mean of row values or a metric.

    Raises:
        QueryRejected: If the candidate is neither a mean of row values nor a metric. Nothing is charged.
    """
    if loss is not None and not callable(loss):
        raise QueryRejected(
            f"The loss is a {type(loss).__name__}. Pass a function from a candidate to its query, such as error."
        )
    asked = candidate if loss is None else loss(candidate)
    return asked if isinstance(asked, MetricQuery) else as_rowwise(asked)


def check_same_units(bound: Sequence[BoundQuery], what: str) -> None:
    """Raise QueryRejected unless all means have the same range.

    Raises:
        QueryRejected: If the means have different ranges. Nothing is charged.
    """
    if len({(query.at_zero, query.at_one) for query in bound}) > 1:
        raise QueryRejected(f"The {what} are means with different ranges. Pass the same low and high for all of them.")


@dataclass(frozen=True, slots=True)
class Compared:
    """Candidates of a choice or scan, bound to the rows, with all public facts about each.

    Attributes:
        prepared: The candidates, in order.
    """

    prepared: tuple[Prepared, ...]
    schema: Schema
    mechanism: PublicLevels

    @classmethod
    def of(cls, compiler: CompileContext, queries: Iterable[Query[Any]], what: str) -> Compared:
        """Bind candidates to the rows, and check that they are in the same units.

        Raises:
            QueryRejected: If a candidate cannot be asked, or candidates have different units. Nothing is charged.

        Warns:
            DependenceWarning: If the values of one on the training rows are worth fewer rows than is promised.
        """
        asked = list(queries)
        if len(names := {query.metric.name for query in asked if isinstance(query, MetricQuery)}) > 1:
            raise QueryRejected(
                f"The {what} are of different metrics, {', '.join(sorted(names))}. Pass one metric for all of them."
            )
        means = [query for query in asked if isinstance(query, RowwiseQuery)]
        if len(means) == len(asked):
            prepared = tuple(compiler.silently().prepare(means, None))
        else:
            plans = [compiler.silently().compile(query, None, None) for query in asked]
            found = [plan for plan in plans if isinstance(plan, OneMean)]
            if len(found) < len(plans) or len({plan.is_number for plan in found}) > 1:
                raise QueryRejected(
                    f"The {what} are queries of different kinds, or one of them takes several queries. Pass models, "
                    "or predictions with training=, and one metric for all."
                )
            prepared = tuple(plan.prepared[0] for plan in found)
        check_same_units([each.bound for each in prepared], what)
        return cls(prepared, compiler.schema, compiler.mechanism)  # type: ignore[arg-type]  # checked by `checks_guesses`

    def __len__(self) -> int:
        return len(self.prepared)

    @property
    def bound(self) -> list[BoundQuery]:
        """The candidates as queries bound to the holdout's rows."""
        return [each.bound for each in self.prepared]

    @property
    def by_position(self) -> bool:
        """Whether a candidate is about predictions handed in as arrays."""
        return any(each.bound.by_position for each in self.prepared)

    @property
    def rises(self) -> bool:
        """Whether higher row values mean higher answers."""
        return self.prepared[0].bound.at_one > self.prepared[0].bound.at_zero

    @property
    def width(self) -> float:
        """The width of the candidates' range in the analyst's units."""
        return abs(self.prepared[0].bound.at_one - self.prepared[0].bound.at_zero)

    @property
    def estimates(self) -> NDArray[np.float64]:
        """Estimates from training rows in units of a mean, shape (candidates,), nan where unknown."""
        totals = np.array([each.estimate for each in self.prepared], dtype=np.float64)
        return np.where(totals >= 0.0, totals / self.mechanism.steps, math.nan)

    def turned(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Return two ends mirrored and exchanged if higher row values mean lower answers, else unchanged."""
        return (low, high) if self.rises else (1.0 - high, 1.0 - low)

    def named(self) -> str:
        """Return the number of candidates and the names of the first few."""
        names = ", ".join(each.bound.shown for each in self.prepared[:MOST_SHOWN_NAMES])
        return f"{len(self):,}: {names}{', ...' if len(self) > MOST_SHOWN_NAMES else ''}"

    def evaluate(self, sealed: StoredRows) -> SealedValues:
        """Evaluate all candidates on the sealed rows. The result is secret."""
        return evaluate_sealed(self.prepared, sealed, self.schema, self.mechanism)

    def procedures(self, nats: float) -> list[Procedure]:
        """Return the interval procedure of each candidate at the level ``exp(-nats)``, from public facts."""
        found = []
        for each in self.prepared:
            guess = each.guess / self.mechanism.steps if each.guess >= 0 else -1.0
            assert each.procedure is not None  # the mechanism adds no noise
            found.append(self.mechanism.procedure_at(each.procedure, guess, nats))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class SealedValues:
    """Values of several queries on the sealed rows. Secret.

    Attributes:
        totals: Exact sums in grid units, shape (queries,).
        means: Mean of each query in [0, 1], shape (queries,).
        seen: Summary that each procedure needs besides the mean; None if the mean is enough.
    """

    totals: NDArray[np.int64]
    means: NDArray[np.float64]
    seen: Sequence[Any]

    def __repr__(self) -> str:
        return f"SealedValues({len(self.means)} queries)"

    def some(self, places: Sequence[int]) -> SealedValues:
        """Return the values of the queries at these positions."""
        return SealedValues(self.totals[places], self.means[places], [self.seen[place] for place in places])


def evaluate_sealed(
    prepared: Sequence[Prepared], sealed: StoredRows, schema: Schema, mechanism: PublicLevels
) -> SealedValues:
    """Evaluate queries on the sealed rows, as many at once as memory allows. The result is secret."""
    batch = Batch(prepared, schema, mechanism, silent=True)
    totals, seen = [], list[Any]()
    for start in range(0, len(prepared), batch.at_once):
        places = range(start, min(start + batch.at_once, len(prepared)))
        evaluations, _ = batch.evaluate(sealed, places)
        totals.append(evaluations.totals.sum(axis=1))
        seen += evaluations.seen if evaluations.seen is not None else [None] * len(places)
    every = np.concatenate(totals)
    return SealedValues(every, every / mechanism.steps, seen)


def ends_of(
    procedures: Sequence[Procedure], bound: SealedValues, nats: float, *, rounding: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute both ends of every interval at a level, shape (queries,) each.

    Args:
        procedures: Interval procedure of each query.
        bound: Values of the queries on the sealed rows.
        nats: ln(1 / level) of both sides together.
        rounding: Largest error by the grid of row values.
    """
    low, high = np.empty(len(procedures)), np.empty(len(procedures))
    for procedure, places in alike(procedures):
        if isinstance(procedure, OfMeans):
            means = bound.means[places]
            low[places], high[places] = procedure.span(means, means, np.full(len(places), nats))
            continue
        for place in places.tolist():
            seen = bound.seen[place]
            low[place], high[place] = procedure.interval(bound.means[place] if seen is None else seen, nats)
    return np.clip(low - rounding, 0.0, 1.0), np.clip(high + rounding, 0.0, 1.0)


def widest(procedures: Sequence[Procedure], nats: float, mechanism: PublicLevels) -> float:
    """Return a public bound of the distance between an interval's end and the sealed mean."""
    reach = [
        float(mechanism.margin.concentration(nats))
        if isinstance(procedure, OfMeans)
        else 2.0 * procedure.widest_if_honest(nats)
        for procedure, _ in alike(procedures)
    ]
    return min(max(reach) + mechanism.rounding, 1.0)
