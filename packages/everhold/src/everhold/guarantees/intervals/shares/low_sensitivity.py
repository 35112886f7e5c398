"""Intervals of statistics of all rows that no single row can move far, by McDiarmid's inequality (S8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from everhold.guarantees.intervals.base import Needs, Procedure

_ROUNDING = 1e-15


@dataclass(frozen=True)
class BoundedDifferences(Procedure):
    """Interval ``statistic ± sqrt(ln(2 / level) n c^2 / 2)`` for n independent rows that move it by at most c.

    The interval is about the statistic's expectation over sealed sets of this size. The sensitivity must hold for
    every data set that could have been sealed, not only for this one.

    Attributes:
        rows: Independent sealed rows n. Of independent groups of k rows ``sum k^2``, as each moves it by at most k c.
        sensitivity: c, the most that replacing one row can change the statistic; public.
        training: Rows that an honest guess was made from, in the same units; as many as are sealed if unknown.
        spread: Public guess at the standard deviation of the sealed statistic, such as a bootstrap of the training
            rows gives; without one the most that is possible, ``c sqrt(n) / 2``.

    Examples:
        >>> low, high = BoundedDifferences(rows=20_000, sensitivity=1e-4, training=20_000).interval(0.8, math.log(20))
        >>> round(low, 4), round(high, 4)
        (0.7808, 0.8192)
    """

    rows: int
    sensitivity: float
    training: int
    spread: float | None = None

    name: ClassVar[str] = "bounded_differences"
    title: ClassVar[str] = "McDiarmid's bound for statistics that no row can move far"
    needs: ClassVar[Needs] = "statistic"
    why: ClassVar[str] = "each row moves the statistic by a bounded amount, and so many independent moves rarely add up"
    width_is_known: ClassVar[bool] = True
    of_all_rows: ClassVar[bool] = False

    def interval(self, seen: float, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`."""
        reach = self.reach(nats)
        return max(seen - reach, 0.0), min(seen + reach, 1.0)

    def reach(self, nats: float) -> float:
        """Return the half-width of every interval at this level, before it is clipped."""
        return self.sensitivity * math.sqrt((nats + math.log(2.0)) * self.rows / 2.0) + _ROUNDING

    def widest(self, nats: float) -> float:
        """See `Procedure.widest`."""
        return min(self.reach(nats), 0.5)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """See `Procedure.expected`."""
        return self.interval(guess, nats)

    def standard_error(self, guess: float) -> float:
        """Return ``sd sqrt(1 + n / n_t)``, or the largest possible one without a public spread."""
        return self._deviation * math.sqrt(1.0 + self.rows / self.training)

    def stakes(self, nats: float) -> dict[str, float]:
        """See `Procedure.stakes`: the sensitivity."""
        return {"sensitivity": self.sensitivity}

    @property
    def _deviation(self) -> float:
        most = self.sensitivity * math.sqrt(self.rows) / 2.0
        return most if self.spread is None else min(self.spread, most)

    @property
    def worth(self) -> float:
        """See `Procedure.worth`; as many rows as have McDiarmid's interval in Hoeffding's inequality."""
        return 1.0 / (self.rows * self.sensitivity**2)
