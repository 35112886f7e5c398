"""Max-information, and inference about tests and parameters that were chosen after looking at a session.

An analyst reads the transcript of a session, then picks a hypothesis to test or a parameter to estimate, and only now
looks at the sealed rows. Three ways to keep such a second look honest: max-information (P3), the size of the tree of
all that could have been chosen (S3), and the sharp transfer theorem with a noise that is only imagined (S1). Their
proofs are in docs/theory/post-selection.md.

If rows depend on each other, pass their dependence model. A learned model may be wrong, and training rows may reveal
something about the sealed ones. Both probabilities are subtracted from the allowed failure probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from everhold.arguments import below_one, fraction
from everhold.errors import DependenceError
from everhold.guarantees.description_length import hoeffding_radius
from everhold_lab.published.bound import check_count, check_nonnegative
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.leakage import leakage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold_privacy.curves import PrivacyCurve

__all__ = [
    "PostSelectionBound",
    "corrected_p_value",
    "corrected_radius",
    "max_information_bits",
    "p_value_threshold",
    "post_selection_radius",
]


_BITS = 1.0 / math.log(2.0)


def exact_max_information(joint: ArrayLike, *, failure: float = 0.0) -> float:
    """Return the approximate max-information of a finite law, ``log2 max_O (P[O] - beta) / (P x P)[O]``.

    For a given v the event that maximises ``P[O] - v (P x P)[O]`` holds the cells whose likelihood ratio is above v. So
    the best event is a prefix of the cells in decreasing order of that ratio, and sorting finds it.

    Args:
        joint: Law of rows and transcript, shape (data sets, transcripts), sum 1.
        failure: beta, in [0, 1); 0 for max-information itself.

    Returns:
        Bits. At least 0 for beta = 0; the definition allows negative values for larger beta.

    Raises:
        ValueError: If the table is no law of that shape or beta is out of its range.

    Source: Zhao 2017, definition (1); Dwork et al. 2015 (NIPS).

    Examples:
        >>> exact_max_information([[0.5, 0.0], [0.0, 0.5]])  # one bit that is told
        1.0
        >>> round(exact_max_information([[0.5, 0.0], [0.0, 0.5]], failure=0.25), 4)  # but for a part
        0.585
        >>> exact_max_information([[0.25, 0.25], [0.25, 0.25]])  # nothing is told
        0.0
    """
    law = np.asarray(joint, dtype=np.float64)
    if law.ndim != 2 or not np.all(law >= 0.0) or not math.isclose(float(law.sum()), 1.0, rel_tol=1e-9):
        raise ValueError(
            f"joint has shape {law.shape}, is negative or does not sum to 1. Pass "
            "probabilities of shape (data sets, transcripts)."
        )
    below_one(failure, "failure")
    product = np.outer(law.sum(axis=1), law.sum(axis=0))
    possible = law > 0.0
    told, apart = law[possible], product[possible]
    order = np.argsort(-told / apart)
    gained, reference = np.cumsum(told[order]), np.cumsum(apart[order])
    return math.log2(float(np.max((gained - failure) / reference)))


def dwork_theorem_17(transcripts: int, *, failure: float) -> float:
    """Return the max-information of a transcript with finitely many values: ``log2(|Y| / beta)`` bits.

    Args:
        transcripts: |Y|, the number of transcripts that can occur, at least 1; any size of integer.
        failure: beta, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Theorem 17; any law of the rows.
    """
    if transcripts < 1:
        raise ValueError(f"transcripts is {transcripts!r}. Pass at least 1, the number of transcripts that can occur.")
    fraction(failure, "failure")
    return math.log2(transcripts) - math.log2(failure)


def dwork_theorem_19(rows: int, *, epsilon: float) -> float:
    """Return the max-information of a purely private transcript: ``eps n log2(e)`` bits, with beta = 0.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Theorem 19 (P3); any law of the rows.
    """
    check_count("rows", rows)
    check_nonnegative("epsilon", epsilon)
    return _BITS * epsilon * rows


def dwork_theorem_20(rows: int, *, epsilon: float, failure: float) -> float:
    """Return the max-information for independent rows: ``(eps^2 n/2 + eps sqrt(n ln(2/beta)/2)) log2(e)`` bits.

    Args:
        rows: Number n of independent rows.
        epsilon: Pure privacy loss of the whole session.
        failure: beta, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Theorem 20 (P3); rows independent.
    """
    check_count("rows", rows)
    check_nonnegative("epsilon", epsilon)
    fraction(failure, "failure")
    return _BITS * (epsilon**2 * rows / 2.0 + epsilon * math.sqrt(rows * math.log(2.0 / failure) / 2.0))


def zhao_theorem_3(rows: int, *, leakage: float, failure: float) -> float:
    """Return the max-information under BDP: ``(2 eps^2 n + eps sqrt(2 n ln(2/beta))) log2(e)`` bits (P3).

    This is Theorem 20 at twice the epsilon. For independent rows the leakage is the pure privacy loss, and
    :func:`dwork_theorem_20` is smaller. For dependent rows the published proof has an open gap (erratum 5).

    Args:
        rows: Number n of rows.
        leakage: Bayesian privacy loss of the whole session.
        failure: beta, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Theorem 3.
    """
    return dwork_theorem_20(rows, epsilon=2.0 * leakage, failure=failure)


def theorems_19_and_3_cross_at(rows: int, *, failure: float) -> float:
    """Return the privacy loss above which Theorem 19 of Dwork et al. is below Zhao's Theorem 3 (erratum 10).

    Theorem 3 has ``2 eps^2 n + eps sqrt(2 n ln(2/beta))`` nats and Theorem 19 has ``eps n``. They are equal at
    ``eps = (1 - sqrt(2 ln(2/beta) / n)) / 2``, which is below 1/2 for every number of rows.

    Args:
        rows: Number n of rows.
        failure: beta of Theorem 3, in (0, 1).

    Returns:
        The loss in nats; 0 where Theorem 19 is smaller for every loss.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> round(theorems_19_and_3_cross_at(10_000, failure=0.05), 4)
        0.4864
    """
    check_count("rows", rows)
    fraction(failure, "failure")
    return max(0.0, 0.5 - math.sqrt(math.log(2.0 / failure) / (2.0 * rows)))


def p_value_threshold(
    level: float, *, bits: float, failure: float = 0.0, dependence: DependenceModel | None = None
) -> float:
    """Return the threshold for a p-value chosen after a session: ``(level - beta) / 2^k`` (P3, S3).

    Rejecting at this threshold keeps the probability of a false rejection at most `level`, whatever test was chosen.
    For dependent rows the probabilities that the model is wrong (miss) and that training rows reveal sealed ones
    (distance) are subtracted, too: ``(level - miss - distance - beta) / 2^k``.

    Args:
        level: Requested probability of a false rejection, in (0, 1).
        bits: k: the beta-approximate max-information of the session (P3), or log2 of 1 / w where the hypothesis had
            the weight w among all that could have been chosen, fixed in advance, with a sum of at most 1 (S3): log2 N
            for N of them, and for the next node of a `QueryTree` its `log_inverse_weight` divided by ln 2.
        failure: beta, in [0, level); for dependent rows also less than what the model leaves of the level.
        dependence: How rows depend on each other, bound to these rows, such as ``holdout.mechanism.dependence``;
            independent by default.

    Raises:
        ValueError: If an argument is out of its range.
        DependenceError: If these two probabilities use up the level.

    Source: the meaning of max-information, Zhao 2017, section 2.1 after (1); Dwork et al. 2015 (NIPS).

    Examples:
        >>> p_value_threshold(0.05, bits=3.0, failure=0.01)
        0.005
    """
    fraction(level, "level")
    check_nonnegative("bits", bits)
    return _left_of(level, dependence, failure) * math.exp2(-bits)


_EXCESSES = np.concatenate([[0.0], np.geomspace(1e-7, 60.0, 160)])  # c - eps
_SHARES = np.geomspace(1e-6, 0.999, 40)  # of the failure that is left, for Markov's inequality
_EPSILONS = np.geomspace(1e-6, 60.0, 160)


@dataclass(frozen=True, slots=True)
class RogersBound:
    """Approximate max-information and the free parameters that attain it.

    Attributes:
        bits: k, in bits; infinite if no choice of the parameters is within the failure.
        cap: c, the largest loss about one row that is counted in full, in nats.
        epsilon: The point of the curve that bounds the probability of a larger loss, in nats.
    """

    bits: float
    cap: float
    epsilon: float


def rogers_2016(rows: int, *, epsilon: float, delta: float, failure: float) -> RogersBound:
    """Return the max-information of an (eps, delta)-private session on independent rows, with explicit constants.

    For every ``c > eps`` and ``beta_1, beta_2 > 0`` with ``beta_1 + beta_2 + n delta / (1 - e^{eps-c}) <= beta`` it is
    at most ``(n c tanh(c/2) + c sqrt(2 n ln(1/beta_1)) + n delta c / (beta_2 sinh(c))) log2(e)`` bits. For delta = 0
    the limit ``c = eps``, ``beta_1 = beta`` is used. The best of a grid of c and beta_2 is returned; each point of the
    grid is valid.

    Args:
        rows: n, the number of independent rows.
        epsilon: Privacy loss of the whole session about one replaced row, in nats.
        delta: Delta of the privacy loss, in [0, 1).
        failure: beta, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Rogers, Roth, Smith and Thakkar 2016, Theorem 3.1, up to constants; proof in docs/theory, published.

    Examples:
        >>> round(rogers_2016(10_000, epsilon=0.02, delta=1e-12, failure=0.05).bits, 1)
        10.0
        >>> rogers_2016(10_000, epsilon=0.02, delta=1e-5, failure=0.05).bits  # n delta is more than the failure
        inf
    """
    check_nonnegative("epsilon", epsilon)
    below_one(delta, "delta")
    return _best(rows, failure, np.array([epsilon]), np.array([delta]), lambda caps: np.full(caps.shape, delta))


def max_information_of_curve(curve: PrivacyCurve, *, rows: int, failure: float) -> RogersBound:
    """Return the max-information of a session with a whole privacy curve on independent rows.

    As `rogers_2016`, with ``n delta(eps) / (1 - e^{eps-c})`` in the failure and ``delta(c)`` in the bits, for the best
    eps of a grid. Finite for Gaussian noise.

    Args:
        curve: Hockey-stick curve of the whole session about one replaced row.
        rows: n, the number of independent rows.
        failure: beta, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: docs/theory, published (max-information).

    Examples:
        >>> from everhold_privacy.curves import GaussianCurve
        >>> round(max_information_of_curve(GaussianCurve(0.005), rows=10_000, failure=0.05).bits, 1)
        13.5
    """
    largest = curve.epsilon(0.0)
    epsilons = _EPSILONS if math.isinf(largest) else np.append(_EPSILONS[largest > _EPSILONS], largest)
    return _best(rows, failure, epsilons, np.asarray(curve.delta(epsilons)), lambda caps: np.asarray(curve.delta(caps)))


def _best(
    rows: int,
    failure: float,
    epsilons: NDArray[np.float64],
    deltas: NDArray[np.float64],
    delta_at: Callable[[NDArray[np.float64]], NDArray[Any]],
) -> RogersBound:
    """Return the least bits over eps, c and the split of the failure, all of which are valid."""
    check_count("rows", rows)
    fraction(failure, "failure")
    caps = epsilons[:, None] + _EXCESSES
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        beyond = np.where(deltas[:, None] > 0.0, rows * deltas[:, None] / -np.expm1(epsilons[:, None] - caps), 0.0)
        left = (failure - beyond)[..., None]
        tilt = np.where(caps > 0.0, caps / np.sinh(caps), 1.0) * delta_at(caps)  # c/sinh(c) delta(c)
        shares = np.where(tilt[..., None] > 0.0, _SHARES, 0.0)
        markov = np.where(tilt[..., None] > 0.0, rows * tilt[..., None] / (shares * left), 0.0)
        spread = caps[..., None] * np.sqrt(-2.0 * rows * np.log((1.0 - shares) * left))
        nats = (rows * caps * np.tanh(0.5 * caps))[..., None] + spread + markov
    nats = np.where((left > 0.0) & np.isfinite(nats), nats, math.inf)
    row, column, _ = np.unravel_index(np.argmin(nats), nats.shape)
    return RogersBound(_BITS * float(nats.min()), float(caps[row, column]), float(epsilons[row]))


_SCALES = np.geomspace(0.15, 2.5, 9)  # imagined noise in units of 1 / sqrt(rows); the radius is flat around its best
_REACHES = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5)  # z, the allowance for the imagined noise
_SESSION_EPSILONS = np.geomspace(1e-6, 60.0, 400)  # any of them is valid; the bound is flat around its best
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class PostSelectionBound:
    """Distance of a parameter's sealed average from its population value, if it was chosen after a session.

    Attributes:
        radius: Half-width around the exact sealed average, in the units of a mean over [0, 1].
        scale: Standard deviation of the imagined noise.
        reach: Allowance z of the bound, in units of the scale.
        epsilon: The eps of S1 that attains the radius.
        statement: The statement that proves it.
    """

    radius: float
    scale: float
    reach: float
    epsilon: float
    statement: str = "S1"


def corrected_p_value(
    p_value: float, *, bits: float, failure: float = 0.0, dependence: DependenceModel | None = None
) -> float:
    """Return the p-value of a hypothesis chosen after a session: ``min(1, 2^k p + beta)`` (P3, S3).

    For dependent rows the probability that the model fails is added. The result is at most a level if and only if the
    p-value is at most the `p_value_threshold` of that level.

    Args:
        p_value: P-value of the test as if it had been chosen before, in [0, 1]; right for rows that depend as these do.
        bits: k, as for `p_value_threshold`.
        failure: beta, in [0, 1).
        dependence: How rows depend on each other, bound to these rows, such as ``holdout.mechanism.dependence``. The
            default is independent rows.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> round(corrected_p_value(0.001, bits=3.0, failure=0.01), 6)
        0.018

        A test chosen after 20 queries, 2 of which were corrected by the sealed rows:

        >>> from everhold.guarantees.description_length import QueryTree
        >>> told = 2 * math.log(94)
        >>> weight = float(QueryTree(queries=30).log_inverse_weight(asked=21, surprises=2, labels=told))
        >>> f"{corrected_p_value(1e-9, bits=weight / math.log(2)):.1g}"
        '0.5'
    """
    check_nonnegative("bits", bits)
    below_one(failure, "failure")
    if not 0.0 <= p_value <= 1.0:
        raise ValueError(f"p_value is {p_value!r}. Pass a number from 0 to 1.")
    multiplied = math.exp(min(math.log(p_value) + bits * math.log(2.0), 0.0)) if p_value > 0.0 else 0.0
    return min(1.0, multiplied + failure + _given_up(dependence))


def max_information_bits(
    curve: PrivacyCurve, *, rows: int, failure: float, dependence: DependenceModel | None = None
) -> float:
    """Return a session's approximate max-information in bits, from its whole privacy curve (P3).

    The smallest of Theorem 19 of Dwork et al. 2015, for any law of the rows, and, for independent rows, of their
    Theorem 20 and of the bound for approximate privacy (`max_information_of_curve`). The last one alone is finite for
    curves that are not pure, such as Gaussian noise. For dependent rows such curves give infinity; use
    `post_selection_radius` there.

    Args:
        curve: Hockey-stick curve of the whole session for one replaced row.
        rows: Number n of rows.
        failure: beta, in (0, 1).
        dependence: Dependence of the rows on each other. The default is independent rows.

    Raises:
        ValueError: If an argument is out of its range.
    """
    check_count("rows", rows)
    fraction(failure, "failure")
    epsilon = curve.epsilon(0.0)
    always = math.inf if math.isinf(epsilon) else dwork_theorem_19(rows, epsilon=epsilon)
    if dependence is not None and not dependence.independent:
        return always
    pure = math.inf if math.isinf(epsilon) else dwork_theorem_20(rows, epsilon=epsilon, failure=failure)
    return min(always, pure, max_information_of_curve(curve, rows=rows, failure=failure).bits)


def corrected_radius(
    *, rows: int, confidence: float, bits: float, failure: float = 0.0, dependence: DependenceModel | None = None
) -> float:
    """Return the half-width around the sealed average of a parameter chosen after a session (P3 and S3, with P9).

    Hoeffding's at the level ``(beta - beta') / 2^k``, for what the rows are worth (S5). Where the parameter is the next
    node of the session's tree, this interval holds together with all others of the session.

    Args:
        rows: Number n of rows.
        confidence: 1 - beta, in (0, 1).
        bits: k, as for `p_value_threshold`.
        failure: beta', in [0, beta); for dependent rows also less than what the model leaves of beta.
        dependence: How rows depend on each other, bound to these rows, such as ``holdout.mechanism.dependence``. The
            default is independent rows.

    Raises:
        ValueError: If an argument is out of its range.
        DependenceError: If the probabilities that the model is wrong and that training rows reveal sealed ones use up
            beta.

    Examples:
        >>> round(corrected_radius(rows=20_000, confidence=0.95, bits=10.0, failure=0.01), 3)
        0.016
    """
    check_count("rows", rows)
    fraction(confidence, "confidence")
    check_nonnegative("bits", bits)
    worth = float(rows) if dependence is None else dependence.concentration(rows)
    level = bits * math.log(2.0) - math.log(_left_of(1.0 - confidence, dependence, failure))
    return float(hoeffding_radius(rows=worth, log_inverse_level=level))


def post_selection_radius(
    curve: PrivacyCurve, *, rows: int, confidence: float, dependence: DependenceModel | None = None
) -> PostSelectionBound:
    """Return the half-width around the sealed average of one parameter chosen after a session (S1).

    Let f be any query chosen from the transcript, and imagine that its average were released with Gaussian noise Z of
    scale sigma. S1 holds for that answer, with the curve of the session and of the Gaussian mechanism together. As Z is
    independent of rows and transcript, ``P[|f(X) - f(P)| > t] P[Z <= z sigma] <= P[|f(X) + Z - f(P)| > t - z sigma]``.
    So ``z sigma`` plus the radius of S1 at failure probability ``b = beta Phi(z)`` holds for the exact average; what
    S1 takes for the answer is ``2 sigma phi(q) / b`` at its best alpha, ``q = Phi^-1(1 - b/2)``. No noise is added to
    anything. The best sigma and z are found on a grid that no data touch.

    The rows may not be asked again afterwards: their exact average is no private answer. The leakage alone, without the
    imagined answer, bounds the mean of f over the posterior law of the rows, and not its average over the rows.

    Args:
        curve: Hockey-stick curve of the whole session for one replaced row; `PureCurve(0.0)` before any query.
        rows: Number n of rows.
        confidence: 1 - beta, in (0, 1).
        dependence: How rows depend on each other, bound to these rows, such as ``holdout.mechanism.dependence``;
            independent by default.
            Its leakage takes the place of the curve (S4), and training rows are counted there.

    Raises:
        ValueError: If an argument is out of its range.
        DependenceError: If the probability that the model is wrong uses up beta.
        ImportError: If the curve cannot be composed with a Gaussian one in closed form and `dp-accounting` is not
            installed.

    Source: docs/theory, post-selection.

    Examples:
        >>> bound = post_selection_radius(GaussianCurve(mu=0.02), rows=10_000, confidence=0.95)
        >>> round(bound.radius, 3)
        0.033
    """
    check_count("rows", rows)
    fraction(confidence, "confidence")
    # the leakage counts training rows, as in `Mechanism.statement_confidence`, so only a wrong model comes off
    beta = _without(1.0 - confidence, 0.0 if dependence is None else dependence.miss)
    levels = beta * ndtr(np.array(_REACHES))  # what is left of beta when Z <= z sigma is asked for
    quantiles = ndtri(1.0 - levels / 2.0)
    answer = 2.0 * np.exp(-(quantiles**2) / 2.0) / math.sqrt(2.0 * math.pi) / levels  # min of alpha + r(alpha)/level
    candidates = []
    for scale in (_SCALES / math.sqrt(rows)).tolist():
        both = curve.compose(GaussianCurve(mu=1.0 / (rows * scale)))
        leaked = np.asarray((both if dependence is None else leakage(dependence, both, rows)).delta(_SESSION_EPSILONS))
        totals = (
            np.tanh(_SESSION_EPSILONS / 4.0)[:, None] + leaked[:, None] / levels + scale * (answer + np.array(_REACHES))
        )
        best, reach = np.unravel_index(int(np.argmin(totals)), totals.shape)
        found = float(totals[best, reach]) * (1.0 + _ROUNDING)
        candidates.append(PostSelectionBound(found, scale, _REACHES[reach], float(_SESSION_EPSILONS[best])))
    return min(candidates, key=lambda bound: bound.radius)


def _given_up(dependence: DependenceModel | None) -> float:
    """Return the failure probability that dependence costs: the model is wrong, or training rows reveal sealed rows."""
    return 0.0 if dependence is None else dependence.miss + dependence.training_distance()


def _left_of(chance: float, dependence: DependenceModel | None, failure: float = 0.0) -> float:
    """Return what remains of an allowed failure probability after dependence and the failure of a session."""
    left = _without(chance, _given_up(dependence))
    if not 0.0 <= failure < left:
        raise ValueError(f"failure is {failure!r}. Pass a number of at least 0 and below {left:.3g}.")
    return left - failure


def _without(chance: float, lost: float) -> float:
    """Return an allowed failure probability less that with which the dependence model fails."""
    if not lost < chance:
        raise DependenceError(
            f"The dependence model fails with probability {lost:.3g}, and the statement "
            f"may fail with probability {chance:.3g} at most. Use a larger gap to the "
            "training rows, fit the model on more rows, or pass a lower confidence."
        )
    return chance - lost
