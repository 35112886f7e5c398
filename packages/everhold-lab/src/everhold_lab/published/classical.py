"""Classical statements (P8 to P12: McSherry, Hoeffding, BLR, exponential mechanism, Ladder), and regret (S1).

The curve of approximate privacy is also here, because no mechanism of a holdout uses it.

P10 and P11 bound the error against the sealed rows. What the population adds comes from a transfer statement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import erfc

from everhold.arguments import below_one, fraction, positive, whole
from everhold.guarantees.description_length import hoeffding_radius, log_ladder_size
from everhold.mechanisms import Mechanism
from everhold_lab.published import (
    gaussian_sample_failure,
    hoeffding_splitting,
    jung_pure_radius,
    jung_radius,
    laplace_sample_failure,
    rogers_width,
)
from everhold_lab.published.bound import BoundOfSource, check_count, check_nonnegative
from everhold_privacy.curves import Floats, PrivacyCurve, log_delta_pure, non_negative
from everhold_privacy.guarantees import leakage_bound, untilted
from everhold_privacy.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from everhold_privacy.mechanisms.averages import SampleSplitting

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def small_database_rows(queries: int, *, accuracy: float) -> int:
    """Return the rows of a small table that answers every query to `accuracy`: ``s = ceil(ln|Q| / alpha^2)`` (P10).

    Args:
        queries: |Q|, at least 2: sampling s rows fails with probability below ``2|Q| e^{-2 s alpha^2} <= 2/|Q|``.
        accuracy: alpha, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum, Ligett and Roth 2008; Dwork and Roth 2014, Theorem 4.2.
    """
    if queries < 2:
        raise ValueError(f"queries is {queries!r}. Pass at least 2, or answer a single query with noise.")
    return math.ceil(math.log(queries) / fraction(accuracy, "accuracy") ** 2)


def mcsherry_bias(epsilon: float, *, delta: float = 0.0) -> float:
    """Return the bias of a privately chosen query, ``|E h(S) - E h(P)| <= e^eps - 1 + delta`` (statement P8).

    Args:
        epsilon: Privacy loss of the choice of h, at least 0.
        delta: Delta of the privacy loss, in [0, 1).

    Returns:
        A bound in units of the query, h in [0, 1]; in expectation only, above 1 it says nothing.

    Raises:
        ValueError: If an argument is out of its range.

    Source: McSherry, folklore; rows independent and identically distributed. Slides have ``2 eps + delta`` for eps < 1,
    which is weaker, and ``eps + delta``, which their proof does not give. Bounds with high probability (Dwork et al.
    2015, STOC; Bassily et al. 2016) are left out: docs/theory, published.
    """
    check_nonnegative("epsilon", epsilon)
    return math.expm1(epsilon) + below_one(delta, "delta")


def hoeffding_failure(rows: int, *, radius: float) -> float:
    """Return the chance that the average of a fixed query is off: ``2 exp(-2 n alpha^2)``, at most 1 (P9).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Hoeffding 1963, Theorem 2; rows independent, query in [0, 1].
    """
    check_count("rows", rows)
    positive(radius, "radius")
    return min(1.0, 2.0 * math.exp(-2.0 * rows * radius**2))


def azuma_failure(steps: int, *, size: float, excess: float) -> float:
    """Return the probability that a martingale rises by `excess`: ``exp(-t^2 / (2 n c^2))``, at most 1.

    Args:
        steps: n, the number of steps.
        size: c, the largest size of a step.
        excess: t, in the units of a step.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Azuma 1967, Hoeffding 1963; Zhao 2017, Lemma 5. An increment in an interval of length c, whatever its
    place, has ``exp(-2 t^2 / (n c^2))``.
    """
    check_count("steps", steps)
    positive(size, "size")
    positive(excess, "excess")
    return math.exp(-(excess**2) / (2.0 * steps * size**2))


def blr_error(rows: int, *, queries: int, universe: int, accuracy: float, epsilon: float, confidence: float) -> float:
    """Return the error of BLR's table on the sealed rows: ``alpha + 2/(eps n) (s ln|U| + ln(1/beta))`` (P10).

    The exponential mechanism picks among all ``|U|^s`` data sets of ``s = ceil(ln|Q|/alpha^2)`` rows by the score
    ``-max_f |f(x) - f(y)|``, which one row moves by 1/n.

    Args:
        rows: Number n of sealed rows.
        queries: |Q|, at least 2.
        universe: |U|, number of different rows that exist.
        accuracy: alpha, free; the smaller, the larger the data sets.
        epsilon: Privacy loss of the release.
        confidence: 1 - beta, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum, Ligett and Roth 2008; Dwork and Roth 2014, Proposition 4.4.
    """
    check_count("rows", rows)
    check_count("universe", universe)
    candidates = small_database_rows(queries, accuracy=accuracy) * math.log(universe)
    return accuracy + _shortfall(candidates, 1.0 / rows, epsilon, confidence)


def _shortfall(log_outcomes: float, sensitivity: float, epsilon: float, confidence: float) -> float:
    positive(sensitivity, "sensitivity")
    positive(epsilon, "epsilon")
    fraction(confidence, "confidence")
    return 2.0 * sensitivity / epsilon * (log_outcomes - math.log1p(-confidence))


def exponential_utility(outcomes: int, *, sensitivity: float, epsilon: float, confidence: float) -> float:
    """Return how far the chosen score is below the best: ``(2 Delta_u / eps) ln(|R| / beta)`` (statement P11).

    For the mechanism ``P[y] ~ exp(eps u(x,y) / (2 Delta_u))``, with probability `confidence`.

    Args:
        outcomes: |R|, any size of integer.
        sensitivity: Delta_u, how much one row moves a score.
        epsilon: Privacy loss of the choice.
        confidence: 1 - beta, in (0, 1).

    Returns:
        The shortfall, in units of the score.

    Raises:
        ValueError: If an argument is out of its range.

    Source: McSherry and Talwar 2007; Dwork and Roth 2014, Corollary 3.12. No assumption on the rows.
    """
    if outcomes < 1:
        raise ValueError(f"outcomes is {outcomes!r}. Pass at least 1, the number of outcomes that can be chosen.")
    return _shortfall(math.log(outcomes), sensitivity, epsilon, confidence)


def ladder_excess(rows: int, *, submissions: int, step: float, failure: float) -> float:
    """Return the Ladder's excess e: ``sqrt(((1/eta+2) ln(4t/eta) + 1 + ln(1/beta)) / (2n))`` for the step eta.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum and Hardt 2015, Theorem 3.1, inverted.
    """
    check_count("rows", rows)
    fraction(failure, "failure")
    return math.sqrt((_tree(submissions, step) - math.log(failure)) / (2.0 * rows))


def ladder_radius(rows: int, *, submissions: int, confidence: float) -> BoundOfSource:
    """Return the error of the best score shown, ``e + eta``, at the best step eta (statement P12).

    Args:
        rows: Number n of independent rows.
        submissions: Number t of submissions.
        confidence: 1 - beta, in (0, 1).

    Returns:
        The radius (``inf`` from 1 on), and the step and excess that attain it.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum and Hardt 2015, Theorem 3.1.
    """
    fraction(confidence, "confidence")

    def radius(log_step: float) -> float:
        step = math.exp(log_step)
        return step + ladder_excess(rows, submissions=submissions, step=step, failure=1.0 - confidence)

    best = minimize_scalar(radius, bounds=(-math.log(4.0 * rows), 0.0), method="bounded", options={"xatol": 1e-9})
    step, least = math.exp(float(best.x)), float(best.fun)
    parameters = {"step": step, "excess": least - step}
    return BoundOfSource("ladder_theorem_3_1", least if least < 1.0 else math.inf, rows, parameters)


def _tree(submissions: int, step: float) -> float:
    check_count("submissions", submissions)
    if not 0.0 < step <= 1.0:
        raise ValueError(f"step is {step!r}. Pass a number above 0 and at most 1, such as 0.01.")
    return (1.0 / step + 2.0) * math.log(4.0 * submissions / step) + 1.0


Exceedance = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class RegretBound:
    """Bound on the loss of the chosen candidate against the best one in the population.

    Attributes:
        radius: The regret that is not exceeded, in the units of the loss.
        alpha: Allowance for the regret on the sealed rows: regret up to it costs only itself.
        epsilon: Allowance for the privacy loss: losses up to it enter by ``tanh(eps/4)``, larger ones by leak(eps).
        form: ``"any candidates"``, or ``"fixed candidates"`` where the sharper bound for these was the smaller one.
    """

    radius: float
    alpha: float
    epsilon: float
    form: str
    statement: str = "S1"


def minimisation_radius(
    exceedance: Exceedance, leakage: PrivacyCurve, *, confidence: float, fixed_rows: float | None = None
) -> RegretBound:
    """Return the population regret of what was chosen on the sealed rows (S1, S2 for minimisation).

    With probability at least 1 - beta it is at most ``alpha + 2 tanh(eps/4) + (r(alpha) + 2 leak(eps)) / beta``. The
    asymmetric form S2 of that is computed, which is never larger: ``1 - 2 s``, where s solves ``s + g(s) = (1 - m)/2``
    for ``m = alpha + (r + 2 leak)/beta``. Rows may depend on each other, and candidates may be chosen adaptively.

    If candidates were fixed before, the population's best is the same whatever the rows are. Then its loss
    concentrates, and ``alpha + gamma + tanh(eps/4) + (r(alpha) + c(gamma) + leak(eps)) / beta`` holds as well, with
    ``c(gamma) = int_gamma^inf e^{-2 n s^2} ds``; the smaller bound is returned.

    Args:
        exceedance: r(alpha), at least ``E(L(X, chosen) - min L(X, .) - alpha)_+``; convex. For several choices the sum
            of theirs; then the bound holds for all of them at once.
        leakage: Hockey-stick curve of the whole transcript about one row, averaged over rows.
        confidence: 1 - beta, in (0, 1).
        fixed_rows: Effective number of independent rows, for a single choice whose candidates were fixed without any
            look at the sealed rows and at rows that depend on them; None if that is not so.

    Raises:
        ValueError: If `confidence` is outside (0, 1) or `fixed_rows` is not positive.

    Source: docs/theory, selection.

    Examples:
        >>> from everhold_privacy.guarantees import permute_and_flip_exceedance
        >>> from everhold_privacy.curves import PureCurve
        >>> def exceedance(alpha: float) -> float:
        ...     return permute_and_flip_exceedance(alpha=alpha, scale=2 / (0.05 * 20_000), candidates=100)
        >>> round(minimisation_radius(exceedance, PureCurve(0.05), confidence=0.95).radius, 4)
        0.0387
        >>> round(minimisation_radius(exceedance, PureCurve(0.05), confidence=0.95, fixed_rows=20_000).radius, 4)
        0.0362
    """
    leak = leakage_bound(leakage, confidence=confidence)  # refuses a confidence outside (0, 1)
    beta = 1.0 - confidence
    fine = minimize_scalar(
        lambda alpha: alpha + exceedance(alpha) / beta, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}
    )
    alpha = float(fine.x)
    on_rows = alpha + exceedance(alpha) / beta
    # S2: the greatest D in [0, 1] with D - 2 g((1-D)/2) <= margin
    share = (1.0 - on_rows - 2.0 * leak.delta / beta) / 2.0
    radius, form = 1.0 - 2.0 * float(untilted(share, leak.epsilon)), "any candidates"
    if fixed_rows is not None:
        if not 0.0 < fixed_rows < math.inf:
            raise ValueError(f"fixed_rows is {fixed_rows}. Pass a positive number of effective rows, or None.")
        fixed = on_rows + leak.total + uniform_deviation(1, rows=fixed_rows, beta=beta, sides=1)
        if fixed < radius:
            radius, form = fixed, "fixed candidates"
    return RegretBound(radius=radius, alpha=alpha, epsilon=leak.epsilon, form=form)


def uniform_deviation(queries: int, *, rows: float, beta: float, sides: int = 2) -> float:
    """Return the least ``gamma + c(gamma) / beta``, ``c(gamma) = sides |Q| int_gamma^inf e^{-2 n s^2} ds`` (S5).

    The least is where ``sides |Q| e^{-2 n gamma^2} = beta``, the radius of Hoeffding's bound for |Q| fixed queries. The
    second term is the price of having one Markov step for the distance to the rows and that to the population.

    Args:
        queries: |Q|, fixed before anything that depends on the rows was seen.
        rows: Effective number of independent rows.
        beta: Probability with which it may fail.
        sides: 2, or 1 for deviations in one direction.
    """
    gamma = math.sqrt(math.log(sides * queries / beta) / (2.0 * rows))
    tail = sides * queries * math.sqrt(math.pi / (8.0 * rows)) * float(erfc(gamma * math.sqrt(2.0 * rows)))
    return gamma + tail / beta


_ROUNDED_UP = 1.0 + 2.0**-40  # means and steps are computed in floating point


@dataclass(frozen=True, slots=True, eq=False)
class ParameterFreeLadder:
    """State of the parameter-free Ladder: the best loss so far, and its sealed losses (Blum and Hardt 2015).

    A submission is a new best if its mean loss is below ``R - s / sqrt(n)``, where s is the standard deviation of the
    differences to the losses of the best so far (0 before the first). **A heuristic**: nothing is promised, unless
    ``grid`` is given; then `discretised_radius` is.

    Attributes:
        shown: R, the best loss so far, rounded to a multiple of ``1/n``, or of ``1/grid``; infinite at the start.
        grid: Number of steps between 0 and 1 to which scores are rounded; None for n.

    Examples:
        >>> ladder = ParameterFreeLadder().submit([1, 1, 1, 0]).submit([1, 0, 0, 0])
        >>> ladder.shown, ladder.submit([0, 1, 0, 0]).shown
        (0.25, 0.25)
    """

    shown: float = math.inf
    grid: int | None = None
    _best: NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.grid is not None:
            whole(self.grid, "grid")

    def submit(self, losses: ArrayLike) -> ParameterFreeLadder:
        """Return the ladder after one more submission.

        Args:
            losses: Shape (rows,), the submission's loss in [0, 1] on each sealed row.

        Raises:
            ValueError: If the losses are not numbers from 0 to 1, or not as many as before.
        """
        new = np.asarray(losses, dtype=np.float64)
        if new.ndim != 1 or not new.size or not bool(np.all((new >= 0.0) & (new <= 1.0))):
            raise ValueError(
                f"losses has the shape {new.shape} or values outside 0 to 1. Pass one number from 0 to 1 for each row."
            )
        before = np.zeros_like(new) if self._best is None else self._best
        if before.shape != new.shape:
            raise ValueError(
                f"There are {len(new)} losses, and there were {len(before)} before. Pass one for each row."
            )
        mean = float(new.mean())
        if not mean < self.shown - float(np.std(new - before)) / math.sqrt(len(new)):
            return self
        steps = self.grid or len(new)
        return ParameterFreeLadder(math.floor(mean * steps + 0.5) / steps, self.grid, new)


def discretised_radius(rows: int, *, submissions: int, grid: int, confidence: float) -> float:
    """Return the half-width for the least population loss so far, with scores rounded to ``1/grid`` (S3).

    What is shown never rises and has ``grid + 1`` values, so the tree of all submissions is the Ladder's. No
    submission's sealed mean is more than ``1/sqrt(n)`` below what is shown, as s is at most 1. So the radius is
    ``max(1/sqrt(n), 1/(2 grid)) + conc``. For independent rows.

    Args:
        rows: Number of sealed rows n.
        submissions: Number of submissions m.
        grid: Number of steps between 0 and 1.
        confidence: 1 - beta, in (0, 1).

    Examples:
        >>> round(discretised_radius(20_000, submissions=1_000, grid=21, confidence=0.95), 3)
        0.076
    """
    fraction(confidence, "confidence")
    level = log_ladder_size(queries=submissions, levels=grid + 1) - math.log1p(-confidence)
    reach = float(hoeffding_radius(rows=rows, log_inverse_level=level))
    return (max(1.0 / math.sqrt(rows), 0.5 / grid) + reach) * _ROUNDED_UP


@dataclass(frozen=True, slots=True)
class CandidateLoss:
    """A statement that was evaluated for a given mechanism.

    Attributes:
        statement: Number or name of the statement.
        radius: Half-width by the statement, in the units of a mean over [0, 1]. It includes rounding to the grid.
        is_promise: Whether it is the promise that the certificate states.
    """

    statement: str
    radius: float
    is_promise: bool


def best_radius(mechanism: Mechanism) -> tuple[CandidateLoss, ...]:
    """Return all statements that bound a mechanism's error, with its own promise first.

    The promise is always everhold's own statement (S1 or S3, for `Empirical` P9); published ones stand beside it for
    comparison and are left out for dependent rows, where they do not hold.

    Examples:
        >>> for candidate in best_radius(GaussianMechanism.tuned(rows=50_000, queries=1_000)):
        ...     print(candidate.statement, round(candidate.radius, 2), candidate.is_promise)
        S1 0.08 True
        jung_2020 0.22 False
        rogers_2020_monitor 0.15 False
    """
    promise = mechanism.promise()
    own = CandidateLoss(promise.statement, promise.radius, is_promise=True)
    if not mechanism.dependence.independent:
        return (own,)
    others = (CandidateLoss(name, radius + mechanism.rounding, False) for name, radius in _published(mechanism))
    return (own, *others)


def _published(mechanism: Mechanism) -> Iterator[tuple[str, float]]:
    """Yield published statements with their radius for exact averages and continuous noise."""
    confidence, queries = mechanism.confidence, mechanism.queries
    if isinstance(mechanism, GaussianMechanism):
        failure = gaussian_sample_failure(mechanism.scale, answers=queries)
        yield "jung_2020", jung_radius(failure, mechanism.curve(), confidence).radius
        width = rogers_width(mechanism.rows, queries=queries, scale=mechanism.scale, confidence=confidence)
        yield "rogers_2020_monitor", width
    elif isinstance(mechanism, LaplaceMechanism):
        failure = laplace_sample_failure(mechanism.scale, answers=queries)
        yield "jung_2020", jung_radius(failure, mechanism.curve(), confidence).radius
        pure = jung_pure_radius(
            failure, epsilon=mechanism.curve().epsilon(0.0), rows=mechanism.rows, confidence=confidence
        )
        yield "jung_2020_pure", pure.radius
    elif isinstance(mechanism, SampleSplitting):
        session = {"queries": queries, "surprises": 1, "confidence": confidence, "slack": 0.0}
        yield "hoeffding_splitting", hoeffding_splitting(mechanism.rows, **session).radius  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, repr=False, init=False)
class ApproximateCurve(PrivacyCurve):
    """Exact worst case of `times` mechanisms in a row, each (`epsilon`, `delta`)-private.

    Args:
        epsilon: Privacy loss of one mechanism, non-negative and finite.
        delta: Probability that one mechanism fails to keep it, in [0, 1].
        times: Number of mechanisms, chosen adaptively.

    Raises:
        ValueError: If an argument is out of range.

    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3: ``1 - (1-delta)^B (1 - pure(eps))``.

    Examples:
        >>> round(ApproximateCurve(0.1, 1e-6).delta(0.1), 12)
        1e-06
    """

    kind: ClassVar[str] = "approximate"

    level: float
    failure: float
    times: int

    def __init__(self, epsilon: float, delta: float, times: int = 1) -> None:
        if not 0 <= delta <= 1:
            raise ValueError(f"delta is {delta}. Pass a number from 0 to 1.")
        object.__setattr__(self, "level", non_negative(epsilon, "epsilon"))
        object.__setattr__(self, "failure", float(delta))
        object.__setattr__(self, "times", whole(times, "times"))

    def _log_delta(self, epsilon: Floats) -> Floats:
        log_kept = self._log_kept()
        return np.logaddexp(_log1mexp(log_kept), log_kept + log_delta_pure(epsilon, self.level, self.times))

    def group(self, rows: int) -> ApproximateCurve:
        """Return the curve about h rows, ``(h epsilon, delta (e^{h epsilon}-1)/(e^epsilon-1))`` for each."""
        rows = whole(rows, "rows")
        steps = np.arange(rows) * self.level
        with np.errstate(over="ignore"):
            failure = min(1.0, self.failure * float(np.exp(steps).sum())) if self.failure > 0 else 0.0
        return ApproximateCurve(rows * self.level, failure, self.times)

    def repeat(self, times: int) -> ApproximateCurve:
        """Return the exact curve of `times` as many mechanisms."""
        return ApproximateCurve(self.level, self.failure, self.times * whole(times, "times"))

    def _family(self, times: int) -> tuple[Any, ApproximateCurve, int]:
        single = ApproximateCurve(self.level, self.failure)
        return single, single, self.times * times

    def _log_kept(self) -> float:
        """Logarithm of the probability that no mechanism fails."""
        return self.times * math.log1p(-self.failure) if self.failure < 1 else -math.inf

    def _largest_loss(self) -> float:
        return self.level * self.times

    def _log_delta_at_infinity(self) -> float:
        return _log1mexp(self._log_kept())

    def _parameters(self) -> dict[str, Any]:
        return {"epsilon": self.level, "delta": self.failure, "times": self.times}


def _log1mexp(x: float) -> float:
    """Return ``ln(1 - e^x)`` for ``x <= 0``."""
    if x == 0:
        return -math.inf
    return math.log(-math.expm1(x)) if x > -math.log(2) else math.log1p(-math.exp(x))
