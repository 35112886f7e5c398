"""Operations of a competition: hand in predictions or try them, choose the final ones, and read the leaderboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from everhold.errors import QueryRejected
from everhold.operations.operation import PRINTABLE, AnyModel, HoldoutOperation, Param, Role

if TYPE_CHECKING:
    from everhold.asking.session import HoldoutSession
    from everhold_competitions.leaderboard import Leaderboard
    from everhold_competitions.submission_result import FormatReport, Submission, TeamList
    from everhold_competitions.submissions import HoldoutCompetition

_Predictions = Annotated[
    AnyModel | None,
    Param("Row ids and predictions, in any order. In a form it may be the file of this name: CSV, TSV, Parquet or "
          "Arrow, told by its content, with the field `column` where it has several."),
]  # fmt: skip
_Team = Annotated[str | None, Param("Your own name, for an analyst (the default).", longest=1_000, logged="team")]


def _competition(session: HoldoutSession) -> HoldoutCompetition:
    return cast("HoldoutCompetition", session.accessor("competition"))


def _given(predictions: AnyModel | None) -> Any:
    if predictions is None:
        raise QueryRejected(
            "There are no predictions. Send a file in the form field 'predictions', or put predictions into the JSON."
        )
    return predictions


@dataclass(frozen=True, kw_only=True)
class Submit(
    HoldoutOperation["Submission"], verb="submit", role=Role.ANALYST, act="submit", route="POST /submissions",
    topic="competitions", actor="team",
):  # fmt: skip
    """Hand in a team's predictions; they are checked before anything is received or charged.

    A team's last submission is final. The same predictions again, right after each other, are received once. In a form
    the part `predictions` is the file, and `team`, `guess` and `column` may be plain fields.
    """

    predictions: _Predictions = None
    team: _Team = None
    guess: Annotated[
        float | None, Param("Where scores are told: your own guess. A first submission needs it, or `training`.")
    ] = None
    training: Annotated[
        AnyModel | None, Param("The same model's predictions for the training rows, if there are some.")
    ] = None

    def perform(self, session: HoldoutSession) -> Submission:
        """Check and receive the submission, and return the feedback that the host chose."""
        predictions, team = _given(self.predictions), cast("str", self.team)
        return _competition(session).submit(predictions, team=team, guess=self.guess, training=self.training)

    def facts(self, result: Submission) -> Mapping[str, Any]:
        """Return the team and the number of the submission, for the audit log."""
        return {"team": result.team, "number": result.number}


@dataclass(frozen=True, kw_only=True)
class CheckSubmission(
    HoldoutOperation["FormatReport"], verb="check", role=Role.ANALYST, route="POST /submissions/check",
    topic="competitions", actor="team",
):  # fmt: skip
    """Try whether predictions would be received; nothing is received, and no label is looked at."""

    predictions: _Predictions = None
    team: _Team = None
    guess: Annotated[float | None, Param("As for a submission. It is not looked at.")] = None
    training: Annotated[AnyModel | None, Param("Likewise.")] = None

    def perform(self, session: HoldoutSession) -> FormatReport:
        """Check the submission without receiving it."""
        return _competition(session).check(_given(self.predictions), team=cast("str", self.team))


@dataclass(frozen=True, kw_only=True)
class ListSubmissions(
    HoldoutOperation[list[dict[str, Any]]], verb="submissions", role=Role.ANALYST, route="GET /submissions",
    topic="competitions", part="submissions", actor="team",
):  # fmt: skip
    """Submissions of your team in the order in which they were received; a steward sees those of all teams. Free."""

    team: Annotated[str | None, Param("Of this team alone (by default your own, and for a steward all).")] = None

    def perform(self, session: HoldoutSession) -> list[dict[str, Any]]:
        """Return the team's submissions, read from the ledger."""
        return [row for row in _competition(session).submissions() if self.team in (None, row["team"])]


@dataclass(frozen=True, kw_only=True)
class ChooseFinal(
    HoldoutOperation[list[dict[str, Any]]], verb="choose", role=Role.ANALYST, act="choose a submission",
    route="POST /submissions/final", topic="competitions", part="submissions", actor="team",
):  # fmt: skip
    """Make an earlier submission of your team its final one, until the team submits again. Free."""

    number: Annotated[
        int, Param("Of the submission, from 1, in the order of the team's own.", least=1, logged="number")
    ]
    team: _Team = None

    def perform(self, session: HoldoutSession) -> list[dict[str, Any]]:
        """Record the choice, and list the team's submissions."""
        _competition(session).choose(team=cast("str", self.team), number=self.number)
        return ListSubmissions(team=self.team).perform(session)


@dataclass(frozen=True, kw_only=True)
class ReadLeaderboard(
    HoldoutOperation["Leaderboard"], verb="leaderboard", role=Role.VIEWER, route="GET /leaderboard",
    topic="competitions", agents=True,
):  # fmt: skip
    """Places of the teams of a competition. Free.

    A team's rank is one more than the number of teams that are proved to be better; teams that the rows cannot tell
    apart share a place.
    """

    def perform(self, session: HoldoutSession) -> Leaderboard:
        """Return the leaderboard with the places of all teams."""
        return _competition(session).leaderboard()


@dataclass(frozen=True, kw_only=True)
class ListTeams(
    HoldoutOperation["TeamList"], verb="teams", role=Role.STEWARD, route="GET /teams", topic="competitions",
    agents=True, command="teams contest.db contest",
):  # fmt: skip
    """Who submitted how often, what is left, and when the latest submission came. Free."""

    def perform(self, session: HoldoutSession) -> TeamList:
        """Return all teams, read from the ledger."""
        return _competition(session).teams()


@dataclass(frozen=True, kw_only=True)
class Disqualify(
    HoldoutOperation["TeamList"], verb="disqualify", role=Role.STEWARD, act="disqualify a team",
    route="POST /teams/disqualified", topic="competitions", agents=True,
    command="disqualify contest.db contest owls --reason 'two accounts of one person'",
):  # fmt: skip
    """Take a team off the board, with a reason that the ledger keeps and the board shows. It cannot be undone.

    The team submits nothing more, and is compared with nobody at the end. Feedback that it received is still paid for
    by later answers.
    """

    team: Annotated[str, Param("One that submitted.", longest=100, pattern=PRINTABLE, example="owls", logged="team")]
    reason: Annotated[
        str, Param("One line, which everybody may read.", longest=1_000, example="two accounts of one person")
    ]

    def perform(self, session: HoldoutSession) -> TeamList:
        """Record the disqualification, and return all teams."""
        return _competition(session).disqualify(team=self.team, reason=self.reason)


@dataclass(frozen=True, kw_only=True)
class MoveDeadline(
    HoldoutOperation["TeamList"], verb="move_deadline", role=Role.STEWARD, act="move the deadline",
    route="PUT /deadline", topic="competitions", agents=True,
    command="move-deadline contest.db contest 2026-12-08T12:00:00+00:00",
):  # fmt: skip
    """Move the deadline to another time from now on. The ledger keeps it, and the board shows it.

    A deadline that is over may be moved, too, until the study is unsealed.
    """

    deadline: Annotated[
        str, Param("With the offset from UTC.", longest=100, example="2026-12-08T12:00:00+00:00", logged="deadline")
    ]

    def perform(self, session: HoldoutSession) -> TeamList:
        """Record the new deadline, and return all teams."""
        return _competition(session).move_deadline(self.deadline)


COMPETITION_OPERATIONS: tuple[type[HoldoutOperation[Any]], ...] = (
    Submit, CheckSubmission, ListSubmissions, ChooseFinal, ReadLeaderboard, ListTeams, Disqualify, MoveDeadline,
)  # fmt: skip
"""All operations of a competition."""
