"""Columns of texts that may not mean what they say: numbers with a few other texts, and words for missing values.

The training rows alone are looked at. The steward is told which columns lack values in sealed rows alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.arguments import brief
from everhold.errors import ColumnWarning, warn_caller
from everhold.sealing.intake.checks import is_missing
from everhold.sealing.intake.duckdb_files import file_pattern, spilling_into
from everhold.sealing.storage import TRAINING_FILE
from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    import duckdb

__all__ = ["lacking_rows", "warn_of_missing", "warn_of_texts"]

_MOSTLY = 0.99  # share of numbers among the texts of a column from which on it seems to be one of numbers
_AT_ONCE = 25
_MISSING = ("na", "n/a", "#n/a", "<na>", "nan", "null")  # 'none' and '-' may be categories
_NUMBER = r"[-+]?(\d+|\d{1,3}([.,]\d{3})+)?([.,]\d*)?([eE][-+]?\d+)?"


def warn_of_texts(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, ColumnKind], *, row_id: str | None
) -> None:
    """Warn of texts that are numbers nearly everywhere, or words for missing values.

    Args:
        connection: With the view ``training``.
        columns: Kind of each column, by name.
        row_id: Column that names rows, of which nobody is warned.

    Warns:
        ColumnWarning: If there are such columns.
    """
    names = [name for name, kind in columns.items() if kind is ColumnKind.STRING and name != row_id]
    words = ", ".join(map(repr, _MISSING))
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        counted = []
        for name in some:
            text = f"trim({quoted(name)}::VARCHAR)"
            missing = f"lower({text}) IN ({words})"
            known = f"({text} <> '' AND NOT {missing})"
            number = f"(regexp_full_match({_bare(text)}, '{_NUMBER}') AND regexp_matches({text}, '\\d'))"
            counted += [
                f"count(*) FILTER ({known})", f"count(*) FILTER ({missing})",
                f"count(*) FILTER ({known} AND {number})",
                f"count(*) FILTER ({known} AND regexp_full_match({text}, '0\\d+'))",
                f"min({text}) FILTER ({known} AND NOT {number})",
            ]  # fmt: skip
        found = connection.execute(f"SELECT {', '.join(counted)}, count(*) FROM training").fetchall()[0]
        rows = found[-1]
        for place, name in enumerate(some):
            texts, absent, numbers, codes, other = found[5 * place : 5 * place + 5]
            if texts and numbers >= _MOSTLY * texts and not codes:
                share = "all" if numbers == texts else f"{1_000 * numbers // texts / 10:g}%"
                warn_caller(ColumnWarning(
                    f"The column {name!r} holds text, and {share} of its training values are numbers"
                    f"{'' if other is None else f', but not {brief(other)}'}. Write numbers without other signs, and "
                    "leave out what is missing, if it is meant as a number."
                ))  # fmt: skip
            elif absent:
                warn_caller(ColumnWarning(
                    f"The column {name!r} holds text, and {absent:,} of {rows:,} training rows hold a word such as "
                    "'NA', which is a text like others. Leave the value out, if it is meant as missing."
                ))  # fmt: skip


def warn_of_missing(names: Collection[str], *, of: str = "Sealed rows") -> None:
    """Tell the steward of columns that sealed rows alone lack values of, so that queries that read them are refused.

    Args:
        names: The columns, in their order.
        of: Which rows.

    Warns:
        ColumnWarning: If there are such columns.
    """
    if found := list(names):
        named = ", ".join(map(repr, found[:5])) + (" and others" if len(found) > 5 else "")
        warn_caller(ColumnWarning(
            f"{of} lack values of {named}, and training rows do not show it. Queries that read one are refused, unless "
            f"they ask about rows that have a value, as with given={brief(f'{quoted(found[0])} is not null')}, or the "
            "holdout is created with rows=eh.Rows(missing=...), which says what counts."
        ))  # fmt: skip


def lacking_rows(folder: Path, columns: Mapping[str, ColumnKind]) -> dict[str, int]:
    """Number of training rows without a value, by column, where there are some.

    Args:
        folder: With the file of the training rows.
        columns: Kind of each column, by name.
    """
    names, found = list(columns), dict[str, int]()
    with spilling_into(folder) as connection:
        rows = connection.read_parquet(file_pattern(folder / TRAINING_FILE), hive_partitioning=False)
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            counts = rows.aggregate(", ".join(f"count(*) FILTER ({is_missing(name, columns)})" for name in some))
            found |= dict(zip(some, counts.fetchall()[0], strict=True))
    return {name: int(count) for name, count in found.items() if count}


def _bare(text: str) -> str:
    """A text without blanks and the signs of currencies and percentages."""
    return f"regexp_replace({text}, '[\\s\\pZ$€£¥%]', '', 'g')"
