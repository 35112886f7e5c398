"""A competition at work: submissions are checked, received, told what the host chose, and compared at the end."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.asking.budget import checked_name
from everhold.asking.query_executor import CLOSED_STUDY
from everhold.errors import EverholdError, QueryRejected
from everhold.gates.records import Gates
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.acts import PROMOTED, Accounts
from everhold.ledger.store import charged_entries
from everhold.mechanisms import GuessAndCheck
from everhold.progress import progress
from everhold.queries.query import digest
from everhold_competitions.competition import SCORE, Competition
from everhold_competitions.feedback import TeamFeedback
from everhold_competitions.receiving import NOTHING_RECEIVED, Receiving
from everhold_competitions.scoring import Entered, Scoring, scoring_of
from everhold_competitions.submission_result import FormatReport, Submission
from everhold_competitions.team_limits import surprises_left
from everhold_competitions.teams import CHOICE, CLOSING, LEADERBOARD, Submissions, Team

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.records import ModelStore
    from everhold_competitions.submission_store import SubmissionStore

_MOST_CLASSES = 10  # that a report of a file's format lists
_RECEIVED_ONLY = "the submission was received and counts at the end; hand in the same again to be told of it"


@dataclass(frozen=True)
class CompetitionSession:
    """A competition at work.

    Attributes:
        executor: The holdout at work, as the steward has it.
        competition: What was fixed when the rows were sealed.
    """

    executor: QueryExecutor
    competition: Competition
    files: SubmissionStore
    champions: ModelStore

    def check(self, predictions: Any, *, team: str) -> FormatReport:
        """True if predictions would be received; nothing is kept, and no label is looked at.

        Raises:
            QueryRejected: If they would not.
            ValueError: If the team's name cannot be used.
        """
        team = checked_name(team, of="team")
        entered = self._entered(predictions, None)
        accounts = self.accounts()
        known = Receiving(self).capacity_for(accounts, team, entered.digest)
        return FormatReport(
            rows=self.executor.schema.rows, joined_by=self.executor.schema.row_id, metric=self.competition.in_words,
            values=_described(entered.predictions), team=team, left=self.left(known),
            surprises_left=surprises_left(accounts, team, self.share),
        )  # fmt: skip

    def submit(self, predictions: Any, *, team: str, guess: float | None, training: Any) -> Submission:
        """Check, keep and receive a submission, then tell what the host chose.

        Whether there is room is decided once, in the transaction that receives it and before anything is told. If the
        process ends in between, the same submission again is told what it was not.

        Args:
            predictions: As the metric takes them: an array, or a table with row ids.
            team: Who hands it in.
            guess: With ``"score"``: the team's own guess of the score; by default what it was told last.
            training: Predictions for the training rows, where there are some.

        Raises:
            QueryRejected: If it cannot be received. Nothing was received or charged.
            ValueError: If the team's name cannot be used.
        """
        team = checked_name(team, of="team")
        if guess is not None and self.competition.feedback != SCORE:
            raise QueryRejected(
                f"a guess belongs to a competition that tells scores, and this one tells {self.competition.feedback}; "
                f"leave it out; {NOTHING_RECEIVED}"
            )
        entered = self._entered(predictions, training)
        with self.files.one_at_a_time():  # so that teams are told in the order in which they are received
            return self._submitted(entered, team, predictions, guess, training)

    def choose(self, team: str, predicted: str) -> None:
        """Make a received submission the team's final one.

        Raises:
            QueryRejected: If the competition is over. Nothing was changed.
            IntegrityError: If its file is missing or was altered. Nothing was changed.
        """
        self.files.find(predicted)
        public = {"kind": CHOICE, "team": team, "predictions": predicted, "act": secrets.token_hex(16)}
        act = EntryDraft(digest(public), {**public, "shown": f"final submission of team {team!r}"})

        def step(data: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
            accounts = Accounts.from_state(data)
            if accounts.closed or accounts.of(Submissions).closed or self.competition.is_past(datetime.now(UTC)):
                raise QueryRejected("the competition is over: no submission is chosen any more; nothing was changed")
            if accounts.of(Submissions).teams[team].final == predicted:
                return data, [None]
            if broken := accounts.replay(public, {"source": CHOICE}, 0):
                raise QueryRejected(f"{broken}; nothing was changed; choose again")
            return accounts.into(data), [Outcome({"value": None, "low": None, "high": None, "source": CHOICE}, 0)]

        self.executor.ledger.commit([act], step)

    def _submitted(
        self, entered: Entered, team: str, predictions: Any, guess: float | None, training: Any
    ) -> Submission:
        predicted = entered.digest
        receiving, feedback = Receiving(self), TeamFeedback(self)
        before = receiving.capacity_for(self.accounts(), team, predicted)
        self.files.keep(predicted, entered.predictions)  # of a repeated one, too: its file may be lost
        if guess is None and before is not None and self.competition.feedback == SCORE:
            guess = feedback.last_feedback(before)
        # what is wrong with it is refused here
        answering = feedback.answering(entered, team, predictions, guess, training)
        repeated = not receiving.receive(team, predicted)
        try:
            told = answering()
        except EverholdError as fault:
            raise type(fault)(f"{fault.message}; {_RECEIVED_ONLY}", **fault.data) from None
        accounts = self.accounts()
        now = accounts.of(Submissions).teams[team]
        return Submission(
            team=team, feedback=self.competition.feedback, number=now.received, left=self.left(now),
            final=now.final == predicted, repeated=repeated, predictions=predicted,
            surprises_left=surprises_left(accounts, team, self.share), **told,
        )  # fmt: skip

    def accounts(self) -> Accounts:
        """Teams, allotments and gates as they are now."""
        return Accounts.from_state(self.executor.ledger.head().state)

    @property
    def share(self) -> int | None:
        """Most surprises of one team; None where nothing is told."""
        mechanism = self.executor.mechanism
        return self.competition.share(mechanism.surprises) if isinstance(mechanism, GuessAndCheck) else None

    def _entered(self, predictions: Any, training: Any) -> Entered:
        """Checked predictions, in the order of the rows; of the sealed rows their public ids alone are read."""
        if hasattr(predictions, "predict"):
            raise QueryRejected(
                "a submission is a set of predictions and not a model; expected an array, or a table with row ids, as "
                f"in model.predict(...); {NOTHING_RECEIVED}"
            )
        return self.scoring.entered(predictions, training)

    def left(self, team: Team | None) -> int:
        """Number of submissions that a team has left."""
        return self.competition.submissions - (0 if team is None else team.received)

    def leads(self, accounts: Accounts, predicted: str) -> bool:
        """True if these predictions lead at present."""
        gate = accounts.of(Gates).by_name.get(LEADERBOARD)
        return gate is not None and gate.champion == self.scoring.score_digest(predicted)

    def leaders(self) -> list[str]:
        """All that ever led, the first one first: SHA-256 of the queries about them."""
        gate = self.accounts().of(Gates).by_name.get(LEADERBOARD)
        if gate is None:
            return []
        entries = charged_entries(self.executor.ledger) if gate.promotions else []
        return [gate.first, *(
            entry.description["challenger"] for entry in entries
            if entry.answer["source"] == PROMOTED and entry.description["gate"] == LEADERBOARD
        )]  # fmt: skip

    def close(self) -> None:
        """Take no submission any more, and ask silently about every final one and every pair of them.

        Interrupted, it goes on where it stopped. Nothing is told.

        Raises:
            IntegrityError: If a file of predictions is missing or was altered. Nothing was told.
        """
        submissions = self.accounts().of(Submissions)
        if not submissions.teams:
            return
        if not submissions.closed:
            with self.files.one_at_a_time():
                for team in self.accounts().of(Submissions).teams.values():
                    self.files.find(team.final)  # while a team whose file is lost can still hand it in again
                self._end()
        finals = self.accounts().of(Submissions).teams.values()
        predictions = {final: self.files.find(final) for final in dict.fromkeys(team.final for team in finals)}
        done = 0
        with progress("comparing teams", len(predictions) * (len(predictions) + 1) // 2) as line:
            for plan, count in self.scoring.finals(predictions):
                self.executor.ask(plan)
                done += count
                line(done)

    def _end(self) -> None:
        public = {"kind": CLOSING}
        act = EntryDraft(digest(public), {**public, "shown": "no submission is taken any more"})

        def step(data: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], list[Outcome | None]]:
            accounts = Accounts.from_state(data)
            if accounts.closed:
                raise QueryRejected(CLOSED_STUDY)
            accounts.of(Submissions).replay(public, CLOSING)
            return accounts.into(data), [Outcome({"value": None, "low": None, "high": None, "source": CLOSING}, 0)]

        self.executor.ledger.commit([act], step)

    @cached_property
    def scoring(self) -> Scoring:
        """Scores and comparisons of submissions."""
        return scoring_of(self.competition, self.executor.compiler)


def _described(predictions: NDArray[Any]) -> dict[str, float]:
    """Predictions in a few numbers."""
    counts = Counter(predictions.tolist()) if predictions.dtype.kind in "Ubiu" or _whole(predictions) else Counter()
    if counts and len(counts) <= _MOST_CLASSES:
        return {_class(value): float(count) for value, count in sorted(counts.items())}
    if predictions.dtype.kind == "U":
        return {"different": float(len(counts))}
    return {"least": float(predictions.min()), "mean": float(predictions.mean()), "greatest": float(predictions.max())}


def _whole(predictions: NDArray[Any]) -> bool:
    return bool(np.all(predictions == np.floor(predictions)))


def _class(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
