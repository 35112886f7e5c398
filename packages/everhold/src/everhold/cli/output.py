"""Every result in the same three forms: a table for people, JSON for programs, CSV for spreadsheets.

Only results are printed on stdout. A *record* is one thing, such as a status or a price: its table has the columns
``field`` and ``value``. A *list* (answers, holdouts) has one line for each item.
"""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from everhold.display import cell_text, flat, is_number, printable, write_csv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Format", "fits", "note", "printable", "show_list", "show_record", "show_sentence"]

_HASH = re.compile("[0-9a-f]{64}")
_SHORT_HASH = 12
_SECONDS = len("2026-01-31T23:59:59")
_SHORT_CELL = 20  # characters; longer texts may be folded
_RECORD_COLUMNS = 2
_UNLIMITED = 100_000  # columns; a table that goes to a file or a pipe is never cut


class Format(StrEnum):
    """Formats of printed results."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def note(text: str) -> None:
    """Print a remark on stderr, after all output that was printed before."""
    sys.stdout.flush()
    sys.stderr.write(printable(text) + "\n")


def show_sentence(sentence: str, record: Mapping[str, Any], form: Format) -> None:
    """Print a sentence in the format for people, and the record that it describes in the other formats."""
    if form is Format.TABLE:
        sys.stdout.write(printable(sentence) + "\n")
    else:
        show_record(record, form)


def show_record(record: Mapping[str, Any], form: Format) -> None:
    """Print one record: as a table of fields, as one JSON object, or as one line of CSV below its header."""
    if form is Format.JSON:
        _print_json(record)
    elif form is Format.CSV:
        write_csv(sys.stdout, [record], list(record))
    else:
        _print_table(
            ["field", "value"], [[name, cell_text(value, name)] for name, value in flat(record)], numbers=set()
        )


def show_list(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    form: Format,
    *,
    document: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> None:
    """Print a list as a table, as JSON or in another chosen format.

    Args:
        rows: One mapping for each line, with at least the named columns.
        columns: The columns of table and CSV, in their order.
        form: Format of the output.
        document: The list as one JSON object, or as an array of objects.
    """
    if form is Format.JSON:
        _print_json(document)
    elif form is Format.CSV:
        write_csv(sys.stdout, rows, columns)
    else:
        lines = [[_short(name, row[name]) for name in columns] for row in rows]
        numbers = {name for name in columns if rows and all(is_number(row[name]) for row in rows)}
        _print_table(columns, lines, numbers=numbers)


def _print_json(document: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Print a document as one line of JSON."""
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")


def _print_table(columns: Sequence[str], lines: Sequence[Sequence[str]], *, numbers: set[str]) -> None:
    """Print lines as a table, one below the other where a terminal is too narrow."""
    if not sys.stdout.isatty() and _is_plain(columns, lines):
        # Importing Rich for the same table takes a tenth of a second
        widths = [_natural(columns, lines, place) for place in range(len(columns))]
        rule = "─" * (sum(widths) + 3 * (len(widths) - 1))
        padded = [
            "   ".join(
                text.rjust(width) if name in numbers else text.ljust(width)
                for name, text, width in zip(columns, row, widths, strict=True)
            )
            for row in (columns, *lines)
        ]
        sys.stdout.write("\n".join([padded[0], rule, *padded[1:]]) + "\n")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _UNLIMITED, highlight=False)
    if not fits(columns, lines, width=console.width):
        for line in lines:
            _print_table(["field", "value"], list(zip(columns, line, strict=True)), numbers=set())
            sys.stdout.write("\n")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, name in enumerate(columns):
        short = _natural(columns, lines, place) <= _SHORT_CELL
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold", no_wrap=short)
    for line in lines:
        table.add_row(*map(Text, line))
    console.print(table)


def _is_plain(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> bool:
    """Return whether every character is one column wide, and the encoding of the output has the line character."""
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return encoding.lower().startswith("utf") and all(
        text.isascii() and text.isprintable() for row in (columns, *lines) for text in row
    )


def fits(columns: Sequence[str], lines: Sequence[Sequence[str]], *, width: int) -> bool:
    """Return whether a table fits the width of a terminal, where only columns of long texts may be folded."""
    naturals = (_natural(columns, lines, place) for place in range(len(columns)))
    least = sum(natural if natural <= _SHORT_CELL else _SHORT_CELL for natural in naturals) + 3 * (len(columns) - 1)
    return least <= width or len(columns) <= _RECORD_COLUMNS


def _natural(columns: Sequence[str], lines: Sequence[Sequence[str]], place: int) -> int:
    """Return the width of a column if nothing is folded.

    `place` is the index of the column.
    """
    return max(len(text) for text in (columns[place], *(line[place] for line in lines)))


def _short(name: str, value: Any) -> str:
    """Return the text of a cell in a list, with hashes cut to their first digits and times to the second."""
    if name == "query" and _HASH.fullmatch(str(value)):
        return str(value)[:_SHORT_HASH]
    if name in ("asked_at", "created") and isinstance(value, str) and "T" in value:
        return printable(value)[:_SECONDS].replace("T", " ")
    return cell_text(value, name)
