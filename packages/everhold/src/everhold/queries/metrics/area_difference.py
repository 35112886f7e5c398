"""The difference of two AUCs: one query, by blocks or by ranks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from everhold.arguments import as_float
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.composites.ranking import (
    BlockDifference,
    RankDifference,
    SeenScores,
    block_averages,
    public_ranks,
)
from everhold.queries.metrics.area import area_of, check_area, check_split, has_pairs, share_of_label
from everhold.queries.query import Query, QueryPlan, QuerySpec, paying
from everhold.queries.statistic import OneNumber
from everhold.values.base import BoundQuery
from everhold.values.failing_rows import worst_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.queries.metrics.area import AreaQuery
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows

_HALF = 0.5
_NAME = "a difference of AUCs"


@dataclass(frozen=True, slots=True, eq=False)
class AreaDifference(Query["Answer"]):
    """The AUC of the first scores minus that of the second; made by `difference`.

    Attributes:
        first: An AUC without counts.
        second: Another one.
    """

    first: AreaQuery
    second: AreaQuery

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
        mechanism, schema = compiler.mechanism, compiler.schema
        check_area(mechanism, name=_NAME)
        if self.first.where is not None or self.second.where is not None:
            raise QueryRejected(
                "a difference of AUCs is about all rows, and one of these is about some; expected both without a "
                "condition"
            )
        if tolerance is not None:
            paying(mechanism)
        both = self.first.reader(compiler), self.second.reader(compiler)
        by_position = any(seen.bound.by_position for seen in both)
        by_rank = by_position or schema.features_public
        check_split(_NAME, schema, by_rank=by_rank)
        share = share_of_label(compiler)
        reach = self._reach(compiler) if by_rank else None
        reader = ScorePairReader(share if by_rank else None, reach or 1.0)
        trained = reader.trained(*(seen.open(compiler.training) for seen in both))
        bound = BoundQuery(
            {
                "kind": "auc difference", "by": "ranks" if by_rank else "blocks",
                "of": [{**seen.described} for seen in both],
            },
            f"AUC of {both[0].whose} minus AUC of {both[1].whose}", -1.0, 1.0,
            reads=tuple(dict.fromkeys((*both[0].names, *both[1].names))), by_position=by_position,
        )  # fmt: skip
        own = None if guess is None else min(max(bound.to_mean(as_float(guess)), 0.0), 1.0)
        procedure = reader.procedure(trained, schema.rows, share, guess=own)
        known = None if trained is None else Fraction(trained.area)
        prepared = compiler.planner.of_statistic(bound, guess, known, procedure)

        def sealed(rows: StoredRows) -> tuple[float, SeenScores]:
            seen = reader.at(both[0].sealed(rows), both[1].sealed(rows), rows.code.dealing_order())
            return seen.area, seen

        return OneNumber([prepared], schema, mechanism, sealed)

    def _reach(self, compiler: QueryCompiler) -> float | None:
        """The largest difference of two ranks of a row, where both scores are handed in and so are public."""
        given = [compiler.placed(query.pairs).given(compiler.schema) for query in (self.first, self.second)]
        if given[0] is None or given[1] is None:
            return None
        return largest_step(given[0], given[1])


def largest_step(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The largest difference of two ranks of a row, of scores that are public, shape (rows,)."""
    return max(float(np.max(np.abs(_rank_differences(first, second)))), 1.0 / len(first))


def _rank_differences(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """By how much of all rows the first scores put each row higher, shape (rows,)."""
    return public_ranks(first) - public_ranks(second)


@dataclass(frozen=True, slots=True)
class ScorePairReader:
    """Two scores and the labels, as a procedure looks at them; public.

    Attributes:
        share: Planned share of label 1 where ranks are bet on; None for blocks.
        reach: The largest difference of two ranks of a row that is possible.
    """

    share: float | None
    reach: float

    def at(self, first: NDArray[np.float64], second: NDArray[np.float64], order: NDArray[np.intp]) -> SeenScores:
        """The numbers that are bet on.

        Args:
            first: Scores and labels, shape (rows, 2).
            second: The same for the other scores.
            order: In which rows are dealt; shape (rows,).
        """
        positive, scores = first[:, 1] == 1, [found[:, 0] for found in (first, second)]
        ranked = [worst_ranks(each, positive) for each in scores]
        areas = [area_of(each, positive) for each in ranked]
        area = (1.0 + areas[0] - areas[1]) / 2.0
        if self.share is None:
            blocks = [block_averages(each, positive, order) for each in ranked]
            units = (1.0 + blocks[0] - blocks[1]) / 2.0
            return SeenScores(area, units, len(units) / max(len(positive), 1))
        if self.share > _HALF:
            scores, positive = [-each for each in scores], ~positive
        apart = _rank_differences(scores[0], scores[1])
        units = (1.0 + np.clip(apart[positive] / self.reach, -1.0, 1.0)) / 2.0
        return SeenScores(
            area, units, float(np.mean(positive)), tuple(float(np.mean(np.isnan(each))) for each in scores)
        )

    def trained(self, first: NDArray[np.float64] | None, second: NDArray[np.float64] | None) -> SeenScores | None:
        """The numbers of the training rows, of scores and labels as for `at`; None where they are unknown."""
        if first is None or second is None or not has_pairs(first):
            return None
        return self.at(first, second, np.random.default_rng(0).permutation(len(first)))

    def procedure(self, trained: SeenScores | None, rows: int, share: float, *, guess: float | None) -> BlockDifference:
        """From public facts: training scores, the share of label 1 among training rows, the analyst's own guess."""
        rarer = min(share, 1.0 - share)
        if self.share is None:
            return BlockDifference(rarer * rows, trained, guess=guess)
        own = None if guess is None else (1.0 + (2.0 * guess - 1.0) * (1.0 - rarer) / self.reach) / 2.0
        at = None if own is None else min(max(own, 0.0), 1.0)
        return RankDifference(rarer * rows, trained, rows, rarer, self.reach, guess=at)
