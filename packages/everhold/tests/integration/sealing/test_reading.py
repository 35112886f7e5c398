"""The same rows from any source are the same rows."""

import gzip
import os
from datetime import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everhold.errors import HoldoutRejected
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import SealRequest
from everhold.sealing.rows.embedded import Embedded
from everhold.sealing.rows.table import StoredRows
from everhold.sealing.storage import HOLDOUT_FILE
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind

NUMBERS = [3, 1, None, 2]
TEXTS = ["b", None, "a", "b"]
FLAGS = [True, False, None, True]
REALS = [0.5, None, -1.5, 1e300]
KINDS = {"n": ColumnKind.NUMBER, "t": ColumnKind.STRING, "f": ColumnKind.BOOLEAN, "r": ColumnKind.NUMBER}
COLUMNS = {"n": NUMBERS, "t": TEXTS, "f": FLAGS, "r": REALS}


def lines(mark):
    shown = [[("" if value is None else str(value)) for value in column] for column in COLUMNS.values()]
    return "\n".join(mark.join(line) for line in [list(COLUMNS), *zip(*shown, strict=True)]) + "\n"


def nullable():
    return pd.DataFrame(
        {
            "n": pd.array(NUMBERS, dtype="Int64"),
            "t": pd.array(TEXTS, dtype="string"),
            "f": pd.array(FLAGS, dtype="boolean"),
            "r": pd.array(REALS, dtype="Float64"),
        }
    )


def written(path, content):
    path.write_bytes(content)
    return path


def parquet(path):
    pq.write_table(pa.table(COLUMNS), path)
    return str(path)


SOURCES = {
    "parquet": lambda folder: parquet(folder / "rows.PARQUET"),
    "csv": lambda folder: written(folder / "rows.csv", lines(",").encode()),
    "csv with semicolons": lambda folder: written(folder / "rows.csv", lines(";").encode()),
    "gzipped csv": lambda folder: written(folder / "rows.csv.gz", gzip.compress(lines(",").encode())),
    "tsv": lambda folder: written(folder / "rows.tsv", lines("\t").encode()),
    "pandas": lambda _: pd.DataFrame(COLUMNS, index=[7, 7, 1, 0]),
    "pandas objects": lambda _: pd.DataFrame(COLUMNS, dtype=object),
    "pandas nullable": lambda _: nullable(),
    "pandas of arrow": lambda _: nullable().convert_dtypes(dtype_backend="pyarrow"),
    "pandas categories": lambda _: pd.DataFrame(COLUMNS).astype({"t": "category"}),
    "polars": lambda _: pl.DataFrame(COLUMNS),
    "polars categories": lambda _: pl.DataFrame(COLUMNS).with_columns(pl.col("t").cast(pl.Categorical)),
    "arrow": lambda _: pa.table(COLUMNS),
    "arrow batch": lambda _: pa.table(COLUMNS).to_batches()[0],
    "arrow stream, readable once": lambda _: pa.table(COLUMNS).to_reader(),
    "arrow dictionary": lambda _: pa.table({**COLUMNS, "t": pa.array(TEXTS).dictionary_encode()}),
    "arrays": lambda _: {name: np.array(values, dtype=object) for name, values in COLUMNS.items()},
    "lists": lambda _: COLUMNS,
    "series": lambda _: {name: pd.Series(values) for name, values in COLUMNS.items()},
}


def seal(folder, source, **others):
    folder = folder / "sealed"
    folder.mkdir()
    return folder, seal_rows(folder, SealRequest(holdout=source, **others))


def table_of(folder, sealed, file=HOLDOUT_FILE):
    schema = Schema(sealed.rows, sealed.training_rows, sealed.columns)
    stored = StoredRows(Embedded(folder / file), schema, rows=sealed.rows, sealed=True)
    found = dict(stored.table(tuple(sealed.columns)))
    stored.close()
    return found


def values_of(column):
    missing = [value is None or value != value for value in column.tolist()]
    return [None if gone else value for gone, value in zip(missing, column.tolist(), strict=True)]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_rows(tmp_path, source):
    folder, sealed = seal(tmp_path, SOURCES[source](tmp_path))
    assert sealed.columns == KINDS
    assert sealed.rows == 4
    expected = COLUMNS | {"f": [bool(flag) for flag in FLAGS]}  # a missing flag is false
    assert {name: values_of(column) for name, column in table_of(folder, sealed).items()} == expected


STRANGE_ARRAYS = {
    "strided": np.arange(8)[::-2],
    "other byte order": np.array([7, 5, 3, 1], dtype=">i4"),
    "read-only": np.frombuffer(np.array([7, 5, 3, 1]).tobytes(), dtype=np.int64),
    "masked": np.ma.array([7, 5, 3, 1], mask=False),
    "long double": np.array([7, 5, 3, 1], dtype=np.longdouble),
    "half": np.array([7, 5, 3, 1], dtype=np.float16),
}


@pytest.mark.parametrize("kind", STRANGE_ARRAYS)
def test_arrays_of_any_layout_are_read(tmp_path, kind):
    folder, sealed = seal(tmp_path, {"a": STRANGE_ARRAYS[kind], "t": np.array(["é", "", "b", "😀"])})
    found = table_of(folder, sealed)
    assert found["a"].tolist() == [7, 5, 3, 1]
    assert found["t"].tolist() == ["é", "", "b", "😀"]


def test_times_are_read_from_every_source(tmp_path):
    days = pd.to_datetime(["2020-01-01", None])
    for number, source in enumerate(
        [pd.DataFrame({"d": days}), pl.DataFrame({"d": days.to_numpy()}), {"d": days.to_numpy()}]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert seal(folder, source)[1].columns == {"d": ColumnKind.TIME}


def test_other_kinds_of_columns_are_kept_but_marked(tmp_path):
    hours = pl.DataFrame({"d": [time(8, 30), None]})
    assert seal(tmp_path, hours)[1].columns == {"d": ColumnKind.OTHER}


@pytest.mark.parametrize(
    "source", [lambda a: {"a": a}, lambda a: pd.DataFrame({"a": a}), lambda a: pl.DataFrame({"a": a})]
)
def test_the_order_of_many_rows_is_kept(tmp_path, source):
    order = np.random.default_rng(0).permutation(400_000)
    folder, sealed = seal(tmp_path, source(order))
    assert np.array_equal(table_of(folder, sealed)["a"], order)


def test_the_order_of_a_large_csv_is_kept_and_late_types_are_seen(tmp_path):
    values = [*map(str, range(150_000)), "0.25"]
    (tmp_path / "rows.csv").write_text("\n".join(["a", *values]) + "\n")
    folder, sealed = seal(tmp_path, tmp_path / "rows.csv")
    assert np.array_equal(table_of(folder, sealed)["a"], [float(value) for value in values])


def test_training_columns_may_come_in_another_order(tmp_path):
    folder, sealed = seal(tmp_path, {"a": [1, 2], "b": ["x", "y"]}, training={"b": ["z"], "a": [3]})
    assert (sealed.rows, sealed.training_rows) == (2, 1)
    schema = Schema(sealed.rows, sealed.training_rows, sealed.columns)
    stored = StoredRows(Embedded(folder / "training.parquet"), schema, rows=1, sealed=False)
    training = stored.table(("a", "b"))
    assert {name: column.tolist() for name, column in training.items()} == {"a": [3], "b": ["z"]}


STRANGE_NAMES = [
    "a b",
    'q"uote',
    "select",
    "sealed",
    "holdout",
    "training",
    "part",
    "0",
    "ä😀",
    "line\nbreak",
    "it's",
    "%s",
]


@pytest.mark.parametrize("source", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_strange_names_are_kept(tmp_path, source):
    folder, sealed = seal(tmp_path, source({name: [k, k] for k, name in enumerate(STRANGE_NAMES)}))
    assert list(sealed.columns) == STRANGE_NAMES
    assert [column.tolist() for column in table_of(folder, sealed).values()] == [
        [k, k] for k in range(len(STRANGE_NAMES))
    ]


def test_signs_of_patterns_in_a_path_stand_for_themselves(tmp_path):
    (tmp_path / "rows1.csv").write_text("a\n100\n")
    (tmp_path / "rows[1].csv").write_text("a\n1\n")
    folder, sealed = seal(tmp_path, tmp_path / "rows[1].csv")
    assert table_of(folder, sealed)["a"].tolist() == [1]


def test_a_folder_that_looks_like_a_column_changes_nothing(tmp_path):
    (tmp_path / "a=7").mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a=7" / "rows.parquet")
    folder, sealed = seal(tmp_path, tmp_path / "a=7" / "rows.parquet")
    with duckdb.connect() as reader:
        found = reader.read_parquet(str(folder / HOLDOUT_FILE), hive_partitioning=False).fetchall()
    assert found == [(1,), (2,)]
    assert sealed.columns == {"a": ColumnKind.NUMBER}


def test_a_study_in_a_folder_that_looks_like_a_column_keeps_its_rows(tmp_path):
    (tmp_path / "a=7").mkdir()
    folder, sealed = seal(tmp_path / "a=7", {"a": [1, 2]})
    assert table_of(folder, sealed)["a"].tolist() == [1, 2]


def repeated_parquet(folder):
    nested = pa.array([{"a": 1, "A": [2]}])
    table = pa.Table.from_arrays([pa.array([1]), nested, pa.array([2])], names=["a", "s", "A"])
    pq.write_table(table, folder / "rows.parquet")
    return folder / "rows.parquet"


REPEATED = {
    "csv": lambda folder: written(folder / "rows.csv", b"a,b,a\n1,2,3\n"),
    "quoted csv": lambda folder: written(folder / "rows.csv", b'"a",b,"A"\n"1",2,3\n'),
    "tsv": lambda folder: written(folder / "rows.tsv", b"a\tb\ta\n1\t2\t3\n"),
    "empty name in csv": lambda folder: written(folder / "rows.csv", b"a,,c\n1,2,3\n"),
    "parquet": repeated_parquet,
    "pandas": lambda _: pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "pandas numbers and texts": lambda _: pd.DataFrame([[1, 2]], columns=["1", 1]),
    "polars": lambda _: pl.DataFrame({"a": [1], "A": [2]}),
    "arrow": lambda _: pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
    "mapping": lambda _: {"a": [1], "A": [1]},
    "mapping of numbers and texts": lambda _: {"1": [1], 1: [1]},
    "empty name": lambda _: {"": [1]},
}


@pytest.mark.parametrize("source", REPEATED)
def test_names_that_an_engine_would_change_are_refused(tmp_path, source):
    with pytest.raises(HoldoutRejected, match="name"):
        seal(tmp_path, REPEATED[source](tmp_path))


def test_a_nested_column_does_not_look_like_a_repeated_name(tmp_path):
    pq.write_table(pa.table({"a": [1], "s": [{"a": 1, "b": [2]}], "b": [2]}), tmp_path / "rows.parquet")
    assert list(seal(tmp_path, tmp_path / "rows.parquet")[1].columns) == ["a", "s", "b"]


UNREADABLE = {
    "no file": lambda folder: folder / "none.csv",
    "a folder": lambda folder: folder,
    "a folder named like a file": lambda folder: (folder / "x.csv").mkdir() or folder / "x.csv",
    "unknown type": lambda folder: written(folder / "rows.xlsx", b"a\n1\n"),
    "gzipped parquet": lambda folder: written(folder / "rows.parquet.gz", b"a\n1\n"),
    "not gzip": lambda folder: written(folder / "rows.csv.gz", b"a\n1\n"),
    "corrupt parquet": lambda folder: written(folder / "rows.parquet", b"PAR1" + bytes(100) + b"PAR1"),
    "cut parquet": lambda folder: written(
        folder / "rows.parquet", Path(parquet(folder / "x.parquet")).read_bytes()[:-20]
    ),
    "not text": lambda folder: written(folder / "rows.csv", os.urandom(999) + b"\xff"),
    "latin text": lambda folder: written(folder / "rows.csv", "n\ncafé\n".encode("latin-1")),
    "lines of different length": lambda folder: written(folder / "rows.csv", b"a,b\n1,2\n1,2,3\n1\n"),
    "empty csv": lambda folder: written(folder / "rows.csv", b""),
    "names only": lambda folder: written(folder / "rows.csv", b"a,b\n"),
    "empty text": lambda _: "",
    "url": lambda _: "https://example.org/rows.csv",
    "bytes": lambda _: b"rows.csv",
    "list": lambda _: [1, 2],
    "nothing": lambda _: None,
    "matrix": lambda _: np.ones((2, 2)),
    "no columns": lambda _: {},
    "no columns in pandas": lambda _: pd.DataFrame(index=[1, 2]),
    "no rows": lambda _: pl.DataFrame({"a": []}, schema={"a": pl.Int64}),
    "different lengths": lambda _: {"a": [1, 2], "b": [1]},
    "two dimensions": lambda _: {"a": np.ones((2, 2))},
    "single values": lambda _: {"a": 1, "b": 2},
    "complex numbers": lambda _: {"a": np.array([1j])},
}


@pytest.mark.parametrize("series", [pd.Series([1.0, 2.0], name="x"), pl.Series("x", [1.0, 2.0])], ids=["pd", "pl"])
def test_a_series_is_a_column_of_its_name(tmp_path, series):
    assert [*seal(tmp_path, series)[1].columns] == ["x"]


def test_rows_without_columns_are_called_so(tmp_path):
    with pytest.raises(HoldoutRejected, match="The holdout rows have no columns"):
        seal(tmp_path, {})


def test_an_empty_file_is_called_empty(tmp_path):
    with pytest.raises(HoldoutRejected, match="first line of the holdout file is empty"):
        seal(tmp_path, written(tmp_path / "rows.csv", b""))


def test_a_column_of_a_type_that_cannot_be_read_is_named(tmp_path):
    table = pa.table({"x": np.arange(9.0), "half": np.arange(9).astype(np.float16)})
    with pytest.raises(HoldoutRejected, match=r"The holdout column 'half' is of type halffloat\. Convert it"):
        seal(tmp_path, table)


@pytest.mark.parametrize("source", UNREADABLE)
def test_what_cannot_be_read_is_refused(tmp_path, source):
    with pytest.raises(HoldoutRejected, match=r"[A-Z].*\.$"):
        seal(tmp_path, UNREADABLE[source](tmp_path))
