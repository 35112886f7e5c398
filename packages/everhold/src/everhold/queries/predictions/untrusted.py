"""Predictions from strangers' files, read by a worker; their form is told by their content."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.predictions.arrays import PredictionTable
from everhold.queries.predictions.files import ARROW, CSV, PARQUET, TSV, Wanted, read_columns
from everhold.untrusted import ReadingLimits, read_in_worker

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.values.base import Schema

_SECONDS = 20  # of processor time, and one more for each `_LINES_A_SECOND`
_LINES_A_SECOND = 100_000
_MOST_COLUMNS = 100
_MEMORY = 3 * 2**30
_MEMORY_OF_A_LINE = 2**12  # with a few columns, as objects of Python
_KINDS = "biuf"

_ARROW_STREAM = b"\xff\xff\xff\xff"
_BEGINNINGS = {b"PAR1": PARQUET, b"ARROW1": ARROW, _ARROW_STREAM: ARROW}
_PACKED = {b"\x1f\x8b": "gzip", b"PK": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_WIDE = (b"\xff\xfe", b"\xfe\xff")


def read_untrusted(path: Path, schema: Schema, *, name: str) -> PredictionTable:
    """Read predictions from a stranger's file, whatever its form.

    Args:
        path: The file.
        schema: As for `read_predictions`.
        name: How messages call it.

    Raises:
        QueryRejected: If it cannot be read within the limits; the sealed rows were not looked at.
    """
    wanted = replace(Wanted.of(schema), most_columns=_MOST_COLUMNS)
    found = read_in_worker(
        "everhold.queries.predictions.untrusted:listed_columns", path, name=name, limits=limits_for(wanted),
        advice="expected row ids and one column of predictions, as CSV or Parquet; write it again with only these "
        "columns",
        wanted=asdict(wanted),
    )  # fmt: skip
    return PredictionTable({column: _array(listed) for column, listed in found.items()}, name=name)


def limits_for(wanted: Wanted) -> ReadingLimits:
    """What the worker may use: it follows the rows of the holdout."""
    return ReadingLimits(
        content=wanted.most_bytes, memory=_MEMORY + _MEMORY_OF_A_LINE * wanted.most_lines,
        seconds=_SECONDS + wanted.most_lines // _LINES_A_SECOND, written=4 * wanted.most_bytes,
    )  # fmt: skip


def listed_columns(path: Path, *, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """The columns of a file as plain data; run by the worker."""
    columns = read_columns(path, _form_of(path, name), Wanted(**wanted), name=name)
    return {column: _listed(values) for column, values in columns.items()}


def _form_of(path: Path, name: str) -> str:
    """Kind of a file, by its first bytes and, for text, its first line."""
    with path.open("rb") as file:
        head = file.read(2**16)
    for beginning, form in _BEGINNINGS.items():
        if head.startswith(beginning):
            return form
    packed = next((how for beginning, how in _PACKED.items() if head.startswith(beginning)), None)
    if packed is not None:
        raise _rejected(f"{name} is packed with {packed}", "expected CSV as it is, or Parquet; send it unpacked")
    if head.startswith(_WIDE) or _holds_nul(path):
        raise _rejected(f"{name} is no text in UTF-8", "expected CSV in UTF-8, or Parquet; save it again as such")
    if not head.strip():
        raise _rejected(f"{name} is empty", "expected a line with the names of columns, and one for each row")
    first = head.partition(b"\n")[0]
    return TSV if b"\t" in first and b"," not in first else CSV


def _holds_nul(path: Path) -> bool:
    with path.open("rb") as file:
        return any(b"\0" in chunk for chunk in iter(lambda: file.read(2**20), b""))


def _listed(column: NDArray[Any]) -> dict[str, Any]:
    """A column as JSON has it; what is neither a number nor a truth value is text."""
    missing = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    values = np.ma.getdata(column)
    numbers = values.dtype.kind in _KINDS
    listed = values.tolist() if numbers else [None if value is None else str(value) for value in values]
    return {
        "kind": values.dtype.kind if numbers else "text",
        "values": listed,
        "missing": [] if missing is None else np.flatnonzero(missing).tolist(),
    }


def _array(listed: dict[str, Any]) -> NDArray[Any]:
    """The inverse of `_listed`."""
    types: dict[str, Any] = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}
    values = np.array(listed["values"], dtype=types.get(listed["kind"], object))
    if not listed["missing"]:
        return values
    mask = np.zeros(len(values), dtype=bool)
    mask[listed["missing"]] = True
    return np.ma.MaskedArray(values, mask=mask)


def _rejected(problem: str, advice: str) -> QueryRejected:
    return QueryRejected(f"{problem}; {advice}")
