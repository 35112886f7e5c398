"""Parts of queries: numerator and denominator, groups, and where two arrays differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.sealing.sums import cells_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Cells
    from everhold.values.base import BoundQuery

__all__ = ["apart_of", "named", "parts_of_ratio"]


def apart_of(query: BoundQuery, grid: NDArray[np.int64]) -> tuple[int, Cells]:
    """The total of a difference of two public arrays, and the histogram of the rows where they differ."""
    if query.pair is None or query.pair.apart is None:
        raise ValueError(f"{query.shown!r} is no difference of two arrays; expected one")
    apart = query.pair.apart
    return int(grid.sum()), cells_of(apart.shares(grid), unit=2 * apart.reach)


def named(group_by: str | None) -> str:
    """The column of groups that a procedure needs.

    Raises:
        ValueError: If there is none.
    """
    if group_by is None:
        raise ValueError("a procedure needs groups and no column names them; expected one")
    return group_by


def parts_of_ratio(query: BoundQuery) -> tuple[BoundQuery, ...]:
    """Numerator and denominator; none of what is no ratio."""
    return (query.pair.first, query.pair.second) if query.pair is not None and query.pair.how == "ratio" else ()
