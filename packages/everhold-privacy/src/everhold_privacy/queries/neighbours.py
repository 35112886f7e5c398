"""Search for two tables that differ in one row, on which a statistic moves further than it declares."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from everhold.values.base import Table

_PAIRS = 48
_MOST_SECONDS = 5.0
_LEAST_PAIRS = 8
_MOST_POOLED = 2_000  # public rows that data sets are drawn from
_FAR = 1e12


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Two data sets that differ in one row, and on which a statistic differs by more than was claimed.

    Attributes:
        difference: Difference of the statistic between the two data sets.
        kind: Kind of the two data sets, in words.
    """

    difference: float
    kind: str


def counterexample(
    statistic: Callable[[Table], float], table: Table, *, rows: int, allowed: float, label: str | None = None
) -> Counterexample | None:
    """Look for a pair of neighbours on which a statistic differs by more than is allowed.

    None found proves nothing. The pairs are the same every time.

    Args:
        statistic: The function exactly as it is later computed from the sealed rows, including what it returns if the
            analyst's own function fails.
        table: Public rows, from which the pairs of data sets are drawn.
        rows: Number of rows of each data set.
        allowed: The largest difference that the statistic may show between neighbours.
        label: Column that never misses a value and holds the values of the public rows only.
    """
    end = time.monotonic() + _MOST_SECONDS
    for done, (kind, one, other) in enumerate(neighbours(table, rows=rows, label=label)):
        difference = abs(statistic(one) - statistic(other))
        if not difference <= allowed:
            return Counterexample(difference, kind)
        if done + 1 >= _LEAST_PAIRS and time.monotonic() > end:
            return None
    return None


def neighbours(table: Table, *, rows: int, label: str | None = None) -> Iterator[tuple[str, Table, Table]]:
    """Yield pairs of data sets that differ in one row, with words for their kind.

    Ordinary ones are drawn from the public rows with replacement. Others repeat one row, or two kinds of rows with 1,
    2, half or all but 1 of the second kind, so that the replaced row tips a boundary. The rows that are swapped are
    public ones, copies with another label, and copies with an extreme, a far or a missing value in one column.
    """
    rng = np.random.default_rng(0)  # the same pairs every time: a refusal can be looked into
    pool = _Pool.of(table, rng, label=label)
    for turn in range(_PAIRS):
        old, new = pool.swap(rng, turn)
        kind, index = _arrangement(turn, old=old, new=new, ordinary=pool.ordinary, rows=rows, rng=rng)
        place = (0, rows - 1, int(rng.integers(rows)))[turn % 3]
        one, other = index.copy(), index
        one[place], other[place] = old, new
        yield f"{kind}; {pool.kinds[new]}", pool.take(one), pool.take(other)


def _arrangement(
    turn: int, *, old: int, new: int, ordinary: int, rows: int, rng: np.random.Generator
) -> tuple[str, NDArray[np.int64]]:
    """Return indices of pool rows that form a data set, and a text that describes it, before one row is replaced."""
    form = turn % 4
    if form == 0:
        return "ordinary rows", rng.integers(ordinary, size=rows)
    if form == 1:
        return "equal rows", np.full(rows, old)
    count = min((1, 2, rows // 2, rows - 1)[turn // 4 % 4], rows)
    index = np.full(rows, old)
    index[rng.permutation(rows)[:count] if form == 2 else np.arange(rows - count, rows)] = new
    return "two kinds of rows", index


@dataclass(frozen=True, slots=True)
class _Pool:
    """Rows from which test data sets are drawn: public rows, and copies of some with one value changed.

    Attributes:
        columns: Values by name.
        ordinary: Number of ordinary rows.
        changed: For each changed copy, its position and the position of the row that was copied.
        kinds: Kind of each row, in words.
    """

    columns: Mapping[str, NDArray[Any]]
    ordinary: int
    changed: tuple[tuple[int, int], ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, rng: np.random.Generator, *, label: str | None) -> _Pool:
        """Build a pool from public rows, and copies with another value in one column."""
        size = len(next(iter(table.values())))
        ordinary = min(size, _MOST_POOLED)
        kept = rng.permutation(size)[:ordinary]
        changes = [
            (name, value, words)
            for name, column in table.items()
            for value, words in _extremes(column, name, is_label=name == label)
        ]
        copied = rng.integers(ordinary, size=len(changes))
        index = np.concatenate([kept, kept[copied]])
        columns = {name: column[index] for name, column in table.items()}
        for place, (name, value, _) in enumerate(changes, start=ordinary):
            columns[name][place] = value
        kinds = ("an ordinary row",) * ordinary + tuple(words for _, _, words in changes)
        pairs = tuple(zip(range(ordinary, len(kinds)), copied.tolist(), strict=True))
        return cls(columns, ordinary, pairs, kinds)

    def swap(self, rng: np.random.Generator, turn: int) -> tuple[int, int]:
        """Return the index of the row to replace, and of its replacement."""
        if not self.changed or turn % 8 in (0, 5):
            one, other = rng.integers(self.ordinary, size=2)
            return int(one), int(other)
        new, copied = self.changed[int(rng.integers(len(self.changed)))]
        if turn % 8 in (3, 6):  # two changed rows, such as the least and the largest value
            copied = self.changed[int(rng.integers(len(self.changed)))][0]
        return copied, new

    def take(self, index: NDArray[np.int64]) -> Table:
        """Return a data set of these rows as read-only columns."""
        taken = {name: column[index] for name, column in self.columns.items()}
        for column in taken.values():
            column.flags.writeable = False
        return taken


def _extremes(column: NDArray[Any], name: str, *, is_label: bool) -> Iterator[tuple[Any, str]]:
    """Yield extreme values for a column, each with a text that describes a row with this value.

    `is_label` says whether the column is the label. A label takes only values that public rows have, and is never
    missing.
    """
    if column.dtype.kind == "b":
        yield from ((value, f"{name} is {str(value).lower()}") for value in (False, True))
    elif column.dtype.kind != "f" or is_label:  # sealed numbers are floats, whole ones are labels
        known = dict.fromkeys(value for value in column[:_MOST_POOLED].tolist() if value is not None)
        yield from ((value, f"another value of {name}") for value in list(known)[:4])
        if column.dtype.kind == "O" and not is_label:
            yield None, f"{name} is missing"
    else:
        finite = column[np.isfinite(column)]
        if len(finite):
            yield finite.min(), f"the least value of {name}"
            yield finite.max(), f"the largest value of {name}"
        yield from ((value, f"{name} is far away") for value in (-_FAR, _FAR))
        yield np.nan, f"{name} is missing"
