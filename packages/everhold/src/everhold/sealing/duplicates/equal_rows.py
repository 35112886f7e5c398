"""Training rows that are sealed rows, too: equal rows on both sides, compared with what chance gives.

Tables of few values have equal rows by chance, and then the training set says nothing about the sealed rows that the
population does not say. If the two sets are drawn from one population, then which rows are sealed is a random choice
among all rows, whatever the rows are: of a row that is there k times, all copies fall on one side with probability

    p_k = C(m, k)/C(n + m, k) + C(n, k)/C(n + m, k)      (n sealed rows, m training rows),

and k = 2 with n = m means 1/2. More rows on both sides than that were copied. What nobody can find so: copies that were
changed in a column, and rows that were doubled before a random split, which chance could have split so. The latter
show in another way where each is there twice: chance that makes pairs makes triples, too (f_k rows of which there are
k, then E[2 f_2]^2 <= E[f_1] E[6 f_3] by the inequality of Cauchy and Schwarz for the values' frequencies).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everhold.errors import DependenceWarning, HoldoutRejected, warn_caller
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb

    from everhold.values.expressions import ColumnKind

__all__ = [
    "Repetitions",
    "check_equal_rows",
    "distinguishing_column",
    "excess_by_chance",
    "more_pairs_than_chance",
    "repetitions",
]  # fmt: skip

_BY_CHANCE = 1e-5
"""A table of chance repetitions is refused by mistake with at most this probability."""

_TIMES = re.compile(r"DATE|TIMESTAMP")
_PLACES = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*|DATE|TIMESTAMP.*)$")
_FIRST_LOOK = 1_000  # rows
_AT_ONCE = 50  # columns; the engine's time for a statement grows faster than they do
_FEW = 0.01  # share of the sealed rows below which doubled rows are not worth a warning
_DEVIATIONS = 4.0


@dataclass(frozen=True, slots=True)
class Repetitions:
    """Multiplicity of equal rows, in sealed and training rows together.

    Attributes:
        sealed: n, number of sealed rows.
        training: m, number of training rows.
        sizes: For each k: of how many different rows there are k, and how many of them are on both sides.
        shared: Sealed rows that equal a training row.
    """

    sealed: int
    training: int
    sizes: Mapping[int, tuple[int, int]]
    shared: int

    @property
    def share(self) -> float:
        """Share of the sealed rows that equal a training row."""
        return self.shared / self.sealed


def check_equal_rows(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, ColumnKind], *, row_id: str | None
) -> None:
    """Refuse training rows that are sealed rows, too; columns that only number or name the rows are left out once.

    Args:
        connection: With the views ``holdout`` and ``training``.
        columns: Kind of each column, by name.
        row_id: Column that names rows.

    Raises:
        HoldoutRejected: If more rows are on both sides than chance gives.
    """
    doubled = 0.0
    for names in _choices(connection, columns, row_id):
        found = repetitions(connection, {name: columns[name] for name in names})
        if excess_by_chance(found) < _BY_CHANCE:
            raise HoldoutRejected(
                f"{found.shared:,} of the sealed rows ({100.0 * found.share:.3g}%) equal a training row, more than "
                "chance gives; expected training rows that are not sealed; a holdout that was trained on proves "
                "nothing: remove the equal rows from the training set, or say eh.Rows(equal_rows=True) (--equal-rows) "
                "if a "
                "design repeats them; nothing was created",
                shared=found.shared,
                share=found.share,
            )
        if more_pairs_than_chance(found):
            doubled = max(doubled, found.share)
    if doubled >= _FEW:
        warn_caller(
            DependenceWarning(
                f"{100.0 * doubled:.3g}% of the sealed rows equal a training row, and more rows are there twice than "
                "chance gives; rows that were doubled before they were split are known from the training set: remove "
                "the doubles, and split again"
            )
        )


def excess_by_chance(found: Repetitions) -> float:
    """Chernoff's bound on the probability that chance puts so many different rows on both sides.

    Args:
        found: The repetitions.

    Returns:
        ``exp(-F KL(M/F | p))`` for M of F repeated rows on both sides, of which chance puts the share p there; 1 if it
        puts as many or more there.
    """
    repeated = {size: counts for size, counts in found.sizes.items() if size > 1}
    different = sum(values for values, _ in repeated.values())
    if not different:
        return 1.0
    there = sum(both for _, both in repeated.values()) / different
    expected = sum(
        values * _both_sides(size, found.sealed, found.training) for size, (values, _) in repeated.items()
    ) / different  # fmt: skip
    return math.exp(-different * _divergence(there, expected)) if there > expected else 1.0


def _both_sides(size: int, sealed: int, training: int) -> float:
    """Probability that not all of so many equal rows fall on one side."""
    rows = sealed + training
    return 1.0 - sum(math.prod((side - i) / (rows - i) for i in range(min(size, 64))) for side in (sealed, training))


def _divergence(share: float, expected: float) -> float:
    """Kullback-Leibler divergence of two coins."""
    first = share * math.log(share / expected) if share > 0.0 else 0.0
    return first + ((1.0 - share) * math.log((1.0 - share) / (1.0 - expected)) if share < 1.0 else 0.0)


def more_pairs_than_chance(found: Repetitions) -> bool:
    """True if rows are there twice so often, and three times so seldom, that no population explains it."""
    singles, pairs, triples = (found.sizes.get(size, (0, 0))[0] for size in (1, 2, 3))
    surely = max(pairs - _DEVIATIONS * math.sqrt(pairs), 0.0)
    least = 2.0 / 3.0 * surely**2 / max(singles + _DEVIATIONS * math.sqrt(singles), 1.0)
    return triples + _DEVIATIONS * math.sqrt(triples + 1.0) < least - _DEVIATIONS * math.sqrt(least)


def repetitions(connection: duckdb.DuckDBPyConnection, columns: Mapping[str, ColumnKind]) -> Repetitions:
    """Count equal rows of the views ``holdout`` and ``training``; missing values equal each other, and so do nan."""
    mark = f"hash({', '.join(_comparable(name, kind.value) for name, kind in columns.items())})"
    found = connection.execute(
        "SELECT sealed + training AS size, count(*), count(*) FILTER (both_sides), "
        "sum(sealed) FILTER (both_sides), sum(sealed), sum(training) "
        "FROM (SELECT *, sealed > 0 AND training > 0 AS both_sides FROM "
        "(SELECT count(*) FILTER (inside) AS sealed, count(*) FILTER (NOT inside) AS training FROM "
        f"(SELECT {mark} AS mark, true AS inside FROM holdout UNION ALL SELECT {mark}, false FROM training) "
        "GROUP BY mark)) GROUP BY size"
    ).fetchall()
    return Repetitions(
        sealed=sum(int(line[4]) for line in found),
        training=sum(int(line[5]) for line in found),
        sizes={int(size): (int(values), int(both)) for size, values, both, *_ in found},
        shared=sum(int(line[3] or 0) for line in found),
    )


def distinguishing_column(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, ColumnKind], *, row_id: str | None
) -> str | None:
    """The column of most different values in the view ``training`` that neither numbers nor names rows."""
    content = [*next(_choices(connection, columns, row_id), ())]
    _, names = _numbering(connection, content)
    told = [name for name in content if name not in names]
    if not told:
        return None
    different = ", ".join(f"count(DISTINCT {quoted(name)})" for name in told)
    counts = connection.execute(f"SELECT {different} FROM training").fetchall()[0]
    most: str = max(zip(counts, told, strict=True))[1]
    return most


def _comparable(name: str, kind: str) -> str:
    """A value that is the same in both files however they store it."""
    column = quoted(name)
    if kind == "number":
        return f"CAST({column} AS DOUBLE) + 0.0"  # of the two zeros one is left
    return column if kind == "boolean" else f"CAST({column} AS VARCHAR)"


def _choices(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, ColumnKind], row_id: str | None
) -> Iterator[list[str]]:
    """The columns without those that number the rows, and what is left of them without texts that could name rows."""
    numbers, names = _numbering(connection, [name for name in columns if name != row_id])
    content = [name for name in columns if name != row_id and name not in numbers]
    if content:
        yield content
    unnamed = [name for name in content if name not in names]
    if names and unnamed:
        yield unnamed


def _numbering(connection: duckdb.DuckDBPyConnection, columns: list[str]) -> tuple[set[str], set[str]]:
    """Columns that number the training rows, and texts that differ in all of them.

    What numbers rows may do so in each file anew, and then it is equal on both sides without anything being copied:
    whole numbers that all differ, and numbers or times that only rise.
    """
    training = connection.view("training")
    types = {name: str(kind) for name, kind in zip(training.columns, training.types, strict=True) if name in columns}
    places = {name for name, kind in types.items() if _PLACES.match(kind)}
    numbers = {name for name in places if not _TIMES.match(types[name])}
    texts = {name for name, kind in types.items() if kind == "VARCHAR"}
    for some in (f"(SELECT * FROM training LIMIT {_FIRST_LOOK})", "training"):  # few columns are left for all rows
        places = _true_of(connection, places, "{0} > lag({0}) OVER ()", some)
        numbers = _true_of(connection, numbers, "{0} = floor({0})", some)
        different = _all_different(connection, numbers | texts, some)
        numbers, texts = numbers & different, texts & different
    return places | numbers, texts


def _true_of(connection: duckdb.DuckDBPyConnection, names: set[str], condition: str, rows: str) -> set[str]:
    """Columns for which a condition holds in every row in which it can be told."""
    found = set()
    for some in _batches(names):
        conditions = ", ".join(f"{condition.format(quoted(name))} AS c{place}" for place, name in enumerate(some))
        everywhere = [f"bool_and(c{place})" for place in range(len(some))]
        found |= _where_true(connection, some, everywhere, f"(SELECT {conditions} FROM {rows})")
    return found


def _all_different(connection: duckdb.DuckDBPyConnection, names: set[str], rows: str) -> set[str]:
    """Columns with as many values as rows."""
    found = set()
    for some in _batches(names):
        conditions = [f"count(DISTINCT {quoted(name)}) = count(*)" for name in some]
        found |= _where_true(connection, some, conditions, rows)
    return found


def _batches(names: set[str]) -> Iterator[list[str]]:
    listed = sorted(names)
    return (listed[start : start + _AT_ONCE] for start in range(0, len(listed), _AT_ONCE))


def _where_true(
    connection: duckdb.DuckDBPyConnection, names: Sequence[str], conditions: list[str], rows: str
) -> set[str]:
    found = connection.execute(f"SELECT {', '.join(conditions)} FROM {rows}").fetchall()[0]
    return {name for name, holds in zip(names, found, strict=True) if holds}
