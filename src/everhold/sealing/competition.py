"""A competition as it is sealed: what a submission is told, by which metric it is ranked, and how many are planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from everhold.arguments import as_whole, brief
from everhold.display import Display
from everhold.errors import HoldoutRejected
from everhold.mechanisms import GuessAndCheck, Mechanism, Silent

__all__ = ["FEEDBACK", "LEADER", "METRICS", "NOTHING", "SCORE", "Competition"]

NOTHING: Final = "none"
LEADER: Final = "leader"
SCORE: Final = "score"
FEEDBACK = (NOTHING, LEADER, SCORE)
"""What a submission may be told before the end."""

METRICS = ("accuracy", "error", "brier", "risk")
_LOSSES = ("absolute", "squared", "log")
_OF_RISK = {"loss", "low", "high"}
_MOST = 10**6  # submissions that are planned, in all
_TEAMS, _EACH = 50, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Competition(Display):
    """What is fixed of a competition when the rows are sealed.

    Attributes:
        feedback: What a submission is told before the end: ``"none"``, ``"leader"`` or ``"score"``.
        metric: ``"accuracy"``, ``"error"``, ``"brier"``, or the arguments of `everhold.risk` by name, such as
            ``{"loss": "absolute", "high": 60}``.
        teams: Most teams.
        submissions: Most submissions of one team.

    Examples:
        >>> Competition(teams=50, submissions=20).questions
        1275
        >>> Competition(feedback="leader", metric={"loss": "squared", "high": 4.0}).in_words
        'squared loss'
    """

    feedback: str = NOTHING
    metric: str | Mapping[str, Any] = "accuracy"
    teams: int = _TEAMS
    submissions: int = _EACH

    def __post_init__(self) -> None:
        if self.feedback not in FEEDBACK:
            raise ValueError(
                f"feedback is {brief(self.feedback)}; expected one of {', '.join(map(repr, FEEDBACK))}: what a "
                "submission is told before the end; nothing was created"
            )
        self._check_metric()
        for what, least in (("teams", 2), ("submissions", 1)):
            value = getattr(self, what)
            if (-1 if (number := as_whole(value)) is None else number) < least or value > _MOST:
                raise ValueError(
                    f"{what} is {brief(value)}; expected a whole number from {least} to {_MOST:,}; nothing was created"
                )
            object.__setattr__(self, what, int(value))
        if self.questions > 10**9:
            raise ValueError(
                f"{self.teams:,} teams with {self.submissions:,} submissions each make more than 10^9 questions and "
                "comparisons; expected fewer; nothing was created"
            )

    def _check_metric(self) -> None:
        metric = self.metric
        named = isinstance(metric, str) and metric in METRICS[:-1]
        of_risk = (
            isinstance(metric, Mapping)
            and set(metric) <= _OF_RISK
            and metric.get("loss") in _LOSSES
            and all(isinstance(metric.get(end, 0.0), (int, float)) for end in ("low", "high"))
        )
        if not (named or of_risk):
            raise ValueError(
                f"the metric is {brief(metric)}; expected 'accuracy', 'error', 'brier', or a loss with its range, as "
                "in {'loss': 'absolute', 'low': 0, 'high': 60}; nothing was created"
            )

    @property
    def in_words(self) -> str:
        """The metric as people read it."""
        if isinstance(self.metric, Mapping):
            return f"{self.metric['loss']} loss"
        return "Brier score" if self.metric == "brier" else self.metric

    @property
    def comparisons(self) -> int:
        """Pairs of teams, each of which is compared at the end."""
        return self.teams * (self.teams - 1) // 2

    @property
    def closing(self) -> int:
        """Questions that the end needs: the score of each team, and each comparison."""
        return self.teams + self.comparisons

    @property
    def questions(self) -> int:
        """Questions in all: each submission that is told something has one of its own."""
        return self.closing + (0 if self.feedback == NOTHING else self.teams * self.submissions)

    def wish(self, mechanism: Mechanism | str | None) -> tuple[str, int]:
        """Which mechanism answers, by name, and for how many questions it is planned.

        Args:
            mechanism: What whoever seals the rows asked for.

        Raises:
            HoldoutRejected: If that mechanism cannot keep such a competition.
        """
        expected = Silent if self.feedback == NOTHING else GuessAndCheck
        if mechanism is not None and mechanism != expected.name:
            name = mechanism.name if isinstance(mechanism, Mechanism) else mechanism
            raise HoldoutRejected(
                f"the mechanism {brief(name)} cannot be chosen for a competition with feedback={self.feedback!r}; "
                f"expected none, for then it is {expected.name}, planned for the teams; nothing was created"
            )
        return expected.name, self.questions

    def planned(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism for the rows; one that is silent knows that scores come first, and comparisons after them."""
        return replace(mechanism, first=self.teams) if isinstance(mechanism, Silent) else mechanism

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Competition | None:
        """The competition that a holdout was sealed for, if it was."""
        stored = configuration.get("competition")
        return None if stored is None else cls(**stored)
