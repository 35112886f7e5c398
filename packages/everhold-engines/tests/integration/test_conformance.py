"""Engines that count as the rules say are told from those that do not."""

import json
from dataclasses import replace

import duckdb
import pyarrow.parquet as pq
import pytest

from everhold.errors import EverholdError
from everhold_engines.conformance import conformance, made_up_columns
from everhold_engines.sql.compiler import literal_rows_sql
from everhold_engines.sql.dialects import CLICKHOUSE, DUCKDB, POSTGRESQL, SPARK


class Engine:
    """What the trial asks of an engine."""

    def __init__(self, dialect, run):
        self.kind, self.dialect, self._run = dialect.name, dialect, run

    def rows(self, statement):
        return [tuple(row) for row in self._run(statement)]


def in_duckdb(connection):
    return Engine(DUCKDB, lambda statement: connection.execute(statement).fetchall())


def of_postgres(connection, dialect=POSTGRESQL):
    return Engine(dialect, lambda statement: connection.execute(statement).fetchall())


def of_clickhouse(client, dialect=CLICKHOUSE):
    return Engine(dialect, lambda statement: client.query(statement).result_rows)


@pytest.fixture
def connection(postgres):
    """A database that compares texts as Americans do."""
    import psycopg

    with psycopg.connect(postgres.url(), autocommit=True) as steward:
        steward.execute("CREATE DATABASE american TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
    with psycopg.connect(postgres.url("american"), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = on")
        yield connection
    postgres.drop("american")


@pytest.fixture
def filed(tmp_path):
    """A DuckDB whose made-up rows are in a file, which says that no number of it is nan."""
    with duckdb.connect() as connection:
        rows = literal_rows_sql(made_up_columns(DUCKDB), DUCKDB)
        pq.write_table(connection.sql(f"FROM {rows}").to_arrow_table(), tmp_path / "rows.parquet")
        connection.execute(f"CREATE VIEW made_up AS FROM read_parquet('{tmp_path}/rows.parquet')")
        yield connection


def test_duckdb_conforms_only_without_its_optimizer(filed):
    """It believes the statistics of the file, which say nothing of nan."""
    found = conformance(in_duckdb(filed), source="made_up")
    assert {finding.expression for finding in found.findings} >= {"w > 60", "w is null"}
    filed.execute("SET disabled_optimizers = 'statistics_propagation,expression_rewriter'")
    found = conformance(in_duckdb(filed), source="made_up")
    assert found.agrees, str(found)
    assert found.expressions > 120
    assert str(found).endswith("all as the rules say")


def test_postgresql_conforms_in_any_language_and_without_writing(connection):
    found = conformance(of_postgres(connection))
    assert found.agrees, str(found)


@pytest.mark.parametrize(
    ("spoiled", "expression"),
    [
        (POSTGRESQL.spelled(text="{0}::text"), "s < 'a'"),
        (replace(POSTGRESQL, raises=False), "x * y"),
        (replace(POSTGRESQL, greatest_nan=False), "x > 60"),
        (
            POSTGRESQL.spelled(time="date_part('epoch', {0} AT TIME ZONE 'America/New_York')"),
            "d = date '2024-02-29'",
        ),
        (POSTGRESQL.spelled(wide="({0})::integer"), "x > 60"),
    ],
    ids=["collation", "overflow", "nan", "zone", "sums"],
)
def test_a_spoiled_dialect_of_postgresql_is_noticed(connection, spoiled, expression):
    found = conformance(of_postgres(connection, spoiled))
    assert expression in {finding.expression for finding in found.findings}


def test_clickhouse_conforms(clickhouse):
    found = conformance(of_clickhouse(clickhouse))
    assert found.agrees, str(found)


def test_lengths_in_bytes_are_noticed(clickhouse):
    found = conformance(of_clickhouse(clickhouse, CLICKHOUSE.spelled(length="length({0})")))
    assert "s like '_'" in {finding.expression for finding in found.findings}


def test_sums_that_run_over_are_noticed_and_nothing_else(clickhouse):
    found = conformance(of_clickhouse(clickhouse, CLICKHOUSE.spelled(sum="sum({0})")))
    assert {finding.what for finding in found.findings} == {"sum"}


def test_spark_conforms(spark):
    found = conformance(Engine(SPARK, lambda statement: spark.sql(statement).collect()))
    assert found.agrees, str(found)


def test_an_engine_that_raises_is_told_without_its_words():
    def failing(statement):
        raise EverholdError("row 17 says 4711")

    found = conformance(Engine(DUCKDB, failing))
    assert {finding.found for finding in found.findings} == {"an error"}
    assert "4711" not in str(found)
    assert str(found).splitlines()[-1].startswith("  and ")


def test_findings_can_be_printed_and_converted(filed):
    found = conformance(in_duckdb(filed), source="made_up")
    assert json.loads(json.dumps(found.to_dict()))["engine"] == "duckdb"
    assert list(found.to_pandas().columns) == ["expression", "low", "high", "what", "expected", "found"]
    assert len(found.to_rows()) == len(found.findings)
    assert "expected" in found._repr_html_()
    assert f"{len(found.findings)} differ" in str(found)
