"""The distribution of one column: a share for every bin, all with intervals that hold together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from everhold.answers import Shares
from everhold.arguments import as_float
from everhold.errors import QueryRejected
from everhold.queries.derived import BoundDerived, Estimate, JointMeans
from everhold.queries.means.mean import MeanQuery, parsed
from everhold.queries.query import Query, QuerySpec

if TYPE_CHECKING:
    from everhold.queries.means.batch import RowwiseQuery
    from everhold.queries.query import ExecutionResult
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import Schema

_MOST_BINS = 200


@dataclass(frozen=True, slots=True)
class HistogramQuery(Query[Shares]):
    """The shares of the bins of a number or of the categories of a text; made by `histogram`.

    Attributes:
        text: A numeric expression, or a text column.
        missing: Whether the share of missing values is asked for, too.
    """

    text: str
    bins: tuple[float, ...] | tuple[str, ...]
    missing: bool

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        return QuerySpec("histogram", self.text, {"bins": self.bins, "missing": self.missing})

    def shares(self, schema: Schema) -> dict[str, MeanQuery]:
        """One query for each bin, by the bin's name.

        Raises:
            QueryRejected: If the bins are no bins of this text. Nothing is charged.
        """
        parsed(f"{self.text} is null", schema)  # without brackets: its own must pair among themselves
        inside = f"({self.text})"
        texts = _categories(inside, self.bins) if self._of_text else _intervals(inside, self.bins)
        if self.missing:  # a row without a value is in this bin, and not in the others
            texts = {name: f"{inside} is not null and {text}" for name, text in texts.items()}
            texts["missing"] = f"{inside} is null"
        parts = {name: MeanQuery(text) for name, text in texts.items()}
        for part in parts.values():
            part.bind(schema)
        return parts

    def parts(self, schema: Schema) -> tuple[RowwiseQuery, ...]:
        """The queries alone, in the order of the bins.

        Raises:
            QueryRejected: If the bins are no bins of this text. Nothing is charged.
        """
        return tuple(self.shares(schema).values())

    def compile(self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None) -> Bins:
        """One query for each bin; their price is that of all, and their half-width that of the widest."""
        shares = self.shares(compiler.schema)
        bound = BoundDerived("a histogram", {"kind": "histogram"}, tuple(shares.values()), _widest)
        bound.check(compiler, guess=guess, tolerance=tolerance)
        parts = compiler.prepare(bound.parts, None, together=True)
        return Bins(parts, compiler.schema, compiler.mechanism, bound, tuple(shares), self.missing)

    @property
    def _of_text(self) -> bool:
        return isinstance(self.bins[0], str)


@dataclass(frozen=True)
class Bins(JointMeans[Shares]):
    """The bins of one histogram, answered as far as the budget pays.

    Attributes:
        names: Of the bins, in order.
        missing: Whether the bins hold all rows.
    """

    names: tuple[str, ...]
    missing: bool

    def present(self, result: ExecutionResult) -> Shares:
        """One answer for each bin, with intervals made narrower by what they sum to."""
        answers = self.answers(result)
        lows = [0.0 if answer.low is None else answer.low for answer in answers]
        highs = [1.0 if answer.high is None else answer.high for answer in answers]
        ends = summed_to_one(lows, highs, missing=self.missing)
        return Shares({
            name: answer
            if answer.value is None
            else replace(answer, value=min(max(answer.value, low), high), low=low, high=high)
            for name, answer, (low, high) in zip(self.names, answers, ends, strict=True)
        })  # fmt: skip


def _widest(shares: Sequence[Estimate]) -> Estimate:
    return max(shares, key=lambda share: share.high - share.low)


def _intervals(inside: str, bins: Sequence[object]) -> dict[str, str]:
    """The bins ``[a, b)``, the last of them closed, and what is below and above all of them."""
    edges = [float(edge) for edge in bins if isinstance(edge, (int, float))]
    first, last = edges[0], edges[-1]
    texts = {} if first == -math.inf else {f"below {first:g}": f"{inside} < {first!r}"}
    for place, (low, high) in enumerate(pairwise(edges)):
        closed = place == len(edges) - 2 and high < math.inf
        conditions = [f"{inside} >= {low!r}"] * (low > -math.inf)
        conditions += [f"{inside} {'<=' if closed else '<'} {high!r}"] * (high < math.inf)
        name = f"{'(' if low == -math.inf else '['}{low!r}, {high!r}{']' if closed else ')'}"
        texts[name] = " and ".join(conditions) or f"{inside} is not null"
    return texts if last == math.inf else {**texts, f"above {last:g}": f"{inside} > {last!r}"}


def _categories(inside: str, bins: Sequence[object]) -> dict[str, str]:
    quoted = ["'" + str(name).replace("'", "''") + "'" for name in bins]
    texts = {str(name): f"{inside} = {literal}" for name, literal in zip(bins, quoted, strict=True)}
    return {**texts, "other": f"{inside} not in ({', '.join(quoted)})"}


def summed_to_one(lows: Sequence[float], highs: Sequence[float], *, missing: bool) -> list[tuple[float, float]]:
    """Intervals of shares that are all there is, made narrower by each other.

    A share is at least 1 minus the upper ends of all others, and at most 1 minus their lower ends.

    Args:
        lows: Lower ends, 0 where nothing is known.
        highs: Upper ends, 1 where nothing is known.
        missing: Whether the bins hold all rows; otherwise the shares sum to 1 at most.

    Examples:
        >>> [(round(low, 9), round(high, 9)) for low, high in summed_to_one([0.5, 0.0], [0.75, 1.0], missing=True)]
        [(0.5, 0.75), (0.25, 0.5)]
    """
    slack = 1e-15 * (len(lows) + 2)  # what rounding can do to the sums
    below, above = math.fsum(lows), math.fsum(highs)
    ends = [
        (
            max(low, 1.0 - (above - high) - slack) if missing else low,
            min(high, 1.0 - (below - low) + slack),
        )
        for low, high in zip(lows, highs, strict=True)
    ]
    possible = all(low <= high for low, high in ends)
    return ends if possible else list(zip(lows, highs, strict=True))


def histogram(text: str, bins: Sequence[float] | Sequence[str], *, missing: bool = True) -> HistogramQuery:
    """The shares of the population in each bin; one query for each, and one for all that is outside on either side.

    Args:
        text: A numeric expression such as ``"arr_delay"``, or the name of a text column.
        bins: Increasing edges of numbers, where a bin is ``[a, b)`` and the last one ``[a, b]``; the ends may be
            infinite. Or categories of a text column; all others count as "other".
        missing: Ask for the share of missing values, too; otherwise rows with a missing value are in no bin, and the
            shares need not sum to 1.

    Raises:
        QueryRejected: If the bins cannot be used. Nothing is charged.

    Examples:
        >>> histogram("arr_delay", [-60, 0, 15, 60]).bins
        (-60.0, 0.0, 15.0, 60.0)
    """
    try:
        listed: list[Any] = list(bins)
    except TypeError:
        raise _no_bins("a list of edges or of categories") from None
    if listed and all(isinstance(name, str) for name in listed):
        names = tuple(map(str, listed))
        if len(set(names)) < len(names) or len(names) > _MOST_BINS or {"other", "missing"} & set(names):
            raise _no_bins(f"up to {_MOST_BINS} different categories, none of them called 'other' or 'missing'")
        return HistogramQuery(text, names, missing)
    edges = tuple(as_float(edge) + 0.0 for edge in listed)
    increasing = all(low < high for low, high in pairwise(edges))
    if not 2 <= len(edges) <= _MOST_BINS + 1 or not increasing:
        raise _no_bins(f"2 to {_MOST_BINS + 1} increasing numbers, or categories")
    return HistogramQuery(text, edges, missing)


def _no_bins(expected: str) -> QueryRejected:
    return QueryRejected(f"the bins of the histogram cannot be used; expected {expected}")
