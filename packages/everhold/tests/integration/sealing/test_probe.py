"""A function is tried on public rows, where all that is wrong with it is said."""

import numpy as np
import pytest

from everhold import QueryRejected
from everhold.sealing.rows.code_trials import made_up_rows, try_on_public_rows
from everhold.values.expressions import ColumnKind

KINDS = dict(zip("nbsto", ColumnKind.__members__.values(), strict=True))
TABLES = {
    "made up": made_up_rows({"n": ColumnKind.NUMBER, "s": ColumnKind.STRING, "b": ColumnKind.BOOLEAN}),
    "one row": {"n": np.array([0.5]), "s": np.array(["a"]), "b": np.array([True])},
    "training": {"n": np.arange(9) / 9, "s": np.array(list("abcabcabc")), "b": np.arange(9) > 3},
}


def assert_rejected(function, table, words):
    with pytest.raises(QueryRejected, match=words):
        try_on_public_rows(function, TABLES[table])


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "function",
    [
        lambda table: table["n"] > 0.5,
        lambda table: table["n"],
        lambda table: table["n"].tolist(),
        lambda table: (table["s"] == "a") & table["b"],
        lambda table: np.float32(0.5) * table["b"],
    ],
)
def test_functions_of_single_rows_pass(function, table):
    try_on_public_rows(function, TABLES[table])


@pytest.mark.parametrize("table", ["made up", "training"])
@pytest.mark.parametrize(
    "function",
    [
        lambda table: table["n"] > table["n"].mean(),
        lambda table: table["n"] >= table["n"].max(),
        lambda table: np.argsort(table["n"]) / len(table["n"]),
        lambda table: np.cumsum(table["b"]) / len(table["b"]),
        lambda table: np.full(len(table["n"]), 1 / len(table["n"])),
        lambda table: np.roll(table["b"], 1),
        lambda table: np.arange(len(table["n"])) == 0,
    ],
)
def test_functions_that_look_at_other_rows_are_rejected(function, table):
    assert_rejected(function, table, "depends on the other rows")


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda table: table["n"] * np.nan, "nan or outside"),
        (lambda table: table["n"] + 1.5, "nan or outside"),
        (lambda table: table["n"] - 2, "nan or outside"),
        (lambda table: table["s"], "not real numbers"),
        (lambda table: table["n"] * 1j, "not real numbers"),
        (lambda table: table["n"][:-1], "shape"),
        (lambda table: np.ones((len(table["n"]), 1)), "shape"),
        (lambda _table: 0.5, "shape"),
        (lambda _table: None, "shape"),
        (lambda table: table["none"], "KeyError"),
        (lambda table: table["n"].sort(), "read-only|shape"),
    ],
)
def test_faults_are_reported(function, words, table):
    assert_rejected(function, table, words)


def test_made_up_rows_have_the_types_of_the_columns_and_cannot_be_written():
    table = made_up_rows(KINDS)
    assert [column.dtype.kind for column in table.values()] == ["f", "O", "b", "O", "O"]
    for column in table.values():
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[1]
