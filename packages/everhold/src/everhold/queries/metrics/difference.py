"""The difference of two models as one query: a mean of paired differences, or a gain by pairs of outcomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import QueryRejected
from everhold.guarantees.intervals.gains import GainDifference, counts_of_pairs, likely_pairs, outcome_codes
from everhold.queries.means.batch import CombinedQuery, OneMean
from everhold.queries.means.mean import among, condition, rows_that_meet, share_that_meets
from everhold.queries.metrics.label_query import share_of_label
from everhold.queries.metrics.row_scores import OutcomeQuery
from everhold.queries.procedures import check_confirms_statistics, check_independent, paying
from everhold.queries.query import QueryPlan, QuerySpec, RowwiseQuery
from everhold.values.base import BoundQuery, Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.guarantees.intervals.base import Cells
    from everhold.queries.metrics.registry import Metric
    from everhold.queries.metrics.scored_rows import ScoredRows
    from everhold.queries.query import CompileContext
    from everhold.sealing.rows.table import StoredRows


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceQuery(CombinedQuery):
    """A query for the mean over rows of one row value minus another, made by `difference`.

    Attributes:
        first: What is subtracted from.
        second: What is subtracted.
    """

    first: RowwiseQuery
    second: RowwiseQuery

    def spec(self) -> QuerySpec:
        """See `Query.spec`."""
        return QuerySpec("difference", self.operands)

    @property
    def operands(self) -> tuple[RowwiseQuery, RowwiseQuery]:
        """The two queries that are compared."""
        return self.first, self.second

    @property
    def greater(self) -> bool:
        """Whether a higher mean is better, by default True."""
        return bool(getattr(self.first, "greater", True))

    def combined(self, first: BoundQuery, second: BoundQuery) -> BoundQuery:
        """See `CombinedQuery.combined`."""
        return difference_of(first, second)


def difference_of(first: BoundQuery, second: BoundQuery) -> BoundQuery:
    """Return the query for the mean of the first row value minus the second, the same whichever is subtracted.

    Raises:
        QueryRejected: If their ranges do not have the same width. Nothing is charged.
    """
    if (first.at_one > first.at_zero) != (second.at_one > second.at_zero):
        # Units have to rise alike, so one that is a difference is turned: of two the one with the larger fingerprint
        if _is_difference(first) and (not _is_difference(second) or first.query > second.query):
            first = _turned(first)
        elif _is_difference(second):
            second = _turned(second)
    width, other = first.at_one - first.at_zero, second.at_one - second.at_zero
    if width != other:
        one, another = (
            f"from {min(each.at_zero, each.at_one):g} to {max(each.at_zero, each.at_one):g}" for each in (first, second)
        )
        raise QueryRejected(
            f"The two queries are in different units: one goes {one}, the other {another}. Pass two queries of one "
            "kind with ranges of the same width."
        )
    shown = " minus ".join(f"({each.shown})" if _is_difference(each) else each.shown for each in (first, second))
    middle = first.at_zero - second.at_zero
    if second.query < first.query:  # which one is subtracted is no part of the query
        first, second, width = second, first, -width
    return BoundQuery(
        description={"kind": "difference", "of": [first.description, second.description]},
        shown=shown,
        at_zero=middle - width,
        at_one=middle + width,
        by_position=first.by_position or second.by_position,
        pair=Pair("difference", first, second),
    )


def _turned(bound: BoundQuery) -> BoundQuery:
    """Return the same difference with its operands and its ends exchanged."""
    assert bound.pair is not None
    first, second = bound.pair.second, bound.pair.first
    described = {**bound.description, "of": [first.description, second.description]}
    pair = Pair("difference", first, second)
    return replace(bound, description=described, at_zero=bound.at_one, at_one=bound.at_zero, pair=pair)


def _is_difference(bound: BoundQuery) -> bool:
    return bound.pair is not None and bound.pair.how == "difference"


def difference_of_outcomes(
    metric: Metric, models: Sequence[ScoredRows], where: str | None, compiler: CompileContext, *,
    guess: float | None, tolerance: float | None,
) -> QueryPlan[Answer]:  # fmt: skip
    """Compile the difference of two models in a rate, by pairs of outcomes of independent rows.

    Raises:
        QueryRejected: If nothing is promised. Nothing is charged.
    """
    mechanism, schema, score = compiler.mechanism, compiler.schema, metric.name
    name, instead = f"a difference in {score}", "a difference in accuracy"
    check_confirms_statistics(mechanism, name, instead=instead)
    check_independent(mechanism, name, instead=instead)
    if tolerance is not None:
        paying(mechanism)
    placed = [
        OutcomeQuery.codes(score, model.predictions, model.training, models[0].positive).placed(compiler)
        for model in models
    ]
    both = [compiler.bind(each) for each in placed]
    inside = None if where is None else condition(where, schema)
    training: list[NDArray[np.int64] | None] = [None, None]  # codes of training rows that count, where they are known
    if compiler.training is not None and all(found.trained for found in both):
        codes = [_codes(compiler.training, found, inside, unit=mechanism.unit) for found in both]
        training = [each if len(each) else None for each in codes]
    counting = schema.rows * share_that_meets(compiler.training, inside)
    known, procedure = None, GainDifference(metric.outcomes, max(round(counting), 1), _planned(placed, compiler))
    if training[0] is not None and training[1] is not None:
        seen = procedure.cells(training[0], training[1])
        known = Fraction(1 + procedure.gain(seen)) / 2
        procedure = replace(procedure, planned=tuple(counts_of_pairs(seen).astype(int).ravel().tolist()))
    bound = BoundQuery(
        {"kind": "score difference", "name": score, "of": [dict(found.description) for found in both]},
        f"{both[0].shown} minus {both[1].shown}", -1.0, 1.0,
        reads=tuple(dict.fromkeys(name for found in both for name in found.reads or schema.asked)),
        by_position=any(found.by_position for found in both),
    )  # fmt: skip
    bound = among(bound, inside, where, schema)
    if training[0] is not None and training[1] is not None and bound.by_position:
        bound = replace(bound, training_values=np.concatenate([training[0], training[1]]))

    def sealed(rows: StoredRows) -> tuple[Fraction, Cells]:
        codes = [_codes(rows, found, inside, unit=mechanism.unit) for found in both]
        seen = procedure.cells(codes[0], codes[1])
        return Fraction(1 + procedure.gain(seen)) / 2, seen

    known = known if guess is None else None
    return OneMean([compiler.planner.of_statistic(bound, guess, known, procedure, sealed)], schema, mechanism)


def _planned(both: Sequence[OutcomeQuery], compiler: CompileContext) -> tuple[float, ...] | None:
    """Return the likely pairs of outcomes of public predictions, or None if predictions are not public."""
    first, second = (query.given(compiler.schema) for query in both)
    if first is None or second is None:
        return None
    positive = 1 if (found := both[0].positive) is None else found
    share = None if compiler.training is None else share_of_label(compiler, both[0])
    return likely_pairs(first == positive, second == positive, share)


def _codes(rows: StoredRows, bound: BoundQuery, inside: BoundQuery | None, *, unit: int) -> NDArray[np.int64]:
    """Return codes of the outcomes of the rows that count. Bets are made on these rows only."""
    codes = outcome_codes(rows.row_values(bound, unit=unit), unit)
    return codes if inside is None else codes[rows_that_meet(rows, inside)]
