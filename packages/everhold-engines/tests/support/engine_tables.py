"""Tables in the engines of the tests: the same rows behind each of them, and a Spark that is started once."""

import contextlib
import os
import shutil
import threading
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from everhold_engines.clickhouse import ClickHouse
from everhold_engines.database import Database
from everhold_engines.spark import Spark

__all__ = ["clickhouse_client", "filed", "in_clickhouse", "in_postgres", "in_spark", "java_installed", "running_spark"]

_TYPES = {"bool": "boolean", "int64": "bigint", "double": "double precision", "timestamp": "timestamp"}
_SPARK = {
    "spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.sql.session.timeZone": "America/New_York",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}  # fmt: skip


def filed(folder, columns):
    """A folder with one Parquet file of columns; nan and None stay what they are."""
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    return folder


def java_installed():
    """Whether there is a Java that can be started."""
    return shutil.which("java") is not None or (Path(os.environ.get("JAVA_HOME", "/none")) / "bin" / "java").exists()


@contextlib.contextmanager
def running_spark(folder, *, connect=False):
    """A local Spark, in New York; Connect has a server of its own below."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas 3, which PySpark does not say yet that it knows
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.config(map=_SPARK | {"spark.sql.warehouse.dir": str(folder / "warehouse")})
        session = (builder.remote("local[2]") if connect else builder.master("local[2]")).getOrCreate()
    if not connect:
        session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def in_spark(session, folder, columns):
    """The engine on Parquet files of the columns."""
    return Spark(session, str(filed(folder, columns)))


@contextlib.contextmanager
def clickhouse_client(folder):
    """A client of an embedded ClickHouse on a folder; one process has one folder at a time."""
    import clickhouse_connect

    client = clickhouse_connect.get_client(interface="chdb", path=str(folder))
    try:
        yield client
    finally:
        client.close()


def in_clickhouse(client, folder, columns, table="study"):
    """The engine on a table of its own format."""
    file = filed(folder, columns) / "rows.parquet"
    client.command(
        f"CREATE TABLE {table} ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM file('{file}', 'Parquet')"
    )
    return ClickHouse(client.path, table)


def in_postgres(url, columns, table="study"):
    """The engine on a table of the columns."""
    import psycopg

    rows = pa.table(columns)
    listed = ", ".join(
        f'"{field.name}" {_TYPES.get(str(field.type).partition("[")[0], "text")}' for field in rows.schema
    )
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} ({listed})")
        with cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                copy.write_row(row)
    return Database(url, table)


@contextlib.contextmanager
def interrupted(engine):
    """Context in which an engine is told again and again to end what runs, since a statement may not have begun."""
    over = threading.Event()

    def interrupt():
        while not over.wait(0.3):
            engine.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
