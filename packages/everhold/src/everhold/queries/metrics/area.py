"""The area under the ROC curve of all pairs: bets on blocks of rows or of groups, or on ranks of known scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from everhold.errors import QueryRejected
from everhold.guarantees.intervals.composites.ranking import (
    BlockBetting,
    BlockDifference,
    GroupBlockBetting,
    RankBetting,
    RankDifference,
    SeenBlocks,
    SeenScores,
    block_averages,
    public_ranks,
    rank_from_area,
    seen_blocks,
)
from everhold.queries.means.mean import rows_that_meet
from everhold.queries.metrics.measures import Measure
from everhold.queries.metrics.ranking_scores import auc_of
from everhold.values.evaluation import worst_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms import Mechanism
    from everhold.queries.metrics.registry import Metric, Setting
    from everhold.queries.metrics.score_parts import Floats, Judged, Sized
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import BoundQuery, Schema

_HALF = 0.5
Number = TypeVar("Number", bound=np.generic)
_UNKNOWN_SHARE = 0.1  # planned share of the rarer class where no training rows show it


@dataclass(frozen=True, slots=True)
class Area(Measure):
    """The AUC of all pairs."""

    by_rank: ClassVar[bool] = True
    compares: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = False

    def value(self, seen: SeenScores | SeenBlocks) -> float:
        """See `Measure.value`."""
        return seen.area

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> SeenScores | SeenBlocks:
        """The numbers that are bet on."""
        return _seen((rows,), setting, 1.0)

    def see_difference(
        self, first: Judged, second: Judged, setting: Setting, largest: float = 1.0, *, reach: float = 1.0
    ) -> SeenScores | SeenBlocks:
        """See `Measure.see_difference`."""
        return _seen((first, second), setting, reach)

    def reach(self, first: Floats, second: Floats, setting: Setting) -> float:
        """See `Measure.reach`: the largest difference of two ranks of a row."""
        if setting.dealt == "groups":
            return 1.0
        return max(float(np.max(np.abs(public_ranks(first) - public_ranks(second)))), 1.0 / len(first))

    def is_known(self, rows: Judged, seen: SeenScores | SeenBlocks) -> bool:
        """See `Measure.is_known`: both labels occur, of groups in two of them."""
        if isinstance(seen, SeenBlocks):
            return seen.units.total > 0.0
        positive = _counting(rows, rows.labels == 1.0)
        return 0 < int(np.count_nonzero(positive)) < len(positive)

    def procedure(self, planned: Any, setting: Setting, sized: Sized, *, reach: float | None = None) -> Procedure:
        """See `Measure.procedure`."""
        if setting.dealt == "groups":
            return GroupBlockBetting.planned_by(planned, sealed=sized.sealed, planned=sized.planned, guess=sized.guess)
        rarer, guess = min(setting.share, 1.0 - setting.share), sized.guess
        counting = float(sized.sealed) if sized.counting is None else sized.counting
        if setting.dealt == "blocks":
            return (BlockBetting if reach is None else BlockDifference)(rarer * counting, planned, guess=guess)
        if reach is None:
            at = None if guess is None else rank_from_area(guess, rarer)
            return RankBetting(rarer * counting, planned, int(counting), rarer, guess=at)
        own = None if guess is None else (1.0 + (2.0 * guess - 1.0) * (1.0 - rarer) / reach) / 2.0
        at = None if own is None else min(max(own, 0.0), 1.0)
        return RankDifference(rarer * counting, planned, int(counting), rarer, reach, guess=at)


def roc_auc(metric: Metric) -> Area:
    """The computation of ``"roc_auc"``."""
    return Area(metric)


def _counting(rows: Judged, values: NDArray[Number]) -> NDArray[Number]:
    return values if rows.counting is None else values[rows.counting]


def _seen(models: tuple[Judged, ...], setting: Setting, reach: float) -> SeenScores | SeenBlocks:
    """The numbers that are bet on, of one model or of the difference of two.

    Args:
        models: The same rows as each model scores them, nan where it fails.
        setting: Planned share of label 1, and what is bet on.
        reach: The largest difference of two ranks of a row that is possible.
    """
    rows = models[0]
    if setting.dealt == "groups":
        assert rows.groups is not None
        positive = rows.labels == 1.0
        order = np.random.default_rng(0).permutation(len(positive)) if rows.order is None else rows.order
        ranked = [worst_ranks(each.outputs, positive) for each in models]
        return seen_blocks(ranked, positive, rows.groups, order, rows.counting)
    scores, positive = [_counting(each, each.outputs) for each in models], _counting(rows, rows.labels == 1.0)
    order = np.random.default_rng(0).permutation(len(positive))  # of public rows any one will do
    if rows.order is not None:
        order = rows.order
        if rows.counting is not None:
            order = (np.cumsum(rows.counting) - 1)[order[rows.counting[order]]]
    ranked = [worst_ranks(each, positive) for each in scores]
    areas = [area_of(each, positive) for each in ranked]
    area = areas[0] if len(models) == 1 else (1.0 + areas[0] - areas[1]) / 2.0
    if setting.dealt == "blocks":
        blocks = [block_averages(each, positive, order) for each in ranked]
        units = blocks[0] if len(models) == 1 else (1.0 + blocks[0] - blocks[1]) / 2.0
        return SeenScores(area, units, len(units) / max(len(positive), 1))
    failing = tuple(float(np.mean(np.isnan(each))) for each in scores)
    if setting.share > _HALF:
        scores, positive = [-each for each in scores], ~positive
    ranks = [public_ranks(each) for each in scores]
    if len(models) == 1:
        units = ranks[0][positive]
    else:
        units = (1.0 + np.clip((ranks[0] - ranks[1])[positive] / reach, -1.0, 1.0)) / 2.0
    return SeenScores(area, units, float(np.mean(positive)), failing)


def area_of(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """The AUC of all pairs of rows, shape (rows,) each; 1/2 where a class is empty."""
    positives = int(np.count_nonzero(positive))
    if positives in (0, len(scores)):
        return _HALF
    return auc_of(scores, positive, positives=positives, negatives=len(scores) - positives)


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


def dealt_by(mechanism: Mechanism, *, known: bool) -> Literal["blocks", "ranks", "groups"]:
    """What an AUC of these rows bets on; see `Setting.dealt`.

    Args:
        mechanism: Says how the rows depend on each other.
        known: Whether the scores of the sealed rows are known.
    """
    if mechanism.dependence.group_column is not None:
        return "groups"
    return "ranks" if known else "blocks"


def check_split(name: str, schema: Schema, *, by_rank: bool) -> None:
    """Refuse class shares that were fixed by the split where the proof needs them free, or needs one law."""
    if schema.stratified is None or (schema.stratified == schema.label) is not by_rank:
        return
    raise QueryRejected(
        f"the rows were split by {schema.stratified!r}, and {name} of "
        f"{'known scores needs labels' if by_rank else 'a model needs rows'} that the split left to chance; expected "
        f"{'the model itself' if by_rank else 'scores in an array'}, or AUC with counts"
    )
