"""MWEM: multiplicative weights taught by the questions that are answered worst (Hardt, Ligett, McSherry 2012)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from scipy.optimize import minimize_scalar

from everhold.guarantees.transfer import leakage_bound
from everhold.mechanisms.selection import ExponentialMechanism
from everhold.privacy.composition import composed
from everhold.privacy.curves import GaussianCurve, PureCurve, ZeroConcentratedCurve
from everhold.privacy.noise import LARGEST_SCALE
from everhold.synthetic.base import Synthesizer, checked_count, plus_choice, wish_needed
from everhold.synthetic.multiplicative_weights import MultiplicativeWeights
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.privacy.curves import PrivacyCurve
    from everhold.privacy.noise import Noise

__all__ = ["MWEM", "Measurement", "published_error"]

Measurement = Literal["gaussian", "laplace"]

_DELTA = 1e-6  # of the (epsilon, delta) that is quoted for Gaussian measurements
_EXCESSES = np.geomspace(1e-4, 1e4, 240)
_TILTS = np.concatenate([np.geomspace(1e-4, 0.5, 40), 1.0 - np.geomspace(0.49, 1e-4, 30)])[:, None]


@dataclass(frozen=True, kw_only=True)
class MWEM(Synthesizer):
    """T rounds: the exponential mechanism picks a badly answered question, it is measured, the weights learn it.

    The table is the average of the weights before each round. Its largest error on the sealed rows is at most
    ``sqrt(ln N / (2T) + mean e_t^2) + mean regret_t``, with e_t the errors of the measurements and regret_t what the
    choices miss the worst question by: `sampling` turns that into the r of S1.

    Attributes:
        rounds: T.
        choice_epsilon: Privacy loss of each choice.
        scale: Scale of the noise of each measurement, in the units of a mean.
        measurement: "gaussian" or "laplace" noise.

    Raises:
        ValueError: If an attribute is out of its range.

    Examples:
        >>> from everhold.privacy import SeededNoise
        >>> from everhold.synthetic import ListedColumn, Universe
        >>> universe = Universe((ListedColumn("colour", ("red", "green", "blue"), rest="blue"),))
        >>> mwem = MWEM.tuned(universe=universe, queries=universe.marginals(1), rows=2_000_000)
        >>> table = mwem.draw([1_000_000, 600_000, 400_000], SeededNoise(1))
        >>> table.radius < 0.15
        True
    """

    rounds: int
    choice_epsilon: float
    scale: float
    measurement: Measurement = "gaussian"

    method: ClassVar[str] = "mwem"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_count("rounds", self.rounds)
        if not 0.0 < self.choice_epsilon < math.inf:
            raise ValueError(f"choice_epsilon is {self.choice_epsilon}; expected a positive finite number")
        if self.measurement not in get_args(Measurement):
            raise ValueError(f"measurement is {self.measurement!r}; expected 'gaussian' or 'laplace'")
        if not 0.0 < self.scale <= LARGEST_SCALE / self.steps:
            raise ValueError(
                f"scale is {self.scale}; expected a positive number up to {LARGEST_SCALE / self.steps:.3g}"
            )

    @classmethod
    def hardt2012(cls, *, epsilon: float, rounds: int, rows: int, **others: Any) -> Self:
        """The calibration of the paper: ``epsilon / 2T`` for each choice and each Laplace measurement.

        Args:
            epsilon: Pure privacy loss of the whole run.
            rounds: T.
            rows: n.
            **others: As in the constructor.
        """
        if not 0.0 < epsilon < math.inf:
            raise ValueError(f"epsilon is {epsilon}; expected a positive finite number")
        checked_count("rounds", rounds)
        checked_count("rows", rows)
        share = epsilon / (2 * rounds)
        return cls(
            rounds=rounds, rows=rows, choice_epsilon=share, scale=1.0 / (share * rows), measurement="laplace", **others
        )

    @classmethod
    def concentrated(cls, *, rho: float, rounds: int, rows: int, **others: Any) -> Self:
        """Choices and Gaussian measurements that share rho-zero-concentrated privacy equally.

        Args:
            rho: Zero-concentrated privacy loss of the whole run.
            rounds: T.
            rows: n.
            **others: As in the constructor.
        """
        if not 0.0 < rho < math.inf:
            raise ValueError(f"rho is {rho}; expected a positive finite number")
        checked_count("rounds", rounds)
        checked_count("rows", rows)
        share = rho / (2 * rounds)
        return cls(
            rounds=rounds, rows=rows, choice_epsilon=math.sqrt(8.0 * share),
            scale=1.0 / (rows * math.sqrt(2.0 * share)), measurement="gaussian", **others,
        )  # fmt: skip

    @classmethod
    def tuned(cls, *, rho: float | None = None, most_rounds: int = 2000, **others: Any) -> Self:
        """Gaussian measurements with the rounds, and the rho if none is wished, of the smallest radius.

        Args:
            rho: Zero-concentrated privacy loss of the whole run, or None for the one with the smallest radius.
            most_rounds: Largest number of rounds; each of them reads all questions once.
            **others: As in the constructor.

        Raises:
            ValueError: If no rho is wished and the questions are fixed: the best would be no privacy.
        """
        if rho is None:
            wish_needed("rho", others.get("fixed_questions"))
        checked_count("most_rounds", most_rounds)
        drafts: list[Self] = []
        for rounds in np.unique(np.geomspace(1, most_rounds, 20).astype(int)).tolist():
            share = partial(cls.concentrated, rounds=rounds, **others)
            drafts.append(share(rho=_best_rho(share) if rho is None else rho))
        return drafts[int(np.argmin([mechanism.bound().radius for mechanism in drafts]))]

    @property
    def steps(self) -> int:
        """Grid units of a sum that make a mean of 1."""
        return int(self.rows) * UNIT

    @property
    def _scale_on_grid(self) -> int:
        return math.ceil(self.scale * self.steps)

    @property
    def selection(self) -> ExponentialMechanism:
        """The mechanism of each choice; one row moves the error of a question by one unit."""
        return ExponentialMechanism(self.choice_epsilon)

    def curve(self) -> PrivacyCurve:
        """The whole run in closed form.

        Choices are ``epsilon^2/8``-zero-concentrated, Gaussian measurements ``1/(2 s^2)``, Laplace ones at most
        ``1/(2 s^2)`` too, with s the noise in rows. With Laplace noise the 2T-fold pure curve of the larger loss holds
        as well, and that with the smaller radius is returned: the pure one for few rounds. `tight_curve` is smaller.
        """
        noise = self._scale_on_grid / UNIT
        concentrated = ZeroConcentratedCurve(self.rounds * (self.choice_epsilon**2 / 8.0 + 0.5 / noise**2))
        if self.measurement == "gaussian":
            return concentrated
        pure = PureCurve(max(self.choice_epsilon, 1.0 / noise), times=2 * self.rounds)
        return min((pure, concentrated), key=self._price)

    def _price(self, curve: PrivacyCurve) -> float:
        return leakage_bound(self.dependence.leakage(curve, self.rows), confidence=1.0 - self.beta).total

    def tight_curve(self) -> PrivacyCurve:
        """The whole run by privacy loss distributions, tight to their grid; needs `dp-accounting` to be evaluated."""
        noise = self._scale_on_grid / UNIT
        single = GaussianCurve(1.0 / noise) if self.measurement == "gaussian" else PureCurve(1.0 / noise)
        return composed([(self.selection.curve(), self.rounds), (single, self.rounds)])

    def privacy(self) -> tuple[float, float]:
        """Pure with Laplace measurements, with ``delta = 1e-6`` else."""
        if self.measurement == "laplace":
            return self.rounds * (self.choice_epsilon + UNIT / self._scale_on_grid), 0.0
        return self.curve().epsilon(_DELTA), _DELTA

    def sampling(self, beta: float) -> tuple[float, float]:
        """The best split of alpha between learning with noisy answers and choosing; see the class."""
        alpha, exceedance = self._learning(beta)
        choice = self.selection.exceedance
        total = plus_choice(
            alpha, lambda extra: choice(extra, candidates=len(self.queries), steps=self.steps), beta
        )  # the excess of the mean regret is at most the mean of their excesses
        return total[0], exceedance + total[1]

    def _learning(self, beta: float) -> tuple[float, float]:
        """``E(sqrt(a + V) - sqrt(a + v))_+ <= E(V - v)_+ / (2 sqrt(a + v))``, ``a = ln N/(2T)``, V the mean e_t^2."""
        drawn = self._scale_on_grid / self.steps
        start = math.log(self.universe.cells) / (2.0 * self.rounds)
        spread = drawn**2 * _EXCESSES
        alpha = np.sqrt(start + spread)
        excess = _gaussian_excess(self.rounds) if self.measurement == "gaussian" else _laplace_excess()
        exceedance = drawn**2 * excess / (2.0 * alpha)
        best = int(np.argmin(alpha + exceedance / beta))
        return float(alpha[best]), float(exceedance[best])

    def release(self, histogram: ArrayLike, noise: Noise) -> list[list[int]]:
        """Of each round the number of the chosen question and its noisy sum in grid units."""
        totals = self.queries.totals(self.counts(histogram))
        released = []

        def ask(learned: MultiplicativeWeights) -> tuple[int, int]:
            public = np.rint(self.queries.means(learned.weights) * self.steps).astype(np.int64)
            losses = self.steps - np.abs(totals - np.minimum(public, self.steps))
            chosen = self.selection.choose(losses, noise, stream="choice")
            released.append([chosen, int(totals[chosen]) + self._measurement_noise(noise)])
            return chosen, released[-1][1]

        self._learn(ask)
        return released

    def learned(self, released: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """The average of the weights before each round.

        Raises:
            ValueError: If there is not one pair for each round.
        """
        if len(released) != self.rounds:
            raise ValueError(f"there are {len(released)} pairs; expected one for each of {self.rounds} rounds")
        pairs = iter(released)
        return self._learn(lambda _: next(pairs))

    def _learn(self, ask: Callable[[MultiplicativeWeights], Sequence[int]]) -> NDArray[np.float64]:
        learned, average = MultiplicativeWeights(self.universe.cells), np.zeros(self.universe.cells)
        for _ in range(self.rounds):
            average += learned.weights
            chosen, total = ask(learned)
            learned = learned.update(self.queries.vector(chosen), total / self.steps)
        return np.asarray(average / average.sum())

    def _measurement_noise(self, noise: Noise) -> int:
        draw = noise.gaussian if self.measurement == "gaussian" else noise.laplace
        return int(draw(self._scale_on_grid, 1, stream="measurement")[0])


def published_error(*, rows: int, cells: int, queries: int, rounds: int, epsilon: float) -> tuple[float, float]:
    """Largest error on the sealed rows as published, ``2 sqrt(ln N / T) + 10 T ln|Q| / (n epsilon)``.

    For the calibration of `MWEM.hardt2012`; it may fail with probability ``2T/|Q|``, which has to be below 1 for the
    statement to say anything.

    Returns:
        The error in the units of a mean, and the probability, at most 1.

    Source: Hardt, Ligett, McSherry 2012, Theorem 2.2 (there for sums over rows).

    Examples:
        >>> error, failure = published_error(rows=10**6, cells=1024, queries=1000, rounds=50, epsilon=1.0)
        >>> round(error, 3), failure
        (0.748, 0.1)
    """
    error = 2.0 * math.sqrt(math.log(cells) / rounds) + 10.0 * rounds * math.log(queries) / (rows * epsilon)
    return error, min(1.0, 2.0 * rounds / queries)


def _best_rho(share: Callable[..., MWEM]) -> float:
    """The rho with the smallest radius, to a fiftieth in its logarithm."""
    ends = (math.log(1e-8), math.log(10.0))
    fine = minimize_scalar(
        lambda log_rho: share(rho=math.exp(log_rho)).bound().radius,
        bounds=ends,
        method="bounded",
        options={"xatol": 0.02},
    )
    return math.exp(float(fine.x))


@lru_cache(maxsize=64)
def _gaussian_excess(rounds: int) -> NDArray[np.float64]:
    """``E(V - v)_+`` in units of the squared scale, for v of `_EXCESSES`: Chernoff with the best of some tilts.

    A discrete Gaussian is sub-Gaussian with its own scale, so ``E e^{u T V / 2} <= (1 - u)^{-T/2}``; and
    ``(z)_+ <= e^{k z - 1} / k`` for every k.
    """
    exponent = -0.5 * rounds * (np.log1p(-_TILTS) + _TILTS * _EXCESSES)
    with np.errstate(over="ignore"):
        bounds = 2.0 / (math.e * _TILTS * rounds) * np.exp(exponent)
    return np.asarray(np.minimum(bounds.min(axis=0), 1.0))  # E V <= 1


def _laplace_excess() -> NDArray[np.float64]:
    """``E(V - v)_+ <= E(e^2 - v)_+ = 2 (t + 1) e^{-t}``, ``t = sqrt(v)``, in units of the squared scale."""
    t = np.sqrt(_EXCESSES)
    return np.asarray(2.0 * (t + 1.0) * np.exp(-t))
