"""The page about flights that arrive month by month: its script, on the first months."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parent.parent / "docs" / "flights_by_month.py"


@pytest.fixture(scope="module")
def page():
    pytest.importorskip("everhold_lab")
    spec = importlib.util.spec_from_file_location("flights_by_month", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_that_arrive_narrow_what_rows_that_stay_widen(page):
    grown = page.measured(months=4, queries=6, texts=False)
    static = page.measured(months=4, queries=6, texts=False, grows=False)
    assert (grown["rows"], static["rows"]) == (8_000, 2_000)
    assert grown["unsealed"] < 0.75 * static["unsealed"]
    assert abs(grown["sealed"] - 0.9) < 0.03


def test_days_are_windows(page):
    found = page.by_day(8)
    assert [row["rows"] for row in found.rows] == [840, 120]
