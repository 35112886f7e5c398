"""The share of rows in which a number lies between two bounds."""

from everhold.errors import QueryRejected
from everhold.queries.means.mean import MeanQuery

__all__ = ["share_between"]


def share_between(of: str, *, at_least: float, at_most: float) -> MeanQuery:
    """The share of rows in which `of` is at least one bound and at most the other; missing numbers do not count.

    It is a mean of row values, so every mechanism answers it, and it may be one of several candidates.
    """
    if not at_least <= at_most:
        raise QueryRejected(f"at_least is {at_least} and at_most is {at_most}. Pass the lower bound first.")
    return MeanQuery(f"({of}) >= {float(at_least)!r} and ({of}) <= {float(at_most)!r}")
