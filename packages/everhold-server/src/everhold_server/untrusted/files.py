"""Reads files of unknown senders in worker processes: predictions, certificates, case results, and tables of rows."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from everhold.certificate.verification import verify_certificate
from everhold.errors import HoldoutRejected, QueryRejected
from everhold.gates.files import read_case_file
from everhold.queries.predictions.arrays import PredictionTable
from everhold.queries.predictions.files import ARROW, CSV, PARQUET, TSV, Wanted, read_columns
from everhold.sealing.intake.duckdb_files import file_pattern
from everhold_server.untrusted.worker import WorkLimits, read_in_worker

if TYPE_CHECKING:
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
        QueryRejected: If the file cannot be read within the limits. The sealed rows were not looked at.
    """
    wanted = replace(Wanted.of(schema), most_columns=_MOST_UNTRUSTED_COLUMNS)
    found = read_in_worker(
        "everhold_server.untrusted.files:listed_columns", path, name=name, limits=limits_for(wanted),
        advice="Write it again as CSV or Parquet, with only row ids and one column of predictions.",
        wanted=asdict(wanted),
    )  # fmt: skip
    return PredictionTable({column: _array(listed) for column, listed in found.items()}, name=name)


def limits_for(wanted: Wanted) -> WorkLimits:
    """Return the limits of memory, time and size for the process that reads a file of predictions."""
    return WorkLimits(
        content=wanted.most_bytes, memory=_MEMORY + _MEMORY_OF_A_LINE * wanted.most_lines,
        seconds=_SECONDS + wanted.most_lines // _LINES_A_SECOND, written=4 * wanted.most_bytes,
    )  # fmt: skip


def listed_columns(path: str, *, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a file as plain data. The worker process runs this."""
    file = Path(path)
    columns = read_columns(file, _form_by_content(file, name), Wanted(**wanted), name=name)
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


_OF_CERTIFICATES = WorkLimits(content=2**22, memory=2 * 2**30)


def report_on_untrusted(path: Path, *, public_key: str | None) -> dict[str, Any]:
    """Check a certificate of an unknown sender in a worker process, and return a `CertificateReport` as plain data.

    Raises:
        QueryRejected: If the file cannot be read within the limits.
    """
    found: dict[str, Any] = read_in_worker(
        "everhold_server.untrusted.files:listed_report", path, name="the certificate", limits=_OF_CERTIFICATES,
        advice="Send a certificate that everhold wrote.", public_key=public_key,
    )  # fmt: skip
    return found


def listed_report(path: str, *, name: str, public_key: str | None) -> dict[str, Any]:
    """Return the report about a certificate as plain data. The worker process runs this."""
    return verify_certificate(Path(path), public_key=public_key).to_dict()


_OF_RESULTS = WorkLimits(content=2**26, memory=2**30)
_MOST_STRANGE_COLUMNS = 100
_MOST_VALUES = 2**19
_FIRST_BYTES, _LONGEST_LINE = 2**10, 2**16


def read_untrusted_results(path: Path, *, name: str, missing: str = "refuse") -> dict[str, list[Any]]:
    """Read results of cases from an unknown sender's file (JUnit XML, promptfoo JSON or CSV), as `read_case_file` does.

    Raises:
        QueryRejected: If the file cannot be read within the limits of time and memory. Nothing was charged.
        CaseRejected: If a case has no result and ``missing`` is ``"refuse"``. Nothing was charged.
    """
    found: dict[str, list[Any]] = read_in_worker(
        "everhold_server.untrusted.files:listed_results", path, name=name, limits=_OF_RESULTS, missing=missing,
        advice="Pass only the results of the cases of this suite.",
    )  # fmt: skip
    return found


def listed_results(path: str, *, name: str, missing: str) -> dict[str, list[Any]]:
    """Return the results in a file by metric. The worker process runs this."""
    with Path(path).open("rb") as file:
        begins = file.read(_FIRST_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        file.seek(0)
        first = file.readline(_LONGEST_LINE).strip()
        several = first.startswith(b"{") and first.endswith(b"}") and bool(file.readline(1))  # objects, a line each
    kind = {b"<": ".xml", b"{": ".jsonl" if several else ".json", b"[": ".json"}.get(begins, ".csv")
    if kind == ".csv":
        with Path(path).open("rb") as file:
            columns = 1 + file.readline(_LONGEST_LINE + 1).count(b",")
        if columns > _MOST_STRANGE_COLUMNS:
            raise QueryRejected(
                f"{name} has more than {_MOST_STRANGE_COLUMNS} columns. Keep one for the case and one for each metric."
            )
    found = read_case_file(Path(path), kind=kind, missing=missing)
    cells = sum(map(len, found.values()))
    if len(found) > _MOST_STRANGE_COLUMNS or cells > _MOST_VALUES:
        raise QueryRejected(
            f"{name} has {len(found):,} columns with {cells:,} values. "
            f"Send at most {_MOST_STRANGE_COLUMNS} and {_MOST_VALUES:,}."
        )
    return found


# The size of a table of rows, before an engine opens the file.

MOST_COLUMNS = 2_000
"""Columns of a table that a stranger sends, the parts of nested ones counted too."""

MOST_CELLS = 2**31
"""Rows times columns."""

_BYTES_A_SECOND = 2**25
_CHUNK = 2**22
_FEWER_CELLS = "Keep only the columns that queries need, or a random sample of the rows."


def check_untrusted_rows(path: Path, *, name: str) -> None:
    """Check the size and readability of an uploaded Parquet or CSV file in a worker process.

    Raises:
        HoldoutRejected: If the file has too many columns or cells, or is unreadable. Nothing was created.
    """
    size = path.stat().st_size
    limits = WorkLimits(content=size, seconds=20 + size // _BYTES_A_SECOND)
    shape = read_in_worker(
        "everhold_server.untrusted.files:shape",
        path,
        name=name,
        limits=limits,
        advice=_FEWER_CELLS,
        refusal=HoldoutRejected,
    )
    rows, columns = shape["rows"], shape["columns"]
    if columns > MOST_COLUMNS:
        raise HoldoutRejected(
            f"{name} has {columns:,} columns, more than the limit of {MOST_COLUMNS:,}. "
            "Keep only the columns that queries need.",
            columns=columns, most_columns=MOST_COLUMNS,
        )  # fmt: skip
    if rows * columns > MOST_CELLS:
        raise HoldoutRejected(
            f"{name} has {rows:,} rows and {columns:,} columns, more than the limit of "
            f"{MOST_CELLS:,} values. {_FEWER_CELLS}",
            rows=rows, columns=columns,
        )  # fmt: skip


def shape(path: str, *, name: str) -> dict[str, Any]:
    """Return lower bounds on the numbers of rows and columns of a file. The worker process runs this."""
    if path.endswith(".parquet"):
        with duckdb.connect(":memory:", config={"temp_directory": ""}) as connection:
            pattern = file_pattern(Path(path))
            try:
                rows, columns = (
                    connection.execute(text, [pattern]).fetchall()[0][0]
                    for text in (
                        "SELECT coalesce(sum(num_rows), 0) FROM parquet_file_metadata(?)",
                        "SELECT count(*) FROM parquet_schema(?) WHERE num_children IS NULL OR num_children = 0",
                    )
                )
            except duckdb.Error:
                raise HoldoutRejected(f"{name} cannot be read as a Parquet file. Write it again.") from None
            return {"rows": int(rows), "columns": int(columns)}
    ends, columns, first = 0, 1, True
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            if first:
                names = chunk.replace(b"\r", b"\n").partition(b"\n")[0]
                columns, first = 1 + max(names.count(sign) for sign in (b",", b";", b"\t", b"|")), False
            ends += chunk.count(b"\n") or chunk.count(b"\r")
    return {"rows": ends, "columns": columns}
