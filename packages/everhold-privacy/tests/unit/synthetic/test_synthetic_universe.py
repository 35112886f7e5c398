"""Cells: domains with a catch-all, tables of several kinds, queries over them."""

import math
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from everhold.errors import QueryRejected
from everhold.values.evaluation import UNIT
from everhold.values.universe import BinnedColumn, ListedColumn, QueryMatrix, Universe
from everhold_privacy.synthetic import checked_histogram

SEX = ListedColumn("sex", ("f", "m"))
AGE = BinnedColumn("age", (0, 18, 65, 120))
ROWS = {"sex": ["m", "f", "x", "m"], "age": [17.0, 18.0, -1.0, math.nan]}


def by_hand(rows):
    codes = {"f": 0, "m": 1}
    bins = [0 if 0 <= a < 18 else 1 if 18 <= a < 65 else 2 if 65 <= a < 120 else 3 for a in rows["age"]]
    return [codes.get(s, 2) * 4 + b for s, b in zip(rows["sex"], bins, strict=True)]


@pytest.mark.parametrize(
    "table", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=["dict", "pandas", "polars", "arrow"]
)
def test_every_kind_of_table_falls_into_the_same_cells(table):
    universe = Universe((SEX, AGE))
    assert universe.cells == 12
    assert universe.cells_of(table(ROWS)).tolist() == by_hand(ROWS)
    assert universe.histogram(table(ROWS)).sum() == 4


STRANGE = [
    [1],
    [1, 2],
    {},
    "12",
    None,
    object(),
    10**400,
    math.inf,
    -math.inf,
    b"x",
    True,
    pd.NA,
    pd.NaT,
    Decimal("sNaN"),
]


@pytest.mark.parametrize("domain", [SEX, AGE, ListedColumn("n", (1, 2.5), rest=2.5)], ids=lambda column: column.name)
@pytest.mark.parametrize("wrap", [list, partial(pd.Series, dtype=object)], ids=["list", "pandas"])
def test_no_row_is_ever_refused(domain, wrap):
    for values in ([value] for value in STRANGE):
        codes = domain.codes(wrap(values))
        assert codes.shape == (1,)
        assert 0 <= codes[0] < len(domain.labels)
    assert domain.codes(wrap(STRANGE)).shape == (len(STRANGE),)
    assert domain.codes(wrap([[1, 2], [3, 4]])).shape == (2,)


def test_decoding_is_the_inverse_of_encoding():
    universe = Universe((SEX, ListedColumn("n", (3, 1, 2), rest=1)))
    cells = universe.cells_of(universe.decode(np.arange(universe.cells)))
    assert cells.tolist() == list(range(universe.cells))


def test_marginals_and_vectors_count_what_they_say():
    universe = Universe((SEX, AGE))
    histogram = universe.histogram(ROWS)
    pairs = universe.marginals(2).totals(histogram) // UNIT
    np.testing.assert_array_equal(pairs, histogram)
    singles = universe.marginals(1).totals(histogram) // UNIT
    assert singles.tolist() == [1, 2, 1, 1, 1, 0, 2]
    assert universe.vector(lambda row: row["sex"] == "m") @ histogram == 2
    with pytest.raises(ValueError, match="width"):
        universe.marginals(3)


def test_a_universe_survives_the_trip_to_plain_data():
    universe = Universe((SEX, AGE))
    assert Universe.from_dict(universe.to_dict()) == universe


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ListedColumn("a", ()), r"'a' lists the values \(\)\. List at least one value, each once"),
        (lambda: ListedColumn("a", (1, True)), r"'a' lists the values \(1, True\)\. List .* each once"),
        (lambda: ListedColumn("a", (math.nan,)), "'a' lists nan. List texts, finite numbers"),
        (lambda: ListedColumn("a", (None,)), "'a' lists None. List texts, finite numbers"),
        (lambda: ListedColumn("a", ("other",)), "'a' lists 'other'. Pass rest='other'"),
        (lambda: ListedColumn("a", ("b",), rest="c"), "'a' is 'c'. Pass one of its listed values"),
        (lambda: BinnedColumn("a", (1,)), r"'a' are \(1,\)\. Pass at least two finite numbers"),
        (lambda: BinnedColumn("a", (1, 1)), r"'a' are \(1, 1\)\. Pass .* in increasing order"),
        (lambda: BinnedColumn("a", (0, math.inf)), r"'a' are \(0, inf\)\. Pass at least two finite numbers"),
        (lambda: Universe(()), r"the columns \[\]\. Pass at least one column"),
        (lambda: Universe((SEX, SEX)), r"the columns \['sex', 'sex'\]\. Pass .* each name once"),
        (lambda: Universe((SEX,)).cells_of({"age": [1]}), "no column 'sex'. Pass every column"),
        (lambda: Universe((SEX, AGE)).cells_of({"age": [1], "sex": ["f", "m"]}), "different lengths. Pass one value"),
    ],
)
def test_wrong_universes_and_tables_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_too_many_marginals_are_refused_with_their_number():
    universe = Universe(tuple(ListedColumn(str(i), tuple(range(300)), rest=0) for i in range(2)))
    with pytest.raises(ValueError, match="8,100,000,000 values"):
        universe.marginals(2)


def test_too_many_cells_are_refused_with_their_number():
    with pytest.raises(ValueError, match="1,000,000,000 cells"):
        Universe(tuple(ListedColumn(str(i), tuple(range(1000)), rest=0) for i in range(3)))


@pytest.mark.parametrize("wrong", [[1.0, 2.0], [-7654321, 2], [1], [0, 0], [7654321, 2**40]])
def test_wrong_histograms_are_refused_without_being_quoted(wrong):
    with pytest.raises(ValueError, match="histogram") as refusal:
        checked_histogram(np.array(wrong), cells=2)
    assert "7654321" not in str(refusal.value)
    with pytest.raises(ValueError, match=r"do not sum to 4, the number of rows\. Pass counts"):
        checked_histogram(np.array([1, 2]), cells=2, rows=4)


@pytest.mark.parametrize("most", [7, 2**23])
def test_totals_are_exact_also_beyond_the_integers_that_doubles_hold(most):
    generator = np.random.default_rng(1)
    values, counts = generator.random((7, 9)), generator.integers(0, most, 9)
    grid = [[int(v * UNIT) for v in row] for row in values]
    exact = [sum(g * int(c) for g, c in zip(row, counts, strict=True)) for row in grid]
    assert QueryMatrix(values).totals(counts).tolist() == exact


def test_wrong_families_are_refused():
    for values in ([], [0.5], [[]]):
        with pytest.raises(ValueError, match="shape"):
            QueryMatrix(values)
    outside = r"nan or outside \[0, 1\]\. Scale and clip"
    for values, message in (
        ([[1.5]], outside),
        ([[math.nan]], outside),
        ([["a"]], r"not real numbers\. Return an array"),
    ):
        with pytest.raises(QueryRejected, match=message):
            QueryMatrix(values)
