"""Choice of the interval procedure of a query, from public facts alone (S8).

| rows | query | procedure |
| --- | --- | --- |
| independent | every row value is 0 or 1 by type | exact binomial tails |
| independent | two arrays of predictions, a metric by name | on the rows where they differ: signs, bets or ranges |
| independent | other values in [0, 1] | betting on their histogram |
| groups named by a column | its values on training rows are known | betting on the sums of groups |
| any other | any other | Hoeffding, for the effective rows |
| independent, or groups | a statistic of all rows | McDiarmid |

Ratios have bets as well, by row or by group. Bets, ratios and statistics need a mechanism that checks guesses against
exact intervals. Other mechanisms without noise use intervals that are a function of the mean. Answers with noise have
no procedure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from everhold.arguments import brief
from everhold.diagnosis.queries import DependenceMonitor, dependence_monitor, warn_of_queries
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums, Needs, Pairs, Procedure
from everhold.guarantees.intervals.betting import Betting, GroupBetting, GroupRatioBetting, RatioBetting
from everhold.guarantees.intervals.in_order import betting_on
from everhold.guarantees.intervals.means import BoundedDifferences, Chernoff, ClopperPearson, Hoeffding
from everhold.ledger.acts import DECLARED
from everhold.values.base import BoundQuery, Schema
from everhold.values.expressions import Expression, RowValue
from everhold.values.expressions.tree import Node, Operation, quoted
from everhold.values.missing import tested

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.ledger import Entry
    from everhold.mechanisms import Mechanism, Quote, State
    from everhold.sealing.rows.table import StoredRows


Surprises: TypeAlias = "Callable[[], Sequence[Entry]]"
"""Function that returns the ledger's entries of the latest surprises, newest first."""


def never_answered(query: str) -> bool:
    """Return False, for compilers that know of no earlier query."""
    return False


@dataclass(frozen=True, slots=True)
class AskedBefore:
    """Functions that look up earlier queries and their answers.

    Attributes:
        answered: Function from a query's fingerprint to whether the ledger has an answer to it.
        remembered: Function from a query's fingerprint to whether this process has already seen an answer to it. The
            ledger is not read.
        surprises: Function that reads the entries of the latest surprises, newest first.
    """

    answered: Callable[[str], bool] = never_answered
    remembered: Callable[[str], bool] = never_answered
    surprises: Surprises = tuple


class SellsTolerances(Protocol):
    """Protocol of mechanisms that answer with any requested half-width for a price in credits."""

    def scale_for(self, tolerance: float) -> float:
        """Return the largest noise scale with which the half-width is within the tolerance.

        Raises:
            ValueError: If the budget cannot pay for an answer within the tolerance.
        """

    def credits_for(self, scale: float) -> int:
        """Return the price in credits of a mean with noise of the standard deviation or scale ``scale``."""

    def affords(self, state: State, price: int) -> int:
        """Return how many more queries at ``price`` credits the budget can pay for."""

    def quote_at(self, state: State, tolerance: float) -> Quote:
        """Return the quote of a mean with a requested half-width."""


def paying(mechanism: Mechanism) -> SellsTolerances:
    """Return the mechanism if it sells answers by requested half-width, else raise QueryRejected.

    Raises:
        QueryRejected: If the mechanism does not sell answers by half-width. Nothing is charged.
    """
    if not mechanism.traits.sells_tolerances:
        raise QueryRejected(
            f"The mechanism {mechanism.name} does not support tolerance= and queries with a price. Use a holdout "
            "that was created with mechanism='privacy_budget'."
        )
    return cast(SellsTolerances, mechanism)


def needs_of(bound: BoundQuery, mechanism: Mechanism, schema: Schema, *, unseen: bool = False) -> Needs:
    """Return which summary of sealed rows and training rows the procedure of a query needs.

    Args:
        bound: The query, bound to the rows.
        mechanism: The mechanism that answers.
        schema: Public facts about the rows.
        unseen: True if bets are used even if no training rows show the query's values.

    Raises:
        ValueError: If the query is a ratio, and the mechanism takes none (`takes_ratios`) or no training rows show its
            values.
    """
    independent, trained = mechanism.dependence.independent, unseen or (schema.training_rows > 0 and bound.trained)
    if bound.pair is not None and bound.pair.how == "ratio":
        if not takes_ratios(mechanism) or not trained:
            raise ValueError(
                f"{mechanism.name} has no procedure for the ratio {bound.shown!r}. Prepare it as two means."
            )
        return "pairs" if independent else "group_pairs"
    if not mechanism.traits.unsealable or not trained or (independent and bound.yes_no):
        return "total"
    return "cells" if independent else "total" if mechanism.dependence.unit_column is None else "groups"


def procedure_for(
    bound: BoundQuery, mechanism: Mechanism, schema: Schema, *, training: Any = None, own_guess: bool = False,
    guess: float | None = None, unseen: bool = False,
) -> Procedure | None:  # fmt: skip
    """Return the interval procedure of a query, or None if the mechanism rests on noise.

    Args:
        bound: The query, bound to the rows.
        mechanism: The mechanism that answers.
        schema: Public facts about the rows.
        training: Summary of the training rows that `needs_of` names, if this is more than a total; else None.
        own_guess: True if the guess is the analyst's own. It then counts as a guess from a number of rows equal to that
            of the sealed rows.
        guess: The analyst's own guess in units of a mean, or None. Stakes of bets are planned for it.
        unseen: True if bets with several fixed stakes are used even if no training rows show the query's values.
    """
    if mechanism.traits.adds_noise:
        return None
    needs = needs_of(bound, mechanism, schema, unseen=unseen)
    if unseen:
        none = np.zeros(0, dtype=np.int64)
        empty = np.zeros(CELLS, dtype=np.int64)
        nothing = {"cells": Cells(empty, empty, CELLS), "groups": GroupSums(none, none, none, 1)}
        training = nothing.get(needs, Pairs(none, none, none, none, 1))
    if needs == "cells":
        return Betting(rows=mechanism.rows, training=training, guess=guess)
    if needs == "groups":
        units = mechanism.dependence
        return betting_on(in_order=units.assumes_no_law)(sizes=units.unit_counts, training=training, guess=guess)
    if needs == "pairs":
        return RatioBetting(rows=mechanism.rows, training=training, guess=guess)
    if needs == "group_pairs":
        return GroupRatioBetting(sizes=mechanism.dependence.unit_counts, training=training, guess=guess)
    rows, guessed = mechanism.rows // mechanism.parts, mechanism.rows
    if schema.training_rows and bound.trained and not own_guess:
        guessed = schema.training_rows
    if mechanism.dependence.independent:
        return (ClopperPearson if bound.yes_no else Chernoff)(rows=rows, training=guessed)
    return Hoeffding(rows=mechanism.effective_rows(rows), training=mechanism.effective_rows(guessed))


def takes_ratios(mechanism: Mechanism) -> bool:
    """Return whether the mechanism answers a ratio as one query and not as two means."""
    known = mechanism.dependence.independent or mechanism.dependence.group_column is not None
    return mechanism.bets and known


def check_confirms_statistics(mechanism: Mechanism, name: str, *, instead: str, independent: bool = False) -> None:
    """Raise QueryRejected if the mechanism cannot check guesses of a number of all rows together.

    Args:
        mechanism: The mechanism that would answer.
        name: The name of the query in messages.
        instead: The query to ask in its place.
        independent: True if the rows have to be independent as well.

    Raises:
        QueryRejected: If the mechanism cannot check such guesses. Nothing is charged.
    """
    if not mechanism.bets:
        raise QueryRejected(
            f"Only mechanism='guess_and_check' without a slack answers {name}, and this holdout has {mechanism.name}. "
            f"Ask for {instead}."
        )
    if independent and not mechanism.dependence.independent:
        raise QueryRejected(
            f"The rows were declared to depend on each other, and {name} is promised for independent rows only. Ask "
            f"for {instead}."
        )


def statistic_procedure(
    mechanism: Mechanism, schema: Schema, *, moved: float, spread: float | None, own_guess: bool
) -> BoundedDifferences:
    """Return the interval procedure of a statistic of independent rows or groups.

    Args:
        mechanism: The mechanism that answers.
        schema: Public facts about the rows.
        moved: Largest share of the statistic's range by which one row can move it.
        spread: Standard deviation of the statistic's share of the range on training rows, or on named groups of them,
            times the root of the number of rows; None if it is unknown.
        own_guess: True if the guess is the analyst's own. It then counts as a guess from a number of rows equal to that
            of the sealed rows.
    """
    rows, deviation = mechanism.rows, None
    if spread is not None and math.isfinite(spread):
        deviation = max(spread / math.sqrt(rows), moved)  # it can move at all
    if counts := mechanism.dependence.unit_counts:
        rows = sum(size * size * number for size, number in counts)
    trained = rows if own_guess else max(rows * schema.training_rows // schema.rows, 1)
    return BoundedDifferences(rows=rows, sensitivity=moved, training=trained, spread=deviation)


def how_made(procedure: Procedure, bound: BoundQuery, guess: float, rows: int) -> str:
    """Return sentences for an analyst: how the interval is made, why it holds, and how many rows it is worth.

    Args:
        procedure: The interval procedure of the query.
        bound: The query, bound to the rows.
        guess: Public guess of the query in units of a mean. Negative if there is none.
        rows: Number of sealed rows.
    """
    worth = procedure.worth
    if isinstance(procedure, GroupBetting):
        spread = guess * (1.0 - guess) if guess >= 0.0 and bound.yes_no else 0.25
        worth = procedure.independent_rows(spread)
    said = f"The interval is made by {procedure.title}: {procedure.why}."
    if isinstance(procedure, BoundedDifferences):
        said += " It is for the expected value of the statistic over sets of as many rows."
    if not isinstance(procedure, BoundedDifferences | GroupBetting | Hoeffding) or worth >= rows:
        return said
    return f"{said} For this query your {rows:,} rows are worth {int(worth):,} independent ones."


def rows_worth(mechanism: Mechanism) -> str:
    """Return a sentence for an analyst about the cost of dependence, or the mechanism's assumption about rows."""
    if mechanism.traits.one_law:
        return "It holds only if all sealed rows are of one law (independent and identically distributed)."
    if mechanism.dependence.independent:
        return ""
    if mechanism.traits.leakage:
        return "Sealed rows that tell about each other make it wider than it would be for independent ones."
    worth = int(mechanism.effective_rows(mechanism.rows))
    return f"As they depend on each other, the {mechanism.rows:,} sealed rows are worth {worth:,} independent ones."


def what_narrows(procedure: Procedure, mechanism: Mechanism, source: str) -> str:
    """Return sentences for an analyst about what would make an interval narrower.

    Args:
        procedure: The interval procedure of the query.
        mechanism: The mechanism that answered.
        source: Source of the answer, as the ledger names it.
    """
    if source == DECLARED:
        return "More sealed rows, a shorter query or a family with fewer members make it narrower."
    ways = ["more sealed rows", "fewer planned queries"]
    if mechanism.traits.needs_guess and source in ("training", "guess"):
        ways = ["guesses from more rows", "fewer surprises before it", *ways]
    unknown = isinstance(procedure, BoundedDifferences) and procedure.spread is None
    if (unknown or isinstance(procedure, Chernoff | Hoeffding)) and mechanism.traits.needs_guess:
        ways = ["training rows that show how far its values spread", *ways]
    end = " If it is asked silently and unsealed at the end of the study, it is narrowest."
    listed = f"{', '.join(ways[:-1])} or {ways[-1]}"
    return f"{listed[0].upper()}{listed[1:]} make it narrower.{end if mechanism.traits.unsealable else ''}"


def _without_value(bound: BoundQuery, incomplete: Collection[str], within: Node | None = None) -> Iterator[BoundQuery]:
    """Yield conditions for rows that count but in which the query's expression has no value.

    Args:
        bound: The query, bound to the rows.
        incomplete: Columns that have missing values.
        within: Condition of the rows that count; None if all rows count.
    """
    if bound.pair is not None:
        first, second = bound.pair.first, bound.pair.second
        if bound.pair.how == "difference":
            yield from _without_value(first, incomplete, within)
            yield from _without_value(second, incomplete, within)
        elif second.row_value is not None and second.yes_no:
            yield from _without_value(first, incomplete, second.row_value.expression.root)
        return
    if bound.row_value is None or "rule" in bound.description:  # a rule that says nothing is a wrong prediction
        return
    expression = bound.row_value.expression
    if not any(
        node.operation in _MAY_BE_NULL or (node.operation is Operation.COLUMN and node.value in incomplete)
        for node in expression.nodes
    ):
        return
    missing = Node.of(Operation.IS_NULL, expression.root)
    test = Expression(missing if within is None else Node.of(Operation.AND, missing, within))
    yield BoundQuery({}, "", row_value=RowValue(test), yes_no=True)


def joined_by_and(node: Node) -> frozenset[Node]:
    """Return the conditions that a node joins by "and", or the node alone."""
    return frozenset(node.operands if node.operation is Operation.AND else (node,))


def _says_what_counts(name: str) -> str:
    """Return advice for a query that has no value in rows without a value in one column."""
    column = quoted(name)
    return (
        f"Ask only about rows with a value, as with given={brief(f'{column} is not null')}, or write what counts "
        f"for the others, as in 'case when {column} is null then ... end'."
    )


def _tested(bound: BoundQuery) -> frozenset[str]:
    """Return the columns for which a query itself tests whether a value is missing."""
    if bound.pair is not None:
        return _tested(bound.pair.first) | _tested(bound.pair.second)
    return tested(bound.row_value.expression) if isinstance(bound.row_value, RowValue) else frozenset()


_MAY_BE_NULL = frozenset({Operation.NULL, Operation.DIVIDE, Operation.LOGARITHM})


@dataclass(frozen=True)
class TrainingEvaluator:
    """Evaluates queries on the training rows, and checks these for missing values and dependence.

    Attributes:
        schema: The public facts about the rows.
        mechanism: The mechanism that will answer.
        training: The training rows, if there are any.
        before: Functions that look up earlier queries.
    """

    schema: Schema
    mechanism: Mechanism
    training: StoredRows | None
    before: AskedBefore

    def training_totals(self, bound: Sequence[BoundQuery], *, plan: int, bets: bool = False) -> dict[int, int]:
        """Return the sum of each query's values over the training rows in grid units, by position.

        Queries without training values are left out of the result.

        Args:
            bound: The queries, bound to the rows.
            plan: Number of queries for which a false alarm may be raised.
            bets: True if interval widths depend on the spread of values on the training rows.

        Warns: DependenceWarning: If the values of a query are worth fewer rows than is promised.
        """
        places = [place for place, query in enumerate(bound) if query.trained]
        if self.training is None or not places:
            return {}
        asked = [bound[place] for place in places]
        measured = [bets and needs_of(query, self.mechanism, self.schema) != "total" for query in asked]
        totals, seen = self._monitor.test(
            self.training, asked, unit=self.mechanism.unit, plan=plan, bets=measured, answered=self.before.remembered
        )
        if seen:  # the warning was given before the first answer
            warn_of_queries([
                (asked[row].shown, finding) for row, finding in sorted(seen.items())
                if not self.before.answered(asked[row].query)
            ])  # fmt: skip
        return dict(zip(places, totals, strict=True))

    def check_complete(self, bound: Sequence[BoundQuery]) -> None:
        """Raise QueryRejected if a query has no value in some training row that counts.

        Without this check such rows would count as the lower end of the range, or as false. A row that is not known to
        meet the condition of a ratio does not count, and needs no value.

        Raises:
            QueryRejected: If some training row that counts has no value. Nothing is charged.
        """
        for query in bound if self.schema.missing else ():
            self._check_rules(query)
        if self.training is None:
            return
        incomplete = self.training.incomplete
        tests = [(query.shown, test) for query in bound for test in _without_value(query, incomplete)]
        for shown, test in tests:
            store = self.training.counting(test)
            if missing := int(store.totals([test], unit=1)[0, 0]):
                name = next((name for name in test.columns or () if name in incomplete), None)
                raise QueryRejected(
                    f"{brief(shown)} has no value in {missing:,} of {store.rows:,} training rows. "
                    + (
                        _says_what_counts(name)
                        if name is not None
                        else "Write what counts there, as in 'case when ... else ... end'."
                    ),
                    missing=missing,
                )

    def _check_rules(self, bound: BoundQuery, within: frozenset[str] = frozenset()) -> None:
        """Raise QueryRejected if a query reads a column whose missing values the steward's rule refuses.

        Args:
            bound: The query, bound to the rows.
            within: Columns that have a value in every row that counts.

        Raises:
            QueryRejected: If the query reads such a column. Nothing is charged.
        """
        if bound.pair is not None:
            first, second = bound.pair.first, bound.pair.second
            if bound.pair.how == "difference":
                self._check_rules(second, within)
            else:
                within |= _tested(second)
                part, known = first.row_value, second.row_value
                if first.yes_no and isinstance(part, RowValue) and isinstance(known, RowValue):
                    left = joined_by_and(part.expression.root) - joined_by_and(known.expression.root)
                    root = Node.of(Operation.AND, *left) if left else Node.literal(True)
                    first = replace(first, row_value=RowValue(Expression(root)))  # the condition is known to hold
            self._check_rules(first, within)
        elif isinstance(bound.row_value, RowValue) and "rule" not in bound.description:
            expression = bound.row_value.expression
            for name in sorted({*expression.columns()} - within - tested(expression)):
                rule = self.schema.missing.get(name)
                if rule is not None and rule.value is None:
                    why = (
                        "Rows without a value are left out of means and of comparisons of means, and this query is "
                        "neither"
                        if rule.how == "drop"
                        else "Sealed rows lack values in this column, and no training row does"
                    )
                    raise QueryRejected(f"{brief(bound.shown)} reads {name!r}. {why}. {_says_what_counts(name)}")

    def test_spread(self, bound: BoundQuery, left: NDArray[np.float64]) -> None:
        """Warn if residuals on training rows show more dependence than declared. Repeated queries are skipped."""
        if self.before.answered(bound.query):
            return
        if (found := self._monitor.worth(left, plan=self.mechanism.queries, bets=True)) is not None:
            warn_of_queries([(bound.shown, found)])

    @cached_property
    def _monitor(self) -> DependenceMonitor:
        if self.training is None:
            raise TypeError("Dependence is tested on training rows, and there are none.")
        return dependence_monitor(self.training, self.mechanism, self.schema)

    def counted(self, bound: Sequence[BoundQuery]) -> dict[int, tuple[int, int, Any]]:
        """Return number of rows, sum and summary by position, for queries about all training rows.

        All are computed in one pass over the rows.
        """
        whole = None if self.training is None else self.training.whole
        places = [p for p, query in enumerate(bound) if self.training and self.training.counting(query) is whole]
        if whole is None or not places:
            return {}
        asked = [bound[place] for place in places]
        needs = [needs_of(query, self.mechanism, self.schema) for query in asked]
        group_by = self.mechanism.dependence.unit_column
        totals, seen = whole.evaluate(asked, needs, group_by=group_by, unit=self.mechanism.unit)
        return {place: (whole.rows, int(totals[row, 0]), seen[row]) for row, place in enumerate(places)}

    def holds_values(self, bound: BoundQuery) -> bool:
        """Return whether the query's values on training rows are held in memory while it is prepared."""
        if bound.training_values is not None:
            return True
        if (
            self.training is None
            or self.mechanism.traits.adds_noise
            or self.training.counting(bound) is not self.training
        ):
            return False
        return needs_of(bound, self.mechanism, self.schema) != "total"

    def labels(self) -> NDArray[np.float64] | None:
        """Return the labels of the training rows as numbers, or None if there are none."""
        label = self.schema.label
        if self.training is None or label is None or self.schema.label_kind == "string":
            return None
        return np.asarray(self.training.table((label,))[label], dtype=np.float64)
