"""Thresholdout: confirms the guess while it agrees with the sealed average, and releases a noisy one if not (S1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import scipy
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from everhold.arguments import below_one
from everhold.mechanisms import Promise, Quote, Replies, Source, State, Traits
from everhold.mechanisms.accounting import Accounting
from everhold.mechanisms.base import REFUSED, ChecksGuesses, planned_surprises, usable_scales
from everhold.mechanisms.records import Presentation
from everhold_privacy.curves import PureCurve
from everhold_privacy.guarantees import (
    LeakageBound,
    comparison_exceedance,
    laplace_exceedance,
    laplace_pair_tail,
    leakage_bound,
    wrong_side_exceedance,
)
from everhold_privacy.leakage import leakage
from everhold_privacy.mechanisms.additive import LEAKED, TRANSFERRED, Transferred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.records import Evaluations
    from everhold.randomness import Noise


Point = NDArray[np.float64]

_THREE, _FIVE = np.array([-1.0, 0.0, 1.0]), np.array([-1.0, -0.7, 0.0, 0.7, 1.0])
_MOST_ROUNDS = 12
_VACUOUS = 1e6  # thresholds beyond are all alike
_WIDTHS = (0.5, 0.1, 0.02)
_USELESS = 0.5
_MOST_STEPS_DOWN = 12  # down to losses e^-11 times as large


@dataclass(frozen=True, slots=True)
class Scales:
    """Noise scales of Thresholdout in the units of a mean, and how often each is drawn.

    Attributes:
        threshold: s1, of the noise on the threshold.
        comparison: s3, of the noise on each comparison.
        answer: s2, of the noise on each release.
        queries: Planned number m of queries, each with one comparison.
        surprises: Planned number B of surprises, each with one release.
        step: One step of the grid of sealed means.
    """

    threshold: float
    comparison: float
    answer: float
    queries: int
    surprises: int
    step: float = 0.0

    @classmethod
    def sharing(
        cls, loss: float, comparison_weight: float, answer_weight: float, *, rows: int, queries: int, surprises: int
    ) -> Self:
        """Return scales with which an epoch has the privacy loss ``loss = (1/s1 + 2/s3 + 1/s2)/n``.

        The weights 1, `comparison_weight` and `answer_weight` divide the loss among its three terms.
        """
        unit = (1.0 + comparison_weight + answer_weight) / (rows * loss)
        return cls(unit, 2.0 * unit / comparison_weight, unit / answer_weight, queries, surprises)

    def exceedance(self, *, excess: float, threshold: float, two_sided: bool) -> float:
        """Return the exceedance r of S1 at alpha = T + x, where T is `threshold` and x is `excess`.

        Args:
            excess: x, the part of alpha that the noise of comparisons may use up, in the units of a mean.
            threshold: T, the largest distance of a guess from the sealed mean that is confirmed, apart from noise.
            two_sided: Whether r also covers releases for guesses that should have been confirmed. If so, r is infinite
                unless ``T - x >= s2``.
        """
        asked = {"queries": self.queries, "surprises": self.surprises}
        scales = {"threshold_scale": self.threshold, "comparison_scale": self.comparison}
        passed = comparison_exceedance(excess=excess, **scales, **asked)  # type: ignore[arg-type]
        released = laplace_exceedance(alpha=threshold + excess, scale=self.answer, answers=self.surprises)
        if not two_sided:
            return passed + released
        if threshold - excess < self.answer:
            return math.inf
        tail = laplace_pair_tail(excess=max(excess - self.step, 0.0), **scales)  # one step of the grid earlier
        side = wrong_side_exceedance(distance=threshold - excess, tail=tail, answer_scale=self.answer, **asked)
        return 2.0 * passed + released + side  # a comparison can fail towards release as well as towards the guess

    def least_threshold(self, *, excess: float, leak: float, beta: float, ratio: float, start: float) -> float:
        """Return the least T of at least ``ratio (x + leak + r/beta)``, by iteration, as r barely depends on T."""
        floor = (excess + self.answer) * (1.0 + 1e-12)  # the wrong-side term needs T - x >= s2
        before, threshold = 0.0, min(max(start, floor), _VACUOUS)
        for _ in range(20):
            exceedance = self.exceedance(excess=excess, threshold=threshold, two_sided=True)
            before, threshold = threshold, max(ratio * (excess + leak + exceedance / beta), floor)
            if threshold > _VACUOUS or abs(before - threshold) <= 1e-10 * threshold:
                break
        return min(max(before, threshold), _VACUOUS)


def best_scales(
    leak: Callable[[float], float], *, rows: int, queries: int, surprises: int, confidence: float, ratio: float
) -> Scales:
    """Return the scales with the least threshold, and so with the smallest radius.

    Args:
        leak: ``tanh(eps/4) + leak(eps)/beta`` at its least, for the pure loss of one epoch.
        rows: Number of sealed rows n.
        queries: Planned number m of queries.
        surprises: Planned number B of surprises.
        confidence: 1 - beta.
        ratio: ``(1+c)/(1-c)`` for slack c: the threshold is so many times the error beyond it.
    """
    search = _Search(leak, rows=rows, queries=queries, surprises=surprises, beta=1.0 - confidence, ratio=ratio)
    point, threshold = search.start(), 1.0
    widths = list(_WIDTHS)
    for _ in range(_MOST_ROUNDS):
        before, point = point, search.around(point, widths[0], threshold)
        threshold = search.threshold(point, leak(math.exp(point[0])), threshold)
        if abs(point[0] - before[0]) < 0.9 * widths[0]:  # else the optimum lies further on: look there as widely
            widths.pop(0)
        if not widths:
            break
    return search.scales(point)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """Search for the least threshold over ``ln (epoch's loss, weight of comparison, weight of answer, x n loss)``."""

    leak: Callable[[float], float] = field(kw_only=False)
    rows: int
    queries: int
    surprises: int
    beta: float
    ratio: float

    def start(self) -> Point:
        """Return a first point of the right order of magnitude, where leakage balances noise.

        Where rows depend on each other the best loss may be hundreds of times smaller than for independent ones, and
        in between all thresholds are equally useless: go down by steps until the threshold rises again.
        """
        spread = math.log(4.0 * self.queries * self.surprises / self.beta)
        loss = math.sqrt(12.0 * spread / (self.rows * math.sqrt(self.surprises)))
        best, least = None, math.inf
        for step in range(_MOST_STEPS_DOWN):
            point = np.array([math.log(loss) - step, 0.5, -0.3, math.log(6.0 * spread)])
            threshold = self.threshold(point, self.leak(math.exp(point[0])), 1.0)
            if best is not None and threshold > least and least < _USELESS:
                break
            if threshold < least:
                best, least = point, threshold
        return point if best is None else best

    def scales(self, point: Point) -> tuple[Scales, float]:
        """Return the scales and the x of a point."""
        loss, comparison, answer, excess = np.exp(np.minimum(point, 50.0)).tolist()
        chosen = Scales.sharing(
            loss, comparison, answer, rows=self.rows, queries=self.queries, surprises=self.surprises
        )  # fmt: skip
        return chosen, excess / (self.rows * loss)

    def threshold(self, point: Point, leak: float, start: float) -> float:
        """Return the least threshold that is proved with the noise scales of a point."""
        chosen, excess = self.scales(point)
        return chosen.least_threshold(excess=excess, leak=leak, beta=self.beta, ratio=self.ratio, start=start)

    def around(self, center: Point, width: float, start: float) -> Point:
        """Return the best point with about the privacy loss of the centre, up to a factor ``e^width``."""
        log_leak = _interpolated(self.leak, float(center[0]), width)

        def log_threshold(point: Point) -> float:
            off = max(abs(float(point[0] - center[0])) - width, 0.0)  # the interpolation says nothing out there
            if off > width:
                return 1e3
            return math.log(self.threshold(point, math.exp(log_leak(float(point[0]))), start)) + off

        simplex = center + np.vstack([np.zeros(4), 0.6 * width * np.eye(4)])
        found = scipy.optimize.minimize(
            log_threshold,
            center,
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "xatol": 1e-3 * width, "fatol": 1e-10, "maxiter": 400},
        )
        return np.asarray(found.x, dtype=np.float64)


def _interpolated(leak: Callable[[float], float], center: float, width: float) -> Callable[[float], float]:
    """Return an interpolation of the logarithm of the leak by a polynomial in the logarithm of the privacy loss."""
    nodes = _FIVE if width == _WIDTHS[0] else _THREE
    values = [math.log(leak(math.exp(center + width * node))) for node in nodes]
    fit = Polynomial.fit(nodes, values, deg=len(nodes) - 1, domain=[-1, 1], window=[-1, 1])
    coefficients = fit.coef.tolist()

    def log_leak(log_loss: float) -> float:
        at, total = (log_loss - center) / width, 0.0
        for coefficient in reversed(coefficients):
            total = total * at + coefficient
        return total

    return log_leak


Drafted = TypeVar("Drafted", bound="Thresholdout")


@dataclass(frozen=True, slots=True)
class _Error:
    """Terms that the radius has in addition to the threshold: the radius is ``threshold + total``."""

    excess: float  # x, what noise in the comparison may add
    leak: LeakageBound
    exceedance: float
    beta: float
    two_sided: bool  # whether needless spending is covered too

    @property
    def total(self) -> float:
        return self.excess + self.leak.total + self.exceedance / self.beta


class EpochAccounting(Accounting["Thresholdout"]):
    """Accounting of Thresholdout, where an answer that spends a surprise ends an epoch."""

    def reachable(self, state: State) -> bool:
        """Return whether a state can occur, with no more queries and surprises used than planned."""
        return state.asked <= self.mechanism.queries and state.charged <= self.mechanism.surprises

    def losable(self, *, queries: int, charges: int) -> bool:
        """Return whether a recovery is possible after the loss of these answers."""
        return charges <= self.mechanism.surprises

    def after_loss(self, state: State, *, asked: int | None, charged: int | None, noise: Noise) -> State:
        """Return the state after a loss, which ends the epoch in progress because its threshold may be lost."""
        after = super().after_loss(state, asked=asked, charged=charged, noise=noise)
        ended = min(after.charged + 1, self.mechanism.surprises)
        return State(after.asked, ended, self.mechanism.threshold_noise(noise))

    def charges_left(self, state: State) -> int:
        """Return the number of remaining surprises."""
        return self.mechanism.surprises - state.charged


@dataclass(frozen=True, kw_only=True)
class Thresholdout(ChecksGuesses, Transferred):
    """Mechanism that charges a surprise only if a guess is far from the sealed average, with noise on the comparison.

    Query j is answered by its guess g while ``|f(X) - g| + Lap(comparison) <= threshold + Lap(threshold_scale)``,
    else by ``f(X) + Lap(answer)``; then one surprise is spent and the noisy threshold is drawn anew. After B surprises
    or m queries everything is refused. All three scales and the threshold are in the units of a mean over [0, 1].

    Attributes:
        threshold: T, how far guess and sealed average may be apart.
        threshold_scale: Scale s1 of the noise on the threshold.
        comparison_scale: Scale s3 of the noise on each comparison.
        answer_scale: Scale s2 of the noise on each released sealed average.

    Source: Dwork et al. 2015; Zhao 2017, Algorithm 1.

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
    presentation: ClassVar[Presentation] = TRANSFERRED(
        colour="#d55e00",
        explanation=(
            "Each query comes with a guess: the estimate from the training rows, or the analyst's own. If the "
            "guess is close to the average over the sealed rows, up to a noisy threshold, it is confirmed and is "
            "the answer. Otherwise the answer is the sealed average with Laplace noise, one surprise is charged "
            "and the threshold is drawn anew."
        ),
    )
    traits: ClassVar[Traits] = replace(ChecksGuesses.traits, leakage=LEAKED)
    accounting: ClassVar[type[Accounting[Any]]] = EpochAccounting

    def __post_init__(self) -> None:
        super().__post_init__()
        usable_scales(self, "threshold_scale", "comparison_scale", "answer_scale")
        if not self.threshold >= 0.0:
            raise ValueError(f"threshold is {self.threshold}. Pass a number of at least 0.")

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
        """Return the mechanism whose threshold and scales give the smallest radius (guaranteed half-width).

        ``surprises`` is the planned number of releases from the holdout, by default 10, or one for each query if there
        are fewer queries. No budget is spent on guesses closer than ``slack`` times the radius to the population's
        value.
        """
        below_one(slack, "slack")
        planned = planned_surprises(surprises, queries)
        draft = cls(
            rows=rows, queries=queries, surprises=planned, confidence=confidence,
            threshold=1.0, threshold_scale=1.0, comparison_scale=1.0, answer_scale=1.0, **shared,
        )  # fmt: skip

        def leak(loss: float) -> float:
            curve = leakage(draft.dependence, PureCurve(loss, times=planned), rows)
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
        """Return the privacy loss of all epochs that are planned: the pure loss of one epoch, composed B times.

        An epoch is the queries from one surprise to the next. Its loss is ``Delta (1/s1 + 2/s3 + 1/s2)``, where Delta
        is the most that one row changes a mean. Statement S1 of docs/theory uses the curve.
        """
        scales = self.threshold_scale, self.comparison_scale, self.answer_scale
        first, comparison, answer = (self.scale_on_grid(scale) for scale in scales)
        return PureCurve(self.unit * (1.0 / first + 2.0 / comparison + 1.0 / answer), times=self.surprises)

    def spent_curve(self, state: State) -> PureCurve:
        """Return the privacy loss of the answers so far.

        It counts epochs (the queries from one surprise to the next), and also the one in progress, because its noisy
        threshold has been used.

        Args:
            state: State after the answers so far.
        """
        epochs = min(state.charged + 1, self.surprises) if state.asked else 0
        return replace(self, surprises=epochs).curve() if epochs else PureCurve(0.0)

    def _error(self, leak: LeakageBound, *, require_two_sided: bool = False) -> _Error:
        """Return the least sum of the error terms of S1 that are added to the threshold T.

        If T is large enough, it also covers releases for guesses that should have been confirmed.

        Args:
            leak: The part of the error that comes from the answers' dependence on single rows.
            require_two_sided: Whether to cover releases that were not needed even if the threshold T is too small for
                them. If False, they are covered only when T is large enough.
        """
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
        """Return the state before the first query, which holds the noise of the first threshold."""
        return State(carried_noise=self.threshold_noise(noise))

    def threshold_noise(self, noise: Noise) -> int:
        """Draw the noise that is added to the threshold until the next surprise, in steps of the grid of values."""
        return int(noise.laplace(self.scale_on_grid(self.threshold_scale), 1, stream="threshold")[0])

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Return the state after a batch of queries, and their replies.

        Queries whose guesses agree with the sealed averages are answered by these guesses. Each other query gets its
        sealed average with noise, costs a surprise, and draws a new noisy threshold for the queries after it.

        Args:
            state: State before the batch: what was asked and charged so far.
            evaluations: Values of the queries on the sealed rows, with their guesses.
            noise: Source of the random noise.
        """
        size = len(evaluations.totals)
        replies = Replies.refused(size)
        count = min(size, self.queries - state.asked) if state.charged < self.surprises else 0
        totals, guesses = evaluations.totals.sum(axis=1)[:count], evaluations.guesses[:count]
        comparison = noise.laplace(self.scale_on_grid(self.comparison_scale), count, stream="comparison")
        distance = np.abs(totals - guesses) + comparison
        error = _cached_error(self)
        margin, epsilon = self.threshold + error.total - error.leak.bias, error.leak.epsilon
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

    def promise(self) -> Promise:
        """Return what is guaranteed of all answers, and how far off a guess must be to be charged.

        Both follow from Statement S1 of docs/theory and from `curve`.
        """
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
        """Return how many further queries, at most ``most``, will be answered even if each costs a surprise."""
        return min(super().surely_answers(state, most), max(self.surprises - state.charged, 0))

    def quote(self, state: State, *, guess: float | None = None, procedure: Procedure | None = None) -> Quote:
        """Return price and half-width of the next answer. It has one half-width, whether or not its guess agrees."""
        if not self.surely_answers(state, 1):
            return REFUSED
        radius = self.promise().radius
        return Quote(radius, radius, 0, 1, refused=False)

    def remaining(self, state: State) -> dict[str, int]:
        """Return how many planned queries and surprises are left, by name."""
        return {
            "queries": 0 if state.charged >= self.surprises else max(self.queries - state.asked, 0),
            "surprises": max(self.surprises - state.charged, 0),
        }


@lru_cache(maxsize=256)
def _cached_error(mechanism: Thresholdout) -> _Error:
    return mechanism._error(_leak(mechanism))


def _leak(mechanism: Thresholdout) -> LeakageBound:
    curve = leakage(mechanism.dependence, mechanism.curve(), mechanism.rows)
    return leakage_bound(curve, confidence=mechanism.statement_confidence)


def _with_least_threshold(candidate: Drafted, slack: float) -> Drafted:
    """Return the mechanism with the least threshold T whose error E is at most ``T (1-c)/(1+c)``. Here c is the slack.

    The least such threshold gives the least radius.
    """
    leak = _leak(candidate)
    for _ in range(40):  # a contraction: E barely depends on T
        threshold = candidate._error(leak, require_two_sided=True).total * (1.0 + slack) / (1.0 - slack)
        settled = abs(threshold - candidate.threshold) <= 1e-12 * threshold
        candidate = replace(candidate, threshold=threshold)
        if settled:
            break
    return candidate
