"""Max-information of approximately private sessions on independent rows (after Rogers, Roth, Smith, Thakkar 2016).

Their Theorem 3.1 bounds the approximate max-information of an (eps, delta)-private session on independent rows by
``O(eps^2 n + n sqrt(delta/eps))`` bits, with failure ``e^{-eps^2 n} + O(n sqrt(delta/eps))``. The form computed here
has explicit constants and a proof of its own, and implies theirs. The proof is in docs/theory, published.

Rows have to be independent: Rogers et al. show that the connection fails for other laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import fraction
from everhold_lab.published.bound import check_count, check_nonnegative

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.privacy.curves import PrivacyCurve

_BITS = 1.0 / math.log(2.0)
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
    """Max-information of an (eps, delta)-private session on independent rows, with explicit constants.

    For every ``c > eps`` and ``beta_1, beta_2 > 0`` with ``beta_1 + beta_2 + n delta / (1 - e^{eps-c}) <= beta`` it is
    at most ``(n c tanh(c/2) + c sqrt(2 n ln(1/beta_1)) + n delta c / (beta_2 sinh(c))) log2(e)`` bits. For delta = 0
    the limit ``c = eps``, ``beta_1 = beta`` is used. The best of a grid of c and beta_2 is returned; each point of the
    grid is valid.

    Args:
        rows: n, the number of independent rows.
        epsilon: Privacy loss of the whole session about one replaced row, in nats.
        delta: In [0, 1).
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
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta is {delta!r}, expected a number in [0, 1); pass 0 for pure privacy")
    return _best(rows, failure, np.array([epsilon]), np.array([delta]), lambda caps: np.full(caps.shape, delta))


def max_information_of_curve(curve: PrivacyCurve, *, rows: int, failure: float) -> RogersBound:
    """Max-information of a session with a whole privacy curve, such as Gaussian noise, on independent rows.

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
        >>> from everhold.privacy import GaussianCurve
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
    """The least bits over eps, c and the split of the failure; all that is tried is valid."""
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
