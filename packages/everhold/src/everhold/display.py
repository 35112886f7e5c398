"""How every result is shown: as a dict, a data frame, HTML or text.

HTML is for notebooks: plain elements without scripts, colours or external files, so that it looks like the page around
it, light or dark. Every text is escaped, names of columns included.
"""

from __future__ import annotations

import csv
import html
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO, TypeGuard

if TYPE_CHECKING:
    import pandas as pd

LEAST_SHOWN = 1e-15
"""Numbers nearer to 0 are shown as 0: they are what rounding left of it. JSON and frames keep them."""

_MOST_SHOWN = 3  # items of a list
_MOST_OF_VECTOR = 6  # numbers of one in a table of the command line
_MOST_LINES = 60  # of what is printed; a synthetic table may have many thousands
_MOST_ABREAST = 8  # fields of one thing; more stand below each other
_HASH = re.compile("[0-9a-f]{64}")
_SHORT_HASH = 12
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.:+\d]*")
_SECONDS = len("2026-01-31T23:59:59")
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


class Display:
    """Mixin of dataclasses that are shown to people: answers, plans, transcripts, certificates.

    Attributes:
        rows_in: Name of the field that has the rows of the result's table; empty for a result that is one row.
        rows_called: Name of these rows in plain data, if it differs from the name of the field.
    """

    __slots__ = ()

    rows_in: ClassVar[str] = ""
    rows_called: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data that `json` can write, by default all its fields by name.

        None stands for a number that is infinite, such as an end of an interval that nothing bounds.
        """
        named = {}
        for name in (each.name for each in fields(self)):  # type: ignore[arg-type]
            if name == self.rows_in:
                named[self.rows_called or name] = plain(self.to_rows())
            else:
                named[name] = plain(getattr(self, name))
        return named

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the result as table rows with the same keys in the same order, by default one row."""
        rows: Sequence[Any] = getattr(self, self.rows_in) if self.rows_in else [self]
        return [
            row.to_dict() if isinstance(row, Display) else dict(row) if isinstance(row, Mapping) else asdict(row)
            for row in rows
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas data frame (needs pandas)."""
        import pandas

        return pandas.DataFrame(self.to_rows())

    def to_text(self) -> str:
        """Return the rows as a plain text table."""
        return text_table(self.to_rows())

    def __str__(self) -> str:
        rows = self.to_rows()
        if _is_record(rows):
            return text_record(rows[0])
        return text_table(rows[:_MOST_LINES]) + (f"\n{_cut(rows)}" if _cut(rows) else "")

    def _headline(self) -> str:
        """Return the headline above the table in a notebook. Empty if the table needs none."""
        return ""

    def _repr_html_(self) -> str:
        rows = self.to_rows()
        return html_sentences(self._headline()) + (html_record(rows[0]) if _is_record(rows) else html_table(rows))


class Listing(Display):
    """Mixin of dataclasses that are tables: the length of one is its number of rows."""

    __slots__ = ()

    rows_in: ClassVar[str] = "rows"

    def __len__(self) -> int:
        return len(getattr(self, self.rows_in))


class Facts(Display, dict[str, Any]):
    """Facts by name: a dict that is shown as a record, one fact below the other.

    Examples:
        >>> facts = Facts(name="flights", remaining={"queries": 997})
        >>> facts["name"], facts == {"name": "flights", "remaining": {"queries": 997}}
        ('flights', True)
        >>> print(facts)
        field                value
        name                 flights
        remaining.queries  997
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as a plain dict."""
        return dict(self)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row. The fields of nested dicts become columns with dotted names."""
        return [dict(flat(self))]

    def to_text(self) -> str:
        """Return the facts as text, one below the other. Lists of rows follow as tables."""
        return text_record(self)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return html_record(self)


def text_record(record: Mapping[str, Any]) -> str:
    """Return a record as text, one field below the other. Lists of records follow as tables."""
    below = {name: value for name, value in record.items() if _is_table(value)}
    above = [{"field": name, "value": _shown(value, name)} for name, value in flat(record) if name not in below]
    return "\n\n".join([text_table(above), *(f"{name}\n{text_table(value)}" for name, value in below.items())])


def flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of a record, with nested dicts flattened to dotted names.

    Examples:
        >>> list(flat({"name": "flights", "remaining": {"queries": 9, "surprises": 2}}))
        [('name', 'flights'), ('remaining.queries', 9), ('remaining.surprises', 2)]
    """
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def csv_text(text: str) -> str:
    """Return a text for a CSV cell, with an apostrophe in front if a spreadsheet would read it as a formula.

    Numbers stay as they are.

    Examples:
        >>> [csv_text(text) for text in ("=cmd|'/c calc'!A0", "-0.5", "delay > 15")]
        ["'=cmd|'/c calc'!A0", '-0.5', 'delay > 15']
    """
    return f"'{text}" if text.startswith(_FORMULAS) and not _reads_as_number(text) else text


def _reads_as_number(text: str) -> bool:
    """Return whether a spreadsheet reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return text[-1] not in "\t\r"


def printable(text: str) -> str:
    r"""Escape the characters of a text that control a terminal, change the reading direction, hide, or break the line.

    Examples:
        >>> print(printable("a\x1b[2J\nb"))
        a\x1b[2J\nb
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def printable_lines(text: str) -> str:
    r"""Escape each line of a text as `printable` does.

    Examples:
        >>> print(printable_lines("a\x1b[2J\r\nb"))
        a\x1b[2J
        b
    """
    return "\n".join(map(printable, text.splitlines()))


@cache
def style_sheet(package: str, name: str) -> str:
    """Return the text of a style sheet in a package."""
    from importlib.resources import files

    return files(package).joinpath(name).read_text("utf-8")


def html_document(title: str, style: str, body: str) -> str:
    """Return a complete HTML page that runs no script and loads no other file."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def escaped(text: str) -> str:
    """Return a text for HTML, in which markup and everything that `printable` escapes is harmless.

    Examples:
        >>> escaped("a < b")
        'a &lt; b'
    """
    return html.escape(printable(text))


def html_sentences(*texts: str) -> str:
    """Return one HTML paragraph for each line of the texts, without empty lines."""
    return "".join(f"<p>{escaped(line)}</p>" for text in texts for line in text.splitlines() if line)


def html_table(rows: Sequence[Mapping[str, Any]], most: int = _MOST_LINES) -> str:
    """Return rows as an HTML table, numbers aligned to the right. A table of more than ``most`` rows is cut."""
    if not rows:
        return "<p>nothing yet</p>"
    aside = {name: _RIGHT if all(is_number(row.get(name)) for row in rows) else _LEFT for name in rows[0]}
    head = "".join(f"<th{aside[name]}>{escaped(str(name))}</th>" for name in aside)
    body = "".join(
        f"<tr>{''.join(f'<td{aside[name]}>{_html_value(row.get(name), name)}</td>' for name in aside)}</tr>"
        for row in rows[:most]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{html_sentences(_cut(rows, most))}"


def html_record(record: Mapping[str, Any]) -> str:
    """Return a record as an HTML table with one line for each field. A list of records becomes a table in its cell."""
    body = "".join(
        f"<tr><th{_LEFT}>{escaped(str(name))}</th><td{_LEFT}>{_html_value(value, name)}</td></tr>"
        for name, value in flat(record)
    )
    return f"<table><tbody>{body}</tbody></table>"


def html_bar(name: str, left: int, whole: int) -> str:
    """Return the remaining budget as HTML: a small bar and words.

    `left` of `whole` units of the budget `name` remain.
    """
    said = escaped(left_in_words({name: left}, {name: whole}))
    return f'<p><progress value="{left}" max="{max(whole, 1)}"></progress> {said} left</p>'


_LEFT, _RIGHT = ' style="text-align: left"', ' style="text-align: right"'


def _html_value(value: Any, name: str) -> str:
    """Return a value as readable HTML. Hashes are shortened, with the whole hash in the title."""
    if _is_table(value):
        return html_table(value)
    if isinstance(value, int):
        return cell_text(value)
    if isinstance(value, str) and _HASH.fullmatch(value):
        return f'<code title="{value}">{value[:_SHORT_HASH]}</code>'
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return f'<span title="{value}" style="white-space: nowrap">{value[:_SECONDS].replace("T", " ")}</span>'
    return escaped(_shown(value, name))


def _is_table(value: Any) -> TypeGuard[list[Mapping[str, Any]]]:
    """Return whether a value is a list of records that is not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _is_record(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether rows are a single one with so many fields that they are shown below each other."""
    return len(rows) == 1 and len(rows[0]) > _MOST_ABREAST


def is_number(value: Any) -> bool:
    """Return whether a cell is aligned to the right: a number, or a missing value in a column of numbers."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def plain(value: Any) -> Any:
    """Return a value as plain data for JSON, with None in place of an infinite number.

    Examples:
        >>> plain({"low": -math.inf, "rows": (1, 40)})
        {'low': None, 'rows': [1, 40]}
    """
    for method in ("to_dict", "tolist"):
        if hasattr(value, method):
            return plain(getattr(value, method)())
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cut(rows: Sequence[Mapping[str, Any]], most: int = _MOST_LINES) -> str:
    """Return the remark below a table that shows only some of its rows, or an empty text."""
    return f"... {len(rows):,} lines in all, which to_rows() and to_pandas() have" if len(rows) > most else ""


def at_most(bound: float) -> str:
    """Return an upper bound as text with four significant digits, rounded up so that it still holds.

    Examples:
        >>> at_most(0.123401), at_most(-0.5), at_most(20_000.1), at_most(float("inf")), at_most(2.8e-27)
        ('0.1235', '-0.5', '2.001e+04', 'inf', '1e-15')
    """
    return _outwards(bound, ROUND_CEILING)


def at_least(bound: float) -> str:
    """Return a lower bound as text with four significant digits, rounded down so that it still holds.

    Examples:
        >>> at_least(0.123499), at_least(0.0), at_least(-0.123401), at_least(2.8e-27)
        ('0.1234', '0', '-0.1235', '0')
    """
    return _outwards(bound, ROUND_FLOOR)


def _outwards(bound: float, direction: str) -> str:
    """Return a number as text with four digits, rounded up or down as the direction of `decimal` says."""
    if abs(bound) < LEAST_SHOWN:
        away = (bound > 0.0) if direction == ROUND_CEILING else (bound < 0.0)
        return f"{math.copysign(LEAST_SHOWN, bound) if away else 0.0:g}"
    if not math.isfinite(bound):
        return f"{bound:g}"
    exact = Decimal(repr(float(bound)))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), rounding=direction)):.4g}"


def rounded(value: float) -> str:
    """Return a number that is not a bound as text with four significant digits.

    Examples:
        >>> rounded(0.123449), rounded(-2.8e-27), rounded(3e-9), rounded(-math.inf)
        ('0.1234', '0', '3e-09', 'beyond the scale')
    """
    if math.isinf(value):
        return "beyond the scale"
    return "0" if abs(value) < LEAST_SHOWN else f"{value:.4g}"


def counted(count: int, one: str) -> str:
    """Return a count with its noun, such as "3 queries".

    Examples:
        >>> counted(1000, "query"), counted(1, "surprise")
        ('1,000 queries', '1 surprise')
    """
    many = f"{one.removesuffix('y')}ies" if one.endswith("y") else f"{one}s"
    return f"{count:,} {one if count == 1 else many}"


def wider_in_words(widens: float) -> str:
    """Return how much wider an answer makes later ones, after a comma, or an empty text if it does not.

    Examples:
        >>> wider_in_words(1.35), wider_in_words(1.0)
        (', later queries about 35 % wider', '')
    """
    return "" if widens == 1.0 else f", later queries about {100.0 * (widens - 1.0):.0f} % wider"


def left_in_words(remaining: Mapping[str, int], whole: Mapping[str, int] | None = None, *, planned: bool = True) -> str:
    """Return the remaining budget in words, such as "19 of 20 queries" where the whole budget is given.

    Args:
        remaining: What is left, by name.
        whole: The whole budget, by name.
        planned: False if queries and surprises have a limit, as in an allotment.

    Examples:
        >>> left_in_words({"queries": 1_999, "surprises": 1})
        '1,999 queries and 1 surprise'
        >>> left_in_words({"queries": 19, "surprises": 9}, {"queries": 20, "surprises": 10})
        '19 of 20 queries and 9 of 10 surprises'
        >>> left_in_words({"queries": 0, "surprises": 3})  # of the plan, beyond which it may answer
        '0 planned queries and 3 surprises'
        >>> left_in_words({"queries": 0, "surprises": 3}, planned=False)
        '0 queries and 3 surprises'
        >>> left_in_words({"queries": 1})
        '1 query'
    """
    said = []
    for name, count in remaining.items():
        # more may be answered than was planned, and no more than a limit
        of_plan = planned and "surprises" in remaining and name in ("queries", "surprises")
        word = f"planned {name}" if of_plan and not count else name
        if whole is not None:
            said.append(f"{count:,} of {whole[name]:,} {word}")
        else:
            one = "query" if name == "queries" else name.removesuffix("s")
            said.append(f"{count:,} {one if count == 1 else word}")
    return " and ".join(said)


def text_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a text table with aligned columns, numbers to the right.

    Examples:
        >>> print(text_table([{"mechanism": "gaussian", "radius": 0.0841}, {"mechanism": "laplace", "radius": 0.13}]))
        mechanism  radius
        gaussian   0.0841
        laplace      0.13
    """
    if not rows:
        return "nothing yet"
    names = list(rows[0])
    cells = [[_shown(row.get(name), name) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    right = [all(isinstance(row.get(name), (int, float, type(None))) for row in rows) for name in names]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [names, *cells]
    ]
    return "\n".join(lines)


BOUNDS: dict[str, Callable[[float], str]] = {
    "low": at_least,
    "high": at_most,
    "within": at_most,
    "sealed_low": at_least,
    "sealed_high": at_most,
}
"""Columns of tables that hold ends of intervals and half-widths, and how they are rounded."""


def cell_text(value: Any, name: str = "") -> str:
    """Return a value of a named column as people read it: with commas, "yes" and "no", and a dash for nothing.

    Numbers have four significant digits, and ends of intervals are rounded outwards.
    """
    if value is None or (isinstance(value, (list, tuple, dict)) and not value):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return BOUNDS.get(name, rounded)(value)
    if isinstance(value, dict):
        return ", ".join(f"{counted} {cell_text(inner)}" for counted, inner in value.items())
    if isinstance(value, (list, tuple)):
        shown = value[:_MOST_OF_VECTOR] if all(isinstance(inner, float) for inner in value) else value
        more = f"; ... {len(value):,} in all" if len(shown) < len(value) else ""
        return "; ".join(cell_text(inner, name) for inner in shown) + more
    return printable(str(value))


def _shown(value: Any, name: str = "") -> str:
    """Return a value as `cell_text` does, with whole numbers and truth values as Python writes them."""
    if value is None or isinstance(value, float):
        return cell_text(value, name)
    if isinstance(value, dict):
        return ", ".join(f"{_shown(inner)} {counted}" for counted, inner in value.items())
    if isinstance(value, list) and len(value) > _MOST_SHOWN:  # a vector
        first = ", ".join(_shown(inner, name) for inner in value[:_MOST_SHOWN])
        return f"[{first}, ... {len(value):,} in all]"
    return str(value)


# Rows of a result as a Parquet file.


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all columns, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def write_csv(file: TextIO, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write rows as CSV. Lists and dicts become JSON text, and no cell is a formula for a spreadsheet."""

    def cell(value: Any) -> Any:
        if isinstance(value, str):
            return csv_text(printable(value))
        return json.dumps(value) if isinstance(value, (bool, dict, list, tuple)) else value

    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(csv_text, columns))
    writer.writerows([cell(row.get(name)) for name in columns] for row in rows)


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as Parquet. Columns are booleans, integers, numbers or text, and lists become JSON text."""
    if not rows:
        raise ValueError("There are no rows to write. Pass at least one.")
    types = {name: _column_type([row.get(name) for row in rows]) for name in columns_of(rows)}
    lines = (json.dumps({name: _cell(row.get(name), kind) for name, kind in types.items()}) for row in rows)
    part = path.with_name(f"{path.name}.part")
    import duckdb

    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as database:
        source = Path(folder) / "rows.jsonl"
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        read = database.read_json(str(source), columns=types, format="newline_delimited")
        read.write_parquet(str(part))
    part.replace(path)


def _column_type(values: Sequence[Any]) -> str:
    """Return the type of DuckDB that holds all these values."""
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {bool}:
        return "BOOLEAN"
    if kinds and kinds <= {int}:
        return "BIGINT"
    return "DOUBLE" if kinds and kinds <= {int, float} else "VARCHAR"


def _cell(value: Any, kind: str) -> Any:
    """Return a value in the form in which JSON carries it to a column of the given type."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number, DuckDB reads it from its name
    if kind == "VARCHAR" and value is not None and not isinstance(value, str):
        return json.dumps(value)
    return value
