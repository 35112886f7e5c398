"""Every engine that is not the embedded one gives the integers of the rules, whatever is asked."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import duckdb
import expression_reference as reference
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot
from test_expression_engines import KINDS, LARGE, ROWS, UNITS, by_row, expected, generated

from everhold.errors import HoldoutRejected
from everhold.values.expressions import ColumnKind, RowValue, parse
from everhold.values.expressions.tree import Node, Operation
from everhold_engines.sql.branching import safe_template
from everhold_engines.sql.compiler import literal_rows_sql, row_values_sql, totals_sql
from everhold_engines.sql.dialects import CLICKHOUSE, DUCKDB, POSTGRESQL, SPARK, dialect_named

OTHERS = ("snowflake", "bigquery", "trino")
TYPES = {"number": "double", "string": "text", "boolean": "boolean", "time": "timestamp"}


@pytest.fixture(scope="module")
def data():
    return {**reference.table(ROWS, seed=1), "id": list(range(ROWS))}


@pytest.fixture(scope="module")
def file(data, tmp_path_factory):
    types = {"number": pa.float64(), "string": pa.string(), "boolean": pa.bool_(), "time": pa.timestamp("us")}
    usual = {name: types[KINDS[name].value] for name in data if name != "id"} | {"n": pa.int64(), "id": pa.int64()}
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table({name: pa.array(values, usual[name]) for name, values in data.items()}), path)
    return path


@pytest.fixture(scope="module")
def literals(data):
    """The rows as literals of a dialect."""
    kinds = {name: TYPES[KINDS[name].value] for name in data if name != "id"} | {"n": "bigint", "id": "bigint"}
    typed = {name: (kinds[name], values) for name, values in data.items()}
    return lambda dialect: literal_rows_sql(typed, dialect)


@pytest.fixture(scope="module")
def in_postgres(postgres):
    import psycopg

    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        yield lambda statement: connection.execute(statement).fetchall()


def check(run, source, dialect, data, *, count, at_once, size=3, seed=21):
    """Generated expressions by the engine and by the rules."""
    rows, draw, items = by_row(data), random.Random(seed), list(generated(count, seed, size))
    different = set()
    for start in range(0, count, at_once):
        unit = draw.choice(UNITS)
        trees, values = zip(*items[start : start + at_once], strict=True)
        found = sorted(map(tuple, run(row_values_sql(values, source, position="id", unit=unit, dialect=dialect))))
        for place, (tree, value) in enumerate(zip(trees, values, strict=True), 1):
            wanted = expected(tree, value, unit, rows)
            assert [row[place] for row in found] == wanted, tree
            different.update(wanted)
    assert len(different) > count // 10


def test_generated_expressions_agree_with_the_rules_in_postgresql(in_postgres, literals, data):
    source = literals(POSTGRESQL)
    check(in_postgres, source, POSTGRESQL, data, count=300, at_once=10)
    check(in_postgres, source, POSTGRESQL, data, count=60, at_once=5, size=5)


def test_generated_expressions_agree_with_the_rules_in_clickhouse(clickhouse, file, data):
    source = f"file('{file}', Parquet)"
    check(lambda sql: clickhouse.query(sql).result_rows, source, CLICKHOUSE, data, count=120, at_once=5)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_generated_expressions_agree_with_the_rules_in_spark(spark, file, data, ansi):
    """In a session in New York, whose clocks are turned back, in both ways to meet an error."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", ansi)
    source, seed = f"parquet.`{file}`", 22 + (ansi == "true")
    check(lambda sql: session.sql(sql).collect(), source, SPARK, data, count=16, at_once=8, seed=seed)


@pytest.mark.parametrize("text", LARGE, ids=range(len(LARGE)))
def test_the_largest_expressions_are_computed_elsewhere_too(in_postgres, clickhouse, literals, data, text):
    value = RowValue(parse(text, KINDS))
    with duckdb.connect() as engine:
        (wanted,) = engine.execute(totals_sql([value], literals(DUCKDB))).fetchone()
    assert in_postgres(totals_sql([value], literals(POSTGRESQL), dialect=POSTGRESQL)) == [(wanted,)]
    assert clickhouse.query(totals_sql([value], literals(CLICKHOUSE), dialect=CLICKHOUSE)).result_rows == [(wanted,)]


AWKWARD = [0.0, -0.0, 5e-324, -5e-324, 1e-323, 2.0**-1022, 2.0**-1021, 2.0**-538, 2.0**-537, 2.0**-60, 0.5, 1.0, -1.0,
           1.0 + 2.0**-52, 3.0, 2.0**511, 2.0**512, 2.0**1022, 2.0**1023, 8.98846567431158e307, 1.7976931348623157e308,
           -1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), None, 9.979201547673599e291]  # fmt: skip


def awkward_pairs():
    """Pairs whose sums, products or quotients are at the ends of the doubles, also those that rounding decides."""
    draw = random.Random(5)
    yield from ((one, other) for one in AWKWARD for other in AWKWARD)
    for _ in range(1_500):  # the product is 2^-1075 and a little, or 2^1024 and a little; so are the quotients
        mantissa = draw.uniform(1.0, 2.0)
        inverse = 2.0 / mantissa
        for exponent in (-1076, -1075, 1023, 1022):
            shift = draw.randint(-500, 500)
            yield mantissa * 2.0 ** (exponent // 2 + shift), inverse * 2.0 ** (exponent - exponent // 2 - shift)
        yield mantissa * 2.0 ** draw.randint(-1074, 1023), draw.uniform(1.0, 2.0) * 2.0 ** draw.randint(-1074, 1023)


def bits(number):
    """A double as an integer; zeros are one, and what is missing too."""
    return None if number is None or number != number else struct.pack("<d", number + 0.0 if number else 0.0)


SIGNS = {
    Operation.ADD: ("+", lambda x, y: x + y),
    Operation.SUBTRACT: ("-", lambda x, y: x - y),
    Operation.MULTIPLY: ("*", lambda x, y: x * y),
    Operation.DIVIDE: ("/", lambda x, y: None if y == 0 else x / y),
}


@pytest.mark.parametrize("operation", SIGNS, ids=lambda operation: operation.value)
def test_watched_arithmetic_is_ieee_s_to_the_bit_and_never_raises(in_postgres, operation):
    sign, rule = SIGNS[operation]
    columns = [Node(Operation.COLUMN, ColumnKind.NUMBER, value=name) for name in "xy"]
    plain = f"({{0}} {sign} nullif({{1}}, '0'::float8))" if sign == "/" else f"({{0}} {sign} {{1}})"
    written = safe_template(Node(operation, ColumnKind.NUMBER, tuple(columns)), plain, POSTGRESQL)
    pairs = list(awkward_pairs())
    source = literal_rows_sql({"x": ("double", [x for x, _ in pairs]), "y": ("double", [y for _, y in pairs])},
                              POSTGRESQL)  # fmt: skip
    found = in_postgres(f"SELECT x, y, {written.format('x', 'y')} FROM {source} AS t")
    assert len(found) == len(pairs)
    for x, y, result in found:
        wanted = None if None in (x, y) else rule(x, y)
        assert bits(result) == bits(wanted), (x, y)


@pytest.mark.parametrize("constant", [3.0, 1e300, 1e-300, 0.1, 5e-324, -2.5, 1.0, -1e-5])
@pytest.mark.parametrize("sign", ["*", "/"])
def test_watched_arithmetic_with_a_literal_is_ieee_s(in_postgres, constant, sign):
    operation = Operation.MULTIPLY if sign == "*" else Operation.DIVIDE
    operands = (Node(Operation.COLUMN, ColumnKind.NUMBER, value="x"), Node.literal(constant))
    written = safe_template(Node(operation, ColumnKind.NUMBER, operands), f"({{0}} {sign} {{1}})", POSTGRESQL)
    ends = [1.7976931348623157e308, 5e-324]
    near = [end / constant if sign == "*" else end * constant for end in ends]
    numbers = AWKWARD + [number * (1.0 + step * 2.0**-52) for number in near for step in (-2, -1, 0, 1, 2)]
    source = literal_rows_sql({"x": ("double", numbers)}, POSTGRESQL)
    for x, result in in_postgres(f"SELECT x, {written.format('x', POSTGRESQL.literal(constant))} FROM {source} AS t"):
        assert bits(result) == bits(None if x is None else SIGNS[operation][1](x, constant)), x


def test_unwatched_arithmetic_would_raise(in_postgres, literals):
    import psycopg

    careless = replace(POSTGRESQL, raises=False)
    for text in ("x * x", "x / n", "x + x", "x * 1e300"):
        with pytest.raises(psycopg.Error, match="out of range"):
            in_postgres(totals_sql([RowValue(parse(text, KINDS))], literals(careless), dialect=careless))


def test_times_and_simple_queries_need_no_watching():
    """The text of a usual query is as long as an analyst would write it."""
    kinds = {"x": ColumnKind.NUMBER, "t": ColumnKind.TIME}
    for text, most in (("x > 60", 200), ("x", 400), ("x + 15", 500), ("year(t)", 2_000), ("ln(x)", 12_000)):
        expression = parse(text, kinds)
        value = RowValue(expression) if expression.kind is ColumnKind.BOOLEAN else RowValue(expression, 0, 180)
        assert len(totals_sql([value], "flights", dialect=POSTGRESQL)) < most
    assert "CASE WHEN abs" not in totals_sql([RowValue(parse("year(t)", kinds), 0, 1)], "flights", dialect=POSTGRESQL)
    assert "CASE WHEN abs" in totals_sql([RowValue(parse("x * x", kinds), 0, 1)], "flights", dialect=POSTGRESQL)


@pytest.mark.parametrize("dialect", [DUCKDB, POSTGRESQL, SPARK, CLICKHOUSE], ids=lambda dialect: dialect.name)
def test_names_and_texts_are_quoted(dialect):
    quote = dialect.quote
    assert dialect.quoted(f"a{quote}b") == f"{quote}a{quote}{quote}b{quote}"
    assert dialect.literal("UA") == "'UA'"
    for text in ("it's", "a\\", "é", "\\'", "--;"):
        assert "''" in dialect.literal(text) or "'" not in text or text.encode().hex() in dialect.literal(text)


@pytest.mark.parametrize("name", OTHERS)
def test_other_dialects_are_translated_and_say_that_nobody_ran_them(name):
    dialect = dialect_named(name)
    kinds = {"odd name": ColumnKind.NUMBER, "s": ColumnKind.STRING, "t": ColumnKind.TIME}
    texts = ["\"odd name\" > 60 and s like 'a%b'", 'least("odd name", 3) / "odd name"', "hour(t)"]
    expressions = [parse(text, kinds) for text in texts]
    values = [RowValue(one) if one.kind is ColumnKind.BOOLEAN else RowValue(one, 0, 10) for one in expressions]
    for written in (totals_sql(values, dialect.quoted("my rows"), dialect=dialect), row_values_sql(
        values, "(SELECT 1)", dialect=dialect)):  # fmt: skip
        assert isinstance(sqlglot.parse_one(written, dialect=name), sqlglot.exp.Select)
        assert dialect.quoted("odd name") in written
        assert "source_of_the_rows" not in written
        assert "::" not in written
    assert not dialect.tested


def test_an_unknown_dialect_is_refused():
    assert dialect_named("postgresql") is POSTGRESQL
    with pytest.raises(HoldoutRejected, match=r"no dialect 'oracle'\. Use one of bigquery, clickhouse, duckdb"):
        dialect_named("oracle")
