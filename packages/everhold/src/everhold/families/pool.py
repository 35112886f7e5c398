"""A pool of rows that a judge has judged and nobody has labelled, recorded beside the families (S18).

A pool has no members. It takes a part of the probability of failure for the shares of what the judge says in the
population. `everhold.queries.means.assisted` asks about human labels with its help.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.families.base import BoundFamily, Family
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.queries.interval_planner import JudgedShare, RecordedPool
from everhold.queries.means.assisted import content_of, read_pool
from everhold.queries.means.mean import condition
from everhold.sealing.duplicates.resealing import as_value
from everhold.sealing.duplicates.splits import BY_CHANCE, excess_by_chance, repetitions
from everhold.sealing.intake.duckdb_files import spilling_into
from everhold.sealing.rows.embedded import Embedded
from everhold.sealing.rows.table import StoredRows
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    import duckdb

    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.intake.reading import RowSource
    from everhold.values.base import BoundQuery, Schema
    from everhold.values.expressions.tree import ColumnKind

_MOST_JUDGES = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class PoolFamily(Family):
    """A pool as a steward writes it, made by `pool`."""

    rows: RowSource
    judges: Sequence[str]

    def bind(self, compiler: QueryCompiler) -> BoundPool:
        """Count what each judge says of the pool, after checking that no sealed row is in it.

        Raises:
            QueryRejected: If the pool cannot be read, a judge has no verdict, or rows are sealed. Nothing is changed.
        """
        schema, judges = compiler.schema, self.judges
        if isinstance(judges, str) or not isinstance(judges, Sequence) or not 1 <= len(judges) <= _MOST_JUDGES:
            raise QueryRejected(f"The judges are {brief(judges)}. Pass a list of conditions, such as ['judge'].")
        if not compiler.mechanism.dependence.independent:
            raise QueryRejected(
                "The rows of this holdout depend on each other, and those of a pool are counted as independent. Use a "
                "pool with a holdout of independent rows."
            )
        bound = [condition(judge, schema) for judge in judges]
        with tempfile.TemporaryDirectory() as folder, spilling_into(Path(folder)) as connection:
            kinds = read_pool(connection, self.rows)
            _check_columns(connection, kinds, bound, schema)
            _check_unsealed(connection, kinds, compiler)
            path = Path(folder) / "pool.parquet"
            connection.execute(f"COPY pool TO '{path}' (FORMAT parquet)")
            (rows,) = connection.execute("SELECT count(*) FROM pool").fetchall()[0]
            about = replace(schema, rows=rows, columns=kinds, label=None, label_kind=None, row_id=None)
            engine = Embedded(path, what="pool")
            counts = StoredRows(engine, about, rows=rows, sealed=False).totals(bound, unit=1)[:, 0].tolist()
            engine.close()
            content = content_of(connection, kinds)
        counted = zip(bound, judges, counts, strict=True)
        return BoundPool(rows, content, {judge.query: (text, count) for judge, text, count in counted})


@dataclass(frozen=True, slots=True)
class BoundPool(BoundFamily):
    """A pool of one holdout: what each judge says of how many of its rows.

    Attributes:
        rows: Number of rows.
        content: SHA-256 of its rows, in any order.
        judges: The condition of each judge and the number of rows that meet it, by fingerprint.
    """

    kind: ClassVar[str] = "pool"
    rows: int
    content: str
    judges: dict[str, tuple[str, int]]

    def nats(self, bound: BoundQuery) -> float | None:
        """See `BoundFamily.nats`. A pool has no members."""
        return None

    def share(self, judge: str) -> float:
        """Return the share of the pool's rows that meet a judge's condition."""
        return self.judges[judge][1] / self.rows

    def within(self, judge: str, nats: float) -> tuple[float, float]:
        """Return the interval of the population's share of a judge's condition.

        Args:
            judge: Fingerprint of the condition.
            nats: ln(1 / level) of the whole pool, which all judges share.
        """
        exact = ClopperPearson(rows=self.rows, training=self.rows)
        return exact.interval(self.share(judge), nats + self.most_nats)

    def recorded(self, name: str, nats: float) -> RecordedPool:
        """Return what queries have to know of the pool.

        Args:
            name: Its name in the holdout.
            nats: ln(1 / level) that its judges share.
        """
        judges = {
            judge: JudgedShare(text, count / self.rows, self.within(judge, nats))
            for judge, (text, count) in self.judges.items()
        }
        return RecordedPool(name, self.content, judges)

    def half_width(self, nats: float) -> float:
        """See `BoundFamily.half_width`: of the judge whose share is known least."""
        ends = [self.within(judge, nats) for judge in self.judges]
        return max(high - low for low, high in ends) / 2.0

    def to_dict(self) -> dict[str, Any]:
        """See `BoundFamily.to_dict`."""
        judges = [[judge, text, count] for judge, (text, count) in self.judges.items()]
        return {"kind": self.kind, "rows": self.rows, "content": self.content, "judges": judges}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Schema) -> Self:
        """Rebuild the pool from the plain data that `to_dict` returns."""
        judges = {str(judge): (str(text), int(count)) for judge, text, count in data["judges"]}
        return cls(int(data["rows"]), str(data["content"]), judges)

    @property
    def shown(self) -> str:
        """See `BoundFamily.shown`."""
        listed = ", ".join(text for text, _ in self.judges.values())
        return f"a pool of {self.rows:,} rows of the same population, on which {listed} was not tuned"

    @property
    def most_nats(self) -> float:
        """See `BoundFamily.most_nats`: all judges alike."""
        return math.log(len(self.judges))


def pool(rows: RowSource, judges: Sequence[str]) -> PoolFamily:
    """Build a pool of rows without human labels, for `eh.mean(..., assisted_by=...)`.

    It is recorded as a family is, with the holdout or later, and cannot be changed then. Its rows have to be drawn from
    the population of the sealed rows, independently of them, and no judge may have been tuned on it or on sealed rows.
    Neither can be seen in the data. Rows that are sealed are refused.

    Args:
        rows: A table or a file, as for `Holdout.create`; columns are named as the sealed ones.
        judges: Conditions over its columns, such as ``["judge"]`` or ``["judge_score >= 4"]``. They share the pool's
            part of the probability of failure.

    Examples:
        >>> pool({"judge": [True, False]}, ["judge"]).judges
        ['judge']
    """
    return PoolFamily(rows, judges)


def _check_columns(
    connection: duckdb.DuckDBPyConnection, kinds: Mapping[str, ColumnKind], judges: Sequence[BoundQuery], schema: Schema
) -> None:
    """Check that the pool has each column that a judge reads, of its kind and with a value in every row."""
    for name in sorted({name for judge in judges for name in judge.columns or ()}):
        if kinds.get(name) is not schema.columns[name]:
            found = f"is a {kinds[name].value}" if name in kinds else "is not there"
            raise QueryRejected(
                f"The column {name!r} of the pool {found}. Name it as among the sealed rows, where it is a "
                f"{schema.columns[name].value}."
            )
        numbered = f"SELECT {quoted(name)} AS value, row_number() OVER () AS place FROM pool"
        lacking = connection.execute(f"SELECT min(place) FROM ({numbered}) WHERE value IS NULL").fetchall()[0][0]
        if lacking is not None:
            raise QueryRejected(f"Row {lacking:,} of the pool has no value of {name!r}. Leave no row unjudged.")
    if not connection.execute("SELECT 1 FROM pool LIMIT 1").fetchall():
        raise QueryRejected("The pool has no rows. Pass rows that were judged.")


def _check_unsealed(
    connection: duckdb.DuckDBPyConnection, kinds: Mapping[str, ColumnKind], compiler: QueryCompiler
) -> None:
    """Check that no sealed row is in the pool: by row ids, else by more equal rows than chance gives."""
    schema, sealed = compiler.schema, compiler.sealed
    if sealed is None:
        return
    if schema.row_id is not None and schema.row_id in kinds:
        ids = {str(value) for value in sealed.row_ids(schema.row_id)}
        own = connection.execute(f"SELECT {quoted(schema.row_id)} FROM pool").fetchall()
        if (row := next((place for place, (value,) in enumerate(own, 1) if str(value) in ids), None)) is not None:
            raise _sealed_row(f"with {schema.row_id} = {own[row - 1][0]}, ", row)
        return
    shared = {name: kind for name, kind in schema.asked.items() if kinds.get(name) is kind}
    if sealed.reads_ahead or not shared:
        return
    connection.register("sealed_given", dict(sealed.table([*shared])))
    connection.execute("CREATE VIEW holdout AS SELECT * FROM sealed_given; CREATE VIEW training AS SELECT * FROM pool")
    if excess_by_chance(repetitions(connection, shared)) < BY_CHANCE:
        listed = ", ".join(as_value(name, kind) for name, kind in shared.items())
        row = connection.execute(
            f"SELECT min(place) FROM (SELECT hash({listed}) AS mark, row_number() OVER () AS place FROM pool) "
            f"WHERE mark IN (SELECT hash({listed}) FROM holdout)"
        ).fetchall()[0][0]
        raise _sealed_row("", int(row))


def _sealed_row(which: str, row: int) -> QueryRejected:
    return QueryRejected(
        f"Row {row:,} of the pool, {which}is a sealed row. Leave all sealed rows out of the pool: who reads it would "
        "know them.",
        row=row,
    )
