"""The parameter-free Ladder (P12): the step follows the losses. A heuristic, unless its transcript is discretised (S3).

As published it rounds to ``1/n``: then its transcript can be told in no fewer words than the holdout itself, and no
theorem protects it. With scores on a coarse grid it is as describable as the Ladder, and S3 speaks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from everhold.guarantees.concentration import hoeffding_radius
from everhold.guarantees.description_length import log_ladder_size

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["ParameterFreeLadder", "discretised_radius"]

_ROUNDED_UP = 1.0 + 2.0**-40  # means and steps are computed in floating point


@dataclass(frozen=True, slots=True, eq=False)
class ParameterFreeLadder:
    """The best loss so far, and the sealed losses behind it (Blum and Hardt 2015, parameter-free Ladder; P12).

    A submission is a new best if its mean loss is below ``R - s / sqrt(n)``, where s is the standard deviation of the
    differences to the losses of the best so far (0 before the first). **A heuristic**: nothing is promised, unless
    ``grid`` is given; then `discretised_radius` is.

    Attributes:
        shown: R, the best loss so far, rounded to a multiple of ``1/n``, or of ``1/grid``; infinite at the start.
        grid: Number of steps between 0 and 1 to which scores are rounded; None for n.

    Examples:
        >>> ladder = ParameterFreeLadder().submit([1, 1, 1, 0]).submit([1, 0, 0, 0])
        >>> ladder.shown, ladder.submit([0, 1, 0, 0]).shown
        (0.25, 0.25)
    """

    shown: float = math.inf
    grid: int | None = None
    _best: NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.grid is not None and self.grid < 1:
            raise ValueError(f"grid is {self.grid}; expected a whole number of at least 1, or None")

    def submit(self, losses: ArrayLike) -> ParameterFreeLadder:
        """The ladder after one more submission.

        Args:
            losses: Shape (rows,), the submission's loss in [0, 1] on each sealed row.

        Raises:
            ValueError: If they are not so, or not as many as before.
        """
        new = np.asarray(losses, dtype=np.float64)
        if new.ndim != 1 or not new.size or not bool(np.all((new >= 0.0) & (new <= 1.0))):
            raise ValueError("the losses are not one number in [0, 1] for each row; expected shape (rows,)")
        before = np.zeros_like(new) if self._best is None else self._best
        if before.shape != new.shape:
            raise ValueError(f"there are {len(new)} losses; expected {len(before)} as before, one for each row")
        mean = float(new.mean())
        if not mean < self.shown - float(np.std(new - before)) / math.sqrt(len(new)):
            return self
        steps = self.grid or len(new)
        return ParameterFreeLadder(math.floor(mean * steps + 0.5) / steps, self.grid, new)


def discretised_radius(rows: int, *, submissions: int, grid: int, confidence: float) -> float:
    """Half-width around ``shown`` for the least population loss so far, if scores are rounded to ``1/grid`` (S3).

    What is shown never rises and has ``grid + 1`` values, so the tree of all submissions is the Ladder's. No
    submission's sealed mean is more than ``1/sqrt(n)`` below what is shown, as s is at most 1. So the radius is
    ``max(1/sqrt(n), 1/(2 grid)) + conc``. For independent rows.

    Args:
        rows: Number of sealed rows n.
        submissions: Number of submissions m.
        grid: Number of steps between 0 and 1.
        confidence: 1 - beta, in (0, 1).

    Examples:
        >>> round(discretised_radius(20_000, submissions=1_000, grid=21, confidence=0.95), 3)
        0.076
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}; expected a number strictly between 0 and 1, such as 0.95")
    level = log_ladder_size(queries=submissions, levels=grid + 1) - math.log1p(-confidence)
    reach = float(hoeffding_radius(rows=rows, log_inverse_level=level))
    return (max(1.0 / math.sqrt(rows), 0.5 / grid) + reach) * _ROUNDED_UP
