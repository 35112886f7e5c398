"""Every engine gives the same integers as the rules of the documentation, read by a plain interpreter."""

from __future__ import annotations

import math
import random
import time
from decimal import Decimal

import duckdb
import expression_reference as reference
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everhold.queries.expressions import (
    ColumnKind,
    RowValue,
    column_arrays,
    grid_values,
    parse,
    part_totals_sql,
    row_values_sql,
    totals_sql,
)
from everhold.rows.engine import SEALED, locked_connection

ROWS = 80
KINDS = {name: ColumnKind(kind) for kind, names in reference.COLUMNS.items() for name in names}
RANGES = [(0.0, 1.0), (-1.0, 3.0), (-1e307, 1e307), (0.0, 5e-324), (0.1, 0.3), (-10.0, 1e6)]
UNITS = [2**30, 1, 7]


@pytest.fixture(scope="module")
def data():
    return reference.table(ROWS, seed=1)


@pytest.fixture(scope="module")
def arrow(data):
    types = {
        name: {"number": pa.float64(), "string": pa.string(), "boolean": pa.bool_()}[KINDS[name].value] for name in data
    }
    types["n"] = pa.int64()
    return pa.table({name: pa.array(values, types[name]) for name, values in data.items()})


@pytest.fixture(scope="module")
def engine(arrow, tmp_path_factory):
    path = tmp_path_factory.mktemp("sealed") / "rows.parquet"
    pq.write_table(arrow, path, row_group_size=16)
    with locked_connection(path, threads=1) as connection:
        yield connection


def frames(arrow, data):
    """The same rows in every kind of eager frame."""
    return {
        "pyarrow": arrow,
        "polars": pl.from_arrow(arrow),
        "pandas": arrow.to_pandas(),
        "pandas objects": pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in data.items()}).astype(
            {"x": float, "n": "Int64", "odd name": float, "größe": float}
        ),
        "pandas nullable": arrow.to_pandas().convert_dtypes(dtype_backend="numpy_nullable"),
        "pandas arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
    }


def generated(count, seed, size=4):
    """Random trees with their parsed spelling and a range."""
    draw = random.Random(seed)
    for _ in range(count):
        kind = draw.choice(["number", "boolean"])
        tree = reference.tree(draw, kind, draw.randint(1, size))
        low, high = draw.choice(RANGES) if kind == "number" else (0.0, 1.0)
        yield tree, RowValue(parse(reference.spell(tree, draw), KINDS), low, high), draw.choice(UNITS)


def expected(tree, row_value, unit, rows):
    values = [reference.value(tree, row) for row in rows]
    return [reference.grid(value, row_value.low, row_value.high, unit) for value in values]


def by_row(data):
    return [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]


def test_frames_are_read_alike(arrow, data):
    natives = frames(arrow, data).items()
    read = {name: column_arrays(nw.from_native(native, eager_only=True), KINDS) for name, native in natives}
    for columns in read.values():
        for name, column in columns.items():
            np.testing.assert_array_equal(column.values, read["pyarrow"][name].values)
            assert column.categories == read["pyarrow"][name].categories


def test_generated_expressions_agree_with_the_rules_in_numpy_and_duckdb(arrow, data, engine):
    rows = by_row(data)
    columns = column_arrays(nw.from_native(arrow, eager_only=True), KINDS)
    batches: dict[int, list] = {unit: [] for unit in UNITS}
    for tree, row_value, unit in generated(3_000, seed=2):
        wanted = expected(tree, row_value, unit, rows)
        assert grid_values(row_value, columns, rows=ROWS, unit=unit).tolist() == wanted, tree
        batches[unit].append((tree, row_value, wanted))
    assert any(len(set(wanted)) > 5 for _, _, wanted in batches[2**30])
    for unit, items in batches.items():
        for start in range(0, len(items), 20):
            batch = items[start : start + 20]
            found = engine.execute(row_values_sql([item[1] for item in batch], SEALED, unit=unit)).fetchnumpy()
            for place, (tree, _, wanted) in enumerate(batch):
                assert found[f"v{place}"].dtype == np.int64
                assert found[f"v{place}"].tolist() == wanted, tree


@pytest.mark.parametrize("name", ["polars", "pandas", "pandas nullable", "pandas arrow"])
def test_generated_expressions_agree_with_the_rules_on_each_frame(arrow, data, name):
    rows = by_row(data)
    columns = column_arrays(nw.from_native(frames(arrow, data)[name], eager_only=True), KINDS)
    for tree, row_value, unit in generated(300, seed=3):
        assert grid_values(row_value, columns, rows=ROWS, unit=unit).tolist() == expected(tree, row_value, unit, rows)


def test_respelling_a_generated_expression_keeps_its_form():
    draw = random.Random(6)
    trees = [reference.tree(draw, "boolean", 4) for _ in range(300)]
    forms = [parse(reference.spell(tree, draw), KINDS).canonical() for tree in trees]
    assert forms == [parse(reference.spell(tree, draw), KINDS).canonical() for tree in trees]
    assert len(set(forms)) > 200


def test_totals_and_part_totals_are_sums_of_the_row_values(data, engine):
    rows = by_row(data)
    items = list(generated(10, seed=4))
    values = [item[1] for item in items]
    wanted = np.array([expected(tree, value, 2**30, rows) for tree, value, _ in items])
    assert engine.execute(totals_sql(values, SEALED)).fetchone() == tuple(wanted.sum(axis=1))
    found = engine.execute(part_totals_sql(values, SEALED, parts=7)).fetchall()
    assert found == [(part, *wanted[:, part::7].sum(axis=1)) for part in range(7)]


def test_totals_of_a_constant_and_of_no_rows(engine):
    half = RowValue(parse("0.5", {}))
    assert engine.execute(totals_sql([half, half], SEALED, unit=4)).fetchone() == (2 * ROWS, 2 * ROWS)
    assert grid_values(half, {}, rows=3, unit=4).tolist() == [2, 2, 2]
    assert grid_values(half, {}, rows=0, unit=4).tolist() == []
    engine.execute("create temp table nothing as select 1 as x limit 0")
    assert engine.execute(totals_sql([half], "nothing")).fetchone() == (0,)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("x / 0", "null"),
        ("0 / 0", "null"),
        ("1e308 * 10 - 1e308 * 10", "null"),
        ("least(1, x)", "null"),
        ("case when flag then 1 end", "null"),
        ("1e308 * 10", "high"),
        ("-1e308 * 10", "low"),
    ],
)
def test_named_corner_cases(text, column):
    kinds = {"x": ColumnKind.NUMBER, "flag": ColumnKind.BOOLEAN}
    columns = column_arrays(nw.from_native(pl.DataFrame({"x": [float("nan")], "flag": [None]}), eager_only=True), kinds)
    clipped = grid_values(RowValue(parse(text, kinds), -1, 1), columns, rows=1, unit=4)[0]
    missing = grid_values(RowValue(parse(f"({text}) is null", kinds)), columns, rows=1, unit=4)[0]
    assert (clipped, missing) == {"null": (0, 4), "high": (4, 0), "low": (0, 0)}[column]


def test_nan_is_null_even_where_the_statistics_of_the_file_deny_it(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [1.0, float("nan"), 3.0]}), path)  # the file says: between 1 and 3
    missing = RowValue(parse("x is null", KINDS))
    inverse = RowValue(parse("1 / (x - 1)", KINDS))
    with locked_connection(path, threads=1) as connection:
        found = connection.execute(row_values_sql([missing, inverse], SEALED, unit=4)).fetchall()
    assert found == [(0, 0), (4, 0), (0, 2)]


def test_many_blocks_of_rows_are_one_answer():
    kinds = {"x": ColumnKind.NUMBER}
    columns = column_arrays(nw.from_native(pl.DataFrame({"x": np.arange(100_000)}), eager_only=True), kinds)
    found = grid_values(RowValue(parse("x", kinds), 0, 2**17), columns, rows=100_000, unit=2**17)
    np.testing.assert_array_equal(found, np.arange(100_000))


def test_numbers_of_every_type_become_the_nearest_double(tmp_path):
    numbers = [2**53 + 1, -(2**62) - 1, None, 3, 2**63 - 1]
    decimals = [None if number is None else Decimal(number) / 100 for number in numbers]
    table = pa.table(
        {
            "i": pa.array(numbers, pa.int64()),
            "d": pa.array(decimals, pa.decimal128(30, 2)),
            "f": pa.array([0.1, 1 / 3, None, math.nan, -math.nan], pa.float32()),
            "u": pa.array([2**64 - 1, 2**53 + 1, None, 1, 0], pa.uint64()),
            "s": pa.array([1, -1, None, 127, -128], pa.int8()),
        }
    )
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path)
    kinds = dict.fromkeys(table.column_names, ColumnKind.NUMBER)
    wanted = [None if number is None else float(number) for number in decimals]
    for native in (table, pl.from_arrow(table), table.to_pandas(), table.to_pandas(types_mapper=pd.ArrowDtype)):
        columns = column_arrays(nw.from_native(native, eager_only=True), kinds)
        found = [None if math.isnan(value) else value for value in columns["d"].values]
        assert found == wanted
        texts = [
            f"{name} = {float(value)!r}"
            for name in "iufs"
            for value in table[name].to_pylist()
            if value is not None and value == value
        ]
        values = [RowValue(parse(text, kinds)) for text in texts] + [
            RowValue(parse(name, kinds), -1e18, 1e18) for name in "ifus"
        ]
        with locked_connection(path, threads=1) as connection:
            rows = connection.execute(row_values_sql(values, SEALED)).fetchall()
        assert list(zip(*(grid_values(value, columns, rows=5).tolist() for value in values), strict=True)) == rows


LARGE = [
    "+".join(["x"] * 190),
    "/".join(["x"] * 190),
    " and ".join(f"x > {place}" for place in range(300)),
    "case" + "".join(f" when x > {place} then n / {place + 1}" for place in range(90)) + " end",
    "carrier in (" + ", ".join(f"'{place}'" for place in range(900)) + ")",
    "case when flag then x + " * 15 + "1" + " end" * 15,
    "case when x between -1 and " * 15 + "n" + " then x / n end" * 15,
    "abs(" * 18 + "x" + ")" * 18,
]


def test_the_largest_expressions_stay_small_and_quick(engine):
    started = time.process_time()
    values = [RowValue(parse(text, KINDS)) for text in LARGE]
    assert all(len(row_values_sql([value], SEALED)) < 30_000 for value in values)
    assert engine.execute(totals_sql(values, SEALED)).fetchone()
    assert time.process_time() - started < 3.0


def test_the_engine_computes_costly_branches_as_columns_of_their_own(engine, arrow):
    texts = ["case when x > 5 then n / 3 * (n + 7) / abs(n) when flag then n * 11 end", LARGE[4]]
    question = "EXPLAIN " + totals_sql([RowValue(parse(text, KINDS)) for text in texts], SEALED)
    with duckdb.connect() as ordinary:  # its optimizer pulls the branches into the case
        ordinary.register(SEALED, arrow)
        plans = [connection.execute(question).fetchall()[0][1] for connection in (engine, ordinary)]
    assert [(" / " in plan, " * 11.0" in plan) for plan in plans] == [(True, True), (False, False)]
