"""The exact sign test: of two sets of public predictions for two classes, which is right more often (S8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from everhold.guarantees.intervals.shares.means import ClopperPearson, Ends, OfMeans

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_ROUNDING = 1e-15


@dataclass(frozen=True)
class SignTest(OfMeans):
    """Clopper-Pearson on the M rows where the predictions differ; which these are is public.

    There exactly one of two predictions for two classes is right, on the other rows nothing is at stake. So the number
    W of wins is a sum of M independent coins, unlike ones, and with limits p of their mean chance the difference of
    the accuracies lies within ``(2 p - 1) M / n``. Row values are ``(1 + d) / 2`` for a difference d of -1, 0 or 1.
    The promise is about labels given these features.

    Attributes:
        rows: Sealed rows n.
        training: Rows that an honest guess was made from.
        differing: M, the sealed rows with different predictions; public.

    Examples:
        >>> test = SignTest(rows=20_000, training=20_000, differing=1_000)
        >>> low, high = test.interval(0.5 + (600 - 400) / 40_000, 11.4)  # 600 wins, 400 losses
        >>> round(2 * low - 1, 4), round(2 * high - 1, 4)
        (0.003, 0.0167)
    """

    differing: int

    name: ClassVar[str] = "sign_test"
    title: ClassVar[str] = "exact sign test on the rows where the predictions differ"
    why: ClassVar[str] = "on rows where two predictions differ one of them is right, and so many wins are this unlikely"

    @property
    def _coins(self) -> ClopperPearson:
        return ClopperPearson(rows=self.differing, training=self.training * self.differing / self.rows)

    def _wins(self, means: ArrayLike) -> NDArray[np.float64]:
        """Share of wins among the differing rows; whole numbers of wins are met exactly."""
        wins = self.rows * (np.asarray(means, dtype=np.float64) - 0.5) + self.differing / 2.0
        whole = np.rint(wins)
        wins = np.where(np.abs(wins - whole) < 1e-6, whole, wins)
        return np.clip(wins, 0.0, self.differing) / self.differing

    def _means(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.5 + (shares - 0.5) * (self.differing / self.rows)

    def span(self, low: ArrayLike, high: ArrayLike, nats: ArrayLike) -> Ends:
        """See `OfMeans.span`; without a differing row the difference is 0 for certain."""
        if self.differing == 0:
            half = np.full(np.broadcast_shapes(np.shape(low), np.shape(high), np.shape(nats)), 0.5)
            return half, half.copy()
        least, greatest = self._coins.span(self._wins(low), self._wins(high), nats)
        return (
            np.clip(self._means(least) - _ROUNDING, 0.0, 1.0),
            np.clip(self._means(greatest) + _ROUNDING, 0.0, 1.0),
        )

    def honest(self, guesses: ArrayLike, errors: float) -> Ends:
        """See `OfMeans.honest`; only the differing rows vary."""
        if self.differing == 0:
            half = np.full(np.shape(guesses), 0.5)
            return half, half.copy()
        low, high = self._coins.honest(self._wins(guesses), errors)
        return self._means(low), self._means(high)

    def standard_error(self, guess: float) -> float:
        """That of the share of wins, times M / n."""
        if self.differing == 0:
            return 0.0
        return self._coins.standard_error(float(self._wins(guess))) * self.differing / self.rows

    @property
    def worth(self) -> float:
        """``n^2 / M``: the other rows are known to be ties."""
        return self.rows**2 / max(self.differing, 1)
