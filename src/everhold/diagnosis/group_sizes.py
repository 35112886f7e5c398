"""Do the sizes of declared groups carry information? Then answers hold for groups of these sizes only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.diagnosis.outcomes import Outcome, outcomes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.diagnosis.columns import OpenRows

__all__ = ["informative_sizes"]

_LEVEL = 1e-3  # all outcomes together
_MOST_OUTCOMES = 8  # besides the label
_MOST_GROUPS = 10_000
_SHUFFLES = 9_999
_AT_ONCE = 4_000_000  # numbers that are shuffled at once


def informative_sizes(rows: OpenRows, declared: DependenceModel, *, label: str | None) -> tuple[str, ...]:
    """Outcomes whose averages over groups go together with the sizes of the groups; the label first.

    The correlation of size and average over groups is held against those of shuffled averages. Averages of large groups
    vary less, which makes it smaller.

    Args:
        rows: Open rows.
        declared: What is declared; only groups of a column have sizes.
        label: The outcome that is always looked at.
    """
    column = None if declared.group_column is None else rows.column(declared.group_column)
    if column is None:
        return ()
    outcomes = [each for each in outcomes_of(rows, label=label, most=_MOST_OUTCOMES) if each.column != column.name]
    found = [outcome.name for outcome in outcomes if _goes_together(column.ranks, outcome, _LEVEL / len(outcomes))]
    return tuple(dict.fromkeys(found))


def _goes_together(groups: NDArray[np.int64], outcome: Outcome, level: float) -> bool:
    of_row = groups[outcome.present]
    values, of_row = outcome.values[of_row >= 0], of_row[of_row >= 0]
    counts = np.bincount(of_row)
    sizes = counts[counts > 0][:_MOST_GROUPS].astype(np.float64)
    means = (np.bincount(of_row, weights=values)[counts > 0] / counts[counts > 0])[:_MOST_GROUPS]
    if len(sizes) < 3 or not sizes.std() > 0.0 or not means.std() > 1e-9:
        return False
    sizes, means = (sizes - sizes.mean()) / sizes.std(), (means - means.mean()) / means.std()
    seen = abs(float(np.mean(sizes * means)))
    if seen * len(sizes) ** 0.5 < 3.0:  # shuffling would only confirm it
        return False
    rng, more, left = np.random.default_rng(0), 0, _SHUFFLES
    while left and (more + 1) / (_SHUFFLES + 1) <= level:
        number = min(left, max(1, _AT_ONCE // len(sizes)))
        shuffled = rng.permuted(np.broadcast_to(means, (number, len(means))), axis=1)
        more, left = more + int(np.count_nonzero(np.abs(shuffled @ sizes) / len(sizes) >= seen - 1e-12)), left - number
    return (more + 1) / (_SHUFFLES + 1) <= level
