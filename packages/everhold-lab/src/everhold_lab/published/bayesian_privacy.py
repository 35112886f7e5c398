"""Bayesian differential privacy (Zhao 2017): by enumeration on small models, and Lemmas 2 to 4.

An adversary ``A(i, S)`` knows the rows S and wants row i. A mechanism that is differentially private may tell more
about a row of dependent data than its privacy loss, for other rows tell about it, too. Small models are given in full:
``joint`` of shape (k_1, ..., k_n) is the joint law of the rows, ``law`` of shape (k_1, ..., k_n, outputs) is the law of
the output for each data set. Contexts of probability zero are skipped; a ratio with a zero denominator is infinite.

Erratum 1: the proof of Zhao's Theorem 1 applies Lemma 2 backwards; both directions stand here. Erratum 5: what the
paper builds on these lemmas for dependent rows (Theorems 1 to 3, Lemma 1) has an open gap; the lemmas have none. The
statements themselves are in `everhold_lab.published.thresholdout`.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Options = Sequence[Sequence[tuple[int, float]]]
"""For each row, what is known about it: pairs (number of other rows nearby, max-influence on the quilt)."""


@dataclass(frozen=True, slots=True)
class BayesianPrivacy:
    """The least Bayesian privacy loss of a mechanism, with the worst adversary.

    Attributes:
        leakage: Bayesian privacy loss, in nats; infinite where something is told for certain.
        row: The row that is attacked.
        known: The rows that the adversary knows, in order.
    """

    leakage: float
    row: int
    known: tuple[int, ...]


# Enumeration ----------------------------------------------------------------------------------------------------------


def bayesian_leakage(joint: ArrayLike, law: ArrayLike, *, row: int, known: Sequence[int] = ()) -> float:
    """Return the leakage to one adversary, ``BDPL_A(Y) = sup ln P[y | x_i, x_S] / P[y | x_i', x_S]``.

    Args:
        joint: Joint law of the rows, shape (k_1, ..., k_n), sum 1.
        law: Law of the output for each data set, shape (k_1, ..., k_n, outputs).
        row: i, the row that is attacked.
        known: S, the rows that the adversary knows.

    Returns:
        The loss in nats, at least 0.

    Raises:
        ValueError: If the shapes do not match or a row does not exist.

    Source: Zhao 2017, section 3 (theory, section 4).

    Examples:
        >>> copies = [[0.5, 0.0], [0.0, 0.5]]  # two equal bits; the output is the first one, told with odds 3
        >>> first_bit = [[[0.75, 0.25], [0.75, 0.25]], [[0.25, 0.75], [0.25, 0.75]]]
        >>> round(bayesian_leakage(copies, first_bit, row=1), 4)  # ln 3, though the second row is not even looked at
        1.0986
    """
    prior, both = _tables(joint, law)
    _check_rows(prior.ndim, row, known)
    unknown = tuple(axis for axis in range(prior.ndim) if axis != row and axis not in known)
    told, context = both.sum(axis=unknown, keepdims=True), prior.sum(axis=unknown, keepdims=True)
    return _log_ratio(told, context[..., None], row)


def bayesian_privacy(joint: ArrayLike, law: ArrayLike) -> BayesianPrivacy:
    """Return the least eps for which a mechanism is eps-BDP on a model, over all n 2^(n-1) adversaries.

    Args:
        joint: Joint law of the rows, shape (k_1, ..., k_n), sum 1.
        law: Law of the output for each data set, shape (k_1, ..., k_n, outputs).

    Raises:
        ValueError: If the shapes do not match.

    Source: Zhao 2017, Definition of eps-BDP (theory, section 4).
    """
    prior, both = _tables(joint, law)
    return max(
        (
            BayesianPrivacy(_log_ratio(told, context[..., None], row), row, known)
            for row in range(prior.ndim)
            for told, context, known in _adversaries(both, prior, row)
        ),
        key=lambda found: found.leakage,
    )


def enumerated_influence(joint: ArrayLike, *, targets: Sequence[int], row: int, given: Sequence[int] = ()) -> float:
    """Return ``I(X_T <~ X_i | X_K) = ln max P[x_T | x_i, x_K] / P[x_T | x_i', x_K]``, by enumeration.

    Args:
        joint: Joint law of the rows, shape (k_1, ..., k_n), sum 1.
        targets: T; the influence on no row is 0. With the Markov blanket of the row it is a_i.
        row: Position i of the row whose influence is returned.
        given: K, no row of which is a target.

    Raises:
        ValueError: If a row does not exist or has two roles.

    Source: Song, Wang and Chaudhuri 2017; Zhao 2017 (theory, section 4).
    """
    prior = _probabilities(joint)
    _check_rows(prior.ndim, row, (*targets, *given))
    others = tuple(axis for axis in range(prior.ndim) if axis != row and axis not in {*targets, *given})
    table = prior.sum(axis=others, keepdims=True)
    return _log_ratio(table, table.sum(axis=tuple(targets), keepdims=True), row)


def enumerated_quilt_influence(joint: ArrayLike, *, row: int, quilt: Sequence[int], nearby: Sequence[int]) -> float:
    """Return ``b_i``, the largest influence of a row on its quilt over all given nearby rows.

    Args:
        joint: Joint law of the rows, shape (k_1, ..., k_n), sum 1.
        row: Position i of the row whose influence is returned.
        quilt: Positions Q_i of the rows of the quilt.
        nearby: N_i without the row itself.

    Raises:
        ValueError: If a row does not exist or has two roles.

    Source: Zhao 2017 (theory, section 4). S4 needs the influence with nothing given only: `enumerated_influence`.
    """
    subsets = itertools.chain.from_iterable(itertools.combinations(nearby, size) for size in range(len(nearby) + 1))
    return max(enumerated_influence(joint, targets=quilt, row=row, given=given) for given in subsets)


def _adversaries(
    both: NDArray[np.float64], prior: NDArray[np.float64], row: int, *, axis: int = 0, known: tuple[int, ...] = ()
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], tuple[int, ...]]]:
    """Yield tables of ``P[y, x_i, x_S]`` and ``P[x_i, x_S]`` for every set S of known rows."""
    if axis == prior.ndim:
        yield both, prior, known
    elif axis == row:
        yield from _adversaries(both, prior, row, axis=axis + 1, known=known)
    else:
        yield from _adversaries(both, prior, row, axis=axis + 1, known=(*known, axis))
        told, context = both.sum(axis=axis, keepdims=True), prior.sum(axis=axis, keepdims=True)
        yield from _adversaries(told, context, row, axis=axis + 1, known=known)


def _log_ratio(table: NDArray[np.float64], context: NDArray[np.float64], row: int) -> float:
    """Return the log of the largest ``table/context`` over the smallest along the row's axis, in possible contexts."""
    possible = context > 0.0
    share = np.divide(table, context, out=np.zeros(np.broadcast_shapes(table.shape, context.shape)), where=possible)
    largest = share.max(axis=row)
    least = np.min(share, axis=row, where=np.broadcast_to(possible, share.shape), initial=math.inf)
    seen = largest > 0.0
    with np.errstate(divide="ignore"):
        return math.log(max(1.0, float(np.max(largest[seen] / least[seen]))))


def _tables(joint: ArrayLike, law: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the joint law of the rows, and that of rows and output."""
    prior, outputs = _probabilities(joint), np.asarray(law, dtype=np.float64)
    if outputs.shape[:-1] != prior.shape:
        raise ValueError(
            f"law has shape {outputs.shape}, and joint has shape {prior.shape}. Pass a law "
            "with the axes of joint and one more for the outputs."
        )
    if np.any(outputs < 0.0) or not np.allclose(outputs.sum(axis=-1), 1.0):
        raise ValueError("law is negative or does not sum to 1 over the outputs. Pass probabilities.")
    return prior, prior[..., None] * outputs


def _probabilities(joint: ArrayLike) -> NDArray[np.float64]:
    prior = np.asarray(joint, dtype=np.float64)
    if prior.ndim == 0 or np.any(prior < 0.0) or not math.isclose(float(prior.sum()), 1.0, rel_tol=1e-9):
        raise ValueError("joint is negative or does not sum to 1. Pass probabilities with one axis for each row.")
    return prior


def _check_rows(rows: int, row: int, others: Sequence[int]) -> None:
    if len({row, *others}) <= len(others) or not all(0 <= one < rows for one in (row, *others)):
        raise ValueError(
            f"The row is {row} and the other rows are {tuple(others)}. Pass different numbers from 0 to {rows - 1}."
        )


# Lemmas 2 and 3 -------------------------------------------------------------------------------------------------------


def privacy_for(epsilon: float, options: Options) -> float:
    """Return the differential privacy that gives a wanted BDP, ``eps' = min_i max_Q (eps - 4 b_i)/(|N_i|+1)`` (P5).

    Args:
        epsilon: The wanted Bayesian privacy loss.
        options: For each row the pairs ``(|N_i|, b_i)`` of its quilts (Lemma 2) and ``(0, a_i)`` of its Markov blanket
            (Lemma 3). The pair ``(n - 1, 0.0)``, all other rows nearby, is always right.

    Returns:
        eps', 0 where no option of some row leaves room for noise. Its reciprocal is the price of P1 and P2.

    Raises:
        ValueError: If epsilon is not positive, or an option is negative or missing.

    Source: Zhao 2017, Lemmas 2 and 3.

    Examples:
        >>> privacy_for(1.0, [[(4, 0.0), (1, 0.1)], [(2, 0.0)]])
        0.3
    """
    if not epsilon > 0.0:
        raise ValueError(f"epsilon is {epsilon}. Pass a positive privacy loss.")
    return max(0.0, min(max((epsilon - 4.0 * b) / (nearby + 1) for nearby, b in row) for row in _checked(options)))


def leakage_from(privacy: float, options: Options) -> float:
    """Return the BDP that differential privacy gives, ``max_i min_Q [(|N_i|+1) eps' + 4 b_i]`` (P5).

    Args:
        privacy: eps', the mechanism's pure privacy loss about one row.
        options: Pairs for each row, in the form that `privacy_for` takes.

    Raises:
        ValueError: If the privacy loss is negative, or an option is negative or missing.

    Source: Zhao 2017, Lemmas 2 and 3 read forwards (erratum 1).

    Examples:
        >>> leakage_from(0.25, [[(4, 0.0), (1, 0.1)], [(2, 0.0)]])
        0.9
    """
    if not privacy >= 0.0:
        raise ValueError(f"privacy is {privacy}. Pass a privacy loss of at least 0.")
    return max(min((nearby + 1) * privacy + 4.0 * b for nearby, b in row) for row in _checked(options))


def _checked(options: Options) -> Options:
    if not options or not all(row and all(nearby >= 0 and b >= 0.0 for nearby, b in row) for row in options):
        raise ValueError(
            "options has no pair for a row, or a negative number in a pair. Pass at least one pair (rows nearby, "
            "influence) for each row."
        )
    return options


# Lemma 4 --------------------------------------------------------------------------------------------------------------


def chain_privacy_for(epsilon: float, *, rows: int, gap: float, least: float) -> float:
    """Return the differential privacy for a wanted BDP on a Markov chain, Zhao's h at its best c (P6).

    The chain must be homogeneous, aperiodic, irreducible and reversible. For any c in (0, 1/6) with ``n >= 2d``,
    ``h = min{(1-6c) eps/(2d-1), (1/3-2c) eps/(d+s)}``, ``d = ceil((1/g) ln((e^{c eps}+1)/(rho (e^{c eps}-1))))``,
    ``s = floor((1/g) ln((e^{eps/6}+1)/(rho (e^{eps/6}-1))))``. For a given d the least c is best, and h has one peak
    over d (a concave function over a linear one), so the search over c is a search over whole numbers d.

    Args:
        epsilon: The wanted Bayesian privacy loss.
        rows: Number n of rows.
        gap: g, 1 minus the second largest absolute eigenvalue, in (0, 1].
        least: rho, the least stationary probability, in (0, 1).

    Returns:
        h, 0 where no c leaves room with so few rows; its reciprocal is the price of P2 for a chain (erratum 7).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Lemma 4. Erratum 3: the printed t and xi are not used, s is that of section 5.3 of the paper, and
    eigenvalues are numbered by states. Erratum 7: this c is not that of Theorem 2.

    Examples:
        >>> round(chain_privacy_for(0.5, rows=10_000, gap=0.4, least=0.3), 5)
        0.00562
    """
    if not epsilon > 0.0:
        raise ValueError(f"epsilon is {epsilon}. Pass a positive privacy loss.")
    _check_chain(rows, gap, least)
    side = math.floor(-math.log(least * math.tanh(epsilon / 12.0)) / gap)

    def value(distance: int) -> float:
        mixed = math.exp(-gap * distance) / least
        rest = epsilon - 12.0 * math.atanh(mixed) if mixed < 1.0 else -math.inf  # (1 - 6c) eps at the least c
        return min(rest / (2 * distance - 1), rest / (3 * (distance + side)))

    return max(0.0, value(_peak(value, side + 1, rows // 2))) if rows // 2 > side else 0.0  # c < 1/6 means d > s


def chain_leakage_from(privacy: float, *, rows: int, gap: float, least: float) -> float:
    """Return the BDP that differential privacy gives on a Markov chain, the least eps with h >= eps' (P6).

    Args:
        privacy: eps', the mechanism's pure privacy loss about one row, positive.
        rows: Number n of rows.
        gap: g, in (0, 1].
        least: rho, in (0, 1).

    Returns:
        The Bayesian privacy loss, rounded up; infinite where the chain is too short for the lemma.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Zhao 2017, Lemma 4 read forwards; conditions and errata as for `chain_privacy_for`.
    """
    if not 0.0 < privacy < math.inf:
        raise ValueError(f"privacy is {privacy}. Pass a positive finite privacy loss.")
    _check_chain(rows, gap, least)
    if math.exp(-gap * (rows // 2)) >= least:
        return math.inf

    def enough(epsilon: float) -> bool:
        return chain_privacy_for(epsilon, rows=rows, gap=gap, least=least) >= privacy

    high = privacy
    while not enough(high):
        high *= 2.0
    low = high / 2.0
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _peak(value: Callable[[int], float], low: int, high: int) -> int:
    """Return the argument at which a function with a single peak is largest, by bisection on its slope."""
    return low + bisect_left(range(low, high), True, key=lambda at: value(at) >= value(at + 1))


def _check_chain(rows: Any, gap: float, least: float) -> None:
    if not rows >= 1:
        raise ValueError(f"rows is {rows}. Pass a whole number of at least 1.")
    if not 0.0 < gap <= 1.0:
        raise ValueError(
            f"gap is {gap}. Pass a spectral gap above 0 and at most 1, which a periodic or "
            "reducible chain does not have."
        )
    if not 0.0 < least < 1.0:
        raise ValueError(f"least is {least}. Pass the least stationary probability, between 0 and 1.")
