"""The ledger of one holdout: spending, state and the exact answer are committed together before they are returned."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, insert, literal_column, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from everhold.errors import EverholdError, HoldoutNotFound, IntegrityError, Unavailable
from everhold.ledger.chain import HASHED, canonical, entry_hash, entry_seal, seal_of
from everhold.ledger.database import database_errors, entries, head, questions_in_order
from everhold.ledger.entry_index import EntryIndex
from everhold.ledger.head_file import RECOVER, Reached
from everhold.ledger.records import Committed, Entry, EntryDraft, Head, Outcome
from everhold.ledger.sealed_values import SEALED_VALUE, opened, sealed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from sqlalchemy import Connection
    from sqlalchemy.sql.compiler import SQLCompiler

    from everhold.ledger.database import LedgerDatabase
    from everhold.ledger.head_file import HeadFile
    from everhold.ledger.sealed_values import Numbers

    Step: TypeAlias = Callable[[dict[str, Any], list[int]], tuple[dict[str, Any], Sequence[Outcome | None]]]

__all__ = ["Ledger", "Transaction", "find_head"]

_PAGE_SIZE = 1_000
_FINGERPRINT = re.compile("[0-9a-f]{64}")
_read = json.JSONDecoder().raw_decode  # for what carries a seal, and so is the text that was written


class _Listed(GenericFunction[str]):
    """The elements of a JSON array: one statement, however many there are."""

    name = "json_each"
    inherit_cache = True


@compiles(_Listed, "postgresql")
def _listed_by_postgres(element: _Listed, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clause_expr, **options)} AS JSON))"


_OF_HOLDOUT = entries.c.holdout_id == bindparam("holdout")
_ENTRIES = select(entries.c.holdout_id, *(entries.c[name] for name in (*HASHED, "entry_hash", "entry_seal")))
_PAGE = (
    _ENTRIES.where(_OF_HOLDOUT, entries.c.sequence > bindparam("after"))
    .order_by(entries.c.sequence)
    .limit(bindparam("size"))
)
_WANTED = _Listed(bindparam("questions")).table_valued("value")
_ANSWERED = _ENTRIES.where(_OF_HOLDOUT, entries.c.question.in_(select(_WANTED.c.value)))
_CHARGED = (
    _ENTRIES.where(_OF_HOLDOUT, entries.c.charged > literal_column("0"))  # as the index of these entries says it
    .order_by(entries.c.sequence.desc())
    .limit(bindparam("size"))
)
_BEGINNING = _ENTRIES.where(  # whatever follows is a hexadecimal digit
    _OF_HOLDOUT, entries.c.question >= bindparam("first"), entries.c.question < bindparam("end")
)
_HEAD = select(head).where(head.c.holdout_id == bindparam("holdout"))
_INSERT = insert(entries)
_MOVE_HEAD = update(head).where(
    head.c.holdout_id == bindparam("holdout"),
    head.c.sequence == bindparam("from_sequence"),
    head.c.entry_hash == bindparam("from_hash"),
)


@dataclass(slots=True)
class Transaction:
    """Result of a transaction.

    Attributes:
        state: The mechanism's state: before, and once something is recorded, after (secret).
        new: Positions of the questions that are to be answered.
        taken: What was recorded, by position.
        committed: One for each question in the order asked, None where it was left out; there when the block was left.
        earlier: Reads all entries up to here, inside the transaction.
    """

    state: dict[str, Any] = field(repr=False)
    new: list[int]
    earlier: Callable[[], list[Entry]] = field(repr=False)
    taken: dict[int, Outcome] = field(default_factory=dict)
    committed: list[Committed | None] = field(default_factory=list)

    def record(self, state: dict[str, Any], outcomes: Sequence[Outcome | None]) -> None:
        """Put answers on the page.

        Args:
            state: The state after them.
            outcomes: One for each new question; None for one that is left out: nothing is recorded about it.

        Raises:
            ValueError: If an outcome is malformed; then nothing is recorded at all.
        """
        if len(outcomes) != len(self.new):
            raise ValueError(
                f"the step gave {len(outcomes)} outcomes; expected {len(self.new)}, one for each new question"
            )
        for index, outcome in zip(self.new, outcomes, strict=True):
            if outcome is not None:
                self.taken[index] = outcome
                if type(outcome.charged) is not int or outcome.charged < 0:
                    raise ValueError("the step charged something else than an integer >= 0; nothing was recorded")
        self.state = state


@dataclass(frozen=True)
class Ledger:
    """The ledger of one holdout under the steward's key; made by `LedgerStore.of`.

    Attributes:
        database: The open database.
        holdout: Identifier of the holdout.
        seal_key: The steward's key; what does not carry its seal is not believed.
        head_file: The newest head that is known. Nothing older is read and nothing is built on it; where the database
            is newer, as after a crash, the file follows before anything is returned.
    """

    database: LedgerDatabase
    holdout: str
    seal_key: bytes = field(repr=False)
    head_file: HeadFile | None = None

    def head(self) -> Head:
        """The ledger's head.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head was altered or set back.
        """
        return self.look_up([])[0]

    def look_up(self, questions: Sequence[str]) -> tuple[Head, Collection[str]]:
        """The ledger's head, and the entries of these queries by fingerprint, at one moment.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head was altered or set back, or an entry was altered.
        """
        with self.database.transaction() as connection, database_errors():
            found, known = self._head(connection)
            answered = self._answered(connection, questions)
        self._follow(found, known)
        return found, answered.keys()

    def repeated(self, questions: Sequence[EntryDraft]) -> tuple[Head, list[Committed]] | None:
        """The stored answers to questions that were all asked before, from one plain read; None if one may be new.

        Nothing is locked. Nothing is read, either, if a question is not among those that this process knows.

        Args:
            questions: In the order asked.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head was altered or set back, an entry was altered, or one is missing.
        """
        fingerprints = [question.fingerprint for question in questions]
        remembered = self.database.indexes.get(self.holdout)
        if remembered is not None and not all(map(remembered.__contains__, fingerprints)):
            return None
        with self.database.transaction() as connection, database_errors():
            found, reached = self._head(connection)
            self._index(connection, found, remembered)
            answered = self._answered(connection, fingerprints)
        self._follow(found, reached)
        if not all(map(answered.__contains__, fingerprints)):  # new, or lost: the writing transaction tells which
            return None
        return found, [self._committed(found, fingerprint, answered[fingerprint], None) for fingerprint in fingerprints]

    def remembers(self, question: str) -> bool:
        """True if this process knows, without reading, that the question was asked before, by its fingerprint."""
        index = self.database.indexes.get(self.holdout)
        return index is not None and question in index

    def find(self, question: str) -> Entry | None:
        """The entry that answered the question with that fingerprint, or None.

        Raises:
            IntegrityError: If the entry was altered.
        """
        with self.database.transaction() as connection, database_errors():
            row = connection.execute(_ANSWERED, {"holdout": self.holdout, "questions": json.dumps([question])}).first()
        return None if row is None else self._entry(row)

    def beginning_with(self, text: str) -> list[Entry]:
        """The entries of all questions whose fingerprint begins so.

        Raises:
            IntegrityError: If one was altered.
        """
        with self.database.transaction() as connection, database_errors():
            rows = connection.execute(_BEGINNING, {"holdout": self.holdout, "first": text, "end": f"{text}g"}).all()
        return list(map(self._entry, rows))

    def entries(self, start: int = 0, limit: int | None = None) -> Iterator[Entry]:
        """The entries in order, read page by page; nothing stays locked in between.

        Args:
            start: How many entries to leave out at the beginning.
            limit: At most so many; None for all.

        Raises:
            IntegrityError: If an entry was altered.
        """
        end = None if limit is None else start + limit
        while end is None or start < end:
            size = _PAGE_SIZE if end is None else min(end - start, _PAGE_SIZE)
            with self.database.transaction() as connection, database_errors():
                rows = connection.execute(_PAGE, {"holdout": self.holdout, "after": start, "size": size}).all()
            yield from map(self._entry, rows)
            if len(rows) < size:
                return
            start += size

    def charged(self, limit: int) -> list[Entry]:
        """The latest entries that were charged, at most so many, the newest first.

        Raises:
            IntegrityError: If one was altered.
        """
        with self.database.transaction() as connection, database_errors():
            rows = connection.execute(_CHARGED, {"holdout": self.holdout, "size": limit}).all()
        return list(map(self._entry, rows))

    @contextmanager
    def transaction(self, questions: Sequence[EntryDraft]) -> Iterator[Transaction]:
        """One durable transaction in which questions are answered: writers take turns until it ends.

        What is put on the page is committed, and the head file moved on, before the block is left. If the block raises,
        nothing is recorded and its exception comes out unchanged.

        Args:
            questions: In the order asked; repeats, also within the batch, are free.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head or a stored answer does not carry this key's seal, an entry is missing, or the
                database was set back; then nothing is answered, stored answers included.
            ValueError: If a fingerprint, a description or an outcome is malformed; nothing is recorded.
        """
        fingerprints = []
        for question in questions:
            fingerprints.append(question.fingerprint)
            if not _FINGERPRINT.fullmatch(question.fingerprint):
                raise ValueError("a question's fingerprint is not a SHA-256; expected 64 lower-case hexadecimal digits")
        with self.database.transaction(writing=True, turn=self.holdout) as connection:
            with database_errors():
                after, reached = self._head(connection)
                asked = self._index(connection, after, self.database.indexes.get(self.holdout))
                known = self._answered(connection, fingerprints)
            if any((fingerprint in asked) != (fingerprint in known) for fingerprint in fingerprints):
                raise _not_what_was_written(after)
            fresh: dict[str, int] = {}  # the position where a new question is asked first
            for index, fingerprint in enumerate(fingerprints):
                if fingerprint not in known:
                    fresh.setdefault(fingerprint, index)
            transaction = Transaction(after.state, [*fresh.values()], partial(self._all_entries, connection, after))
            yield transaction
            if transaction.taken:
                with database_errors():
                    after, added = self._append(
                        connection, after, asked, questions, transaction.taken, canonical(transaction.state)
                    )
                known |= added
        if transaction.taken and self.database.indexes.get(self.holdout) is asked:  # or another thread knows more
            self.database.indexes[self.holdout] = asked.up_to(after, "".join(added)) or asked
        self._follow(after, reached)
        transaction.state = after.state
        for index, fingerprint in enumerate(fingerprints):
            entry, new = known.get(fingerprint), transaction.taken.get(index)
            committed = None if entry is None else self._committed(after, fingerprint, entry, new)
            transaction.committed.append(committed)

    def _committed(self, at: Head, question: str, entry: tuple[int, str], new: Outcome | None) -> Committed:
        """A stored answer; `new` is its outcome if it was appended just now."""
        answer, charged = json.loads(entry[1]), 0 if new is None else new.charged
        told = self.sealed_of(question, answer) if at.accounts.unsealings else None
        return Committed(entry[0], answer, charged, new is None, at.state, told)

    def _follow(self, head: Head, known: Reached | None) -> None:
        """Move the head file on to a committed head, before anything is returned that rests on it."""
        if self.head_file is not None and known is not None and known < (reached := Reached.of(head)):
            self.head_file.advance(reached)

    def sealed_of(self, question: str, answer: Mapping[str, Any]) -> Numbers | None:
        """Sealed numbers of an answer for unsealing; None where nothing of the kind is kept. Secret before.

        Args:
            question: The fingerprint.
            answer: As the entry holds it.

        Raises:
            IntegrityError: If its envelope was altered.
        """
        envelope = answer.get(SEALED_VALUE)
        if envelope is None:
            return None
        return opened(envelope, key=self.seal_key, holdout=self.holdout, question=question)

    def commit(self, questions: Sequence[EntryDraft], step: Step) -> list[Committed | None]:
        """Answer questions in one transaction, as `writing` does, by a function.

        Args:
            questions: In the order asked.
            step: ``step(state, indices)`` gets the current state and the positions of the new questions, and returns
                the new state and one outcome for each, None for a question that is left out: nothing is recorded
                about it, and it can be asked again. Called once, or not at all if every question is a repeat.

        Returns:
            One `Committed` for each question, in the order asked; None where it was left out.
        """
        with self.transaction(questions) as transaction:
            if transaction.new:
                state, outcomes = step(transaction.state, transaction.new)
                transaction.record(state, outcomes)
        return transaction.committed

    def _head(self, connection: Connection) -> tuple[Head, Reached | None]:
        """The head and the newest one that is known, for a transaction that has read nothing before, or may write.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head does not carry this key's seal, is older, or diverged.
        """
        known = None
        if self.head_file is not None and (known := self.head_file.find()) is None:  # first: it is never ahead
            raise IntegrityError(
                f"{self.head_file.path.name}, which says how far the ledger had come, is missing or was altered; "
                f"expected it beside the steward's key; nothing was answered or charged; {RECOVER}"
            )
        fields = find_head(connection, self.holdout)
        del fields["holdout_id"]
        seal = str(fields.pop("head_seal"))
        if not hmac.compare_digest(seal.encode(), seal_of(self.seal_key, holdout=self.holdout, **fields).encode()):
            raise IntegrityError(
                "the ledger's head does not carry the seal of this key; expected the steward's key and an unaltered "
                "ledger; nothing was charged; check the key, then verify the ledger"
            )
        found = Head(**{**fields, "state": json.loads(fields["state"])})  # it is what was written
        if known is not None:
            known.check(Reached.of(found), lambda: self._hash_of_entry(connection, known.sequence))
        return found, known

    def _hash_of_entry(self, connection: Connection, sequence: int) -> str | None:
        """The hash of an entry, or of the holdout for 0, as the entry after it says under its own seal."""
        row = connection.execute(_PAGE, {"holdout": self.holdout, "after": sequence, "size": 1}).first()
        return None if row is None else self._entry(row).previous_hash

    def _answered(self, connection: Connection, questions: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Sequence and answer (canonical JSON) of those questions that have an entry, by fingerprint; seals checked."""
        known: dict[str, tuple[int, str]] = {}
        for row in connection.execute(_ANSWERED, {"holdout": self.holdout, "questions": json.dumps(questions)}):
            self._check_sealed(row)
            known[row.question] = row.sequence, row.answer
        return known

    def _index(self, connection: Connection, at: Head, remembered: EntryIndex | None) -> EntryIndex:
        """Every question that was ever asked: one that is gone from the database would be answered anew.

        Args:
            connection: In a transaction.
            at: The head there.
            remembered: The index of this process, taken before the transaction began.

        Raises:
            IntegrityError: If one is missing, added or another one.
        """
        for before in (EntryIndex(),) if remembered is None else (remembered, EntryIndex()):
            if before.sequence > at.sequence:  # it was set back, which is judged by the head file
                continue
            later = "".join(questions_in_order(connection, self.holdout, before.sequence, at.sequence))
            if (index := before.up_to(at, later)) is not None:
                if index is not before and self.database.indexes.get(self.holdout) is remembered:
                    self.database.indexes[self.holdout] = index
                return index
        raise _not_what_was_written(at)

    def _append(
        self, connection: Connection, before: Head, asked: EntryIndex, questions: Sequence[EntryDraft],
        taken: Mapping[int, Outcome], state: str,
    ) -> tuple[Head, dict[str, tuple[int, str]]]:  # fmt: skip
        """Append one entry for each outcome and move the head; returns it, and what `_answered` would find."""
        holdout, last, charged = self.holdout, before.sequence + len(taken), before.charged
        # One seal for the batch: the states between its entries never exist outside the step.
        state_seal = seal_of(self.seal_key, holdout=holdout, sequence=last, state=state)
        asked_at, previous = datetime.now(UTC).isoformat(timespec="microseconds"), before.entry_hash
        digest, rows, added = asked.digest.copy(), [], {}
        for sequence, (index, outcome) in enumerate(taken.items(), before.sequence + 1):
            question = questions[index]
            answer = canonical(self._with_envelope(question.fingerprint, outcome))
            fields: dict[str, Any] = {
                "sequence": sequence,
                "question": question.fingerprint,
                "description": canonical(question.description),
                "answer": answer,
                "charged": outcome.charged,
                "asked_at": asked_at,
                "state_seal": state_seal,
                "previous_hash": previous,
            }
            previous = entry_hash(holdout=holdout, **fields)
            seal = entry_seal(self.seal_key, holdout=holdout, entry_hash=previous)
            rows.append({"holdout_id": holdout, **fields, "entry_hash": previous, "entry_seal": seal})
            added[question.fingerprint] = sequence, answer
            digest.update(question.fingerprint.encode())
            charged += outcome.charged
        connection.execute(_INSERT, rows)
        after: dict[str, Any] = {
            "sequence": last, "charged": charged, "entry_hash": previous, "questions_hash": digest.hexdigest(),
            "state": state,
        }  # fmt: skip
        expected = {"holdout": holdout, "from_sequence": before.sequence, "from_hash": before.entry_hash}
        seal = seal_of(self.seal_key, holdout=holdout, **after)
        if connection.execute(_MOVE_HEAD, {**after, "head_seal": seal, **expected}).rowcount != 1:
            raise Unavailable("the ledger moved on while the question was answered; nothing was charged; ask again")
        return Head(**{**after, "state": json.loads(state)}), added

    def _check_sealed(self, row: Sequence[Any]) -> None:
        """Check that a row of `_ENTRIES` carries this key's seal.

        Raises:
            IntegrityError: If it was altered.
        """
        try:
            known = entry_hash(*row[:-2])
            seal = entry_seal(self.seal_key, holdout=row[0], entry_hash=known)
            unaltered = row[-2] == known and hmac.compare_digest(row[-1], seal)
        except (TypeError, ValueError):  # another kind of value
            unaltered = False
        if not unaltered:
            raise IntegrityError(
                f"entry {row[1]} of the ledger was altered: it does not carry the seal of this key; expected the "
                "answer as it was given; nothing was answered or charged; verify the ledger and restore a backup"
            )

    def _with_envelope(self, question: str, outcome: Outcome) -> dict[str, Any]:
        """An answer as the entry holds it."""
        if outcome.sealed is None:
            return outcome.answer
        return {
            **outcome.answer,
            SEALED_VALUE: sealed(outcome.sealed, key=self.seal_key, holdout=self.holdout, question=question),
        }

    def _all_entries(self, connection: Connection, at: Head) -> list[Entry]:
        """The entries up to a head, all that were written.

        Raises:
            IntegrityError: If one was altered, is missing or was added.
        """
        with database_errors():
            rows = connection.execute(_PAGE, {"holdout": self.holdout, "after": 0, "size": at.sequence}).all()
        found = [self._entry(row) for row in rows]
        follows = all(entry.previous_hash == before.entry_hash for before, entry in pairwise(found))
        if len(found) != at.sequence or not follows or (found and found[-1].entry_hash != at.entry_hash):
            raise _not_what_was_written(at)
        return found

    def _entry(self, row: Sequence[Any]) -> Entry:
        self._check_sealed(row)
        _, sequence, question, description, answer, *rest = row
        return Entry(sequence, question, _read(description)[0], _read(answer)[0], *rest)


def _not_what_was_written(at: Head) -> IntegrityError:
    return IntegrityError(
        f"the ledger does not hold the {at.sequence:,} entries that were written: some are missing, added or about "
        "other questions; expected all of them; nothing was answered or charged; verify the ledger and restore a "
        "backup"
    )


def find_head(connection: Connection, holdout: str, missing: type[EverholdError] = HoldoutNotFound) -> dict[str, Any]:
    """The head row of a holdout, its seal unchecked; an error of type `missing` if there is none."""
    row = connection.execute(_HEAD, {"holdout": holdout}).first()
    if row is None:
        raise missing(f"no ledger has a head for the holdout {holdout!r}; expected the id that `record(name)` gives")
    return row._asdict()
