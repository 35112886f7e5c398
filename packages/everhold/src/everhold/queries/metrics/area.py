"""AUC without class counts: one query of a holdout that checks guesses, by blocks or by ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.composites.ranking import (
    BlockBetting,
    RankBetting,
    SeenScores,
    block_averages,
    public_ranks,
    rank_from_area,
)
from everhold.queries.means.conditions import among, condition, rows_that_meet, share_that_meets
from everhold.queries.metrics.ranking_scores import BoundPairs, RankingQuery, auc_of
from everhold.queries.procedures import check_confirms_statistics, check_independent
from everhold.queries.query import QueryPlan, QuerySpec, paying
from everhold.queries.statistic import OneNumber
from everhold.values.base import BoundQuery
from everhold.values.failing_rows import worst_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.mechanisms import Mechanism
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import Schema

_ALL, _HALF = Fraction(1), 0.5
_UNKNOWN_SHARE = 0.1  # planned share of the rarer class where no training rows show it


@dataclass(frozen=True, slots=True, eq=False)
class AreaQuery(RankingQuery):
    """AUC of all pairs; made by `auc` without counts.

    Attributes:
        where: A condition; pairs of other rows do not count. None for all rows.
    """

    where: str | None = None

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        made = RankingQuery.spec(self)
        return made if self.where is None else replace(made, details={**made.details, "where": self.where})

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """One query with its guess.

        Raises:
            QueryRejected: If nothing is promised without counts. Nothing is charged.
        """
        mechanism, schema = compiler.mechanism, compiler.schema
        check_area(mechanism)
        if tolerance is not None:
            paying(mechanism)
        seen = self.reader(compiler)
        by_rank = seen.bound.by_position or schema.features_public
        check_split("AUC without class counts", schema, by_rank=by_rank)
        inside = self._inside(schema, by_rank=by_rank)
        share, part = share_of_label(compiler, inside), share_that_meets(compiler.training, inside)
        reader = RankingReader(seen, share if by_rank else None, inside)
        pairs = reader.open(compiler.training)
        trained = None if pairs is None else reader.at(pairs, _any_order(len(pairs)))
        known = None if trained is None else Fraction(trained.area)
        own = None if guess is None else min(max(as_float(guess), 0.0), 1.0)
        procedure = reader.procedure(trained, schema.rows * part, share, guess=own)
        described: dict[str, Any] = {"kind": "auc", "by": "ranks" if by_rank else "blocks", **seen.described}
        bound = BoundQuery(
            described, f"AUC of {seen.whose}", reads=seen.names, by_position=seen.bound.by_position
        )  # fmt: skip
        bound = among(bound, inside, self.where, schema)
        prepared = compiler.planner.of_statistic(bound, guess, known, procedure)
        return OneNumber([prepared], schema, mechanism, reader.sealed)

    def _inside(self, schema: Schema, *, by_rank: bool) -> BoundQuery | None:
        """The condition for one holdout.

        Raises:
            QueryRejected: If it is none, or the scores are known, whose ranks are among all rows. Nothing is charged.
        """
        if self.where is None:
            return None
        if by_rank:
            raise QueryRejected(
                "AUC among some rows is promised for models, and scores in an array or public features make the scores "
                "known; expected a fitted model of sealed features, or no condition"
            )
        return condition(self.where, schema)

    def of_pairs(self, found: NDArray[Any], share: Fraction = _ALL) -> Fraction:
        """The AUC of all pairs; 1/2 where a class is empty."""
        return Fraction(area_of(worst_ranks(found[:, 0], found[:, 1]), found[:, 1] == 1))


@dataclass(frozen=True, slots=True)
class RankingReader:
    """Scores and labels as a procedure looks at them; public.

    Attributes:
        share: Planned share of label 1 where ranks are bet on; None for blocks.
        inside: The condition of rows that count; None for all rows.
    """

    seen: BoundPairs
    share: float | None
    inside: BoundQuery | None = None

    def open(self, training: StoredRows | None) -> NDArray[Any] | None:
        """Scores and labels of the training rows that count, shape (rows, 2); None where they make no pair."""
        pairs = self.seen.open(training)
        if pairs is not None and training is not None and self.inside is not None:
            pairs = pairs[rows_that_meet(training, self.inside)]
        return pairs if pairs is not None and has_pairs(pairs) else None

    def sealed(self, rows: StoredRows) -> tuple[float, SeenScores]:
        """The AUC of the sealed rows, and the numbers that are bet on. Secret."""
        found, order = self.seen.sealed(rows), rows.code.dealing_order()
        if self.inside is not None:
            counting = rows_that_meet(rows, self.inside)
            places = np.cumsum(counting) - 1
            found, order = found[counting], places[order[counting[order]]]
        seen = self.at(found, order)
        return seen.area, seen

    def at(self, found: NDArray[Any], order: NDArray[np.intp]) -> SeenScores:
        """The numbers that are bet on.

        Args:
            found: Scores and labels, shape (rows, 2).
            order: In which rows are dealt; shape (rows,).
        """
        scores, positive = found[:, 0], found[:, 1] == 1
        ranked = worst_ranks(scores, positive)
        area = area_of(ranked, positive)
        if self.share is None:
            units = block_averages(ranked, positive, order)
            return SeenScores(area, units, len(units) / max(len(found), 1))
        if self.share > _HALF:
            scores, positive = -scores, ~positive
        ranks = public_ranks(scores)[positive]
        return SeenScores(area, ranks, float(np.mean(positive)), (float(np.mean(np.isnan(scores))),))

    def procedure(
        self, trained: SeenScores | None, rows: float, share: float, *, guess: float | None
    ) -> BlockBetting | RankBetting:
        """From public facts: training scores, the share of label 1 among training rows, the analyst's own guess."""
        rarer = min(share, 1.0 - share)
        if self.share is None:
            return BlockBetting(rarer * rows, trained, guess=guess)
        at = None if guess is None else rank_from_area(guess, rarer)
        return RankBetting(rarer * rows, trained, int(rows), rarer, guess=at)


def area_of(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """The AUC of all pairs of rows, shape (rows,) each; 1/2 where a class is empty."""
    positives = int(np.count_nonzero(positive))
    if positives in (0, len(scores)):
        return _HALF
    return auc_of(scores, positive, positives=positives, negatives=len(scores) - positives)


def has_pairs(pairs: NDArray[np.float64]) -> bool:
    """True if both labels occur among scores and labels, shape (rows, 2)."""
    return 0 < int(np.count_nonzero(pairs[:, 1] == 1)) < len(pairs)


def _any_order(rows: int) -> NDArray[np.intp]:
    """An order of public rows, which decides nothing but stakes."""
    return np.random.default_rng(0).permutation(rows)


def share_of_label(compiler: QueryCompiler, inside: BoundQuery | None = None) -> float:
    """Planned share of label 1: that of the training rows that count, half a row away from 0 and 1 at least.

    Where no training row counts, all of them decide.
    """
    schema, training = compiler.schema, compiler.training
    if training is None or schema.label is None:
        return _UNKNOWN_SHARE
    labels = np.asarray(training.table((schema.label,))[schema.label])
    if inside is not None:
        counting = rows_that_meet(training, inside)
        labels = labels[counting] if counting.any() else labels
    return (int(np.count_nonzero(labels == 1)) + _HALF) / (len(labels) + 1.0)


def check_area(mechanism: Mechanism, *, name: str = "AUC without class counts") -> None:
    """Refuse rows and mechanisms for which nothing is promised without counts."""
    instead = "auc(scores, positives=..., negatives=...)"
    check_confirms_statistics(mechanism, name, instead=instead)
    check_independent(mechanism, name, instead=f"{instead}, which takes groups")


def area_is_promised(compiler: QueryCompiler, *, by_position: bool) -> bool:
    """True if the AUC of all pairs is promised for these rows and this mechanism."""
    try:
        check_area(compiler.mechanism)
        check_split("AUC", compiler.schema, by_rank=by_position or compiler.schema.features_public)
    except QueryRejected:
        return False
    return True


def check_split(name: str, schema: Schema, *, by_rank: bool) -> None:
    """Refuse class shares that were fixed by the split where the proof needs them free, or needs one law."""
    if schema.stratified is None or (schema.stratified == schema.label) is not by_rank:
        return
    raise QueryRejected(
        f"the rows were split by {schema.stratified!r}, and {name} of "
        f"{'known scores needs labels' if by_rank else 'a model needs rows'} that the split left to chance; expected "
        f"{'the model itself' if by_rank else 'scores in an array'}, or AUC with counts"
    )
