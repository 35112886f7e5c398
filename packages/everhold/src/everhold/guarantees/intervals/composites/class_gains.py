"""Gains in an average over classes of F1 and other ratios: each class has its share of the level (Lemma R)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from everhold.guarantees.intervals.base import Cells, Needs, Procedure
from everhold.guarantees.intervals.composites.boxes import weighted_average
from everhold.guarantees.intervals.pairs.outcome_gain import OutcomeGain
from everhold.guarantees.intervals.pairs.ratio_gain import RatioGain
from everhold.guarantees.intervals.shares.means import ClopperPearson
from everhold.values.failing_rows import says

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OF_SHARES = 0.1  # of the level, where classes are weighted by their shares


@dataclass(frozen=True, slots=True, eq=False)
class SeenClasses:
    """Outcomes of two models, seen from each class.

    Attributes:
        pairs: For each class, the counts of pairs of outcomes of this class against all others.
        labels: Shape (classes + 1,): rows by the class of their label; the last one is of no class.
    """

    pairs: tuple[Cells, ...] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(
        cls, labels: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64], classes: int
    ) -> SeenClasses:
        """From numbers of classes, shape (rows,) each; a label of no class is -1, and a failing row nan."""
        known = [int(np.count_nonzero(labels == number)) for number in range(classes)]
        pairs = []
        for number in range(classes):
            actual = labels == number
            codes = [1 + says(told, labels, number) + 2 * actual for told in (first, second)]
            pairs.append(OutcomeGain.cells(codes[0], codes[1]))
        return cls(tuple(pairs), np.array([*known, len(labels) - sum(known)], dtype=np.int64))


@dataclass(frozen=True)
class ClassGains(Procedure):
    """The gain in the average of a score of outcomes over classes; one-sided, so the upper end is always 1.

    Attributes:
        score: One of `everhold.guarantees.intervals.pairs.ratio_gain.RATIOS`.
        rows: Sealed rows, which are independent.
        weighted: Whether classes are weighted by their shares of the labels.

    Examples:
        >>> labels = np.repeat([0.0, 1.0, 2.0], [4_000, 4_000, 4_000])
        >>> first, second = labels.copy(), labels.copy()
        >>> first[::10], second[::4] = (first[::10] + 1) % 3, (second[::4] + 1) % 3  # F1 .9 and .75
        >>> better = ClassGains("f1", 12_000)
        >>> seen = SeenClasses.of(labels, first, second, 3)
        >>> round(better.gain(seen), 3), round(2 * better.interval(seen, 11.0)[0] - 1, 3)
        (0.15, 0.119)
    """

    score: str
    rows: int
    weighted: bool = False

    name: ClassVar[str] = "class_gains"
    title: ClassVar[str] = "betting on the gain in each class, each with a share of the level"
    needs: ClassVar[Needs] = "statistic"
    why: ClassVar[str] = "all gains are at least what is proved of them with this probability, and so is their average"
    of_all_rows: ClassVar[bool] = False

    def interval(self, seen: SeenClasses, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`; a mean stands for the gain, as ``(1 + gain) / 2``."""
        count = len(seen.pairs)
        each = nats + math.log(count) - (math.log1p(-_OF_SHARES) if self.weighted else 0.0)
        lows = np.array([2.0 * self._of_class.interval(pairs, each)[0] - 1.0 for pairs in seen.pairs])
        if not self.weighted:
            return (1.0 + float(np.mean(lows))) / 2.0, 1.0
        shares = ClopperPearson(rows=self.rows, training=self.rows)
        both_sides = nats + math.log(2.0) + math.log((count + 1) / _OF_SHARES)
        ends = np.array([shares.interval(number / self.rows, both_sides) for number in seen.labels.tolist()])
        gains = np.append(lows, 0.0)  # labels of no class gain nothing
        least, _ = weighted_average(np.append(gains, ends[:, 0]), np.append(gains, ends[:, 1]))
        return (1.0 + least) / 2.0, 1.0

    def gain(self, seen: SeenClasses) -> float:
        """The gain on the sealed rows."""
        gains = np.array([self._of_class.gain(pairs) for pairs in seen.pairs])
        return float(gains @ seen.labels[:-1] / max(self.rows, 1)) if self.weighted else float(np.mean(gains))

    @property
    def _of_class(self) -> RatioGain:
        return RatioGain(self.score, self.rows)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """See `Procedure.expected`: nothing is known beforehand."""
        return 0.0, 1.0

    def standard_error(self, guess: float) -> float:
        """See `Procedure.standard_error`: no gain is guessed."""
        return 0.5

    @property
    def worth(self) -> float:
        """See `Procedure.worth`: rows are as many as there are."""
        return float(self.rows)
