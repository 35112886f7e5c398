"""The gain of a challenger over a champion, row by row: what is looked at, and the procedure of its lower limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.guarantees.intervals.pairs.gains import OutcomeGain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms import Mechanism
    from everhold.sealing.rows.table import StoredRows


@dataclass(frozen=True, slots=True)
class Gained:
    """A gain on the sealed rows, as ``(1 + gain) / 2``; secret.

    Attributes:
        total: The sum of paired row values in grid units.
        seen: Input of the procedure; None where that is the total.
        mean: The number itself, where the total does not tell it.
    """

    total: int = field(repr=False)
    seen: Any = field(repr=False)
    mean: float | None = field(default=None, repr=False)

    @classmethod
    def of(cls, mean: float, seen: Any, mechanism: Mechanism) -> Gained:
        """A gain that is a number of all rows."""
        at = min(max(mean, 0.0), 1.0)
        return cls(math.floor(at * mechanism.steps), seen, at)


@dataclass(frozen=True, slots=True)
class Gain:
    """A gain that is decided by public facts before the evaluation.

    Attributes:
        procedure: Procedure of an interval whose lower end holds on one side, at half of the level of both sides.
        evaluate: From the sealed rows, and the values kept of challenger and champion, to the gain on these rows.
    """

    procedure: Procedure
    evaluate: Callable[[StoredRows, NDArray[Any], NDArray[Any]], Gained]


def gain_of_means(procedure: Procedure, mechanism: Mechanism, *, rises: bool) -> Gain:
    """The mean of the paired differences of two row values, of which the higher ones are better if it rises."""

    def evaluate(sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        both = paired(challenger, champion, rises=rises, unit=mechanism.unit)
        return Gained(*_summary(sealed, procedure, both, mechanism))

    return Gain(procedure, evaluate)


def gain_of_outcomes(procedure: OutcomeGain, mechanism: Mechanism) -> Gain:
    """The gain in a score of outcomes of labels 0 and 1."""

    def evaluate(sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        both = procedure.paired(challenger, champion, unit=mechanism.unit)
        total, seen = _summary(sealed, procedure, both, mechanism)
        return Gained(total, seen, (1.0 + procedure.gain(seen)) / 2.0)

    return Gain(procedure, evaluate)


def _summary(
    sealed: StoredRows, procedure: Procedure, both: NDArray[np.int64], mechanism: Mechanism
) -> tuple[int, Any]:  # fmt: skip
    """Exact sum of paired row values, and what the procedure needs."""
    return sealed.summary(procedure.needs, both, group_by=mechanism.dependence.unit_column, unit=mechanism.unit)


def paired(challenger: NDArray[np.int64], champion: NDArray[np.int64], *, rises: bool, unit: int) -> NDArray[np.int64]:
    """Row values ``(1 + gain) / 2`` of the challenger's gain over the champion, in grid units, rounded down.

    Args:
        challenger: Shape (rows,), in grid units.
        champion: Shape (rows,), in grid units.
        rises: Whether higher row values are better.
        unit: Grid steps between 0 and 1.

    Examples:
        >>> paired(np.array([4, 0, 4]), np.array([0, 4, 4]), rises=True, unit=4)
        array([4, 0, 2])
    """
    gain = challenger - champion if rises else champion - challenger
    return np.asarray((unit + gain) // 2)
