"""Near copies: rows whose measurements are far nearer to those of another row than to all further ones.

The distances r_1 < r_2 < ... of a row to its neighbours have a law that does not depend on how rows are spread: where
rows are independent and locally as dense everywhere, ``(r_j / r_{j+1})^(j d)`` is uniform on [0, 1] in d dimensions. A
large gap behind the first neighbours is therefore rare, and a copy with little noise makes one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from everhold.diagnosis.columns import outcomes_of
from everhold.diagnosis.findings import GroupFinding
from everhold.diagnosis.resemblance import within_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from everhold.diagnosis.groups_and_orders import CheckInputs

NEAR_COPIES = "(rows that are nearly equal)"

_MOST_ROWS, _FEWEST_ROWS = 30_000, 200
_MOST_COLUMNS, _FEWEST_COLUMNS = 8, 2
_DIFFERENT = 0.5  # of the rows have values of their own in a column of measurements
_NEIGHBOURS = 5
_GAP = 5.0  # times as far as the neighbour before
_SHARE = 0.35  # of rows with such a gap; on a line every fourth independent row has one


class CopiesFinding(GroupFinding):
    """Of rows that are nearly equal in all measurements."""

    __slots__ = ()

    @property
    def suspect(self) -> bool:
        """Chance makes no such gaps, whatever the label."""
        return self.clear

    def suggestion(self, *, shell: bool = False) -> str | None:
        """A number for each original."""
        groups = "--groups original" if shell else "dependence=eh.Groups('original')"
        return f"{groups}, a column that gives all copies of one row the same number, with all of them on one side"

    def claim(self, alike: str, advice: str | None, would: str) -> str:
        """They may be copies of one row with a little noise."""
        return (
            f"many training rows are nearly equal to another one in all measurements and resemble it {alike}; if they "
            f"are copies with noise, such as augmented or repeated measurements, declare {advice}{would}"
        )


def near_copies(inputs: CheckInputs) -> Iterator[CopiesFinding]:
    """At most one finding: groups of rows that are nearly equal, with the outcome of the label that is most alike."""
    copies = _numbered(inputs)
    if copies is None:
        return
    counts = Counter(np.bincount(copies).tolist())
    sizes, rows = tuple(sorted(counts.items())), len(copies)
    squares = sum(size * size * number for size, number in sizes)
    outcomes = outcomes_of(inputs.rows, label=inputs.label, most=0)
    for outcome in outcomes:
        present = outcome.present[:rows]
        values = outcome.values[: int(np.count_nonzero(present))]
        alike = within_groups(np.unique(copies[present], return_inverse=True)[1], values)
        if alike is None or alike.p_value * len(outcomes) > 1.0:
            continue
        yield CopiesFinding(
            column=NEAR_COPIES,
            role="group",
            outcome=outcome.name,
            state=outcome.column,
            of_label=True,
            correlation=alike.correlation,
            standard_error=alike.standard_error,
            p_value=alike.p_value * len(outcomes),
            design_effect=1.0 + (squares / rows - 1.0) * alike.correlation,
            promised=inputs.promised,
            groups=sum(counts.values()),
            sizes=sizes,
            states=outcome.states,
        )
        return


def _numbered(inputs: CheckInputs) -> NDArray[np.int64] | None:
    """The number of the original of each row; None where rows have no more near neighbours than chance gives."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    rows = min(inputs.rows.rows, _MOST_ROWS)
    points = [
        column.ranks[:rows] / float(column.ranks.max()) for column in inputs.rows.columns
        if column.name != inputs.label and column.kind in ("whole", "number")
        and int(column.ranks.max(initial=-1)) + 1 >= max(_DIFFERENT * inputs.rows.rows, 2)
        and bool(np.all(column.ranks >= 0)) and not bool(np.all(np.abs(np.diff(column.ranks)) == 1))
    ]  # fmt: skip
    if rows < _FEWEST_ROWS or len(points) < _FEWEST_COLUMNS:
        return None
    measured = np.transpose(points[:_MOST_COLUMNS])
    found = KDTree(measured).query(measured, _NEIGHBOURS + 1)
    near, who = (np.asarray(part)[:, 1:] for part in found)
    gaps = near[:, 1:] > _GAP * np.maximum(near[:, :-1], 1e-12)
    if float(np.mean(gaps.any(axis=1))) < _SHARE:
        return None
    last = np.where(gaps.any(axis=1), gaps.shape[1] - 1 - np.argmax(gaps[:, ::-1], axis=1), -1)
    linked = np.arange(gaps.shape[1] + 1)[None, :] <= last[:, None]
    row, place = np.nonzero(linked)
    links = coo_matrix((np.ones(len(row)), (row, who[row, place])), shape=(rows, rows))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)
