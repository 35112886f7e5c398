"""Max-information: how much a session can inflate the probability of a bad event, in bits.

``P[(X, Y) in O] <= 2^k P[X x Y in O] + beta`` for every event O, when k is the beta-approximate max-information
between the rows X and the transcript Y. Theorems 17 and 19 hold for every law of the rows, Theorem 20
needs them independent. Sessions with approximate privacy are in `everhold_lab.theory.approximate_max_information`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from everhold.arguments import fraction
from everhold_lab.published.bound import check_count, check_nonnegative

_BITS = 1.0 / math.log(2.0)


def exact_max_information(joint: ArrayLike, *, failure: float = 0.0) -> float:
    """Approximate max-information of a finite joint law, exactly: ``log2 max_O (P[O] - beta) / (P x P)[O]``.

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
            f"joint has shape {law.shape} or is no law; expected probabilities of shape (data sets, transcripts) that "
            "sum to 1"
        )
    if not 0.0 <= failure < 1.0:
        raise ValueError(f"failure is {failure!r}, expected a number in [0, 1); pass 0 for max-information itself")
    product = np.outer(law.sum(axis=1), law.sum(axis=0))
    possible = law > 0.0
    told, apart = law[possible], product[possible]
    order = np.argsort(-told / apart)
    gained, reference = np.cumsum(told[order]), np.cumsum(apart[order])
    return math.log2(float(np.max((gained - failure) / reference)))


def dwork_theorem_17(transcripts: int, *, failure: float) -> float:
    """Max-information of a transcript that takes one of finitely many values: ``log2(|Y| / beta)`` bits.

    Args:
        transcripts: |Y|, the number of transcripts that can occur, at least 1; any size of integer.
        failure: beta, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Theorem 17; any law of the rows.
    """
    if transcripts < 1:
        raise ValueError(f"transcripts is {transcripts!r}, expected at least 1; count every transcript that can occur")
    fraction(failure, "failure")
    return math.log2(transcripts) - math.log2(failure)


def dwork_theorem_19(rows: int, *, epsilon: float) -> float:
    """Max-information of a purely private transcript: ``eps n log2(e)`` bits, with beta = 0.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Dwork et al. 2015 (NIPS), Theorem 19 (P3); any law of the rows.
    """
    check_count("rows", rows)
    check_nonnegative("epsilon", epsilon)
    return _BITS * epsilon * rows


def dwork_theorem_20(rows: int, *, epsilon: float, failure: float) -> float:
    """Max-information for independent rows: ``(eps^2 n/2 + eps sqrt(n ln(2/beta)/2)) log2(e)`` bits.

    Args:
        rows: n.
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
    """Max-information under Bayesian privacy: ``(2 eps^2 n + eps sqrt(2 n ln(2/beta))) log2(e)`` bits (P3).

    This is Theorem 20 at twice the epsilon. For independent rows the leakage is the pure privacy loss, and
    :func:`dwork_theorem_20` is smaller. For dependent rows the published proof has an open gap (erratum 5).

    Args:
        rows: n.
        leakage: Bayesian privacy loss of the whole session.
        failure: beta, in (0, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Theorem 3.
    """
    return dwork_theorem_20(rows, epsilon=2.0 * leakage, failure=failure)


def theorems_19_and_3_cross_at(rows: int, *, failure: float) -> float:
    """Privacy loss from which on Dwork et al.'s Theorem 19 is smaller than Zhao's Theorem 3 (erratum 10).

    Theorem 3 has ``2 eps^2 n + eps sqrt(2 n ln(2/beta))`` nats and Theorem 19 has ``eps n``. They are equal at
    ``eps = (1 - sqrt(2 ln(2/beta) / n)) / 2``, which is below 1/2 for every number of rows.

    Args:
        rows: n.
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


def p_value_threshold(level: float, *, bits: float, failure: float = 0.0) -> float:
    """Threshold for the p-value of a test chosen after a session: ``(level - beta) / 2^k`` (statement P3).

    Rejecting at this threshold keeps the probability of a false rejection at most `level`, whatever test was chosen.

    Args:
        level: Requested probability of a false rejection, in (0, 1).
        bits: k, the beta-approximate max-information of the session.
        failure: beta, in [0, level).

    Raises:
        ValueError: If an argument is out of its range.

    Source: the meaning of max-information, Zhao 2017, section 2.1 after (1); Dwork et al. 2015 (NIPS).

    Examples:
        >>> p_value_threshold(0.05, bits=3.0, failure=0.01)
        0.005
    """
    fraction(level, "level")
    check_nonnegative("bits", bits)
    if not 0.0 <= failure < level:
        raise ValueError(f"failure is {failure!r}, expected a number in [0, level = {level!r}); pass a smaller one")
    return (level - failure) * math.exp2(-bits)
