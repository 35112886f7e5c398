"""A competition: submissions are checked, received, told what the host chose, and ranked at the end.

A submission is kept and received as an act in the ledger, in the one transaction that decides whether there is room for
it. Only then is it told anything, by a question like any other: a challenge of the leader, an ordinary answer, or
nothing, and then the sealed labels are not even looked at. At the end no submission
is taken any more; then each team's final one, and each pair of them, is asked about silently, and the study is
unsealed. So every place of the final leaderboard rests on a paired difference that is covered by the promise.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.arguments import as_whole, brief
from everhold.asking.accessor import HoldoutAccessor
from everhold.asking.budget import SPENT, checked_name, on_behalf_of, refuse_look_alikes
from everhold.asking.gate import Gate, GateRules, model_store_of, open_gate
from everhold.asking.query_executor import CLOSED_STUDY
from everhold.errors import EverholdError, QueryRejected
from everhold.ledger import EntryDraft, Outcome
from everhold.ledger.allotments import ANALYST, Accounts
from everhold.ledger.gates import PROMOTED, Gates
from everhold.ledger.store import all_entries, charged_entries
from everhold.mechanisms import GuessAndCheck
from everhold.progress import progress
from everhold.queries.challenge import challenge_of
from everhold.queries.gate_candidates import Candidate
from everhold.queries.means import OneMean
from everhold.queries.question import Outdated, digest
from everhold.sealing.model_store import ModelStore
from everhold_competitions.competition import LEADER, NOTHING, SCORE, Competition
from everhold_competitions.metric_checks import check_metric
from everhold_competitions.scoring import Entered, MeanScoring, Scoring, scoring_of
from everhold_competitions.submission_result import FormatReport, Submission, is_score, without_guess
from everhold_competitions.submission_store import SubmissionStore
from everhold_competitions.team_limits import TeamLimited, surprises_left
from everhold_competitions.teams import CHOICE, CLOSING, SUBMISSION, Submissions, Team

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.asking.query_executor import QueryExecutor
    from everhold.ledger import Entry, Head
    from everhold.ledger.tally import Tally
    from everhold.queries.question import QueryPlan
    from everhold.values.base import Schema
    from everhold_competitions.leaderboard import Leaderboard

__all__ = ["LEADERBOARD", "CompetitionSession", "HoldoutCompetition"]

LEADERBOARD = "leaderboard"
"""Name of the gate whose champion leads."""

_MOST_CLASSES = 10  # that a report of a file's format lists
_NOTHING_RECEIVED = "nothing was received or charged"
_SETTINGS = ("feedback", "metric", "teams", "submissions", "surprises")
_LATER = ("deadline", "rules")  # that were never keywords of `Holdout.create`
_GUESSES = frozenset({"value", "estimate", "guess"})
_RECEIVED_ONLY = "the submission was received and counts at the end; hand in the same again to be told of it"


class HoldoutCompetition(HoldoutAccessor):
    """The competition that a holdout was created for: `holdout.competition`."""

    settings = Competition
    former_methods: ClassVar[Mapping[str, str]] = {
        "submit": "submit", "check_submission": "check", "leaderboard": "leaderboard",
    }  # fmt: skip
    former_settings: ClassVar[frozenset[str]] = frozenset(_SETTINGS)

    def __repr__(self) -> str:
        return f"HoldoutCompetition({self._executor.record.name!r})"

    def submit(
        self, predictions: Any, *, team: str, guess: float | None = None, training: Any = None
    ) -> Submission:  # fmt: skip
        """Hand in a team's predictions; they are checked before anything is charged.

        A team's last submission is final. Where teams are told that they lead, one that led stays final until another
        one of the team does. The same predictions again, right after each other, are received once.

        Args:
            predictions: As the metric takes them: an array in the order of the rows, or a table with row ids.
            team: Who hands it in. Where an allotment has this name, it pays.
            guess: Where scores are told: the team's own guess, such as a score by cross-validation; by default what
                the team was told last.
            training: Predictions for the training rows, where there are some; they make the guess.

        Returns:
            What the host chose that a submission is told; committed to the ledger before.

        Raises:
            QueryRejected: If it cannot be received. Nothing was received or charged.
            ValueError: If the team's name cannot be used.
        """
        return self._session().submit(predictions, team=team, guess=guess, training=training)

    def check(self, predictions: Any, *, team: str) -> FormatReport:
        """True if predictions would be received; nothing is received, and no label is looked at.

        Raises:
            QueryRejected: If they would not.
            ValueError: If the team's name cannot be used.
        """
        return self._session().check(predictions, team=team)

    def submissions(self) -> list[dict[str, Any]]:
        """All submissions in the order in which they were received.

        Free of charge; no label is looked at. Of each: its entry, the time, the team, its number among the team's own,
        the SHA-256 of the predictions, and whether it is the team's final one.

        Raises:
            QueryRejected: If this holdout takes no submissions.
        """
        executor, number = self._session().executor, Counter[str]()
        found = []
        for entry in all_entries(executor.ledger):
            if entry.answer["source"] == SUBMISSION:
                team = entry.description["team"]
                number[team] += 1
                found.append({
                    "sequence": entry.sequence, "received_at": entry.asked_at, "team": team, "number": number[team],
                    "predictions": entry.description["predictions"], "final": False,
                })  # fmt: skip
        latest = {(row["team"], row["predictions"]): row for row in found}
        for team in Accounts.from_state(executor.ledger.head().state).of(Submissions).teams.values():
            latest[team.name, team.final]["final"] = True
        return found

    def choose(self, *, team: str, number: int) -> None:
        """Make an earlier submission of a team its final one; it stays so until the team hands in another one.

        Free of charge; it takes no submission of the team's limit.

        Args:
            team: The team.
            number: Of its submission, from 1, as `submissions` lists them.

        Raises:
            QueryRejected: If there is no such submission, or the competition is over. Nothing was changed.
            IntegrityError: If its file is missing or was altered. Nothing was changed.
            ValueError: If the team's name cannot be used.
        """
        mine = [row for row in self.submissions() if row["team"] == checked_name(team, of="team")]
        found = next((row for row in mine if row["number"] == as_whole(number)), None)
        if found is None:
            raise QueryRejected(
                f"team {team!r} has no submission {brief(number)}; expected a number from 1 to {len(mine)}, as "
                "submissions() lists them; nothing was changed"
                if mine else f"team {brief(team)} has no submission yet; nothing was changed"
            )  # fmt: skip
        self._session().choose(team, found["predictions"])

    def leaderboard(self) -> Leaderboard:
        """Ranking of the teams; asks nothing and is free.

        Before the end it holds what submissions were told; after `Holdout.unseal` it is final, and every place rests on
        paired differences of final submissions.

        Raises:
            QueryRejected: If this holdout takes no submissions.
        """
        from everhold_competitions.ranking import leaderboard

        return leaderboard(self._session())

    def close(self) -> None:
        """Take no submission any more; `Holdout.unseal` does this, too, and then tells the scores.

        Final submissions and pairs of them are registered silently, so nothing is told.

        Raises:
            QueryRejected: If this holdout takes no submissions, or an analyst asks for it. Nothing was changed.
            IntegrityError: If a file of predictions is missing or was altered. Nothing was told.
        """
        if self._executor.analyst is not None:
            raise QueryRejected(
                "An analyst cannot close a competition. Open the holdout as its steward; nothing was changed."
            )
        self._session().close()

    @classmethod
    def settings_from(cls, flat: dict[str, Any]) -> tuple[Competition | None, dict[str, Any]]:
        """A competition from the former keywords; none without feedback."""
        every = (*_SETTINGS, *_LATER)
        given = {name: flat[name] for name in every if flat.get(name) is not None}
        left = {name: value for name, value in flat.items() if name not in every}
        return (Competition(**given) if "feedback" in given else None), left

    @classmethod
    def check_settings(cls, settings: Competition, schema: Schema) -> None:
        """Check that submissions can be ranked by the metric.

        Raises:
            HoldoutRejected: If not. Nothing was created.
        """
        check_metric(settings, schema)

    def check_query(self) -> None:
        """Refuse queries where submissions alone are taken: what is told of those is the host's choice.

        Raises:
            QueryRejected: Always, for there is a competition. Nothing was charged.
        """
        if self._competition is not None:
            raise QueryRejected(
                f"this holdout takes submissions and no other questions (feedback={self._competition.feedback!r}); "
                "expected holdout.competition.submit(predictions, team=...), or 'everhold submit'; nothing was charged"
            )

    def status_facts(self, head: Head) -> dict[str, Any]:
        """Terms of the competition."""
        return {} if self._competition is None else {"competition": self._competition.to_dict()}

    def certificate_facts(self, head: Head, tally: Tally) -> dict[str, Any]:
        """The competition, with the final leaderboard once there is one."""
        from everhold_competitions.ranking import certified_competition

        return {} if self._competition is None else {"competition": certified_competition(self._session())}

    def model_names(self, entries: Sequence[Entry]) -> dict[str, str]:
        """Names of submissions by the SHA-256 of their predictions."""
        names: dict[str, str] = {}
        received: Counter[str] = Counter()
        for entry in entries:
            if entry.answer["source"] == SUBMISSION:
                team = entry.description["team"]
                received[team] += 1
                names.setdefault(entry.description["predictions"], f"submission {received[team]:,} of {team}")
        return names

    def hidden(self, answer: Mapping[str, Any]) -> frozenset[str]:
        """In a competition a team's guess is no score, so the transcript has its interval alone."""
        return _GUESSES if self._competition is not None and not is_score(answer["source"]) else frozenset()

    def before_unsealing(self) -> None:
        """Close the competition, if it is one."""
        if self._competition is not None:
            self._session().close()

    @property
    def _competition(self) -> Competition | None:
        return None if self._recorded is None else Competition(**self._recorded)

    def _session(self) -> CompetitionSession:
        executor, competition = self._executor, self._competition
        if competition is None:
            raise QueryRejected(
                "this holdout takes no submissions; expected one that was created with competition=eh.Competition(...)"
                "; nothing was received or charged"
            )
        files = SubmissionStore.of(self._folder, holdout=executor.record.id, seal_key=executor.key.seal_key)
        models = model_store_of(executor, self._folder)
        return CompetitionSession(replace(executor, analyst=None), competition, files, models)


@dataclass(frozen=True)
class CompetitionSession:
    """A competition at work.

    Attributes:
        executor: The holdout at work, as the steward has it.
        competition: What was fixed when the rows were sealed.
        files: Where predictions are kept.
        champions: Where leaders are kept.
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
        accounts = self._accounts()
        known = self._room_for(accounts, team, entered.digest)
        return FormatReport(
            rows=self.executor.schema.rows, joined_by=self.executor.schema.row_id, metric=self.competition.in_words,
            values=_described(entered.predictions), team=team, left=self._left(known),
            surprises_left=surprises_left(accounts, team, self._share),
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
                f"leave it out; {_NOTHING_RECEIVED}"
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
        before = self._room_for(self._accounts(), team, predicted)
        self.files.keep(predicted, entered.predictions)  # of a repeated one, too: its file may be lost
        if guess is None and before is not None and self.competition.feedback == SCORE:
            guess = self._last_told(before)
        telling = self._telling(entered, team, predictions, guess, training)  # what is wrong with it is refused here
        repeated = not self._receive(team, predicted)
        try:
            told = telling()
        except EverholdError as fault:
            raise type(fault)(f"{fault.message}; {_RECEIVED_ONLY}", **fault.data) from None
        accounts = self._accounts()
        now = accounts.of(Submissions).teams[team]
        return Submission(
            team=team, feedback=self.competition.feedback, number=now.received, left=self._left(now),
            final=now.final == predicted, repeated=repeated, predictions=predicted,
            surprises_left=surprises_left(accounts, team, self._share), **told,
        )  # fmt: skip

    def _accounts(self) -> Accounts:
        return Accounts.from_state(self.executor.ledger.head().state)

    @property
    def _share(self) -> int | None:
        """Most surprises of one team; None where nothing is told."""
        mechanism = self.executor.mechanism
        return self.competition.share(mechanism.overfits) if isinstance(mechanism, GuessAndCheck) else None

    def _entered(self, predictions: Any, training: Any) -> Entered:
        """Checked predictions, in the order of the rows; of the sealed rows their public ids alone are read."""
        if hasattr(predictions, "predict"):
            raise QueryRejected(
                "a submission is a set of predictions and not a model; expected an array, or a table with row ids, as "
                f"in model.predict(...); {_NOTHING_RECEIVED}"
            )
        return self.scoring.entered(predictions, training)

    def _room_for(self, accounts: Accounts, team: str, predicted: str) -> Team | None:
        """The team as it is, if it may hand in these predictions now; None for a new one.

        Raises:
            QueryRejected: If it may not.
        """
        teams = accounts.of(Submissions).teams
        known, part = teams.get(team), accounts.parts.get(team)
        if known is not None and self._is_repeat(accounts, known, predicted):
            return known
        if accounts.closed or accounts.of(Submissions).closed:
            raise QueryRejected(f"the competition is over: no submission is taken any more; {_NOTHING_RECEIVED}")
        if self.competition.is_past(datetime.now(UTC)):
            raise QueryRejected(
                f"the deadline, {self.competition.deadline}, is over: no submission is taken any more; "
                f"{_NOTHING_RECEIVED}"
            )
        if known is None:
            refuse_look_alikes(team, teams, of="team")
        if known is None and len(teams) >= self.competition.teams:
            raise QueryRejected(
                f"the competition was planned for {self.competition.teams:,} teams and has as many; expected one of "
                f"them; {_NOTHING_RECEIVED}; ask the host"
            )
        if self._left(known) < 1:
            raise QueryRejected(
                f"team {team!r} has handed in all of its {self.competition.submissions:,} submissions; expected no "
                f"more; {_NOTHING_RECEIVED}"
            )
        if part is not None and part.asked >= part.questions:
            raise QueryRejected(f"{SPENT} ({_NOTHING_RECEIVED})")
        return known

    def _left(self, team: Team | None) -> int:
        return self.competition.submissions - (0 if team is None else team.received)

    def _is_repeat(self, accounts: Accounts, team: Team, predicted: str) -> bool:
        """True if a team's latest submission is these predictions, and handing them in again would change nothing."""
        if team.latest != predicted:
            return False
        over = accounts.closed or accounts.of(Submissions).closed
        return over or team.final == predicted or self._leads(accounts, team.final)

    def _leads(self, accounts: Accounts, predicted: str) -> bool:
        """True if these predictions lead at present."""
        gate = accounts.of(Gates).by_name.get(LEADERBOARD)
        return gate is not None and gate.champion == self.scoring.question(predicted)

    def _telling(
        self, entered: Entered, team: str, predictions: Any, guess: float | None, training: Any
    ) -> Callable[[], dict[str, Any]]:
        """The call that tells the team once its submission is received: it returns attributes of a `Submission`.

        Raises:
            QueryRejected: If it cannot be told as it stands. Nothing was received or charged.
            IntegrityError: If the leader's file is missing or was altered. Nothing was received or charged.
        """
        if self.competition.feedback == NOTHING:
            return dict
        executor, predicted = self.executor, entered.digest
        if team in self._accounts().parts:
            executor = on_behalf_of(executor, team)

        def limited(ready: Any) -> TeamLimited[Any]:
            """The question, a mean or a challenge, with room left for the scores of the close."""
            return TeamLimited(replace(ready, keeping=self.competition.closing), team, predicted, self._share)

        if self.competition.feedback == LEADER:
            if (gate := self._accounts().of(Gates).by_name.get(LEADERBOARD)) is not None:
                self.champions.find(gate.champion)
            assert entered.candidate is not None
            return partial(self._tell_lead, executor, entered.candidate, limited, predictions, training)
        if guess is None and self._is_spent(team) and not self._was_scored(predicted):
            return partial(dict, refused=True)  # nothing will be told, so no guess is needed
        ready = executor.compiler.compile(self.scoring.query(predictions, training), guess, None)
        assert isinstance(ready, OneMean)
        return partial(self._tell_score, executor, limited(ready))

    def _tell_score(self, executor: QueryExecutor, ready: QueryPlan[Answer]) -> dict[str, Any]:
        answer = executor.ask(ready)
        return {"answer": None if answer.refused else without_guess(answer), "refused": answer.refused}

    def _tell_lead(
        self,
        executor: QueryExecutor,
        candidate: Candidate,
        telling: Callable[..., Any],
        predictions: Any,
        training: Any,
    ) -> dict[str, Any]:
        """Challenge the leader, once: against a later leader the same predictions are no new try."""
        if self._was_told(candidate):
            gate = self._accounts().of(Gates).by_name[LEADERBOARD]
            return {"leads": gate.champion == candidate.digest}
        gate_now = self._gate(executor, telling, predictions, training)
        verdict = gate_now.challenge(predictions, training=training)
        return {"leads": verdict.champion == candidate.digest, "refused": verdict.refused}

    def _was_told(self, candidate: Candidate) -> bool:
        """True if a verdict on these predictions is in the ledger, against whichever leader there was."""
        gate = self._accounts().of(Gates).by_name.get(LEADERBOARD)
        leaders = self.leaders()
        return gate is not None and (
            candidate.digest in leaders
            or any(
                self.executor.ledger.find(digest(challenge_of(gate, each, candidate.digest))) is not None
                for each in leaders
            )
        )

    def _is_spent(self, team: str) -> bool:
        """True if the team has caused its share of surprises, or no budget is left but for the scores of the end."""
        if surprises_left(self._accounts(), team, self._share) == 0:
            return True
        mechanism, state = self.executor.mechanism, self.executor.state_from(self.executor.ledger.head().state)
        return not mechanism.accounts.leaves_room(state, self.competition.closing, [mechanism.procedure])

    def _was_scored(self, predicted: str) -> bool:
        """True if the score of these predictions is in the ledger."""
        return self.executor.ledger.find(self.scoring.question(predicted)) is not None

    def _last_told(self, team: Team) -> float | None:
        """The team's last feedback, which is the guess of its next submission; None if it was told nothing yet."""
        latest = self._score_of(team.latest)
        if latest is not None:
            return latest
        received = (
            entry.description["predictions"]
            for entry in reversed(all_entries(self.executor.ledger))
            if entry.answer["source"] == SUBMISSION and entry.description["team"] == team.name
        )
        return next((score for each in received if (score := self._score_of(each)) is not None), None)

    def _score_of(self, predicted: str) -> float | None:
        """Told score of a submission; None if it was told nothing."""
        entry = self.executor.ledger.find(self.scoring.question(predicted))
        value = None if entry is None else entry.answer["value"]
        return None if value is None else self.scoring.facts.from_mean(value)

    def _gate(self, executor: QueryExecutor, telling: Callable[..., Any], predictions: Any, training: Any) -> Gate:
        """The gate whose champion leads; the first submission of all opens it."""
        assert isinstance(self.scoring, MeanScoring)
        rules = GateRules(name=LEADERBOARD, metric=self.scoring.of_gate)
        if not self._led():
            try:
                open_gate(self.executor, self.champions, rules, champion=predictions, training=training)
            except QueryRejected:
                if not self._led():  # else another team was first
                    raise
        return open_gate(executor, self.champions, rules, telling=telling)

    def _led(self) -> bool:
        return LEADERBOARD in self._accounts().of(Gates).by_name

    def _receive(self, team: str, predicted: str) -> bool:
        """Receive a submission, an act in the ledger; False if it was received before.

        The last one is final. Where leaders are told, one that leads at present stays final until the team hands in
        another one that leads, or hands in anything after it has lost the lead.
        """
        while True:
            accounts = self._accounts()
            final = self._is_final(accounts, team, predicted)
            public: dict[str, Any] = {"kind": SUBMISSION, "team": team, "predictions": predicted, "final": final}
            if self.competition.feedback == NOTHING and team in accounts.parts:
                public[ANALYST] = team  # nothing is told, so the submission itself is what the allotment pays for
            public["act"] = secrets.token_hex(16)
            act = EntryDraft(digest(public), {**public, "shown": f"submission of team {team!r}"})
            try:
                (entry,) = self.executor.ledger.commit([act], partial(self._receiving, act))
            except Outdated:  # another process changed the leader meanwhile
                continue
            return entry is not None

    def _is_final(self, accounts: Accounts, team: str, predicted: str) -> bool:
        known = accounts.of(Submissions).teams.get(team)
        return known is None or not self._leads(accounts, known.final) or self._leads(accounts, predicted)

    def _receiving(
        self, act: EntryDraft, data: dict[str, Any], _: list[int]
    ) -> tuple[dict[str, Any], list[Outcome | None]]:
        """The one decision whether there is room, inside the transaction that receives the submission."""
        accounts, public = Accounts.from_state(data), act.description
        team, predicted = public["team"], public["predictions"]
        known = self._room_for(accounts, team, predicted)
        if known is not None and self._is_repeat(accounts, known, predicted):
            return data, [None]
        if public["final"] != self._is_final(accounts, team, predicted):
            raise Outdated
        if broken := accounts.replay(public, {"source": SUBMISSION}, 0):
            raise QueryRejected(f"{broken}; {_NOTHING_RECEIVED}; submit again")
        return accounts.into(data), [Outcome({"value": None, "low": None, "high": None, "source": SUBMISSION}, 0)]

    def leaders(self) -> list[str]:
        """All that ever led, the first one first: SHA-256 of the questions about them."""
        gate = self._accounts().of(Gates).by_name.get(LEADERBOARD)
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
        submissions = self._accounts().of(Submissions)
        if not submissions.teams:
            return
        if not submissions.closed:
            with self.files.one_at_a_time():
                for team in self._accounts().of(Submissions).teams.values():
                    self.files.find(team.final)  # while a team whose file is lost can still hand it in again
                self._end()
        finals = self._accounts().of(Submissions).teams.values()
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
