"""Spark: in a session of its own, classic or Connect, at the snapshot that was sealed, and quiet about rows."""

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_tables import filed, in_spark, interrupted

from everhold.errors import EverholdError, IntegrityError, Unavailable
from everhold.values.expressions import ColumnKind
from everhold_engines import spark as spark_module
from everhold_engines.spark import Spark, SparkConnection, SparkTable

COLUMNS = {"i": [1, 2, 3], "s": ["a", None, "ü"], "x": [0.5, None, float("nan")]}
TESTS = Path(__file__).parents[1] / "support"
ENDLESS = "SELECT sum(sqrt(id + 0.5)) FROM range(0, 100000000000, 1, 4)"


@pytest.fixture
def rows(spark, tmp_path):
    engine = in_spark(spark, tmp_path / "rows", COLUMNS)
    yield engine
    engine.close()


def test_the_callers_session_stays_as_it_is(spark, rows):
    assert rows.rows("SELECT current_timezone()") == [("UTC",)]
    assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"
    rows.close()
    assert spark.sql("SELECT 1").count() == 1


def test_views_of_the_session_are_there(spark):
    spark.sql("SELECT timestamp'2024-01-01 00:00:00' AS t").createOrReplaceTempView("`a view`")
    view = Spark(spark, '"a view"')
    assert view.rows(f"SELECT unix_micros(t) FROM {view.source} AS t") == [(1_704_085_200_000_000,)]
    digest = view.contents()
    assert view.contents() == digest
    assert view.stored.state() is None
    view.close()


def test_texts_are_told_apart_by_their_signs_whatever_a_collation_takes_for_equal(spark):
    spark.sql("SELECT col1 COLLATE UTF8_LCASE AS s FROM VALUES ('a'), ('A'), ('b')").createOrReplaceTempView("texts")
    view = Spark(spark, "texts")
    assert view.columns() == {"s": ColumnKind.STRING}
    assert view.rows(f"SELECT DISTINCT s FROM {view.source} AS t ORDER BY s") == [("A",), ("a",), ("b",)]
    view.close()


def test_other_files_in_the_folder_are_noticed(rows, tmp_path):
    rows.contents("key")
    filed(tmp_path / "other", COLUMNS)
    (tmp_path / "other" / "rows.parquet").replace(tmp_path / "rows" / "more.parquet")
    with pytest.raises(IntegrityError, match="Restore the rows"), rows.reading():
        pass


def test_a_statement_can_be_ended_from_another_thread_and_ends_by_its_limit(spark, rows):
    rows.columns()  # a machine under load takes longer than that to copy a session
    started = time.monotonic()
    with pytest.raises(EverholdError, match="could not evaluate"), interrupted(rows):
        rows.rows(ENDLESS)
    short = Spark(spark, rows.table, max_seconds=0.5)
    with pytest.raises(EverholdError, match="enough memory and time"):
        short.rows(ENDLESS)
    short.close()
    assert time.monotonic() - started < 60


def test_pyspark_is_quiet_while_everhold_asks_and_not_otherwise(spark, rows):
    heard = []
    handler = logging.Handler()
    handler.emit = heard.append
    rows.columns()
    for name in spark_module._LOGGERS:
        logging.getLogger(name).addHandler(handler)
    try:
        with pytest.raises(EverholdError):
            rows.rows("SELECT a_row FROM range(1)")
        assert heard == []
        with pytest.raises(Exception, match="a_row"):
            spark.sql("SELECT a_row FROM range(1)")
        assert heard
    finally:
        for name in spark_module._LOGGERS:
            logging.getLogger(name).removeHandler(handler)


@pytest.mark.parametrize(("provider", "newest"), [
    ("iceberg", "SELECT snapshot_id FROM `lake`.`rows`.`refs` WHERE name = 'main'"),
    ("delta", "DESCRIBE HISTORY `lake`.`rows` LIMIT 1"),
])  # fmt: skip
def test_a_table_that_keeps_snapshots_is_read_at_one(provider, newest, monkeypatch):
    import pyarrow as pa

    asked = []
    monkeypatch.setattr(SparkTable, "said", lambda *_: [("Name", "rows", None), ("Provider", provider, "")])
    monkeypatch.setattr(
        SparkConnection, "table", lambda _, statement, **limit: asked.append(statement) or pa.table({"version": [17]})
    )
    table = Spark(None, "lake.rows")
    assert (table.snapshot, table.source) == ("17", "`lake`.`rows` VERSION AS OF 17")
    assert asked == [newest]
    earlier = table.pinned({**table.to_dict(), "snapshot": "5"})
    assert (earlier.source, table.source) == ("`lake`.`rows` VERSION AS OF 5", "`lake`.`rows` VERSION AS OF 17")
    with pytest.raises(ValueError, match="invalid literal"):
        table.pinned({"snapshot": "5; DROP TABLE rows"})


def test_without_a_session_it_says_what_is_missing(monkeypatch):
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda _: None))
    with pytest.raises(Unavailable, match="No Spark session is active"):
        Spark.from_url("spark", "rows").rows("SELECT 1")


def test_a_token_of_connect_is_in_no_public_fact():
    engine = Spark.from_url("sc://steward@host:15002/;token=secret", "rows")
    engine.stored._pinned = (None,)
    assert engine.to_dict() == {"kind": "spark", "table": "rows", "place": "sc://host:15002", "snapshot": None}


def test_connect_says_what_the_classic_session_says(rows, tmp_path):
    digest = rows.contents("key")
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, str(TESTS / "spark_connect_child.py"), str(tmp_path), rows.table],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": path, "SPARK_TESTING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(done.stdout)
    assert found["digest"] == digest
    assert found["place"].startswith("sc://localhost:")
    assert found["view"] == [[1]]
    assert (found["zone"], found["theirs"]) == ([["UTC"]], "America/New_York")
    assert found["columns"] == {"i": "number", "s": "string", "x": "number"}
    assert "could not evaluate" in found["ended"]
    assert found["seconds"] < 60
