"""Makers of queries about expressions and of queries that are made of two: `mean`, `ratio` and `difference`.

The end of the file checks single values that come from JSON or from the command line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, overload

from everhold.arguments import as_float, as_whole, brief
from everhold.errors import QueryRejected
from everhold.queries import Form
from everhold.queries.means.combined import ConditionalMean, DifferenceQuery, ShareQuery
from everhold.queries.means.mean import MeanQuery, StatisticalQuery, name_of
from everhold.queries.metrics.query import MetricQuery
from everhold.queries.query import Query, RowwiseQuery

if TYPE_CHECKING:
    from everhold.queries.means.assisted import AssistedMean
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
    every fault is reported there. On sealed rows faults are never reported, because a report would reveal them at no
    cost:
    nan counts as 0, values are clipped, and a row on which the function fails counts as 0.

    Args:
        of: A condition such as ``"arr_delay > 15 and carrier = 'UA'"``, whose mean is a share, or a number such as
            ``"arr_delay"``, which needs a range. Rows without a value are treated as ``eh.Rows(missing=...)`` says: the
            query is refused, they are left out, or they get a value. A value that is null all the same in a sealed row,
            as after a division by zero, counts as ``low``, and a condition that is null counts as false. Or a function
            from a table (columns by name, NumPy arrays) to one value in [0, 1] per row, each computed from its own row
            alone. Nothing is promised of a function that looks across rows.
        low: Lower end of a number's range: smaller values count as this.
        high: Upper end of a number's range: larger values count as this.
        given: Take the mean only over rows that meet this condition. It is one query if the holdout checks guesses and
            has training rows (see `ratio`), else two.
        name: Name of a function. Functions of one name that are made of the same code and data, and give the same
            values for public rows, are one query. Without a name every new function is a new query. Files and settings
            that the function reads while it runs are not looked at: take another name when they change.
        assisted_by: Column or expression of a judge (a model that labels rows), such as ``"judge"``. Use it where few
            rows have a human label, and a pool of many more rows has the judge's. It must be one of those with which
            the pool was recorded. The better the judge, the narrower the interval; errors of the judge only make it
            wider. A judge that does not help, according to the training rows, is not used.
        pool: Rows that were judged and have no human label, or the name of a recorded pool. The pool has to be recorded
            by `eh.pool`, drawn from the same population, and not used to tune the judge.

    Examples:
        >>> mean("arr_delay", low=-60, high=180)
        MeanQuery(text='arr_delay', low=-60, high=180)
        >>> late = mean(lambda table: table["arr_delay"] > 15, name="late")
    """
    if assisted_by is not None or pool is not None:
        if assisted_by is None or pool is None or given is not None or name is not None:
            raise QueryRejected(
                "assisted_by= and pool= must be passed together, without given= and name=. Pass both of them "
                "alone, or leave both out."
            )
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
    rows, in the numerator's units. On a holdout that checks guesses and has training rows, a ratio is one query with
    at most one surprise (an answer that differs from its guess and is charged). On a holdout that adds noise, it is two
    means.

    Args:
        numerator: A condition as a text, or a `mean`, `accuracy`, `error`, `brier` or `risk`.
        denominator: A condition, a function that returns booleans, an `accuracy` (the rows that are predicted right)
            or an `error` (the rows that are missed).

    Raises:
        QueryRejected: If numerator or denominator is not a mean of row values.

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
    """Build the query for the mean of the first query minus the second one, row by row.

    It is one query, with one interval and at most one surprise (an answer that differs from its guess and is charged).
    For two models that agree on most rows the interval is far narrower than those of their two scores, because only the
    rows on which they differ vary.

    Args:
        first: The query from which ``second`` is subtracted: a condition as a text, or a `mean`, `accuracy`, `error`,
            `brier` or `risk`; an `auc` without class counts; a `precision`, `recall` or `f1`; or a `metric` such as
            balanced accuracy or a mean squared error.
        second: The query that is subtracted. It needs the same units, and a range of the same width.

    Returns:
        The query; its answer lies between -1 and 1, or between minus and plus the width of the range.

    Raises:
        QueryRejected: If one of the queries is not of these kinds, so that there is no difference row by row.

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
    """Return the query if it is a mean of row values, else raise QueryRejected. A text becomes a `mean`.

    Raises:
        QueryRejected: If the query is not a mean of row values. Nothing is charged.
    """
    asked = MeanQuery(query) if isinstance(query, str) else query
    if not isinstance(asked, RowwiseQuery):
        metric = asked.metric if isinstance(asked, MetricQuery) else None
        name = brief(query) if metric is None else metric.name
        if metric is not None and metric.mean:
            raise QueryRejected(
                f"{name} has a weight or a condition that the other query does not have. Give both queries the same "
                "weight= and where=."
            )
        if isinstance(asked, ShareQuery):
            raise QueryRejected(
                f"{name_of(asked)} is a mean among some rows only. Ask it alone, or compare two groups of rows with "
                "risk_difference(...)."
            )
        raise QueryRejected(
            f"{name} is no mean of row values. Pass a condition, mean(...), accuracy(...), error(...), brier(...) or "
            "risk(...)."
        )
    return asked


# Checks of single values from JSON or from the command line, before a query is made of them.

MOST_ITEMS = 10_000
"""Largest number of items in a list of edges, categories or groups."""

_LARGEST = 2**53
_INFINITE = {"inf": math.inf, "-inf": -math.inf}


def refuse(problem: str, expected: str) -> NoReturn:
    """Raise QueryRejected with two sentences: what is wrong, and what to pass.

    Raises:
        QueryRejected: Always. Nothing is charged.
    """
    raise QueryRejected(f"{problem}. Pass {expected}.")


def a_text(value: Any, name: str) -> str:
    """Return the value if it is a text that can be encoded, else raise QueryRejected."""
    if not isinstance(value, str) or any("\ud800" <= sign <= "\udfff" for sign in value):
        refuse(f"{name} is {brief(value)}", "a text")
    return value


def a_number(value: Any, name: str) -> int | float:
    """Return the value if it is a finite number, else raise QueryRejected."""
    number: int | float = value
    if not math.isfinite(as_float(value)):
        refuse(f"{name} is {brief(value)}", "a finite number")
    return number


def a_whole_number(value: Any, name: str) -> int:
    """Return the value as an int if it is whole and at most 2^53 in size, else raise QueryRejected."""
    whole = as_whole(value)
    if whole is None or abs(whole) > _LARGEST:
        refuse(f"{name} is {brief(value)}", "a whole number")
    return whole


def a_truth(value: Any, name: str) -> bool:
    """Return the value if it is True or False, else raise QueryRejected."""
    if not isinstance(value, bool):
        refuse(f"{name} is {brief(value)}", "true or false")
    return value


def a_scalar(value: Any, name: str) -> str | int | float | bool:
    """Return the value if it is a text, a finite number or a truth value, else raise QueryRejected."""
    if isinstance(value, bool):
        return value
    return a_text(value, name) if isinstance(value, str) else a_number(value, name)


def a_list(value: Any, name: str) -> list[Any]:
    """Return a list of texts or numbers, with ``"inf"`` and ``"-inf"`` turned into infinite numbers."""
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        refuse(f"{name} is {brief(value)}", f"a list of at most {MOST_ITEMS:,} texts or numbers")
    items = [a_scalar(item, f"an item of {name}") for item in value]
    if all(isinstance(item, str) and item not in _INFINITE for item in items):
        return items
    return [_INFINITE.get(item, item) if isinstance(item, str) else item for item in items]


def plain(value: Any, of: Callable[[Any, str], Any], name: str) -> Any:
    """Return a value with NumPy types replaced by those of JSON, after the check by ``of``."""
    items = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(items, (list, tuple)):
        items = [_finite(item.item() if hasattr(item, "item") else item) for item in items]
    of(items, name)
    return items


def _finite(item: Any) -> Any:
    return next((text for text, number in _INFINITE.items() if item == number), item)


SCALARS: Mapping[Form, Callable[[Any, str], Any]] = {
    Form.NUMBER: a_number, Form.WHOLE: a_whole_number, Form.TEXT: a_scalar, Form.BEST: a_text, Form.LIST: a_list,
    Form.FLAG: a_truth,
}  # fmt: skip
"""Functions that check single values, by their form."""


def spelled(option: str) -> str:
    """Return the public name of an option, without the underscore that avoids a Python keyword."""
    return option.rstrip("_")
