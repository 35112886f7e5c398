"""Runs a competition: checks and receives submissions, tells what the host chose, and compares them at the end."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.arguments import brief
from everhold.asking.budget import checked_name, refuse_look_alikes
from everhold.asking.query_executor import CLOSED_STUDY
from everhold.errors import EverholdError, QueryRejected
from everhold.gates.candidates import Candidate
from everhold.gates.challenge import challenge_of
from everhold.gates.records import Gates
from everhold.gates.rows import open_row_gate
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.acts import ANALYST, PROMOTED, Accounts
from everhold.ledger.store import all_entries, charged_entries
from everhold.private_files import keep_others_out
from everhold.progress import progress
from everhold.queries.means.plans import OneMean
from everhold.queries.query import Outdated
from everhold.sealing.sealed_files import ArrayFiles
from everhold.strict_json import digest
from everhold_competitions.competition import LEADER, NOTHING, SCORE, Competition
from everhold_competitions.public_scores import PublicScores
from everhold_competitions.scoring import Entered, MeanScoring, Scoring, scoring_of
from everhold_competitions.submission_result import FormatReport, Submission, without_guess
from everhold_competitions.teams import (
    CHOICE,
    CLOSING,
    DEADLINE,
    DISQUALIFICATION,
    LEADERBOARD,
    SUBMISSION,
    Submissions,
    Team,
    TeamLimited,
    received,
    surprises_left,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.asking.query_executor import QueryExecutor
    from everhold.gates.gate import Gate
    from everhold.gates.records import GateAccount, ModelStore
    from everhold.queries.query import QueryPlan

_LOCK = "submissions.lock"
_MOST_CLASSES = 10  # that a report of a file's format lists
_RECEIVED_ONLY = "The submission was received and counts at the end. Submit it again to be told about it."


@dataclass(frozen=True, slots=True)
class SubmissionStore(ArrayFiles):
    """Private files with the predictions of one holdout's submissions."""

    purpose: ClassVar[bytes] = b"everhold submissions"
    prefix: ClassVar[str] = "submission"
    array: ClassVar[str] = "predictions"
    whose: ClassVar[str] = "a submission"
    called: ClassVar[str] = "the submission"
    remedy: ClassVar[str] = "submit again"

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Return a context that admits one submission at a time, across processes and threads.

        Raises:
            EverholdError: If the lock for this cannot be made.
        """
        try:
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as fault:
            raise self.not_kept(fault) from None
        try:
            keep_others_out(descriptor)
            yield
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Receiving:
    """Decides whether a submission is received, from the newest state of the ledger."""

    session: CompetitionSession

    def receive(self, team: str, predicted: str, public: str) -> bool:
        """Record a submission in the ledger. Return False if it repeats the team's latest one and changes nothing.

        A team's last submission is its final one. With feedback about leads, a submission that leads stays final until
        the team submits another one that leads, or submits again after losing the lead.
        """
        while True:
            accounts = self.session.accounts()
            final = self._is_final(accounts, team, predicted)
            said: dict[str, Any] = {"kind": SUBMISSION, "team": team, "predictions": predicted, "final": final}
            if public:
                said["public"] = public
            if not self.session.competition.spends and team in accounts.parts:
                said[ANALYST] = team  # nothing is told of it here, so it is itself what the allotment pays for
            try:
                return self.session.record(said, f"submission of team {team!r}", partial(self._is_new, said))
            except Outdated:  # another process changed the leader meanwhile
                continue

    def _is_new(self, said: Mapping[str, Any], accounts: Accounts) -> bool:
        """Check inside the ledger's transaction that a submission is allowed. Return False if it changes nothing.

        It changes nothing if it equals the team's latest submission and the team's final one stays as it is.
        """
        team, predicted, public = said["team"], said["predictions"], said.get("public", "")
        known = self.capacity_for(accounts, team, predicted, public)
        if known is not None and self._is_repeat(accounts, known, predicted, public):
            return False
        if said["final"] != self._is_final(accounts, team, predicted):
            raise Outdated
        return True

    def capacity_for(self, accounts: Accounts, team: str, predicted: str, public: str) -> Team | None:
        """Check that a team may submit these predictions now. Return the team, or None for a new team.

        Raises:
            QueryRejected: If the team may not submit them.
        """
        submissions = accounts.of(Submissions)
        competition, teams = self.session.terms(submissions), submissions.teams
        known, part = teams.get(team), accounts.parts.get(team)
        if known is not None and known.out:
            raise QueryRejected(f"Team {team!r} is disqualified: {known.out}")
        if known is not None and self._is_repeat(accounts, known, predicted, public):
            return known
        if accounts.closed or accounts.of(Submissions).closed:
            raise QueryRejected("The competition is over. No submission is accepted any more.")
        if competition.is_past(datetime.now(UTC)):
            raise QueryRejected(
                f"The deadline, {competition.deadline}, has passed. No submission is accepted any more."
            )
        if known is None:
            refuse_look_alikes(team, teams, of="team")
        if known is None and len(teams) >= competition.teams:
            raise QueryRejected(
                f"The competition was planned for {competition.teams:,} teams, and that many have submitted. Submit "
                "as one of these teams, or ask the host."
            )
        if self.session.left(known) < 1:
            raise QueryRejected(
                f"Team {team!r} has used all of its {competition.submissions:,} submissions. Nothing was received."
            )
        if part is not None and part.asked >= part.queries:
            raise QueryRejected(
                f"The allotment of team {team!r} is used up. Nothing was received. Ask the host for a larger allotment."
            )
        return known

    def _is_repeat(self, accounts: Accounts, team: Team, predicted: str, public: str) -> bool:
        """Return whether a submission equals its team's latest one and would change nothing."""
        if (team.latest, team.public) != (predicted, public):
            return False
        over = accounts.closed or accounts.of(Submissions).closed
        return over or team.final == predicted or self.session.leads(accounts, team.final)

    def _is_final(self, accounts: Accounts, team: str, predicted: str) -> bool:
        known = accounts.of(Submissions).teams.get(team)
        return known is None or not self.session.leads(accounts, known.final) or self.session.leads(accounts, predicted)


@dataclass(frozen=True, slots=True)
class TeamFeedback:
    """Feedback on a team's submissions, of the kind that the host chose."""

    session: CompetitionSession

    def answering(
        self, entered: Entered, team: str, predictions: Any, guess: float | None, training: Any
    ) -> Callable[[], dict[str, Any]]:
        """Return the function that gives feedback on a received submission, as attributes of `Submission`.

        Raises:
            QueryRejected: If no feedback on the submission is possible. Nothing was received or charged.
            IntegrityError: If the leader's file is missing or was altered. Nothing was received or charged.
        """
        executor, competition, predicted = self.session.executor, self.session.competition, entered.digest
        if self.session.public is not None:
            return partial(self._answer_public, self.session.public, entered, team)
        if competition.feedback == NOTHING:
            return dict
        if team in self.session.accounts().parts:
            executor = executor.on_behalf_of(team)

        def limited(ready: Any) -> TeamLimited[Any]:
            """Return the plan of a mean or a challenge, which keeps the budget for the final scores."""
            return TeamLimited(replace(ready, keeping=competition.closing), team, predicted, self.session.share)

        if competition.feedback == LEADER:
            if (leader := self.session.leader(self.session.accounts())) is not None:
                self.session.champions.champion(leader)
            assert entered.candidate is not None
            return partial(self._challenge_leader, executor, entered.candidate, limited, predictions, training)
        scored = executor.ledger.find(self.session.scoring.score_digest(predicted)) is not None
        if guess is None and not scored and self._is_spent(team):
            return partial(dict, refused=True)  # nothing will be told, so no guess is needed
        ready = executor.compiler.compile(self.session.scoring.query(predictions, training), guess, None)
        assert isinstance(ready, OneMean)
        return partial(self._answer_score, executor, limited(ready))

    def _answer_public(self, public: PublicScores, entered: Entered, team: str) -> dict[str, Any]:
        answer = public.tell(team, entered.public, entered.digest)
        return {"answer": answer, "refused": answer.refused, "public_rows": public.facts["rows"]}

    def _answer_score(self, executor: QueryExecutor, ready: QueryPlan[Answer]) -> dict[str, Any]:
        answer = executor.ask(ready)
        return {"answer": None if answer.refused else without_guess(answer), "refused": answer.refused}

    def _challenge_leader(
        self, executor: QueryExecutor, found: Candidate, telling: Callable[..., Any], predictions: Any, training: Any
    ) -> dict[str, Any]:
        """Challenge the leader with predictions. Return whether they take the lead."""
        if self._was_answered(found):
            return {"leads": self.session.leader(self.session.accounts()) == found.bound.query}
        gate_now = self._gate(executor, telling, predictions, training)
        verdict = gate_now.challenge(predictions, training=training)
        return {"leads": verdict.champion == found.bound.query, "refused": verdict.refused}

    def _was_answered(self, candidate: Candidate) -> bool:
        """Return whether the ledger has a verdict on these predictions as a challenger of a leader."""
        accounts = self.session.accounts()
        gates, leader, leaders = self.session.gates(accounts), self.session.leader(accounts), self.session.leaders()
        if leader is None or candidate.bound.query in leaders[: leaders.index(leader) + 1]:
            return leader is not None
        gate = gates[-1]
        if gate.champion != leader:  # a disqualified team's: the one before it was challenged in another gate
            return False
        schema = self.session.executor.schema
        verdicts = (digest(challenge_of(gate, each, candidate.bound.query, schema)) for each in leaders)
        return any(self.session.executor.ledger.find(each) is not None for each in verdicts)

    def _is_spent(self, team: str) -> bool:
        """Return whether the team's surprises are used up, or only the budget for the final scores is left."""
        if surprises_left(self.session.accounts(), team, self.session.share) == 0:
            return True
        executor = self.session.executor
        mechanism, state = executor.mechanism, executor.state()
        return not mechanism.accounts.leaves_capacity(state, self.session.competition.closing, [mechanism.procedure])

    def last_feedback(self, team: Team) -> float | None:
        """Return the last score that a team received, which is the guess of its next submission.

        Return None if the team was told no score.
        """
        latest = self._score_of(team.latest)
        if latest is not None:
            return latest
        rows = reversed(received(all_entries(self.session.executor.ledger)))
        scores = (self._score_of(row["predictions"]) for row in rows if row["team"] == team.name)
        return next((score for score in scores if score is not None), None)

    def _score_of(self, predicted: str) -> float | None:
        """Return the score that the ledger holds for a submission, None without one."""
        entry = self.session.executor.ledger.find(self.session.scoring.score_digest(predicted))
        value = None if entry is None else entry.answer["value"]
        return None if value is None else self.session.scoring.facts.from_mean(value)

    def _gate(self, executor: QueryExecutor, telling: Callable[..., Any], predictions: Any, training: Any) -> Gate:
        """Return the gate whose champion is the leader. It is opened if necessary.

        A gate is opened if nobody leads yet. A new one is opened if the leader's team was disqualified. Its champion is
        the last leader whose team is on the board, or this submission.
        """
        session, accounts = self.session, self.session.accounts()
        assert isinstance(session.scoring, MeanScoring)
        metric, folder, leader = session.scoring.of_gate, session.champions.folder, session.leader(accounts)
        gates = session.gates(accounts)
        if gates and gates[-1].champion == leader:
            return open_row_gate(executor, folder, gates[-1].name, metric, telling=telling)
        name = f"{LEADERBOARD} {len(gates) + 1}" if gates else LEADERBOARD
        if leader is not None:
            predictions, training = session.files.find(session.on_board(accounts)[leader]), None
        try:
            open_row_gate(session.executor, folder, name, metric, champion=predictions, training=training)
        except QueryRejected:
            if name not in session.accounts().of(Gates).by_name:  # else another team was first
                raise
        return open_row_gate(executor, folder, name, metric, telling=telling)


@dataclass(frozen=True)
class CompetitionSession:
    """A competition that takes submissions, on top of the query executor of its holdout.

    Attributes:
        executor: Executor of the open holdout, with the rights of the steward.
        competition: Terms that were fixed when the rows were sealed.
        files: Predictions of submissions.
        champions: Predictions of leaders.
        public: The public rows. None without public rows.
    """

    executor: QueryExecutor
    competition: Competition
    files: SubmissionStore
    champions: ModelStore
    public: PublicScores | None = None

    def check(self, predictions: Any, *, team: str) -> FormatReport:
        """Check whether predictions could be submitted, and return a report. No label is read and nothing is stored.

        Raises:
            QueryRejected: If these predictions could not be submitted.
        """
        team = checked_name(team, of="team")
        entered = self._entered(predictions, None)
        accounts = self.accounts()
        known = Receiving(self).capacity_for(accounts, team, entered.digest, entered.public_digest)
        return FormatReport(
            rows=self.rows, joined_by=self.executor.schema.row_id, metric=self.competition.in_words,
            values=_described(entered.predictions), team=team, left=self.left(known),
            surprises_left=surprises_left(accounts, team, self.share),
        )  # fmt: skip

    def submit(self, predictions: Any, *, team: str, guess: float | None, training: Any) -> Submission:
        """Check, store and record a submission, and return its feedback.

        The transaction that receives the submission decides whether the team may still submit, before anything is told.
        If the process ends before the feedback, submitting the same predictions again gives this feedback.

        Args:
            predictions: Predictions in the form that the metric takes: an array, or a table with row ids.
            team: Name of the team that submits.
            guess: With ``"score"``: the team's own guess of the score; by default the last score that the team was
                told.
            training: Predictions for the training rows, if the holdout has training rows.

        Raises:
            QueryRejected: If the submission cannot be received. Nothing was received or charged.
        """
        team = checked_name(team, of="team")
        if guess is not None and self.public is not None:
            raise QueryRejected("A public score needs no guess. Leave guess= out.")
        if guess is not None and self.competition.feedback != SCORE:
            raise QueryRejected(
                "guess= is only for a competition that tells scores, and this one has "
                f"feedback={self.competition.feedback!r}. Leave it out."
            )
        entered = self._entered(predictions, training)
        with self.files.one_at_a_time():  # so that teams are told in the order in which they are received
            predicted = entered.digest
            receiving, feedback = Receiving(self), TeamFeedback(self)
            before = receiving.capacity_for(self.accounts(), team, predicted, entered.public_digest)
            self.files.keep(predicted, entered.predictions)  # of a repeated one, too: its file may be lost
            if guess is None and before is not None and self.public is None and self.competition.feedback == SCORE:
                guess = feedback.last_feedback(before)
            # what is wrong with it is refused here
            answering = feedback.answering(entered, team, predictions, guess, training)
            repeated = not receiving.receive(team, predicted, entered.public_digest)
            try:
                told = answering()
            except EverholdError as fault:
                raise type(fault)(f"{fault.message.removesuffix('.')}. {_RECEIVED_ONLY}", **fault.data) from None
            accounts = self.accounts()
            now = accounts.of(Submissions).teams[team]
            return Submission(
                team=team, feedback=self.competition.feedback, number=now.received, left=self.left(now),
                final=now.final == predicted, repeated=repeated, predictions=predicted,
                surprises_left=surprises_left(accounts, team, self.share), **told,
            )  # fmt: skip

    def choose(self, team: str, predicted: str) -> None:
        """Make a recorded submission the team's final one.

        Raises:
            QueryRejected: If the competition is over. Nothing was changed.
            IntegrityError: If its file is missing or was altered. Nothing was changed.
        """
        self.files.find(predicted)

        def check(accounts: Accounts) -> bool:
            known = accounts.of(Submissions).teams[team]
            if self.is_over(accounts):
                raise QueryRejected("The competition is over. No submission can be chosen any more.")
            if known.out:
                raise QueryRejected(f"Team {team!r} is disqualified. Ask the host.")
            return known.final != predicted

        self.record(
            {"kind": CHOICE, "team": team, "predictions": predicted}, f"final submission of team {team!r}", check
        )

    def disqualify(self, team: str, reason: str) -> None:
        """Take a team off the board, with a reason that the ledger keeps.

        Raises:
            QueryRejected: If there is no such team on the board, or the competition is over. Nothing was changed.
        """

        def check(accounts: Accounts) -> bool:
            self._check_open(accounts, "A team is disqualified before that")
            known = accounts.of(Submissions).teams.get(team)
            if known is None:
                raise QueryRejected(f"No team named {brief(team)} has submitted. Pass a name from the board.")
            return not known.out

        self.record({"kind": DISQUALIFICATION, "team": team, "reason": reason}, f"team {team!r} is disqualified", check)

    def move_deadline(self, deadline: str) -> None:
        """Move the deadline to a later moment than now.

        Raises:
            QueryRejected: If the new deadline is in the past, or the competition is over. Nothing was changed.
        """

        def check(accounts: Accounts) -> bool:
            self._check_open(accounts, "A deadline is moved before that")
            if replace(self.competition, deadline=deadline).is_past(datetime.now(UTC)):
                raise QueryRejected(f"The deadline {deadline} has passed. Pass a later time.")
            return self.terms(accounts.of(Submissions)).deadline != deadline

        self.record({"kind": DEADLINE, "deadline": deadline}, f"the deadline is {deadline}", check)

    def terms(self, submissions: Submissions) -> Competition:
        """Return the current terms of the competition, with the deadline after all changes."""
        return replace(self.competition, deadline=submissions.deadline or self.competition.deadline)

    def is_over(self, accounts: Accounts) -> bool:
        """Return whether submissions have ended, because the end was recorded or the deadline has passed."""
        submissions = accounts.of(Submissions)
        return accounts.closed or submissions.closed or self.terms(submissions).is_past(datetime.now(UTC))

    def _check_open(self, accounts: Accounts, instead: str) -> None:
        if accounts.closed or accounts.of(Submissions).closed:
            raise QueryRejected(f"The competition is over. {instead}.")

    def record(self, said: dict[str, Any], shown: str, check: Callable[[Accounts], bool]) -> bool:
        """Commit an act of the competition to the ledger, and return False if ``check`` says that it changes nothing.

        Raises:
            QueryRejected: If the act is not possible. Nothing was changed.
        """
        said = {**said, "act": secrets.token_hex(16)}
        act = EntryDraft(digest(said), {**said, "shown": shown})
        with self.executor.ledger.transaction([act]) as transaction:
            accounts, outcome = Accounts.from_state(transaction.head.state), Outcome.of_act(said["kind"])
            if not check(accounts):
                return False
            if broken := accounts.replay(said, outcome.answer, 0):
                raise QueryRejected(f"Nothing was changed: {broken}. Run 'everhold ledger verify'.")
            transaction.record(accounts.into(transaction.head.state), [outcome])
        return True

    def accounts(self) -> Accounts:
        """Return the current teams, allotments and gates from the ledger."""
        return self.executor.ledger.head().accounts

    @property
    def share(self) -> int | None:
        """Number of surprises that a team may cause, None if submissions get no feedback."""
        planned = self.executor.mechanism.planned_surprises
        return None if planned is None else self.competition.share(planned)

    def _entered(self, predictions: Any, training: Any) -> Entered:
        """Check predictions, and return them in the order of the rows with their digest.

        Of the sealed rows only their public ids are read.
        """
        if isinstance(predictions, str) or hasattr(predictions, "predict"):
            found = "rule" if isinstance(predictions, str) else "model"
            raise QueryRejected(
                f"A submission is a set of predictions, and a {found} was passed. Pass an array, or a table with row "
                "ids, such as model.predict(...)."
            )
        if self.public is None:
            return self.scoring.entered(predictions, training)
        for_public, for_final = self.public.split(predictions)
        public, entered = self.public.scoring.entered(for_public, None), self.scoring.entered(for_final, None)
        return replace(entered, public=public.predictions, public_digest=public.digest)

    @property
    def rows(self) -> int:
        """Number of predictions that a submission must have, one for each row."""
        return self.executor.schema.rows if self.public is None else len(self.public.is_public)

    def left(self, team: Team | None) -> int:
        """Return the number of submissions that a team may still make."""
        return self.competition.submissions - (0 if team is None else team.received)

    def leads(self, accounts: Accounts, predicted: str) -> bool:
        """Return whether these predictions lead at present."""
        return self.leader(accounts) == self.scoring.score_digest(predicted)

    def gates(self, accounts: Accounts) -> list[GateAccount]:
        """Return the gates of the competition's leaders in order.

        A gate is added after the disqualification of a leader.
        """
        return [gate for name, gate in accounts.of(Gates).by_name.items() if name.startswith(LEADERBOARD)]

    def leader(self, accounts: Accounts) -> str | None:
        """Return the SHA-256 of the score query about the leading submission, None if there is none.

        It is the last leader whose team is on the board. Submissions of disqualified teams do not count.
        """
        gates = self.gates(accounts)
        if not gates or not any(team.out for team in accounts.of(Submissions).teams.values()):
            return gates[-1].champion if gates else None
        on_board = self.on_board(accounts)
        return next((each for each in reversed(self.leaders()) if each in on_board), None)

    def on_board(self, accounts: Accounts) -> dict[str, str]:
        """Return the SHA-256 of the predictions that teams on the board handed in, by that of their score query."""
        teams = accounts.of(Submissions).teams
        rows = received(all_entries(self.executor.ledger))
        handed_in = {row["predictions"] for row in rows if not teams[row["team"]].out}
        return {self.scoring.score_digest(each): each for each in handed_in}

    def leaders(self) -> list[str]:
        """Return the SHA-256 of the score queries of all leaders in order. Each was proved better than earlier ones.

        If a gate was opened again, earlier leaders after its first champion are left out, because later leaders need
        not be better than these.
        """
        gates, found = self.gates(self.accounts()), list[str]()
        entries = charged_entries(self.executor.ledger) if any(gate.promotions for gate in gates) else []
        for gate in gates:
            found = [*found[: found.index(gate.first)], gate.first] if gate.first in found else [gate.first]
            found += [
                entry.description["challenger"] for entry in entries
                if entry.answer["source"] == PROMOTED and entry.description["gate"] == gate.name
            ]  # fmt: skip
        return found

    def close(self) -> None:
        """Stop taking submissions, and silently ask for every final score and every comparison.

        If it was interrupted, it continues where it stopped. No feedback is given.

        Raises:
            IntegrityError: If a file of predictions is missing or was altered. Nothing was told.
        """
        submissions = self.accounts().of(Submissions)
        if not submissions.teams:
            return
        if not submissions.closed:
            with self.files.one_at_a_time():
                for final in self.accounts().of(Submissions).finals:
                    self.files.find(final)  # while a team whose file is lost can still hand it in again
                self.end()
        if self.public is not None:
            self.public.close()
        predictions = {final: self.files.find(final) for final in self.accounts().of(Submissions).finals}
        done = 0
        with progress("comparing teams", len(predictions) * (len(predictions) + 1) // 2) as line:
            for plan, count in self.scoring.finals(predictions):
                self.executor.ask(plan)
                done += count
                line(done)

    def end(self) -> None:
        """Record that no submission is received any more.

        Raises:
            QueryRejected: If the study is unsealed.
        """

        def check(accounts: Accounts) -> bool:
            if accounts.closed:
                raise QueryRejected(CLOSED_STUDY)
            return not accounts.of(Submissions).closed

        self.record({"kind": CLOSING}, "no submission is taken any more", check)

    @cached_property
    def scoring(self) -> Scoring:
        """The scoring and comparing of submissions by the competition's metric."""
        return scoring_of(self.competition, self.executor.compiler)


def _described(predictions: NDArray[Any]) -> dict[str, float]:
    """Return a summary of predictions: counts of few classes, or least, mean and greatest value."""
    counted = predictions.dtype.kind in "Ubiu" or bool(np.all(predictions == np.floor(predictions)))
    counts = Counter(predictions.tolist()) if counted else Counter()
    if counts and len(counts) <= _MOST_CLASSES:
        shown = {f"{value:g}" if isinstance(value, float) else str(value): value for value in sorted(counts)}
        return {name: float(counts[value]) for name, value in shown.items()}
    if predictions.dtype.kind == "U":
        return {"different": float(len(counts))}
    return {"least": float(predictions.min()), "mean": float(predictions.mean()), "greatest": float(predictions.max())}
