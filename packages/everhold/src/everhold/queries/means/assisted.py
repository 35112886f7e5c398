"""The mean of a value that few rows have, with the help of a judge and a pool of judged rows (S18)."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from everhold.answers import Answer
from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.guarantees.intervals.betting import Betting, GroupBetting
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.guarantees.intervals.strata import ControlledMean, SeenResiduals, SeenStrata, StratifiedShare
from everhold.queries.means.mean import MeanQuery, parsed
from everhold.queries.means.plans import OneMean
from everhold.queries.procedures import check_confirms_statistics
from everhold.queries.query import CompileContext, Query, QueryPlan, QuerySpec
from everhold.sealing.intake.duckdb_files import column_kinds, spilling_into
from everhold.sealing.intake.reading import RowSource, read_rows
from everhold.sealing.resealing import as_value
from everhold.sealing.rows.embedded import errors_hidden
from everhold.values.base import BoundQuery, Pair, Schema
from everhold.values.expressions.tree import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Needs
    from everhold.mechanisms import Mechanism
    from everhold.queries.interval_planner import JudgedMean, RecordedPool
    from everhold.sealing.rows.evaluated_rows import RowStore
    from everhold.sealing.rows.table import StoredRows

_PLANNED_NATS = 6.0  # at which the judge has to be worth its pool
_STEPS = 1_024  # of a weight of what a judge says
_SHRUNK = (1.0, 0.75, 0.5)  # weights are tried with these factors, as the pool's share of the width grows with them


@dataclass(frozen=True, slots=True, eq=False)
class AssistedMean(Query[Answer]):
    """A query for the mean of a condition or of a number with the help of a judge, made by `mean`.

    Attributes:
        text: The condition or the number, such as a human label.
        judge: The judge's value, which the rows of the pool have as well: a condition, a number or a text.
        pool: Name of a recorded pool, or SHA-256 of its rows.
        low: Value at which the number is clipped from below; None for a condition.
        high: Value at which it is clipped from above.
    """

    text: str
    judge: str
    pool: str
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(
        cls, text: object, *, judge: object, pool: Any, low: float | None = None, high: float | None = None
    ) -> Self:  # fmt: skip
        """Build the query. A pool given as rows is replaced by their digest.

        Raises:
            QueryRejected: If ``text`` or ``judge`` is not a text, or the pool cannot be read. Nothing is charged.
        """
        if not isinstance(text, str) or not isinstance(judge, str):
            raise QueryRejected(f"The mean is of {brief(text)} and assisted_by is {brief(judge)}. Pass both as texts.")
        if not isinstance(pool, str):
            with tempfile.TemporaryDirectory() as folder, spilling_into(Path(folder)) as connection:
                pool = content_of(connection, read_pool(connection, pool))
        return cls(text, judge, pool, low, high)

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        details = {"low": self.low, "high": self.high, "assisted_by": self.judge, "pool": self.pool}
        return QuerySpec("mean", self.text, details)

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the mean. The judge is left out if training rows do not show that it narrows the interval."""
        schema, mechanism, plain = compiler.schema, compiler.mechanism, MeanQuery(self.text, self.low, self.high)
        check_confirms_statistics(mechanism, "a mean that is assisted", instead="the mean without assisted_by")
        check_units(mechanism, "a mean that is assisted")
        if tolerance is not None:
            raise QueryRejected("A mean that is assisted takes no tolerance. Ask at the planned width.")
        if schema.features_public:
            raise QueryRejected(
                "An assisted mean needs rows of one distribution, and rows with public features have one each. "
                "Leave assisted_by out."
            )
        recorded, judged = self._recorded(compiler)
        asked = [plain, *(MeanQuery(part.text, *(part.ends or (None, None))) for part in judged)]
        if needed := frozenset[str]().union(*(each.needed(schema) for each in asked)):
            raise QueryRejected(
                f"The mean leaves out rows without {' or '.join(sorted(needed))}, but the judged rows in pool= stand "
                "for all rows. Say what counts for rows without them, as with eh.Rows(missing=0)."
            )
        label, *parts = (compiler.checked(each.bind(schema), part=True) for each in asked)
        bound = BoundQuery(
            {"kind": "assisted mean", "of": [part.description for part in (label, *parts)], "pool": recorded.content,
             **dict(schema.about)},
            f"mean of {self.text}, assisted by {self.judge} and the pool {recorded.name!r}", label.at_zero,
            label.at_one, reads=tuple(sorted({name for part in (label, *parts) for name in part.columns or ()})),
            facts=label.facts,
        )  # fmt: skip
        check_estimand([bound], schema, mechanism)
        if compiler.training is None:
            return plain.compile(compiler, guess=guess)
        training, independent = compiler.training, mechanism.dependence.independent
        exact = independent and label.yes_no
        readers: Sequence[_Strata | _Residuals] = []
        if exact and len(parts) == 1 and parts[0].yes_no:
            readers = [_Strata(label, parts[0], judged[0])]
        else:  # the least-squares weights of training rows, and smaller ones
            columns = [training.row_values(each, unit=mechanism.unit) for each in (label, *parts)]
            seen = np.stack(columns, axis=1) / mechanism.unit
            centred = seen - seen.mean(axis=0)
            best = np.linalg.lstsq(centred[:, 1:], centred[:, 0], rcond=None)[0] * _STEPS
            weights = [tuple(np.rint(best * factor).astype(int).tolist()) for factor in _SHRUNK]
            need: Needs = "cells" if independent else "groups"
            readers = [_Residuals((label, *parts), judged, each, need, mechanism) for each in weights]
        procedures = [reader.procedure(compiler, training) for reader in readers]
        widths = [high - low for low, high in (each.expected(each.planned.score, _PLANNED_NATS) for each in procedures)]
        if exact:  # the interval to expect without a judge
            share = int(training.totals([label], unit=1)[0, 0]) / training.rows
            exactly = ClopperPearson(rows=mechanism.rows, training=mechanism.rows)
            alone = exactly.interval(share, _PLANNED_NATS)
        else:
            bets = _bets(compiler, training, training.row_values(label, unit=mechanism.unit))
            alone = bets.expected(bets.prediction.mean, _PLANNED_NATS)
        if min(widths) >= alone[1] - alone[0]:
            return plain.compile(compiler, guess=guess)
        reader, procedure = readers[(narrowest := int(np.argmin(widths)))], procedures[narrowest]

        def sealed(rows: RowStore) -> tuple[float, Any]:
            seen = reader.seen(rows)
            return seen.score, seen

        known = Fraction(procedure.planned.score)
        return OneMean([compiler.planner.of_statistic(bound, guess, known, procedure, sealed)], schema, mechanism)

    def _recorded(self, compiler: CompileContext) -> tuple[RecordedPool, Sequence[JudgedMean]]:
        pools, judge = compiler.families.pools(), key_of_judge(self.judge, compiler.schema)
        found = next((each for each in pools if self.pool in (each.name, each.content)), None)
        if found is None:
            listed = f" It has {', '.join(repr(each.name) for each in pools)}." if pools else ""
            raise QueryRejected(
                f"This pool is not recorded with the holdout.{listed} Record it first: holdout.declare('pool', "
                f"eh.pool(rows, [{self.judge!r}]))."
            )
        if judge not in found.judges:
            named = ", ".join(part.text for parts in found.judges.values() for part in parts)
            raise QueryRejected(
                f"{brief(self.judge)} is no judge of the pool {found.name!r}, which has {named}. Pass one of them as "
                "assisted_by."
            )
        return found, found.judges[judge]


def key_of_judge(text: str, schema: Schema) -> str:
    """Return the text that identifies a judge: its column of verdicts, or its expression in canonical form."""
    return text if schema.asked.get(text) is ColumnKind.STRING else parsed(text, schema).canonical()


def check_units(mechanism: Mechanism, name: str) -> None:
    """Check that rows are independent, or in independent groups that a column names.

    Raises:
        QueryRejected: If rows depend on each other in another way. Nothing is charged.
    """
    dependence = mechanism.dependence
    if not dependence.independent and (dependence.group_column is None or dependence.assumes_no_law):
        raise QueryRejected(
            f"The rows were declared to depend on each other, and {name} is promised for independent rows or groups "
            "only. Ask for the mean without assisted_by."
        )


def _bets(compiler: CompileContext, training: StoredRows, grid: NDArray[np.int64]) -> Betting | GroupBetting:
    """Return bets on a mean, with stakes planned from the given row values of the training rows."""
    mechanism = compiler.mechanism
    column, unit = mechanism.dependence.unit_column, mechanism.unit
    if mechanism.dependence.independent:
        return Betting(rows=mechanism.rows, training=training.summary("cells", grid, unit=unit)[1])
    known = training.summary("groups", grid, group_by=column, unit=unit)[1]
    return GroupBetting(sizes=mechanism.dependence.unit_counts, training=known)


@dataclass(frozen=True, slots=True)
class _Strata:
    """The strata of a condition that a yes-or-no judge defines, counted in rows.

    Attributes:
        label: The condition on the human label.
        judge: The judge's condition, which divides rows into strata.
        judged: Mean of the judge over the pool.
    """

    label: BoundQuery
    judge: BoundQuery
    judged: JudgedMean

    def seen(self, rows: RowStore) -> SeenStrata:
        """Return the strata of rows. Secret for sealed rows."""
        both = BoundQuery({"kind": "within"}, "", yes_no=True, pair=Pair("within", self.label, self.judge))
        first, said, all_ = rows.totals([both, self.judge, self.label], unit=1)[:, 0].tolist()
        return SeenStrata((said, rows.rows - said), (first, all_ - first), self.judged.share)

    def procedure(self, compiler: CompileContext, training: StoredRows) -> StratifiedShare:
        """Return the procedure for the sealed rows, from training rows."""
        rows = compiler.schema.rows
        return StratifiedShare(self.seen(training).scaled(rows), rows, training.rows, self.judged.within)


@dataclass(frozen=True, slots=True)
class _Residuals:
    """The part of a mean that weighted verdicts of judges do not explain, computed from rows.

    The row value of a residual is ``(h - sum l_k t_k + sum max(l_k, 0)) / (1 + sum |l_k|)``.

    Attributes:
        values: The human label h, and the judge's values t_k.
        judged: Mean of each t_k over the pool.
        weights: The weights l_k, in steps of 1/1,024.
        need: Summary of rows that bets need.
        mechanism: The mechanism of the holdout.
    """

    values: Sequence[BoundQuery]
    judged: Sequence[JudgedMean]
    weights: tuple[int, ...]
    need: Needs
    mechanism: Mechanism

    @property
    def width(self) -> int:
        """Length of the range of a residual, in steps."""
        return _STEPS + sum(map(abs, self.weights))

    @property
    def below(self) -> int:
        """Steps that a residual can be below 0."""
        return sum(weight for weight in self.weights if weight > 0)

    def grid(self, rows: RowStore) -> NDArray[np.int64]:
        """Return the residual of each row in grid units, rounded down. Secret for sealed rows."""
        unit = self.mechanism.unit
        own, *parts = (rows.row_values(each, unit=unit) for each in self.values)
        explained = sum(weight * part for weight, part in zip(self.weights, parts, strict=True))
        return np.asarray((_STEPS * own + self.below * unit - explained) // self.width)

    def seen(self, rows: RowStore) -> SeenResiduals:
        """Return the estimate of the mean, and the summary of the residuals. Secret for sealed rows."""
        unit, group_by = self.mechanism.unit, self.mechanism.dependence.unit_column
        total, seen = rows.summary(self.need, self.grid(rows), group_by=group_by, unit=unit)
        explained = sum(w * part.share for w, part in zip(self.weights, self.judged, strict=True)) - self.below
        score = (self.width * total / (rows.rows * unit) + explained) / _STEPS
        return SeenResiduals(min(max(score, 0.0), 1.0), seen)

    def procedure(self, compiler: CompileContext, training: StoredRows) -> ControlledMean:
        """Return the procedure for the sealed rows, from training rows."""
        ends = [
            sorted((weight * part.within[0], weight * part.within[1]))
            for weight, part in zip(self.weights, self.judged, strict=True)
        ]
        low, high = ((sum(each[side] for each in ends) - self.below) / _STEPS for side in (0, 1))
        width = self.width / _STEPS
        return ControlledMean(
            planned=self.seen(training), rows=compiler.schema.rows, bets=_bets(compiler, training, self.grid(training)),
            width=width, added=(low, high), rounding=4.0 * width / self.mechanism.unit,
        )  # fmt: skip


def read_pool(connection: duckdb.DuckDBPyConnection, rows: RowSource) -> dict[str, ColumnKind]:
    """Read a table into the view ``pool``, and return the kinds of its columns.

    Raises:
        QueryRejected: If the table of the pool cannot be read. Nothing is charged.
    """
    with errors_hidden(lambda _: QueryRejected("The rows of the pool cannot be read. Pass a table or a file of them.")):
        read_rows(connection, rows, name="pool", what="pool")
        return column_kinds(connection.view("pool"))


def content_of(connection: duckdb.DuckDBPyConnection, kinds: Mapping[str, ColumnKind]) -> str:
    """Return the SHA-256 of the rows of the view ``pool`` in any order, which identifies the pool."""
    names = sorted(kinds)
    cells = ", ".join(f"coalesce(({as_value(name, kinds[name])})::VARCHAR, '')" for name in names)
    digested = f"SELECT sha256(concat_ws('\x1f', ?, {cells})) AS row FROM pool"
    asked = f"SELECT sha256(string_agg(row, '' ORDER BY row)) FROM ({digested})"
    found = connection.execute(asked, ["\x1f".join(names)]).fetchall()
    return str(found[0][0])
