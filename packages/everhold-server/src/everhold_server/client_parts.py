"""Families and competition of a holdout behind a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from everhold.asking.declared import DeclaredFamilies
from everhold.families.base import Family
from everhold.families.protocol import written as as_plain
from everhold_server.client_gates import models_of, plain
from everhold_server.wire.answers import result_from

if TYPE_CHECKING:
    from everhold_competitions.leaderboard import Leaderboard
    from everhold_competitions.submission_result import FormatReport, Submission
    from everhold_server.remote_holdout import RemoteHoldout


class RemoteFamilies:
    """Declared families of a holdout of a service; made by `RemoteHoldout.declared`."""

    def __init__(self, holdout: RemoteHoldout) -> None:
        """Use `RemoteHoldout.declared` instead."""
        self._holdout = holdout

    def families(self) -> DeclaredFamilies:
        """Each family with what it holds and how wide the interval of a member can be."""
        return DeclaredFamilies(self._holdout._connection.get(f"{self._holdout._path}/families")["families"])


class RemoteCompetition:
    """A competition of a service; made by `RemoteHoldout.competition`."""

    def __init__(self, holdout: RemoteHoldout) -> None:
        """Use `RemoteHoldout.competition` instead."""
        self._holdout = holdout

    def submit(
        self, predictions: Any, *, team: str | None = None, guess: float | None = None, training: Any = None
    ) -> Submission:
        """See `holdout.competition.submit` of a `Holdout`; an analyst hands in as who they are."""
        document, tables = models_of(predictions=predictions, training=training)
        document |= {"team": team, "guess": plain(guess)}
        received: Submission = result_from(self._holdout._send("/submissions", document, tables))
        return received

    def check(self, predictions: Any, *, team: str | None = None) -> FormatReport:
        """True if predictions would be received; nothing is."""
        document, tables = models_of(predictions=predictions)
        document |= {"team": team}
        report: FormatReport = result_from(self._holdout._send("/submissions/check", document, tables))
        return report

    def submissions(self) -> list[dict[str, Any]]:
        """See `holdout.competition.submissions` of a `Holdout`; an analyst gets those of the own team."""
        rows: list[dict[str, Any]] = self._holdout._connection.get(f"{self._holdout._path}/submissions")["submissions"]
        return rows

    def choose(self, *, number: int, team: str | None = None) -> None:
        """See `holdout.competition.choose` of a `Holdout`; an analyst chooses for the own team."""
        self._holdout._send("/submissions/final", {"number": number, "team": team})

    def leaderboard(self) -> Leaderboard:
        """Ranking of the teams; free."""
        found = self._holdout._connection.get(f"{self._holdout._path}/leaderboard")
        board: Leaderboard = result_from(found)
        return board


def plain_families(given: Any) -> dict[str, Any]:
    """Families as plain data, with names."""
    several = [given] if isinstance(given, Family) else given
    named = several if isinstance(several, Mapping) else {f"family {n}": each for n, each in enumerate(several, 1)}
    return {name: as_plain(family) for name, family in named.items()}
