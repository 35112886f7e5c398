"""Thresholdout: the guess while it agrees with the sealed average, a noisy release where it does not (S1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import scipy

from everhold.mechanisms.accounting import Accounting
from everhold.mechanisms.base import REFUSED, Promise, Quote, Replies, Source, State, Traits, usable_scales
from everhold.mechanisms.checks_guesses import ChecksGuesses, check_slack, planned_surprises
from everhold.mechanisms.presentation import Presentation
from everhold.privacy.curves import PureCurve
from everhold_privacy.guarantees.transfer import LeakageBound, leakage_bound
from everhold_privacy.mechanisms.additive import TRANSFER_PAGE, TRANSFER_THEOREM, Transferred
from everhold_privacy.mechanisms.thresholdout_tuning import Scales, best_scales

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.evaluations import Evaluations
    from everhold.randomness import Noise

Drafted = TypeVar("Drafted", bound="Thresholdout")


@dataclass(frozen=True, slots=True)
class _Error:
    """Everything that is added to the threshold: the radius is ``threshold + total``."""

    excess: float  # x, what noise in the comparison may add
    leak: LeakageBound
    exceedance: float
    beta: float
    two_sided: bool  # whether needless spending is covered too

    @property
    def total(self) -> float:
        return self.excess + self.leak.total + self.exceedance / self.beta


class EpochAccounting(Accounting["Thresholdout"]):
    """Some answers spend a surprise, which ends an epoch."""

    def reachable(self, state: State) -> bool:
        """Not more of either than were planned."""
        return state.asked <= self.mechanism.queries and state.charged <= self.mechanism.surprises

    def losable(self, *, queries: int, charges: int) -> bool:
        """A recovery ends an epoch without a query, or all epochs that were left."""
        return charges <= self.mechanism.surprises

    def after_loss(self, state: State, *, asked: int | None, charged: int | None, noise: Noise) -> State:
        """The epoch in progress ends and counts as one: its threshold may be lost, and never comes into force again."""
        after = super().after_loss(state, asked=asked, charged=charged, noise=noise)
        ended = min(after.charged + 1, self.mechanism.surprises)
        return State(after.asked, ended, self.mechanism.threshold_noise(noise))

    def charges_left(self, state: State) -> int:
        """Surprises."""
        return self.mechanism.surprises - state.charged


@dataclass(frozen=True, kw_only=True)
class Thresholdout(ChecksGuesses, Transferred):
    """Sparse vector technique with a training set (Dwork et al. 2015; Zhao 2017, Algorithm 1).

    Query j is answered by its guess g while ``|f(X) - g| + Lap(comparison) <= threshold + Lap(threshold_scale)``,
    else by ``f(X) + Lap(answer)``; then one surprise is spent and the noisy threshold is drawn anew. After B surprises
    or m queries everything is refused. All three scales and the threshold are in the units of a mean.

    Attributes:
        threshold: T, how far guess and sealed average may be apart.
        threshold_scale: Scale s1 of the noise on the threshold.
        comparison_scale: Scale s3 of the noise on each comparison.
        answer_scale: Scale s2 of the noise on each release.

    Examples:
        >>> mechanism = Thresholdout.tuned(rows=500_000, queries=1_000, surprises=10)
        >>> mechanism.promise().radius < 0.1
        True
    """

    threshold: float
    threshold_scale: float
    comparison_scale: float
    answer_scale: float

    name: ClassVar[str] = "thresholdout"
    presentation: ClassVar[Presentation] = Presentation(
        page=TRANSFER_PAGE,
        colour="#d55e00",
        explanation=(
            "Each query comes with a guess: the estimate from the training rows, or the analyst's own. If the "
            "guess is close to the average over the sealed rows, up to a noisy threshold, it is confirmed and is "
            "the answer. Otherwise the answer is the sealed average with Laplace noise, one surprise is charged "
            "and the threshold is drawn anew."
        ),
        theorem=TRANSFER_THEOREM,
    )
    traits: ClassVar[Traits] = replace(ChecksGuesses.traits, reads_leakage=True)

    @classmethod
    def accounting(cls) -> type[Accounting[Any]]:
        """See `Mechanism.accounting`."""
        return EpochAccounting

    def __post_init__(self) -> None:
        super().__post_init__()
        usable_scales(self, "threshold_scale", "comparison_scale", "answer_scale")
        if not self.threshold >= 0.0:
            raise ValueError(f"threshold is {self.threshold}; expected a number of at least 0")

    @classmethod
    def tuned(
        cls,
        *,
        rows: int,
        queries: int,
        surprises: int | None = None,
        confidence: float = 0.95,
        slack: float = 0.0,
        **shared: Any,
    ) -> Self:
        """The threshold and the scales with the smallest radius for the request; see `Mechanism.tuned`.

        So many ``surprises``, releases from the holdout, are planned: by default 10, or one for each query if fewer.
        No budget is spent on guesses closer than ``slack`` times the radius to the population's value.
        """
        check_slack(slack)
        planned = planned_surprises(surprises, queries)
        draft = cls(
            rows=rows, queries=queries, surprises=planned, confidence=confidence,
            threshold=1.0, threshold_scale=1.0, comparison_scale=1.0, answer_scale=1.0, **shared,
        )  # fmt: skip

        def leak(loss: float) -> float:
            curve = draft.dependence.leakage(PureCurve(loss, times=planned), rows)
            return leakage_bound(curve, confidence=draft.statement_confidence).total

        best = best_scales(
            leak, rows=rows, queries=queries, surprises=planned, confidence=draft.statement_confidence,
            ratio=(1.0 + slack) / (1.0 - slack),
        )  # fmt: skip
        tuned = replace(
            draft, threshold_scale=best.threshold, comparison_scale=best.comparison, answer_scale=best.answer
        )
        return _with_least_threshold(tuned, slack)

    def curve(self) -> PureCurve:
        """B-fold composition of the pure loss of one epoch, ``Delta (1/s1 + 2/s3 + 1/s2)`` (S1)."""
        scales = self.threshold_scale, self.comparison_scale, self.answer_scale
        first, comparison, answer = (self.scale_on_grid(scale) for scale in scales)
        return PureCurve(self.unit * (1.0 / first + 2.0 / comparison + 1.0 / answer), times=self.surprises)

    def spent_curve(self, state: State) -> PureCurve:
        """The epochs so far, with the one in progress, which has told of its threshold."""
        epochs = min(state.charged + 1, self.surprises) if state.asked else 0
        return replace(self, surprises=epochs).curve() if epochs else PureCurve(0.0)

    def _error(self, leak: LeakageBound, *, require_two_sided: bool = False) -> _Error:
        """S1's error beyond the threshold, at its best x; covers needless spending wherever the threshold allows it."""
        most = self.threshold - self.drawn_scale(self.answer_scale)  # the wrong-side term needs T - x >= s2
        two_sided = require_two_sided or most > 0.0

        first, comparison, answer = map(
            self.drawn_scale, (self.threshold_scale, self.comparison_scale, self.answer_scale)
        )
        scales = Scales(first, comparison, answer, self.queries, self.surprises, step=1.0 / self.steps)

        def at(x: float) -> _Error:
            exceedance = scales.exceedance(excess=x, threshold=self.threshold, two_sided=two_sided)
            return _Error(x, leak, exceedance, self.beta, two_sided)

        upper = max(most, 0.0) if two_sided else 1.0
        scale = self.threshold_scale + self.comparison_scale
        best = scipy.optimize.minimize_scalar(
            lambda x: at(x).total,
            bounds=(0.0, min(upper, 60.0 * scale)),
            method="bounded",
            options={"xatol": 1e-7 * scale},
        )
        return at(float(best.x))

    def start(self, noise: Noise) -> State:
        """The first noisy threshold."""
        return State(carried_noise=self.threshold_noise(noise))

    def threshold_noise(self, noise: Noise) -> int:
        """Noise on the threshold of an epoch, in grid steps."""
        return int(noise.laplace(self.scale_on_grid(self.threshold_scale), 1, stream="threshold")[0])

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Training answers in runs; each release ends an epoch."""
        size = len(evaluations.totals)
        replies = Replies.refused(size)
        count = min(size, self.queries - state.asked) if state.charged < self.surprises else 0
        totals, guesses = evaluations.totals.sum(axis=1)[:count], evaluations.guesses[:count]
        comparison = noise.laplace(self.scale_on_grid(self.comparison_scale), count, stream="comparison")
        distance = np.abs(totals - guesses) + comparison
        margin, epsilon = self._margin_and_epsilon()
        done, threshold = 0, math.floor(self.threshold * self.steps)
        while done < count and state.charged < self.surprises:
            above = distance[done:] > threshold + state.carried_noise
            quiet = int(np.argmax(above)) if bool(np.any(above)) else count - done
            values = guesses[done : done + quiet] / self.steps
            interval = self.transferred(values, margin=margin, epsilon=epsilon)
            replies.put(slice(done, done + quiet), values, interval, Source.GUESS)
            state, done = state.after(asked=quiet, charged=0), done + quiet
            if done < count:
                released = int(noise.laplace(self.scale_on_grid(self.answer_scale), 1, stream="answer")[0])
                values = np.array([(int(totals[done]) + released) / self.steps])
                interval = self.transferred(values, margin=margin, epsilon=epsilon)
                replies.put(slice(done, done + 1), values, interval, Source.HOLDOUT)
                state = State(state.asked + 1, state.charged + 1, self.threshold_noise(noise))
                done += 1
        return state, replies

    def _margin_and_epsilon(self) -> tuple[float, float]:
        error = _cached_error(self)
        return self.threshold + error.total - error.leak.bias, error.leak.epsilon

    def promise(self) -> Promise:
        """S1 with the exact curve of all epochs; for the answers and against needless spending at once."""
        error = _cached_error(self)
        beyond = max(self.threshold - error.total - self.rounding, 0.0) if error.two_sided else None
        details = {
            "threshold": self.threshold,
            "alpha": self.threshold + error.excess,
            "epsilon": error.leak.epsilon,
            "excess": (error.exceedance + error.leak.delta) / self.beta,
        }
        radius, privacy = self.threshold + error.total + self.rounding, (self.curve().epsilon(0.0), 0.0)
        return self._promised(radius, details, privacy=privacy, spends_only_beyond=beyond)

    def surely_answers(
        self, state: State, most: int, procedures: Sequence[Procedure] | None = (), *, silent: bool = False
    ) -> int:
        """Each of them may spend a surprise."""
        return min(super().surely_answers(state, most), max(self.surprises - state.charged, 0))

    def quote(self, state: State, *, guess: float | None = None, procedure: Procedure | None = None) -> Quote:
        """The radius is the same whether the guess holds or not."""
        if not self.surely_answers(state, 1):
            return REFUSED
        radius = self.promise().radius
        return Quote(radius, radius, 0, 1, refused=False)

    def remaining(self, state: State) -> dict[str, int]:
        """Queries and surprises left."""
        return {
            "queries": 0 if state.charged >= self.surprises else max(self.queries - state.asked, 0),
            "surprises": max(self.surprises - state.charged, 0),
        }


@lru_cache(maxsize=256)
def _cached_error(mechanism: Thresholdout) -> _Error:
    return mechanism._error(_leak(mechanism))


def _leak(mechanism: Thresholdout) -> LeakageBound:
    curve = mechanism.dependence.leakage(mechanism.curve(), mechanism.rows)
    return leakage_bound(curve, confidence=mechanism.statement_confidence)


def _with_least_threshold(candidate: Drafted, slack: float) -> Drafted:
    """The least T whose error E leaves ``E <= T (1-c)/(1+c)``; then the radius T + E is least, too."""
    leak = _leak(candidate)
    for _ in range(40):  # a contraction: E barely depends on T
        threshold = candidate._error(leak, require_two_sided=True).total * (1.0 + slack) / (1.0 - slack)
        settled = abs(threshold - candidate.threshold) <= 1e-12 * threshold
        candidate = replace(candidate, threshold=threshold)
        if settled:
            break
    return candidate
