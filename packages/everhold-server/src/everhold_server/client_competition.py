"""Competition of a holdout behind a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from everhold_server.client_gates import models_of, plain
from everhold_server.wire.answers import result_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.queries.predictions.arrays import PredictionTable
    from everhold_competitions.leaderboard import Leaderboard
    from everhold_competitions.submission_result import FormatReport, Submission
    from everhold_server.wire.connection import Connection


class SendsDocuments(Protocol):
    """A way to a holdout of a service."""

    connection: Connection
    path: str

    def send(
        self, path: str, document: Mapping[str, Any], tables: Mapping[str, PredictionTable] | None = None, *,
        method: str = "POST",
    ) -> dict[str, Any]:  # fmt: skip
        """Send a document to a path below the holdout's, with tables of predictions beside it."""


class RemoteCompetition:
    """A competition of a service; made by `holdout.competition`."""

    def __init__(self, transport: SendsDocuments) -> None:
        """Use `holdout.competition` instead."""
        self._transport = transport

    def submit(
        self, predictions: Any, *, team: str | None = None, guess: float | None = None, training: Any = None
    ) -> Submission:
        """See `holdout.competition.submit` of a `Holdout`; an analyst hands in as who they are."""
        document, tables = models_of(predictions=predictions, training=training)
        document |= {"team": team, "guess": plain(guess)}
        received: Submission = result_from(self._transport.send("/submissions", document, tables))
        return received

    def check(self, predictions: Any, *, team: str | None = None) -> FormatReport:
        """True if predictions would be received; nothing is."""
        document, tables = models_of(predictions=predictions)
        document |= {"team": team}
        report: FormatReport = result_from(self._transport.send("/submissions/check", document, tables))
        return report

    def submissions(self) -> list[dict[str, Any]]:
        """See `holdout.competition.submissions` of a `Holdout`; an analyst gets those of the own team."""
        rows: list[dict[str, Any]] = self._transport.connection.get(f"{self._transport.path}/submissions")[
            "submissions"
        ]
        return rows

    def choose(self, *, number: int, team: str | None = None) -> None:
        """See `holdout.competition.choose` of a `Holdout`; an analyst chooses for the own team."""
        self._transport.send("/submissions/final", {"number": number, "team": team})

    def leaderboard(self) -> Leaderboard:
        """Ranking of the teams; free."""
        found = self._transport.connection.get(f"{self._transport.path}/leaderboard")
        board: Leaderboard = result_from(found)
        return board
