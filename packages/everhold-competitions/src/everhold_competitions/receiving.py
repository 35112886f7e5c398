"""Receiving submissions: whether there is room for one is decided in the transaction that receives it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from everhold.asking.budget import SPENT, refuse_look_alikes
from everhold.errors import QueryRejected
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.acts import ANALYST, Accounts
from everhold.queries.query import Outdated, digest
from everhold_competitions.competition import NOTHING
from everhold_competitions.teams import SUBMISSION, Submissions, Team

if TYPE_CHECKING:
    from everhold_competitions.session import CompetitionSession

NOTHING_RECEIVED = "nothing was received or charged"


@dataclass(frozen=True, slots=True)
class Receiving:
    """Decisions on submissions, each made from the ledger as it is then."""

    session: CompetitionSession

    def receive(self, team: str, predicted: str) -> bool:
        """Receive a submission, an act in the ledger; False if it was received before.

        The last one is final. Where leaders are told, one that leads at present stays final until the team hands in
        another one that leads, or hands in anything after it has lost the lead.
        """
        while True:
            accounts = self.session.accounts()
            final = self._is_final(accounts, team, predicted)
            public: dict[str, Any] = {"kind": SUBMISSION, "team": team, "predictions": predicted, "final": final}
            if self.session.competition.feedback == NOTHING and team in accounts.parts:
                public[ANALYST] = team  # nothing is told, so the submission itself is what the allotment pays for
            public["act"] = secrets.token_hex(16)
            act = EntryDraft(digest(public), {**public, "shown": f"submission of team {team!r}"})
            try:
                (entry,) = self.session.executor.ledger.commit([act], partial(self._step, act))
            except Outdated:  # another process changed the leader meanwhile
                continue
            return entry is not None

    def capacity_for(self, accounts: Accounts, team: str, predicted: str) -> Team | None:
        """The team as it is, if it may hand in these predictions now; None for a new one.

        Raises:
            QueryRejected: If it may not.
        """
        competition, teams = self.session.competition, accounts.of(Submissions).teams
        known, part = teams.get(team), accounts.parts.get(team)
        if known is not None and self._is_repeat(accounts, known, predicted):
            return known
        if accounts.closed or accounts.of(Submissions).closed:
            raise QueryRejected(f"the competition is over: no submission is taken any more; {NOTHING_RECEIVED}")
        if competition.is_past(datetime.now(UTC)):
            raise QueryRejected(
                f"the deadline, {competition.deadline}, is over: no submission is taken any more; {NOTHING_RECEIVED}"
            )
        if known is None:
            refuse_look_alikes(team, teams, of="team")
        if known is None and len(teams) >= competition.teams:
            raise QueryRejected(
                f"the competition was planned for {competition.teams:,} teams and has as many; expected one of them; "
                f"{NOTHING_RECEIVED}; ask the host"
            )
        if self.session.left(known) < 1:
            raise QueryRejected(
                f"team {team!r} has handed in all of its {competition.submissions:,} submissions; expected no more; "
                f"{NOTHING_RECEIVED}"
            )
        if part is not None and part.asked >= part.queries:
            raise QueryRejected(f"{SPENT} ({NOTHING_RECEIVED})")
        return known

    def _is_repeat(self, accounts: Accounts, team: Team, predicted: str) -> bool:
        """True if a team's latest submission is these predictions, and handing them in again would change nothing."""
        if team.latest != predicted:
            return False
        over = accounts.closed or accounts.of(Submissions).closed
        return over or team.final == predicted or self.session.leads(accounts, team.final)

    def _is_final(self, accounts: Accounts, team: str, predicted: str) -> bool:
        known = accounts.of(Submissions).teams.get(team)
        return known is None or not self.session.leads(accounts, known.final) or self.session.leads(accounts, predicted)

    def _step(self, act: EntryDraft, data: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
        """The one decision whether there is room, inside the transaction that receives the submission."""
        accounts, public = Accounts.from_state(data), act.description
        team, predicted = public["team"], public["predictions"]
        known = self.capacity_for(accounts, team, predicted)
        if known is not None and self._is_repeat(accounts, known, predicted):
            return data, [None]
        if public["final"] != self._is_final(accounts, team, predicted):
            raise Outdated
        if broken := accounts.replay(public, {"source": SUBMISSION}, 0):
            raise QueryRejected(f"{broken}; {NOTHING_RECEIVED}; submit again")
        return accounts.into(data), [Outcome({"value": None, "low": None, "high": None, "source": SUBMISSION}, 0)]
