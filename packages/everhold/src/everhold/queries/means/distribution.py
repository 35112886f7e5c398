"""Queries about the distribution of columns: histograms, variance, deviation, Sharpe ratio, covariance and correlation.

A histogram asks a share for every bin, and all their intervals hold together. The others are functions of a few means,
with the range over the means' intervals: see `MomentQuery`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from everhold.answers import Shares
from everhold.arguments import as_float
from everhold.errors import QueryRejected
from everhold.queries.means.mean import MeanQuery, bound_mean, in_one_line, not_too_long, parsed
from everhold.queries.means.plans import BoundDerived, DerivedQuery, Estimate, JointMeans, estimate_between, widest
from everhold.queries.query import CompileContext, ExecutionResult, Query, QuerySpec, RowwiseQuery
from everhold.values.base import BoundQuery, Schema
from everhold.values.expressions import ColumnKind, RowValue
from everhold.values.expressions.parse import rejected
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

_MOST_BINS = 200


@dataclass(frozen=True, slots=True)
class HistogramQuery(Query[Shares]):
    """A query for the shares of the bins of a number or of the categories of a text, made by `histogram`.

    Attributes:
        text: A numeric expression, or a text column.
        missing: True if the query also asks for the share of missing values.
    """

    text: str
    bins: tuple[float, ...] | tuple[str, ...]
    missing: bool

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        return QuerySpec("histogram", self.text, {"bins": self.bins, "missing": self.missing})

    def shares(self, schema: Schema) -> dict[str, MeanQuery]:
        """Return the query for the share of each bin, by the bin's name.

        Raises:
            QueryRejected: If the bins do not fit the type of the text. Nothing is charged.
        """
        parsed(f"{self.text} is null", schema)  # without brackets: its own must pair among themselves
        inside = f"({self.text})"
        if isinstance(self.bins[0], str):
            if schema.asked.get(self.text) is ColumnKind.NUMBER:
                raise QueryRejected(
                    f"{self.text!r} is a number, and bins has {self.bins[0]!r}. Pass numbers, such as -60, 0, 60."
                )
            quoted = ["'" + str(name).replace("'", "''") + "'" for name in self.bins]
            texts = {str(name): f"{inside} = {literal}" for name, literal in zip(self.bins, quoted, strict=True)}
            texts["other"] = f"{inside} not in ({', '.join(quoted)})"
        else:
            texts = _intervals(inside, self.bins)
        if self.missing:  # a row without a value is in this bin, and not in the others
            texts = {name: f"{inside} is not null and {text}" for name, text in texts.items()}
            texts["missing"] = f"{inside} is null"
        parts = {name: MeanQuery(text) for name, text in texts.items()}
        for part in parts.values():
            part.bind(schema)
        return parts

    def parts(self, schema: Schema) -> tuple[RowwiseQuery, ...]:
        """Return the queries for the shares, in the order of the bins.

        Raises:
            QueryRejected: If the bins do not fit the type of the text. Nothing is charged.
        """
        return tuple(self.shares(schema).values())

    def compile(self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None) -> Bins:
        """Compile the shares of all bins into one plan. Its price is that of all bins together."""
        shares = self.shares(compiler.schema)
        bound = BoundDerived("a histogram", {"kind": "histogram"}, tuple(shares.values()), widest)
        bound.check(compiler, guess=guess, tolerance=tolerance)
        parts = compiler.prepare(bound.parts, None, together=True)
        return Bins(parts, compiler.schema, compiler.mechanism, bound, tuple(shares), self.missing)


@dataclass(frozen=True)
class Bins(JointMeans[Shares]):
    """A plan for the shares of a histogram's bins. Bins are answered as long as the budget pays for the next one.

    Attributes:
        names: Names of the bins, in order.
        missing: True if the bins, with that for missing values, hold all rows; False if rows may be in no bin.
    """

    names: tuple[str, ...]
    missing: bool

    def present(self, result: ExecutionResult) -> Shares:
        """Return one answer for each bin. Intervals are narrowed because all shares sum to 1."""
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


def _intervals(inside: str, bins: Sequence[object]) -> dict[str, str]:
    """Return the condition of each bin by the bin's name, and the conditions of values below and above all bins."""
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


def summed_to_one(lows: Sequence[float], highs: Sequence[float], *, missing: bool) -> list[tuple[float, float]]:
    """Narrow intervals of shares by the fact that the shares sum to 1, or to at most 1.

    A share is at least 1 minus the upper ends of all others, and at most 1 minus their lower ends.

    Args:
        lows: Lower ends, 0 where nothing is known.
        highs: Upper ends, 1 where nothing is known.
        missing: True if the bins hold all rows, so that their shares sum to 1; False if the shares sum to at most 1.

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
    """Build the query for the share of the population in each bin.

    It takes one query for each bin, and one for each side on which values can lie outside of all bins.

    Args:
        text: A numeric expression such as ``"arr_delay"``, or the name of a text column.
        bins: Increasing edges of numbers, where a bin is ``[a, b)`` and the last one ``[a, b]``; the ends may be
            infinite. Or categories of a text column; all others count as "other".
        missing: Whether to ask for the share of missing values, too. If False, rows with a missing value are in no bin,
            and the shares need not sum to 1.

    Raises:
        QueryRejected: If the bins are neither increasing edges nor different categories. Nothing is charged.

    Examples:
        >>> histogram("arr_delay", [-60, 0, 15, 60]).bins
        (-60.0, 0.0, 15.0, 60.0)
    """
    try:
        listed: list[Any] = list(bins)
    except TypeError:
        raise _no_bins("a list of increasing edges or of categories") from None
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
    return QueryRejected(f"The bins of the histogram cannot be used. Pass {expected}.")


_SLACK = 1e-14  # at least twenty times what rounding can do to a sum of a few products of numbers in [-1, 1]
_CELLS = 64  # pieces of each mean's interval; more of them change no digit that is shown
_NO_SPREAD = Estimate(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ExpressionMean(RowwiseQuery):
    """A query for the mean of an expression that was built in code and not parsed from text."""

    row_value: RowValue
    shown: str

    def bind(self, schema: Schema) -> BoundQuery:
        """Return the bound query. It equals that of a text with the same expression."""
        return bound_mean(self.row_value, shown=self.shown)


@dataclass(frozen=True, slots=True)
class _Variable:
    """A condition or number, rescaled to [0, 1] and called u, of which a variance or covariance is computed."""

    mean: MeanQuery
    value: RowValue

    @classmethod
    def read(cls, mean: MeanQuery, schema: Schema) -> _Variable:
        """Build the variable from a mean and the columns of the holdout."""
        value = mean.bind(schema).row_value
        assert value is not None
        return cls(mean, value)

    @property
    def root(self) -> Node:
        return self.value.expression.root

    @property
    def is_condition(self) -> bool:
        return self.root.kind is ColumnKind.BOOLEAN

    @property
    def rescaled(self) -> Node:
        """The expression of u: the number clipped and rescaled to [0, 1], null if the number is missing."""
        low, high, width = (Node.literal(end) for end in (self.value.low, self.value.high, self.value.width))
        clipped = Node.of(Operation.LEAST, Node.of(Operation.GREATEST, self.root, low), high)
        return Node.of(Operation.DIVIDE, Node.of(Operation.SUBTRACT, clipped, low), width)

    @property
    def centred(self) -> Node:
        """The expression ``2u - 1``, which is -1 for missing values."""
        if self.is_condition:
            return Node.of(Operation.CASE, self.root, Node.literal(1.0), Node.literal(-1.0))
        twice = Node.of(Operation.MULTIPLY, Node.literal(2.0), self.rescaled)
        inside = Node.of(Operation.SUBTRACT, twice, Node.literal(1.0))
        return Node.of(Operation.CASE, Node.of(Operation.IS_NULL, self.root), Node.literal(-1.0), inside)

    def spread(self) -> tuple[ExpressionMean, ...]:
        """A tuple with the query for the mean of ``u (1 - u)``. Empty for a condition, for which this mean is 0."""
        if self.is_condition:
            return ()
        rest = Node.of(Operation.SUBTRACT, Node.literal(1.0), self.rescaled)
        product = Node.of(Operation.MULTIPLY, self.rescaled, rest)
        value = RowValue(not_too_long(product, "the expressions"), 0.0, 0.25, within=True)
        return (ExpressionMean(value, f"mean of the spread of {in_one_line(self.mean.text)}"),)


def _product(one: _Variable, other: _Variable) -> ExpressionMean:
    """Return the query for the mean of ``(2u - 1)(2v - 1)`` on [-1, 1]."""
    root = Node.of(Operation.MULTIPLY, one.centred, other.centred)
    value = RowValue(not_too_long(root, "the expressions"), -1.0, 1.0, within=True)
    texts = (in_one_line(one.mean.text), in_one_line(other.mean.text))
    return ExpressionMean(value, f"mean of the product of {texts[0]} and {texts[1]}")


@dataclass(frozen=True, slots=True)
class MomentQuery(DerivedQuery):
    """A query for a statistic, such as a variance, that is computed from the means of a few row values.

    Attributes:
        name: Name of the function that makes it, such as ``"variance"``.
        of: The mean of the first text, from which the statistic is computed.
        and_of: The mean of the second text; None for a statistic of one text.
    """

    name: str
    of: MeanQuery
    and_of: MeanQuery | None = None

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        given: dict[str, Any] = {"low": self.of.low, "high": self.of.high}
        other = self.and_of
        if other is not None:
            given = {"other": other.text, **given, "other_low": other.low, "other_high": other.high}
        return QuerySpec(self.name, self.of.text, given)

    def bind(self, schema: Schema) -> BoundDerived:
        """Return the statistic as a function of means: of each text, of their product, and of each spread."""
        means = (self.of,) if self.and_of is None else (self.of, self.and_of)
        variables = [_Variable.read(mean, schema) for mean in means]
        parts: list[RowwiseQuery] = [*means]
        if len(means) > 1:
            parts.append(_product(*variables))
        if self.name != "covariance":
            parts += [spread for variable in variables for spread in variable.spread()]
        area = 1.0
        if self.name != "correlation":  # which has no units
            area = variables[0].value.width * variables[-1].value.width
            if not math.isfinite(area) or area < sys.float_info.min:
                raise rejected("the product of the two ranges is 0 or not a finite number", "choose other units")
        words = self.name.replace("_", " ")
        return BoundDerived(
            name=f"a {words}",
            description={"kind": self.name},
            parts=tuple(parts),
            combine=lambda told: self._combined(variables, area, told),
            shown=f"{words} of {' and '.join(mean.text for mean in means)}",
        )

    def _combined(self, variables: Sequence[_Variable], area: float, told: Sequence[Estimate]) -> Estimate:
        """Return the statistic from the estimates of its parts, each on the scale [0, 1].

        Args:
            variables: The conditions or numbers that it is about.
            area: Product of the widths of the two ranges, in the analyst's units.
            told: The estimates, in the order of the parts.
        """
        if self.name == "variance":
            return _scaled(_variance(*told), area, least=0.0)
        if self.name == "standard_deviation":
            square = _variance(*told)
            root = Estimate(*(math.sqrt(end) for end in (square.value, square.low, square.high)))
            return _scaled(root, variables[0].value.width, least=0.0)
        if self.name == "sharpe_ratio":
            zero = -variables[0].value.low / variables[0].value.width  # where u stands for the number 0
            return _sharpe_ratio(zero, *told)
        if self.name == "covariance":
            return _scaled(_covariance(*told), area, least=-math.inf)
        spreads = iter(told[3:])
        spread_x, spread_y = (_NO_SPREAD if variable.is_condition else next(spreads) for variable in variables)
        return _correlation(told[0], told[1], told[2], spread_x, spread_y)


def _variance(mean: Estimate, spread: Estimate = _NO_SPREAD) -> Estimate:
    """Estimate ``var(u) = a (1 - a) - s / 4`` from intervals of a, the mean of u, and s, that of ``4 u (1 - u)``."""
    middle = min(max(0.5, mean.low), mean.high)
    return estimate_between(
        mean.value * (1.0 - mean.value) - spread.value / 4.0,
        max(min(mean.low * (1.0 - mean.low), mean.high * (1.0 - mean.high)) - spread.high / 4.0, 0.0),
        max(middle * (1.0 - middle) - spread.low / 4.0, 0.0),
        least=0.0,
        most=0.25,
        slack=_SLACK,
    )


def _sharpe_ratio(zero: float, mean: Estimate, spread: Estimate = _NO_SPREAD) -> Estimate:
    """Estimate ``(E u - zero) / sqrt(var u)`` from intervals. It is infinite where the variance may be 0."""
    cells = _cells(mean)
    least_square, most_square = _cell_variances(cells, spread)
    smallest, largest, possible = np.sqrt(least_square), np.sqrt(np.maximum(most_square, 0.0)), most_square >= 0.0
    low, high = cells[0] - zero - _SLACK, cells[1] - zero + _SLACK
    with np.errstate(divide="ignore", invalid="ignore"):
        least, most = low / np.where(low < 0.0, smallest, largest), high / np.where(high > 0.0, smallest, largest)
    square = _variance(mean, spread).value
    value = (mean.value - zero) / math.sqrt(square) if square > 0.0 else 0.0
    ends = (float(least[possible].min()), float(most[possible].max())) if possible.any() else (math.nan, math.nan)
    slack = 4.0 * sys.float_info.epsilon * max((abs(end) for end in ends if math.isfinite(end)), default=0.0)
    return estimate_between(value, *ends, least=-math.inf, most=math.inf, slack=slack)


def _covariance(x: Estimate, y: Estimate, product: Estimate) -> Estimate:
    """Estimate ``cov(u, v)`` from intervals of the means of u, of v and of their product."""
    low, high = _cell_covariances(_cells(x)[:, :, None], _cells(y)[:, None, :], product)
    possible = low <= high + _SLACK
    value = _centred_covariance(x.value, y.value, product.value)
    ends = (float(low[possible].min()), float(high[possible].max())) if possible.any() else (math.nan, math.nan)
    return estimate_between(value, *ends, least=-0.25, most=0.25, slack=_SLACK)


def _centred_covariance(a: float, b: float, product: float) -> float:
    """Return ``cov(u, v)`` from means of u and v, and of ``(2u - 1)(2v - 1)`` rescaled to [0, 1]."""
    return (2.0 * product - 1.0 - (2.0 * a - 1.0) * (2.0 * b - 1.0)) / 4.0


def _cells(mean: Estimate) -> Floats:
    """Return the ends of equal pieces of an interval, shape (2, pieces)."""
    edges = np.linspace(mean.low, mean.high, _CELLS + 1)
    return np.stack([edges[:-1], edges[1:]])


def _cell_covariances(a: Floats, b: Floats, product: Estimate) -> tuple[Floats, Floats]:
    """Return bounds of ``cov(u, v)`` for each pair of pieces of the two means' intervals.

    As ``u v <= min(u, v)`` and ``u v >= max(0, u + v - 1)``, the covariance is at most ``min(a (1-b), b (1-a))`` and at
    least ``-min(a b, (1-a)(1-b))``.

    Args:
        a: Ends of the pieces of the first mean's interval (the mean of u), shape (2, pieces, 1).
        b: Ends of the pieces of the second mean's interval (the mean of v), shape (2, 1, pieces).
        product: The mean product on its own [0, 1] scale.
    """
    corners = np.stack([(2.0 * one - 1.0) * (2.0 * other - 1.0) for one in a for other in b])
    low = (2.0 * product.low - 1.0 - corners.max(axis=0)) / 4.0
    high = (2.0 * product.high - 1.0 - corners.min(axis=0)) / 4.0
    most = np.minimum(a[1] * (1.0 - b[0]), b[1] * (1.0 - a[0]))
    least = -np.minimum(a[1] * b[1], (1.0 - a[0]) * (1.0 - b[0]))
    return np.maximum(low, least), np.minimum(high, most)


def _cell_variances(a: Floats, spread: Estimate) -> tuple[Floats, Floats]:
    """Return bounds of ``var(u)`` for each piece of the mean's interval; an upper one below 0 is impossible."""
    middle = np.clip(0.5, a[0], a[1])
    low = np.minimum(a[0] * (1.0 - a[0]), a[1] * (1.0 - a[1])) - spread.high / 4.0
    return np.maximum(low - _SLACK, 0.0), middle * (1.0 - middle) - spread.low / 4.0 + _SLACK


def _correlation(x: Estimate, y: Estimate, product: Estimate, spread_x: Estimate, spread_y: Estimate) -> Estimate:
    """Estimate ``cov / sqrt(var var)`` from intervals, over all pieces of the means that are possible."""
    a, b = _cells(x)[:, :, None], _cells(y)[:, None, :]
    low, high = _cell_covariances(a, b, product)
    (least_x, most_x), (least_y, most_y) = _cell_variances(a, spread_x), _cell_variances(b, spread_y)
    smallest, largest = np.sqrt(least_x * least_y), np.sqrt(np.maximum(most_x, 0.0) * np.maximum(most_y, 0.0))
    low, high = np.maximum(low - _SLACK, -largest), np.minimum(high + _SLACK, largest)
    possible = (low <= high) & (most_x >= 0.0) & (most_y >= 0.0)
    ends = (math.nan, math.nan)
    if possible.any():
        least = _quotient(low, np.where(low < 0.0, smallest, largest), otherwise=-1.0)
        most = _quotient(high, np.where(high > 0.0, smallest, largest), otherwise=1.0)
        ends = float(least[possible].min()), float(most[possible].max())
    value = _variance(x, spread_x).value * _variance(y, spread_y).value
    centre = _centred_covariance(x.value, y.value, product.value) / math.sqrt(value) if value > 0.0 else 0.0
    return estimate_between(centre, *ends, least=-1.0, most=1.0, slack=_SLACK)


def _quotient(covariances: Floats, deviations: Floats, *, otherwise: float) -> Floats:
    """Return ``covariances / deviations`` clipped to [-1, 1], with ``otherwise`` where the divisor is 0."""
    divisors = np.where(deviations > 0.0, deviations, 1.0)
    return np.clip(np.where(deviations > 0.0, covariances / divisors, otherwise), -1.0, 1.0)


def _scaled(unit: Estimate, area: float, *, least: float) -> Estimate:
    """Return an estimate for rescaled numbers in the analyst's units, multiplied by ``area`` and rounded outwards."""
    low, high = (
        math.nextafter(math.nextafter(end * area, towards), towards)  # for the rounding of the area and of the product
        for end, towards in ((unit.low, -math.inf), (unit.high, math.inf))
    )
    return Estimate(min(max(unit.value * area, low, least), high), max(low, least), high)


def variance(text: str, *, low: float | None = None, high: float | None = None) -> MomentQuery:
    """Build the query for the variance over the population, in squared units.

    Args:
        text: A condition, or a number with a range. Rows without a value are treated as for `mean`, but cannot be left
            out.
        low: Lower end of the number's range: smaller values count as this.
        high: Upper end of the number's range: larger values count as this.

    Examples:
        >>> variance("arr_delay", low=-60, high=180)
        MomentQuery(name='variance', of=MeanQuery(text='arr_delay', low=-60, high=180), and_of=None)
    """
    return MomentQuery("variance", MeanQuery(text, low, high))


def standard_deviation(text: str, *, low: float | None = None, high: float | None = None) -> MomentQuery:
    """Build the query for the standard deviation over the population, the root of the variance, in the number's units.

    Args:
        text: The number, as for `variance`.
        low: Lower end of the number's range: smaller values count as this.
        high: Upper end of the number's range: larger values count as this.
    """
    return MomentQuery("standard_deviation", MeanQuery(text, low, high))


def sharpe_ratio(text: str, *, low: float | None = None, high: float | None = None) -> MomentQuery:
    """Build the query for the Sharpe ratio over the population: mean divided by standard deviation.

    For daily returns it is the ratio of one day. Multiply it by the root of 252 for the ratio of a year. Its interval
    is unbounded if the rows cannot tell the standard deviation from 0.

    Args:
        text: The number, as for `variance`, such as a return in excess of the riskless one.
        low: Lower end of the number's range: smaller values count as this.
        high: Upper end of the number's range: larger values count as this.
    """
    return MomentQuery("sharpe_ratio", MeanQuery(text, low, high))


def covariance(
    text: str,
    other: str,
    *,
    low: float | None = None,
    high: float | None = None,
    other_low: float | None = None,
    other_high: float | None = None,
) -> MomentQuery:
    """Build the query for the covariance of two conditions or numbers over the population.

    It is computed from three queries.

    Args:
        text: The first condition or number, as for `variance`.
        other: The second condition or number, as for `variance`.
        low: Lower end of the first number's range: smaller values count as this.
        high: Upper end of the first number's range: larger values count as this.
        other_low: Lower end of the second number's range: smaller values count as this.
        other_high: Upper end of the second number's range: larger values count as this.
    """
    return MomentQuery("covariance", MeanQuery(text, low, high), MeanQuery(other, other_low, other_high))


def correlation(
    text: str,
    other: str,
    *,
    low: float | None = None,
    high: float | None = None,
    other_low: float | None = None,
    other_high: float | None = None,
) -> MomentQuery:
    """Build the query for Pearson's correlation of two conditions or numbers over the population.

    It is computed from three to five queries. If one of the two never varies, the correlation does not exist, and its
    interval is all of [-1, 1].

    Args:
        text: The first condition or number, as for `covariance`.
        other: The second condition or number, as for `covariance`.
        low: Lower end of the first number's range, as for `covariance`.
        high: Upper end of the first number's range, as for `covariance`.
        other_low: Lower end of the second number's range, as for `covariance`.
        other_high: Upper end of the second number's range, as for `covariance`.
    """
    return MomentQuery("correlation", MeanQuery(text, low, high), MeanQuery(other, other_low, other_high))
