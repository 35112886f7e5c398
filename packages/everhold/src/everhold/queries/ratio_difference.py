"""The difference of two models in F1, precision or recall: one question about the pairs of outcomes (Lemma R)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float
from everhold.dependence import Independent
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.ratio_gain import OUTCOMES, RatioDifference
from everhold.queries.outcomes import OutcomeQuery
from everhold.queries.procedures import takes_statistics
from everhold.queries.question import Query, QueryPlan, QuerySpec, paying
from everhold.queries.rates import CountQuery, RateQuery
from everhold.queries.statistic import OneNumber
from everhold.values.base import BoundQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.guarantees.intervals.base import Cells
    from everhold.mechanisms import Mechanism
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.table import StoredRows

__all__ = ["OneRateDifference", "RateDifference"]


@dataclass(frozen=True, slots=True, eq=False)
class RateDifference(Query["Answer"]):
    """A rate of the first predictions minus that of the second; made by `difference`.

    Attributes:
        first: A precision, a recall or an F1.
        second: Another one of that kind.
    """

    first: RateQuery
    second: RateQuery

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
        if self.second.score != score:
            raise QueryRejected(
                f"one score is {score} and the other {self.second.score}; expected two of one kind; nothing was charged"
            )
        _check_rows(score, mechanism)
        if tolerance is not None:
            paying(mechanism)
        both = [_outcomes(compiler, query) for query in (self.first, self.second)]
        training = [None if found.training is None else _codes(compiler, found) for found in both]
        known, seen = None, None
        if training[0] is not None and training[1] is not None:
            seen = RatioDifference(score, schema.rows).cells(training[0], training[1])
            known = Fraction(1 + RatioDifference(score, schema.rows).gain(seen)) / 2
        bound = BoundQuery(
            {"kind": "score difference", "name": score, "of": [dict(found.description) for found in both]},
            f"{both[0].shown} minus {both[1].shown}", -1.0, 1.0,
            reads=tuple(dict.fromkeys(name for found in both for name in found.reads or schema.asked)),
            by_position=any(found.by_position for found in both),
        )  # fmt: skip
        procedure = RatioDifference(score, schema.rows, None if seen is None else tuple(seen.counts.tolist()))
        own = None if guess is None else bound.to_mean(as_float(guess))
        prepared = compiler.of_statistic(bound, guess, known if own is None else None, procedure)
        return OneRateDifference([prepared], schema, mechanism, (both[0], both[1]), procedure)


def _outcomes(compiler: QueryCompiler, query: RateQuery) -> BoundQuery:
    """The outcomes of one side, its predictions in the order of the rows."""
    part = query.part
    assert isinstance(part, CountQuery)
    return compiler.bind(compiler.placed(OutcomeQuery(query.score, part.predictions, part.training)))


def _codes(compiler: QueryCompiler, bound: BoundQuery) -> NDArray[np.int64] | None:
    """Codes of the outcomes of the training rows; None where unknown."""
    if compiler.training is None or not bound.trained:
        return None
    unit = compiler.mechanism.unit
    return codes_in(compiler.training.row_values(bound, unit=unit), unit)


def codes_in(values: NDArray[np.int64], unit: int) -> NDArray[np.int64]:
    """Codes of outcomes from row values in grid units, shape (rows,)."""
    return np.asarray((values * (len(OUTCOMES) - 1) + unit // 2) // unit)


def _check_rows(score: str, mechanism: Mechanism) -> None:
    """Refuse mechanisms and rows for which nothing is promised.

    Raises:
        QueryRejected: Nothing is charged.
    """
    if not takes_statistics(mechanism) or mechanism.parameters().get("slack"):
        raise QueryRejected(
            f"a difference in {score} is for mechanism='guess_and_check' without a slack, and this is "
            f"{mechanism.name}; expected a difference in accuracy; nothing was charged"
        )
    if not isinstance(mechanism.dependence, Independent):
        raise QueryRejected(
            f"a difference in {score} is promised for independent rows, and these were declared to depend on each "
            "other; expected a difference in accuracy; nothing was charged"
        )


@dataclass(frozen=True)
class OneRateDifference(OneNumber):
    """A difference of rates that is held against its guess.

    Attributes:
        both: The outcomes of both sides.
        procedure: The interval.
    """

    both: tuple[BoundQuery, BoundQuery]
    procedure: RatioDifference

    def look_at(self, sealed: StoredRows) -> tuple[Fraction | float, Any]:
        """The difference on the sealed rows, and the counts of pairs of outcomes."""
        unit = self.mechanism.unit
        codes = [codes_in(sealed.row_values(bound, unit=unit), unit) for bound in self.both]
        seen: Cells = self.procedure.cells(codes[0], codes[1])
        return Fraction(1 + self.procedure.gain(seen)) / 2, seen
