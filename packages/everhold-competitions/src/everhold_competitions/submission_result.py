"""Results for a team: that of a submission, and the report on predictions that are only checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.display import Display, Listing, at_least, at_most, rounded
from everhold_competitions.competition import LEADER, NOTHING, SCORE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.answers import Answer


def is_score(source: object) -> bool:
    """Return whether an answer's value comes from the sealed rows. A confirmed guess does not."""
    return source == "holdout"


def without_guess(answer: Answer) -> Answer:
    """Return the answer for a team. The value is removed if it is only the team's guess."""
    return answer if is_score(answer.source) else replace(answer, value=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Display):
    """Result of one submission for its team: its number, the remaining submissions, and the feedback.

    Attributes:
        feedback: Kind of feedback that the host chose: ``"none"``, ``"leader"`` or ``"score"``.
        number: Number of the team's submissions so far, including this one.
        left: Number of submissions that the team may still make.
        surprises_left: Number of surprises that the team may still cause. After that the team gets no feedback. None if
            there is no limit.
        final: Whether this submission counts for the team at the end, unless the team submits another one.
        repeated: Whether the team's latest submission was the same, so that nothing new was received.
        leads: With ``"leader"``: whether the submission is proved to lead; None if no feedback is given.
        answer: With ``"score"``: the answer about its score. Its value is None if the sealed rows confirmed the guess,
            because then they reveal only the interval. None if no feedback is given.
        refused: Whether feedback was refused because the rest of the budget, or of the team's share, may not pay for
            it. The submission was received.
        predictions: SHA-256 of the predictions.
        public_rows: Number of public rows that the answer is about; None if it is about the rows of the final board.
    """

    team: str
    feedback: str
    number: int
    left: int
    final: bool
    repeated: bool
    leads: bool | None = None
    answer: Answer | None = None
    refused: bool = False
    predictions: str
    surprises_left: int | None = None
    public_rows: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data: team, number, what is left, and the feedback as leads, or as value, low and high."""
        told: dict[str, Any] = {}
        if self.feedback == LEADER:
            told = {"leads": self.leads}
        elif self.feedback == SCORE:
            kept = {} if self.answer is None else self.answer.to_dict()
            told = {name: kept.get(name) for name in ("value", "low", "high", "source")}
        named = ("feedback", "number", "left", "final", "repeated", "refused", "predictions", "surprises_left")
        if self.public_rows is not None:
            told["public_rows"] = self.public_rows
        return {"team": self.team, "received": True, **{name: getattr(self, name) for name in named}, **told}

    def __str__(self) -> str:
        count = f"submission {self.number:,} of {self.number + self.left:,} of team {self.team!r}"
        received = f"{'received before' if self.repeated else 'received'}: {count}"
        return f"{received}. {self.explain()}"

    def explain(self) -> str:
        """Return a sentence for the team about the feedback on its submission."""
        if self.refused:
            spent = "of the budget" if self.surprises_left is None or self.surprises_left > 0 else "to this team"
            return f"Nothing more is told: what is left {spent} may not cover it. The submission counts at the end."
        if self.feedback == NOTHING:
            return "Nothing is told before the end."
        if self.feedback == LEADER:
            if self.leads:
                return "It leads."
            return "It does not take the lead: it was not proved better. How far behind it is stays sealed."
        answer = self.answer
        if answer is None or answer.low is None or answer.high is None:
            return "Nothing more is told."
        if self.public_rows is not None:
            about = f"on {self.public_rows:,} public rows. The final board is about other rows."
            if is_score(answer.source):
                return f"The public score is {rounded(answer.value or 0.0)} {about}"
            return f"The public score stays {rounded(answer.value or 0.0)} {about} This file is not better by a step."
        interval = f"[{at_least(answer.low)}, {at_most(answer.high)}]"
        if answer.value is None:
            return f"The score is confirmed within {interval}. By how much the guess is off is not told."
        return f"The score is {rounded(answer.value)} in {interval}."


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatReport(Display):
    """Report on valid predictions that a team checked without submitting them.

    Attributes:
        rows: Predictions, one for each sealed row.
        joined_by: The column of row ids; None if they are in the order of the rows.
        metric: Metric by which the predictions would be scored.
        values: How often each predicted class occurs; or least, mean and greatest of numbers.
        left: Number of submissions that the team may still make.
        surprises_left: Number of surprises that the team may still cause. None if there is no limit.
    """

    rows: int
    joined_by: str | None
    metric: str
    values: Mapping[str, float]
    team: str
    left: int
    surprises_left: int | None = None

    def __str__(self) -> str:
        joined = "in the order of the rows" if self.joined_by is None else f"joined by {self.joined_by!r}"
        values = ", ".join(f"{name}: {rounded(count)}" for name, count in self.values.items())
        return (
            f"The format is right: {self.rows:,} predictions, {joined}, for {self.metric} ({values}). Team "
            f"{self.team!r} has {self.left:,} submissions left. Nothing was received or charged."
        )


@dataclass(frozen=True, slots=True)
class TeamList(Listing):
    """Teams of a competition with the submissions that they used, returned by `holdout.competition.teams()`.

    Attributes:
        rows: One dictionary for each team: team, submissions, left, charged, surprises_left, latest, disqualified.
    """

    rows: list[dict[str, Any]]
