"""The difference of two models in a score that is the average of its parts: one query (Statement C1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from everhold.errors import QueryRejected
from everhold.queries.means.conditions import among, share_that_meets
from everhold.queries.metrics.made_up_scores import likely_labels
from everhold.queries.metrics.measures import Parts
from everhold.queries.metrics.outcome_difference import OutcomeDifference
from everhold.queries.metrics.score_parts import Judged, Sized
from everhold.queries.metrics.score_query import ScoreQuery, ScoreReader, largest_group, open_labels
from everhold.queries.query import Query, QueryPlan, QuerySpec, paying
from everhold.queries.statistic import OneNumber
from everhold.values.base import BoundQuery, with_clips

if TYPE_CHECKING:
    from everhold.answers import Answer
    from everhold.guarantees.intervals.composites.parts import SeenParts
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows


@dataclass(frozen=True, slots=True, eq=False)
class ScoreDifference(Query["Answer"]):
    """A score of the first predictions minus that of the second; made by `difference`.

    Attributes:
        first: A score.
        second: The same score of other predictions.
    """

    first: ScoreQuery
    second: ScoreQuery

    def spec(self) -> QuerySpec:
        """See `Query.spec`."""
        return QuerySpec("difference", (self.first, self.second))

    def among(self, where: str) -> ScoreDifference:
        """The same difference among the rows that meet a condition."""
        return ScoreDifference(self.first.among(where), self.second.among(where))

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """One query with its guess.

        Raises:
            QueryRejected: If nothing is promised. Nothing is charged.
        """
        mechanism, schema = compiler.mechanism, compiler.schema
        if self.first.kind.outcomes and schema.label_kind == "binary" and mechanism.dependence.binomial_tails:
            return OutcomeDifference(self.first, self.second).compile(compiler, guess=guess, tolerance=tolerance)
        kind, metric = compared_by(self.first), self.first.kind
        if tolerance is not None:
            paying(mechanism)
        first, second = both = (self.first.reader(compiler), self.second.reader(compiler))
        if (first.kind.name, first.setting, first.condition) != (second.kind.name, second.setting, second.condition):
            raise QueryRejected(
                "the two scores have different names, ranges or rows; expected one score of two predictions, with the "
                "same low, high, clip and where"
            )
        zero, one = metric.ends(first.setting)
        bound = BoundQuery(
            {"kind": "score difference", "name": metric.name, **first.numbers,
             "of": [dict(reader.seen.described) for reader in both]},
            f"{metric.name} of {first.whose(self.first)} minus {second.whose(self.second)}",
            zero - one, one - zero,
            reads=tuple(dict.fromkeys((*first.seen.names, *second.seen.names))),
            by_position=any(reader.seen.bound.by_position for reader in both),
            unbounded=(any(metric.unbounded), any(metric.unbounded)),
        )  # fmt: skip
        bound = among(bound, first.inside, self.first.where, schema)
        bound = with_clips(bound, [clip for reader in both for clip in reader.clips(compiler)])
        rows, trained = _open_rows(compiler, kind, both)
        told = [reader.seen.public() for reader in both]
        reach = 1.0 if told[0] is None or told[1] is None else kind.reach(told[0], told[1], first.setting)
        planned = kind.see_difference(*rows, first.setting, largest_group(mechanism, rows[0]), reach=reach)
        counting = max(round(schema.rows * (1.0 if trained else share_that_meets(compiler.training, first.inside))), 1)
        size = len(rows[0].labels)
        if not trained and first.opened(compiler.training) is not None:  # no training row counts
            planned, size = kind.thinned(planned, counting / size), counting
        guessing = max(schema.training_rows, 1) if trained and guess is None else schema.rows
        sized = Sized(
            counting, guessing, size, largest_group(mechanism), sliced=first.inside is not None,
        )  # fmt: skip
        known = Fraction(float(planned.score)) if trained else None
        prepared = compiler.planner.of_statistic(
            bound, guess, known, kind.procedure(planned, first.setting, sized, reach=reach)
        )

        def sealed(rows: StoredRows) -> tuple[float, SeenParts]:
            judged = first.sealed(rows), second.sealed(rows)
            seen = kind.see_difference(*judged, first.setting, largest_group(mechanism), reach=reach)
            return seen.score, seen

        return OneNumber([prepared], schema, mechanism, sealed)


def compared_by(query: ScoreQuery) -> Parts:
    """The score by which two models are compared."""
    measure, name = query.kind.measure, query.kind.name
    if query.kind.two == "any" and isinstance(measure, Parts):
        return measure
    raise QueryRejected(
        f"two models are not compared by {name}; compare them by {query.kind.nearest}, or ask for {name} of each"
    )


def _open_rows(
    compiler: QueryCompiler, kind: Parts, both: tuple[ScoreReader, ScoreReader]
) -> tuple[tuple[Judged, Judged], bool]:
    """Public rows that show how far differences spread, and whether they estimate the difference.

    Where no training row counts, all of them show the spread.
    """
    first, second = (reader.opened(compiler.training) for reader in both)
    if first is not None and second is not None:
        setting = both[0].setting
        known = all(kind.is_known(kind.see(rows, setting)) for rows in (first, second))
        every = (first, second) if known else (replace(first, counting=None), replace(second, counting=None))
        return every, known
    told = [reader.seen.public() for reader in both]
    if told[0] is None or told[1] is None:
        raise QueryRejected(
            "two predictions are compared on the same rows; expected two models, two arrays, or arrays with "
            "training=..."
        )
    labels = open_labels(compiler)
    made = likely_labels(kind, told[0], told[1], None if labels is None else both[0].coded(labels))
    return (Judged(told[0], made), Judged(told[1], made)), False
