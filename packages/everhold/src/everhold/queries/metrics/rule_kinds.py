"""Scores of independent rows that are no function of a few parts: calibration, and recall at a false positive rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from everhold.guarantees.intervals.composites.calibration import CalibrationBets, SeenBins, seen_bins
from everhold.guarantees.intervals.composites.operating_point import OperatingPoint, SeenRules, seen_rules
from everhold.queries.metrics.score_kinds import ScoreKind
from everhold.queries.metrics.score_parts import Judged, Setting, Sized
from everhold.values.failing_rows import worst_ranks

if TYPE_CHECKING:
    from everhold.guarantees.intervals.base import Procedure


@dataclass(frozen=True, slots=True)
class CalibrationKind(ScoreKind):
    """The expected calibration error by equal bins of the probability of label 1."""

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> SeenBins:
        """Rows by bin."""
        return seen_bins(rows.outputs, rows.labels, setting.bins)

    def procedure(self, planned: SeenBins, setting: Setting, sized: Sized) -> Procedure:
        """See `ScoreKind.procedure`."""
        return CalibrationBets(planned, sized.sealed, sized.training)


@dataclass(frozen=True, slots=True)
class RecallAtRate(ScoreKind):
    """The largest recall of a threshold whose false positive rate is at most the given one."""

    by_rank: ClassVar[bool] = True

    def see(self, rows: Judged, setting: Setting, largest: float = 1.0) -> SeenRules:
        """Counts of each threshold."""
        return seen_rules(worst_ranks(rows.outputs, rows.labels), rows.labels == 1.0, setting.rate)

    def procedure(self, planned: SeenRules, setting: Setting, sized: Sized) -> Procedure:
        """See `ScoreKind.procedure`."""
        return OperatingPoint(planned, sized.sealed, sized.training, setting.rate, sized.unlike)


def rule_kinds() -> tuple[ScoreKind, ...]:
    """Scores of this module."""
    return (
        CalibrationKind(
            "expected_calibration_error", "probability", ("binary",), lambda _: (0.0, 1.0), ("bins",), greater=False
        ),
        RecallAtRate("recall_at_fpr", "scores", ("binary",), lambda _: (0.0, 1.0), ("rate",)),
    )
