"""Every engine gives the same integers as the rules of the documentation, read by a plain interpreter."""

from __future__ import annotations

import math
import random
import time
from decimal import Decimal

import duckdb
import expression_reference as reference
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from expression_frames import frame_totals, with_grid_values

from everhold.errors import QueryRejected
from everhold.sealing.rows.embedded import SEALED, locked_connection
from everhold.values.expressions import ColumnKind, RowValue, parse
from everhold_engines.sql.compiler import part_totals_sql, row_values_sql, totals_sql

ROWS = 60
KINDS = {name: ColumnKind(kind) for kind, names in reference.COLUMNS.items() for name in names}
RANGES = [(0.0, 1.0), (-1.0, 3.0), (-1e307, 1e307), (0.0, 5e-324), (0.1, 0.3), (-10.0, 1e6)]
UNITS = [2**30, 1, 7]
NULLABLE = {
    pa.float64(): pd.Float64Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.string(): pd.StringDtype(),
    pa.bool_(): pd.BooleanDtype(),
}


@pytest.fixture(scope="module")
def data():
    return reference.table(ROWS, seed=1)


@pytest.fixture(scope="module")
def arrow(data):
    usual = {"number": pa.float64(), "string": pa.string(), "boolean": pa.bool_(), "time": pa.timestamp("us")}
    types = {name: usual[KINDS[name].value] for name in data}
    types["n"] = pa.int64()
    return pa.table({name: pa.array(values, types[name]) for name, values in data.items()})


@pytest.fixture(scope="module")
def engine(arrow, tmp_path_factory):
    path = tmp_path_factory.mktemp("sealed") / "rows.parquet"
    pq.write_table(arrow, path, row_group_size=16)
    with locked_connection(path, threads=1) as connection:
        yield connection


def frames(arrow, data):
    """The same rows in every kind of frame."""
    return {
        "pyarrow": arrow,
        "polars": pl.from_arrow(arrow),
        "polars lazy": pl.from_arrow(arrow).lazy(),
        "pandas": arrow.to_pandas(),
        "pandas objects": pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in data.items()}).astype(
            {
                "x": float,
                "n": "Int64",
                "odd name": float,
                "größe": float,
                "visit": "datetime64[us]",
                "end": "datetime64[us]",
            }
        ),
        "pandas nullable": arrow.to_pandas(types_mapper=NULLABLE.get),
        "pandas arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
    }


def grids(native, values, unit=2**30):
    """The columns of integers, as lists."""
    found = with_grid_values(nw.from_native(native), values, unit=unit)
    found = found.collect() if isinstance(found, nw.LazyFrame) else found
    columns = [found[f"v{place}"] for place in range(len(values))]
    assert all(column.dtype == nw.Int64 for column in columns)
    return [column.to_list() for column in columns]


def generated(count, seed, size=4):
    """Random trees with their parsed spelling in a random range."""
    draw = random.Random(seed)
    for _ in range(count):
        kind = draw.choice(["number", "boolean"])
        tree = reference.tree(draw, kind, draw.randint(1, size))
        low, high = draw.choice(RANGES) if kind == "number" else (0.0, 1.0)
        yield tree, RowValue(parse(reference.spell(tree, draw), KINDS), low, high)


def expected(tree, row_value, unit, rows):
    values = [reference.value(tree, row) for row in rows]
    return [reference.grid(value, row_value.low, row_value.high, unit) for value in values]


@pytest.fixture(scope="module")
def queries(data):
    """Lists of 20 generated trees with their row values and integers, and the unit of each list."""
    draw, rows, lists = random.Random(7), by_row(data), []
    items = [*generated(2_020, seed=2, size=3), *generated(80, seed=3, size=5)]
    for start in range(0, len(items), 20):
        unit = draw.choice(UNITS)
        trees, values = zip(*items[start : start + 20], strict=True)
        wanted = [expected(tree, value, unit, rows) for tree, value in zip(trees, values, strict=True)]
        lists.append((trees, values, wanted, unit))
    return lists


def by_row(data):
    return [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]


def test_generated_expressions_agree_with_the_rules_in_duckdb(queries, engine):
    different = set()
    for trees, values, wanted, unit in queries:
        found = engine.execute(row_values_sql(values, SEALED, unit=unit)).fetchnumpy()
        for place, tree in enumerate(trees):
            assert found[f"v{place}"].dtype == np.int64
            assert found[f"v{place}"].tolist() == wanted[place], tree
            different.update(wanted[place])
    assert len(different) > 100


@pytest.mark.parametrize(
    ("name", "count"),
    {
        "pyarrow": 100,
        "polars": 100,
        "pandas": 60,
        "polars lazy": 60,
        "pandas objects": 40,
        "pandas nullable": 40,
        "pandas arrow": 40,
    }.items(),
)
def test_generated_expressions_agree_with_the_rules_on_each_frame(queries, arrow, data, name, count):
    native = frames(arrow, data)[name]
    for trees, values, wanted, unit in queries[: count // 20]:
        for tree, found, one in zip(trees, grids(native, values, unit), wanted, strict=True):
            assert found == one, tree


@pytest.mark.skipif(int(nw.__version__.partition(".")[0]) < 2, reason="narwhals reads no relation of DuckDB before 2")
def test_generated_expressions_agree_with_the_rules_on_a_lazy_relation(queries, arrow):
    with duckdb.connect(config={"threads": 1}) as ordinary:
        relation = ordinary.from_arrow(arrow).project('* REPLACE (epoch(visit) AS visit, epoch("end") AS "end")')
        for trees, values, wanted, unit in [*queries[:2], queries[-1]]:
            for tree, found, one in zip(trees, grids(relation, values, unit), wanted, strict=True):
                assert found == one, tree


@pytest.mark.parametrize("lazy", [False, True])
def test_columns_that_polars_holds_as_one_value_are_columns(lazy):
    native = pl.DataFrame({"x": [1.0, 2.0]}).select(carrier=pl.lit("UA"), flag=pl.lit(True), x="x")
    texts = ["'U' < carrier", "carrier = 'UA'", "flag = true and true", "case when true then 'a' else 'b' end < 'b'"]
    values = [RowValue(parse(text, KINDS)) for text in [*texts, *(f"{text} and x > 1" for text in texts)]]
    assert grids(native.lazy() if lazy else native, values, 1) == [[1, 1]] * 4 + [[0, 1]] * 4


@pytest.mark.parametrize("lazy", [False, True])
def test_a_constant_divisor_is_divided_by(lazy):
    numbers = [float(number) for number in range(1, 400)]  # Polars would multiply these by a third
    native = pl.DataFrame({"x": numbers}).with_columns(n=pl.lit(3.0))
    value = [RowValue(parse(text, KINDS), 0, 0.7) for text in ("x / 3", "x / (1 + 2)", "x / n", "3 / x")]
    wanted = [[reference.grid(number / 3, 0, 0.7, 2**30) for number in numbers]] * 3
    wanted += [[reference.grid(3 / number, 0, 0.7, 2**30) for number in numbers]]
    assert grids(native.lazy() if lazy else native, value) == wanted
    assert [list(one) for one in zip(*(grids(native[[row]], [value[0]])[0] for row in range(50)), strict=True)] == [
        wanted[0][:50]
    ]


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
    wanted = np.array([expected(tree, value, 2**30, rows) for tree, value in items])
    assert engine.execute(totals_sql(values, SEALED)).fetchone() == tuple(wanted.sum(axis=1))
    found = engine.execute(part_totals_sql(values, SEALED, parts=7)).fetchall()
    assert found == [(part, *wanted[:, part::7].sum(axis=1)) for part in range(7)]


@pytest.mark.parametrize("name", ["pyarrow", "polars", "polars lazy", "pandas", "pandas nullable", "pandas arrow"])
def test_totals_of_frames_are_sums_of_the_row_values(arrow, data, name):
    rows = by_row(data)
    items = list(generated(10, seed=4))
    wanted = [sum(expected(tree, value, 2**30, rows)) for tree, value in items]
    native = frames(arrow, data)[name]
    assert frame_totals(nw.from_native(native), [item[1] for item in items]) == wanted
    assert frame_totals(nw.from_native(native), []) == []


def test_totals_of_a_constant_and_of_no_rows(engine, arrow, data):
    half = RowValue(parse("0.5", {}))
    assert engine.execute(totals_sql([half, half], SEALED, unit=4)).fetchone() == (2 * ROWS, 2 * ROWS)
    for native in frames(arrow, data).values():
        assert frame_totals(nw.from_native(native), [half, half], unit=4) == [2 * ROWS, 2 * ROWS]
        assert frame_totals(nw.from_native(native).head(0), [half], unit=4) == [0]
    engine.execute("create temp table nothing as select 1 as x limit 0")
    assert engine.execute(totals_sql([half], "nothing")).fetchone() == (0,)
    with duckdb.connect() as ordinary:
        none = ordinary.sql("select 1.0 as x limit 0")
        assert frame_totals(nw.from_native(none), [half, RowValue(parse("x", KINDS))], unit=4) == [0, 0]


def test_columns_of_the_frame_stay_and_names_never_clash():
    native = pl.DataFrame({"_": [1.0, 2.0], "_0": [3.0, 4.0], "__1?": ["a", "b"], "v0": [0.0, 1.0], "V1": [5, 6]})
    kinds = {"_": ColumnKind.NUMBER, "_0": ColumnKind.NUMBER, "v0": ColumnKind.NUMBER}
    values = [RowValue(parse(text, kinds), 0, 4) for text in ('"_" + v0', '"_0" - "_"')]
    for frame in (native, native.to_pandas(), native.to_arrow()):
        found = with_grid_values(nw.from_native(frame), values, unit=4)
        assert found.columns == ["_", "_0", "__1?", "v0", "v1"]
        assert (found["v0"].to_list(), found["v1"].to_list()) == ([1, 3], [2, 2])
        assert found["__1?"].to_list() == ["a", "b"]


def test_a_column_that_is_not_there_is_refused(arrow):
    unknown = RowValue(parse("zz > 1", {"zz": ColumnKind.NUMBER}))
    with pytest.raises(QueryRejected, match="not among the rows"):
        with_grid_values(nw.from_native(arrow), [unknown])


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
    native = pl.DataFrame({"x": [float("nan")], "flag": [None]})
    values = [RowValue(parse(text, kinds), -1, 1), RowValue(parse(f"({text}) is null", kinds))]
    assert grids(native, values, 4) == {"null": [[0], [4]], "high": [[4], [0]], "low": [[0], [0]]}[column]


def test_nan_is_null_even_where_the_statistics_of_the_file_deny_it(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [1.0, float("nan"), 3.0]}), path)  # the file says: between 1 and 3
    missing = RowValue(parse("x is null", KINDS))
    inverse = RowValue(parse("1 / (x - 1)", KINDS))
    with locked_connection(path, threads=1) as connection:
        found = connection.execute(row_values_sql([missing, inverse], SEALED, unit=4)).fetchall()
    assert found == [(0, 0), (4, 0), (0, 2)]


def test_numbers_of_every_type_become_the_nearest_double(tmp_path):
    numbers = [2**53 + 1, -(2**62) - 1, None, 3, 2**63 - 1]
    table = pa.table(
        {
            "i": pa.array(numbers, pa.int64()),
            "d": pa.array([None, *(Decimal(number) / 100 for number in (-(10**14) - 1, 7, 10**15 - 1, 0))]),
            "f": pa.array([0.1, 1 / 3, None, math.nan, -math.nan], pa.float32()),
            "u": pa.array([2**64 - 1, 2**53 + 1, None, 2**63 + 1025, 0], pa.uint64()),
            "s": pa.array([1, -1, None, 127, -128], pa.int8()),
        }
    )
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path)
    kinds = dict.fromkeys(table.column_names, ColumnKind.NUMBER)
    cells = [(name, row, value) for name in kinds for row, value in enumerate(table[name].to_pylist())]
    real = [(name, row, float(value)) for name, row, value in cells if value is not None and value == value]
    values = [RowValue(parse(f"{name} = {value!r}", kinds)) for name, _, value in real]
    wanted = [[int(other == row) for other in range(5)] for _, row, _ in real]
    with locked_connection(path, threads=1) as connection:
        rows = connection.execute(row_values_sql(values, SEALED, unit=1)).fetchall()
    assert [list(column) for column in zip(*rows, strict=True)] == wanted
    for native in (
        table,
        pl.from_arrow(table),
        pl.from_arrow(table).lazy(),
        table.to_pandas(types_mapper=pd.ArrowDtype),
    ):
        assert grids(native, values, 1) == wanted
    exact = [place for place, (name, _, _) in enumerate(real) if name in "dfs"]  # NumPy has no null for the others
    assert grids(table.to_pandas(), [values[place] for place in exact], 1) == [wanted[place] for place in exact]


@pytest.mark.parametrize(("digits", "scale"), [(15, 2), (15, 15), (18, 6), (30, 10), (38, 20)])
def test_decimals_become_the_nearest_double(digits, scale):
    draw = random.Random(12)
    decimals = [Decimal(f"{draw.randrange(10**digits)}e-{scale}") for _ in range(500)]
    table = pa.table({"x": pa.array(decimals, pa.decimal128(digits, scale))})
    value = RowValue(parse("x", KINDS), 0, 10.0 ** (digits - scale))
    bits = [RowValue(parse(f"x = {float(number)!r}", KINDS)) for number in decimals[:20]]
    wanted = [reference.grid(float(number), value.low, value.high, 2**30) for number in decimals]
    with duckdb.connect() as ordinary:
        ordinary.register("t", table)
        assert [one for (one,) in ordinary.execute(row_values_sql([value], "t")).fetchall()] == wanted
        assert all(ordinary.execute(totals_sql(bits, "t", unit=1)).fetchall()[0])
    for native in (table, pl.from_arrow(table), table.to_pandas(), table.to_pandas(types_mapper=pd.ArrowDtype)):
        assert grids(native, [value])[0] == wanted
        assert all(frame_totals(nw.from_native(native), bits, unit=1))


def test_strings_and_booleans_of_every_type_are_read_alike():
    table = pa.table({"s": pa.array(["é", None, "a"]), "f": pa.array([True, None, False])})
    objects = pd.DataFrame({"s": pd.Categorical(["é", None, "a"]), "f": pd.Series([True, None, False], dtype=object)})
    dictionary = table.set_column(0, "s", table["s"].dictionary_encode())
    categorical = pl.from_arrow(table).with_columns(pl.col("s").cast(pl.Enum(["é", "a"])))
    missing = pl.DataFrame({"s": [None] * 3, "f": [None] * 3})
    kinds = {"s": ColumnKind.STRING, "f": ColumnKind.BOOLEAN}
    values = [RowValue(parse(text, kinds)) for text in ("s > 'b'", "s is null", "f", "not f", "f is null")]
    for native in (table, objects, dictionary, categorical, table.to_pandas(), pl.from_arrow(dictionary)):
        assert grids(native, values, 1) == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]
    for native in (missing, missing.to_arrow(), missing.to_pandas()):
        assert grids(native, values, 1) == [[0] * 3, [1] * 3, [0] * 3, [0] * 3, [1] * 3]


LARGE = [
    "+".join(["x"] * 190),
    "/".join(["x"] * 190),
    " and ".join(f"x > {place}" for place in range(300)),
    "case" + "".join(f" when x > {place} then n / {place + 1}" for place in range(90)) + " end",
    "case" + "".join(f" when flag then {place}" for place in range(300)) + " end",
    "carrier in (" + ", ".join(f"'{place}'" for place in range(900)) + ")",
    "case when flag then x + " * 15 + "1" + " end" * 15,
    "case when x between -1 and " * 15 + "n" + " then x / n end" * 15,
    "abs(" * 18 + "x" + ")" * 18,
]


def test_the_largest_expressions_stay_small_and_quick(engine, arrow):
    started = time.process_time()
    values = [RowValue(parse(text, KINDS)) for text in LARGE]
    assert all(len(row_values_sql([value], SEALED)) < 30_000 for value in values)
    (totals,) = engine.execute(totals_sql(values, SEALED)).fetchall()
    assert time.process_time() - started < 3.0
    for native in (arrow, pl.from_arrow(arrow).lazy()):
        assert frame_totals(nw.from_native(native), values) == list(totals)
    assert time.process_time() - started < 9.0
