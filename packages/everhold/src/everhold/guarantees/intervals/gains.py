"""Gains of one model over another in a score of outcomes, from the counts of pairs of outcomes.

Each row has an outcome for each of two models: a true negative, a false positive, a false negative or a true positive.
A row on which a model fails has the outcome of the other class (`everhold.values.evaluation`), so the labels are the
same for both models. Rows are independent, so the counts of pairs are all that the bets need (docs/theory/gates.md).

*Ratios such as F1* are bet on as claims are, at each ratio of the other model (Lemma R). Averages of ratios over
classes share the level among the classes.

*Balanced accuracy (Lemma B).* Let d be 1 on a row where only the first model is right, -1 where only the second one is,
and 0 elsewhere. Let g and h be its means among the rows of label 1 and of label 0: the gains in their recalls. At the
true g and h, bets on ``d - g`` on rows of label 1 and on ``d - h`` on rows of label 0, with stakes that are not
negative, are a fair game. The capital falls with g and with h. If the gain ``(g + h) / 2`` is at most f, h is at most
``2 f - g``. So a gain above f is proved if the capital with ``h = 2 f - g`` reaches 1 / level at each g. The share of
label 1 does not matter.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from everhold.guarantees.intervals.base import CELLS, Cells, Needs, Procedure
from everhold.guarantees.intervals.boxes import weighted_average
from everhold.guarantees.intervals.claims import RatioUnits, stakes_for
from everhold.guarantees.intervals.joint import MovedBets, doubt_of, first_excluded, log_of_sum
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.values.evaluation import says

OUTCOMES = ("none", "true negative", "false positive", "false negative", "true positive")
"""Outcomes of a row, by their codes; no row has the code 0."""

RATIOS = {
    "f1": ((0.0, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.5, 0.5, 1.0)),
    "precision": ((0.0, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.0, 1.0)),
    "recall": ((0.0, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0, 1.0)),
}
"""By score: numerator and denominator in [0, 1] by the code of the outcome."""

_LABELS = ((1, 2), (3, 4))  # codes of the outcomes of label 0, and of label 1


def losses_of_pairs(score: str) -> tuple[tuple[float, float], ...]:
    """Return what one row can take from a bet on two models' ratios, as in `SeenArms.losses`.

    Examples:
        >>> losses_of_pairs("precision"), losses_of_pairs("f1")
        (((0.0, 0.0), (0.0, 1.0), (1.0, 0.0)), ((0.0, 0.0), (0.0, 1.0), (0.5, 0.0), (0.5, 1.0)))
    """
    top, bottom = RATIOS[score]
    return tuple(
        sorted({
            (0.0 if top[own] else bottom[own], bottom[other] if top[other] else 0.0)
            for codes in _LABELS for own in codes for other in codes
        })
    )  # fmt: skip


_KINDS = len(OUTCOMES)
_CELL_OF_PAIR = ((2 * np.arange(_KINDS**2) + 1) * CELLS) // (2 * _KINDS**2)
_OWN, _OTHER = np.divmod(np.arange(_KINDS**2), _KINDS)
_ONE = [_OWN > 2, _OTHER > 2]  # whether the label is 1
_PAIRS = np.flatnonzero((_OWN > 0) & (_OTHER > 0) & (_ONE[0] == _ONE[1]))  # both models meet the same label
_APART = np.isin(_OWN, (1, 4)).astype(int) - np.isin(_OTHER, (1, 4))  # who is right
_OTHER_LABEL = [0, 4, 3, 2, 1]  # codes where labels 0 and 1 have changed places
_SEGMENTS, _EXACT = 1_024, 64  # of gains in the recall of label 1; and those in which each pair of bets counts
_LEAST_RECALL = -1.0 + 1e-9  # gains below count as this one, at which the capital is less
_TOLERANCE, _STEPS = 1e-7, 24  # of the search for the lower limit, which takes the same time for all rows
_OF_SHARES = 0.1  # of the level, where classes are weighted by their shares
_WRONG = 0.2  # of rows on which both models say 1
_NUDGE = 1e-4  # of a share, for the influence of a pair of outcomes


def outcome_codes(values: NDArray[np.int64], unit: int) -> NDArray[np.int64]:
    """Return the code of each row's outcome, shape (rows,).

    Args:
        values: Row values ``code / 4`` in grid units, shape (rows,).
        unit: Grid steps between 0 and 1.
    """
    return np.asarray((values * (_KINDS - 1) + unit // 2) // unit)


def counts_of_pairs(seen: Cells) -> NDArray[np.float64]:
    """Return counts of pairs of outcomes, shape (outcomes of the first model, outcomes of the second one)."""
    return np.asarray(seen.counts[_CELL_OF_PAIR], dtype=np.float64).reshape(_KINDS, _KINDS)


def cells_of_pairs(counts: NDArray[np.float64] | NDArray[np.int64]) -> Cells:
    """Return counts of pairs of outcomes as a histogram, the inverse of `counts_of_pairs`."""
    cells = np.zeros(CELLS)
    cells[_CELL_OF_PAIR] = counts.ravel()
    return Cells(cells, np.zeros(CELLS), CELLS)


@dataclass(frozen=True)
class OneSidedGain(Procedure):
    """Base of bets on how much higher a model's score is than another's. The upper end of the interval is always 1.

    An interval is about ``(1 + gain) / 2``.

    Attributes:
        rows: Number of sealed rows, which are independent, or of those that are expected to count.
    """

    score: str
    rows: int

    of_all_rows: ClassVar[bool] = False  # a difference of ratios, of however few rows

    @abstractmethod
    def gain(self, seen: Any) -> float:
        """Return the first model's score less the second one's on the sealed rows. A score of no rows counts as 0."""

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return 0 and 1, because no gain is predicted."""
        return 0.0, 1.0

    def standard_error(self, guess: float) -> float:
        """Return 1/2, because no gain is guessed."""
        return 0.5

    @property
    def worth(self) -> float:
        """The number of sealed rows."""
        return float(self.rows)


@dataclass(frozen=True)
class OutcomeGain(OneSidedGain):
    """Base of bets on a gain that is computed from counts of pairs: the outcome of each model on the same row."""

    needs: ClassVar[Needs] = "cells"

    @staticmethod
    def paired(challenger: NDArray[np.int64], champion: NDArray[np.int64], *, unit: int) -> NDArray[np.int64]:
        """Return the pair of both models' outcomes on each row as one row value in grid units.

        Args:
            challenger: Outcomes of the challenger, shape (rows,), as values ``code / 4`` in grid units.
            champion: Outcomes of the champion, in the same form.
            unit: Grid steps between 0 and 1.
        """
        codes = [outcome_codes(values, unit) for values in (challenger, champion)]
        return np.asarray((2 * (_KINDS * codes[0] + codes[1]) + 1) * unit // (2 * _KINDS**2))

    @staticmethod
    def cells(challenger: NDArray[np.int64], champion: NDArray[np.int64]) -> Cells:
        """Return the counts of pairs of outcomes, from the code of each model's outcome on each row."""
        return cells_of_pairs(np.bincount(_KINDS * challenger + champion, minlength=_KINDS**2).astype(np.int64))


@dataclass(frozen=True)
class GainBets(OutcomeGain):
    """Base of bets on a gain together with an unknown second number, such as the other model's ratio."""

    @abstractmethod
    def capital(self, seen: Cells, nats: float) -> Callable[[float], float]:
        """Return the function from a gain in (-1, 1) to the log capital against this and all smaller gains.

        Args:
            seen: Counts of pairs of outcomes.
            nats: ln(1 / level), on one side.
        """

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """Return the lower end of ``(1 + gain) / 2``, at half of the level, and 1 as the upper end."""
        side, gain = nats + math.log(2.0), self.gain(seen)
        start = gain - math.sqrt(2.0 * side / self.rows)
        capital = self.capital(seen, side)
        low = first_excluded(capital, side, inside=gain, outside=-1.0, start=start, tolerance=_TOLERANCE, steps=_STEPS)
        return (1.0 + low) / 2.0, 1.0


@dataclass(frozen=True)
class RatioGain(GainBets):
    """Bets on the gain of a ratio, one of `RATIOS`.

    The outcome of a row determines its numerator and denominator.

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

    def capital(self, seen: Cells, nats: float) -> Callable[[float], float]:
        """Return the function from a gain in (-1, 1) to the log capital against this and all smaller gains."""
        stakes = stakes_for(self.rows, nats + math.log(2.0))
        return _against_ratios(self.score, tuple(stakes.tolist())).capital(counts_of_pairs(seen).ravel()[_PAIRS])

    def gain(self, seen: Cells) -> float:
        """Return the first model's ratio less the second one's on the sealed rows. A ratio over no rows counts as 0."""
        top, bottom = (np.array(part) for part in RATIOS[self.score])
        counts = counts_of_pairs(seen)
        ratios = [of @ top / max(of @ bottom, 1e-300) for of in (counts.sum(axis=1), counts.sum(axis=0))]
        return float(ratios[0] - ratios[1])


@lru_cache(maxsize=16)
def _against_ratios(score: str, stakes: tuple[float, ...]) -> MovedBets:
    """Return bets on the gain of a ratio, against all ratios that the second model may have. Cached."""
    top, bottom = (np.array(part) for part in RATIOS[score])
    own, other = _OWN[_PAIRS], _OTHER[_PAIRS]
    units = RatioUnits(
        np.stack([top[own], top[other], bottom[own], bottom[other]]), np.ones(len(own)), (0.0, 1.0), (0.0, 1.0),
        lower=False, largest=1.0, spent=np.zeros(len(own), dtype=bool),
    )  # fmt: skip
    start, further = (units.paths(gain, all_ratios=False) for gain in (0.0, 1.0))  # no numerator is the larger one
    return MovedBets(units.bets(np.ones(len(own)), np.array(stakes), most_floor=1.0), start, further - start)


@dataclass(frozen=True)
class BalancedGain(GainBets):
    """Bets on the gain in balanced accuracy of labels 0 and 1, at each gain in the recall of label 1.

    Examples:
        >>> better = BalancedGain("balanced", 20_000)
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

    def capital(self, seen: Cells, nats: float) -> Callable[[float], float]:
        """Return the function from a gain in (-1, 1) to the log capital against this and all smaller gains."""
        stakes = np.append(stakes_for(self.rows, nats + math.log(2.0)), 0.0)  # the last one of no bet
        ones, zeros = (partial(ends_of_segments, counts, stakes) for counts in apart_by_label(seen))

        def capital(gain: float) -> float:
            g = np.linspace(max(2.0 * gain - 1.0, -1.0), min(2.0 * gain + 1.0, 1.0), _SEGMENTS + 1)
            return least_product(
                *(bets(np.maximum(of, _LEAST_RECALL)) for bets, of in ((ones, g), (zeros, 2.0 * gain - g)))
            )

        return capital

    def gain(self, seen: Cells) -> float:
        """Return the mean gain in the recalls of labels 1 and 0 on the sealed rows."""
        apart = np.array([-1.0, 0.0, 1.0])
        return float(sum(counts @ apart / max(counts.sum(), 1e-300) for counts in apart_by_label(seen)) / 2.0)


def ends_of_segments(
    counts: NDArray[np.float64], stakes: NDArray[np.float64], gains: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return bounds of the logarithm of each bet's capital at both ends of each segment between two gains in a recall.

    Within a segment the logarithm is at least the smaller of its two bounds (Lemma B).

    Args:
        counts: Shape (3,): number of rows of the label with d = -1, 0 and 1.
        stakes: Stakes of the bets, shape (stakes,), with equal shares of the capital.
        gains: Above -1, shape (segments + 1,).

    Returns:
        Shape (2, stakes, segments).
    """
    (worse, same, better), parts, room = counts, stakes[:, None], 1.0 + gains
    logs = same * np.log(1.0 - parts * (gains / room)) + better * np.log(1.0 + parts * ((2.0 - room) / room))
    logs += worse * np.log(1.0 - parts) - math.log(len(stakes)) - doubt_of(counts.sum(), 1.0 + 2.0 * parts / room)
    share = np.stack([room[:-1], room[1:]]) / (0.5 * (room[:-1] + room[1:]))
    tangents = (same + better) * (np.log(share) - share + 1.0)  # of the part that is convex
    return np.asarray(np.stack([logs[:, :-1], logs[:, 1:]]) + tangents[:, None] * (parts > 0.0))


def least_product(ones: NDArray[np.float64], zeros: NDArray[np.float64]) -> float:
    """Return a lower bound of the log capital over all segments, if the bets on both labels are combined.

    The sum of both least log capitals is a bound for each segment. The bound is refined where it is smallest.
    """
    bound = log_of_sum(np.minimum(*ones), axis=0) + log_of_sum(np.minimum(*zeros), axis=0)
    order = np.argpartition(bound, _EXACT)
    some, others = order[:_EXACT], order[_EXACT:]
    pairs = np.minimum(*(ones[:, :, None, some] + zeros[:, None, :, some]))
    exact = log_of_sum(pairs.reshape(-1, _EXACT), axis=0)
    return float(min(exact.min(), bound[others].min()))


def apart_by_label(seen: Cells) -> list[NDArray[np.float64]]:
    """Return, for label 1 and for label 0, how many rows only the second, both or none, and only the first have right.

    First and second are the two models that are compared. Each array has the shape (3,).
    """
    counts = counts_of_pairs(seen).ravel()
    return [np.asarray(np.bincount(1 + _APART[of], counts[of], 3), np.float64) for of in (_ONE[0], ~_ONE[0])]


@dataclass(frozen=True, slots=True, eq=False)
class SeenClasses:
    """Pairs of two models' outcomes, counted once for each class against all others.

    Attributes:
        pairs: For each class, the counts of pairs of outcomes of this class against all others.
        labels: Number of rows by the class of their label, shape (classes + 1,); the last number is that of rows of no
            class.
    """

    pairs: tuple[Cells, ...] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(
        cls, labels: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64], classes: int
    ) -> SeenClasses:
        """Count outcomes from class numbers of shape (rows,). A label of no class is -1, and a failing row is nan."""
        known = [int(np.count_nonzero(labels == number)) for number in range(classes)]
        pairs = []
        for number in range(classes):
            actual = labels == number
            codes = [1 + says(told, labels, number) + 2 * actual for told in (first, second)]
            pairs.append(OutcomeGain.cells(codes[0], codes[1]))
        return cls(tuple(pairs), np.array([*known, len(labels) - sum(known)], dtype=np.int64))


@dataclass(frozen=True)
class ClassGains(OneSidedGain):
    """Bets on the gain in the average of one of `RATIOS` over classes.

    Attributes:
        weighted: True if classes are weighted by their shares of the labels; False if all classes have the same weight.

    Examples:
        >>> labels = np.repeat([0.0, 1.0, 2.0], [4_000, 4_000, 4_000])
        >>> first, second = labels.copy(), labels.copy()
        >>> first[::10], second[::4] = (first[::10] + 1) % 3, (second[::4] + 1) % 3  # F1 .9 and .75
        >>> better = ClassGains("f1", 12_000)
        >>> seen = SeenClasses.of(labels, first, second, 3)
        >>> round(better.gain(seen), 3), round(2 * better.interval(seen, 11.0)[0] - 1, 3)
        (0.15, 0.119)
    """

    weighted: bool = False

    name: ClassVar[str] = "class_gains"
    title: ClassVar[str] = "betting on the gain in each class, each with a share of the level"
    needs: ClassVar[Needs] = "statistic"
    why: ClassVar[str] = "all gains are at least what is proved of them with this probability, and so is their average"

    def interval(self, seen: SeenClasses, nats: float) -> tuple[float, float]:
        """Return the lower end of ``(1 + gain) / 2``, at half of the level, and 1 as the upper end."""
        count, of_class = len(seen.pairs), RatioGain(self.score, self.rows)
        each = nats + math.log(count) - (math.log1p(-_OF_SHARES) if self.weighted else 0.0)
        lows = np.array([2.0 * of_class.interval(pairs, each)[0] - 1.0 for pairs in seen.pairs])
        if not self.weighted:
            return (1.0 + float(np.mean(lows))) / 2.0, 1.0
        shares = ClopperPearson(rows=self.rows, training=self.rows)
        both_sides = nats + math.log(2.0) + math.log((count + 1) / _OF_SHARES)
        ends = np.array([shares.interval(number / self.rows, both_sides) for number in seen.labels.tolist()])
        gains = np.append(lows, 0.0)  # labels of no class gain nothing
        least, _ = weighted_average(np.append(gains, ends[:, 0]), np.append(gains, ends[:, 1]))
        return (1.0 + least) / 2.0, 1.0

    def gain(self, seen: SeenClasses) -> float:
        """Return the average of all classes' gains on the sealed rows, weighted by their labels if `weighted`."""
        gains = np.array([RatioGain(self.score, self.rows).gain(pairs) for pairs in seen.pairs])
        return float(gains @ seen.labels[:-1] / max(self.rows, 1)) if self.weighted else float(np.mean(gains))


@dataclass(frozen=True)
class MacroGain(OutcomeGain):
    """Bets on the gain in macro F1 of labels 0 and 1: the average of the gains in the F1 of both labels.

    Examples:
        >>> better = MacroGain("macro", 20_000)
        >>> outcomes = np.repeat([4, 3, 1], [3_000, 1_000, 16_000])
        >>> champion = np.repeat([4, 3, 1], [2_000, 2_000, 16_000])
        >>> seen = better.cells(outcomes, champion)
        >>> round(better.gain(seen), 3), round(2 * better.interval(seen, 11.0)[0] - 1, 3)
        (0.109, 0.091)
    """

    name: ClassVar[str] = "macro_gain"
    title: ClassVar[str] = "betting on the gain in the F1 of either label, each with half of the level"
    why: ClassVar[str] = "both gains are at least what is proved of them with this probability, and so is their average"

    def _of_both_labels(self, seen: Cells) -> SeenClasses:
        turned = counts_of_pairs(seen)[np.ix_(_OTHER_LABEL, _OTHER_LABEL)]
        return SeenClasses((seen, cells_of_pairs(turned)), np.zeros(0, dtype=np.int64))

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """Return the lower end of ``(1 + gain) / 2``, at half of the level, and 1 as the upper end."""
        return ClassGains("f1", self.rows).interval(self._of_both_labels(seen), nats)

    def gain(self, seen: Cells) -> float:
        """Return the average of the gains in the F1 of labels 0 and 1 on the sealed rows."""
        return ClassGains("f1", self.rows).gain(self._of_both_labels(seen))


GAINS: dict[str, type[OutcomeGain]] = {
    **dict.fromkeys(RATIOS, RatioGain), "balanced": BalancedGain, "macro": MacroGain,
}  # fmt: skip
"""Bets on the gain in a ratio, in the average recall and in the average F1 of labels 0 and 1."""


def gain_of(score: str, rows: int) -> OutcomeGain:
    """Return the bets on the gain in a score, which is a key of `GAINS`."""
    return GAINS[score](score, rows)


@dataclass(frozen=True)
class GainDifference(OutcomeGain):
    """Two-sided interval procedure of the difference of two models in a score of `GAINS`.

    Attributes:
        planned: Number of training rows with each pair of outcomes, or the likely numbers for public predictions; None
            if nothing is known.
    """

    planned: tuple[float, ...] | None = field(default=None, repr=False)

    name: ClassVar[str] = "ratio_difference"
    title: ClassVar[str] = "betting on the difference from both sides"
    needs: ClassVar[Needs] = "statistic"
    why: ClassVar[str] = (
        "bets on the gain from either side are fair at the true difference, and gain that much with this probability "
        "at most"
    )

    @cached_property
    def _gain(self) -> OutcomeGain:
        return gain_of(self.score, self.rows)

    def gain(self, seen: Cells) -> float:
        """Return the first model's score less the second one's on the sealed rows."""
        return self._gain.gain(seen)

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """Return both ends of the interval of ``(1 + difference) / 2``, each at half of the level."""
        low, _ = self._gain.interval(seen, nats)
        least, _ = self._gain.interval(cells_of_pairs(counts_of_pairs(seen).T), nats)
        return low, 1.0 - least

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval around the guess that is as wide as for outcomes like the planned ones."""
        below, above = _ends_around(self.score, self.rows, self.planned, nats)
        return max(guess - below, 0.0), min(guess + above, 1.0)

    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess, from the influence of a row on the difference."""
        trained = self.rows if self.planned is None else max(sum(self.planned), 1)
        return 0.5 * math.sqrt(self._variance * (1.0 / self.rows + 1.0 / trained))

    @property
    def worth(self) -> float:
        """Number of yes-or-no rows whose share would have the same standard error."""
        return self.rows / max(self._variance, 1e-300)

    @cached_property
    def _variance(self) -> float:
        """Return the variance of a row's influence on the difference."""
        counts = counts_of_pairs(_likely(self.rows, self.planned))
        shares = (counts / counts.sum()).ravel()
        there = np.flatnonzero(shares)

        def gain_at(nudged: NDArray[np.float64]) -> float:
            return self._gain.gain(cells_of_pairs(nudged.reshape(counts.shape)))

        influence = [(gain_at(shares + _NUDGE * (np.eye(len(shares))[at] - shares)) - gain_at(shares)) / _NUDGE
                     for at in there]  # fmt: skip
        return float(shares[there] @ np.square(influence))


def likely_pairs(first: NDArray[np.bool_], second: NDArray[np.bool_], share: float | None = None) -> tuple[float, ...]:
    """Return counts of outcome pairs as expected where predictions are public and labels are not.

    Where the predictions differ, each model is taken to be right as often as the other. Where both are 1, four rows of
    five are taken to have label 1.

    Args:
        first: Predictions of the first model, shape (rows,): True for label 1.
        second: Predictions of the second model, shape (rows,): True for label 1.
        share: Likely share of label 1; by default that of the predictions.
    """
    said = np.array([[np.count_nonzero((first == own) & (second == other)) for other in (0, 1)] for own in (0, 1)])
    apart = (said[0, 1] + said[1, 0]) / 2.0
    wanted = said[1, 1] + apart if share is None else share * len(first)
    ones = said / 2.0
    ones[1, 1] = min((1.0 - _WRONG) * said[1, 1], max(wanted - apart, 0.0))
    ones[0, 0] = min(max(wanted - apart - ones[1, 1], 0.0), float(said[0, 0]))
    counts = np.zeros((_KINDS, _KINDS))
    counts[1:3, 1:3], counts[3:5, 3:5] = said - ones, ones
    return tuple(counts.ravel().tolist())


def _likely(rows: int, planned: tuple[float, ...] | None) -> Cells:
    """Return the planned counts of outcome pairs scaled to ``rows`` rows, or those of two similar models."""
    if planned is None:
        counts = np.zeros((_KINDS, _KINDS))
        counts[_LIKELY[0], _LIKELY[1]] = rows * _LIKELY_SHARES
        return cells_of_pairs(counts)
    return cells_of_pairs(np.array(planned, dtype=np.float64) * (rows / max(sum(planned), 1)))


@lru_cache(maxsize=256)
def _ends_around(score: str, rows: int, planned: tuple[float, ...] | None, nats: float) -> tuple[float, float]:
    """Return how far both ends of the interval are from the difference, if outcomes are as planned."""
    likely, procedure = _likely(rows, planned), GainDifference(score, rows)
    centre = (1.0 + procedure.gain(likely)) / 2.0
    low, high = procedure.interval(likely, nats)
    return max(centre - low, 0.0), max(high - centre, 0.0)


_LIKELY = np.array([[1, 4, 3, 4, 3, 2, 1], [1, 4, 3, 3, 4, 1, 2]])
_LIKELY_SHARES = np.array([0.78, 0.13, 0.04, 0.0125, 0.0125, 0.0125, 0.0125])
"""Pairs of outcomes of two models that differ on one row in twenty, by code, and their shares."""
