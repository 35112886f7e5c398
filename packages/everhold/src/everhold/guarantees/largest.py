"""The largest of many values needs one level, however many there are (Lemma M), and the levels of choices that use it.

All levels are given as nats of a two-sided procedure: at ``nats`` each of its ends has the level ``exp(-nats) / 2``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class ChoiceLevels:
    """Levels of the events of one choice, in nats of a two-sided procedure (corollary M1).

    Attributes:
        lower: Of the lower end of each candidate; a union over all of them, because any may be chosen.
        upper: Of every upper end; the largest of them is one event (Lemma M).
        paired: Of the upper ends of "another candidate minus this one", one event for each candidate; nan where pairs
            are not compared.

    Examples:
        >>> levels = ChoiceLevels.of(10.7, candidates=50)
        >>> round(levels.lower - 10.7, 3), levels.upper - 10.7
        (3.912, 0.0)
    """

    lower: float
    upper: float
    paired: float

    @classmethod
    def of(cls, nats: float, *, candidates: int, paired: bool = False) -> ChoiceLevels:
        """Two events, or three, that share the level ``exp(-nats)`` of their place alike.

        Args:
            nats: ln(1 / level) of the place.
            candidates: K, the number of candidates.
            paired: Whether the chosen ones are compared with all others in pairs.
        """
        apart = math.log(1.5) if paired else 0.0  # ends have half of what a procedure is given
        each = nats + math.log(candidates) + apart
        return cls(each, nats + apart, each if paired else math.nan)


def largest_upper(uppers: ArrayLike) -> float:
    """Upper limit of the largest of fixed values, at the level of one of their upper limits (Lemma M).

    The largest value belongs to one fixed index. If it exceeds the largest limit, it exceeds the limit of that index,
    which has the level of one. No single limit may be told.

    Args:
        uppers: Upper limits, shape (values,), each at the same level on one side.

    Source: docs/theory/families.md, Lemma M.
    """
    return float(np.max(np.asarray(uppers, dtype=np.float64)))
