"""A ratio of two means, one query where the mechanism takes it as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.queries.means.conditional_mean import ConditionalMean
from everhold.queries.means.mean import MeanQuery
from everhold.queries.means.shares import ShareQuery
from everhold.queries.metrics.difference import as_rowwise

if TYPE_CHECKING:
    from everhold.queries.means.batch import RowwiseQuery


def ratio(numerator: RowwiseQuery | str, denominator: RowwiseQuery | str) -> ShareQuery:
    """The sum of one row value over the rows that meet a condition, over the number of these rows.

    The numerator is understood within the denominator: it counts only in rows where the denominator holds. So the ratio
    is the mean of the numerator among those rows, in its own units. On a holdout that confirms guesses, and with
    training rows, it is one query with at most one surprise; on one that rests on noise it is two means.

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
