"""Dialects: how each engine writes the few constructs that statements about row values need.

`everhold_engines.sql.branching` writes the statements, with ``CASE``. A `Dialect` has the spellings of an engine, and
its special behaviour with numbers:

- DuckDB's optimiser trusts the statistics of a Parquet file, which do not mention nan. So it is switched off.

- PostgreSQL raises an error if a double becomes too large or too small, and compares texts by the language of its
  database.
- Spark raises an error for a division by zero, or returns null, depending on its session. Its literals depend on the
  session too.
- ClickHouse computes branches that are not taken, counts bytes by default, distinguishes nan and the two zeros in
  lists, and lets 64-bit sums overflow without an error.

In PostgreSQL and Spark nan equals itself and is above infinity. Integers of one row have at most 54 bits; their sums
are as wide as they have to be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import sqlglot

from everhold.errors import HoldoutRejected
from everhold.sealing.intake.duckdb_files import DOUBLE, SECONDS

_TYPES = MappingProxyType({
    "double": "DOUBLE PRECISION", "bigint": "BIGINT", "decimal": "DECIMAL(38, 6)", "text": "VARCHAR",
    "boolean": "BOOLEAN", "timestamp": "TIMESTAMP", "date": "DATE", "instant": "TIMESTAMP WITH TIME ZONE",
})  # fmt: skip
_SOURCE = "source_of_the_rows"
_HARMLESS = re.compile(r"[\w .,:;/+*=<>()-]*", re.ASCII)


_WORDS = {
    # columns: of numbers as doubles, of truth values, of texts that are compared by code points, of times as doubles,
    # seconds since 1970 in UTC and null where infinite; and any column as a text, to be compared for being equal only
    "number": "CAST({0} AS DOUBLE PRECISION)",
    "truth": "{0}",
    "text": "CAST({0} AS VARCHAR)",
    "time": "date_part('epoch', {0})",
    "shown": "CAST({0} AS VARCHAR)",
    # literals: doubles; a text of harmless signs; any other text, from its signs with quotes doubled ({0}), its bytes
    # in hex ({1}), or its signs with backslashes doubled, too ({2}); a missing value of a type; an integer of 64 bits
    "finite": "CAST('{0}' AS DOUBLE PRECISION)",
    "infinite": "CAST('Infinity' AS DOUBLE PRECISION)",
    "nan": "CAST('NaN' AS DOUBLE PRECISION)",
    "plain_text": "'{0}'",
    "any_text": "'{0}'",
    "null": "CAST(NULL AS {0})",
    "integer": "CAST({0} AS BIGINT)",
    # names of two types
    "double": "DOUBLE PRECISION",
    "string": "VARCHAR",
    # texts: the number of code points; so many ({2}) from a place ({1}, from 1) on; the last ones; whether another text
    # is inside; with the letters A to Z changed; SHA-256 of the UTF-8, in hex
    "length": "char_length({0})",
    "piece": "substr({0}, {1}, {2})",
    "ending": "right({0}, {1})",
    "inside": "(strpos({0}, {1}) > 0)",
    "lower": "translate({0}, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')",
    "upper": "translate({0}, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')",
    "sha256": "sha256({0})",
    # numbers: the integer below a double from 0 to 2^54, as a double and as an integer; whole part and rest of a
    # quotient of integers that are not negative; an integer with as many digits as sums need; one in [0, 1) by chance
    "floor": "floor({0})",
    "whole": "CAST(floor({0}) AS BIGINT)",
    "quotient": "({0} / {1})",
    "rest": "{0} % {1}",
    "wide": "CAST({0} AS NUMERIC)",
    "random": "random()",
    # aggregations: rows with a condition; the sum of integers of so many bits; the rows of a group
    "count": "count(*) FILTER (WHERE {0})",
    "sum": "sum({0})",
    "size": "count(*)",
    # what keeps sub-selects apart that would be merged otherwise, so that shared parts would be repeated
    "fence": "",
    # what ends a statement
    "closing": "",
}
"""Templates of everything that statements need, by name; ``{0}``, ``{1}``, ... stand for operands, which are SQL."""


def _words(**own: str) -> Mapping[str, str]:
    """Return all SQL templates of an engine: the standard ones, with some replaced."""
    if unknown := own.keys() - _WORDS:
        raise TypeError(f"no statement needs the word {min(unknown)!r}")
    return MappingProxyType({**_WORDS, **own})


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one engine spells the SQL of statements about row values.

    Attributes:
        words: SQL templates by name. `write` replaces their placeholders by operands.
        quote: Character that encloses names, and is doubled inside them.
        doubled: Characters besides `quote` that are doubled inside of names.
        rows: Alias of the table in a statement.
        types: Names of types of columns; ``instant`` is a time with a zone.
        years: The first and the last year that a column of dates can have.
        raises: Whether doubles that become too large or too small are errors.
        greatest_nan: Whether nan is above all numbers and equals itself. If not, comparisons with nan follow IEEE 754.
        eager: Whether branches are computed for rows that do not take them.
        drafted: Dialect in which statements are written before sqlglot translates them. None if they are written in
            this dialect directly.

    Examples:
        >>> DUCKDB.quoted("odd name"), SPARK.quoted("odd name"), SPARK.literal(0.5)
        ('"odd name"', '`odd name`', '0.5D')
        >>> POSTGRESQL.write("shown", "t.day")
        't.day::text'
    """

    name: str
    words: Mapping[str, str] = field(default_factory=_words, hash=False)
    quote: str = '"'
    doubled: str = ""
    rows: str = "t"
    types: Mapping[str, str] = field(default_factory=lambda: _TYPES, hash=False)
    years: tuple[int, int] = (1, 9999)
    raises: bool = False
    greatest_nan: bool = True
    eager: bool = False
    drafted: Dialect | None = None

    def write(self, word: str, *operands: object) -> str:
        """Return the engine's SQL for a named template, with its operands filled in."""
        return self.words[word].format(*operands)

    def spelled(self, **words: str) -> Dialect:
        """Return the dialect with some words replaced."""
        return replace(self, words=_words(**{**self.words, **words}))

    @property
    def tested(self) -> bool:
        """True if statements were run by this engine in tests."""
        return self.drafted is None

    def quoted(self, name: str) -> str:
        """Return a name as a quoted identifier."""
        inside = re.sub(f"[{re.escape(self.quote + self.doubled)}]", lambda sign: sign[0] * 2, name)
        return f"{self.quote}{inside}{self.quote}"

    def column(self, name: str) -> str:
        """Return SQL for a column of the table."""
        return f"{self.rows}.{self.quoted(name)}"

    def literal(self, value: float | str) -> str:
        """Return SQL for an exact double or a text."""
        if isinstance(value, str):
            word, signs = "plain_text" if _HARMLESS.fullmatch(value) else "any_text", value.replace("'", "''")
            return self.write(word, signs, value.encode().hex(), signs.replace("\\", "\\\\"))
        if math.isnan(value):
            return self.write("nan")
        if value < 0 and (math.isinf(value) or "'" not in self.words["finite"]):
            return f"(-{self.literal(-value)})"
        return self.write("infinite") if math.isinf(value) else self.write("finite", repr(value))

    def draft(self, source: str) -> tuple[Dialect, str]:
        """Return the dialect in which a statement is written, and the name of its source until `finished`."""
        return (self, source) if self.drafted is None else (self.drafted, _SOURCE)

    def finished(self, statement: str, source: str) -> str:
        """Return a drafted statement in the engine's dialect."""
        if self.drafted is not None:
            (translated,) = sqlglot.transpile(statement, read=self.drafted.name, write=self.name, comments=False)
            statement = translated.replace(_SOURCE, source)
        return statement + self.write("closing")

    def total(self, column: str, *, unit: int, condition: bool) -> str:
        """Return SQL for an exact sum of integers up to ``unit``, or of ``unit`` for each row with a condition.

        Args:
            column: SQL of the column.
            unit: Grid steps between 0 and 1.
            condition: Whether the column is a condition, each row of which that is true counts as `unit`.
        """
        if condition:
            return f"{self.write('wide', self.write('count', column))} * {int(unit)}"
        bits = (int(unit).bit_length() + 1) // 2
        return self.write("sum", column, bits, 2**bits - 1, 2**bits)


DUCKDB = Dialect(
    "duckdb",
    _words(
        number=DOUBLE,
        time=SECONDS,
        finite="'{0}'::DOUBLE",
        infinite="'inf'::DOUBLE",
        any_text="'{0}'",
        quotient="({0} // {1})",
        wide="({0})::HUGEINT",
        size="count(*)::BIGINT",
    ),
)  # fmt: skip

POSTGRESQL = Dialect(
    "postgres",
    _words(
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
        fence=" OFFSET 0",
    ),
    types=MappingProxyType({**_TYPES, "text": "text"}),
    raises=True,
)  # fmt: skip

SPARK = Dialect(
    "spark",
    _words(
        number="CAST({0} AS DOUBLE)",
        truth="CAST({0} AS BOOLEAN)",
        text="CAST({0} AS STRING)",
        # its type is known when the plan is made, and one branch is left; none asks for the session's time zone
        time="CASE typeof({0}) WHEN 'date' THEN CAST(unix_date(CAST({0} AS DATE)) AS DOUBLE) * 86400.0D "
             "WHEN 'timestamp' THEN CAST(unix_micros(CAST({0} AS TIMESTAMP)) AS DOUBLE) / 1000000.0D "
             "ELSE CAST(unix_date(CAST({0} AS DATE)) * 86400000000L + hour({0}) * 3600000000L + "
             "minute({0}) * 60000000L + CAST(extract(SECOND FROM {0}) * 1000000 AS BIGINT) AS DOUBLE) / 1000000.0D END",
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
    ),
    quote="`",
    types=MappingProxyType(
        {**_TYPES, "double": "DOUBLE", "text": "STRING", "timestamp": "TIMESTAMP_NTZ", "instant": "TIMESTAMP"}
    ),
)  # fmt: skip

CLICKHOUSE = Dialect(
    "clickhouse",
    _words(
        # the type is known when the statement is read, and one branch is left; casts of wide types round twice
        number="if(match(toTypeName({0}), 'Decimal|128|256'), toFloat64(toString({0})), toFloat64({0}))",
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
        # otherwise shared parts of nested branches are computed again and again, 2^15 times in one test
        closing=" SETTINGS short_circuit_function_evaluation = 'disable'",
        sha256="lower(hex(SHA256({0})))",
    ),
    quote="`",
    doubled="\\",
    rows="everhold",  # t.size is the length of the texts in a column t if there is one, whatever the table is called
    types=MappingProxyType(
        {
            "double": "Nullable(Float64)",
            "bigint": "Nullable(Int64)",
            "decimal": "Nullable(Decimal(38, 6))",
            "text": "Nullable(String)",
            "boolean": "Nullable(Bool)",
            "timestamp": "Nullable(DateTime64(6, 'UTC'))",
            "date": "Nullable(Date32)",
            "instant": "Nullable(DateTime64(6, 'Asia/Tokyo'))",
        }
    ),
    years=(1900, 2299),
    greatest_nan=False,
    eager=True,
)  # fmt: skip

_STANDARD = Dialect(
    "postgres",
    _words(
        quotient="CAST(({0} - {0} % {1}) / {1} AS BIGINT)",  # a slash between integers may give a fraction
        sum="sum(CAST({0} AS DECIMAL))",
        wide="CAST({0} AS DECIMAL)",
    ),
    raises=True,
)  # fmt: skip

_SNOWFLAKE = _STANDARD.spelled(
    time="CAST(date_part('epoch_microsecond', {0}) AS DOUBLE PRECISION) / CAST('1000000.0' AS DOUBLE PRECISION)",
)  # fmt: skip

_BIGQUERY = _STANDARD.spelled(
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
    """Return an SQL dialect by name. Dialects without their own definition are translated by sqlglot.

    Raises:
        HoldoutRejected: If there is no dialect of this name.

    Examples:
        >>> dialect_named("postgresql") is POSTGRESQL, dialect_named("trino").tested
        (True, False)
    """
    found = _KNOWN.get({"postgresql": "postgres", "clickhousedb": "clickhouse"}.get(name, name))
    if found is None:
        raise HoldoutRejected(f"There is no dialect {name!r}. Use one of {', '.join(sorted(_KNOWN))}, or seal a file.")
    return found
