"""The gain in balanced accuracy, from the counts of pairs of outcomes (Lemma B).

Let d be 1 on a row where only the first model is right, -1 where only the second one is, and 0 elsewhere. Let g and h
be its means among the rows of label 1 and of label 0: the gains in their recalls. The gain in balanced accuracy is
``(g + h) / 2``. At the true g and h, bets on ``d - g`` on rows of label 1 and on ``d - h`` on rows of label 0, with
stakes that are not negative, are a fair game. The capital falls with g and with h. If the gain is at most f, h is at
most ``2 f - g``. So a gain above f is proved if the capital with ``h = 2 f - g`` reaches 1 / level at each g. The share
of label 1 does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from everhold.guarantees.intervals.base import Cells
from everhold.guarantees.intervals.pairs.claims import ROUNDING, stakes_for
from everhold.guarantees.intervals.pairs.outcome_gain import OUTCOMES, OutcomeGain, counts_of_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

_POINTS = 1_025  # of gains in the recall of label 1
_LEAST = 1e-9

_, _TRUE_NEGATIVE, _, _FALSE_NEGATIVE, _TRUE_POSITIVE = range(len(OUTCOMES))


@dataclass(frozen=True)
class BalancedGain(OutcomeGain):
    """Bets on the gain in balanced accuracy of labels 0 and 1, at each gain in the recall of label 1.

    Examples:
        >>> better = BalancedGain("balanced_accuracy", 20_000)
        >>> outcomes = np.repeat([4, 3, 1], [3_000, 1_000, 16_000])
        >>> champion = np.repeat([4, 3, 1], [2_000, 2_000, 16_000])
        >>> seen = better.cells(outcomes, champion)
        >>> round(better.gain(seen), 3), round(2 * better.interval(seen, 11.0)[0] - 1, 3)
        (0.125, 0.107)
    """

    name: ClassVar[str] = "balanced_gain"
    title: ClassVar[str] = "betting on the gains in both recalls that add up to the gain"
    why: ClassVar[str] = (
        "at the true gains in both recalls, fair bets on the rows of either label gain that much with this "
        "probability at most"
    )

    def proves(self, seen: Cells, gain: float, nats: float) -> bool:
        """See `OutcomeGain.proves`."""
        points = np.linspace(max(2.0 * gain - 1.0, -1.0), min(2.0 * gain + 1.0, 1.0), _POINTS)
        segments = np.stack([points[:-1], points[1:]])  # of gains in the recall of label 1
        stakes = stakes_for(self.rows, nats + math.log(2.0))
        ones, zeros = (
            _log_capital(counts, means, stakes)
            for counts, means in zip(_apart_by_label(seen), (segments, 2.0 * gain - segments), strict=True)
        )
        capital = np.logaddexp.reduce((ones[..., :, None] + zeros[..., None, :]).min(axis=0), axis=(1, 2))
        return bool(np.all(capital - 2.0 * math.log(ones.shape[-1]) >= nats + ROUNDING))

    def gain(self, seen: Cells) -> float:
        """See `OutcomeGain.gain`."""
        return float(sum(counts @ _DIFFERENCES / max(counts.sum(), 1e-300) for counts in _apart_by_label(seen)) / 2.0)


_DIFFERENCES = np.array([-1.0, 0.0, 1.0])


def _log_capital(
    counts: NDArray[np.float64], means: NDArray[np.float64], stakes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Logarithms of the capital of bets against a mean, at both ends of segments. In between they are concave.

    A factor is ``1 + c (d - g) / (1 + g)``, so that c is lost at most. Its logarithm is a concave function of g less
    ``ln(1 + g)``, which is replaced by its tangent at the middle of the segment, and so by more.

    Args:
        counts: Shape (3,): rows by d = -1, 0, 1.
        means: Shape (2, segments), from -1 to 1.
        stakes: Shape (stakes,): c, in (0, 1).

    Returns:
        Shape (2, segments, stakes + 1), the last one of no bet.
    """
    middle = np.maximum(1.0 + means.mean(axis=0), _LEAST)
    tangent = np.log(middle) + (1.0 + means - middle) / middle
    left, bet = (1.0 - stakes) * (1.0 + means)[..., None], counts[0] * np.log1p(-stakes)
    gained = bet + counts[1] * np.log(left + stakes) + counts[2] * np.log(left + 2.0 * stakes)
    return np.pad(gained - (counts[1] + counts[2]) * tangent[..., None], ((0, 0), (0, 0), (0, 1)))


def _apart_by_label(seen: Cells) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Numbers of rows of label 1 and of label 0 by d = -1, 0, 1, each of shape (3,)."""
    own, other = np.divmod(np.arange(len(OUTCOMES) ** 2), len(OUTCOMES))
    label = np.isin(own, (_FALSE_NEGATIVE, _TRUE_POSITIVE))
    right = [np.isin(codes, (_TRUE_NEGATIVE, _TRUE_POSITIVE)).astype(np.int64) for codes in (own, other)]
    apart, counts = 1 + right[0] - right[1], counts_of_pairs(seen).ravel()
    ones, zeros = (np.bincount(apart[of], counts[of], minlength=3).astype(np.float64) for of in (label, ~label))
    return ones, zeros
