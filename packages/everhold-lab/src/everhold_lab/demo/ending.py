"""End of the honest analyst's study: models challenge a champion, and then every sealed value is released."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everhold.errors import EverholdWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.holdout import Holdout
    from everhold_lab.demo.tuning import Trial, TunedModel


@dataclass(frozen=True, slots=True)
class GateNight:
    """A model that challenged the champion of its moment.

    Attributes:
        promoted: Whether it is proved to be better.
        gain: How much better it is on the fresh flights.
    """

    candidate: TunedModel
    champion: TunedModel
    promoted: bool
    gain: float


@dataclass(frozen=True, slots=True)
class UnsealedStudy:
    """An answer whose sealed number was told in the end.

    Attributes:
        told: Half-width of the interval before.
        low: Lower end of the interval after.
        high: Upper end.
    """

    candidate: TunedModel
    told: float
    low: float
    high: float
    fresh: float

    @property
    def half_width(self) -> float:
        """Of the interval after."""
        return (self.high - self.low) / 2.0


def challenge(holdout: Holdout, trials: Sequence[Trial]) -> tuple[GateNight, ...]:
    """Let models challenge the first of them, one after the other, through a gate.

    Args:
        holdout: The one that was asked about them.
        trials: The models; those that are judged on rows they were fitted on challenge, too.
    """
    champion, challenged = trials[0], []
    gate = holdout.gate("accuracy", champion=champion.sealed)
    for trial in trials[1:]:
        promoted = bool(gate.challenge(trial.sealed).promoted)
        challenged.append(GateNight(trial.candidate, champion.candidate, promoted, trial.fresh - champion.fresh))
        champion = trial if promoted else champion
    return tuple(challenged)


def unseal(holdout: Holdout, trials: Sequence[Trial]) -> tuple[UnsealedStudy, ...]:
    """End the study, and tell what the sealed flights themselves say of every model.

    The other holdouts of the demonstration are of the same flights and lose their promise then; they are asked no more.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EverholdWarning)
        holdout.unseal()
    told = []
    for trial in trials:
        before, after = trial.answer, holdout.ask(trial.query)
        if before.low is None or before.high is None or after.sealed_low is None or after.sealed_high is None:
            continue
        half = (before.high - before.low) / 2.0
        told.append(UnsealedStudy(trial.candidate, half, after.sealed_low, after.sealed_high, trial.fresh))
    return tuple(told)
