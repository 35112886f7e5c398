"""Results of cases from strangers' files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected
from everhold.gates.files import read_case_file
from everhold_server.untrusted.worker import ReadingLimits, read_in_worker

if TYPE_CHECKING:
    from pathlib import Path

_LIMITS = ReadingLimits(content=2**26, memory=2**30)
_MOST_STRANGE_COLUMNS = 100
_MOST_VALUES = 2**19
_FIRST_BYTES, _LONGEST_LINE = 2**10, 2**16


def read_untrusted_results(path: Path, *, name: str, missing: str = "refuse") -> dict[str, list[Any]]:
    """Read results of cases from a stranger's file, JUnit XML, promptfoo JSON or CSV, as `read_case_file` does.

    Raises:
        QueryRejected: If the file cannot be read within the limits of time and memory. Nothing was charged.
        CaseRejected: If a case has no result and ``missing`` is ``"refuse"``. Nothing was charged.
    """
    found: dict[str, list[Any]] = read_in_worker(
        "everhold_server.untrusted.results:listed_results", path, name=name, limits=_LIMITS, missing=missing,
        advice="Pass only the results of the cases of this suite.",
    )  # fmt: skip
    return found


def listed_results(path: Path, *, name: str, missing: str) -> dict[str, list[Any]]:
    """Return the results in a file by metric. The worker process runs this."""
    with path.open("rb") as file:
        begins = file.read(_FIRST_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        file.seek(0)
        first = file.readline(_LONGEST_LINE).strip()
        several = first.startswith(b"{") and first.endswith(b"}") and bool(file.readline(1))  # objects, a line each
    kind = {b"<": ".xml", b"{": ".jsonl" if several else ".json", b"[": ".json"}.get(begins, ".csv")
    if kind == ".csv":
        with path.open("rb") as file:
            columns = 1 + file.readline(_LONGEST_LINE + 1).count(b",")
        if columns > _MOST_STRANGE_COLUMNS:
            raise QueryRejected(
                f"{name} has more than {_MOST_STRANGE_COLUMNS} columns. Keep one for the case and one for each metric."
            )
    found = read_case_file(path, kind=kind, missing=missing)
    cells = sum(map(len, found.values()))
    if len(found) > _MOST_STRANGE_COLUMNS or cells > _MOST_VALUES:
        raise QueryRejected(
            f"{name} has {len(found):,} columns with {cells:,} values. "
            f"Send at most {_MOST_STRANGE_COLUMNS} and {_MOST_VALUES:,}."
        )
    return found
