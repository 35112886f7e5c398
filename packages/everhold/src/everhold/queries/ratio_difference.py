"""The difference of two models in F1, precision or recall: one question about the pairs of outcomes (Lemma R)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.ratio_gain import OUTCOMES, RatioDifference, outcome_codes
from everhold.queries.conditions import among, condition, rows_that_meet
from everhold.queries.outcomes import OutcomeQuery
from everhold.queries.procedures import check_confirms_statistics, check_independent
from everhold.queries.question import Query, QueryPlan, QuerySpec, paying
from everhold.queries.rates import ScoredShare
from everhold.queries.statistic import OneNumber
from everhold.values.base import BoundQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.guarantees.intervals.base import Cells
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.table import StoredRows

__all__ = ["OneRateDifference", "RateDifference"]

_TRUE_NEGATIVE = OUTCOMES.index("true negative")


@dataclass(frozen=True, slots=True, eq=False)
class RateDifference(Query["Answer"]):
    """A rate of the first predictions minus that of the second; made by `difference`.

    Attributes:
        first: A precision, a recall or an F1.
        second: Another one of that kind, of the same rows.
    """

    first: ScoredShare
    second: ScoredShare

    def spec(self) -> QuerySpec:
        """See `Query.spec`."""
        return QuerySpec("difference", (self.first, self.second))

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """One question with its guess.

        Raises:
            QueryRejected: If nothing is promised. Nothing is charged.
        """
        mechanism, schema, score = compiler.mechanism, compiler.schema, self.first.score
        where = self.first.where
        if (self.second.score, self.second.where) != (score, where):
            raise QueryRejected(
                f"one score is {score} and the other {self.second.score}, or they are about different rows; expected "
                "two of one kind about the same rows; nothing was charged"
            )
        name, instead = f"a difference in {score}", "a difference in accuracy"
        check_confirms_statistics(mechanism, name, instead=instead)
        check_independent(mechanism, name, instead=instead)
        if tolerance is not None:
            paying(mechanism)
        both = [_outcomes(compiler, query) for query in (self.first, self.second)]
        inside = None if where is None else condition(where, schema)
        training = [_open_codes(compiler, found, inside) for found in both]
        known, procedure = None, RatioDifference(score, schema.rows)
        if training[0] is not None and training[1] is not None:
            seen = procedure.cells(training[0], training[1])
            known = Fraction(1 + procedure.gain(seen)) / 2
            procedure = replace(procedure, planned=tuple(seen.counts.tolist()))
        bound = BoundQuery(
            {"kind": "score difference", "name": score, "of": [dict(found.description) for found in both]},
            f"{both[0].shown} minus {both[1].shown}", -1.0, 1.0,
            reads=tuple(dict.fromkeys(name for found in both for name in found.reads or schema.asked)),
            by_position=any(found.by_position for found in both),
        )  # fmt: skip
        bound = among(bound, inside, where, schema)
        own = None if guess is None else bound.to_mean(as_float(guess))
        prepared = compiler.of_statistic(bound, guess, known if own is None else None, procedure)
        return OneRateDifference([prepared], schema, mechanism, (both[0], both[1]), procedure, inside)


def _outcomes(compiler: QueryCompiler, query: ScoredShare) -> BoundQuery:
    """The outcomes of one side, its predictions in the order of the rows."""
    return compiler.bind(compiler.placed(OutcomeQuery(query.score, query.predictions, query.training)))


def _open_codes(compiler: QueryCompiler, bound: BoundQuery, inside: BoundQuery | None) -> NDArray[np.int64] | None:
    """Codes of the outcomes of the training rows; None where unknown."""
    if compiler.training is None or not bound.trained:
        return None
    return _codes(compiler.training, bound, inside, unit=compiler.mechanism.unit)


def _codes(rows: StoredRows, bound: BoundQuery, inside: BoundQuery | None, *, unit: int) -> NDArray[np.int64]:
    """Codes of outcomes; a row that does not count is a true negative, which moves none of these rates."""
    codes = outcome_codes(rows.row_values(bound, unit=unit), unit)
    return codes if inside is None else np.where(rows_that_meet(rows, inside), codes, _TRUE_NEGATIVE)


@dataclass(frozen=True)
class OneRateDifference(OneNumber):
    """A difference of rates that is held against its guess.

    Attributes:
        both: The outcomes of both sides.
        procedure: The interval.
        inside: The condition of rows that count; None for all rows.
    """

    both: tuple[BoundQuery, BoundQuery]
    procedure: RatioDifference
    inside: BoundQuery | None

    def look_at(self, sealed: StoredRows) -> tuple[Fraction | float, Any]:
        """The difference on the sealed rows, and the counts of pairs of outcomes."""
        unit = self.mechanism.unit
        codes = [_codes(sealed, bound, self.inside, unit=unit) for bound in self.both]
        seen: Cells = self.procedure.cells(codes[0], codes[1])
        return Fraction(1 + self.procedure.gain(seen)) / 2, seen
