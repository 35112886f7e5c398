"""Operations that tell what is public of a holdout: status, promise, what is left, transcript and certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from everhold.errors import QueryRejected
from everhold.operations.operation import HoldoutOperation, Param, Role

if TYPE_CHECKING:
    from everhold.answers import Transcript
    from everhold.asking.session import HoldoutSession
    from everhold.certificate import Certificate
    from everhold.display import Facts
    from everhold.mechanisms import Promise


@dataclass(frozen=True, kw_only=True)
class ReadStatus(HoldoutOperation["Facts"], verb="status", role=Role.VIEWER, route="GET ", part="status"):
    """The holdout in public facts: rows, mechanism, promise, what was asked, what is left, the ledger's head."""

    def perform(self, session: HoldoutSession) -> Facts:
        """Return the public facts of the holdout."""
        from everhold.asking.reports.status import status_of
        from everhold.ledger.acts import Declarations

        head = session.executor.ledger.head()
        if session.executor.level_of is None and Declarations.key in head.state:  # by another process
            session.know_families()
        return status_of(session, head)


@dataclass(frozen=True, kw_only=True)
class ReadRemaining(
    HoldoutOperation[dict[str, int]], verb="remaining", role=Role.VIEWER, route="GET ", part="remaining"
):
    """Remaining budget by name; for an analyst, the rest of the allotment."""

    def perform(self, session: HoldoutSession) -> dict[str, int]:
        """Return the remaining budget."""
        executor = session.asked_of()
        return executor.remaining(executor.ledger.head())


@dataclass(frozen=True, kw_only=True)
class ReadPromise(HoldoutOperation["Promise"], verb="promise", role=Role.VIEWER, route="GET ", part="promise"):
    """The promise that all answers keep together: its numbers, its sentence, and the budget at the beginning."""

    def perform(self, session: HoldoutSession) -> Promise:
        """Return the promise of all answers."""
        from everhold.asking.reports.status import promise_of

        return promise_of(session)


@dataclass(frozen=True, kw_only=True)
class ReadTranscript(HoldoutOperation["Transcript"], verb="transcript", role=Role.ANALYST, route="GET /transcript"):
    """Every query with its answer, in order: a steward sees all, an analyst what was new of theirs.

    Values are means of row values between 0 and 1, as the ledger holds them.
    """

    def perform(self, session: HoldoutSession) -> Transcript:
        """Return the transcript, read from the ledger."""
        from everhold.asking.reports.status import transcript_of
        from everhold.ledger.store import all_entries

        return transcript_of(session, list(all_entries(session.executor.ledger)))


@dataclass(frozen=True, kw_only=True)
class Certify(
    HoldoutOperation["Certificate"], verb="certificate", role=Role.VIEWER, route="GET /certificate",
    topic="certificates",
):  # fmt: skip
    """The promise, rows, reasons, and all queries and charges so far; signed with the holdout's key."""

    answers: Annotated[Any, Param("Answers of the first page by their names, by default the last ones.")] = None
    queries: Annotated[bool, Param("Whether all queries are listed, with their answers.")] = True
    timestamp: Annotated[Any, Param("Who states when it was signed.")] = None

    def perform(self, session: HoldoutSession) -> Certificate:
        """Check the whole ledger, and return the signed certificate."""
        from everhold.asking.reports.certifying import certificate_of

        return certificate_of(session, self.answers, queries=self.queries, timestamp=self.timestamp)

    def travelling(self) -> Mapping[str, Any]:
        """Each answer as ID=NAME.

        Raises:
            QueryRejected: If a time is requested, or an answer is given as a query. Nothing was signed.
        """
        if self.timestamp is not None:
            raise QueryRejected(
                "A trusted time is added where the certificate is signed. Leave timestamp out, and ask the steward to "
                "save the certificate with one."
            )
        given: Any = self.answers or ()
        named = given if isinstance(given, Mapping) else {_shown(answer): answer for answer in given}
        chosen = [f"{_choice(answer)}={label}" for label, answer in named.items()]
        return {"format": "json", "answer": chosen, **({} if self.queries else {"queries": "false"})}

    def received(self, found: Any) -> Certificate:
        """Return the signed document as a certificate."""
        from everhold.certificate import Certificate

        return Certificate(found)


_SHORTEST_HASH = 8  # digits; a shorter number is that of an entry


def answers_in(written: Sequence[str]) -> dict[str, str | int] | None:
    """Return the answers of a certificate's first page by their names, from texts ID=NAME. None without texts.

    Raises:
        ValueError: If a text has another form, or two have the same name.
    """
    found: dict[str, str | int] = {}
    for given in written:
        choice, sign, name = given.partition("=")
        if not (choice and sign and name) or name in found:
            raise ValueError(
                f"The answer {given!r:.200} cannot be used. Pass ID=NAME with a different name for each, such as "
                "12=model B. ID is the 'sequence' or the 'query' in the transcript."
            )
        found[name] = int(choice) if choice.isdecimal() and len(choice) < _SHORTEST_HASH else choice
    return found or None


def _shown(answer: Any) -> str:
    return str(getattr(answer, "shown", "")) or str(answer)


def _choice(answer: Any) -> str | int:
    """Return what identifies an answer in the transcript: its number or its hash.

    Raises:
        QueryRejected: If it is not an answer, a number or a hash.
    """
    found = getattr(answer, "query", answer)
    from everhold.arguments import brief

    if isinstance(found, bool) or not isinstance(found, (str, int)):
        raise QueryRejected(
            f"The answer is chosen as {brief(answer)}. Pass an answer that you got, or its 'sequence' or 'query' in "
            "the transcript."
        )
    return found
