"""Dialects: how each engine writes the few constructs that statements about row values need.

`everhold_engines.sql.branching` writes the statements, with ``CASE``. A `Dialect` has the spellings of an
engine, and what it does with numbers that others do not:

- DuckDB's optimizer believes the statistics of a Parquet file, which say nothing of nan; it has to be switched off.

- PostgreSQL raises where a double becomes too large or too small, and compares texts in the language of its database.
- Spark raises for a division by zero, or makes it null, as its session says; its literals depend on the session, too.
- ClickHouse computes branches that are not taken, counts bytes unless told otherwise, knows nan and two zeros where it
  looks into a list, and lets sums of 64 bits run over without a word.

In PostgreSQL and Spark nan equals itself and is above infinity. Integers of one row have at most 54 bits; their sums
are as wide as they have to be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import sqlglot

from everhold.errors import HoldoutRejected

__all__ = ["CLICKHOUSE", "DUCKDB", "POSTGRESQL", "SPARK", "Dialect", "dialect_named"]

_TYPES = MappingProxyType({
    "double": "DOUBLE PRECISION", "bigint": "BIGINT", "decimal": "DECIMAL(15, 2)", "text": "VARCHAR",
    "boolean": "BOOLEAN", "timestamp": "TIMESTAMP", "date": "DATE", "instant": "TIMESTAMP WITH TIME ZONE",
})  # fmt: skip
_SOURCE = "source_of_the_rows"
_HARMLESS = re.compile(r"[\w .,:;/+*=<>()-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's spelling. In templates ``{0}``, ``{1}``, ... stand for operands, which are SQL.

    Attributes:
        name: As sqlglot calls it.
        quote: What stands around names; doubled inside them.
        doubled: Signs that are doubled inside of names, besides that one.
        rows: What the table is called in a statement.
        number: A column of numbers as a double.
        truth: A column of truth values.
        text: A column of texts, compared by code points.
        time: A column of times as a double, seconds since 1970 in UTC; null where it is infinite.
        shown: Any column as a text, to be compared for being equal only.
        finite: A literal double; ``infinite`` is infinity, ``nan`` no number.
        plain_text: A literal text of harmless signs in quotes; ``any_text`` any other, from its signs with quotes
            doubled (``{0}``), its bytes in hex (``{1}``), or its signs with backslashes doubled, too (``{2}``).
        null: A missing value of a kind, ``{0}`` is the type of the column.
        double, string: Names of these types.
        length: Number of code points; ``piece``: so many (``{2}``) from a place (``{1}``, from 1) on; ``ending``: the
            last ones; ``inside``: whether a text has another one in it.
        lower, upper: A text with the letters A to Z changed.
        integer: A literal integer of 64 bits.
        whole: The integer below a double from 0 to 2^54; ``floor``: the same as a double.
        quotient: The whole part of a quotient of integers that are not negative.
        rest: The rest of such a quotient.
        wide: An integer with as many digits as sums need.
        count, sum: How many rows have a condition; sum of integers of at most so many bits, in an aggregation.
        size: Number of rows of a group.
        random: A double from 0 to below 1, drawn for each row.
        sha256: SHA-256 of a text in UTF-8, in hex.
        types: Names of types of columns; ``instant`` is a time with a zone.
        years: The first and the last year that a column of dates can have.
        fence: What keeps sub-selects apart that would be merged otherwise, so that shared parts would be repeated.
        closing: What ends a statement.
        raises: Whether doubles that become too large or too small are errors.
        greatest_nan: Whether nan is above all numbers and equals itself; as in IEEE's rules otherwise.
        eager: Whether branches are computed for rows that do not take them.
        drafted: In which dialect statements are written before sqlglot translates them; None where it does not.

    Examples:
        >>> DUCKDB.quoted("odd name"), SPARK.quoted("odd name"), SPARK.literal(0.5)
        ('"odd name"', '`odd name`', '0.5D')
    """

    name: str
    quote: str = '"'
    doubled: str = ""
    rows: str = "t"
    number: str = "CAST({0} AS DOUBLE PRECISION)"
    truth: str = "{0}"
    text: str = "CAST({0} AS VARCHAR)"
    time: str = "date_part('epoch', {0})"
    shown: str = "CAST({0} AS VARCHAR)"
    finite: str = "CAST('{0}' AS DOUBLE PRECISION)"
    infinite: str = "CAST('Infinity' AS DOUBLE PRECISION)"
    nan: str = "CAST('NaN' AS DOUBLE PRECISION)"
    plain_text: str = "'{0}'"
    any_text: str = "'{0}'"
    null: str = "CAST(NULL AS {0})"
    double: str = "DOUBLE PRECISION"
    string: str = "VARCHAR"
    length: str = "char_length({0})"
    piece: str = "substr({0}, {1}, {2})"
    ending: str = "right({0}, {1})"
    inside: str = "(strpos({0}, {1}) > 0)"
    lower: str = "translate({0}, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')"
    upper: str = "translate({0}, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')"
    integer: str = "CAST({0} AS BIGINT)"
    floor: str = "floor({0})"
    whole: str = "CAST(floor({0}) AS BIGINT)"
    quotient: str = "({0} / {1})"
    rest: str = "{0} % {1}"
    wide: str = "CAST({0} AS NUMERIC)"
    count: str = "count(*) FILTER (WHERE {0})"
    sum: str = "sum({0})"
    size: str = "count(*)"
    random: str = "random()"
    sha256: str = "sha256({0})"
    types: Mapping[str, str] = field(default_factory=lambda: _TYPES, hash=False)
    years: tuple[int, int] = (1, 9999)
    fence: str = ""
    closing: str = ""
    raises: bool = False
    greatest_nan: bool = True
    eager: bool = False
    drafted: Dialect | None = None

    @property
    def tested(self) -> bool:
        """True if statements have been run by that engine."""
        return self.drafted is None

    def quoted(self, name: str) -> str:
        """A name as a quoted identifier."""
        inside = re.sub(f"[{re.escape(self.quote + self.doubled)}]", lambda sign: sign[0] * 2, name)
        return f"{self.quote}{inside}{self.quote}"

    def column(self, name: str) -> str:
        """A column of the table."""
        return f"{self.rows}.{self.quoted(name)}"

    def literal(self, value: float | str) -> str:
        """A double exactly, or a text; `repr` is the shortest text that reads back as the same double."""
        if isinstance(value, str):
            template = self.plain_text if _HARMLESS.fullmatch(value) else self.any_text
            signs = value.replace("'", "''")
            return template.format(signs, value.encode().hex(), signs.replace("\\", "\\\\"))
        if math.isnan(value):
            return self.nan
        if math.isinf(value):
            return self.infinite if value > 0 else f"(-{self.infinite})"
        return self.finite.format(repr(value)) if value >= 0 or "'" in self.finite else f"(-{self.literal(-value)})"

    def as_text(self, column: str) -> str:
        """A column of any type as a text."""
        return self.shown.format(column)

    def divided(self, integer: str, by: str | int) -> str:
        """The whole part of a quotient of two integers that are not negative."""
        return self.quotient.format(integer, by)

    def draft(self, source: str) -> tuple[Dialect, str]:
        """The dialect in which a statement is written, and how it calls the source of the rows until `finished`."""
        return (self, source) if self.drafted is None else (self.drafted, _SOURCE)

    def finished(self, statement: str, source: str) -> str:
        """The statement as the engine gets it."""
        if self.drafted is not None:
            (translated,) = sqlglot.transpile(statement, read=self.drafted.name, write=self.name, comments=False)
            statement = translated.replace(_SOURCE, source)
        return statement + self.closing

    def total(self, column: str, *, unit: int, condition: bool) -> str:
        """In an aggregation, the exact sum of integers up to ``unit``, or ``unit`` for each row with a condition."""
        if condition:
            return f"{self.wide.format(self.count.format(column))} * {int(unit)}"
        bits = (int(unit).bit_length() + 1) // 2
        return self.sum.format(column, bits, 2**bits - 1, 2**bits)

    def spread(self, rows: str, kept: Sequence[str], columns: Sequence[str]) -> str:
        """Rows ``place, value`` and those kept, from rows with one value in each of some columns."""
        before = "".join(f"{name}, " for name in kept)
        if len(columns) == 1:
            return f"SELECT {before}0 AS place, {columns[0]} AS value FROM {rows} AS w"
        if self.name == "duckdb":
            places = ", ".join(map(str, range(len(columns))))
            return f"SELECT {before}unnest([{places}]) AS place, unnest([{', '.join(columns)}]) AS value FROM {rows}"
        if self.name == "spark":
            pairs = ", ".join(f"{place}, {column}" for place, column in enumerate(columns))
            return f"SELECT {before}stack({len(columns)}, {pairs}) AS (place, value) FROM {rows} AS w"
        if self.name == "clickhouse":
            pairs = ", ".join(f"({place}, {column})" for place, column in enumerate(columns))
            joined = f"SELECT {before}arrayJoin([{pairs}]) AS pair FROM {rows} AS w"
            return f"SELECT {before}pair.1 AS place, pair.2 AS value FROM ({joined}) AS w"
        places = " UNION ALL ".join(f"SELECT {place} AS place" for place in range(len(columns)))
        chosen = " ".join(f"WHEN {place} THEN {column}" for place, column in enumerate(columns))
        return f"SELECT {before}place, CASE place {chosen} END AS value FROM {rows} AS w CROSS JOIN ({places}) AS each"

    def texts_in_order(self, rows: str, columns: Sequence[str], *, part: str, by: str) -> str:
        """Of each part of some rows the texts in each column, in the order of others, with commas between them.

        Where the engine can, sorted once for all columns. No two rows of a part have the same text in ``by``.
        """
        if self.name not in ("spark", "clickhouse"):
            listed = ", ".join(f"string_agg({column}, ',' ORDER BY {by}) AS {column}" for column in columns)
            return f"SELECT {part}, {listed} FROM {rows} AS l GROUP BY {part}"
        texts = ", ".join([by, *columns])
        told, one = {
            "spark": (f"array_sort(collect_list(struct({texts})))", "array_join(transform(told, s -> s.{0}), ',')"),
            "clickhouse": (f"arraySort(s -> s.1, groupArray(tuple({texts})))", "arrayStringConcat(told.{1}, ',')"),
        }[self.name]
        listed = ", ".join(f"{one.format(column, place)} AS {column}" for place, column in enumerate(columns, 2))
        return f"SELECT {part}, {listed} FROM (SELECT {part}, {told} AS told FROM {rows} AS l GROUP BY {part}) AS o"


DUCKDB = Dialect(
    "duckdb", finite="'{0}'::DOUBLE", infinite="'inf'::DOUBLE", any_text="'{0}'", quotient="({0} // {1})",
    wide="({0})::HUGEINT", size="count(*)::BIGINT",
)  # fmt: skip

POSTGRESQL = Dialect(
    "postgres",
    number="{0}::float8",
    text='{0}::text COLLATE "C"',
    # the seconds of a date are taken from the date itself where a timestamp could not hold it
    time="CASE WHEN NOT isfinite({0}) THEN NULL WHEN {0} > '200000-01-01' THEN extract(epoch FROM {0})::float8 "
         "ELSE date_part('epoch', {0}) END",
    shown="{0}::text",
    finite="'{0}'::float8",
    infinite="'Infinity'::float8",
    nan="'NaN'::float8",
    any_text="E'{2}'",
    double="float8",
    string="text",
    integer="'{0}'::bigint",
    whole="floor({0})::bigint",
    wide="({0})::numeric",
    sha256="encode(sha256(convert_to({0}, 'UTF8')), 'hex')",
    types=MappingProxyType({**_TYPES, "text": "text"}),
    fence=" OFFSET 0",
    raises=True,
)  # fmt: skip

SPARK = Dialect(
    "spark",
    quote="`",
    number="CAST({0} AS DOUBLE)",
    truth="CAST({0} AS BOOLEAN)",
    text="CAST({0} AS STRING)",
    # its type is known when the plan is made, and one branch is left; none asks for the session's time zone
    time="CASE typeof({0}) WHEN 'date' THEN CAST(unix_date(CAST({0} AS DATE)) AS DOUBLE) * 86400.0D "
         "WHEN 'timestamp' THEN CAST(unix_micros(CAST({0} AS TIMESTAMP)) AS DOUBLE) / 1000000.0D "
         "ELSE CAST(unix_date(CAST({0} AS DATE)) * 86400000000L + hour({0}) * 3600000000L + minute({0}) * 60000000L "
         "+ CAST(extract(SECOND FROM {0}) * 1000000 AS BIGINT) AS DOUBLE) / 1000000.0D END",
    shown="CAST({0} AS STRING)",
    finite="{0}D",
    infinite="CAST('Infinity' AS DOUBLE)",
    nan="CAST('NaN' AS DOUBLE)",
    any_text="CAST(X'{1}' AS STRING)",
    double="DOUBLE",
    string="STRING",
    inside="contains({0}, {1})",
    floor="CAST(floor({0}) AS DOUBLE)",
    integer="{0}L",
    whole="floor({0})",
    quotient="({0} div {1})",
    wide="CAST({0} AS DECIMAL(38, 0))",
    sum="(CAST(sum(shiftright({0}, {1})) AS DECIMAL(38, 0)) * {3} + CAST(sum({0} & {2}) AS DECIMAL(38, 0)))",
    random="rand()",
    sha256="sha2({0}, 256)",
    types=MappingProxyType(
        {**_TYPES, "double": "DOUBLE", "text": "STRING", "timestamp": "TIMESTAMP_NTZ", "instant": "TIMESTAMP"}
    ),
)  # fmt: skip

CLICKHOUSE = Dialect(
    "clickhouse",
    quote="`",
    doubled="\\",
    rows="everhold",  # t.size is the length of the texts in a column t if there is one, whatever the table is called
    number="toFloat64({0})",
    text="toString({0})",
    time="(toFloat64(toUnixTimestamp64Micro(toDateTime64({0}, 6, 'UTC'))) / 1000000.0)",
    shown="toString({0})",
    finite="{0}",
    infinite="inf",
    nan="nan",
    any_text="unhex('{1}')",
    null="CAST(NULL AS Nullable({0}))",
    double="Float64",
    string="String",
    length="lengthUTF8({0})",
    piece="substringUTF8({0}, {1}, {2})",
    ending="rightUTF8({0}, {1})",
    inside="(position({0}, {1}) > 0)",
    lower="lower({0})",  # of ASCII alone
    upper="upper({0})",
    integer="toInt64({0})",
    whole="toInt64(floor({0}))",
    quotient="intDiv({0}, {1})",
    wide="toInt128({0})",
    count="countIf({0})",
    sum="(toInt128(sum(bitShiftRight({0}, {1}))) * {3} + toInt128(sum(bitAnd({0}, {2}))))",
    random="randCanonical()",
    types=MappingProxyType(
        {
            "double": "Nullable(Float64)",
            "bigint": "Nullable(Int64)",
            "decimal": "Nullable(Decimal(15, 2))",
            "text": "Nullable(String)",
            "boolean": "Nullable(Bool)",
            "timestamp": "Nullable(DateTime64(6, 'UTC'))",
            "date": "Nullable(Date32)",
            "instant": "Nullable(DateTime64(6, 'Asia/Tokyo'))",
        }
    ),
    years=(1900, 2299),
    # otherwise shared parts of nested branches are computed again and again, 2^15 times in one test
    closing=" SETTINGS short_circuit_function_evaluation = 'disable'",
    sha256="lower(hex(SHA256({0})))",
    greatest_nan=False,
    eager=True,
)

_STANDARD = Dialect(
    "postgres",
    quotient="CAST(({0} - {0} % {1}) / {1} AS BIGINT)",  # a slash between integers may give a fraction
    sum="sum(CAST({0} AS DECIMAL))",
    wide="CAST({0} AS DECIMAL)",
    raises=True,
)
_SNOWFLAKE = replace(
    _STANDARD,
    time="CAST(date_part('epoch_microsecond', {0}) AS DOUBLE PRECISION) / CAST('1000000.0' AS DOUBLE PRECISION)",
)
_BIGQUERY = replace(
    _STANDARD,
    time="CAST(unix_micros(CAST({0} AS TIMESTAMP WITH TIME ZONE)) AS DOUBLE PRECISION) "
         "/ CAST('1000000.0' AS DOUBLE PRECISION)",
)  # fmt: skip

_KNOWN = {
    dialect.name: dialect
    for dialect in (
        DUCKDB,
        POSTGRESQL,
        SPARK,
        CLICKHOUSE,
        Dialect("snowflake", drafted=_SNOWFLAKE),
        Dialect("bigquery", quote="`", doubled="\\", drafted=_BIGQUERY),
        Dialect("trino", drafted=_STANDARD),
    )
}


def dialect_named(name: str) -> Dialect:
    """The dialect of a name: one of those above, or one that sqlglot translates into, which has not been run.

    Args:
        name: As sqlglot or SQLAlchemy call it.

    Raises:
        HoldoutRejected: If there is none of the name.

    Examples:
        >>> dialect_named("postgresql") is POSTGRESQL, dialect_named("trino").tested
        (True, False)
    """
    found = _KNOWN.get({"postgresql": "postgres", "clickhousedb": "clickhouse"}.get(name, name))
    if found is None:
        raise HoldoutRejected(
            f"there is no dialect {name!r}; expected one of {', '.join(sorted(_KNOWN))}; "
            "seal a file, or copy the rows to one of these engines"
        )
    return found
