"""Classical statements: McSherry (P8), Hoeffding (P9), BLR (P10), the exponential mechanism (P11), the Ladder (P12).

P10 and P11 bound the error against the sealed rows. What the population adds comes from a transfer statement.
"""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

from everhold.arguments import fraction, positive
from everhold_lab.published.bound import BoundOfSource, check_count, check_nonnegative


def small_database_rows(queries: int, *, accuracy: float) -> int:
    """Rows of a small data set that answers every query within `accuracy`: ``s = ceil(ln|Q| / alpha^2)`` (P10).

    Args:
        queries: |Q|, at least 2: sampling s rows fails with probability below ``2|Q| e^{-2 s alpha^2} <= 2/|Q|``.
        accuracy: alpha, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum, Ligett and Roth 2008; Dwork and Roth 2014, Theorem 4.2.
    """
    if queries < 2:
        raise ValueError(f"queries is {queries!r}, expected at least 2; answer a single query with noise instead")
    return math.ceil(math.log(queries) / fraction(accuracy, "accuracy") ** 2)


def mcsherry_bias(epsilon: float, *, delta: float = 0.0) -> float:
    """Bias of a privately chosen query, ``|E h(S) - E h(P)| <= e^eps - 1 + delta`` (statement P8).

    Args:
        epsilon: Privacy loss of the choice of h, at least 0.
        delta: In [0, 1).

    Returns:
        A bound in units of the query, h in [0, 1]; in expectation only, above 1 it says nothing.

    Raises:
        ValueError: If an argument is out of its range.

    Source: McSherry, folklore; rows independent and identically distributed. Slides have ``2 eps + delta`` for eps < 1,
    which is weaker, and ``eps + delta``, which their proof does not give. Bounds with high probability (Dwork et al.
    2015, STOC; Bassily et al. 2016) are left out: docs/theory, published.
    """
    check_nonnegative("epsilon", epsilon)
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta is {delta!r}, expected a number in [0, 1); pass 0 for pure privacy")
    return math.expm1(epsilon) + delta


def hoeffding_failure(rows: int, *, radius: float) -> float:
    """Probability that the average of one fixed query is off: ``2 exp(-2 n alpha^2)``, at most 1 (statement P9).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Hoeffding 1963, Theorem 2; rows independent, query in [0, 1].
    """
    check_count("rows", rows)
    positive(radius, "radius")
    return min(1.0, 2.0 * math.exp(-2.0 * rows * radius**2))


def azuma_failure(steps: int, *, size: float, excess: float) -> float:
    """Probability that a martingale rises by `excess`: ``exp(-t^2 / (2 n c^2))``, at most 1.

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
    """Largest error of BLR's synthetic data on the sealed rows: ``alpha + 2/(eps n) (s ln|U| + ln(1/beta))`` (P10).

    The exponential mechanism picks among all ``|U|^s`` data sets of ``s = ceil(ln|Q|/alpha^2)`` rows by the score
    ``-max_f |f(x) - f(y)|``, which one row moves by 1/n.

    Args:
        rows: n.
        queries: |Q|, at least 2.
        universe: |U|, number of different rows that exist.
        accuracy: alpha, free; the smaller, the larger the data sets.
        epsilon: Privacy loss.
        confidence: 1 - beta, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum, Ligett and Roth 2008; Dwork and Roth 2014, Proposition 4.4.
    """
    check_count("rows", rows)
    check_count("universe", universe)
    candidates = small_database_rows(queries, accuracy=accuracy) * math.log(universe)
    return accuracy + _shortfall(candidates, 1.0 / rows, epsilon, confidence)


def blr_rows(error: float, *, queries: int, universe: int, accuracy: float, epsilon: float, confidence: float) -> int:
    """Rows for which :func:`blr_error` is at most `error`, rounded up; same arguments (statement P10).

    Raises:
        ValueError: If `accuracy` is not below `error`, or an argument is out of its range.

    Source: Blum, Ligett and Roth 2008; Dwork and Roth 2014, Proposition 4.4.
    """
    check_count("universe", universe)
    if not accuracy < error:
        raise ValueError(f"accuracy is {accuracy!r}, not below the requested error {error!r}; pass e.g. half of it")
    candidates = small_database_rows(queries, accuracy=accuracy) * math.log(universe)
    return max(1, math.ceil(_shortfall(candidates, 1.0, epsilon, confidence) / (error - accuracy)))


def _shortfall(log_outcomes: float, sensitivity: float, epsilon: float, confidence: float) -> float:
    positive(sensitivity, "sensitivity")
    positive(epsilon, "epsilon")
    fraction(confidence, "confidence")
    return 2.0 * sensitivity / epsilon * (log_outcomes - math.log1p(-confidence))


def exponential_utility(outcomes: int, *, sensitivity: float, epsilon: float, confidence: float) -> float:
    """Distance of the chosen score below the best: ``(2 Delta_u / eps) ln(|R| / beta)`` (statement P11).

    For the mechanism ``P[y] ~ exp(eps u(x,y) / (2 Delta_u))``, with probability `confidence`.

    Args:
        outcomes: |R|, any size of integer.
        sensitivity: Delta_u, how much one row moves a score.
        epsilon: Privacy loss.
        confidence: 1 - beta, in (0, 1).

    Returns:
        The shortfall, in units of the score.

    Raises:
        ValueError: If an argument is out of its range.

    Source: McSherry and Talwar 2007; Dwork and Roth 2014, Corollary 3.12. No assumption on the rows.
    """
    if outcomes < 1:
        raise ValueError(f"outcomes is {outcomes!r}, expected at least 1; count every outcome that can be chosen")
    return _shortfall(math.log(outcomes), sensitivity, epsilon, confidence)


def ladder_failure(rows: int, *, excess: float, submissions: int, step: float) -> float:
    """Failure of the leaderboard: ``exp(-2 e^2 n + (1/eta + 2) ln(4t/eta) + 1)``, at most 1 (statement P12).

    It bounds ``P[|min_{i<=t} R_P(f_i) - R_t| > e + eta]``: the best score shown after t submissions against the
    least true loss among them. Other scores are not promised.

    Args:
        rows: n, independent.
        excess: e, in units of the loss.
        submissions: t.
        step: eta, in (0, 1].

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum and Hardt 2015, Theorem 3.1.
    """
    check_count("rows", rows)
    positive(excess, "excess")
    return min(1.0, math.exp(min(0.0, _tree(submissions, step) - 2.0 * excess**2 * rows)))


def ladder_excess(rows: int, *, submissions: int, step: float, failure: float) -> float:
    """The e at which :func:`ladder_failure` equals `failure`: ``sqrt(((1/eta+2) ln(4t/eta) + 1 + ln(1/beta)) / (2n))``.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Blum and Hardt 2015, Theorem 3.1, inverted.
    """
    check_count("rows", rows)
    fraction(failure, "failure")
    return math.sqrt((_tree(submissions, step) - math.log(failure)) / (2.0 * rows))


def ladder_radius(rows: int, *, submissions: int, confidence: float) -> BoundOfSource:
    """Error of the best score shown, ``e + eta``, with the step eta that makes it least (statement P12).

    Args:
        rows: n, independent.
        submissions: t.
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
        raise ValueError(f"step is {step!r}, expected a number in (0, 1]; pass e.g. 0.01")
    return (1.0 / step + 2.0) * math.log(4.0 * submissions / step) + 1.0
