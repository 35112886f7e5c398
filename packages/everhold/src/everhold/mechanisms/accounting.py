"""Rules of a mechanism for the ledger's counts: what can still be asked, charged and lost.

Only public state is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.records import State
    from everhold.randomness import Noise


class Planned(Protocol):
    """Protocol of anything that is planned for a number of queries."""

    @property
    def queries(self) -> int:
        """Number of planned queries."""


Accounted = TypeVar("Accounted", bound=Planned)


class Accounting(Generic[Accounted]):
    """Rules for the counts of queries, charges and labels in a ledger, if every answer costs one query.

    Args:
        mechanism: The mechanism of the holdout.
    """

    def __init__(self, mechanism: Accounted) -> None:
        self.mechanism = mechanism

    def reachable(self, state: State) -> bool:
        """Return whether some sequence of answers and losses ends with these counts. It checks a ledger."""
        return state.asked == state.charged <= self.mechanism.queries

    def charges_left(self, state: State) -> int:
        """Return the largest total charge that is still possible."""
        return self.mechanism.queries - state.asked

    def leaves_capacity(
        self, state: State, silent: int, procedures: Sequence[Procedure] | None, *, failing: bool = False
    ) -> bool:
        """Return whether the budget still allows ``silent`` silent queries after one more open query.

        Args:
            state: Public state before the open query.
            silent: Number of silent queries.
            procedures: Interval procedures of the open query; None for a challenge of a gate.
            failing: Whether the answer of the open query includes a share of failing rows (S16).
        """
        return state.asked + 1 + silent <= self.mechanism.queries

    def labels_of(self, surprises: int, *, forced: int = 0, failing: bool = True) -> tuple[int, float]:
        """Return the least and the most that the labels of surprises can cost, in millionths of a nat. Here both are 0.

        Args:
            surprises: Number of surprises.
            forced: Number of labels that were told without a surprise, at any price (S9).
            failing: Whether shares of failing rows may be told with them (S16).
        """
        return 0, 0

    def lost_labels_of(self, surprises: int) -> int:
        """Return the cost assumed for the labels of lost answers, in millionths of a nat; here 0."""
        return 0

    @staticmethod
    def mispriced(*, charged: int, taken: int, lost: int, queries: int) -> Iterator[str]:
        """Yield the reasons, in words, why the charges of a ledger do not fit its answers; nothing if they fit.

        Args:
            charged: Sum of all charges.
            taken: Number of answers that came from the sealed rows.
            lost: Charges for answers that the ledger lost.
            queries: Number of planned queries.
        """
        if charged != taken + lost:
            yield "what was charged is not the number of answers that were taken from the sealed rows"

    def losable(self, *, queries: int, charges: int) -> bool:
        """Return whether ``queries`` lost answers can have cost ``charges`` in total (see `after_loss`)."""
        return queries == charges

    def after_loss(self, state: State, *, asked: int | None, charged: int | None, noise: Noise) -> State:
        """Return the state with which a holdout continues after its ledger lost answers.

        An analyst may have seen the lost answers, so they count like all other answers.

        Args:
            state: The last state that is known.
            asked: Number of lost answers. None if it is unknown: then all remaining queries count as spent.
            charged: Sum of the charges of the lost answers; None if unknown, as for ``asked``.
            noise: Source of randomness, for noise that has to be drawn again.

        Raises:
            ValueError: If the mechanism can promise nothing after the loss.
        """
        left = self.mechanism.queries - state.asked
        return state.after(
            asked=left if asked is None else min(asked, left),
            charged=self.charges_left(state) if charged is None else charged,
        )


class NothingCharged(Accounting[Planned]):
    """Rules for counts if no answer is ever charged and only the number of queries is limited."""

    def reachable(self, state: State) -> bool:
        """Return whether no more queries were asked than planned, and nothing was charged."""
        return state.charged == 0 <= state.asked <= self.mechanism.queries

    def losable(self, *, queries: int, charges: int) -> bool:
        """Return whether ``charges`` is 0, because no answer is charged."""
        return charges == 0

    def charges_left(self, state: State) -> int:
        """Return 0, because no answer is charged."""
        return 0
