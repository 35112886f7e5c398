"""The worker that reads strangers' files cannot take more memory or time than it was given."""

import subprocess
import sys
from dataclasses import replace

import pytest

from everhold.errors import QueryRejected
from everhold.queries import untrusted_files as module
from everhold.queries.prediction_files import Wanted, read_columns
from everhold.queries.untrusted_files import read_untrusted
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind

SCHEMA = Schema(
    2, 0, {"id": ColumnKind.NUMBER, "late": ColumnKind.NUMBER}, label="late", label_kind="binary", row_id="id"
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "0"
    path.write_bytes(b"id,late\n1,0\n2,1\n")
    return path


def test_a_table_comes_back_with_its_types_and_its_holes(table):
    table.write_bytes(b"id,late,sure,word,yes\n1,0,0.5,a,true\n2,,nan,,false\n")
    found = read_untrusted(table, SCHEMA, name="model").columns
    assert [found[name].dtype.kind for name in ("id", "late", "sure", "word", "yes")] == ["i", "i", "f", "O", "b"]
    assert found["late"].tolist() == [0, None]
    assert found["word"].tolist()[0] == "a"
    assert not list(table.parent.glob("*.read"))


@pytest.mark.parametrize(
    "code", ["import time; time.sleep(600)", "raise SystemExit(3)", "import os; os.abort()", "pass"]
)
def test_a_worker_that_hangs_or_dies_is_no_fault_of_ours(table, monkeypatch, code):
    monkeypatch.setattr(module, "_START", code)
    monkeypatch.setattr(module, "_SECONDS", 0.5)
    with pytest.raises(QueryRejected, match="nothing was charged"):
        read_untrusted(table, SCHEMA, name="model")


MUCH_MEMORY, LARGE_FILE = "import mmap; mmap.mmap(-1, 2**34)", "open('x', 'wb').write(bytes(2**27))"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
@pytest.mark.parametrize("limited", [True, False])
@pytest.mark.parametrize("code", [MUCH_MEMORY, LARGE_FILE])
def test_the_limits_are_hard_and_without_them_nothing_stops_it(tmp_path, limited, code):
    limit = f"from everhold.queries.untrusted_files import Wanted, _limit; _limit({Wanted.of(SCHEMA)!r}); "
    run = subprocess.run(
        [sys.executable, "-c", f"{limit if limited else ''}{code}"], cwd=tmp_path, capture_output=True, check=False
    )
    assert (run.returncode != 0) == limited


def test_the_worker_s_environment_holds_no_password(table, monkeypatch):
    monkeypatch.setenv("EVERHOLD_TOKEN", "eh_secret")
    monkeypatch.setattr(
        module, "_START",
        "import json, os, sys; task = json.load(sys.stdin); "
        "open(task['into'], 'w').write(json.dumps({'refused': ' '.join(sorted(os.environ))}))",
    )  # fmt: skip
    with pytest.raises(QueryRejected) as refused:
        read_untrusted(table, SCHEMA, name="model")
    assert "PATH" in str(refused.value)
    assert "TOKEN" not in str(refused.value)


def test_a_wide_file_of_some_megabytes_does_not_occupy_a_reader(table):
    names, line = ",".join(f"c{number}" for number in range(900)), ",".join(["2024-01-01"] * 900)
    table.write_text("\n".join([names, *[line] * 770]))
    assert table.stat().st_size > 7_600_000
    with pytest.raises(QueryRejected, match="more than 100 columns"):
        read_untrusted(table, SCHEMA, name="model")


def test_a_hundred_columns_are_read_and_a_file_of_ones_own_may_have_more(table):
    for count in (100, 101):
        table.write_text(",".join(f"c{number}" for number in range(count)) + "\n" + ",".join(["1"] * count) + "\n")
        assert len(read_columns(table, "csv", Wanted.of(SCHEMA), name="mine")) == count
        if count == 100:
            assert len(read_untrusted(table, SCHEMA, name="model").columns) == count
        else:
            with pytest.raises(QueryRejected, match="columns"):
                read_untrusted(table, SCHEMA, name="model")


@pytest.mark.parametrize(("rows", "seconds"), [(2, 20), (10_000_000, 220)])
def test_the_time_of_a_reader_follows_the_rows_of_the_holdout(rows, seconds):
    assert module._seconds(replace(Wanted.of(SCHEMA), rows=rows)) == seconds
