"""The difference of two models in a score of outcomes, such as F1: one query about the pairs of outcomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from everhold.arguments import as_float
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.pairs.gains import GainDifference, counts_of_pairs, likely_pairs, outcome_codes
from everhold.queries.means.conditions import among, condition, rows_that_meet, share_that_meets
from everhold.queries.metrics.area import share_of_label
from everhold.queries.metrics.outcomes import OutcomeQuery
from everhold.queries.metrics.score_query import ScoreQuery
from everhold.queries.procedures import check_confirms_statistics, check_independent
from everhold.queries.query import Query, QueryPlan, QuerySpec, paying
from everhold.queries.statistic import OneNumber
from everhold.values.base import BoundQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.guarantees.intervals.base import Cells
    from everhold.queries.metrics.rates import ScoredShare
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeDifference(Query["Answer"]):
    """A score of the first predictions minus that of the second; made by `difference`.

    Attributes:
        first: One of `everhold.guarantees.intervals.pairs.gains.GAINS`.
        second: The same of other predictions.
    """

    first: ScoredShare | ScoreQuery
    second: ScoredShare | ScoreQuery

    def spec(self) -> QuerySpec:
        """See `Query.spec`."""
        return QuerySpec("difference", (self.first, self.second))

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """One query with its guess.

        Raises:
            QueryRejected: If nothing is promised. Nothing is charged.
        """
        mechanism, schema, where = compiler.mechanism, compiler.schema, self.first.where
        asked = [_outcome_query(query) for query in (self.first, self.second)]
        score = asked[0].score
        if (asked[1].score, self.second.where) != (score, where):
            raise QueryRejected(
                f"one score is {score} and the other {asked[1].score}, or they are about different rows; expected two "
                "of one kind about the same rows"
            )
        name, instead = f"a difference in {score}", "a difference in accuracy"
        check_confirms_statistics(mechanism, name, instead=instead)
        check_independent(mechanism, name, instead=instead)
        if tolerance is not None:
            paying(mechanism)
        placed = [compiler.placed(query) for query in asked]
        both = [compiler.bind(query) for query in placed]
        inside = None if where is None else condition(where, schema)
        training = [_open_codes(compiler, found, inside) for found in both]
        counting = schema.rows * share_that_meets(compiler.training, inside)
        known, procedure = None, GainDifference(score, max(round(counting), 1), _planned(placed, compiler))
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
        own = None if guess is None else bound.to_mean(as_float(guess))
        prepared = compiler.planner.of_statistic(bound, guess, known if own is None else None, procedure)

        def sealed(rows: StoredRows) -> tuple[Fraction, Cells]:
            codes = [_codes(rows, found, inside, unit=mechanism.unit) for found in both]
            seen = procedure.cells(codes[0], codes[1])
            return Fraction(1 + procedure.gain(seen)) / 2, seen

        return OneNumber([prepared], schema, mechanism, sealed)


def _outcome_query(asked: ScoredShare | ScoreQuery) -> OutcomeQuery:
    """The outcomes of one side."""
    if isinstance(asked, ScoreQuery):
        return OutcomeQuery(asked.kind.name, asked.rows.predictions, asked.rows.training)
    return OutcomeQuery(asked.score, asked.predictions, asked.training)


def _planned(both: Sequence[OutcomeQuery], compiler: QueryCompiler) -> tuple[float, ...] | None:
    """The likely outcomes of predictions that are public; None of others."""
    first, second = (query.given(compiler.schema) for query in both)
    if first is None or second is None:
        return None
    return likely_pairs(first == 1, second == 1, None if compiler.training is None else share_of_label(compiler))


def _open_codes(compiler: QueryCompiler, bound: BoundQuery, inside: BoundQuery | None) -> NDArray[np.int64] | None:
    """Codes of the outcomes of the training rows that count; None where they are unknown, or none counts."""
    if compiler.training is None or not bound.trained:
        return None
    found = _codes(compiler.training, bound, inside, unit=compiler.mechanism.unit)
    return found if len(found) else None


def _codes(rows: StoredRows, bound: BoundQuery, inside: BoundQuery | None, *, unit: int) -> NDArray[np.int64]:
    """Codes of the outcomes of the rows that count. No bet is made on others."""
    codes = outcome_codes(rows.row_values(bound, unit=unit), unit)
    return codes if inside is None else codes[rows_that_meet(rows, inside)]
