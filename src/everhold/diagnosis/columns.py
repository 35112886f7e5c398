"""Columns of open rows as ranks: all that the diagnosis looks at."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from everhold.sealing.engine import POSITION, SEALED, engine_errors_hidden, locked_connection
from everhold.values.expressions.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Column", "Kind", "OpenFile", "OpenRows", "columns_of"]

_MOST_COLUMNS = 60
_MOST_COMMON = 5

Kind = Literal["whole", "number", "text", "time"]
"""What the values of a column are; "number" has parts or is a boolean."""

_KINDS: tuple[tuple[Kind, str], ...] = (
    ("whole", r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER"),
    ("number", r"BOOLEAN|FLOAT|DOUBLE|DECIMAL\(.*\)"),
    ("text", r"VARCHAR|ENUM.*|UUID"),
    ("time", r"DATE|TIMESTAMP.*"),
)
_KINDS_OF_ARRAYS: dict[str, Kind] = {"i": "whole", "u": "whole", "b": "number", "f": "number", "M": "time"}


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column by the order of its values, which is all that is needed.

    Attributes:
        name: Its name.
        kind: What its values are.
        ranks: Rank of each value among the different ones, from 0; -1 where it is missing; int64, shape (rows,).
        values: The text of some ranks, for a label that is text.
        span: Of whole numbers, the largest minus the least.
    """

    name: str
    kind: Kind
    ranks: NDArray[np.int64]
    values: Mapping[int, str]
    span: float = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class OpenRows:
    """Open rows, in the order of their file.

    Attributes:
        rows: Number of rows.
        columns: The columns that can be looked at.
    """

    rows: int
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column | None:
        """The column of a name; None if it cannot be looked at."""
        return next((column for column in self.columns if column.name == name), None)


def columns_of(table: Mapping[str, ArrayLike]) -> OpenRows:
    """Open rows from arrays; the kind is that of the NumPy type, nan, NaT and None are missing.

    Raises:
        ValueError: If there is no column.
    """
    columns = tuple(_column_of(str(name), np.asarray(values)) for name, values in table.items())
    if not columns:
        raise ValueError("there is no column to look at; expected at least one")
    return OpenRows(len(columns[0].ranks), columns)


def _column_of(name: str, values: NDArray[Any]) -> Column:
    kind = _KINDS_OF_ARRAYS.get(values.dtype.kind, "text")
    missing = _missing(values, kind)
    present = values[~missing]
    different, inverse = np.unique(present.astype(str) if kind == "text" else present, return_inverse=True)
    ranks = np.full(len(values), -1, dtype=np.int64)
    ranks[~missing] = inverse
    span = float(different[-1]) - float(different[0]) if kind == "whole" and len(different) else math.inf
    return Column(name, kind, ranks, dict(enumerate(different.tolist())) if kind == "text" else {}, span)


def _missing(values: NDArray[Any], kind: Kind) -> NDArray[np.bool_]:
    if kind == "text":
        return np.array([value is None for value in values.tolist()], dtype=bool)
    if kind == "time":
        return np.asarray(np.isnat(values))
    return np.asarray(np.isnan(values)) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)


class OpenFile:
    """A file of open rows; the engine is locked to it, so that nothing else can be read.

    Args:
        path: A Parquet file as `everhold.sealing.files.seal_rows` writes it.
        label: Column that is always looked at.

    Attributes:
        rows: Number of rows of the file.
        kinds: Kind of each column that can be looked at, by name.
        notes: What is left out, in words.
    """

    def __init__(self, path: Path, *, label: str | None = None) -> None:
        self._label = label
        self._connection = locked_connection(path)
        try:
            self.rows = int(self._fetch(f"SELECT count(*) FROM {SEALED}")[0][0])
            types = dict(self._fetch(f"SELECT column_name, column_type FROM (DESCRIBE {SEALED})"))
        except BaseException:
            self._connection.close()
            raise
        del types[POSITION]
        kinds = {name: kind for name, type_ in types.items() if (kind := _kind(type_)) is not None}
        chosen = sorted(kinds, key=lambda name: name != label)[:_MOST_COLUMNS]
        self.kinds: dict[str, Kind] = {name: kind for name, kind in kinds.items() if name in chosen}
        left = len(types) - len(self.kinds)
        self.notes = (f"{left} of {len(types)} columns were not looked at",) if left else ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def first(self, most: int, kinds: Collection[Kind] = get_args(Kind)) -> OpenRows:
        """The columns of some kinds in the first rows of the file, at most so many; a span is that for so many rows."""
        names = [name for name, kind in self.kinds.items() if kind in kinds]
        read = self._read(names, f"{POSITION} < {most}")
        share = min(most / max(self.rows, 1), 1.0)  # of a shuffled index a sample has the span of the whole
        return OpenRows(read.rows, tuple(replace(column, span=column.span * share) for column in read.columns))

    def whole_groups(self, name: str, others: Sequence[str], most: int) -> OpenRows:
        """A column and others, in all rows of about so many rows' worth of values of the column, picked by a hash."""
        every = max(1, math.ceil(self.rows / most))
        column = quoted(name)
        return self._read((name, *others), f"{column} IS NOT NULL AND hash({column}) % {every} = 0")

    def _read(self, names: Sequence[str], where: str) -> OpenRows:
        if not names:
            return OpenRows(0, ())
        listed = ", ".join(_rank_sql(name, self.kinds[name]) + f" AS r{number}" for number, name in enumerate(names))
        sql = f"SELECT {listed} FROM (SELECT * FROM {SEALED} WHERE {where}) ORDER BY {POSITION}"
        with engine_errors_hidden:
            found = self._connection.execute(sql).fetchnumpy()
        ranks = [np.asarray(found[f"r{number}"]).astype(np.int64) for number in range(len(names))]
        columns = [
            Column(name, self.kinds[name], column, self._values(name, where), span)
            for name, column, span in zip(names, ranks, self._spans(names, where), strict=True)
        ]
        return OpenRows(len(ranks[0]), tuple(columns))

    def _spans(self, names: Sequence[str], where: str) -> list[float]:
        """The largest minus the least value of each column of whole numbers."""
        told = ", ".join(
            f"CAST(max({quoted(name)}) AS DOUBLE) - CAST(min({quoted(name)}) AS DOUBLE)"
            if self.kinds[name] == "whole" else "NULL" for name in names
        )  # fmt: skip
        found = self._fetch(f"SELECT {told} FROM {SEALED} WHERE {where}")[0]
        return [math.inf if span is None else float(span) for span in found]

    def _values(self, name: str, where: str) -> dict[int, str]:
        if name != self._label or self.kinds[name] != "text":
            return {}
        sql = (
            f"SELECT dense_rank() OVER (ORDER BY value) - 1, value FROM (SELECT {quoted(name)} AS value, count(*) AS n "
            f"FROM {SEALED} WHERE {where} AND {quoted(name)} IS NOT NULL GROUP BY 1) ORDER BY n DESC, value "
            f"LIMIT {_MOST_COMMON}"
        )
        return {int(rank): str(value) for rank, value in self._fetch(sql)}

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        with engine_errors_hidden:
            return self._connection.execute(sql).fetchall()


def _kind(type_: str) -> Kind | None:
    return next((kind for kind, pattern in _KINDS if re.fullmatch(pattern, type_)), None)


def _rank_sql(name: str, kind: Kind) -> str:
    value = quoted(name)
    if kind == "number":
        value = f"CASE WHEN isnan(CAST({value} AS DOUBLE)) THEN NULL ELSE {value} END"
    return f"CASE WHEN {value} IS NULL THEN -1 ELSE dense_rank() OVER (ORDER BY {value} NULLS LAST) - 1 END"
