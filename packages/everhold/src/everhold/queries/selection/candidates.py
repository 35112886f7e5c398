"""Candidates to compare with each other: read, bound to the rows, and evaluated together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.means import OfMeans
from everhold.mechanisms.base import alike
from everhold.queries.interval_planner import Prepared
from everhold.queries.makers import as_rowwise
from everhold.queries.means.batch import Batch, OneMean
from everhold.queries.metrics.query import MetricQuery
from everhold.queries.query import Query, RowwiseQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms import PublicLevels
    from everhold.queries.query import CompileContext
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

MOST_SHOWN_NAMES = 3


def listed(candidates: Any, *, what: str, most: int) -> list[Any]:
    """Return the candidates as a list, after checking their number.

    Args:
        candidates: Any iterable but a text.
        what: What messages call them.
        most: The largest number.

    Raises:
        QueryRejected: If it is no list of them, or holds none or too many. Nothing is charged.
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
    """Return the query of one candidate, which has to be a mean of row values.

    Raises:
        QueryRejected: If it is no mean of row values. Nothing is charged.
    """
    return as_rowwise(query_or_metric(candidate, loss))


def query_or_metric(candidate: Any, loss: Callable[[Any], Query[Any] | str] | None) -> RowwiseQuery | MetricQuery:
    """Return the query of one candidate: a mean of row values, or a metric of a model.

    Raises:
        QueryRejected: If it is neither. Nothing is charged.
    """
    if loss is not None and not callable(loss):
        raise QueryRejected(
            f"The loss is a {type(loss).__name__}. Pass a function from a candidate to its query, such as error."
        )
    asked = candidate if loss is None else loss(candidate)
    return asked if isinstance(asked, MetricQuery) else as_rowwise(asked)


def check_same_units(bound: Sequence[BoundQuery], what: str) -> None:
    """Check that all means have the same range, so that they can be compared.

    Raises:
        QueryRejected: If they are in different units. Nothing is charged.
    """
    if len({(query.at_zero, query.at_one) for query in bound}) > 1:
        raise QueryRejected(f"The {what} are means with different ranges. Pass the same low and high for all of them.")


@dataclass(frozen=True, slots=True)
class Compared:
    """Candidates bound to the rows and comparable with each other, with what is public about each.

    Attributes:
        prepared: The candidates, in order.
    """

    prepared: tuple[Prepared, ...]
    schema: Schema
    mechanism: PublicLevels

    @classmethod
    def of(cls, compiler: CompileContext, queries: Iterable[Query[Any]], what: str) -> Compared:
        """Bind candidates to the rows, without guesses, and check that they can be compared.

        Raises:
            QueryRejected: If one cannot be asked, or they cannot be compared. Nothing is charged.

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
        """Training estimates in units of a mean, shape (candidates,), nan where there is none."""
        totals = np.array([each.estimate for each in self.prepared], dtype=np.float64)
        return np.where(totals >= 0.0, totals / self.mechanism.steps, math.nan)

    def turned(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Convert ends of means that grow with the answers to ends of means of row values, or back."""
        return (low, high) if self.rises else (1.0 - high, 1.0 - low)

    def named(self) -> str:
        """Return the number of candidates and the names of the first few."""
        names = ", ".join(each.bound.shown for each in self.prepared[:MOST_SHOWN_NAMES])
        return f"{len(self):,}: {names}{', ...' if len(self) > MOST_SHOWN_NAMES else ''}"

    def evaluate(self, sealed: StoredRows) -> SealedValues:
        """Evaluate all candidates on the sealed rows. The result is secret."""
        return evaluate_sealed(self.prepared, sealed, self.schema, self.mechanism)

    def procedures(self, nats: float) -> list[Procedure]:
        """Return the interval procedure of each candidate at a level, from public facts."""
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
        means: As means in [0, 1], shape (queries,).
        seen: What each procedure needs beside the mean; None where that is all.
    """

    totals: NDArray[np.int64]
    means: NDArray[np.float64]
    seen: Sequence[Any]

    def __repr__(self) -> str:
        return f"SealedValues({len(self.means)} queries)"


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
        procedures: One for each query.
        bound: The sealed values.
        nats: ln(1 / level) of both sides together.
        rounding: What the grid of row values hides.
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
    """Return a public bound on the distance of any interval's end from its sealed mean."""
    reach = [
        float(mechanism.margin.concentration(nats))
        if isinstance(procedure, OfMeans)
        else 2.0 * procedure.widest_if_honest(nats)
        for procedure, _ in alike(procedures)
    ]
    return min(max(reach) + mechanism.rounding, 1.0)
