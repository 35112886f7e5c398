"""Pan privacy: a stream is counted by a state that may be seized once (Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010).

The density of a stream is the share of possible items that occur in it. For each item a bit is kept. It begins as a
fair coin, and is drawn anew with ``P[1] = 1/2 + epsilon/4`` whenever the item comes. So a bit tells hardly whether its
item came, and drawing it again tells no more. The share of ones is ``1/2 + density epsilon/4`` on average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.arguments import as_float, as_whole
from everhold.privacy.curves import PureCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.privacy.curves import PrivacyCurve
    from everhold.randomness import Noise

__all__ = ["DensityEstimator"]

_WORDS = 2**64


@dataclass(frozen=True)
class DensityEstimator:
    """Estimator of the share of items that occur, private towards whoever sees its state once, and the estimate.

    Args:
        items: m, the number of possible items, or of those that were picked at random from all of them.
        epsilon: In (0, 1]: the bias of the coins is a quarter of it.

    Raises:
        ValueError: If an argument is out of range.

    Examples:
        >>> estimator = DensityEstimator(items=10_000, epsilon=0.5)
        >>> round(estimator.curve.epsilon(0.0), 3)
        0.788
    """

    items: int
    epsilon: float

    def __post_init__(self) -> None:
        if (as_whole(self.items) or 0) < 1:
            raise ValueError(f"items is {self.items}. Give at least 1.")
        if not 0.0 < as_float(self.epsilon) <= 1.0:
            raise ValueError(f"epsilon is {self.epsilon}. Give a number above 0 and at most 1.")

    @property
    def _after(self) -> int:
        """Words below which the bit of an item that came is 1."""
        return _WORDS // 2 + math.floor(self.epsilon * 2**62)

    @property
    def seen(self) -> float:
        """Probability that the bit of an item that came is 1."""
        return self._after / _WORDS

    @property
    def scale(self) -> int:
        """Scale of the noise that is added to the number of ones."""
        return math.ceil(1.0 / self.epsilon)

    @property
    def curve(self) -> PrivacyCurve:
        """What the state at one time and the estimate at the end reveal together of whether an item ever came.

        The bit that is seized has the loss ``ln(1 / (2 - 2 P[1]))`` at most, and the number of ones moves by 1.
        """
        return PureCurve(-math.log(2.0 - 2.0 * self.seen)).compose(PureCurve(1.0 / self.scale))

    def start(self, noise: Noise) -> NDArray[np.bool_]:
        """Bits before the stream, shape (items,): fair coins."""
        return np.asarray(noise.words(self.items, stream="start") < np.uint64(_WORDS // 2))

    def see(self, bits: NDArray[np.bool_], item: int, noise: Noise) -> NDArray[np.bool_]:
        """Bits after an item came; the item's own is drawn anew.

        Raises:
            ValueError: If it is none of the items.
        """
        if not 0 <= item < self.items:
            raise ValueError(f"the item {item} is none of {self.items}; they are counted from 0")
        after = bits.copy()
        after[item] = noise.words(1, stream="see")[0] < np.uint64(self._after)
        return after

    def density(self, bits: NDArray[np.bool_], noise: Noise) -> float:
        """Unbiased estimate of the share of items that came; it may lie outside [0, 1]."""
        ones = int(bits.sum()) + int(noise.laplace(self.scale, 1, stream="density")[0])
        return (ones / self.items - 0.5) / (self.seen - 0.5)

    def radius(self, *, confidence: float = 0.95) -> float:
        """Error of the density among the items by Hoeffding for the bits, and the exact tail of the noise."""
        level = math.log(4.0 / (1.0 - confidence))
        bits = math.sqrt(level / (2.0 * self.items))
        # P[|noise| > t] = 2 e^(-(t + 1)/s) / (1 + e^(-1/s)) for whole t
        beyond = self.scale * (level - math.log1p(math.exp(-1.0 / self.scale)))
        return (bits + max(math.ceil(beyond) - 1, 0) / self.items) / (self.seen - 0.5)
