"""A query in each engine, beside the aggregate that its user would write by hand, on 10,000,000 rows or more.

``EVERHOLD_BENCH_ROWS`` says how many rows, ``EVERHOLD_BENCH_FOLDER`` where they are made once, as a Parquet file
(PostgreSQL makes its own), and ``EVERHOLD_BENCH_ENGINES`` which engines. Each engine is measured in a process of its
own, both statements in turn on the same table: one query about one column, about two, a mean, and 100 queries in
one call, beside one statement with 100 aggregates. What stands here is the evaluation of sealed rows alone; noise and
ledger come on top, some milliseconds however many rows there are. Memory is the most that the process of everhold ever
held, which includes the engine where that is in it (DuckDB, chdb).

Embedded rows are evaluated by NumPy on columns that were read before, by a query that is not measured; everything is
computed for all rows, so that the time tells nothing about values. DuckDB by hand reads its file again.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.timing import compare
from everhold import mean
from everhold.sealing.configuration import schema_from
from everhold.sealing.rows.embedded import Embedded
from everhold.sealing.rows.table import StoredRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from everhold_engines.base import Engine

__all__ = ["ENGINES", "made_rows", "measure"]

ENGINES = ("duckdb", "chdb", "postgresql", "spark")
_TARGETS = {"duckdb": (1.5, 1.0)}  # of one query, of many; 1.3 elsewhere
_MANY = 100
_COLUMNS = {"late": "boolean", "delay": "number", "distance": "number"}
_QUERIES = {
    "one column": ("delay > 60", "delay > 60"),
    "two columns": ("late and distance < 1000", "late AND distance < 1000"),
}


@dataclass(frozen=True, slots=True)
class _Table:
    """A table, and how a statement by hand is written and run.

    Attributes:
        engine: The engine on it.
        rows: Number of rows.
        source: What stands after FROM by hand.
        share: Average of a condition, ``{}``.
        run: Runs a statement.
    """

    engine: Engine
    rows: int
    source: str
    share: str
    run: Callable[[str], object]


def made_rows(rows: int) -> Path:
    """A Parquet file with so many rows, made once: a boolean, a number with decimals, a whole number often missing."""
    folder = Path(os.environ.get("EVERHOLD_BENCH_FOLDER", Path(tempfile.gettempdir()) / "everhold-benchmarks"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rows-{rows}.parquet"
    if not path.is_file():
        with duckdb.connect(config={"memory_limit": "2GB", "preserve_insertion_order": "false"}) as engine:
            engine.execute("SET enable_progress_bar = false")
            engine.execute(f"COPY (SELECT {_made()} FROM range({rows})) TO '{path}.new' (FORMAT parquet)")
        path.with_name(f"{path.name}.new").rename(path)
    return path


def _made(small: str = "SMALLINT", double: str = "DOUBLE") -> str:
    return (
        f"random() < 0.3 AS late, CAST(240 * random() - 60 AS {double}) AS delay, "
        f"CASE WHEN random() < 0.02 THEN NULL ELSE CAST(5000 * random() AS {small}) END AS distance"
    )


def measure() -> list[dict[str, Any]]:
    """The lines of all engines, each from a process of its own."""
    rows = int(float(os.environ.get("EVERHOLD_BENCH_ROWS", "1e7")))
    names = os.environ.get("EVERHOLD_BENCH_ENGINES", ",".join(ENGINES)).split(",")
    made_rows(rows)
    lines: list[dict[str, Any]] = []
    for name in names:
        command = [sys.executable, "-m", "benchmarks.engines", name, str(rows)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        lines += json.loads(done.stdout.splitlines()[-1])
    return lines


def _rounds(rows: int, queries: int) -> int:
    return 5 if queries == 1 or rows < 50_000_000 else 2


def _lines(name: str, rows: int) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        table = _OPENED[name](rows, stack)
        kinds = {"rows": table.rows, "training_rows": 0, "columns": list(_COLUMNS.items()), "row_id": None}
        schema = schema_from({**kinds, "features": "sealed", "label": None, "label_kind": None, "label_classes": None})
        stored = StoredRows(table.engine, schema, rows=table.rows, sealed=True)
        clipped = "avg(least(greatest(delay, -60), 180))"
        asked: dict[str, tuple[list[Any], str]] = {
            **{what: ([mean(text)], table.share.format(sql)) for what, (text, sql) in _QUERIES.items()},
            "a mean": ([mean("delay", low=-60, high=180)], clipped),
        }
        levels = [180 * place / _MANY for place in range(_MANY)]
        asked[f"{_MANY} queries"] = (
            [mean(f"delay > {level}") for level in levels],
            ", ".join(table.share.format(f"delay > {level}") for level in levels),
        )
        lines = []
        for what, (queries, sql) in asked.items():
            bound = [query.bind(schema) for query in queries]
            one, many = _TARGETS.get(name, (1.3, 1.3))
            statement = f"SELECT {sql} FROM {table.source}"
            rounds = _rounds(rows, len(bound))
            times = compare(lambda: stored.totals(bound), lambda: table.run(statement), rounds=rounds)  # noqa: B023
            lines.append({
                "engine": name, "rows": f"{table.rows:.0e}", "query": what,
                "everhold ms": round(1e3 * times["ours"]), "by hand ms": round(1e3 * times["peer"]),
                "ratio": times["ratio"], "target": one if len(queries) == 1 else many,
                "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            })  # fmt: skip
        stored.close()
        return lines


def _duckdb(rows: int, stack: ExitStack) -> _Table:
    path = made_rows(rows)
    plain = stack.enter_context(duckdb.connect())
    plain.execute("SET enable_progress_bar = false")
    return _Table(
        Embedded(path), rows, f"read_parquet('{path}')", "avg(({})::INT)", lambda sql: plain.execute(sql).fetchall()
    )


def _chdb(rows: int, stack: ExitStack) -> _Table:
    from everhold_engines.clickhouse import ClickHouse

    engine = ClickHouse("chdb://", str(made_rows(rows)))
    stack.callback(engine.close)
    return _Table(engine, rows, engine.source, "avg({})", engine.rows)


def _postgresql(rows: int, stack: ExitStack) -> _Table:
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    import psycopg
    from postgres_cluster import running_cluster

    from everhold_engines.database import Database

    cluster = stack.enter_context(running_cluster())
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        made = _made("smallint", "double precision")
        connection.execute(f"CREATE UNLOGGED TABLE made AS SELECT {made} FROM generate_series(1, {rows})")
        connection.execute("VACUUM ANALYZE made")
    engine = Database(cluster.url(), "made")
    stack.callback(engine.close)
    return _Table(engine, rows, "made", "avg(({})::int)", engine.rows)


def _spark(rows: int, stack: ExitStack) -> _Table:
    from pyspark.sql import SparkSession

    from everhold_engines.spark import Spark

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.log.level", "OFF").getOrCreate()
    stack.callback(session.stop)
    path = made_rows(rows)
    engine = Spark(session, str(path))
    session.read.parquet(str(path)).createOrReplaceTempView("made")
    return _Table(engine, rows, "made", "avg(CAST({} AS INT))", lambda sql: session.sql(sql).collect())


_OPENED = {"duckdb": _duckdb, "chdb": _chdb, "postgresql": _postgresql, "spark": _spark}

if __name__ == "__main__":
    print(json.dumps(_lines(sys.argv[1], int(sys.argv[2]))))
