"""Files of strangers are read in a process of their own, whose memory and time are limited for good.

An engine's own limits are not hard, and a file can be made to crash a reader that was not written for such ones. So a
worker reads it, whose memory holds no key, no ledger and no sealed rows. What it found comes back as JSON, out of which
nothing but numbers and texts can be made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.display import printable
from everhold.errors import QueryRejected
from everhold.queries.prediction_files import ARROW, CSV, PARQUET, TSV, Wanted, read_columns
from everhold.queries.predictions import PredictionTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.values.base import Schema

_SECONDS = 20  # of processor time, and one more for each `_LINES_A_SECOND`
_LINES_A_SECOND = 100_000
_SLOWER = 3  # seconds on a clock for each of them: the machine may be busy
_MOST_COLUMNS = 100
_MEMORY = 3 * 2**30  # address space of Python with the engines, which take far less than they reserve
_MEMORY_OF_A_LINE = 2**12  # with a few columns, as objects of Python
_LONGEST_MESSAGE = 1_000
_KINDS = "biuf"
_START = "from everhold.queries.untrusted_files import work; work()"
_KEPT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "LANG", "LC_ALL")  # of the environment, which may hold passwords
_AT_ONCE = threading.BoundedSemaphore(max(os.cpu_count() or 1, 2))

_ARROW_STREAM = b"\xff\xff\xff\xff"
_BEGINNINGS = {b"PAR1": PARQUET, b"ARROW1": ARROW, _ARROW_STREAM: ARROW}
_PACKED = {b"\x1f\x8b": "gzip", b"PK": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_WIDE = (b"\xff\xfe", b"\xfe\xff")


def read_untrusted(path: Path, schema: Schema, *, name: str) -> PredictionTable:
    """Read predictions from a stranger's file, whatever its form: CSV, TSV, Parquet or Arrow, told by its content.

    Args:
        path: The file, in a private folder; a second file is made beside it.
        schema: As for `read_predictions`.
        name: How messages call it.

    Raises:
        QueryRejected: If it cannot be read within the limits; the sealed rows were not looked at.
    """
    found = path.with_name(f"{path.name}.read")
    wanted = replace(Wanted.of(schema), most_columns=_MOST_COLUMNS)
    task = {"path": str(path), "into": str(found), "name": name, "wanted": asdict(wanted)}
    with _AT_ONCE:
        _run(task, name, _SLOWER * _seconds(wanted))
    try:
        said = json.loads(found.read_bytes())
    except (OSError, ValueError):
        raise _unreadable(name) from None
    finally:
        found.unlink(missing_ok=True)
    if "refused" in said:
        raise QueryRejected(printable(str(said["refused"]))[:_LONGEST_MESSAGE])
    return PredictionTable({column: _array(listed) for column, listed in said["columns"].items()}, name=name)


def _seconds(wanted: Wanted) -> int:
    """Processor time for reading a file."""
    return _SECONDS + wanted.most_lines // _LINES_A_SECOND


def _run(task: dict[str, Any], name: str, seconds: int) -> None:
    environment = {key: os.environ[key] for key in _KEPT if key in os.environ}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    try:
        subprocess.run(
            [sys.executable, "-P", "-c", _START], input=json.dumps(task).encode(), env=environment, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds,
        )  # fmt: skip
    except (subprocess.SubprocessError, OSError):
        raise _unreadable(name) from None


def _unreadable(name: str) -> QueryRejected:
    return QueryRejected(
        f"{name} cannot be read within the time and memory that predictions for these rows need; expected row ids and "
        "one column of predictions, as CSV or Parquet; write it again with only these columns"
    )


def work() -> None:
    """Read one file under hard limits, and describe its content; run by the worker."""
    task = json.load(sys.stdin)
    wanted, path = Wanted(**task["wanted"]), Path(task["path"])
    _limit(wanted)
    said: dict[str, Any]
    try:
        columns = read_columns(path, _form_of(path, task["name"]), wanted, name=task["name"])
        said = {"columns": {column: _listed(values) for column, values in columns.items()}}
    except QueryRejected as refused:
        said = {"refused": refused.message}
    Path(task["into"]).write_text(json.dumps(said))


def _limit(wanted: Wanted) -> None:
    """Give memory, time and files up, so that nothing can take them back; Windows has no such limits."""
    if sys.platform == "win32":
        return
    import resource

    limits = {
        resource.RLIMIT_AS: _MEMORY + _MEMORY_OF_A_LINE * wanted.most_lines,
        resource.RLIMIT_CPU: _seconds(wanted),
        resource.RLIMIT_FSIZE: 4 * wanted.most_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))


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
