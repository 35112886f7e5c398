"""Differential privacy of the answers so far, for any one sealed row."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everhold.arguments import as_float, brief
from everhold.display import Display, at_most
from everhold.queries import KINDS
from everhold_privacy.curves import BoundedRangeCurve, GaussianCurve, PrivacyCurve, ZeroConcentratedCurve, composed
from everhold_privacy.mechanisms.additive import Transferred

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everhold.ledger import Entry
    from everhold.mechanisms import Mechanism, State

_LEAST_DELTA = 1e-300  # the equation for epsilon cannot be solved near the least of all floats
_MOST_PARTS = 200  # different prices that are composed one by one


@dataclass(frozen=True, slots=True)
class Spending(Display):
    """The privacy loss of the answers so far, for any one sealed row.

    Attributes:
        delta: The delta at which every epsilon is stated.
        answers: Answers so far.
        epsilon: Bound on the privacy loss of any adaptively chosen answers that spend no more than these answers did.
            None if no secret noise is added. It is that of a limit, set where spending stands now; a limit that was
            chosen after answers had been seen, out of k possible ones, holds at k times delta (theory, budget).
        epsilon_if_fixed: Privacy loss of the same answers if their kinds and prices had been fixed before the first
            one, by privacy loss distributions. It is smaller than `epsilon`, and not valid if a price was chosen after
            an answer was seen. None if it makes no difference that they are fixed, or if the extra ``[accounting]`` is
            not installed.
        epsilon_planned: Privacy loss once the whole budget is spent. None if no secret noise is added.
    """

    delta: float
    answers: int
    epsilon: float | None
    epsilon_if_fixed: float | None
    epsilon_planned: float | None

    def _headline(self) -> str:
        return str(self)

    def __str__(self) -> str:
        told = f"{self.answers:,} answer{'s' * (self.answers != 1)} so far"
        if self.epsilon is None or self.epsilon_planned is None:
            return f"{told}, without secret noise: nothing is promised about what they told about any one row"
        return (
            f"{told} told about any one row at most epsilon {at_most(self.epsilon)} at delta {self.delta:g}, and "
            f"{at_most(self.epsilon_planned)} once the whole budget is spent"
        )


def spending(
    mechanism: Mechanism, state: State, entries: Iterable[Entry], *, delta: float = 1e-6, simulated: bool = False
) -> Spending:
    """Return how much the answers so far reveal about any one sealed row, as differential privacy losses.

    Args:
        mechanism: The mechanism that answered.
        state: Current state of that mechanism.
        entries: Entries of the holdout's ledger.
        delta: The delta of (epsilon, delta)-differential privacy at which every epsilon is stated, in (0, 1).
        simulated: Whether the noise can be predicted; then nothing is private.

    Raises:
        ValueError: If delta is outside (0, 1).

    Source: filters of zero-concentrated privacy (docs/theory, budget); privacy loss distributions by dp-accounting.
    """
    if not _LEAST_DELTA <= as_float(delta) < 1.0:
        raise ValueError(f"delta is {brief(delta)}. Pass a number from {_LEAST_DELTA:g} to below 1, such as 1e-6.")
    delta = float(delta)
    if simulated or not isinstance(mechanism, Transferred):
        return Spending(delta, state.asked, None, None, None)
    planned, so_far = mechanism.curve(), mechanism.spent_curve(state)
    grid = mechanism.beyond_curve  # covers the difference between discrete and continuous noise
    fixed = _if_fixed(mechanism, [entry for entry in entries if entry.charged], delta=delta)
    epsilon = so_far.epsilon(delta) + (grid if state.asked else 0.0)
    if fixed is not None:  # the composition of a mix rounds up and may gain nothing
        fixed = fixed + grid if fixed + grid < epsilon else None
    return Spending(delta, state.asked, epsilon, fixed, planned.epsilon(delta) + grid)


def _if_fixed(mechanism: Transferred, told: list[Entry], *, delta: float) -> float | None:
    """Return the epsilon of answered entries by privacy loss distributions, or None if that cannot be computed."""
    mix = Counter((_family(entry), entry.charged) for entry in told)
    losses = {charged: mechanism.loss_of(charged) for _, charged in mix}
    priced = {charged: loss for charged, loss in losses.items() if loss is not None}
    if not priced or len(mix) > _MOST_PARTS:
        return None
    parts = [(_curve(family, priced[charged]), count) for (family, charged), count in mix.items()]
    try:
        return composed(parts).epsilon(delta)
    except ImportError:
        return None


def _family(entry: Entry) -> str:
    """Return the noise distribution of an entry by its kind of query, "mixed" for an unknown kind."""
    return next((kind.loss for kind in KINDS if entry.description.get("kind") in kind.recorded), "mixed")


def _curve(family: str, rho: float) -> PrivacyCurve:
    """Return the privacy curve of one answer with a zero-concentrated loss rho, by the family of the mechanism."""
    if family == "choice":
        return BoundedRangeCurve(math.sqrt(8.0 * rho))
    return GaussianCurve(math.sqrt(2.0 * rho)) if family == "noise" else ZeroConcentratedCurve(rho)
