"""Finds training rows that equal sealed rows, and compares their number with what chance gives.

Tables with few different values have equal rows by chance. Such rows reveal nothing about the sealed rows. If the two
sets are drawn from one population, the sealed rows are a random choice among all rows. Then all copies of a row that
occurs k times are on one side with probability

    p_k = C(m, k)/C(n + m, k) + C(n, k)/C(n + m, k)      (n sealed rows, m training rows),

for example 1/2 for k = 2 and n = m. If more rows are on both sides, some were copied. This test cannot find copies that
were changed in a column, or rows that were doubled before a random split. If each row was doubled, another test finds
it, because a population that gives pairs also gives triples: if f_k rows occur k times, E[2 f_2]^2 <= E[f_1] E[6 f_3]
by the inequality of Cauchy and Schwarz for the values' frequencies.
"""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from everhold.errors import DependenceWarning, HoldoutRejected, warn_caller
from everhold.sealing.intake.duckdb_files import spilling_into, view_files
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import duckdb
    from numpy.typing import NDArray

    from everhold.values.base import Schema

BY_CHANCE = 1e-5
"""A table of chance repetitions is refused by mistake with at most this probability."""

_TIMES = re.compile(r"DATE|TIMESTAMP")
_PLACES = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*|DATE|TIMESTAMP.*)$")
_FIRST_LOOK = 1_000  # rows
_EXACT = 2.0**53  # smaller numbers are exact in memory
_AT_ONCE = 50  # columns; the engine's time for a statement grows faster than they do
_FEW = 0.01  # share of the sealed rows below which doubled rows are not worth a warning
_DEVIATIONS = 4.0


@dataclass(frozen=True, slots=True)
class Repetitions:
    """How often equal rows occur in sealed and training rows together.

    Attributes:
        sealed: n, number of sealed rows.
        training: m, number of training rows.
        sizes: For each k, two numbers: how many different rows occur exactly k times, and how many of these are on
            both sides.
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
    """Refuse training rows that are copies of sealed rows, also if columns that only number or name the rows differ.

    Args:
        connection: Connection with the views ``holdout`` and ``training``.
        columns: Kind of each column, by name.
        row_id: Column that names rows.

    Raises:
        HoldoutRejected: If more rows are on both sides than chance gives.
    """
    doubled = 0.0
    for names in _choices(connection, columns, row_id):
        found = repetitions(connection, f"hash({', '.join(_comparable(name, columns[name].value) for name in names)})")
        if excess_by_chance(found) < BY_CHANCE:
            raise HoldoutRejected(
                f"{found.shared:,} of the sealed rows ({100.0 * found.share:.3g}%) equal a training row, more than by "
                "chance. Remove the equal rows from the training rows. If the design repeats its settings, pass "
                "rows=eh.Rows(equal_rows=True) (--equal-rows).",
                shared=found.shared,
                share=found.share,
            )
        if more_pairs_than_chance(found):
            doubled = max(doubled, found.share)
    if doubled >= _FEW:
        warn_caller(
            DependenceWarning(
                f"{100.0 * doubled:.3g}% of the sealed rows equal a training row, and more "
                "rows occur twice than by chance. Rows that were doubled before the split "
                "are known from the training rows. Remove the duplicates and split again."
            )
        )


def excess_by_chance(found: Repetitions) -> float:
    """Return Chernoff's bound on the probability that a random split puts so many different rows on both sides.

    Args:
        found: Repetitions of rows, as counted.

    Returns:
        ``exp(-F KL(M/F | p))`` if M of F repeated rows are on both sides and chance puts the share p of them there; 1
        if ``M/F <= p``.
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
    """Return the probability that a random split puts at least one of ``size`` equal rows on each side."""
    rows = sealed + training
    return 1.0 - sum(math.prod((side - i) / (rows - i) for i in range(min(size, 64))) for side in (sealed, training))


def _divergence(share: float, expected: float) -> float:
    """Return the Kullback-Leibler divergence of two Bernoulli distributions."""
    first = share * math.log(share / expected) if share > 0.0 else 0.0
    return first + ((1.0 - share) * math.log((1.0 - share) / (1.0 - expected)) if share < 1.0 else 0.0)


def more_pairs_than_chance(found: Repetitions) -> bool:
    """Return whether so many rows occur exactly twice, and so few three times, that sampling cannot explain it."""
    singles, pairs, triples = (found.sizes.get(size, (0, 0))[0] for size in (1, 2, 3))
    surely = max(pairs - _DEVIATIONS * math.sqrt(pairs), 0.0)
    least = 2.0 / 3.0 * surely**2 / max(singles + _DEVIATIONS * math.sqrt(singles), 1.0)
    return triples + _DEVIATIONS * math.sqrt(triples + 1.0) < least - _DEVIATIONS * math.sqrt(least)


def repetitions(connection: duckdb.DuckDBPyConnection, mark: str) -> Repetitions:
    """Count rows of the views ``holdout`` and ``training`` that are equal in the SQL expression `mark`."""
    found = connection.execute(
        "SELECT sealed + training AS size, count(*), count(*) FILTER (both_sides), sum(sealed) FILTER (both_sides), "
        "sum(sealed), sum(training) FROM (SELECT *, sealed > 0 AND training > 0 AS both_sides FROM (SELECT count(*) "
        f"FILTER (inside) AS sealed, count(*) FILTER (NOT inside) AS training FROM (SELECT {mark} AS mark, true AS "
        f"inside FROM holdout UNION ALL SELECT {mark}, false FROM training) GROUP BY mark)) GROUP BY size"
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
    """Return the column with the most different training values that neither numbers nor names rows, or None."""
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
    """Return SQL for a value of a column that is the same in both files if only the storage types differ."""
    column = quoted(name)
    if kind == "number":
        return f"CAST({column} AS DOUBLE) + 0.0"  # of the two zeros one is left
    return column if kind == "boolean" else f"CAST({column} AS VARCHAR)"


def _choices(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, ColumnKind], row_id: str | None
) -> Iterator[list[str]]:
    """Yield sets of columns: all without row numbers, then also without texts that could be names of rows."""
    numbers, names = _numbering(connection, [name for name in columns if name != row_id])
    content = [name for name in columns if name != row_id and name not in numbers]
    if content:
        yield content
    unnamed = [name for name in content if name not in names]
    if names and unnamed:
        yield unnamed


def _numbering(connection: duckdb.DuckDBPyConnection, columns: list[str]) -> tuple[set[str], set[str]]:
    """Return the columns that number the training rows, and the text columns that differ in every row.

    Such numbers may start again in each file, so they are equal on both sides although no row was copied. They are
    whole numbers that all differ, and numbers or times that only rise.
    """
    training = connection.view("training")
    types = {name: str(kind) for name, kind in zip(training.columns, training.types, strict=True) if name in columns}
    places = {name for name, kind in types.items() if _PLACES.match(kind)}
    numbers = {name for name in places if not _TIMES.match(types[name])}
    texts = {name for name, kind in types.items() if kind == "VARCHAR"}
    cells = {name: quoted(name) for name in texts} | {name: f"epoch({quoted(name)})" for name in places - numbers}
    cells |= {name: f"{quoted(name)}::DOUBLE" for name in numbers}
    listed = ", ".join(f"{cell} AS c{place}" for place, cell in enumerate(cells.values()))
    look = connection.execute(f"SELECT {listed or 'NULL'} FROM training LIMIT {_FIRST_LOOK}").fetchnumpy()
    for name, values in zip(cells, look.values(), strict=False):
        known = np.ma.compressed(values)  # few columns are left for all rows
        if name in places and np.any(known[1:] < known[:-1]):
            places.remove(name)
        if name in numbers:
            exact = known[np.abs(known) < _EXACT]
            if np.any(exact % 1) or len(np.unique(exact)) < len(exact):
                numbers.remove(name)
        if name in texts and len(set(known.tolist())) < len(known):
            texts.remove(name)
    true, names = set[tuple[str, str]](), sorted(places | numbers | texts)
    for start in range(0, len(names), _AT_ONCE):
        columns, tests = [], {}
        for place, name in enumerate(names[start : start + _AT_ONCE]):
            column = quoted(name)
            columns.append(f"{column} AS c{place}")
            if name in places:
                columns.append(f"{column} > lag({column}) OVER () AS rises{place}")
                tests["rises", name] = f"bool_and(rises{place})"
            if name in numbers:
                tests["whole", name] = f"bool_and(c{place} = floor(c{place}))"
            if name in numbers or name in texts:
                tests["differs", name] = f"count(DISTINCT c{place}) = count(*)"
        sql = f"SELECT {', '.join(tests.values())} FROM (SELECT {', '.join(columns)} FROM training)"
        true |= {test for test, holds in zip(tests, connection.execute(sql).fetchall()[0], strict=True) if holds}
    places = {name for name in places if ("rises", name) in true}
    numbers = {name for name in numbers if {("whole", name), ("differs", name)} <= true}
    return places | numbers, {name for name in texts if ("differs", name) in true}


# Undeclared stratified splits: values of a column that training and sealed rows have in the same shares.
#
# A stratified split divides the rows of each value in one ratio, to less than one row. Training rows then tell how
# often
# each value is sealed, and whatever chance did to the shares in the whole table it did to both parts.

_MOST_CLASSES = 1_000  # as many as 'everhold split --stratify' takes
_LOOKED_AT = 20_000  # training rows that say whether a column has more
_FALSE_ALARM = 1e-4  # for all columns of a table together


def chance_of_match(training: NDArray[np.int64], sealed: NDArray[np.int64]) -> float:
    """Bound the probability that a random split divides every class in one ratio up to one row.

    Given the class sizes N_c of the whole table, a simple random sample of n of N rows has the counts s with
    probability ``prod C(N_c, s_c) / C(N, n)``. It is summed over all s with every s_c within one row of ``N_c n / N``,
    whatever they add up to, so the sum is no less than the probability.

    Args:
        training: Number of training rows of each class, shape (classes,).
        sealed: Number of sealed rows of each class, shape (classes,).

    Returns:
        The bound, at most 1. It is 1 if some class is not divided in this ratio.

    Examples:
        >>> chance_of_match(np.full(50, 100), np.full(50, 100)) < 1e-50
        True
        >>> chance_of_match(np.array([100, 100]), np.array([100, 100])) > 0.01
        True
        >>> chance_of_match(np.array([100, 102]), np.array([102, 100]))
        1.0
    """
    sizes, rows = training + sealed, int(sealed.sum())
    expected = sizes * (rows / int(sizes.sum()))
    if np.any(np.abs(sealed - expected) >= 1.0):
        return 1.0
    whole = np.floor(expected)
    ways = np.logaddexp(
        _log_choices(sizes, whole), np.where(expected > whole, _log_choices(sizes, whole + 1.0), -math.inf)
    )
    return math.exp(min(float(ways.sum() - _log_choices(sizes.sum(keepdims=True), np.array([float(rows)]))[0]), 0.0))


def _log_choices(of: NDArray[np.int64], some: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of binomial coefficients ``C(of, some)``, shape (classes,)."""
    chosen = np.minimum(some, of)
    gammaln = scipy.special.gammaln
    return np.asarray(gammaln(of + 1.0) - gammaln(chosen + 1.0) - gammaln(of - chosen + 1.0))


def warn_of_matched_classes(folder: Path, schema: Schema) -> None:
    """Warn if classes of the label, or values of a text column, are divided as by an undeclared stratified split.

    Args:
        folder: Folder of the holdout. Rows that stay in an engine are not looked at.
        schema: Schema of the rows.

    Warns:
        DependenceWarning: If training rows tell how often a value is sealed.
    """
    texts = [name for name, kind in schema.asked.items() if kind is ColumnKind.STRING or name == schema.label]
    if schema.stratified is not None or not (folder / HOLDOUT_FILE).exists() or not texts:
        return
    with spilling_into(folder) as connection:
        for name, file in (("holdout", HOLDOUT_FILE), ("training", TRAINING_FILE)):
            view_files(connection, name, folder / file)
        found = [name for name in texts if _match(connection, quoted(name)) < _FALSE_ALARM / len(texts)]
    if found:
        name = found[0]
        message = (
            f"Training rows and sealed rows have the values of {name!r} in the same shares, up to one row for each "
            "value, as after a stratified split. So training rows tell how often each value is sealed. {remedy}, or "
            "split again at random."
        )
        warnings.warn(
            DependenceWarning(
                message.format(remedy=f"Declare stratified={name!r}"),
                for_shell=message.format(remedy=f"Declare --stratified {name}"),
            ),
            stacklevel=2,
        )


def _match(connection: duckdb.DuckDBPyConnection, column: str) -> float:
    """Return the `chance_of_match` of one column's values, or 1 if the column has too many different values."""
    reader = f"SELECT {column} AS value FROM training LIMIT {_LOOKED_AT}"
    if connection.execute(f"SELECT count(DISTINCT value) FROM ({reader})").fetchall()[0][0] > _MOST_CLASSES:
        return 1.0
    value = f"SELECT CAST({column} AS VARCHAR) AS value"
    found = connection.execute(
        f"SELECT count(*) FILTER (NOT sealed), count(*) FILTER (sealed) FROM ({value}, false AS sealed FROM training "
        f"UNION ALL {value}, true FROM holdout) GROUP BY value"
    ).fetchall()
    if not 1 < len(found) <= _MOST_CLASSES:
        return 1.0
    training, sealed = np.array(found, dtype=np.int64).T
    return chance_of_match(training, sealed)
