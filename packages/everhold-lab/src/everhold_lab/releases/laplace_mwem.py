"""MWEM as it was published: Laplace measurements, the calibration of the paper, and its bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.privacy.curves import PureCurve
from everhold.values.evaluation import UNIT
from everhold_privacy.guarantees.transfer import leakage_bound
from everhold_privacy.synthetic import MWEM
from everhold_privacy.synthetic.base import checked_count
from everhold_privacy.synthetic.mwem import EXCESSES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.privacy.curves import PrivacyCurve
    from everhold.randomness import Noise

__all__ = ["LaplaceMWEM", "published_error"]


class LaplaceMWEM(MWEM):
    """`everhold_privacy.synthetic.MWEM` with Laplace noise of the same scale in its measurements."""

    method: ClassVar[str] = "mwem"

    @classmethod
    def hardt2012(cls, *, epsilon: float, rounds: int, rows: int, **others: Any) -> Self:
        """The calibration of the paper: ``epsilon / 2T`` for each choice and each measurement.

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
        return cls(rounds=rounds, rows=rows, choice_epsilon=share, scale=1.0 / (share * rows), **others)

    def curve(self) -> PrivacyCurve:
        """The whole run in closed form.

        Laplace measurements are ``1/(2 s^2)``-zero-concentrated at most, too, with s the noise in rows. The 2T-fold
        pure curve of the larger loss holds as well. Of the two the one is returned that adds less to the radius with
        independent rows at 95% confidence: the pure one for few rounds.
        """
        pure = PureCurve(max(self.choice_epsilon, UNIT / self.scale_on_grid), times=2 * self.rounds)
        return min((pure, super().curve()), key=lambda curve: leakage_bound(curve, confidence=0.95).total)

    def privacy(self) -> tuple[float, float]:
        """Pure."""
        return self.rounds * (self.choice_epsilon + UNIT / self.scale_on_grid), 0.0

    def measured(self, noise: Noise) -> int:
        """Laplace noise of one measurement, in grid units."""
        return int(noise.laplace(self.scale_on_grid, 1, stream="measurement")[0])

    def excess(self) -> NDArray[np.float64]:
        """``E(V - v)_+ <= E(e^2 - v)_+ = 2 (t + 1) e^{-t}``, ``t = sqrt(v)``, in units of the squared scale."""
        t = np.sqrt(EXCESSES)
        return np.asarray(2.0 * (t + 1.0) * np.exp(-t))


def published_error(*, rows: int, cells: int, queries: int, rounds: int, epsilon: float) -> tuple[float, float]:
    """Largest error on the sealed rows as published, ``2 sqrt(ln N / T) + 10 T ln|Q| / (n epsilon)``.

    For the calibration of `LaplaceMWEM.hardt2012`; it may fail with probability ``2T/|Q|``, which has to be below 1 for
    the statement to say anything.

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
