"""Times and logarithms become arithmetic that agrees with Python's own calendar and logarithm."""

import math
import time
from datetime import UTC, date, datetime, timedelta

import duckdb
import expression_reference as reference
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.sealing.intake.duckdb_files import column_kinds
from everhold.sealing.rows.embedded import SEALED, locked_connection
from everhold.values.expressions import ColumnKind, Expression, RowValue, parse
from everhold.values.expressions.tree import Node, Operation, lowered
from everhold_engines.sql.compiler import row_values_sql, totals_sql

KINDS = {"t": ColumnKind.TIME, "u": ColumnKind.TIME, "x": ColumnKind.NUMBER, "s": ColumnKind.STRING}
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
PARTS = {"year": lambda t: t.year, "month": lambda t: t.month, "day": lambda t: t.day, "hour": lambda t: t.hour,
         "isodow": lambda t: t.isoweekday()}  # fmt: skip


def computed(text, row):
    """The value of one row by plain double operations; what is missing is None."""
    values = {}
    for node in lowered(parse(text, KINDS)).nodes:
        values[node] = _one(node, [values[operand] for operand in node.operands], row)
    return values[node]


def _one(node, inputs, row):
    match node.operation:
        case Operation.COLUMN:
            return row[node.value]
        case Operation.NUMBER:
            return node.value
        case Operation.NULL:
            return None
        case Operation.CASE:
            return next((result for test, result in zip(inputs[:-1:2], inputs[1::2], strict=True) if test), inputs[-1])
    if None in inputs:
        return None
    match node.operation:
        case Operation.ADD:
            return inputs[0] + inputs[1]
        case Operation.SUBTRACT:
            return inputs[0] - inputs[1]
        case Operation.MULTIPLY:
            return inputs[0] * inputs[1]
        case Operation.DIVIDE:
            return inputs[0] / inputs[1]
        case Operation.FLOOR:
            return float(math.floor(inputs[0]))
        case Operation.LESS:
            return inputs[0] < inputs[1]
    raise AssertionError(node.operation)


@given(moment=TIMES)
def test_the_calendar_is_python_s(moment):
    row = {"t": reference.seconds(moment.replace(microsecond=0))}
    for name, of in PARTS.items():
        assert computed(f"{name}(t)", row) == of(moment), name


@given(moment=TIMES, other=TIMES)
def test_differences_are_in_days(moment, other):
    row = {"t": reference.seconds(moment), "u": reference.seconds(other)}
    assert computed("t - u", row) == pytest.approx((moment - other) / timedelta(days=1), rel=1e-12, abs=1e-9)


@given(number=st.floats(min_value=5e-324, max_value=1.7976931348623157e308))
def test_the_logarithm_is_python_s_to_the_last_digits_and_the_reference_s_to_the_bit(number):
    found = computed("ln(x)", {"x": number})
    assert found == pytest.approx(math.log(number), rel=1e-15, abs=1e-300)
    assert found == reference.logarithm(number)


def test_a_calendar_off_by_a_day_would_be_seen(monkeypatch):
    monkeypatch.setattr("everhold.values.expressions.tree._DAYS_TO_1970", 719_467.0)
    assert computed("day(t)", {"t": reference.seconds(datetime(2024, 3, 1))}) != 1


def test_what_is_no_function_of_these_stays_the_same():
    expression = parse("x > 1 and s like 'a%'", KINDS)
    assert lowered(expression) is expression


TYPES = {"d": pa.date32(), "s": pa.timestamp("s"), "ms": pa.timestamp("ms"), "us": pa.timestamp("us"),
         "ns": pa.timestamp("ns"), "zone": pa.timestamp("us", tz="America/New_York")}  # fmt: skip


def test_times_of_every_type_are_the_same_moments_in_any_time_zone(tmp_path, monkeypatch):
    moments = [datetime(2024, 2, 29), datetime(1969, 12, 31), None]
    columns = {name: [one if one is None or name != "zone" else one.replace(tzinfo=UTC) for one in moments]
               for name in TYPES}  # fmt: skip
    columns["d"] = [None if one is None else one.date() for one in moments]
    path = tmp_path / "rows.parquet"
    duckdb.from_arrow(
        pa.table({name: pa.array(values, TYPES[name]) for name, values in columns.items()})
    ).write_parquet(str(path))
    kinds = column_kinds(duckdb.read_parquet(str(path)))
    assert set(kinds.values()) == {ColumnKind.TIME}
    texts = [f"{name} = date '2024-02-29'" for name in TYPES] + [f"year({name}) = 1969" for name in TYPES]
    texts += [f"{name} - d = 0" for name in TYPES]
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with locked_connection(path, threads=1) as connection:
        found = connection.execute(
            row_values_sql([RowValue(parse(text, kinds)) for text in texts], SEALED, unit=1)
        ).fetchall()
    assert found == [(*[1] * 6, *[0] * 6, *[1] * 6), (*[0] * 6, *[1] * 6, *[1] * 6), (*[0] * 18,)]


def test_no_time_raises_however_far_or_infinite():
    with duckdb.connect() as engine:
        engine.execute(
            "CREATE TABLE far AS SELECT "
            "unnest(['infinity'::date, '-infinity', '5000000-01-01', '4000-01-01 (BC)']) AS t, "
            "unnest(['infinity'::timestamp, '-infinity', '290000-01-01', '2000-01-01']) AS u"
        )
        texts = ["t is null", "u is null", "year(t) = 5000000", "t - u > 0", "t < date '2024-01-31'", "hour(u) = 0"]
        values = [RowValue(parse(text, KINDS)) for text in texts]
        found = engine.execute(row_values_sql(values, "far", unit=1)).fetchall()
    missing = (1, 1, 0, 0, 0, 0)
    assert found == [missing, missing, (0, 0, 1, 1, 0, 1), (0, 0, 0, 0, 1, 1)]


@pytest.mark.parametrize("number", [0.0, -1.0, -math.inf, math.inf, math.nan, None])
def test_a_logarithm_of_what_has_none_is_null(number):
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE odd AS SELECT $1::double AS x", [number])
        values = [RowValue(parse("ln(x) is null", KINDS)), RowValue(parse("log(x)", KINDS), -1, 1)]
        assert engine.execute(row_values_sql(values, "odd", unit=4)).fetchall() == [(4, 0)]


HOSTILE = ["%" + "a" * 199, "a" * 100 + "%" + "b" * 99, "%" + "a" * 198 + "%", "_" * 100 + "%" + "_" * 99, "%" * 200]


@pytest.mark.parametrize("pattern", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_pattern_takes_no_long_time(pattern):
    with duckdb.connect(config={"threads": 1, "memory_limit": "1GB"}) as engine:
        engine.execute("CREATE TABLE long AS SELECT repeat('a', 2000) AS s FROM range(2000)")
        value = RowValue(parse(f"s like '{pattern}'", KINDS))
        started = time.process_time()
        (found,) = engine.execute(totals_sql([value], "long", unit=1)).fetchone()
        assert time.process_time() - started < 5.0
        assert found == (0 if "b" in pattern else 2_000)


def test_days_are_exact_where_floats_are_and_dates_always():
    days = [date(1, 1, 1), date(9999, 12, 31)]
    seconds = [reference.seconds(datetime(day.year, day.month, day.day)) for day in days]
    assert np.diff(seconds)[0] == (days[1] - days[0]).days * 86_400.0
    assert Expression(Node.of(Operation.DAYS, *[Node(Operation.COLUMN, ColumnKind.TIME, value=name) for name in "tu"]))
