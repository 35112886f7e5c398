"""Tests of a query's training values before any charge: is the effective number of rows as large as promised?"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from everhold.dependence.blocks import block_variance_of_means, block_variance_of_sums, sizes_of_blocks
from everhold.diagnosis.columns import Crossing, OpenFile, OpenRows, Shared, along, is_order
from everhold.diagnosis.groups_and_orders import FEWEST_GROUPS, LESS_WORTH, independent_of, lie_together, repeats
from everhold.errors import DependenceError, DependenceWarning, warn_caller
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.tree import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

LEVEL = 5e-3
"""Probability of a false alarm on independent rows, over all queries of a plan, orders and groups together."""

_MOST_ORDERS = 4  # besides the one that is declared, or that of the file
_MOST_GROUPINGS = 4
_MOST_TESTED = 10_000  # expressions whose finding is kept
_MOST_ROWS = 100_000  # by which it is judged whether a column is an order


@dataclass(frozen=True, slots=True)
class QueryWorth:
    """Effective number of independent training rows for a query's average: measured, and promised as declared.

    Attributes:
        worth: Measured effective number of independent rows.
        promised: Effective number of independent rows under the declared dependence.
        block: Number of consecutive rows that count as at least one independent row; 1 for groups.
        p_value: Probability of a measured number as low as this if the declared dependence is right.
        order_by: Column in whose order the rows depend on each other; None for the declared order, or the order of the
            file.
        groups: Column whose groups depend on each other inside; None if the dependence is in an order.
    """

    worth: float
    promised: float
    block: int
    p_value: float
    order_by: str | None = None
    groups: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """An order of the training rows in which query values are tested for dependence.

    Attributes:
        column: Column that gives the order; None for the order that is declared, or for that of the file.
        blocks: Block of each training row in it, shape (rows,).
        units: The declared groups, by the mean place of their rows; None if no groups are declared.
    """

    column: str | None
    blocks: NDArray[np.int64]
    units: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, eq=False)
class DependenceMonitor:
    """A monitor that compares the values of queries on training rows with the declared dependence.

    Attributes:
        order_by: Columns that put the training rows in the declared order; none for the order of the file.
        rows_for_one: Number of rows that are worth one independent row, as they are declared; None if no average is
            bounded.
        sizes: Rows of each block.
        groups: Table of rows by group (`Crossing`) for each column whose equal values make undeclared groups.
        units: Declared group of each training row; None if no column names them.
        orders: The declared order, or else the order of the file, and the orders by other columns.
        tested: Total and finding of each tested expression, by its fingerprint, the number of planned queries and the
            use of bets. Each is tested once.
    """

    rows: int
    order_by: tuple[str, ...]
    rows_for_one: float | None
    sizes: NDArray[np.int64]
    orders: tuple[_Order, ...] = ()
    groups: tuple[tuple[str, Crossing], ...] = ()
    units: NDArray[np.int64] | None = None
    tested: dict[tuple[str, int, bool], tuple[int, QueryWorth | None]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, mechanism: Mechanism, rows: int) -> DependenceMonitor:
        """Build the monitor of a mechanism for this number of training rows, by the declared order alone."""
        if mechanism.dependence.assumes_no_law:
            return cls(rows, mechanism.dependence.sorting_columns, None, sizes_of_blocks(rows))
        try:
            rows_for_one = mechanism.rows / mechanism.dependence.concentration(mechanism.rows)
        except DependenceError:
            rows_for_one = None
        return cls(rows, mechanism.dependence.sorting_columns, rows_for_one, sizes_of_blocks(rows))

    def beside(
        self, others: Mapping[str, NDArray[np.int64]], groups: Mapping[str, NDArray[np.int64]],
        units: NDArray[np.int64] | None, own: NDArray[np.int64],
    ) -> DependenceMonitor:  # fmt: skip
        """Return a monitor that also tests rows in other orders and groups.

        Args:
            others: Block of each row in other orders, by their columns.
            groups: Group of each row in other columns, -1 for none.
            units: Declared group of each row; None if no column names them.
            own: Block of each row in the declared order, or else in the order of the file.
        """
        crossings = ((name, Crossing(codes, units)) for name, codes in groups.items())
        orders = []
        for column, blocks in ((None, own), *others.items()):
            by_place = None
            if units is not None:  # a declared group stands at the mean block of its rows
                places = np.bincount(units, weights=blocks) / np.maximum(np.bincount(units), 1)
                by_place = np.argsort(places, kind="stable")
            orders.append(_Order(column, blocks, by_place))
        return replace(
            self, orders=tuple(orders), groups=tuple(each for each in crossings if each[1].crossed), units=units
        )

    def test(
        self, training: StoredRows, bound: Sequence[BoundQuery], *, unit: int, plan: int, bets: Sequence[bool],
        answered: Callable[[str], bool],
    ) -> tuple[list[int], dict[int, QueryWorth]]:  # fmt: skip
        """Return the training totals of queries in order, and by position the findings that are worth a warning.

        Each expression is tested once, as `evaluate` does it. Queries known to be answered are only summed.

        Args:
            training: The training rows on which the queries are evaluated.
            bound: Queries that can be evaluated on the training rows.
            unit: Grid steps between 0 and 1.
            plan: Number of planned queries; each has its share of the level.
            bets: One flag for each query: True if its interval procedure measures the spread of its values.
            answered: Function that returns whether the query with a fingerprint was answered before. Then its warning
                was already given.
        """
        keys = [(query.query, plan, bet) for query, bet in zip(bound, bets, strict=True)]
        found = {key: self.tested[key] for key in keys if key in self.tested}
        new = [place for place, key in enumerate(keys) if key not in found]
        summed = [place for place in new if answered(bound[place].query)]
        if summed:
            totals = training.totals([bound[place] for place in summed], unit=unit)[:, 0].tolist()
            found |= {keys[place]: (total, None) for place, total in zip(summed, totals, strict=True)}
        if tested := [place for place in new if keys[place] not in found]:
            asked = [bound[place] for place in tested]
            sums, seen = self.evaluate(training, asked, unit=unit, plan=plan, bets=[bets[place] for place in tested])
            for row, place in enumerate(tested):
                found[keys[place]] = int(sums[row]), seen.get(row)
                if bound[place].row_value is not None:  # what code gives is not part of its identity
                    self.tested[keys[place]] = found[keys[place]]
            while len(self.tested) > _MOST_TESTED:
                self.tested.pop(next(iter(self.tested)), None)
        results = [found[key] for key in keys]
        return [total for total, _ in results], {row: worth for row, (_, worth) in enumerate(results) if worth}

    @property
    def others(self) -> tuple[str, ...]:
        """Columns by which training rows are ordered in tests, without the declared order."""
        return tuple(order.column for order in self.orders if order.column is not None)

    def evaluate(
        self, training: StoredRows, bound: Sequence[BoundQuery], *, unit: int, plan: int, bets: Sequence[bool] = (),
    ) -> tuple[NDArray[np.int64], dict[int, QueryWorth]]:  # fmt: skip
        """Return the training totals of queries, and by position the findings that are worth a warning.

        The declared order (or that of the file), the orders by columns, and groups are tested. An expression is not
        tested in the order of a column that it reads, because then neighbouring rows are always alike. An expression
        that reads a time is tested by no column, because times and row numbers mostly rise together.

        Args:
            training: The training rows on which the queries are evaluated.
            bound: Queries that can be evaluated on the training rows.
            unit: Grid steps between 0 and 1.
            plan: Number of planned queries; each has its share of the level.
            bets: One flag for each query: True if its interval procedure measures the spread of its values. By default
                all are False.
        """
        alone = len(self.orders) < 2 and not self.groups and self.units is None  # one order, and nothing else
        if self.rows_for_one is None or (alone and not any(bets)):
            sums = training.block_totals(bound, order_by=self.order_by, unit=unit)
            return np.asarray(sums.sum(axis=1)), dict(self.seen(sums, unit=unit, level=LEVEL / plan))
        totals, clearest = np.zeros(len(bound), dtype=np.int64), {}
        for place, grid in enumerate(training.each_grid(bound, unit=unit)):
            totals[place] = grid.sum()
            measured, skip = place < len(bets) and bets[place], None
            nodes = () if (value := bound[place].row_value) is None else value.expression.nodes
            read = [node for node in nodes if node.operation is Operation.COLUMN]
            if not any(node.kind is ColumnKind.TIME for node in read):
                skip = {str(node.value) for node in read}
            if (found := self.worth(grid / unit, plan=plan, bets=measured, skip=skip)) is not None:
                clearest[place] = found
        return totals, clearest

    def worth(
        self, values: NDArray[np.float64], *, plan: int, bets: bool = False, skip: Collection[str] | None = (),
    ) -> QueryWorth | None:  # fmt: skip
        """Test the values of one query on all training rows, and return the clearest finding or None.

        Args:
            values: Row values of shape (rows,), in [0, 1]. For a ratio with an interval by bets, these are the
                residuals of the numerator.
            plan: Number of planned queries.
            bets: True if the interval procedure of the query measures the spread of its values. False if it supposes
                that values spread like truth values and that rows are worth the declared worst case.
            skip: Columns by which the query is not tested. None if it is tested by no column.
        """
        mean = float(values.mean())
        spread = float(values.var()) if bets else mean * (1.0 - mean)
        if self.rows_for_one is None or not spread > 0.0:
            return None
        scaled = (values - mean) / math.sqrt(spread)
        level = LEVEL / (plan * (len(self.orders) + len(self.groups)))
        found = [*self._in_orders(scaled, level, bets, skip), *self._in_groups(scaled, level, bets, skip)]
        return min(found, key=lambda each: each.p_value, default=None)

    def _in_orders(
        self, scaled: NDArray[np.float64], level: float, bets: bool, skip: Collection[str] | None
    ) -> Iterator[QueryWorth]:
        """Yield findings from blocks of rows, or of whole declared groups, in each order.

        `bets` is true if the query's interval procedure measures the spread of its values. Columns in `skip` are not
        tested. If it is None, no column is tested.
        """
        totals = None if self.units is None else np.asarray(np.bincount(self.units, weights=scaled), dtype=np.float64)
        for order in self.orders:
            if order.column is not None and (skip is None or order.column in skip):
                continue
            sums = np.bincount(order.blocks, weights=scaled, minlength=len(self.sizes))
            kurtosis, promised = float(np.mean(scaled**4)), self.rows_for_one or 1.0
            found = block_variance_of_sums(
                np.asarray(sums, dtype=np.float64), self.sizes, kurtosis=kurtosis, promised=promised
            )
            block = math.ceil(float(found.at_most[0]))
            if totals is None or order.units is None:
                if (p_value := float(found.p_values[0])) <= level:
                    worth = self.rows / max(float(found.design_effects[0]), 1.0)
                    yield QueryWorth(worth, self.rows / promised, block, p_value, order.column)
            elif told := self._finding(along(totals[order.units]), level, bets):
                yield replace(told, block=block, order_by=order.column)

    def _in_groups(
        self, scaled: NDArray[np.float64], level: float, bets: bool, skip: Collection[str] | None
    ) -> Iterator[QueryWorth]:
        """Yield findings on the correlation of query values within groups of columns that are not declared.

        `bets` is true if the query's interval procedure measures the spread of its values. Columns in `skip` are not
        tested. If it is None, no column is tested.
        """
        for column, crossing in self.groups:
            if (
                skip is not None
                and column not in skip
                and (told := self._finding(crossing.shared(scaled), level, bets))
            ):
                yield replace(told, groups=column)

    def _finding(self, shared: Shared, level: float, bets: bool) -> QueryWorth | None:
        """Return the finding on variance that units share, or None if chance or the interval procedure explains it.

        `bets` is true if the query's interval procedure measures the spread of its values.
        """
        measured = bets and self.units is not None
        promised = shared.claimed / self.rows if measured else self.rows_for_one or 1.0
        effect = (shared.claimed + shared.added) / self.rows
        if shared.p_value > level or effect < LESS_WORTH * promised:
            return None
        return QueryWorth(self.rows / effect, self.rows / promised, 1, shared.p_value)

    def seen(self, sums: NDArray[np.int64], *, unit: int, level: float) -> list[tuple[int, QueryWorth]]:
        """Return the indices and findings of queries to warn about, from block sums of shape (queries, blocks)."""
        if self.rows_for_one is None:
            return []
        found, told = block_variance_of_means(sums / unit, self.sizes, promised=self.rows_for_one), []
        for place in np.flatnonzero(found.p_values <= level).tolist():
            worth, promised = self.rows / max(float(found.design_effects[place]), 1.0), self.rows / self.rows_for_one
            block, p_value = math.ceil(found.at_most[place]), float(found.p_values[place])
            told.append((place, QueryWorth(worth, promised, block, p_value)))
        return told


_monitors: WeakKeyDictionary[StoredRows, tuple[tuple[Mechanism, str | None], DependenceMonitor]] = WeakKeyDictionary()


def dependence_monitor(training: StoredRows, mechanism: Mechanism, schema: Schema) -> DependenceMonitor:
    """Return the cached dependence monitor for the training rows of one holdout.

    Args:
        training: The training rows of the holdout.
        mechanism: The mechanism of the holdout.
        schema: Public facts about the rows. Queries are not tested by the label, or by columns that the steward
            declared independent.
    """
    kept = _monitors.get(training)
    if kept is None or kept[0] != (mechanism, schema.label):
        kept = _monitors[training] = (mechanism, schema.label), _made(training, mechanism, schema)
    return kept[1]


def _made(training: StoredRows, mechanism: Mechanism, schema: Schema) -> DependenceMonitor:
    """Build the monitor of a holdout, with the orders and groups that its training rows show."""
    plain = DependenceMonitor.of(mechanism, training.rows)
    if plain.rows_for_one is None:
        return plain
    declared = mechanism.dependence.group_column
    rows = OpenFile(training.engine, label=schema.label).first(_MOST_ROWS, ("time", "whole", "text"))
    known = {schema.label, *plain.order_by, *schema.independent}
    orders, groups = columns_to_test(rows, known, schema.whole_groups)
    orders = [name for name in orders if not training.is_in_order(name)]
    return plain.beside(
        {name: training.blocks_of_rows([name]) for name in orders[:_MOST_ORDERS]},
        {name: training.groups_of_rows(name) for name in groups},
        training.groups_of_rows(declared) if declared is not None else None,
        training.blocks_of_rows(plain.order_by),
    )


def columns_to_test(
    rows: OpenRows, known: Collection[str | None], whole_groups: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return the names of columns that order training rows, and of the first few that group them.

    Args:
        rows: Training rows, or the first part of them.
        known: Columns that are not tested: the label, and columns about which the steward declared something.
        whole_groups: Columns by which whole groups were put on one side. Other columns are tested if rows with equal
            values are mostly adjacent in the file.
    """
    orders = [
        column.name for column in rows.columns
        if column.kind in ("time", "whole") and column.sorted_alike and is_order(column)
        and bool(np.all(column.ranks >= 0))
    ]  # fmt: skip
    together = [
        column.name for column in rows.columns
        if column.kind in ("text", "whole") and int(column.ranks.max(initial=-1)) + 1 >= FEWEST_GROUPS
        and repeats(column) and lie_together(column)
    ]  # fmt: skip
    groups = [name for name in dict.fromkeys([*whole_groups, *together]) if name not in known]
    return [name for name in orders if name not in known], groups[:_MOST_GROUPINGS]


def warn_of_queries(found: Sequence[tuple[str, QueryWorth]]) -> None:
    """Warn about each query whose training rows are worth fewer independent rows than promised."""
    for shown, worth in found:
        column = "block" if worth.groups is None else worth.groups
        named = worth.groups or worth.order_by
        text, for_shell = (
            _warning(shown, worth, declare, independent_of([] if named is None else [named], shell=shell))
            for shell, declare in ((False, f"eh.Groups({column!r})"), (True, f"--groups {shlex.quote(column)}"))
        )
        warn_caller(DependenceWarning(text, for_shell=for_shell))


def _warning(shown: str, found: QueryWorth, advice: str, independent: str) -> str:
    """Return the text of the warning that a query is worth fewer rows than is promised."""
    ordered = "" if found.order_by is None else f", in the order of {found.order_by!r},"
    if found.groups is not None:
        ordered = f", by groups of {found.groups!r},"
    column = found.groups or found.order_by
    apart = (
        "If the rows were drawn independently and only sorted, shuffle them before they are sealed."
        if column is None
        else f"If {column!r} is only a property of rows that were drawn independently, seal them with {independent}, "
        "or silence DependenceWarning."
    )
    declare = (
        f"Declare {advice} when the rows are sealed."
        if found.groups is not None
        else (
            f"Seal rows with a column that numbers blocks of at least {found.block:,} consecutive rows, and declare "
            f"{advice}."
        )
    )
    return (
        f"The values of this query ({shown[:80]}) on the training rows{ordered} are worth about {found.worth:,.0f} "
        f"rows, and the declared dependence promises {found.promised:,.0f}. If the sealed rows are like these, the "
        f"interval is too narrow. Nothing was charged yet. {declare} {apart}"
    )
