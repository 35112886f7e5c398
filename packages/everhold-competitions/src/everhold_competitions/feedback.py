"""Feedback: what a team is told of a submission once it is received, by a query like any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from everhold.asking.budget import on_behalf_of
from everhold.errors import QueryRejected
from everhold.gates.candidates import Candidate
from everhold.gates.challenge import challenge_of
from everhold.gates.records import Gates
from everhold.gates.rows import open_row_gate
from everhold.ledger.store import all_entries
from everhold.queries.means.batch import OneMean
from everhold.queries.query import digest
from everhold_competitions.competition import LEADER, NOTHING
from everhold_competitions.scoring import Entered, MeanScoring
from everhold_competitions.submission_result import without_guess
from everhold_competitions.team_limits import TeamLimited, surprises_left
from everhold_competitions.teams import LEADERBOARD, SUBMISSION, Team

if TYPE_CHECKING:
    from everhold.answers import Answer
    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.gate import Gate
    from everhold.queries.query import QueryPlan
    from everhold_competitions.session import CompetitionSession


@dataclass(frozen=True, slots=True)
class TeamFeedback:
    """Feedback to one team, as the host chose it."""

    session: CompetitionSession

    def answering(
        self, entered: Entered, team: str, predictions: Any, guess: float | None, training: Any
    ) -> Callable[[], dict[str, Any]]:
        """The call that tells the team once its submission is received: it returns attributes of a `Submission`.

        Raises:
            QueryRejected: If it cannot be told as it stands. Nothing was received or charged.
            IntegrityError: If the leader's file is missing or was altered. Nothing was received or charged.
        """
        executor, competition, predicted = self.session.executor, self.session.competition, entered.digest
        if competition.feedback == NOTHING:
            return dict
        if team in self.session.accounts().parts:
            executor = on_behalf_of(executor, team)

        def limited(ready: Any) -> TeamLimited[Any]:
            """The query, a mean or a challenge, with room left for the scores of the close."""
            return TeamLimited(replace(ready, keeping=competition.closing), team, predicted, self.session.share)

        if competition.feedback == LEADER:
            if (gate := self.session.accounts().of(Gates).by_name.get(LEADERBOARD)) is not None:
                self.session.champions.find(gate.champion)
            assert entered.candidate is not None
            return partial(self._challenge_leader, executor, entered.candidate, limited, predictions, training)
        if guess is None and self._is_spent(team) and not self._was_scored(predicted):
            return partial(dict, refused=True)  # nothing will be told, so no guess is needed
        ready = executor.compiler.compile(self.session.scoring.query(predictions, training), guess, None)
        assert isinstance(ready, OneMean)
        return partial(self._answer_score, executor, limited(ready))

    def _answer_score(self, executor: QueryExecutor, ready: QueryPlan[Answer]) -> dict[str, Any]:
        answer = executor.ask(ready)
        return {"answer": None if answer.refused else without_guess(answer), "refused": answer.refused}

    def _challenge_leader(
        self, executor: QueryExecutor, found: Candidate, telling: Callable[..., Any], predictions: Any, training: Any
    ) -> dict[str, Any]:
        """Challenge the leader, once: against a later leader the same predictions are no new try."""
        if self._was_answered(found):
            gate = self.session.accounts().of(Gates).by_name[LEADERBOARD]
            return {"leads": gate.champion == found.digest}
        gate_now = self._gate(executor, telling, predictions, training)
        verdict = gate_now.challenge(predictions, training=training)
        return {"leads": verdict.champion == found.digest, "refused": verdict.refused}

    def _was_answered(self, candidate: Candidate) -> bool:
        """True if a verdict on these predictions is in the ledger, against whichever leader there was."""
        gate, leaders = self.session.accounts().of(Gates).by_name.get(LEADERBOARD), self.session.leaders()
        if gate is None or candidate.digest in leaders:
            return gate is not None
        verdicts = (digest(challenge_of(gate, each, candidate.digest)) for each in leaders)
        return any(self.session.executor.ledger.find(each) is not None for each in verdicts)

    def _is_spent(self, team: str) -> bool:
        """True if the team has caused its share of surprises, or no budget is left but for the scores of the end."""
        if surprises_left(self.session.accounts(), team, self.session.share) == 0:
            return True
        executor = self.session.executor
        mechanism, state = executor.mechanism, executor.state_from(executor.ledger.head().state)
        return not mechanism.accounts.leaves_capacity(state, self.session.competition.closing, [mechanism.procedure])

    def _was_scored(self, predicted: str) -> bool:
        """True if the score of these predictions is in the ledger."""
        return self.session.executor.ledger.find(self.session.scoring.score_digest(predicted)) is not None

    def last_feedback(self, team: Team) -> float | None:
        """The team's last feedback, which is the guess of its next submission; None if it was told nothing yet."""
        latest = self._score_of(team.latest)
        if latest is not None:
            return latest
        received = (
            entry.description["predictions"]
            for entry in reversed(all_entries(self.session.executor.ledger))
            if entry.answer["source"] == SUBMISSION and entry.description["team"] == team.name
        )
        return next((score for each in received if (score := self._score_of(each)) is not None), None)

    def _score_of(self, predicted: str) -> float | None:
        """Told score of a submission; None if it was told nothing."""
        entry = self.session.executor.ledger.find(self.session.scoring.score_digest(predicted))
        value = None if entry is None else entry.answer["value"]
        return None if value is None else self.session.scoring.facts.from_mean(value)

    def _gate(self, executor: QueryExecutor, telling: Callable[..., Any], predictions: Any, training: Any) -> Gate:
        """The gate whose champion leads; the first submission of all opens it."""
        assert isinstance(self.session.scoring, MeanScoring)
        metric, folder = self.session.scoring.of_gate, self.session.champions.folder
        if not self._led():
            try:
                open_row_gate(
                    self.session.executor, folder, LEADERBOARD, metric, champion=predictions, training=training
                )  # fmt: skip
            except QueryRejected:
                if not self._led():  # else another team was first
                    raise
        return open_row_gate(executor, folder, LEADERBOARD, metric, telling=telling)

    def _led(self) -> bool:
        return LEADERBOARD in self.session.accounts().of(Gates).by_name
