"""Tables of shares for all counts of some columns, made from training rows and corrected by few sealed counts.

Each table that could be told has its own event of failure. Its level is that of the query times the prior probability
of the corrections that lead to this table. The largest error of a table over all its counts is one event, for any
number of counts (Lemma M).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_whole, brief
from everhold.display import at_most
from everhold.errors import QueryRejected
from everhold.estimand import check_label_is_read
from everhold.guarantees.description_length import largest_upper
from everhold.guarantees.intervals.betting import GroupBetting
from everhold.mechanisms.labels import RATIO, Around
from everhold.queries.query import CompileContext, Query, QuerySpec
from everhold.queries.selection.results import OneEntry, Paid, Released, SealedValues, checks_guesses, ends_of
from everhold.strict_json import digest
from everhold.values.expressions import ColumnKind
from everhold.values.universe import BinnedColumn, ListedColumn, QueryMatrix, Universe, WeightedCells, universe_from

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms import PublicLevels
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import Schema
    from everhold.values.universe import Column

_MOST_COUNTS, _MOST_CELLS, _MOST_MARKS = 2_000, 10_000, 10


@dataclass(frozen=True, slots=True, eq=False)
class CountTable(WeightedCells):
    """A table of public weights of cells. Each of its counts is within `radius` of the population's share.

    Attributes:
        counts: Number of counts that are promised.
        marks: Number of counts that sealed rows corrected.
        radius: Largest error of the shares of all counts.
        confidence: Probability with which all statements of the holdout hold together.
    """

    counts: int
    marks: int
    radius: float
    confidence: float

    def mean(self, vector: ArrayLike) -> float:
        """Return the mean of one query under the table's weights, from the query's value in each cell."""
        return float(np.asarray(vector, dtype=np.float64) @ self.weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis(Paid):
    """A table of shares that may be queried any number of times at no further cost.

    Attributes:
        table: Public weights over the cells; None if the query was refused.
        within: Largest error of a count's share in the table, of all counts at once and together with all other
            answers. None if refused.
    """

    table: CountTable | None
    within: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"cells", "counts", "marks", "within", "charged", "remaining", "query"}``, without the weights."""
        table = self.table
        return {
            "cells": None if table is None else table.universe.cells,
            "counts": None if table is None else table.counts,
            "marks": None if table is None else table.marks,
            "within": self.within,
            **self.payment(),
        }

    def _found(self) -> str | None:
        if self.table is None:
            return None
        return (
            f"a table of {self.table.universe.cells:,} cells, {self.table.counts:,} shares within "
            f"{at_most(self.within or 0.0)}"
        )

    def _meaning(self) -> str:
        assert self.table is not None
        made = f", corrected by {self.table.marks} counts of the sealed rows" if self.table.marks else ""
        return (
            f"each of the table's {self.table.counts:,} shares is within {at_most(self.within or 0.0)} of the truth. "
            f"The table was made from the training rows{made}. Look at it with .table, which may be queried for ever "
            "at no further cost. More sealed rows, or training rows that are more like them, make it closer."
        )


@dataclass(frozen=True, slots=True)
class TableQuery(Query[Synthesis]):
    """A query for a table of shares, made by `synthesize`.

    Attributes:
        marginals: Number of columns at a time whose counts are promised.
    """

    universe: Universe
    marginals: int

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        return QuerySpec("synthesize", self.universe, {"queries": self.marginals})

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> SynthesisPlan:
        """Compile the table for the rows of one holdout."""
        mechanism = checks_guesses(compiler, "a table", guess=guess, tolerance=tolerance)
        check_universe_columns(self.universe, compiler.schema)
        check_label_is_read((column.name for column in self.universe.columns), compiler.schema)
        universe = plain_universe(self.universe)
        if universe.cells > _MOST_CELLS:
            raise QueryRejected(
                f"The universe has {universe.cells:,} cells, more than {_MOST_CELLS:,}. List fewer columns, fewer "
                "values or wider bins."
            )
        _check_width(universe, self.marginals)
        counts = universe.marginals(int(self.marginals))
        if len(counts) > _MOST_COUNTS:
            raise QueryRejected(
                f"There are {len(counts):,} counts, more than {_MOST_COUNTS:,}. Pass a smaller number as queries "
                "(--marginals), or list fewer values or wider bins."
            )
        return SynthesisPlan(compiler.schema, mechanism, universe, int(self.marginals), counts, compiler)


@dataclass(frozen=True, eq=False)
class CountShares:
    """The shares of rows in sets of cells, with their interval procedures and the errors of a table.

    Attributes:
        counts: The counts, each a set of cells.
        training: The training rows; None if the holdout has none.
    """

    mechanism: PublicLevels
    counts: QueryMatrix = field(repr=False)
    universe: Universe
    training: StoredRows | None = field(repr=False)

    @cached_property
    def _masks(self) -> NDArray[np.bool_]:
        """Which cells belong to each count, shape (counts, cells)."""
        return np.asarray(self.counts.block(0, len(self.counts)), dtype=bool)

    @cached_property
    def first(self) -> NDArray[np.float64]:
        """The weights before any correction, shape (cells,): from training rows, or equal without training rows."""
        cells = self.universe.cells
        found = np.zeros(cells) if self.training is None else self.universe.histogram(self._columns(self.training))
        return np.asarray((found + 0.5 / cells) / (found.sum() + 0.5))

    @cached_property
    def start(self) -> str:
        """SHA-256 of the weights from training rows alone."""
        return digest([repr(weight) for weight in self.first.tolist()])

    def _columns(self, rows: StoredRows) -> Mapping[str, Any]:
        return rows.table([column.name for column in self.universe.columns])

    @cached_property
    def procedures(self) -> list[Procedure]:
        """The interval procedure of the share of each count, from public facts."""
        if self.mechanism.dependence.group_column is None:
            return [self.mechanism.yes_no_procedure] * len(self.counts)
        sizes = self.mechanism.dependence.unit_counts
        seen = [] if self.training is None else self.summed(self.training, "groups").seen
        return [GroupBetting(sizes=sizes, training=each) for each in seen] or [self.mechanism.procedure] * len(
            self.counts
        )

    def summed(self, rows: StoredRows, needs: Any) -> SealedValues:
        """Return each count over the given rows, with the summaries that interval procedures need."""
        unit, cells = self.mechanism.unit, self.universe.cells_of(self._columns(rows))
        group_by = self.mechanism.dependence.group_column
        found = [
            rows.summary(needs, mask[cells].astype(np.int64) * unit, group_by=group_by, unit=unit)
            for mask in self._masks
        ]
        totals = np.array([total for total, _ in found], dtype=np.int64)
        return SealedValues(totals, totals / (len(cells) * unit), [seen for _, seen in found])

    def worst(self, seen: SealedValues, weights: NDArray[np.float64]) -> int | None:
        """Return the count with the largest error in standard errors, or None if no correction is needed."""
        table = self.counts.means(weights)
        errors = [each.standard_error(share) for each, share in zip(self.procedures, table.tolist(), strict=True)]
        off = np.abs(seen.means - table) / np.maximum(errors, 1e-12)
        worst = int(np.argmax(off))
        share = sum(self.mechanism.cells.released(int(seen.totals[worst]))) / 2.0
        closer = abs(share - seen.means[worst]) < abs(table[worst] - seen.means[worst])
        return worst if off[worst] > self.mechanism.allowance and closer else None

    def marked(self, weights: NDArray[np.float64], count: int, share: float) -> NDArray[np.float64]:
        """Return weights under which a count has this share, in unchanged proportions inside and outside it."""
        mask = self._masks[count]
        inside, outside = float(weights[mask].sum()), float(weights[~mask].sum())
        if inside <= 0.0 or outside <= 0.0:
            return weights
        return np.where(mask, weights * (share / inside), weights * ((1.0 - share) / outside))

    def error(self, seen: SealedValues, weights: NDArray[np.float64], nats: float) -> tuple[float, float, float]:
        """Return a table's error as it is told, ln(1 / prior) of its label, and the error before it is rounded up."""
        one_side = nats - math.log(2.0)  # ends have half of what a procedure is given
        procedures = self._at(weights, one_side)
        low, high = ends_of(procedures, seen, one_side, rounding=self.mechanism.rounding)
        table = self.counts.means(weights)
        found = largest_upper(np.maximum(high - table, table - low))
        told, cost = Around(0.0, self._expected(procedures, table, one_side)).released_above(found)
        return min(told, 1.0), cost, min(found, 1.0)

    def usual(self, nats: float) -> float:
        """Return the error that is told if sealed rows are like training rows and correct nothing."""
        one_side, table = nats, self.counts.means(self.first)  # ln 2 of "no marks", less ln 2 of one side
        errors = []
        for share, procedure in zip(table.tolist(), self._at(self.first, one_side), strict=True):
            off = self.mechanism.allowance * procedure.standard_error(share)
            most = procedure.expected(min(share + off, 1.0), one_side)[1] - share
            errors.append(max(most, share - procedure.expected(max(share - off, 0.0), one_side)[0]))
        return float(min(RATIO * (max(errors) + self.mechanism.rounding), 1.0))

    def _at(self, weights: NDArray[np.float64], nats: float) -> list[Procedure]:
        """Return the interval procedure of each count's share at the level ``exp(-nats)``."""
        table = self.counts.means(weights).tolist()
        return [self.mechanism.procedure_at(*each, nats) for each in zip(self.procedures, table, strict=True)]

    def _expected(self, procedures: Sequence[Procedure], table: NDArray[np.float64], nats: float) -> float:
        """Return the expected largest error from public facts: that of the share nearest to 1/2."""
        middle = int(np.argmin(np.abs(table - 0.5)))
        share = float(table[middle])
        high = procedures[middle].expected(share, nats)[1]
        return max(high - share + 2.0 * procedures[middle].standard_error(share), 2.0**-30)


@dataclass(frozen=True, eq=False)
class SynthesisPlan(OneEntry[Synthesis]):
    """A plan for one table of shares of rows in cells, with one ledger entry (corollary M4).

    Attributes:
        marginals: Number of columns that are counted together.
        counts: The counts, each a set of cells.
    """

    universe: Universe
    marginals: int
    counts: QueryMatrix = field(repr=False)
    compiler: CompileContext = field(repr=False)

    @cached_property
    def shares(self) -> CountShares:
        """The shares of the counts that the table promises."""
        return CountShares(self.mechanism, self.counts, self.universe, self.compiler.training)

    @property
    def description(self) -> dict[str, Any]:
        """The public, canonical description. A table from other training rows is another query."""
        described = {"kind": "table of shares", "marginals": self.marginals, "universe": self.universe.to_dict()}
        return described if self.compiler.training is None else {**described, "starts_from": self.shares.start}

    @property
    def shown(self) -> str:
        """The table as text for people."""
        names = ", ".join(column.name for column in self.universe.columns)
        return f"a table of {self.universe.cells:,} cells for {len(self.counts):,} shares about {names}"

    def evaluate(self, sealed: StoredRows, places: Any) -> SealedValues:
        """Compute the share of sealed rows in each count. The result is secret."""
        return self.shares.summed(sealed, self.shares.procedures[0].needs)

    def release(self, nats: float, seen: SealedValues) -> Released:
        """Return the answer: corrected counts, and a limit of the largest error of the resulting table."""
        marks, weights, label = list[list[float]](), self.shares.first, math.log(2.0)
        mark_nats = math.log(2.0 * len(self.counts)) + self.mechanism.cells.cost / 1e6
        while len(marks) < _MOST_MARKS and (worst := self.shares.worst(seen, weights)) is not None:
            share = sum(self.mechanism.cells.released(int(seen.totals[worst]))) / 2.0
            marks.append([worst, share])
            weights, label = self.shares.marked(weights, worst, share), label + mark_nats
        error, cost, found = self.shares.error(seen, weights, nats + label)
        off = float(np.max(np.abs(seen.means - self.counts.means(weights))))
        return {"marks": marks, "within": error}, label + cost, (min(off, found), 0.0, found)

    def bound(self, nats: float) -> float:
        """Return 1, because the error can be that large if sealed rows are unlike training rows."""
        return 1.0

    def usual(self, nats: float) -> float:
        """Return the error that is told if sealed rows are like training rows."""
        return self.shares.usual(nats)

    def released_width(self, answer: Mapping[str, Any]) -> float:
        """Return the error of a stored answer."""
        return float(answer["within"])

    def result(self, answer: Mapping[str, Any] | None, **paid: Any) -> Synthesis:
        """Return the result with the table, computed again from training rows and the corrected counts."""
        if answer is None:
            return Synthesis(table=None, within=None, **paid)
        weights = self.shares.first
        for count, share in answer["marks"]:
            weights = self.shares.marked(weights, int(count), share)
        weights.setflags(write=False)
        within, marks = float(answer["within"]), len(answer["marks"])
        table = CountTable(self.universe, weights, len(self.counts), marks, within, paid["confidence"])
        return Synthesis(table=table, within=within, **paid)


def synthesize(universe: Universe | Mapping[str, Any], queries: int = 2) -> Any:
    """Build the query for a synthetic table: made-up rows whose shares are close to those of the population.

    The table costs one planned query, however many counts it has, and may then be queried any number of times for
    nothing. It starts from the training rows, so it needs few corrections if they are like the sealed rows.

    Args:
        universe: All combinations of values (cells) that the table may have, listed from public knowledge. Its columns
            are columns of the holdout. Other values of a column count as its value ``rest``, or as "other" without one.
            A universe may also be given as plain data, such as ``{"columns": [{"name": "carrier", "values": ["AA",
            "UA"]}]}``.
        queries: A number k. The shares of all combinations of values of any k columns are close.

    Examples:
        >>> synthesize({"columns": [{"name": "carrier", "values": ["AA", "UA"]}]}, 1).marginals
        1
    """
    if isinstance(universe, Mapping):
        universe = universe_from(universe, called="the document")
    check_universe(universe)
    _check_width(universe, queries)
    return TableQuery(universe, queries)


def _check_width(universe: Universe, width: object) -> None:
    if not 1 <= (as_whole(width) or 0) <= len(universe.columns):
        raise QueryRejected(
            f"Counts of {brief(width)} columns at a time are asked for. Pass a whole number from 1 to "
            f"{len(universe.columns)} as queries (--marginals)."
        )


# Checks of the cells that a table is asked for, by public facts.


def check_universe(universe: object) -> None:
    """Check that a value is a universe.

    Raises:
        QueryRejected: If the value is not a universe. Nothing is charged.
    """
    if not isinstance(universe, Universe):
        raise QueryRejected(f"The universe is a {type(universe).__name__}. Pass Universe((ListedColumn(...), ...)).")


def check_universe_columns(universe: Universe, schema: Schema) -> None:
    """Raise QueryRejected if the rows lack a column of the universe, or a column cannot have its listed values."""
    check_universe(universe)
    for column in universe.columns:
        kind = schema.asked.get(column.name)
        if kind is None:
            raise QueryRejected(
                f"The rows have no column {column.name!r}. List some of {', '.join(schema.asked)} in the universe."
            )
        if not _fits(column, kind):
            raise QueryRejected(
                f"The column {column.name!r} holds {kind.value}s, and the universe lists other values for it. List "
                f"{kind.value}s, or pass edges for numbers."
            )


def _fits(column: Column, kind: ColumnKind) -> bool:
    """Return whether a column of this kind can have the listed or binned values."""
    if type(column) is BinnedColumn:
        return kind in (ColumnKind.NUMBER, ColumnKind.BOOLEAN)
    if type(column) is not ListedColumn:
        return False
    text = [isinstance(value, str) for value in column.values]
    return kind in (ColumnKind.TIME, ColumnKind.OTHER) or (all(text) if kind is ColumnKind.STRING else not any(text))


def plain_universe(universe: Universe) -> Universe:
    """Return a copy of the universe with plain Python values, so that no code of an analyst runs on sealed rows."""
    return Universe.from_dict(json.loads(json.dumps(universe.to_dict(), default=lambda number: number.item())))
