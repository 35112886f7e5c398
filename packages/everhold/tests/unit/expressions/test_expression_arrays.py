"""The evaluator of embedded rows gives the integers of the rules, and does the same work whatever the rows hold."""

import gc
import inspect
import random
import re
import time
from datetime import datetime, timedelta
from decimal import Decimal

import duckdb
import expression_reference as reference
import numpy as np
import pyarrow as pa
import pytest
from expression_rows import embedded_rows, grids_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_expression_engines import KINDS, LARGE, ROWS, UNITS, by_row, expected, generated

from everhold.sealing.rows import table as evaluator
from everhold.values.expressions import ColumnKind, RowValue, arrays, parse
from everhold.values.expressions.arrays import ArrayProgram
from everhold_engines.conformance import expressions, grid_integer, made_up_columns, made_up_rows
from everhold_engines.sql.compiler import literal_rows_sql, row_values_sql
from everhold_engines.sql.dialects import DUCKDB

TYPES = {"number": pa.float64(), "string": pa.string(), "boolean": pa.bool_(), "time": pa.timestamp("us")}


def arrow_of(data):
    types = {name: TYPES[KINDS[name].value] for name in data} | {"n": pa.int64()}
    return pa.table({name: pa.array(values, types[name]) for name, values in data.items()})


@pytest.fixture(scope="module")
def data():
    return reference.table(ROWS, seed=1)


@pytest.fixture(scope="module")
def rows(data, tmp_path_factory):
    with embedded_rows(arrow_of(data), tmp_path_factory.mktemp("rows")) as rows:
        yield rows


@pytest.mark.parametrize("block", [7, 2**14])
def test_generated_expressions_agree_with_the_rules(rows, data, block, monkeypatch):
    monkeypatch.setattr(evaluator, "BLOCK", block)
    draw, by_hand, different = random.Random(7), by_row(data), set()
    items = [*generated(1_200, seed=2, size=3), *generated(80, seed=3, size=5)]
    for start in range(0, len(items), 20):
        unit = draw.choice(UNITS)
        trees, values = zip(*items[start : start + 20], strict=True)
        for tree, value, found in zip(trees, values, rows.grids(values, unit=unit), strict=True):
            assert found.dtype == np.int64
            assert found.tolist() == expected(tree, value, unit, by_hand), tree
            different.update(found.tolist())
    assert len(different) > 100


def test_made_up_rows_agree_with_the_rules(tmp_path):
    with duckdb.connect() as engine:
        table = engine.sql(f"FROM {literal_rows_sql(made_up_columns(DUCKDB), DUCKDB)}").to_arrow_table()
    texts, values = zip(*expressions(), strict=True)
    rows = made_up_rows(DUCKDB)
    for text, value, found in zip(texts, values, grids_of(table, tmp_path, values), strict=True):
        assert found == [grid_integer(value, row) for row in rows], text


CELLS = {
    "number": st.none() | st.floats() | st.integers(-4, 4).map(float) | st.sampled_from([5e-324, 1e308, -0.0, 2.0**53]),
    "string": st.none() | st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(["UA", "ua", "é", "%"]),
    "boolean": st.none() | st.booleans(),
    "time": st.none() | st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),
}
SPELLED = {"number": "double", "string": "text", "boolean": "boolean", "time": "timestamp"}


@st.composite
def tables(draw):
    rows = draw(st.integers(1, 6))
    return {name: draw(st.lists(CELLS[kind.value], min_size=rows, max_size=rows)) for name, kind in KINDS.items()}


@pytest.fixture(scope="module")
def plain():
    """DuckDB told in SQL, as an engine elsewhere is."""
    with duckdb.connect() as engine:
        engine.execute("SET disabled_optimizers = 'statistics_propagation,expression_rewriter'")
        yield engine


@settings(max_examples=60, deadline=None)
@given(data=tables(), seed=st.integers(0, 2**32), unit=st.sampled_from(UNITS))
def test_numpy_and_sql_give_the_same_integers(plain, data, seed, unit):
    data = {name: [None if one == "\0" or (isinstance(one, str) and "\0" in one) else one for one in values]
            for name, values in data.items()}  # fmt: skip
    count = len(data["x"])
    values = [value for _, value in generated(8, seed, size=4)]
    typed = {name: (SPELLED[KINDS[name].value], cells) for name, cells in data.items()}
    source = literal_rows_sql({**typed, "id": ("bigint", list(range(count)))}, DUCKDB)
    wanted = sorted(plain.execute(row_values_sql(values, source, position="id", unit=unit)).fetchall())
    words = {name: tuple({one for one in cells if one is not None}) for name, cells in data.items()}
    columns = {name: as_array(cells, KINDS[name], words[name]) for name, cells in data.items()}
    found = ArrayProgram(values, words, unit=unit).run(columns, count)
    for place, one in enumerate(found, 1):
        integers = one * unit if one.dtype == np.bool_ else one
        assert integers.tolist() == [row[place] for row in wanted], values[place - 1].expression.canonical()


def as_array(cells, kind, words):
    """A column as the evaluator takes it."""
    match kind:
        case ColumnKind.NUMBER:
            return np.array([np.nan if one is None else one for one in cells])
        case ColumnKind.TIME:
            return np.array([np.nan if one is None else reference.seconds(one) for one in cells])
        case ColumnKind.BOOLEAN:
            return np.array([2 if one is None else int(one) for one in cells], dtype=np.int8)
        case _:
            return np.array([0 if one is None else 1 + words.index(one) for one in cells], dtype=np.int32)


def test_numbers_of_every_type_are_the_nearest_doubles(tmp_path):
    numbers = [2**53 + 1, -(2**62) - 1, None, 3, 2**63 - 1]
    decimals = [None, *(Decimal(number) / 100 for number in (-(10**14) - 1, 7, 10**15 - 1, 0))]
    wholes = [32892730797436529165, -173493174704611983713909340670662833, 7, 0]
    table = pa.table(
        {
            "i": pa.array(numbers, pa.int64()),
            "d": pa.array(decimals),
            "wide": pa.array(decimals, pa.decimal128(38, 20)),
            "whole": pa.array([None, *map(Decimal, wholes)], pa.decimal128(38, 0)),
            "f": pa.array([0.1, 1 / 3, None, float("nan"), float("-inf")], pa.float32()),
            "u": pa.array([2**64 - 1, 2**53 + 1, None, 2**63 + 1025, 0], pa.uint64()),
            "s": pa.array([1, -1, None, 127, -128], pa.int8()),
        }
    )
    kinds = dict.fromkeys(table.column_names, ColumnKind.NUMBER)
    real = [
        (name, row, float(value))
        for name in kinds
        for row, value in enumerate(table[name].to_pylist())
        if value is not None and value == value and abs(value) != float("inf")
    ]
    values = [RowValue(parse(f"{name} = {value!r}", kinds)) for name, _, value in real]
    wanted = [[int(other == row) for other in range(5)] for _, row, _ in real]
    assert grids_of(table, tmp_path, values, 1) == wanted


def test_nan_is_null_even_where_the_statistics_of_the_file_deny_it(tmp_path):
    table = pa.table({"x": [1.0, float("nan"), 3.0]})  # the file says: between 1 and 3
    values = [RowValue(parse("x is null", KINDS)), RowValue(parse("1 / (x - 1)", KINDS))]
    assert grids_of(table, tmp_path, values, 4) == [[0, 4, 0], [0, 0, 2]]


def test_times_and_texts_of_every_type_are_read(tmp_path):
    moments = [datetime(2024, 2, 29), datetime(1969, 12, 31), None]
    types = {"d": pa.date32(), "s": pa.timestamp("s"), "ms": pa.timestamp("ms"), "us": pa.timestamp("us"),
             "ns": pa.timestamp("ns"), "zone": pa.timestamp("us", tz="UTC")}  # fmt: skip
    table = pa.table({name: pa.array(moments, kind) for name, kind in types.items()})
    table = table.append_column("word", pa.array(["é", None, "é"]).dictionary_encode())
    kinds = {**dict.fromkeys(types, ColumnKind.TIME), "word": ColumnKind.STRING}
    texts = [f"{name} = date '2024-02-29'" for name in types] + [f"year({name}) = 1969" for name in types]
    found = grids_of(table, tmp_path, [RowValue(parse(text, kinds)) for text in (*texts, "word = 'é'")], 1)
    assert found == [[1, 0, 0]] * 6 + [[0, 1, 0]] * 6 + [[1, 0, 1]]


def test_times_with_a_zone_are_the_nearest_doubles_to_the_microsecond(tmp_path):
    epoch, rng = datetime(1970, 1, 1), np.random.default_rng(0)
    moments = [epoch + timedelta(microseconds=int(one)) for one in rng.integers(-4e15, 4e15, 200)]
    table = pa.table(
        {"plain": pa.array(moments, pa.timestamp("us")), "zone": pa.array(moments, pa.timestamp("us", "UTC"))}
    )
    kinds = dict.fromkeys(table.column_names, ColumnKind.TIME)
    values = [RowValue(parse(f"zone = timestamp '{moment}'", kinds)) for moment in moments]
    assert grids_of(table, tmp_path, [RowValue(parse("zone = plain", kinds)), *values], 1) == [
        [1] * 200,
        *np.eye(200, dtype=int).tolist(),
    ]


def test_infinite_times_are_missing(tmp_path):
    with duckdb.connect() as writer:
        writer.execute(
            f"COPY (SELECT unnest(['infinity'::date, '-infinity', '5000000-01-01', '4000-01-01 (BC)']) AS t) "
            f"TO '{tmp_path}/far.parquet'"
        )
    kinds = {"t": ColumnKind.TIME}
    values = [RowValue(parse(text, kinds)) for text in ("t is null", "year(t) = 5000000", "t < date '2024-01-31'")]
    assert grids_of(None, tmp_path / "far.parquet", values, 1) == [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_sums_and_histograms_are_those_of_the_row_values(rows, data):
    items = list(generated(12, seed=4))
    values, by_hand = [value for _, value in items], by_row(data)
    wanted = np.array([expected(tree, value, 2**30, by_hand) for tree, value in items])
    assert rows.totals(values, unit=2**30).tolist() == wanted.sum(axis=1).tolist()
    parts = rows.sums(values, lambda some: np.arange(some.start, some.stop) % 7, 7, unit=2**30)
    assert parts.tolist() == [[int(one[part::7].sum()) for part in range(7)] for one in wanted]
    for cells, one in zip(rows.cells(values, unit=2**30), wanted, strict=True):
        assert cells.counts.sum() == ROWS
        assert cells.sums.sum() == one.sum()


def test_no_rows_have_no_sums(tmp_path):
    value = RowValue(parse("x > 1", KINDS))
    with embedded_rows(pa.table({"x": pa.array([], pa.float64())}), tmp_path) as none:
        assert none.totals([value], unit=4).tolist() == [0]
        assert none.cells([value], unit=4)[0].counts.sum() == 0
        assert none.grids([value], unit=4)[0].tolist() == []


@pytest.mark.parametrize("limit", ["cells", "words"])
def test_columns_that_are_not_kept_give_the_same_integers(data, tmp_path, limit, monkeypatch):
    monkeypatch.setattr(evaluator, "_SPAN", 13)
    monkeypatch.setattr(evaluator, "MOST_KEPT" if limit == "cells" else "MOST_WORDS", 3)
    items = list(generated(150, seed=9, size=3))
    by_hand = by_row(data)
    values = [value for _, value in items]
    with embedded_rows(arrow_of(data), tmp_path) as rows:
        for _ in range(2):
            found = rows.grids(values, unit=2**30)
            assert [one.tolist() for one in found] == [expected(*item, 2**30, by_hand) for item in items]
            kept = {name for store, name in evaluator._kept._columns if store == id(rows._store)}
            assert kept == (set() if limit == "cells" else {*KINDS} - {"carrier", 'quo"te'})


def test_columns_are_read_once_and_the_oldest_make_room(data, tmp_path, monkeypatch):
    with embedded_rows(arrow_of(data), tmp_path) as rows:
        read, plain = [], rows._store._fetch
        monkeypatch.setattr(rows._store, "_fetch", lambda sql: read.append(sql) or plain(sql))
        for _ in range(3):
            rows.totals([RowValue(parse("x > 1 and carrier = 'UA'", KINDS))], unit=1)
        assert len(read) == 1
        monkeypatch.setattr(evaluator, "MOST_KEPT", 2 * ROWS + 40)
        rows.totals([RowValue(parse("n > 1 and flag", KINDS))], unit=1)
        assert {name for _, name in evaluator._kept._columns} == {"n", "flag"}
        rows.close()
        assert not evaluator._kept._columns


def test_a_store_that_is_gone_keeps_nothing(data, tmp_path):
    with embedded_rows(arrow_of(data), tmp_path) as rows:
        rows.totals([RowValue(parse("x > 1", KINDS))], unit=1)
        store = id(rows._store)
        assert evaluator._kept.get(store, "x") is not None
        del rows
    gc.collect()
    assert evaluator._kept.get(store, "x") is None


def test_the_largest_expressions_are_quick(rows):
    started = time.process_time()
    values = [RowValue(parse(text, KINDS)) for text in LARGE]
    assert all(rows.totals([value], unit=1)[0] == total for value, total in
               zip(values, rows.totals(values, unit=1), strict=True))  # fmt: skip
    assert time.process_time() - started < 3.0


HOSTILE = ["%" + "a" * 199, "a" * 100 + "%" + "b" * 99, "%" + "a" * 198 + "%", "_" * 100 + "%" + "_" * 99, "%" * 200]


@pytest.mark.parametrize("pattern", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_pattern_takes_no_long_time(pattern):
    words = tuple("a" * length for length in range(1_000, 3_000))
    started = time.process_time()
    value = RowValue(parse(f"s like '{pattern}'", {"s": ColumnKind.STRING}))
    (found,) = ArrayProgram([value], {"s": words}, unit=1).run({"s": np.arange(1, 2_001, dtype=np.int32)}, 2_000)
    assert time.process_time() - started < 2.0
    assert np.count_nonzero(found) == (0 if "b" in pattern else 2_000)


SKIPPING = re.compile(
    r"np\.(where|select|choose|piecewise|copyto|putmask|place|nan_to_num|isin|searchsorted|unique|nonzero|extract|"
    r"compress|sort|any|all)\b|\bwhere=|\.(any|all|compress|choose|nonzero|sort)\("
)


def test_no_call_on_rows_skips_work_for_some_values():
    """Such calls branch on rows, stop early, or are faster where neighbours are alike: time would tell which."""
    assert not SKIPPING.search(inspect.getsource(arrays))
    assert SKIPPING.search("np.where(condition, one, other)")
    assert SKIPPING.search("np.add(one, other, where=known)")


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_same_calls_are_made_whatever_the_rows_hold(share):
    texts = ["case when b then x / y when x > 1 then y end > 0", "s like 'a%' or least(x, y) < 0", "x in (1, 2, 3)"]
    kinds = {"b": ColumnKind.BOOLEAN, "x": ColumnKind.NUMBER, "y": ColumnKind.NUMBER, "s": ColumnKind.STRING}
    rng = np.random.default_rng(3)
    met = rng.random(500) < share
    held = {
        "b": np.where(met, 2, 1).astype(np.int8), "x": np.where(met, np.nan, 1.0), "y": np.where(met, 0.0, -1.0),
        "s": np.where(met, 0, 1).astype(np.int32),
    }  # fmt: skip
    program = ArrayProgram([RowValue(parse(text, kinds)) for text in texts], {"s": ("ab", "b")}, unit=4)
    sizes = []
    program._steps = [
        type(step)(lambda *given, run=step.run: sizes.append(np.shape(run(*given))) or run(*given),
                   step.inputs, step.made, step.place, step.last)
        for step in program._steps
    ]  # fmt: skip
    program.run(held, 500)
    assert sizes == [(500,)] * len(program._steps)
