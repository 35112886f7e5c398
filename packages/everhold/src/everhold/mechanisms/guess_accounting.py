"""Counts of guess and check: surprises and what their labels cost are paid for when they happen (S8)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from everhold.guarantees.intervals.shares.means import OfMeans
from everhold.mechanisms.accounting import Accounting
from everhold.mechanisms.guess_and_check import MOST_AT_ONCE, GuessAndCheck
from everhold.mechanisms.labels import CHEAPEST, DEAREST, failing_rows_cost, in_millionths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.records import State
    from everhold.randomness import Noise

_TRIED = 65  # numbers of surprises


class GuessAccounting(Accounting[GuessAndCheck]):
    """Every answer may be a surprise, and the label of a surprise has a price of its own."""

    def reachable(self, state: State) -> bool:
        """Before the last step there was room for its last answer; there is no other limit.

        What labels cost may be left out. How many of the surprises were in the last step is tried for a few numbers:
        none, one, all, and those after which as many labels are left as can be.
        """
        if not 0 <= state.charged <= state.asked:
            return False
        if not state.asked:
            return True
        least, most = max(state.charged - MOST_AT_ONCE, 0), min(state.charged, state.asked - 1)
        without_labels = state.charged - state.labels // self.dearest_label
        spread = np.linspace(least, most, _TRIED).astype(np.int64)
        before = np.clip(np.concatenate([spread, [state.charged - 1, without_labels - 1, without_labels]]), least, most)
        last = (state.charged - before) * self.dearest_label  # the labels of the last step at their dearest
        labels = np.maximum(state.labels - last, 0) / 1e6
        return bool(np.any(self.mechanism.margin.answers(self.mechanism.nats(state.asked, before, labels))))

    def leaves_capacity(
        self, state: State, silent: int, procedures: Sequence[Procedure] | None, *, failing: bool = False
    ) -> bool:
        """The next answer may be a surprise or not."""
        surprises, labels = np.array([0, 1]), np.array([0, self._label_of(procedures, failing=failing)])
        nats = self.mechanism.nats(state.asked + 1 + silent, state.charged + surprises, (state.labels + labels) / 1e6)
        return bool(np.all(self.mechanism.margin.answers(nats)))

    def labels_of(self, surprises: int, *, forced: int = 0, failing: bool = True) -> tuple[int, float]:
        """Of cells, or of offsets from a guess, and of shares of failing rows."""
        dearest = self.dearest_label if failing else self._dearest_of_one
        most = math.inf if forced else surprises * dearest
        return surprises * min(self.mechanism.cells.cost, in_millionths(CHEAPEST)), most

    def lost_labels_of(self, surprises: int) -> int:
        """The dearest label there is, for each."""
        return surprises * self.dearest_label

    def losable(self, *, queries: int, charges: int) -> bool:
        """Some answers are surprises."""
        return charges <= queries

    def after_loss(self, state: State, *, asked: int | None, charged: int | None, noise: Noise) -> State:
        """With both counts it goes on as if nothing had been lost; lost labels count as the dearest there are (S8)."""
        if asked is None or charged is None:
            raise ValueError("the number of answers is lost, too, and the next interval depends on it")
        return state.after(asked=asked, charged=charged, labels=self.lost_labels_of(charged))

    @property
    def dearest_label(self) -> int:
        """The most that one label can cost, in millionths of a nat: of a number and a share of failing rows (S16)."""
        if self.mechanism.failing_rows_procedure is None:
            return self._dearest_of_one
        return 2 * self._dearest_of_one + failing_rows_cost(told=True)

    @property
    def _dearest_of_one(self) -> int:
        return in_millionths(max(math.log(self.mechanism.grid), DEAREST))

    def _label_of(self, procedures: Sequence[Procedure] | None, *, failing: bool) -> int:
        """The most that a label of a query with one of these procedures costs, in millionths of a nat."""
        if procedures is None:  # a promotion tells no interval
            return 0
        in_force = [self.mechanism.in_force(each) for each in procedures]
        of_means = bool(in_force) and all(isinstance(each, OfMeans) for each in in_force)
        own = self.mechanism.cells.cost if of_means else self._dearest_of_one
        return own + (self.dearest_label - self._dearest_of_one if failing else 0)
