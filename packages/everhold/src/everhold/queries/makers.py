"""Makers of queries about expressions and of queries that are made of two: `mean`, `ratio` and `difference`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.means.combined import ConditionalMean, DifferenceQuery, ShareQuery
from everhold.queries.means.mean import MeanQuery, StatisticalQuery
from everhold.queries.metrics.query import MetricQuery
from everhold.queries.query import RowwiseQuery

if TYPE_CHECKING:
    from everhold.queries.means.assisted import AssistedMean
    from everhold.queries.query import Query
    from everhold.values.base import RowFunction


@overload
def mean(of: str, *, low: float | None = None, high: float | None = None) -> MeanQuery: ...
@overload
def mean(of: str, *, low: float | None = None, high: float | None = None, given: str) -> ConditionalMean: ...
@overload
def mean(
    of: str, *, low: float | None = None, high: float | None = None, assisted_by: str, pool: Any
) -> AssistedMean: ...
@overload
def mean(of: RowFunction, *, name: str | None = None) -> StatisticalQuery: ...
@overload
def mean(of: RowFunction, *, given: str, name: str | None = None) -> ConditionalMean: ...
def mean(
    of: str | RowFunction,
    *,
    low: float | None = None,
    high: float | None = None,
    given: str | None = None,
    name: str | None = None,
    assisted_by: str | None = None,
    pool: Any = None,
) -> MeanQuery | ConditionalMean | StatisticalQuery | AssistedMean:
    """Build the query for the mean over the population of an expression, or of a function of single rows.

    A function is tried on the training rows before it meets sealed ones (without a training set on made-up rows), and
    every fault is reported there. On sealed rows faults are never reported, because a report would be a free answer:
    nan counts as 0, values are clipped, and a row on which the function fails counts as 0.

    Args:
        of: A condition such as ``"arr_delay > 15 and carrier = 'UA'"``, whose mean is a share, or a number such as
            ``"arr_delay"``, which needs a range. Rows without a value are refused, left out or have one, as
            ``eh.Rows(missing=...)`` says; what is null in sealed rows all the same, as after a division by zero, counts
            as ``low``, for a condition as false. Or a function from a table (columns by name, NumPy arrays) to one
            value in [0, 1] per row, each computed from its own row alone; for one that looks across rows nothing is
            promised.
        low: Numbers below count as this.
        high: Numbers above count as this.
        given: Take the mean only over rows that meet this condition. One query of a holdout that confirms guesses
            and has training rows, see `ratio`; else two.
        name: Of a function: functions of one name that are made of the same code and data, and give the same for public
            rows, are one query. Without a name every new function is a new query. Files and settings that the
            function reads while it runs are not looked at: take another name when they change.
        assisted_by: What a judge says, such as ``"judge"``, where few rows have a human label and a pool of many more
            has the judge's: a condition, a number or a text, as the pool was recorded with. The better the judge, the
            narrower the answer; what it gets wrong only costs width. One that is worth nothing is left out, as training
            rows say.
        pool: Rows that were judged and not labelled, or their name: recorded by `eh.pool`, drawn from the same
            population, and not used to tune the judge.

    Examples:
        >>> mean("arr_delay", low=-60, high=180)
        MeanQuery(text='arr_delay', low=-60, high=180)
        >>> late = mean(lambda table: table["arr_delay"] > 15, name="late")
    """
    if assisted_by is not None or pool is not None:
        if assisted_by is None or pool is None or given is not None or name is not None:
            raise QueryRejected("Pass assisted_by and pool together, and neither given nor name beside them.")
        from everhold.queries.means.assisted import AssistedMean

        return AssistedMean.of(of, judge=assisted_by, pool=pool, low=low, high=high)
    if not isinstance(of, str) and callable(of):
        if low is not None or high is not None:
            raise QueryRejected(
                "low and high are given for a function, whose values must lie in [0, 1]. Leave them out, and scale "
                "the values in the function itself."
            )
        function = StatisticalQuery(of, name)
        return function if given is None else ConditionalMean.of(function, MeanQuery(given))
    if name is not None:
        raise QueryRejected(f"name is {brief(name)}, and only a function takes a name. Leave it out for a text.")
    asked = MeanQuery(of, low, high)
    return asked if given is None else ConditionalMean.of(asked, MeanQuery(given))


def ratio(numerator: RowwiseQuery | str, denominator: RowwiseQuery | str) -> ShareQuery:
    """Build the query for the sum of a row value over rows that meet a condition, divided by the number of such rows.

    The numerator counts only in rows that meet the denominator. So the ratio is the mean of the numerator among these
    rows, in the numerator's units. On a holdout that confirms guesses, and with training rows, a ratio is one query
    with at most one surprise. On a holdout that adds noise, it is two means.

    Args:
        numerator: A condition as a text, or a `mean`, `accuracy`, `error`, `brier` or `risk`.
        denominator: A condition, a function that returns booleans, an `accuracy` (the rows that are predicted right)
            or an `error` (the rows that are missed).

    Raises:
        QueryRejected: If one of them is no mean of row values.

    Examples:
        >>> ratio("late = 1", "carrier = 'UA'").name
        'a conditional mean'
    """
    part, whole = as_rowwise(numerator), as_rowwise(denominator)
    if isinstance(part, MeanQuery) and isinstance(whole, MeanQuery):
        return ConditionalMean.of(part, whole)
    return ShareQuery(part, whole)


@overload
def difference(first: RowwiseQuery | str, second: RowwiseQuery | str) -> DifferenceQuery: ...
@overload
def difference(first: Query[Any] | str, second: Query[Any] | str) -> DifferenceQuery | MetricQuery: ...
def difference(first: Query[Any] | str, second: Query[Any] | str) -> DifferenceQuery | MetricQuery:
    """Build the query for the mean of a paired difference: how much better or larger the first is, row by row.

    One query, with one interval and at most one surprise. Two models that agree on most rows are told apart far more
    sharply than by their two scores: only the rows on which they differ spread.

    Args:
        first: What is subtracted from: a condition as a text, or a `mean`, `accuracy`, `error`, `brier` or `risk`; an
            `auc` without class counts; a `precision`, `recall` or `f1`; or a `metric` such as balanced accuracy or a
            mean squared error.
        second: What is subtracted: one of the same units, with a range of the same width.

    Returns:
        The query; its answer lies between -1 and 1, or between minus and plus the width of the range.

    Raises:
        QueryRejected: If one of them is no mean of row values.

    Examples:
        >>> better = difference("x > 1", "x > 2")
        >>> from everhold.values.base import Schema
        >>> from everhold.values.expressions import ColumnKind
        >>> bound = better.bind(Schema(10, 0, {"x": ColumnKind.NUMBER}))
        >>> sorted((bound.at_zero, bound.at_one))
        [-1.0, 1.0]
    """
    if isinstance(first, MetricQuery) and isinstance(second, MetricQuery):
        return first.minus(second)
    return DifferenceQuery(as_rowwise(first), as_rowwise(second))


def as_rowwise(query: object) -> RowwiseQuery:
    """Return the query if it is a mean of row values. An expression becomes a `mean`.

    Raises:
        QueryRejected: If the query is not a mean of row values. Nothing is charged.
    """
    asked = MeanQuery(query) if isinstance(query, str) else query
    if not isinstance(asked, RowwiseQuery):
        metric = asked.metric if isinstance(asked, MetricQuery) else None
        name = brief(query) if metric is None else metric.name
        if metric is not None and metric.mean:
            raise QueryRejected(
                f"{name} is asked here with a weight or a condition. Give both queries the same weight and where."
            )
        raise QueryRejected(
            f"{name} is no mean of row values. Pass a condition, mean(...), accuracy(...), error(...), brier(...) or "
            "risk(...)."
        )
    return asked
