"""CSV and TSV files, read as they are written: nothing is skipped, guessed or swallowed by an open quotation mark.

The engine returns the cells as texts. Each text has one `Shape`, and the shapes of a column decide its kind. A column
that is in several files is read in one way. If a text can be read in two ways, such as 03/04/2025 or 1,234, the file is
refused.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import gzip
import io
import operator
import re
from dataclasses import dataclass
from enum import IntFlag, auto
from typing import TYPE_CHECKING

from everhold.errors import HoldoutRejected
from everhold.sealing.intake.duckdb_files import file_pattern
from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import duckdb

MISSING_WORDS = ("na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "missing", "-", "--", ".", "?")
"""Texts in lower case that stand for a missing number, date or truth value. In a column of texts they are texts."""

_AT_ONCE = 200  # columns whose forms are counted together
_LONGEST = 40  # characters of a number or a date
_LEAST_NUMBERED = 3  # columns called 0, 1, 2, ..., as frames without names write them


class Shape(IntFlag):
    """Flags for the forms in which a value can be written."""

    MISSING = auto()
    INTEGER = auto()
    CODE = auto()
    """Digits that are no number: with leading zeros, or too many."""
    REAL = auto()
    THREE_PLACES = auto()
    """Such as 1.234, a thousand where commas are decimal."""
    COMMA = auto()
    """Such as 1,234, a thousand or a little more than one."""
    THOUSANDS = auto()
    """Such as 1,234.5."""
    DECIMAL_COMMA = auto()
    """Such as 0,5 or 1.234,5."""
    WORD = auto()
    """Yes, no, true or false."""
    LETTER_T = auto()
    LETTER_F = auto()
    DATE = auto()
    """Such as 2025-03-01."""
    MOMENT = auto()
    """Such as 2025-03-01 10:30."""
    ZONED = auto()
    """Such as 2025-03-01 10:30+02:00."""
    CLOCK = auto()
    """Such as 10:30:00."""
    DAY_FIRST = auto()
    """Such as 31/03/2025."""
    MONTH_FIRST = auto()
    """Such as 03/31/2025."""
    EITHER_FIRST = auto()
    """Such as 03/04/2025."""
    SHORT_YEAR = auto()
    """Such as 03/04/25."""
    TIMED = auto()
    """Beside `DAY_FIRST`, `MONTH_FIRST` or `EITHER_FIRST`: with a time of day."""
    TEXT = auto()


_PLAIN = Shape.INTEGER | Shape.REAL | Shape.THREE_PLACES
_POINTS = _PLAIN | Shape.COMMA | Shape.THOUSANDS
_COMMAS = Shape.INTEGER | Shape.THREE_PLACES | Shape.COMMA | Shape.DECIMAL_COMMA
_NUMBERS = _POINTS | _COMMAS
_WORDS = Shape.WORD | Shape.LETTER_T | Shape.LETTER_F
_ORDERED = Shape.DAY_FIRST | Shape.MONTH_FIRST | Shape.EITHER_FIRST | Shape.TIMED

_DMY = r"^(\d{1,2})([-/.])(\d{1,2})[-/.](\d{4})\b(.*)$"
_HOURS = "['%Y-%m-%d %H:%M', '%Y-%m-%d %H:%M:%S', '%Y-%m-%d %H:%M:%S.%f', '%Y-%m-%d %I:%M %p', '%Y-%m-%d %I:%M:%S %p']"


def _moment(order: str) -> str:
    """Return SQL that parses a date and time with this order of day and month, null if the text has another order."""
    iso = f"regexp_replace({{t}}, '{_DMY}', '{order}\\5')"
    return f"coalesce(try_strptime({iso}, '%Y-%m-%d'), try_strptime(upper(replace({iso}, ',', '')), {_HOURS}))"


_BY_DAY, _BY_MONTH = _moment(r"\4-\3-\1"), _moment(r"\4-\1-\3")
_ISO_DATE, _ISO_CLOCK = r"\d{4}[-/]\d{1,2}[-/]\d{1,2}", r"[ T]\d{1,2}:\d{2}(:\d{2}([.]\d+)?)?"
_ZONE = r" ?(Z|z|UTC|[-+]\d{2}(:?\d{2})?)"
_SEPARATED = r"\d{1,2}([-]\d{1,2}[-]|/\d{1,2}/|[.]\d{1,2}[.])"


def _is(pattern: str) -> str:
    """Return SQL for whether the whole text ``t`` matches a regular expression."""
    return f"regexp_full_match(t, '{pattern}')"


_TIMED_DATE = (
    f"CASE WHEN {_BY_DAY} IS NOT NULL AND {_BY_MONTH} IS NOT NULL THEN {Shape.EITHER_FIRST:d} "
    f"WHEN {_BY_DAY} IS NOT NULL THEN {Shape.DAY_FIRST:d} WHEN {_BY_MONTH} IS NOT NULL THEN {Shape.MONTH_FIRST:d} "
    f"ELSE {Shape.TEXT:d} END + CASE WHEN contains(t, ':') THEN {Shape.TIMED:d} ELSE 0 END"
)
_FORM = (
    "CASE "
    + " ".join(
        f"WHEN {condition} THEN {found if isinstance(found, str) else int(found)}"
        for condition, found in (
            ("t IS NULL OR t = ''", Shape.MISSING),
            (_is(r"[-+]?(0|[1-9]\d*)"), f"CASE WHEN TRY_CAST(t AS BIGINT) IS NULL THEN {Shape.CODE:d} "
             f"ELSE {Shape.INTEGER:d} END"),
            (f"length(t) > {_LONGEST}", Shape.TEXT),
            (f"lower(t) IN ({', '.join(map(repr, MISSING_WORDS))})", Shape.MISSING),
            ("lower(t) IN ('yes', 'no', 'true', 'false')", Shape.WORD),
            ("t IN ('t', 'T')", Shape.LETTER_T),
            ("t IN ('f', 'F')", Shape.LETTER_F),
            (_is("(?i)[-+]?inf(inity)?"), Shape.REAL),
            ("NOT regexp_matches(t, '^[-+.,0-9]')", Shape.TEXT),
            (_is(r"[-+]?0\d+"), Shape.CODE),
            (_is(r"[-+]?[1-9]\d{0,2}[.]\d{3}"), Shape.THREE_PLACES),
            (_is(r"[-+]?(\d+[.]\d*|[.]\d+|\d+)([eE][-+]?\d+)?"), Shape.REAL),
            (_is(r"[-+]?[1-9]\d{0,2},\d{3}"), Shape.COMMA),
            (_is(r"[-+]?[1-9]\d{0,2}(,\d{3})+([.]\d*)?"), Shape.THOUSANDS),
            (_is(r"[-+]?(\d+,\d*|,\d+)([eE][-+]?\d+)?|[-+]?[1-9]\d{0,2}([.]\d{3})+(,\d*)?"), Shape.DECIMAL_COMMA),
            (f"{_is(_ISO_DATE)} AND TRY_CAST(t AS DATE) IS NOT NULL", Shape.DATE),
            (f"{_is(_ISO_DATE + _ISO_CLOCK)} AND TRY_CAST(t AS TIMESTAMP) IS NOT NULL", Shape.MOMENT),
            (f"{_is(_ISO_DATE + _ISO_CLOCK + _ZONE)} AND TRY_CAST(t AS TIMESTAMPTZ) IS NOT NULL", Shape.ZONED),
            (f"{_is(r'[0-9]{1,2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?')} AND TRY_CAST(t AS TIME) IS NOT NULL", Shape.CLOCK),
            (_is(_SEPARATED + r"\d{4}\b.*"), _TIMED_DATE),
            (f"{_is(_SEPARATED + r'[0-9]{2}')} AND try_strptime(replace(replace(t, '.', '-'), '/', '-'), "
             "['%d-%m-%y', '%m-%d-%y']) IS NOT NULL", Shape.SHORT_YEAR),
        )
    )
    + f" ELSE {Shape.TEXT:d} END"
).replace("{t}", "t")  # fmt: skip


def _unless_missing(cast: str) -> str:
    """Return SQL that gives null for an empty text or a word for a missing value, else the given conversion."""
    words = ", ".join(map(repr, MISSING_WORDS))
    return f"CASE WHEN {{t}} = '' OR lower({{t}}) IN ({words}) THEN NULL ELSE {cast} END"


@dataclass(frozen=True, slots=True)
class _ColumnReading:
    """The kind of a CSV column, and the SQL that converts its trimmed text ``{t}`` to a value."""

    kind: ColumnKind
    sql: str


_AS_TEXT = _ColumnReading(ColumnKind.STRING, "")
_EMPTY = {
    ColumnKind.NUMBER: "CAST(NULL AS DOUBLE)", ColumnKind.BOOLEAN: "CAST(NULL AS BOOLEAN)",
    ColumnKind.TIME: "CAST(NULL AS TIMESTAMP)",
}  # fmt: skip


def _reading(forms: Shape, marks: frozenset[str]) -> _ColumnReading | str:
    """Return how to parse a column whose values have these forms, or a text that says why it is ambiguous.

    Args:
        forms: All forms that occur in the column, as flags.
        marks: Marks of decimals that the files certainly use, ``"."`` and ``","``.
    """
    there = forms & ~Shape.MISSING
    number = _decimals(there, marks)
    if there and not there & ~Shape.INTEGER:
        return _ColumnReading(ColumnKind.NUMBER, _unless_missing("CAST({t} AS BIGINT)"))
    if number is not None:
        if number == "ambiguous":
            return "writes numbers such as 1,234 or 1.234, in which the mark may divide thousands or decimals"
        plain = {"": "{t}", ".": "replace({t}, ',', '')", ",": "replace(replace({t}, '.', ''), ',', '.')"}[number]
        return _ColumnReading(ColumnKind.NUMBER, _unless_missing(f"CAST({plain} AS DOUBLE)"))
    letters = there & (Shape.LETTER_T | Shape.LETTER_F)
    if there and not there & ~_WORDS and (there & Shape.WORD or letters == Shape.LETTER_T | Shape.LETTER_F):
        return _ColumnReading(ColumnKind.BOOLEAN, _unless_missing("lower({t}) IN ('yes', 'true', 't')"))
    if there and not there & ~_ORDERED:
        if there & Shape.EITHER_FIRST and not there & (Shape.DAY_FIRST | Shape.MONTH_FIRST):
            return "writes dates such as 03/04/2025, in which the day or the month may stand first"
        if not (there & Shape.DAY_FIRST and there & Shape.MONTH_FIRST):
            found = _BY_DAY if there & Shape.DAY_FIRST else _BY_MONTH
            return _ColumnReading(
                ColumnKind.TIME, _unless_missing(found if there & Shape.TIMED else f"CAST({found} AS DATE)")
            )
    if there == Shape.SHORT_YEAR:
        return "writes dates such as 03/04/25, in which day, month or year may stand first"
    if (
        there & Shape.ZONED
        and there & (Shape.DATE | Shape.MOMENT)
        and not there & ~(Shape.ZONED | Shape.DATE | Shape.MOMENT)
    ):
        return "writes some times with a zone and some without"
    for only, written in (
        (Shape.DATE, "DATE"),
        (Shape.DATE | Shape.MOMENT, "TIMESTAMP"),
        (Shape.ZONED, "TIMESTAMPTZ"),
    ):
        if there and not there & ~only:
            return _ColumnReading(ColumnKind.TIME, _unless_missing(f"CAST({{t}} AS {written})"))
    if there == Shape.CLOCK:
        return _ColumnReading(ColumnKind.OTHER, _unless_missing("CAST({t} AS TIME)"))
    return _AS_TEXT


def _decimals(there: Shape, marks: frozenset[str]) -> str | None:
    """Return the decimal mark of a column's numbers, "" for no mark, "ambiguous", or None for other columns.

    A column in which leading zeros occur holds codes if all its values are whole numbers, and numbers if some have
    decimals.
    """
    decided = _mark_of(there)
    if not there or there & ~(_NUMBERS | Shape.CODE) or not there & ~(Shape.INTEGER | Shape.CODE):
        return None
    if decided is not None:
        if there & ~((_POINTS if decided == "." else _COMMAS) | Shape.CODE):
            return None
        return decided if there & ~(_PLAIN | Shape.CODE) else ""
    if there & (Shape.REAL | Shape.THOUSANDS):  # and decimal commas
        return None
    if there & Shape.COMMA:
        return "ambiguous" if there & Shape.THREE_PLACES or len(marks) != 1 else next(iter(marks))
    return "ambiguous" if "," in marks else ""


def _mark_of(there: Shape) -> str | None:
    """Return the decimal mark that a column certainly uses, or None."""
    if there & ~(_NUMBERS | Shape.CODE | Shape.MISSING):
        return None
    points, commas = bool(there & (Shape.REAL | Shape.THOUSANDS)), bool(there & Shape.DECIMAL_COMMA)
    return None if points == commas else "." if points else ","


@dataclass(frozen=True, slots=True, kw_only=True)
class DelimitedFile:
    """A CSV or TSV file whose column names and forms of values are known, before its values are parsed.

    Attributes:
        what: Name of the rows in messages, "holdout" or "training".
        names: Names of the columns as they are written, without outer blanks.
        texts: SQL that gives the texts as columns c0, c1, ...
        forms: Forms of the values of each column.
        trimmed: Whether a blank follows each delimiter, so that texts are read without outer blanks, too.
        forms_of_names: Shape that each name would have as a value.
    """

    what: str
    names: list[str]
    texts: str
    forms: list[Shape]
    trimmed: bool
    forms_of_names: list[Shape]

    @classmethod
    def open(cls, connection: duckdb.DuckDBPyConnection, path: Path, ending: str, *, what: str) -> DelimitedFile:
        """Read the column names of a CSV or TSV file, and find the forms of all values.

        The first line has the names. Texts are quoted by ``"``, and a quotation mark within a quoted text is written
        twice.

        Raises:
            HoldoutRejected: If lines cannot be split into the named columns. Nothing was created.
        """
        written, delimiter = _first_line(connection, path, ending, what=what)
        names = [name.strip() for name in written]
        columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(names)))
        escaped = file_pattern(path).replace("'", "''")
        texts = (
            f"read_csv('{escaped}', auto_detect = false, columns = {{{columns}}}, header = true, "
            f"delim = '{delimiter}', quote = '\"', escape = '\"', comment = '', "
            "skip = 0, null_padding = false, hive_partitioning = false)"
        )
        connection.execute(f"CREATE OR REPLACE TEMP MACRO form_of(t) AS ({_FORM})")
        forms: list[Shape] = []
        for start in range(0, len(names), _AT_ONCE):
            some = range(start, min(start + _AT_ONCE, len(names)))
            trimmed = ", ".join(f"{_trimmed(place)} AS c{place}" for place in some)
            counted = ", ".join(f"bit_or(form_of(c{place}))" for place in some)
            found = connection.execute(f"SELECT {counted} FROM (SELECT {trimmed} FROM {texts})").fetchall()[0]
            forms += [Shape(each or 0) for each in found]
        of_names = connection.execute("SELECT form_of(name) FROM (SELECT unnest($1::VARCHAR[]) AS name)", [names])
        return cls(
            what=what,
            names=names,
            texts=texts,
            forms=forms,
            trimmed=len(names) > 1 and all(name.startswith(" ") for name in written[1:]),
            forms_of_names=[Shape(form) for (form,) in of_names.fetchall()],
        )

    def create_view(self, connection: duckdb.DuckDBPyConnection, view: str, readings: Sequence[_ColumnReading]) -> None:
        """Create a view on the file in which each column is parsed as its reading says.

        Raises:
            HoldoutRejected: If each name has the form of its column's values: the first line then is probably a row,
                whose values would become public as names.
        """
        valued = [
            (form, reading) for form, reading in zip(self.forms_of_names, readings, strict=True)
            if reading.kind is not ColumnKind.STRING
        ]  # fmt: skip
        counted = len(self.names) >= _LEAST_NUMBERED and self.names == [str(each) for each in range(len(self.names))]
        if valued and not counted and all(_fits(form, reading) for form, reading in valued):
            raise HoldoutRejected(
                f"The first line of the {self.what} file has values in place of column names. Write the names in the "
                "first line, or rename columns whose names are numbers."
            )
        values = [
            reading.sql.replace("{t}", _trimmed(place)) or (_trimmed(place) if self.trimmed else f"c{place}")
            for place, reading in enumerate(readings)
        ]
        listed = ", ".join(f"{value} AS {quoted(name)}" for value, name in zip(values, self.names, strict=True))
        connection.execute(f"CREATE VIEW {quoted(view)} AS SELECT {listed} FROM {self.texts}")


def _fits(form: Shape, reading: _ColumnReading) -> bool:
    """Return whether a column's name has the form of its values. Then the file may lack a line of names."""
    own = _reading(form, frozenset())
    return own.kind is reading.kind if isinstance(own, _ColumnReading) else True


def _trimmed(place: int) -> str:
    """Return SQL for a text of the file without outer blanks."""
    return f"trim(c{place}, ' \t')"


def _first_line(connection: duckdb.DuckDBPyConnection, path: Path, ending: str, *, what: str) -> tuple[list[str], str]:
    """Return the column names as the first line spells them, and the delimiter."""
    split: dict[str, list[str]] = {}
    for delimiter in ["\t"] if ending.startswith("tsv") else [",", ";", "\t", "|"]:
        with gzip.open(path) if ending.endswith("gz") else path.open("rb") as file, contextlib.suppress(csv.Error):
            text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
            split[delimiter] = next(csv.reader(text, delimiter=delimiter, strict=True), [])
    if split and not any(split.values()):
        raise HoldoutRejected(f"The first line of the {what} file is empty. Write the names of the columns there.")
    several = [delimiter for delimiter, names in split.items() if len(names) > 1]
    if len(several) == 1:
        return split[several[0]], several[0]
    if not several and ending.startswith("tsv"):
        return split.get("\t", []), "\t"
    sniffed, columns = connection.execute(
        "SELECT Delimiter, len(Columns) FROM sniff_csv($1, header = true, quote = '\"', escape = '\"', comment = '', "
        "skip = 0)",
        [file_pattern(path)],
    ).fetchall()[0]
    delimiter = str(sniffed) if several else ","
    if delimiter in split and (sniffed in several or (columns == 1 and not re.search(r"[,;|\t]", split[","][0]))):
        return split[delimiter], delimiter
    raise HoldoutRejected(
        f"The {what} file cannot be split into columns. Write the same number of values in "
        "every line, and close every quotation mark."
    )


def create_views(
    connection: duckdb.DuckDBPyConnection, files: Mapping[str, DelimitedFile], kinds: Mapping[str, ColumnKind]
) -> None:
    """Create views on files that belong together. A column in several files is read in one way.

    Args:
        connection: A connection that may read files, unlike the locked connections for analysts.
        files: Files by the names of their views.
        kinds: Kinds of columns that are known from another source, such as a data frame with the training rows.

    Raises:
        HoldoutRejected: If a column can be read in two ways, or differently in two files. Nothing was created.
    """
    marks = frozenset(
        mark for file in files.values() for forms in file.forms if (mark := _mark_of(forms)) is not None
    )  # fmt: skip
    together: dict[str, list[Shape]] = {}
    for file in files.values():
        for name, forms in zip(file.names, file.forms, strict=True):
            together.setdefault(name, []).append(forms)
    for view, file in files.items():
        readings = []
        for name, own in zip(file.names, file.forms, strict=True):
            reading = _reading_of(together[name], own, kinds.get(name), marks)
            if isinstance(reading, str):
                raise HoldoutRejected(
                    f"Column {name!r} of the {file.what} file {reading}. Write dates as 2025-03-01, times as "
                    "2025-03-01T10:30 (all with a zone or all without), and numbers as 1234.5.",
                    column=name,
                )
            readings.append(reading)
        file.create_view(connection, view, readings)


def _reading_of(
    each: Sequence[Shape], own: Shape, kind: ColumnKind | None, marks: frozenset[str]
) -> _ColumnReading | str:
    """Return how to parse a column that several files have, or a text that says why it cannot be parsed in one way."""
    forms = functools.reduce(operator.or_, each)
    if kind is ColumnKind.STRING:
        return _AS_TEXT
    if kind in _EMPTY and not forms & ~Shape.MISSING:
        return _ColumnReading(kind, _EMPTY[kind])
    reading = _reading(forms, marks)
    if reading != _AS_TEXT or not forms & ~(Shape.INTEGER | Shape.CODE | Shape.MISSING):
        return reading
    found = [_reading(one, marks) for one in each if one & ~Shape.MISSING]
    if all(one == _AS_TEXT for one in found):
        return reading
    alike = len({one.kind if isinstance(one, _ColumnReading) else None for one in found}) == 1
    return "is written in another way than that of the other file" if alike else _reading(own, marks)
