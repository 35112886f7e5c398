"""Releases of one number or one choice: noise on a fine grid, the sum of a Gaussian field, and permute-and-flip."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import roots_legendre

from everhold.arguments import as_float, as_whole, positive
from everhold.display import Display
from everhold.errors import DependenceError
from everhold.randomness import LARGEST_SCALE, uniform_below
from everhold_privacy.curves import PureCurve
from everhold_privacy.guarantees import permute_and_flip_exceedance
from everhold_privacy.mechanisms.selection import (
    MARGIN,
    ExponentialMechanism,
    below_exponential,
    chances_of,
    gaps_of,
    words_of,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.randomness import Noise


_FINE = 30  # the noise scale is about 2**30 steps of the grid
_LEAST_STEPS = 2**10
_ROUNDING = Fraction(1 + 2**-40)


@dataclass(frozen=True, slots=True)
class Release(Display):
    """A single released number with noise, and its privacy guarantee.

    Attributes:
        value: The number with noise, in the units of the query.
        scale: Scale of the discrete Laplace noise that was drawn, in the units of the query.
        epsilon: Privacy loss of this release; another release costs as much again.
        statement: What is promised, in words.
        source: The theorem that proves it.
        step: Step of the grid on which value and noise live; the query has to be evaluated to within half of it.
        simulated: Whether the noise has a known seed, so that the number is not private.
    """

    value: float
    scale: float
    epsilon: float
    statement: str
    source: str
    step: float
    simulated: bool


@dataclass(frozen=True, slots=True)
class NoiseGrid:
    """A grid on which Laplace noise of a scale is drawn, so that what is promised for real numbers stays true.

    The step is ``sensitivity / steps`` with a power of two of steps, about ``2**30`` in one noise scale. Two numbers
    that differ by ``h`` sensitivities are rounded to multiples of the step that differ by ``h * steps`` at most; if
    either was evaluated with an error of up to half a step, by ``h * (steps + 1)``. The noise is scaled for
    ``steps + 1``, rounded up, which costs at most a thousandth of the scale.

    Attributes:
        step: Step of the grid, in the units of the query; exact.
        scale: Scale of the discrete Laplace noise, in steps.
    """

    step: Fraction
    scale: int

    @classmethod
    def of(cls, *, sensitivity: float, multiple: float) -> NoiseGrid:
        """Return the grid for noise of scale ``multiple * sensitivity``.

        Raises:
            ValueError: If noise of this scale cannot be drawn.
        """
        if not (multiple > 0.0 and multiple * _LEAST_STEPS < LARGEST_SCALE / 2):
            raise ValueError(
                f"The noise scale is {multiple:.4g} times what a row changes. It must be above 0 and below "
                f"{LARGEST_SCALE // 2 // _LEAST_STEPS:.3g} times, so pass a larger epsilon."
            )
        steps = max(_LEAST_STEPS, 2 ** max(_FINE - math.ceil(math.log2(multiple)), 0))
        scale = math.ceil(Fraction(multiple) * _ROUNDING * (steps + 1))
        return cls(Fraction(sensitivity) / steps, scale)

    def noisy(self, value: float, noise: Noise, *, stream: str) -> float:
        """Return the value rounded to the grid plus noise. The sum is exact before its conversion to a float.

        Raises:
            ValueError: If the value is not finite; it is not quoted.
        """
        count, number = as_whole(value), as_float(value)
        if count is None and not math.isfinite(number):
            raise ValueError("The value to release is not finite. Pass a finite number.")
        steps = math.floor(Fraction(number if count is None else count) / self.step + Fraction(1, 2))
        return float((steps + int(noise.laplace(self.scale, 1, stream=stream)[0])) * self.step)

    def release(
        self, value: float, noise: Noise, *, stream: str, epsilon: float, statement: str, source: str
    ) -> Release:
        """Return the value plus noise, with the privacy guarantee that the noise gives.

        Raises:
            ValueError: If the value is not finite, or the noise cannot be drawn.
        """
        return Release(
            value=self.noisy(value, noise, stream=stream),
            scale=self.drawn_scale,
            epsilon=epsilon,
            statement=statement,
            source=source,
            step=float(self.step),
            simulated=noise.simulated,
        )

    @property
    def drawn_scale(self) -> float:
        """The noise scale in the units of the query."""
        return float(self.scale * self.step)


_MOST_ENUMERATED = 12
_WORST_CONDITION = 1e8
_WORST_ERROR = 0.01  # of a variance of at least 1
_SAME = 1e-12  # of entries that differ by less, relative to the diagonal, the difference is a rounding error


@dataclass(frozen=True, eq=False, init=False)
class GaussianFieldMechanism:
    """Mechanism that releases the sum of a Gaussian Markov random field once, with Bayesian privacy.

    An adversary who knows some rows and not others sees, through the sum, row i and whatever the unknown rows tell
    about it. Given row i and the known rows, the sum is Gaussian with a mean linear in row i: two values that are
    ``width`` apart only shift its law, by ``width * |1 + sum of regression coefficients|``. Where all partial
    correlations are non-negative, the adversary who knows nothing sees the largest shift, and
    ``scale = width * max_i sum_j S_ji / S_ii / epsilon`` with the covariance ``S`` (proof in the guide on releases for
    dependent rows). Where some are negative, all adversaries are enumerated, for at most 12 rows.

    Args:
        precision: Precision matrix (inverse covariance) of the rows, shape (rows, rows): symmetric, positive definite.
            Relative to its diagonal, what is symmetric to 1e-12 is made symmetric and a positive entry below 1e-12 is
            taken for 0; the attribute, and the promise, have the matrix that results.
        width: Largest difference between two values of a row that are to be hidden from each other.
        epsilon: Privacy loss towards every adversary.

    Raises:
        DependenceError: If the matrix is no precision matrix, is close to singular, or has negative partial
            correlations among more than 12 rows.
        ValueError: If `width` or `epsilon` is not a finite number above 0.

    Source: Yang, Sato, Nakagawa 2015, Bayesian differential privacy on correlated data.

    Examples:
        >>> chain = GaussianFieldMechanism([[1.0, -0.4], [-0.4, 1.0]], width=1.0, epsilon=1.0)
        >>> round(chain.scale, 9)
        1.4
    """

    precision: tuple[tuple[float, ...], ...]
    width: float
    epsilon: float

    def __init__(self, precision: ArrayLike, *, width: float, epsilon: float) -> None:
        matrix = _checked(precision)
        object.__setattr__(self, "precision", tuple(map(tuple, matrix.tolist())))
        object.__setattr__(self, "width", positive(width, "width"))
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))
        if not self.positively_correlated and len(matrix) > _MOST_ENUMERATED:
            raise DependenceError(
                f"The precision matrix of {len(matrix)} rows has positive entries off its "
                "diagonal, which are negative partial correlations. These are possible "
                f"for at most {_MOST_ENUMERATED} rows, so release smaller parts.",
                rows=len(matrix),
            )

    @property
    def rows(self) -> int:
        """Number of rows of the field."""
        return len(self.precision)

    @cached_property
    def positively_correlated(self) -> bool:
        """True if no partial correlation is negative."""
        matrix = np.array(self.precision)
        return bool(np.all(matrix[~np.eye(len(matrix), dtype=bool)] <= 0.0))

    @cached_property
    def spread(self) -> float:
        """Largest change of the expected sum when one row changes by one, over all adversaries, rounded up."""
        matrix = np.array(self.precision)
        if self.positively_correlated:
            return shift(matrix)
        return max(shift(matrix[np.ix_(unknown, unknown)]) for unknown in _subsets(len(matrix)))

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise, in the units of a row."""
        return self.width * self.spread / self.epsilon

    @property
    def statement(self) -> str:
        """The promise of a release in words."""
        return (
            f"if the rows are a Gaussian field with this precision matrix, then for every adversary, whichever rows it "
            f"knows, and any two values of a row it does not know that are at most {self.width:g} apart, every output "
            f"is at most e^{self.epsilon:g} times as likely under one value as under the other "
            f"(Bayesian differential privacy with epsilon {self.epsilon:g})"
        )

    def release(self, value: float, noise: Noise) -> Release:
        """Release the sum once. Every further release costs `epsilon` again.

        Args:
            value: The sum of the rows, evaluated to within half a step of `Release.step`.
            noise: `SecureNoise()` for real rows.

        Raises:
            ValueError: If the sum is not finite, or the noise cannot be drawn.
        """
        grid = NoiseGrid.of(sensitivity=self.width * self.spread, multiple=1.0 / self.epsilon)
        return grid.release(
            value,
            noise,
            stream="gaussian_field",
            epsilon=self.epsilon,
            statement=self.statement,
            source="Yang, Sato, Nakagawa 2015",
        )


def shift(precision: NDArray[np.float64]) -> float:
    """Return ``max_i |sum_j S_ji / S_ii|`` for the covariance S: how far one row shifts the expected sum.

    The value is rounded up. It is the largest change of the expected sum when one row changes by one. With the
    precision matrix of a subset of rows, it holds for an adversary who knows all other rows.
    """
    deviation = np.sqrt(np.diag(precision))
    scaled = precision / np.outer(deviation, deviation)
    inverse = np.linalg.inv(scaled)
    norm = float(np.linalg.norm(inverse, 2))
    error = len(scaled) * norm * norm * float(np.linalg.norm(scaled, 2)) * 2.0**-48
    if error > _WORST_ERROR:
        raise DependenceError("The precision matrix is too close to singular for its size. Release smaller parts.")
    sums = np.abs(inverse @ (1.0 / deviation)) + error * np.sum(1.0 / deviation)
    return float(np.max(sums * deviation / (np.diag(inverse) - error)))


def _subsets(rows: int) -> list[list[int]]:
    """Return every set of rows that an adversary may not know."""
    every = itertools.chain.from_iterable(itertools.combinations(range(rows), k) for k in range(1, rows + 1))
    return [list(unknown) for unknown in every]


def _checked(precision: ArrayLike) -> NDArray[np.float64]:
    try:
        matrix = np.asarray(precision, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix) or not np.isfinite(matrix).all():
        raise DependenceError(
            f"The precision matrix has the shape {matrix.shape} or values that are not finite. Pass finite numbers, "
            "one row and one column for each row of the data."
        )
    if not np.all(np.diag(matrix) > 0.0):
        raise DependenceError(
            "The diagonal of the precision matrix is not positive. Pass the inverse of a covariance matrix."
        )
    deviation = np.sqrt(np.diag(matrix))
    unit = np.outer(deviation, deviation)
    if np.max(np.abs(matrix - matrix.T) / unit) > _SAME:
        raise DependenceError("The precision matrix is not symmetric. Pass the inverse of a covariance matrix.")
    matrix = (matrix + matrix.T) / 2.0
    values = np.linalg.eigvalsh(matrix / unit)
    if not values[-1] < _WORST_CONDITION * values[0]:
        raise DependenceError(
            f"The precision matrix, scaled to a diagonal of ones, has eigenvalues from {values[0]:.3g} to "
            f"{values[-1]:.3g}. They must be positive with a ratio below {_WORST_CONDITION:g}: pass the inverse of a "
            "covariance matrix that is not close to singular."
        )
    return np.where((matrix > 0.0) & (matrix < _SAME * unit), 0.0, matrix)


_LARGEST_LAW = 2**12
"""Candidates up to which the law of permute-and-flip is written down: the work grows with their square."""

_TINY = np.finfo(np.float64).tiny


class PermuteAndFlip(ExponentialMechanism):
    """Takes candidates in random order, each with chance ``exp(-epsilon (loss_k - least loss) / (2 Delta))``.

    Parameters are those of the exponential mechanism.

    At the same epsilon its regret is never larger than the exponential mechanism's, often half of it. It is pure
    epsilon-private, no more: for many choices in a row the exponential mechanism's curve is the better one.

    Source: McKenna, Sheldon 2020. That the first head in random order is a uniform one among all heads, so that nothing
    has to be permuted: docs/theory, selection.

    Examples:
        >>> mechanism = PermuteAndFlip(1.0, sensitivity=1)
        >>> mechanism.law(np.array([0, 2, 2])).round(3)
        array([0.677, 0.161, 0.161])
    """

    def law(self, losses: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the chance of each candidate, ``p_k int_0^1 prod_{j != k} (1 - p_j + p_j t) dt``, by quadrature."""
        chances = chances_of(gaps_of(losses), self.slope)
        if len(chances) > _LARGEST_LAW:
            raise ValueError(
                f"There are {len(chances)} candidates, more than the limit of {_LARGEST_LAW}. Draw instead."
            )
        nodes, weights = roots_legendre(len(chances) // 2 + 1)
        law = np.zeros(len(chances))
        for t, weight in zip((1.0 + nodes) / 2.0, weights / 2.0, strict=True):
            factors = 1.0 - chances + chances * t
            law += weight * chances * np.exp(np.log(factors).sum() - np.log(factors))
        return law

    def choose(self, losses: NDArray[np.int64], noise: Noise, *, stream: str = "selection") -> int:
        """Return the index of a chosen candidate, in 0.1 s for a million candidates."""
        gaps = gaps_of(losses)
        digits = noise.words(len(gaps), stream=stream)
        chances = chances_of(gaps, self.slope) * 2.0**64
        uniform = digits.astype(np.float64)
        best = gaps == 0
        heads = best | (uniform + 1.0 <= chances * (1.0 - MARGIN))
        words = words_of(noise, stream)
        for k in np.flatnonzero(~heads & (uniform < chances * (1.0 + MARGIN) + _TINY)):
            heads[k] = below_exponential(int(digits[k]), words, exponent=int(gaps[k]) * self.slope, factor=Fraction(1))
        candidates = np.flatnonzero(heads)
        return int(candidates[uniform_below(len(candidates), words_of(noise, stream))])

    def curve(self) -> PureCurve:  # type: ignore[override]  # another law has another curve
        """Return the privacy curve of one choice, of pure epsilon."""
        return PureCurve(self.epsilon)

    def exceedance(self, alpha: float, *, candidates: int, steps: int) -> float:
        """Return the expected regret in excess of alpha, as `permute_and_flip_exceedance` bounds it."""
        return permute_and_flip_exceedance(alpha=alpha, scale=self.scale(steps), candidates=candidates)
