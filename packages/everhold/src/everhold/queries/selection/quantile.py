"""Quantiles by order statistics: both ends of the interval are public values, and no distribution is assumed."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, as_whole, brief
from everhold.display import at_least, at_most, rounded
from everhold.errors import QueryRejected
from everhold.mechanisms.labels import steps_nats
from everhold.queries.interval_planner import Prepared
from everhold.queries.means.mean import MeanQuery, in_one_line, parsed
from everhold.queries.query import CompileContext, Query, QuerySpec
from everhold.queries.selection import results
from everhold.strict_json import digest
from everhold.values.expressions import ColumnKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.sealing.rows.table import StoredRows

_EDGES = 2_000  # of training values
_USUAL_BINS, _MOST_BINS = 200, 10_000
_COARSE, _MOST_FINE = 64, 400  # edges at which rows are counted, first and then near the quantile
_FARTHEST_NATS = 60.0  # near the quantile means: where tests at this level can end


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(results.Paid):
    """A quantile with an interval that holds for the population, together with all other answers.

    Attributes:
        value: A public value near the sealed quantile; None if the query was refused.
        low: Lower end, minus infinity if no public value is low enough; None if refused.
        high: Upper end, infinity if no public value is high enough; None if refused.
        level: The requested level of the quantile, such as 0.5 for the median.
        level_error: Half-width of the interval as a share of rows: the share of rows below each end differs from
            ``level`` by about this much. None if refused.
    """

    value: float | None
    low: float | None
    high: float | None
    level: float
    level_error: float | None

    def _found(self) -> str | None:
        if self.value is None or self.low is None or self.high is None:
            return None
        error = at_most(self.level_error or 0.0)
        ends = f"[{at_least(self.low)}, {at_most(self.high)}]"
        return f"quantile {self.level:g} about {rounded(self.value)} in {ends}, its level within {error}"

    def _meaning(self) -> str:
        return (
            f"the quantile {self.level:g} lies from {at_least(self.low or 0.0)} to "
            f"{at_most(self.high or 0.0)}, whatever the law of the values is. Missing values count as larger than all "
            "others. No surprise is charged. More sealed rows, or edges that lie closer, make the interval narrower."
        )


@dataclass(frozen=True, slots=True)
class QuantileQuery(Query[Quantile]):
    """A query for a quantile of a number, made by `quantile`."""

    text: str
    quantile: float
    low: float | None = None
    high: float | None = None
    bins: int | None = None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        given = {name: getattr(self, name) for name in ("quantile", "low", "high", "bins")}
        return QuerySpec("quantile", self.text, given)

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QuantilePlan:
        """Compile the quantile for the rows of one holdout."""
        mechanism = results.checks_guesses(compiler, "a quantile", guess=guess, tolerance=tolerance)
        level = as_float(self.quantile)
        if not 0.0 <= level <= 1.0:
            raise QueryRejected(
                f"quantile is {brief(self.quantile)}. Pass a number from 0 to 1, such as 0.5 for the median."
            )
        if parsed(self.text, compiler.schema).kind is not ColumnKind.NUMBER:
            raise QueryRejected(
                f"{brief(self.text)} is no number, so it has no quantiles. Pass a column of numbers, or an expression "
                "that gives numbers."
            )
        values = self._training_values(compiler)
        edges = self._edges(values)
        below = np.full(len(edges), math.nan)
        if values is not None:
            known = values[~np.isnan(values)]
            below = np.searchsorted(known, edges, side="right") / max(len(values), 1)
        at = int(np.searchsorted(below, level)) if values is not None else len(edges) // 2
        at = min(at, len(edges) - 1)
        silent = compiler.silently()
        (prepared,) = silent.prepare([_up_to(self.text, edges[at])], None)
        return QuantilePlan(compiler.schema, mechanism, self.text, level, edges, below, prepared, silent)

    def _training_values(self, compiler: CompileContext) -> NDArray[np.float64] | None:
        """Return the sorted values of a column in training rows, missing ones last, or None if not a column."""
        name = self.text.strip().strip('"')
        if compiler.training is None or name not in compiler.schema.asked:
            return None
        values = np.asarray(compiler.training.table([name])[name], dtype=np.float64)
        if (rule := compiler.schema.missing.get(name)) is not None and isinstance(rule.value, float):
            values = np.where(np.isnan(values), rule.value, values)
        return np.sort(values)

    def _edges(self, values: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return public edges in increasing order: of equal bins, or training values at even levels."""
        if self.low is None and self.high is None and self.bins is None:
            known = np.zeros(0) if values is None else values[np.isfinite(values)]
            if not len(known):
                raise QueryRejected(
                    f"No training row has a value of {brief(self.text)}, so nothing says where its quantiles may lie. "
                    "Pass low and high, the range of the values."
                )
            levels = np.sin(np.linspace(0.0, math.pi / 2.0, _EDGES + 1)) ** 2
            return np.unique(known[np.ceil(levels * (len(known) - 1)).astype(np.int64)]) + 0.0
        low, high, bins = as_float(self.low), as_float(self.high), _USUAL_BINS if self.bins is None else self.bins
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise QueryRejected(
                f"low is {brief(self.low)} and high is {brief(self.high)}. Pass two finite numbers, the smaller one "
                "as low."
            )
        if not 1 <= (as_whole(bins) or 0) <= _MOST_BINS:
            raise QueryRejected(f"bins is {brief(bins)}. Pass a whole number from 1 to {_MOST_BINS:,}.")
        return np.unique(np.linspace(low, high, int(bins) + 1)) + 0.0


def _up_to(text: str, edge: float) -> MeanQuery:
    """Return the query for the share of rows with a value of at most an edge."""
    return MeanQuery(f"({text}) <= {float(edge)!r}")


@dataclass(frozen=True, slots=True, eq=False)
class _CountedUpTo:
    """Numbers of sealed rows with values up to some edges. Secret.

    Attributes:
        values: Counts of rows up to each edge, with the summaries that procedures need.
    """

    edges: NDArray[np.int64]
    values: results.SealedValues


@dataclass(frozen=True)
class QuantilePlan(results.OneEntry[Quantile]):
    """A plan for one quantile: one interval procedure tests the share of rows up to each edge (corollary M3).

    Attributes:
        edges: Public values between which the quantile is searched, rising, shape (edges,).
        below: Shares of training rows up to each edge, shape (edges,); nan where unknown.
        prepared: The share of rows up to the edge where the training quantile lies; its procedure tests all edges.
    """

    text: str
    level: float
    edges: NDArray[np.float64] = field(repr=False)
    below: NDArray[np.float64] = field(repr=False)
    prepared: Prepared = field(repr=False)
    compiler: CompileContext = field(repr=False)

    @property
    def description(self) -> dict[str, Any]:
        """The public, canonical description of the quantile."""
        return {
            "kind": "order statistic", "level": self.level, "of": parsed(self.text, self.schema).canonical(),
            "edges": digest([repr(edge) for edge in self.edges.tolist()]),
        }  # fmt: skip

    @property
    def shown(self) -> str:
        """The query as text for people."""
        return f"quantile {self.level:g} of {in_one_line(self.text)}"

    def evaluate(self, sealed: StoredRows, places: Any) -> _CountedUpTo:
        """Count the sealed rows up to coarsely spaced edges, and up to finer ones near the quantile. Secret."""
        every = len(self.edges)
        coarse = np.unique(np.linspace(0, every - 1, min(every, _COARSE)).astype(np.int64))
        counted = self._look(sealed, coarse)
        reach = float(self.mechanism.margin.concentration(_FARTHEST_NATS))
        shares = counted.values.means
        first = int(np.searchsorted(shares, self.level - reach)) - 1
        last = int(np.searchsorted(shares, self.level + reach, side="right"))
        start, end = coarse[max(first, 0)], coarse[min(last, len(coarse) - 1)]
        fine = np.unique(np.linspace(start, end, min(int(end - start) + 1, _MOST_FINE)).astype(np.int64))
        return self._look(sealed, np.union1d(coarse, fine))

    def _look(self, sealed: StoredRows, edges: NDArray[np.int64]) -> _CountedUpTo:
        """Count the sealed rows whose value is at most each of the given edges. Secret."""
        prepared = [
            Prepared(
                _up_to(self.text, self.edges[edge]).bound_to(self.compiler), -1, from_training=False,
                procedure=self.prepared.procedure,
            )
            for edge in edges.tolist()
        ]  # fmt: skip
        return _CountedUpTo(edges, results.evaluate_sealed(prepared, sealed, self.schema, self.mechanism))

    def _procedure(self, nats: float) -> Procedure:
        """Return the interval procedure that tests all edges at a level."""
        assert self.prepared.procedure is not None
        return self.mechanism.procedure_at(self.prepared.procedure, self.level, nats)

    def release(self, nats: float, seen: _CountedUpTo) -> results.Released:
        """Return the answer: the last edge proved to be below the quantile, and the first proved not to be."""
        procedure = self._procedure(nats)
        last = len(self.edges)

        def ends(place: int) -> tuple[float, float]:
            low, high = results.ends_of([procedure], seen.values.some([place]), nats, rounding=self.mechanism.rounding)
            return float(low[0]), float(high[0])

        # tests are monotone in the edge, because one procedure with fixed stakes makes all of them
        above = bisect_left(range(len(seen.edges)), self.level, key=lambda place: ends(place)[1])
        below = bisect_right(range(len(seen.edges)), self.level, key=lambda place: ends(place)[0])
        low = int(seen.edges[above - 1]) if above else -1
        high = int(seen.edges[below]) if below < len(seen.edges) else last
        told = {"edges": [low, high], "within": self.bound(nats)}
        finite = [number if math.isfinite(number) else None for number in self._numbers(low, high)]
        numbers = dict(zip(("value", "low", "high"), finite, strict=True))
        place, width, scale = self._expected(nats)  # by which both positions are priced
        label = steps_nats(low - place, scale=scale) + steps_nats(high - low - width, scale=max(scale / 2.0, 0.5))
        return {**told, **numbers}, label, None

    def _expected(self, nats: float) -> tuple[int, int, float]:
        """Return expected lower edge, distance to the upper edge, and standard error, from public facts."""
        if np.any(np.isnan(self.below)):
            return -1, len(self.edges) + 1, len(self.edges) / 2.0
        low, high = self._procedure(nats).expected(self.level, nats)
        first = int(np.searchsorted(self.below, low)) - 1
        last = int(np.searchsorted(self.below, high, side="right"))
        return first, last - first, max((last - first) / 8.0, 0.5)

    def bound(self, nats: float) -> float:
        """Return the half-width of the interval, as a difference in the quantile's level."""
        low, high = self._procedure(nats).expected(self.level, nats)
        return max(self.level - low, high - self.level) + self.mechanism.rounding

    def _numbers(self, low: int, high: int) -> tuple[float, float, float]:
        """Return the value and both ends of the interval, for the edges at two positions.

        The value is the edge with half of the training rows in the interval below it, or the middle one without them.
        """
        ends = np.concatenate([[-math.inf], self.edges, [math.inf]])
        middle = (low + high) // 2
        if not np.any(np.isnan(self.below)):
            shares = np.concatenate([[0.0], self.below, [1.0]])
            middle = int(np.searchsorted(self.below, (shares[low + 1] + shares[high + 1]) / 2.0))
        middle = min(max(middle, low, 0), high, len(self.edges) - 1)
        return float(self.edges[middle]), float(ends[low + 1]), float(ends[high + 1])

    def released_width(self, answer: Mapping[str, Any]) -> float:
        """Return the half-width of a stored answer, as a difference in the quantile's level."""
        return float(answer["within"])

    def result(self, answer: Mapping[str, Any] | None, **paid: Any) -> Quantile:
        """Return the result with the quantile in its own units."""
        if answer is None:
            return Quantile(value=None, low=None, high=None, level=self.level, level_error=None, **paid)
        low, high = answer["low"], answer["high"]  # None where no edge bounds it
        return Quantile(
            value=answer["value"], low=-math.inf if low is None else low, high=math.inf if high is None else high,
            level=self.level, level_error=answer["within"], **paid,
        )  # fmt: skip


def quantile(
    text: str,
    quantile: float = 0.5,
    *,
    low: float | None = None,
    high: float | None = None,
    bins: int | None = None,
) -> Any:
    """Build the query for a quantile of a number, such as the median, without assuming a distribution.

    The ends of its interval are public values: by default values of the column in the training rows, else the edges of
    equal bins.

    Args:
        text: A column or an expression that is a number; missing values count as larger than all others.
        quantile: The level, in [0, 1]; 0.5 is the median.
        low: Lower end of the equal bins. It must not come from the sealed rows. It is needed if no training rows show
            the values.
        high: Upper end of the equal bins. It must not come from the sealed rows.
        bins: Number of bins, all equally wide; 200 by default.

    Examples:
        >>> quantile("delay").quantile
        0.5
    """
    return QuantileQuery(text, quantile, low, high, bins)
