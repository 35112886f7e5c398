"""ClickHouse, embedded and behind HTTP: what it is asked, and what it answers, is that of the embedded engine."""

import multiprocessing
import os
from types import SimpleNamespace

import chdb
import pytest
from clickhouse_server import running_server
from engine_tables import clickhouse_client, filed, in_clickhouse
from rows_contract import EngineContract, columns_of_rows

from everhold.errors import EverholdError, HoldoutRejected, IntegrityError, Unavailable
from everhold.values.expressions import ColumnKind, RowValue, parse
from everhold_engines.clickhouse import ClickHouse
from everhold_engines.column_copies import ColumnCopies, TableSide
from everhold_engines.sql.compiler import totals_sql
from everhold_engines.tables import TableStructure


class TestClickHouse(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def filled(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("clickhouse")
        with clickhouse_client(folder / "data") as client:
            yield in_clickhouse(client, folder / "rows", columns_of_rows())

    @pytest.fixture
    def engine(self, filled):
        yield filled
        filled.close()


@pytest.fixture
def server(tmp_path):
    """Port and queries of a server with a table of rows."""
    connection = chdb.connect(str(tmp_path / "data"))
    file = filed(tmp_path / "rows", columns_of_rows(50)) / "rows.parquet"
    connection.query("CREATE DATABASE study")
    connection.query(
        f"CREATE TABLE study.rows ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM file('{file}', 'Parquet')"
    )
    with running_server(connection) as (port, asked):
        yield port, asked, connection
    connection.close()


def test_a_server_is_asked_by_http_and_may_only_be_read(server):
    port, asked, connection = server
    engine = ClickHouse(f"clickhouse://steward:secret@127.0.0.1:{port}/", "study.rows")
    assert engine.columns()["x"] is ColumnKind.NUMBER
    assert engine.rows(f"SELECT count(*), sum(id) FROM {engine.source} AS t") == [
        (50, sum(columns_of_rows(50)["id"].tolist()))
    ]
    settings, _, authorization = asked[-1]
    assert (settings["readonly"], settings["session_timezone"], settings["log_queries"]) == ("2", "UTC", "0")
    assert settings["max_execution_time"] == "600.0"
    assert authorization.startswith("Basic ")
    assert "secret" not in repr(engine) + str(engine.to_dict())
    with pytest.raises(EverholdError, match="could not evaluate"):
        engine.rows(f"SELECT throwIf(late = 1) FROM {engine.source} AS t")
    digest = engine.contents("key")
    with engine.reading():
        pass
    connection.query("ALTER TABLE study.rows UPDATE x = x + 1 WHERE late = 1 SETTINGS mutations_sync = 1")
    with pytest.raises(IntegrityError, match="Restore the rows"), engine.reading():
        pass
    assert engine.contents("key") != digest
    engine.close()


def test_a_wrong_password_is_not_called_a_lost_connection(clickhouse):
    with running_server(clickhouse, password="swordfish") as (port, _):
        engine = ClickHouse(f"clickhouse://steward:herring@127.0.0.1:{port}/", "rows")
        with pytest.raises(Unavailable, match=r"does not accept the user") as kept_out:
            engine.columns()
        assert "herring" not in str(kept_out.value)
        engine.close()


def test_a_server_that_is_not_there_is_unavailable():
    engine = ClickHouse("clickhouse://steward:secret@127.0.0.1:9/study", "rows")
    with pytest.raises(Unavailable, match=r"at clickhouse://steward@127\.0\.0\.1:9/study cannot be reached") as fault:
        engine.rows("SELECT 1")
    assert fault.value.unchanged == "nothing was charged"


def test_parquet_files_are_read_where_they_lie(tmp_path, monkeypatch):
    folder = filed(tmp_path / "it's", columns_of_rows(50))
    monkeypatch.chdir(tmp_path)
    engine, one = ClickHouse("chdb://", str(folder)), ClickHouse("chdb://", "it's/rows.parquet")
    assert one.to_dict()["table"] == str(folder / "rows.parquet")
    assert engine.rows(f"SELECT count(*) FROM {engine.source} AS t") == [(50,)]
    assert engine.contents() == one.contents()
    filed(tmp_path / "other", columns_of_rows(51))
    (tmp_path / "other" / "rows.parquet").replace(folder / "rows.parquet")
    for changed in (engine, one):
        with pytest.raises(IntegrityError), changed.reading():
            pass
        changed.close()


def test_one_process_has_one_embedded_clickhouse(clickhouse, tmp_path):
    with pytest.raises(Unavailable, match="open on another folder"):
        ClickHouse(tmp_path / "elsewhere", "rows").rows("SELECT 1")


def test_a_fork_is_told_that_it_cannot_go_on(clickhouse, tmp_path):
    engine = in_clickhouse(clickhouse, tmp_path / "rows", columns_of_rows(50))
    assert engine.rows("SELECT 1") == [(1,)]
    ours, theirs = multiprocessing.Pipe()
    child = os.fork()
    if not child:
        try:
            theirs.send(engine.rows("SELECT 1"))
        except EverholdError as error:
            theirs.send(str(error))
        os._exit(0)
    os.waitpid(child, 0)
    assert "does not survive the fork" in ours.recv()
    engine.close()


def test_a_statement_ends_by_its_limit(clickhouse, tmp_path):
    engine = ClickHouse(clickhouse, "rows", max_seconds=0.2)
    with pytest.raises(EverholdError, match="enough memory and time"):
        engine.rows("SELECT sum(sin(number)) FROM numbers(100000000000)")
    engine.close()


def test_names_that_differ_in_case_only_are_refused(clickhouse):
    clickhouse.command("CREATE TABLE twins (delay Int64, Delay Int64) ENGINE = Memory")
    with pytest.raises(HoldoutRejected, match="differ only in case"):
        ClickHouse(clickhouse, "twins").columns()


PARTS = {
    "t": ("t String, size Int64, late Int64", "'abc', 7, 1"),  # t.size is the length of t
    "null": ("t Nullable(Float64), `null` Int64, late Int64", "0.5, 7, 1"),
    "tuple": ("t Tuple(late Int64, x Int64), late Int64, x Int64", "(5, 5), 1, 7"),
    "flat": ("`t.late` Int64, late Int64, `t.x` Int64", "5, 1, 5"),
}


@pytest.mark.parametrize("case", PARTS)
def test_no_part_of_a_column_is_read_for_another_column(clickhouse, case):
    columns, values = PARTS[case]
    clickhouse.command(f"CREATE TABLE parts ({columns}, i Int64) ENGINE = MergeTree ORDER BY i")
    clickhouse.command(f"INSERT INTO parts SELECT {values}, number FROM numbers(8)")
    engine = ClickHouse(clickhouse.path, "parts")
    kinds, digest = engine.columns(), engine.contents("key")
    assert engine.rows(totals_sql([RowValue(parse("late = 1", kinds))], engine.source, unit=1, dialect=engine.dialect))[
        0
    ] == (8,)
    clickhouse.command("ALTER TABLE parts UPDATE late = 0 WHERE i = 3 SETTINGS mutations_sync = 1")
    assert engine.contents("key") != digest


def test_no_column_is_taken_for_a_name_that_statements_give(clickhouse, tmp_path):
    clickhouse.command("CREATE TABLE named (c1 Int64, c0 Int64, size Int64) ENGINE = Memory")
    clickhouse.command("INSERT INTO named SELECT number, 100 + number, intDiv(number, 2) FROM numbers(8)")
    engine = ClickHouse(clickhouse.path, "named")
    with ColumnCopies(tmp_path, engine.columns(), [TableSide(engine, engine.columns(), 8)]) as staging:
        staging.bring(["c0", "c1", "size"])
        found = staging.connection.execute("SELECT min(c0), min(c1), max(size) FROM holdout").fetchall()
        assert found == [(100, 0, 3)]
        assert TableStructure(staging, SimpleNamespace(columns=engine.columns(), guess_rows=0)).group_sizes("size") == {
            2: 4
        }


@pytest.mark.parametrize("name", ["everhold", "everhold.late", "everhold_0.joined_id"])
def test_names_by_which_statements_call_the_table_are_refused(clickhouse, name):
    clickhouse.command(f"CREATE TABLE taken (late Int64, `{name}` Int64) ENGINE = Memory")
    with pytest.raises(HoldoutRejected, match="Rename the column in a view"):
        ClickHouse(clickhouse, "taken").columns()


@pytest.mark.parametrize("where", ["ftp://host", 7])
def test_what_is_no_clickhouse_is_refused(where):
    with pytest.raises((ValueError, TypeError), match=r"Not a ClickHouse URL|Pass"):
        ClickHouse(where, "rows")
