"""The competition of a holdout as its users see it: submit, check, choose, rank and close.

The predictions of a submission are written to a private file first, under their SHA-256. Then the ledger receives the
submission, in the one transaction that decides whether there is room for it. Only then is the team told anything, by a
query like any other: a challenge of the leader, an ordinary answer, or nothing, in which case the sealed labels are not
read. At the end no submission is received any more. Then each team's final submission, and each pair of them, is asked
about silently, and the study is unsealed. So every place of the final leaderboard rests on a paired difference that the
promise covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from everhold.arguments import as_whole, brief
from everhold.asking.accessor import HoldoutAccessor
from everhold.asking.budget import checked_name
from everhold.certificate.words import public_in_words
from everhold.errors import NotFound, QueryRejected
from everhold.gates.rows import model_store_of
from everhold.ledger.store import all_entries
from everhold_competitions.competition import Competition, PublicTerms, checked_deadline
from everhold_competitions.public_scores import PublicScores
from everhold_competitions.scoring import check_metric
from everhold_competitions.session import CompetitionSession, SubmissionStore
from everhold_competitions.submission_result import FormatReport, Submission, TeamList, is_score
from everhold_competitions.teams import LONGEST_REASON, Submissions, is_reason, received, surprises_left

if TYPE_CHECKING:
    from everhold.ledger import Entry, Head
    from everhold.ledger.acts import EntryCounts
    from everhold.values.base import Schema
    from everhold_competitions.leaderboard import Leaderboard


_OF = "of"  # of public rows: the holdout with those of the final board
_MANY = 10  # final submissions, whose pairs may take seconds
_GUESSES = frozenset({"value", "estimate", "guess"})


class HoldoutCompetition(HoldoutAccessor):
    """The competition that a holdout was created for: `holdout.competition`."""

    settings = Competition

    def __repr__(self) -> str:
        return f"HoldoutCompetition({self._executor.record.name!r})"

    def submit(
        self, predictions: Any, *, team: str, guess: float | None = None, training: Any = None
    ) -> Submission:  # fmt: skip
        """Submit a team's predictions, and return what the host chose to tell.

        The predictions are checked before anything is charged.

        A team's last submission is final. With feedback about leads, a submission that led stays final until another
        one of the team leads. If the same predictions are submitted twice in a row, they are received once.

        Args:
            predictions: Predictions in the form that the metric takes: an array in the order of the rows, or a table
                with row ids.
            team: Name of the team that submits. If an allotment has this name, the allotment pays.
            guess: With the feedback ``"score"``: the team's own guess, such as a score by cross-validation. A team's
                first submission needs a guess or predictions for training rows. Later the default is the last score
                that the team was told.
            training: Predictions for the training rows, if the holdout has training rows. They make the guess.

        Returns:
            The feedback that the host chose. It is committed to the ledger before it is returned.

        Raises:
            QueryRejected: If the submission or the team's name is refused. Nothing was received or charged.
        """
        return self._session().submit(predictions, team=team, guess=guess, training=training)

    def check(self, predictions: Any, *, team: str) -> FormatReport:
        """Check whether predictions would be received, and return a report. No label is read.

        Raises:
            QueryRejected: If the predictions would not be received.
        """
        return self._session().check(predictions, team=team)

    def submissions(self) -> list[dict[str, Any]]:
        """Return one dictionary for each submission, in the order in which they were received.

        It is free of charge, and no label is read. Each dictionary has the ledger entry, the time, the team, the number
        among the team's own submissions, the SHA-256 of the predictions, and whether it is the team's final one.

        Raises:
            QueryRejected: If this holdout takes no submissions.
        """
        executor = self._session().executor
        found = [{**row, "final": False} for row in received(all_entries(executor.ledger))]
        latest = {(row["team"], row["predictions"]): row for row in found}
        for team in executor.ledger.head().accounts.of(Submissions).teams.values():
            latest[team.name, team.final]["final"] = True
        return found

    def choose(self, *, team: str, number: int) -> None:
        """Make an earlier submission the final one of its team, until the team submits again.

        It is free of charge, and does not count as a submission.

        Args:
            team: The team.
            number: Number of the submission, counted from 1, as `submissions` lists them.

        Raises:
            QueryRejected: If there is no such submission, or the competition is over. Nothing was changed.
            IntegrityError: If its file is missing or was altered. Nothing was changed.
        """
        mine = [row for row in self.submissions() if row["team"] == checked_name(team, of="team")]
        found = next((row for row in mine if row["number"] == as_whole(number)), None)
        if found is None:
            raise QueryRejected(
                f"Team {team!r} has no submission {brief(number)}. Pass a number from 1 to "
                f"{len(mine)}, as listed by submissions()."
                if mine else f"Team {brief(team)} has no submission yet. Submit first."
            )  # fmt: skip
        self._session().choose(team, found["predictions"])

    def teams(self) -> TeamList:
        """Return the teams with their used and remaining submissions, in the order of first submission. Free.

        Raises:
            QueryRejected: If this holdout takes no submissions.
        """
        session = self._session()
        accounts, latest = session.accounts(), {row["team"]: row["received_at"] for row in self.submissions()}
        return TeamList([
            {"team": name, "submissions": team.received, "left": session.left(team), "charged": team.charged,
             "surprises_left": surprises_left(accounts, name, session.share), "latest": latest[name],
             "disqualified": team.out or None}
            for name, team in accounts.of(Submissions).teams.items()
        ])  # fmt: skip

    def disqualify(self, *, team: str, reason: str) -> TeamList:
        """Take a team off the board, with a reason that the ledger keeps and the board shows. It cannot be undone.

        With feedback about leads, the last leader of another team becomes the leader again. Earlier feedback to teams
        stays in the ledger.

        Args:
            team: Name of a team that submitted.
            reason: One line, which everybody may read.

        Returns:
            All teams.

        Raises:
            QueryRejected: If there is no such team, the reason is no line of text, or the competition is over. Nothing
                was changed.
        """
        self._executor.check_steward("disqualify a team")
        if not is_reason(reason):
            raise QueryRejected(
                f"The reason is {brief(reason)}. Give one line of at most {LONGEST_REASON:,} characters."
            )
        self._session().disqualify(checked_name(team, of="team"), reason)
        return self.teams()

    def move_deadline(self, deadline: str) -> TeamList:
        """Move the deadline to another time from now on. The ledger keeps it.

        Args:
            deadline: Time in ISO 8601 with its offset from UTC.

        Returns:
            All teams.

        Raises:
            QueryRejected: If the new deadline is in the past or has no offset, or the competition is over. Nothing was
                changed.
        """
        self._executor.check_steward("move the deadline")
        try:
            moment = str(checked_deadline(deadline))
        except ValueError as fault:
            raise QueryRejected(str(fault)) from None
        self._session().move_deadline(moment)
        return self.teams()

    @property
    def terms(self) -> Competition:
        """The current terms of the competition, with the deadline after all changes."""
        session = self._session()
        return session.terms(session.accounts().of(Submissions))

    @property
    def is_ended(self) -> bool:
        """Whether the competition was closed, after which deadlines and disqualifications are refused."""
        accounts = self._session().accounts()
        return accounts.closed or accounts.of(Submissions).closed

    @property
    def is_over(self) -> bool:
        """Whether submissions are refused, because the competition was closed or the deadline has passed."""
        session = self._session()
        return session.is_over(session.accounts())

    def leaderboard(self) -> Leaderboard:
        """Return the current leaderboard. It is free.

        Before the end it holds what submissions were told; after `Holdout.unseal` it is final, and every place rests on
        paired differences of final submissions.

        Raises:
            QueryRejected: If this holdout takes no submissions.
        """
        from everhold_competitions.ranking import leaderboard

        return leaderboard(self._session())

    def close(self) -> None:
        """Stop taking submissions. `Holdout.unseal` also closes the competition, and then reveals the scores.

        Final submissions and pairs of them are registered silently, so nothing is told.

        Raises:
            QueryRejected: If this holdout takes no submissions, or an analyst asks for it. Nothing was changed.
            IntegrityError: If a file of predictions is missing or was altered. Nothing was told.
        """
        self._executor.check_steward("close a competition")
        self._session().close()

    @classmethod
    def settings_from(cls, flat: dict[str, Any]) -> tuple[Competition | None, dict[str, Any]]:
        """Split flat settings into the terms of a competition, None without feedback, and all other settings."""
        names = {each.name for each in fields(Competition)}
        given = {name: flat[name] for name in names if flat.get(name) is not None}
        left = {name: value for name, value in flat.items() if name not in names}
        return (Competition(**given) if "feedback" in given else None), left

    @classmethod
    def check_settings(cls, settings: Competition | PublicTerms, schema: Schema) -> None:
        """Check that submissions can be ranked by the metric.

        Raises:
            HoldoutRejected: If submissions cannot be ranked by the metric. Nothing was created.
        """
        terms = settings.terms if isinstance(settings, PublicTerms) else settings
        check_metric(terms.metric, terms.score, schema)

    def check_query(self) -> None:
        """Raise QueryRejected if the holdout is a competition, which answers only submissions.

        Raises:
            QueryRejected: Always, because the holdout is a competition. Nothing was charged.
        """
        self._check_final()
        if self._competition is not None:
            raise QueryRejected(
                f"This holdout takes submissions and no other queries (feedback={self._competition.feedback!r}). "
                "Call holdout.competition.submit(predictions, team=...), or run 'everhold submit'."
            )

    def status_facts(self, head: Head) -> dict[str, Any]:
        """Return the terms of the competition for the status of the holdout, empty if it has none.

        For metrics that are shares they contain the half-width of a final score at the worst planned use, by the score.
        With public rows they contain the facts about these.
        """
        if (competition := self._competition) is None:
            return {}
        facts = self.terms.to_dict()
        if competition.metric in ("accuracy", "error"):
            mechanism = self._executor.mechanism
            facts["final_width"] = {f"{at:g}": competition.final_radius(mechanism, at) for at in (0.5, 0.9)}
        if (public := self._session().public) is not None:
            facts |= {"public_rows": public.facts["rows"], "told": public_in_words(public.facts)}
        return {"competition": facts}

    def certificate_facts(self, head: Head, counts: EntryCounts) -> dict[str, Any]:
        """Return the competition's facts for a certificate, with the final leaderboard after the end."""
        from everhold_competitions.ranking import certified_competition

        return {} if self._competition is None else {"competition": certified_competition(self._session())}

    def as_listed(self, query: dict[str, Any]) -> dict[str, Any]:
        """Return a query with the metric's common name, and positive numbers of a loss, as on boards."""
        score = None if self._competition is None else self._competition.score
        if self._competition is None or score is None or not score[0].startswith("neg_"):
            return query
        asked = query["asked"].replace(score[0], self._competition.on_boards(None)["name"])

        def turned(told: Mapping[str, Any]) -> dict[str, Any]:
            numbers = {"value": told["value"], "low": told["high"], "high": told["low"]}
            return {name: 0.0 - end if isinstance(end, float) else end for name, end in numbers.items()}

        told = {"unsealed": turned(query["unsealed"])} if "unsealed" in query else {}
        return {**query, **turned(query), **told, "asked": asked}

    def model_names(self, entries: Sequence[Entry]) -> dict[str, str]:
        """Return names of submissions, by the SHA-256 of their predictions."""
        first = reversed(received(entries))
        return {row["predictions"]: f"submission {row['number']:,} of {row['team']}" for row in first}

    def hidden(self, answer: Mapping[str, Any]) -> frozenset[str]:
        """Return the fields that a transcript leaves out, which is the value of a guess in a competition."""
        return _GUESSES if self._competition is not None and not is_score(answer["source"]) else frozenset()

    def last_step_lasts(self) -> bool:
        """Return whether many pairs of teams are still to be compared, so that `before_unsealing` may take minutes."""
        accounts = self._executor.ledger.head().accounts
        finals = {team.final for team in accounts.of(Submissions).teams.values()}
        return not accounts.closed and len(finals) >= _MANY

    def before_unsealing(self) -> None:
        """Close the competition of the holdout, if it has one, before its unsealing."""
        if self._competition is not None:
            self._session().close()

    @property
    def _competition(self) -> Competition | None:
        recorded = self._recorded
        return None if recorded is None or _OF in recorded else Competition(**recorded)

    def _check_final(self) -> None:
        if self._recorded is not None and (of := self._recorded.get(_OF)) is not None:
            raise QueryRejected(
                f"This holdout has the public rows of {of!r}, and only submissions to {of!r} are scored on them. "
                f"Open {of!r}."
            )

    def _session(self) -> CompetitionSession:
        self._check_final()
        executor, competition = self._executor, self._competition
        if competition is None:
            raise NotFound(
                "This holdout takes no submissions. Open one that was created with competition=eh.Competition(...)."
            )
        files = SubmissionStore.of(self._folder, holdout=executor.record.id, seal_key=executor.key.seal_key)
        models = model_store_of(executor, self._folder)
        executor = replace(executor, analyst=None)
        public = None if competition.public is None else PublicScores.of(executor, self._folder, competition)
        return CompetitionSession(executor, competition, files, models, public)
