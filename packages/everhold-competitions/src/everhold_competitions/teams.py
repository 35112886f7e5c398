"""Teams and their submissions as the ledger records them, and the limit of the surprises that a team may cause.

A received submission is an entry of the chain with the source `SUBMISSION` and no charge. The end of the competition is
an entry with the source `CLOSING`. So the entries determine all state in this module. It is also stored beside the
mechanism's state, under the same seal, so that a transaction need not read all entries. The predictions themselves are
stored beside the sealed rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard, TypeVar

from everhold.ledger import EntryDraft
from everhold.ledger.acts import PROMOTED
from everhold.ledger.extension import LedgerExtension
from everhold.queries.query import QueryPlan
from everhold.strict_json import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    from everhold.answers import QuotedPrice
    from everhold.ledger import Entry, Outcome
    from everhold.ledger.acts import Accounts
    from everhold.mechanisms import State
    from everhold.queries.query import ExecutionResult, Pricing
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows


TOLD_OF = "told_of"
"""Field of the description of an answer that a team is told: the team, and the predictions that it is about."""

SUBMISSION = "submission"
"""Source of the "answer" of an entry that is no query but receives a submission."""

CHOICE = "final_choice"
"""Source of the "answer" of an entry by which a team makes an earlier submission its final one."""

CLOSING = "closing"
"""Source of the "answer" of an entry after which no submission is received."""

DISQUALIFICATION = "disqualification"
"""Source of the "answer" of an entry by which the host takes a team off the board."""

DEADLINE = "deadline"
"""Source of the "answer" of an entry by which the host moves the deadline."""

LEADERBOARD = "leaderboard"
"""Name of the gate whose champion leads. One that was opened anew has a number after it."""

LONGEST_TEAM, LONGEST_REASON = 100, 1_000
_MOST = 10**15
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Team:
    """State of one team in a competition. All of it is public except the predictions.

    Attributes:
        final: SHA-256 of the predictions that count for the team at the end.
        latest: SHA-256 of the predictions that were received last.
        charged: Number of surprises that feedback to the team has cost.
        chosen: Number of times that the team chose an earlier submission.
        public: SHA-256 of the latest predictions for the public rows. Empty without public rows.
        out: Reason of the team's disqualification. Empty for a team on the board.
    """

    name: str
    final: str
    latest: str
    received: int
    charged: int = 0
    chosen: int = 0
    public: str = ""
    out: str = ""


_FIELDS = tuple(each.name for each in fields(Team))


@dataclass(slots=True)
class Submissions(LedgerExtension):
    """The state of all teams of a competition at one moment.

    Attributes:
        teams: Teams by name, in the order of their first submissions.
        closed: Whether no more submissions are received.
        deadline: The deadline after the host moved it. Empty if it was not moved.
        moved: Number of times that the deadline was moved.
    """

    name: ClassVar[str] = "competition"
    key: ClassVar[str] = "submissions"
    acts: ClassVar[frozenset[str]] = frozenset({SUBMISSION, CHOICE, CLOSING, DISQUALIFICATION, DEADLINE})
    accessor: ClassVar[str] = "everhold_competitions.submissions:HoldoutCompetition"

    teams: dict[str, Team] = field(default_factory=dict)
    closed: bool = False
    deadline: str = ""
    moved: int = 0

    @classmethod
    def read(cls, stored: Any) -> Self:
        """Build the state from stored JSON data, the inverse of `stored`.

        Raises:
            ValueError: If `stored` never returns such data. It may be a TypeError or KeyError as well.
        """
        lines = [Team(*line) for line in stored["teams"]]
        if not all(map(_is_sound, lines)) or type(stored["closed"]) is not bool:
            raise ValueError("the record of a team is malformed")
        deadline, moved = stored.get("deadline", ["", 0])
        if type(deadline) is not str or type(moved) is not int or (moved > 0) != bool(deadline):
            raise ValueError("the record of the deadline is malformed")
        return cls({line.name: line for line in lines}, stored["closed"], deadline, moved)

    def stored(self) -> dict[str, Any] | None:
        """Return the state as plain JSON data, or None if no submission was received."""
        if not self.entries:
            return None
        return {
            "teams": [[*map(team.__getattribute__, _FIELDS)] for team in self.teams.values()],
            "closed": self.closed,
            **({"deadline": [self.deadline, self.moved]} if self.moved else {}),
        }

    @property
    def entries(self) -> int:
        """Number of ledger entries of the competition that are no answers."""
        acts = sum(team.received + team.chosen + bool(team.out) for team in self.teams.values())
        return acts + self.moved + self.closed

    @property
    def finals(self) -> list[str]:
        """SHA-256 of the final predictions of all teams on the board, each once, in order."""
        return list(dict.fromkeys(team.final for team in self.teams.values() if not team.out))

    def receive(self, team: str, predictions: str, *, final: bool, public: str = "") -> None:
        """Record a submission of a team, which is final if it is the team's first or `final` is True.

        If `final` is true, the submission replaces the team's final one.

        Raises:
            ValueError: If submissions have ended.
        """
        if self.closed:
            raise ValueError("a submission was received after the end")
        before = self.teams.get(team, Team(team, predictions, predictions, 0))
        final = final or not before.received
        self.teams[team] = replace(
            before, final=predictions if final else before.final, latest=predictions, received=before.received + 1,
            public=public,
        )  # fmt: skip

    def choose(self, team: object, predictions: object) -> None:
        """Record that a team made an earlier submission its final one.

        Raises:
            ValueError: If there is no such team, or no more submissions are received.
        """
        before = self.teams.get(team) if _is_name(team) else None
        if before is None or not _is_digest(predictions) or self.closed:
            raise ValueError("a team chose a submission that was never received, or chose it after the end")
        self.teams[before.name] = replace(before, final=predictions, chosen=before.chosen + 1)

    def count_answer(self, told_of: object, *, charged: int, promoted: bool) -> None:
        """Record an answer about a team's submission: its cost, and a change of leader.

        Args:
            told_of: The field `TOLD_OF` of the answer: the team, and the SHA-256 of the predictions.
            charged: Surprises that the answer cost.
            promoted: Whether the predictions take the lead. If so, they become the team's final ones.

        Raises:
            ValueError: If no such submission was received.
        """
        fields = told_of if isinstance(told_of, dict) else {}
        name, predictions = fields.get("team"), fields.get("predictions")
        team = self.teams.get(name) if _is_name(name) else None
        if team is None or not _is_digest(predictions):
            raise ValueError("an answer is about a submission without a receipt before it")
        self.teams[team.name] = replace(
            team, charged=team.charged + charged, final=predictions if promoted else team.final
        )

    def settle(self, description: Mapping[str, Any], source: object, charged: int) -> None:
        """Count an answer for the team to which it belongs. Entries that belong to no team are ignored.

        Raises:
            ValueError: If no such submission was received.
        """
        if self.teams and TOLD_OF in description:
            self.count_answer(description[TOLD_OF], charged=charged, promoted=source == PROMOTED)

    def replay(self, description: Mapping[str, Any], source: object) -> None:
        """Apply a ledger entry of the competition that is not an answer, such as a submission or a deadline.

        Raises:
            ValueError: If everhold never writes such an entry.
        """
        if source == CLOSING:
            if self.closed:
                raise ValueError("the submissions were closed twice")
            self.closed = True
            return
        if source in (DISQUALIFICATION, DEADLINE):
            team, reason, deadline = (description.get(name) for name in ("team", "reason", "deadline"))
            if self.closed:
                raise ValueError("the host changed the competition after its end")
            if source == DEADLINE:
                if not (isinstance(deadline, str) and deadline):
                    raise ValueError("the entry of a deadline is malformed")
                self.deadline, self.moved = deadline, self.moved + 1
                return
            known = self.teams.get(team) if _is_name(team) else None
            if known is None or known.out or not is_reason(reason):
                raise ValueError("a team was disqualified without a reason, or was not on the board")
            self.teams[known.name] = replace(known, out=reason)
            return
        team, predictions, final = (description.get(name) for name in ("team", "predictions", "final"))
        if source == CHOICE:
            self.choose(team, predictions)
            return
        public = description.get("public", "")
        if not (_is_name(team) and _is_digest(predictions) and type(final) is bool and _is_public(public)):
            raise ValueError("the entry of a submission is malformed")
        self.receive(team, predictions, final=final, public=public)


def received(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return the submissions among ledger entries in order: sequence, received_at, team, number and predictions.

    The number counts the submissions of this team.
    """
    numbers, found = Counter[str](), list[dict[str, Any]]()
    for entry in entries:
        if entry.answer["source"] == SUBMISSION:
            team, predictions = entry.description["team"], entry.description["predictions"]
            numbers[team] += 1
            found.append({
                "sequence": entry.sequence, "received_at": entry.asked_at, "team": team, "number": numbers[team],
                "predictions": predictions,
            })  # fmt: skip
    return found


def is_reason(value: object) -> TypeGuard[str]:
    """Return whether a text can be the reason of a disqualification."""
    return isinstance(value, str) and len(value.strip()) >= 1 and len(value) <= LONGEST_REASON and value.isprintable()


def _is_sound(team: Team) -> bool:
    digests = _is_digest(team.final) and _is_digest(team.latest)
    whole = all(type(count) is int for count in (team.received, team.charged, team.chosen))
    counts = whole and 1 <= team.received <= _MOST and 0 <= team.charged <= _MOST and 0 <= team.chosen <= _MOST
    return (
        _is_name(team.name)
        and digests
        and counts
        and (team.out == "" or is_reason(team.out))
        and _is_public(team.public)
    )


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 1 <= len(value) <= LONGEST_TEAM and value.isprintable()


def _is_public(value: object) -> TypeGuard[str]:
    return value == "" or _is_digest(value)


def _is_digest(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) == 64 and _HEX.issuperset(value)


Result = TypeVar("Result", covariant=True)


def surprises_left(accounts: Accounts, team: str, share: int | None) -> int | None:
    """Return the number of further surprises that a team may cause, or None without a limit.

    Args:
        accounts: Accounts that the ledger keeps.
        team: Name of the team.
        share: Largest number of surprises of a team without an allotment. None if there is no limit.
    """
    part, known = accounts.parts.get(team), accounts.of(Submissions).teams.get(team)
    if part is not None:  # the steward's own limit replaces the share
        return part.charges - part.charged
    return None if share is None else max(share - (0 if known is None else known.charged), 0)


@dataclass(frozen=True)
class TeamLimited(QueryPlan[Result]):
    """Plan of a query about a submission, which is refused if its team has used up its surprises.

    The share is checked against public counts, before the sealed rows are evaluated and again inside the transaction.
    It limits spending only: all teams share one promise, so no interval depends on the share.

    Attributes:
        team: The team's name.
        predictions: SHA-256 of the submitted predictions.
        share: Largest number of surprises of the team. None if there is no limit.
        apart: Whether the same predictions of two teams are two queries. This is so if each team is answered with its
            own best score.
    """

    ready: QueryPlan[Result] = field(repr=False)
    team: str
    predictions: str
    share: int | None
    apart: bool = False

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """The drafts of ledger entries for the query, each with its team and submission."""
        told_of = {"team": self.team, "predictions": self.predictions}
        return [
            EntryDraft(
                digest({"team": self.team, "query": line.fingerprint}) if self.apart else line.fingerprint,
                {**line.description, TOLD_OF: told_of},
            )
            for line in self.ready.asked
        ]

    @property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """The pricing of the query about the submission."""
        return self.ready.pricing

    def capacity(self, state: State, accounts: Accounts, count: int) -> int:
        """Return how many of the query's entries can be answered, 0 once the team's surprises are used up."""
        left = surprises_left(accounts, self.team, self.share)
        return min(self.ready.capacity(state, accounts, count), count if left is None else left)

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> Any:
        """Return the evaluations of the query on the sealed rows. They are secret."""
        return self.ready.evaluate(sealed, places)

    def answer(self, state: State, seen: Any, rows: list[int], noise: Noise) -> tuple[State, list[Outcome]]:
        """Return the mechanism's answers to the query, and its new state."""
        return self.ready.answer(state, seen, rows, noise)

    def present(self, result: ExecutionResult) -> Result:
        """Return the result of the query from the executed entries."""
        return self.ready.present(result)

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the price of the query."""
        return self.ready.quote(state, stored)
