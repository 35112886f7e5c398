"""Dates that are held as text order the rows, as long as the whole column says which dates they are."""

import warnings
from contextlib import closing

import numpy as np
import pytest
from diagnosis_samples import diagnosed, planned, series, written

from everhold import Holdout
from everhold.diagnosis.columns import OpenFile, as_times
from everhold.diagnosis.diagnosis import diagnose_file
from everhold.errors import DependenceWarning
from everhold.sealing.rows.embedded import Embedded

WRITTEN = {
    "iso": lambda day: day,
    "iso_time": lambda day: f"{day}T06:30:00Z",
    "spaced": lambda day: f"{day} 06:30",
    "slashes": lambda day: day.replace("-", "/"),
    "compact": lambda day: day.replace("-", ""),
    "day_first": lambda day: f"{day[8:]}/{day[5:7]}/{day[:4]}",
    "dots": lambda day: f"{int(day[8:])}.{int(day[5:7])}.{day[:4]}",
    "month_first": lambda day: f"{day[5:7]}/{day[8:]}/{day[:4]}",
}


def dated(write, seed=0):
    """A series in a shuffled file, with its days as text."""
    table = series(seed)
    days = [write(str(day)) for day in table["day"].astype("datetime64[D]")]
    order = np.random.default_rng(seed).permutation(len(days))
    return {name: column[order] for name, column in (table | {"day": np.array(days, dtype=object)}).items()}


@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
def test_dates_as_text_are_an_order(tmp_path, write):
    table = dated(write)
    written(tmp_path / "rows.parquet", table)
    of_file = diagnose_file(tmp_path / "rows.parquet", label="late", mechanism=planned())
    of_type = diagnosed(table | {"day": _typed(table["day"])})
    for found in (of_file, diagnosed(table)):
        assert [each.column for each in found.suspects] == ["day"]
        assert found.finding("day").correlation == pytest.approx(of_type.finding("day").correlation)


def _typed(days):
    return as_times(days.tolist())


@pytest.mark.parametrize(
    "values",
    [
        ["03/04/2024", "05/06/2024", "07/08/2024"], ["2024-01-01", "2024-01-02", "unknown"],
        ["2024-02-30", "2024-01-01"], ["2024-01-01", "2024/01/02"], ["01/02/2024", "01-02-2024", "13/02/2024"],
        ["12345678", "20240101"], ["1999"], [""],
    ],
)  # fmt: skip
def test_text_that_is_no_date_or_may_be_two_is_no_order(values):
    assert as_times(values) is None


def test_zones_are_put_into_one_clock():
    first, other = as_times(["2024-03-31T01:30:00+02:00", "2024-03-30T23:45:00Z"])
    assert first < other


def test_a_query_is_judged_in_the_order_of_dates_as_text(tmp_path):
    rng = np.random.default_rng(0)
    returns = rng.normal(size=4_019)
    momentum = np.convolve(returns, np.ones(20), mode="valid")
    order = rng.permutation(4_000)
    day = np.datetime_as_string(np.datetime64("2001-01-01") + np.arange(4_000)).astype(object)
    opened = {"day": day[order], "momentum": momentum[order], "late": rng.integers(0, 2, 4_000)}
    sealed = {**opened, "momentum": rng.normal(size=4_000), "late": rng.integers(0, 2, 4_000)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependenceWarning)
        holdout = Holdout.create(tmp_path / "h.db", holdout=sealed, training=opened, label="late", queries=5)
    with holdout, pytest.warns(DependenceWarning, match="in the order of 'day'"):
        holdout.ask("momentum > 0")


def test_days_as_text_that_sort_otherwise_are_marked(tmp_path):
    written(tmp_path / "rows.parquet", dated(WRITTEN["day_first"]))
    with closing(Embedded(tmp_path / "rows.parquet")) as engine:
        column = OpenFile(engine, label="late").first(10_000).column("day")
    assert column.kind == "time"
    assert not column.sorted_alike
