"""Gains in a ratio of two means of outcomes, such as F1 (Lemma R), and in the average of two (macro F1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from everhold.guarantees.intervals.base import Cells
from everhold.guarantees.intervals.pairs.claims import GateClaim
from everhold.guarantees.intervals.pairs.outcome_gain import OUTCOMES, OutcomeGain, counts_of_pairs
from everhold.guarantees.intervals.pairs.ratio_claims import RatioUnits

RATIOS = {
    "f1": ((0.0, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.5, 0.5, 1.0)),
    "precision": ((0.0, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.0, 1.0)),
    "recall": ((0.0, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0, 1.0)),
}
"""By score: numerator and denominator in [0, 1] by the code of the outcome."""

_PARTS = {**RATIOS, "f1_of_0": ((0.0, 1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.5, 0.5, 0.0))}
_OF_MACRO = ("f1", "f1_of_0")
_LEAST_GAIN = -1.0 + 1e-9


def _possible() -> NDArray[np.intp]:
    """Pairs of outcomes that a row can have: both models meet the same label."""
    own, other = np.divmod(np.arange(len(OUTCOMES) ** 2), len(OUTCOMES))
    alike = (own > OUTCOMES.index("false positive")) == (other > OUTCOMES.index("false positive"))
    return np.flatnonzero((own > 0) & (other > 0) & alike)


_PAIRS = _possible()


@dataclass(frozen=True)
class RatioGain(OutcomeGain):
    """Bets on the gain of a ratio, one of `RATIOS`.

    Numerator and denominator of the ratio follow from the outcome.

    Examples:
        >>> better = RatioGain("f1", 20_000)
        >>> outcomes = np.repeat([4, 3, 1], [3_000, 1_000, 16_000])  # F1 .857
        >>> champion = np.repeat([4, 3, 1], [2_000, 2_000, 16_000])  # F1 .667
        >>> low, high = better.interval(better.cells(outcomes, champion), 11.0)
        >>> round(2 * low - 1, 3), high
        (0.159, 1.0)
    """

    name: ClassVar[str] = "ratio_gain"
    title: ClassVar[str] = "betting on the gain at each ratio that the other model may have"
    why: ClassVar[str] = (
        "at the true ratio of the other model, fair bets on it and on the paired mean gain that much with this "
        "probability at most"
    )

    def proves(self, seen: Cells, gain: float, nats: float) -> bool:
        """See `OutcomeGain.proves`."""
        top, bottom = (np.array(part) for part in _PARTS[self.score])
        own, other = np.divmod(_PAIRS, len(OUTCOMES))
        units = RatioUnits(
            np.stack([top[own], top[other], bottom[own], bottom[other]]), np.ones(len(own)), (0.0, 1.0), (0.0, 1.0),
            lower=False, largest=1.0, spent=np.zeros(len(own), dtype=bool), most_floor=1.0,
            counts=counts_of_pairs(seen).ravel()[_PAIRS],
        )  # fmt: skip
        claim = GateClaim(self.score, gain, ratio=True)
        return units.first_look(claim, planned=self.rows, nats=nats, looks=[len(own)]) == 0

    def gain(self, seen: Cells) -> float:
        """See `OutcomeGain.gain`."""
        top, bottom = (np.array(part) for part in _PARTS[self.score])
        counts = counts_of_pairs(seen)
        ratios = [of @ top / max(of @ bottom, 1e-300) for of in (counts.sum(axis=1), counts.sum(axis=0))]
        return float(ratios[0] - ratios[1])


@dataclass(frozen=True)
class MacroGain(OutcomeGain):
    """The gain in macro F1 of labels 0 and 1: the average of the gains in both F1, each at half of the level.

    Examples:
        >>> better = MacroGain("f1_macro", 20_000)
        >>> outcomes = np.repeat([4, 3, 1], [3_000, 1_000, 16_000])
        >>> champion = np.repeat([4, 3, 1], [2_000, 2_000, 16_000])
        >>> seen = better.cells(outcomes, champion)
        >>> round(better.gain(seen), 3), round(2 * better.interval(seen, 11.0)[0] - 1, 3)
        (0.109, 0.091)
    """

    name: ClassVar[str] = "macro_gain"
    title: ClassVar[str] = "betting on the gain in the F1 of either label, each with half of the level"
    why: ClassVar[str] = "both gains are at least what is proved of them with this probability, and so is their average"

    def proves(self, seen: Cells, gain: float, nats: float) -> bool:
        """See `OutcomeGain.proves`."""
        one, zero = (RatioGain(part, self.rows) for part in _OF_MACRO)
        left = 2.0 * gain - (2.0 * zero.interval(seen, nats)[0] - 1.0)
        return left < 1.0 and one.proves(seen, max(left, _LEAST_GAIN), nats + math.log(2.0))

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`."""
        lows = [RatioGain(part, self.rows).interval(seen, nats + math.log(2.0))[0] for part in _OF_MACRO]
        return sum(lows) / 2.0, 1.0

    def gain(self, seen: Cells) -> float:
        """See `OutcomeGain.gain`."""
        return sum(RatioGain(part, self.rows).gain(seen) for part in _OF_MACRO) / 2.0
