"""The share of a condition that few rows are labelled for, with the help of a judge and a pool of judged rows (S18)."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from everhold.answers import Answer
from everhold.arguments import as_float, brief
from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.guarantees.intervals.strata import SeenStrata, StratifiedShare
from everhold.queries.means.mean import MeanQuery, condition
from everhold.queries.procedures import check_confirms_statistics, check_independent
from everhold.queries.query import Query, QuerySpec
from everhold.queries.statistic import OneNumber
from everhold.sealing.duplicates.resealing import as_value
from everhold.sealing.intake.duckdb_files import column_kinds, spilling_into
from everhold.sealing.intake.reading import read_rows
from everhold.sealing.rows.embedded import errors_hidden
from everhold.values.base import BoundQuery, Pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from everhold.queries.interval_planner import JudgedShare, RecordedPool
    from everhold.queries.query import CompileContext, QueryPlan
    from everhold.sealing.intake.reading import RowSource
    from everhold.sealing.rows.evaluated_rows import RowStore
    from everhold.values.expressions.tree import ColumnKind

_PLANNED_NATS = 6.0  # at which the judge has to be worth its pool


@dataclass(frozen=True, slots=True, eq=False)
class AssistedMean(Query[Answer]):
    """A query for the share of a condition with the help of a judge, made by `mean`.

    Attributes:
        text: The condition, such as a human label.
        judge: Another condition, known for the rows of the pool as well.
        pool: Name of a recorded pool, or SHA-256 of its rows.
    """

    text: str
    judge: str
    pool: str

    @classmethod
    def of(cls, text: object, *, judge: object, pool: Any) -> Self:
        """Build the query, with the digest of the pool in place of its rows.

        Raises:
            QueryRejected: If an argument is no condition, or the pool cannot be read. Nothing is charged.
        """
        if not isinstance(text, str) or not isinstance(judge, str):
            raise QueryRejected(f"The mean of {brief(text)} is assisted by {brief(judge)}. Pass conditions as texts.")
        if isinstance(pool, str):
            return cls(text, judge, pool)
        with tempfile.TemporaryDirectory() as folder, spilling_into(Path(folder)) as connection:
            return cls(text, judge, content_of(connection, read_pool(connection, pool)))

    def spec(self) -> QuerySpec:
        """See `Query.spec`."""
        return QuerySpec("mean", self.text, {"assisted_by": self.judge, "pool": self.pool})

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the share, without the judge where no training rows say that it is worth its pool."""
        schema, mechanism, plain = compiler.schema, compiler.mechanism, MeanQuery(self.text)
        check_confirms_statistics(mechanism, "a mean that is assisted", instead="the mean without assisted_by")
        check_independent(mechanism, "a mean that is assisted", instead="the mean without assisted_by")
        if tolerance is not None:
            raise QueryRejected("A mean that is assisted takes no tolerance. Ask at the planned width.")
        if schema.features_public:
            raise QueryRejected(
                "Features are public here, and a mean that is assisted is about rows of one law. Leave assisted_by out."
            )
        if needed := plain.needed(schema) | MeanQuery(self.judge).needed(schema):
            raise QueryRejected(
                f"Rows without {' or '.join(sorted(needed))} are left out, and a pool is about all rows. Say what "
                "counts for them, as with eh.Rows(missing=0)."
            )
        parts = [compiler.checked(condition(text, schema), part=True) for text in (self.text, self.judge)]
        recorded, judged = self._recorded(compiler, condition(self.judge, schema))
        reader = _StrataReader(parts[0], parts[1], judged.share)
        bound = BoundQuery(
            {"kind": "assisted mean", "of": [part.description for part in parts], "pool": recorded.content,
             **dict(schema.about)},
            f"mean of {self.text}, assisted by {self.judge} and the pool {recorded.name!r}",
            reads=tuple(sorted({name for part in parts for name in part.columns or ()})),
        )  # fmt: skip
        check_estimand([bound], schema, mechanism)
        if compiler.training is None:
            return plain.compile(compiler, guess=guess)
        known = reader.seen(compiler.training)
        procedure = StratifiedShare(known.scaled(schema.rows), schema.rows, schema.training_rows, judged.within)
        exact = ClopperPearson(rows=schema.rows, training=schema.rows)
        alone = exact.interval(sum(procedure.planned.counts) / schema.rows, _PLANNED_NATS)
        ends = procedure.expected(procedure.planned.score, _PLANNED_NATS)
        if ends[1] - ends[0] >= alone[1] - alone[0]:
            return plain.compile(compiler, guess=guess)
        own = None if guess is None else as_float(guess)
        prepared = compiler.planner.of_statistic(bound, own, Fraction(known.score), procedure)
        return OneNumber([prepared], schema, mechanism, reader.sealed)

    def _recorded(self, compiler: CompileContext, judge: BoundQuery) -> tuple[RecordedPool, JudgedShare]:
        pools = compiler.families.pools()
        found = next((each for each in pools if self.pool in (each.name, each.content)), None)
        if found is None:
            listed = f" It has {', '.join(repr(each.name) for each in pools)}." if pools else ""
            raise QueryRejected(
                f"This pool is not recorded with the holdout.{listed} Record it first: holdout.declare('pool', "
                f"eh.pool(rows, [{self.judge!r}]))."
            )
        if judge.query not in found.judges:
            named = ", ".join(judged.text for judged in found.judges.values())
            raise QueryRejected(
                f"{brief(self.judge)} is no judge of the pool {found.name!r}, which has {named}. Pass one of them as "
                "assisted_by."
            )
        return found, found.judges[judge.query]


@dataclass(frozen=True, slots=True)
class _StrataReader:
    """A reader of the strata of sealed or training rows. The reader itself is public.

    Attributes:
        property: The condition.
        judge: The other condition, which divides rows into strata.
        weight: Share of rows that meet the second one, by the pool.
    """

    property: BoundQuery
    judge: BoundQuery
    weight: float

    def seen(self, rows: RowStore) -> SeenStrata:
        """Return the strata of rows. Secret for sealed rows."""
        both = BoundQuery({"kind": "within"}, "", yes_no=True, pair=Pair("within", self.property, self.judge))
        first, judged, all_ = rows.totals([both, self.judge, self.property], unit=1)[:, 0].tolist()
        return SeenStrata((judged, rows.rows - judged), (first, all_ - first), self.weight)

    def sealed(self, rows: RowStore) -> tuple[float, Any]:
        """Return the share of the sealed rows, weighted as the pool says, and their strata. Secret."""
        seen = self.seen(rows)
        return seen.score, seen


def read_pool(connection: duckdb.DuckDBPyConnection, rows: RowSource) -> dict[str, ColumnKind]:
    """Create the view ``pool`` of a table, and return the kinds of its columns.

    Raises:
        QueryRejected: If the table cannot be read. Nothing is charged.
    """
    with errors_hidden(lambda _: QueryRejected("The rows of the pool cannot be read. Pass a table or a file of them.")):
        read_rows(connection, rows, name="pool", what="pool")
        return column_kinds(connection.view("pool"))


def content_of(connection: duckdb.DuckDBPyConnection, kinds: Mapping[str, ColumnKind]) -> str:
    """Return the SHA-256 of the rows of the view ``pool``, in any order, by which a recorded pool is found again."""
    names = sorted(kinds)
    cells = ", ".join(f"coalesce(({as_value(name, kinds[name])})::VARCHAR, '')" for name in names)
    digested = f"SELECT sha256(concat_ws('\x1f', ?, {cells})) AS row FROM pool"
    asked = f"SELECT sha256(string_agg(row, '' ORDER BY row)) FROM ({digested})"
    found = connection.execute(asked, ["\x1f".join(names)]).fetchall()
    return str(found[0][0])
