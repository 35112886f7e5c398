"""What may not mean what it says: texts that are numbers, missing values, columns that cannot be read, full disks."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import everhold as eh
from everhold.errors import ColumnWarning, HoldoutRejected, QueryRejected
from everhold.sealing.intake.files import seal_rows
from everhold.sealing.intake.request import SealRequest

ROWS = 400
ARMS = {"arm": "arm", "treated": "B", "control": "A"}


def seal(folder, holdout, training=None):
    (folder / "sealed").mkdir(exist_ok=True)
    for file in (folder / "sealed").iterdir():
        file.unlink()
    return seal_rows(folder / "sealed", SealRequest(holdout=holdout, training=training))


def told(folder, holdout, training):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ColumnWarning)
        seal(folder, holdout, training)
    return [str(each.message) for each in found if each.category is ColumnWarning]


def texts(values, seed):
    return {"t": (values * ROWS)[:ROWS], "n": np.random.default_rng(seed).normal(size=ROWS)}


def test_texts_that_are_numbers_are_told_from_the_training_rows_alone(tmp_path):
    numbers = [str(number / 4) for number in range(ROWS - 1)]
    cases = {
        "99.7% of its training values are numbers, but not 'unknown'": [*numbers, "unknown"],
        "all of its training values are numbers": [f"{number} %" for number in range(7)],
        "hold a word such as 'NA'": ["NA", "x", "y"],
    }
    for said, values in cases.items():
        (message,) = told(tmp_path, texts(["secret"], 0), texts(values, 1))
        assert said in message
        assert not told(tmp_path, texts(values, 0), texts(["x", "y"], 1))
    assert not told(tmp_path, texts(["007", "010"], 0), texts(["007", "010"], 1))  # ids


def trial(seed):
    rng = np.random.default_rng(seed)
    died, bp, arm = (rng.random(2_000) < 0.3).astype(float), rng.normal(130.0, 15.0, 2_000), rng.random(2_000) < 0.5
    died[::4] = bp[::4] = np.nan
    return {"died": died, "bp": bp, "arm": np.where(arm, "B", "A"), "x": rng.random(2_000)}


BP = {"low": 60, "high": 200}
LACKING = {
    "a condition": "died = 1",
    "a part of a condition": "died = 1 and arm = 'B'",
    "a number": eh.mean("bp", **BP),
    "a share": eh.mean("died = 1", given="arm = 'B'"),
    "two arms": eh.risk_difference("died = 1", **ARMS),
    "a ratio of arms": eh.risk_ratio("died = 1", **ARMS),
    "a correlation": eh.correlation("died = 1", "x > 0.5"),
    "a quantile": eh.quantile("bp"),
    "a choice": eh.choose(["died = 1", "x > 0.5"]),
}
COMPLETE = {
    "among rows with a value": eh.mean("bp", given="bp is not null", **BP),
    "arms of rows with a value": eh.risk_difference("died = 1", given="died is not null", **ARMS),
    "a value that the analyst names": eh.mean("case when bp is null then 130 else bp end", **BP),
    "a condition that is never missing": "bp is not null and bp > 120",
    "missing values themselves": "bp is null",
    "another column among rows that are known to die": eh.mean("x", low=0, high=1, given="died = 1"),
    "a histogram, which shows them": eh.histogram("bp", bins=[60, 120, 200]),
}


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    with eh.Holdout.create(
        f"sqlite:///{folder}/t.db", "t", holdout=trial(0), training=trial(1), queries=50
    ) as made:  # fmt: skip
        yield made


@pytest.mark.parametrize("kind", LACKING)
def test_a_query_without_a_value_in_training_rows_is_refused_and_costs_nothing(holdout, kind):
    before = holdout.remaining
    with pytest.raises(QueryRejected, match=r"has no value in \d+ of 2,000 training rows.*is not null"):
        holdout.ask(LACKING[kind])
    assert holdout.remaining == before


@pytest.mark.parametrize("kind", COMPLETE)
def test_a_query_that_says_what_counts_is_answered(holdout, kind):
    assert holdout.ask(COMPLETE[kind]) is not None


def test_the_mean_of_rows_with_a_value_is_theirs(holdout):
    answer = holdout.ask(COMPLETE["among rows with a value"])
    assert answer.low < 130.0 < answer.high
    assert "bp is not null" in answer.shown


def test_the_certificate_counts_training_rows_without_a_value(holdout, tmp_path):
    certificate = holdout.certificate()
    assert certificate.to_dict()["rows"]["lacking"] == [["died", 500], ["bp", 500]]
    assert "died: 500, bp: 500" in certificate.to_html()
    certificate.save(tmp_path / "t.json")
    assert eh.verify_certificate(tmp_path / "t.json", public_key=certificate.public_key).ok


def test_without_training_rows_the_steward_is_told_which_columns_lack_values(tmp_path):
    with pytest.warns(ColumnWarning, match="Sealed rows lack values of 'died', 'bp', and training rows do not show it"):
        eh.Holdout.create(f"sqlite:///{tmp_path}/t.db", "t", holdout=trial(0), mechanism="silent", queries=2).close()


def frames():
    days = pd.date_range("2025-01-01", periods=5, name="day")
    return {
        "cut": pd.DataFrame({"x": range(5), "v": pd.cut(np.arange(5.0), 2)}),
        "period": pd.DataFrame({"x": range(5), "v": pd.period_range("2025-01", periods=5, freq="M")}),
        "sparse": pd.DataFrame({"x": range(5), "v": pd.arrays.SparseArray([0, 0, 1, 0, 2])}),
        "period index": pd.DataFrame({"x": range(5)}, index=pd.PeriodIndex(days, freq="D", name="v")),
    }


@pytest.mark.parametrize("kind", frames())
def test_a_column_that_cannot_be_read_is_named_with_its_type(tmp_path, kind):
    with pytest.raises(HoldoutRejected, match=r"The holdout column 'v' is of type \S+"):
        seal(tmp_path, frames()[kind])


def test_an_index_that_says_something_is_a_column(tmp_path):
    days = pd.date_range("2025-01-01", periods=5)
    for index, name in ((days, "index"), (days.rename("day"), "day"), (pd.Index(list("abcde"), name="id"), "id")):
        assert list(seal(tmp_path, pd.DataFrame({"x": range(5)}, index=index)).columns) == [name, "x"]
    assert list(seal(tmp_path, pd.DataFrame({"x": range(5)}, index=[7, 7, 1, 0, 3])).columns) == ["x"]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_in_nanoseconds_can_be_asked_about(tmp_path, zone):
    times = pl.Series(np.arange(ROWS) * 3_600_000_000_000).cast(pl.Datetime("ns", zone))
    table = pl.DataFrame({"t": times, "x": np.random.default_rng(0).random(ROWS)})
    table.write_parquet(tmp_path / "rows.parquet")
    for number, source in enumerate((table, tmp_path / "rows.parquet")):
        storage = f"sqlite:///{tmp_path}/{number}.db"
        with eh.Holdout.create(storage, "h", holdout=source, mechanism="silent", queries=2) as holdout:
            holdout.ask("t >= timestamp '1970-01-02 00:00:00'", silent=True)
            (row,) = holdout.unseal().rows
        assert row["sealed"] == pytest.approx(1 - 24 / ROWS)


FULL = """
import resource, signal, sys
import numpy as np, everhold as eh
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    eh.Holdout.create(f"sqlite:///{sys.argv[1]}/s.db", "s", holdout={"x": np.random.default_rng(0).random(2_000)})
except eh.HoldoutRejected as fault:
    print(fault)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are those of POSIX")
def test_a_full_disk_is_told_and_nothing_is_left(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "Check that the disk has room" in done.stdout
    assert list(tmp_path.iterdir()) == []
