"""Undeclared stratified splits: values of a column that training and sealed rows have in the same shares.

A stratified split divides the rows of each value in one ratio, to less than one row. Training rows then tell how often
each value is sealed, and whatever chance did to the shares in the whole table it did to both parts.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
import scipy

from everhold.errors import DependenceWarning
from everhold.sealing.intake.duckdb_files import file_pattern, spilling_into
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    from numpy.typing import NDArray

    from everhold.values.base import Schema

__all__ = ["chance_of_match", "warn_of_matched_classes"]

_MOST_CLASSES = 1_000  # as many as 'everhold split --stratify' takes
_LOOKED_AT = 20_000  # training rows that say whether a column has more
_FALSE_ALARM = 1e-4  # for all columns of a table together


def chance_of_match(training: NDArray[np.int64], sealed: NDArray[np.int64]) -> float:
    """At least the probability that a split by chance divides every class in one ratio to less than one row.

    Given the class sizes N_c of the whole table, a simple random sample of n of N rows has the counts s with
    probability ``prod C(N_c, s_c) / C(N, n)``. It is summed over all s with every s_c within one row of ``N_c n / N``,
    whatever they add up to, so the sum is no less than the probability.

    Args:
        training: Shape (classes,): training rows of each class.
        sealed: Shape (classes,): sealed rows of each class.

    Returns:
        The probability, at most 1; 1 where a class is divided otherwise.

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
    chosen = np.minimum(some, of)
    gammaln = scipy.special.gammaln
    return np.asarray(gammaln(of + 1.0) - gammaln(chosen + 1.0) - gammaln(of - chosen + 1.0))


def warn_of_matched_classes(folder: Path, schema: Schema) -> None:
    """Warn if label or texts are divided as by a stratified split that was not declared.

    Args:
        folder: Folder of the holdout. Rows that stay in an engine are not looked at.
        schema: The rows.

    Warns:
        DependenceWarning: If training rows tell how often a value is sealed.
    """
    texts = [name for name, kind in schema.asked.items() if kind is ColumnKind.STRING or name == schema.label]
    if schema.stratified is not None or not (folder / HOLDOUT_FILE).exists() or not texts:
        return
    with spilling_into(folder) as connection:
        for name, file in (("holdout", HOLDOUT_FILE), ("training", TRAINING_FILE)):
            connection.read_parquet(file_pattern(folder / file), hive_partitioning=False).create_view(name)
        found = [name for name in texts if _match(connection, quoted(name)) < _FALSE_ALARM / len(texts)]
    if found:
        name = found[0]
        message = (
            f"Training rows and sealed rows have the values of {name!r} in the same shares, to one row in each, as a "
            "stratified split makes them and chance does not. So training rows tell how often each value is sealed. "
            "{remedy}, and answers are for rows with these shares; or split by chance."
        )
        warnings.warn(
            DependenceWarning(
                message.format(remedy=f"Declare stratified={name!r}"),
                for_shell=message.format(remedy=f"Declare --stratified {name}"),
            ),
            stacklevel=2,
        )


def _match(connection: duckdb.DuckDBPyConnection, column: str) -> float:
    """`chance_of_match` of one column; 1 where it has too many values for classes."""
    reader = f"SELECT {column} AS value FROM training LIMIT {_LOOKED_AT}"
    if connection.execute(f"SELECT count(DISTINCT value) FROM ({reader})").fetchall()[0][0] > _MOST_CLASSES:
        return 1.0
    counted = "SELECT CAST({0} AS VARCHAR) AS value, count(*) AS number FROM {1} GROUP BY 1"
    found = connection.execute(
        "SELECT coalesce(t.number, 0), coalesce(s.number, 0) "
        f"FROM ({counted.format(column, 'training')}) AS t FULL JOIN ({counted.format(column, 'holdout')}) AS s "
        "ON t.value IS NOT DISTINCT FROM s.value"
    ).fetchall()
    if not 1 < len(found) <= _MOST_CLASSES:
        return 1.0
    training, sealed = np.array(found, dtype=np.int64).T
    return chance_of_match(training, sealed)
