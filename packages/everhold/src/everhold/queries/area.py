"""AUC without class counts: one question of a holdout that checks guesses, by blocks or by ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float
from everhold.dependence import Independent
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.ranking import (
    BlockBetting,
    RankBetting,
    SeenScores,
    block_averages,
    class_ranks,
    rank_from_area,
)
from everhold.mechanisms.evaluations import Evaluations
from everhold.queries.means import OneMean, Prepared
from everhold.queries.procedures import takes_statistics
from everhold.queries.question import QueryPlan, paying
from everhold.queries.ranking_scores import BoundPairs, RankingQuery, auc_of, faults_last
from everhold.values.base import BoundQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.mechanisms import Mechanism
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.table import StoredRows
    from everhold.values.base import Schema

__all__ = ["AreaQuery", "OneArea", "ScoresLook", "area_of", "check_area", "check_split", "share_of_label"]

_ALL, _HALF = Fraction(1), 0.5
_UNKNOWN_SHARE = 0.1  # planned share of the rarer class where no training rows show it


@dataclass(frozen=True, slots=True, eq=False)
class AreaQuery(RankingQuery):
    """AUC of all pairs; made by `auc` without counts."""

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """One question with its guess.

        Raises:
            QueryRejected: If nothing is promised without counts. Nothing is charged.
        """
        mechanism, schema = compiler.mechanism, compiler.schema
        check_area(mechanism)
        if tolerance is not None:
            paying(mechanism)
        seen = self.looked_at(compiler)
        by_rank = seen.bound.by_position or schema.features_public
        check_split("AUC without class counts", schema, by_rank=by_rank)
        share = share_of_label(compiler)
        look = ScoresLook(seen, share if by_rank else None)
        trained = None if (pairs := seen.open(compiler.training)) is None else look.at(pairs, _any_order(len(pairs)))
        known = None if trained is None else Fraction(trained.area)
        own = None if guess is None else min(max(as_float(guess), 0.0), 1.0)
        procedure = look.procedure(trained, schema.rows, share, guess=own)
        bound = BoundQuery(
            {"kind": "auc", "by": "ranks" if by_rank else "blocks", **seen.described}, f"AUC of {seen.whose}",
            reads=seen.names, by_position=seen.bound.by_position,
        )  # fmt: skip
        return OneArea([compiler.of_statistic(bound, guess, known, procedure)], schema, mechanism, look)

    def of_pairs(self, found: NDArray[Any], share: Fraction = _ALL) -> Fraction:
        """The AUC of all pairs; 1/2 where a class is empty."""
        return Fraction(area_of(faults_last(found)))


@dataclass(frozen=True, slots=True)
class ScoresLook:
    """Scores and labels as a procedure looks at them; public.

    Attributes:
        seen: Scores and labels.
        share: Planned share of label 1 where ranks are bet on; None for blocks.
    """

    seen: BoundPairs
    share: float | None

    def at(self, found: NDArray[Any], order: NDArray[np.intp]) -> SeenScores:
        """The numbers that are bet on.

        Args:
            found: Scores and labels, shape (rows, 2).
            order: In which rows are dealt; shape (rows,).
        """
        pairs = faults_last(found)
        scores, positive = pairs[:, 0], pairs[:, 1] == 1
        if self.share is None:
            units = block_averages(scores, positive, order)
            return SeenScores(area_of(pairs), units, len(units) / len(pairs))
        if self.share > _HALF:
            scores, positive = -scores, ~positive
        return SeenScores(area_of(pairs), class_ranks(scores, positive), float(np.mean(positive)))

    def procedure(
        self, trained: SeenScores | None, rows: int, share: float, *, guess: float | None
    ) -> BlockBetting | RankBetting:
        """From public facts: training scores, the share of label 1 among training rows, the analyst's own guess."""
        rarer = min(share, 1.0 - share)
        if self.share is None:
            return BlockBetting(rarer * rows, trained, guess=guess)
        at = None if guess is None else rank_from_area(guess, rarer)
        return RankBetting(rarer * rows, trained, rows, rarer, guess=at)


@dataclass(frozen=True)
class OneArea(OneMean):
    """An AUC that is held against its guess.

    Attributes:
        look: At the sealed rows.
    """

    look: ScoresLook

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> tuple[Evaluations, list[Prepared]]:
        """The AUC of all pairs, and the numbers that are bet on."""
        (mean,) = self.prepared
        if mean.procedure is None:
            raise TypeError("an AUC has no procedure; expected one that was prepared")
        seen = self.look.at(self.look.seen.sealed(sealed), sealed.dealing_order())
        evaluations = Evaluations(
            totals=np.array([[math.floor(seen.area * self.mechanism.steps)]], dtype=np.int64),
            guesses=np.array([mean.guess], dtype=np.int64),
            rows=self.schema.rows,
            unit=self.mechanism.unit,
            procedures=[mean.procedure],
            seen=[seen],
            silent=self.silent,
        )
        return evaluations, [mean]


def area_of(pairs: NDArray[np.float64]) -> float:
    """The AUC of all pairs of scores and labels, shape (rows, 2); 1/2 where a class is empty."""
    positives = int(np.count_nonzero(pairs[:, 1] == 1))
    if positives in (0, len(pairs)):
        return _HALF
    return auc_of(pairs[:, 0], pairs[:, 1], positives=positives, negatives=len(pairs) - positives)


def _any_order(rows: int) -> NDArray[np.intp]:
    """An order of public rows, which decides nothing but stakes."""
    return np.random.default_rng(0).permutation(rows)


def share_of_label(compiler: QueryCompiler) -> float:
    """Planned share of label 1: that of the training rows, half a row away from 0 and 1 at least."""
    schema, training = compiler.schema, compiler.training
    if training is None or schema.label is None:
        return _UNKNOWN_SHARE
    positives = int(np.count_nonzero(training.table((schema.label,))[schema.label] == 1))
    return (positives + _HALF) / (training.rows + 1.0)


def check_area(mechanism: Mechanism, *, name: str = "AUC without class counts") -> None:
    """Refuse rows and mechanisms for which nothing is promised without counts.

    Args:
        mechanism: The one that would answer.
        name: How messages call the query.

    Raises:
        QueryRejected: Nothing is charged.
    """
    if not takes_statistics(mechanism) or mechanism.parameters().get("slack"):
        raise QueryRejected(
            f"{name} is for mechanism='guess_and_check' without a slack, and this is "
            f"{mechanism.name}; expected auc(scores, positives=..., negatives=...); nothing was charged"
        )
    if not isinstance(mechanism.dependence, Independent):
        raise QueryRejected(
            f"{name} is promised for independent rows only, and these rows were declared to depend on each other; "
            "expected auc(scores, positives=..., negatives=...), which takes groups; nothing was charged"
        )


def check_split(name: str, schema: Schema, *, by_rank: bool) -> None:
    """Refuse class shares that were fixed by the split where the proof needs them free, or needs one law.

    Args:
        name: How messages call the query.
        schema: The rows.
        by_rank: Whether scores are known and labels are drawn anew.

    Raises:
        QueryRejected: Nothing is charged.
    """
    if schema.stratified is None or (schema.stratified == schema.label) is not by_rank:
        return
    raise QueryRejected(
        f"the rows were split by {schema.stratified!r}, and {name} of "
        f"{'known scores needs labels' if by_rank else 'a model needs rows'} that the split left to chance; expected "
        f"{'the model itself' if by_rank else 'scores in an array'}, or AUC with counts; nothing was charged"
    )
