"""Predictions of strangers, in files of any form."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.predictions.arrays import PredictionTable
from everhold.queries.predictions.files import ARROW, CSV, PARQUET, TSV, Wanted, read_columns
from everhold_server.untrusted.worker import ReadingLimits, read_in_worker

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.values.base import Schema

_SECONDS = 20  # of processor time, and one more for each `_LINES_A_SECOND`
_LINES_A_SECOND = 100_000
_MOST_UNTRUSTED_COLUMNS = 100
_MEMORY = 3 * 2**30
_MEMORY_OF_A_LINE = 2**12  # with a few columns, as objects of Python
_KINDS = "biuf"

_ARROW_STREAM = b"\xff\xff\xff\xff"
_BEGINNINGS = {b"PAR1": PARQUET, b"ARROW1": ARROW, _ARROW_STREAM: ARROW}
_PACKED = {b"\x1f\x8b": "gzip", b"PK": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_WIDE = (b"\xff\xfe", b"\xfe\xff")


def read_untrusted(path: Path, schema: Schema, *, name: str) -> PredictionTable:
    """Read predictions from an untrusted file of any form, in a worker process.

    Args:
        path: The file with the predictions.
        schema: Schema of the holdout, as for `read_predictions`.
        name: The name of the file in messages.

    Raises:
        QueryRejected: If it cannot be read within the limits; the sealed rows were not looked at.
    """
    wanted = replace(Wanted.of(schema), most_columns=_MOST_UNTRUSTED_COLUMNS)
    found = read_in_worker(
        "everhold_server.untrusted.predictions:listed_columns", path, name=name, limits=limits_for(wanted),
        advice="Write it again as CSV or Parquet, with only row ids and one column of predictions.",
        wanted=asdict(wanted),
    )  # fmt: skip
    return PredictionTable({column: _array(listed) for column, listed in found.items()}, name=name)


def limits_for(wanted: Wanted) -> ReadingLimits:
    """Return the limits of memory, time and size for the process that reads a file of predictions."""
    return ReadingLimits(
        content=wanted.most_bytes, memory=_MEMORY + _MEMORY_OF_A_LINE * wanted.most_lines,
        seconds=_SECONDS + wanted.most_lines // _LINES_A_SECOND, written=4 * wanted.most_bytes,
    )  # fmt: skip


def listed_columns(path: Path, *, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a file as plain data. The worker process runs this."""
    columns = read_columns(path, _form_by_content(path, name), Wanted(**wanted), name=name)
    return {column: _listed(values) for column, values in columns.items()}


def _form_by_content(path: Path, name: str) -> str:
    """Return the form of a file, recognised by its first bytes and, for text, by its first line."""
    with path.open("rb") as file:
        head = file.read(2**16)
    for beginning, form in _BEGINNINGS.items():
        if head.startswith(beginning):
            return form
    packed = next((how for beginning, how in _PACKED.items() if head.startswith(beginning)), None)
    if packed is not None:
        raise QueryRejected(f"{name} is packed with {packed}. Pass CSV as it is, or Parquet.")
    with path.open("rb") as file:
        if head.startswith(_WIDE) or any(b"\0" in chunk for chunk in iter(lambda: file.read(2**20), b"")):
            raise QueryRejected(f"{name} is no text in UTF-8. Save it as CSV in UTF-8, or as Parquet.")
    if not head.strip():
        raise QueryRejected(f"{name} is empty. Write a line with the names of columns, and one line for each row.")
    first = head.partition(b"\n")[0]
    return TSV if b"\t" in first and b"," not in first else CSV


def _listed(column: NDArray[Any]) -> dict[str, Any]:
    """Return a column as plain JSON data. Values other than numbers and truth values become texts."""
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
    """Rebuild the array from the plain data of `_listed`."""
    types: dict[str, Any] = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}
    values = np.array(listed["values"], dtype=types.get(listed["kind"], object))
    if not listed["missing"]:
        return values
    mask = np.zeros(len(values), dtype=bool)
    mask[listed["missing"]] = True
    return np.ma.MaskedArray(values, mask=mask)
