"""The ledger of one holdout: spending, state and the exact answer are committed together before they are returned."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
import re
import struct
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Connection, Executable, bindparam, insert, literal_column, select, update
from sqlalchemy.exc import IntegrityError as ConstraintFailed
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from everhold.errors import EverholdError, HoldoutNotFound, IntegrityError, Unavailable
from everhold.ledger.acts import Head
from everhold.ledger.chain import (
    HASHED,
    Committed,
    Entry,
    EntryDraft,
    EntryIndex,
    HashedEntry,
    Numbers,
    Outcome,
    entry_hash,
    seal_of,
)
from everhold.ledger.database import LedgerDatabase, database_errors, queries_in_order
from everhold.ledger.head_file import RECOVER, HeadFile, Reached
from everhold.ledger.schema import entries, head
from everhold.strict_json import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from sqlalchemy.sql.compiler import SQLCompiler


_PAGE_SIZE = 1_000
_FINGERPRINT = re.compile("[0-9a-f]{64}")


@dataclass(slots=True)
class Transaction:
    """A transaction of the ledger in which new queries are answered.

    Attributes:
        head: The ledger's head before the answers. After the context has ended: the head after them.
        new: Positions of the queries that are to be answered.
        state_after: The mechanism's state after the answers (secret). Empty if nothing was recorded.
        taken: Recorded outcomes, by position of their query.
        committed: Filled when the context ends: for each query in the order asked its stored answer, or None if it was
            left out.
        earlier: Function that reads all earlier entries, for a transaction that is shared with no other thread.
    """

    head: Head
    new: list[int]
    earlier: Callable[[], list[Entry]] = field(repr=False)
    state_after: dict[str, Any] = field(default_factory=dict, repr=False)
    taken: dict[int, Outcome] = field(default_factory=dict)
    committed: list[Committed | None] = field(default_factory=list)

    def record(self, state: dict[str, Any], outcomes: Sequence[Outcome | None]) -> None:
        """Set the outcomes of the new queries, which are written when the transaction ends.

        Args:
            state: The mechanism's state after the new queries.
            outcomes: One for each new query, or None if the query is left out, so that nothing is recorded about it.

        Raises:
            ValueError: If an outcome is malformed; then nothing is recorded at all.
        """
        if len(outcomes) != len(self.new):
            raise ValueError(
                f"The step returned {len(outcomes)} outcomes for {len(self.new)} new queries. Return one for each."
            )
        for index, outcome in zip(self.new, outcomes, strict=True):
            if outcome is not None:
                self.taken[index] = outcome
                if type(outcome.charged) is not int or outcome.charged < 0:
                    raise ValueError(
                        "The step charged something other than a whole number of at least 0. Change the step."
                    )
        self.state_after = state


@dataclass(frozen=True)
class Ledger:
    """The ledger of one holdout under the steward's key. Made by `LedgerStore.of`.

    Attributes:
        database: The open database.
        holdout: Identifier of the holdout.
        seal_key: The steward's key. Entries and heads without its seal are refused.
        head_file: File with the newest known head. A database with an older head is refused. If the database is newer,
            as after a crash, the file is updated before anything is returned.
    """

    database: LedgerDatabase
    holdout: str
    seal_key: bytes = field(repr=False)
    head_file: HeadFile | None = None

    @cached_property
    def _stored(self) -> SealedReader:
        return SealedReader(self.holdout, self.seal_key)

    @cached_property
    def _envelopes(self) -> Envelopes:
        return Envelopes(self.seal_key, self.holdout)

    def _read(self, statement: Executable, **values: str | int) -> Iterator[Entry]:
        """Yield the entries that a statement returns, after a check of their seals."""
        with self.database.transaction() as connection, database_errors():
            rows = connection.execute(statement, {"holdout": self.holdout, **values}).all()
        return map(self._stored.entry, rows)

    def head(self) -> Head:
        """Return the ledger's head.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head was altered or set back.
        """
        return self.look_up([])[0]

    def latest(self) -> Head:
        """Return the newest head that this process has seen, or read it from the database.

        Another process may have added entries since. So the transaction checks again whatever is prepared with this
        head, and no query is refused because of this head alone.
        """
        return self.database.heads.get(self.holdout) or self.head()

    def look_up(self, queries: Sequence[str], *, read: bool = True) -> tuple[Head, Collection[str]]:
        """Return the ledger's head, and which of these fingerprints have an entry.

        Args:
            queries: Fingerprints of queries.
            read: Whether to read the ledger. If False, the head that this process has seen is used if there is one, see
                `latest`.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head was altered or set back, or an entry was altered.
        """
        seen, index = self.database.heads.get(self.holdout), self.database.indexes.get(self.holdout)
        if not read and seen is not None and index is not None:
            return seen, [*filter(index.__contains__, queries)]
        with self.database.transaction() as connection, database_errors():
            found, known = self._stored.head(connection, self.head_file)
            answered = self._stored.answered(connection, queries)
        self._reached(found, known)
        return found, answered.keys()

    def repeated(self, queries: Sequence[EntryDraft]) -> tuple[Head, list[Committed]] | None:
        """Return the stored answers if all these queries were asked before, or None if one may be new.

        Nothing is locked. If a query is not among the queries that this process knows, nothing is read.

        Args:
            queries: Queries in the order in which they are asked.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head was altered or set back, an entry was altered, or one is missing.
        """
        fingerprints = [query.fingerprint for query in queries]
        remembered = self.database.indexes.get(self.holdout)
        if remembered is not None and not all(map(remembered.__contains__, fingerprints)):
            return None
        with self.database.transaction() as connection, database_errors():
            found, reached = self._stored.head(connection, self.head_file)
            self._index(connection, found, remembered)
            answered = self._stored.answered(connection, fingerprints)
        self._reached(found, reached)
        if not all(map(answered.__contains__, fingerprints)):  # new, or lost: the writing transaction tells which
            return None
        return found, [self._committed(found, fingerprint, answered[fingerprint], None) for fingerprint in fingerprints]

    def remembers(self, query: str) -> bool:
        """Return whether this process knows, without reading, that a query was asked before."""
        index = self.database.indexes.get(self.holdout)
        return index is not None and query in index

    def find(self, query: str) -> Entry | None:
        """Return the entry of a query by its fingerprint, or None.

        Raises:
            IntegrityError: If the entry was altered.
        """
        return next(self._read(ANSWERED, queries=json.dumps([query])), None)

    def beginning_with(self, text: str) -> list[Entry]:
        """Return the entries of all queries whose fingerprint begins with a prefix.

        Raises:
            IntegrityError: If one was altered.
        """
        return list(self._read(BEGINNING, first=text, end=f"{text}g"))

    def entries(self, start: int = 0, limit: int | None = None) -> Iterator[Entry]:
        """Yield the entries in order, read page by page, without holding a lock.

        Args:
            start: Number of entries to leave out at the beginning.
            limit: Largest number of entries to yield. None for all.

        Raises:
            IntegrityError: If an entry was altered.
        """
        end = None if limit is None else start + limit
        while end is None or start < end:
            size = _PAGE_SIZE if end is None else min(end - start, _PAGE_SIZE)
            full = start + size
            for entry in self._read(PAGE, after=start, size=size):
                start += 1
                yield entry
            if start < full:
                return

    def charged(self, limit: int) -> list[Entry]:
        """Return the latest charged entries, at most ``limit``, the newest first.

        Raises:
            IntegrityError: If one was altered.
        """
        return list(self._read(CHARGED, size=limit))

    @contextmanager
    def transaction(self, queries: Sequence[EntryDraft], *, alone: bool = False) -> Iterator[Transaction]:
        """Context with one durable transaction in which queries are answered. Writers take turns.

        The recorded outcomes are committed, and the head file is updated, before the context ends. If the block raises,
        nothing is recorded and its exception comes out unchanged. Threads that wait for their turn share one commit,
        and each continues from the state that the previous one left.

        Args:
            queries: Queries in the order in which they are asked. Repeats, also within the batch, are free.
            alone: Whether no other thread may share the transaction, because the block takes long or reads all entries.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head or a stored answer does not carry this key's seal, an entry is missing, or the
                database was set back; then nothing is answered, stored answers included.
            ValueError: If a fingerprint, a description or an outcome is malformed; nothing is recorded.
        """
        fingerprints = []
        for query in queries:
            fingerprints.append(query.fingerprint)
            if not _FINGERPRINT.fullmatch(query.fingerprint):
                raise ValueError("The fingerprint of a query is not a SHA-256. Pass 64 lower-case hexadecimal digits.")
        with self.database.group(self.holdout, alone=alone) as group:
            part = group.parts.get(self.holdout)
            with database_errors():
                if not isinstance(part, _Appended):
                    after, reached = self._stored.head(group.connection, self.head_file)
                    asked = self._index(group.connection, after, self.database.indexes.get(self.holdout))
                    part = _Appended(self, after, reached, asked, after, asked.digest)
                    group.parts[self.holdout] = part
                known = {each: part.answers[each] for each in fingerprints if each in part.answers}
                if stored := [each for each in fingerprints if each in part.asked]:
                    known |= self._stored.answered(group.connection, stored)
            if not all(each in known for each in stored):
                raise not_what_was_written(part.found)
            after = part.head
            fresh: dict[str, int] = {}  # the position where a new query is asked first
            for index, fingerprint in enumerate(fingerprints):
                if fingerprint not in known:
                    fresh.setdefault(fingerprint, index)
            earlier = partial(self._stored.all_entries, group.connection, after)
            transaction = Transaction(after, [*fresh.values()], earlier)
            yield transaction
            if transaction.taken:
                known |= part.append(queries, transaction.taken, canonical(transaction.state_after))
                after = part.head
        transaction.head = after
        for index, fingerprint in enumerate(fingerprints):
            entry, new = known.get(fingerprint), transaction.taken.get(index)
            committed = None if entry is None else self._committed(after, fingerprint, entry, new)
            transaction.committed.append(committed)

    def _committed(self, at: Head, query: str, entry: tuple[int, str], new: Outcome | None) -> Committed:
        """Return a stored entry for the analyst who asked.

        ``new`` is its outcome, or None if it had been asked before.
        """
        answer, charged = json.loads(entry[1]), 0 if new is None else new.charged
        told = self.sealed_of(query, answer) if at.accounts.unsealings else None
        return Committed(entry[0], answer, charged, new is None, told)

    def sealed_of(self, query: str, answer: Mapping[str, Any]) -> Numbers | None:
        """Return the sealed mean and interval ends of an answer, or None if it has none. Secret before the unsealing.

        Args:
            query: Fingerprint of the query.
            answer: Answer in the form that the entry holds.

        Raises:
            IntegrityError: If its envelope was altered.
        """
        envelope = answer.get(SEALED_VALUE)
        if envelope is None:
            return None
        return self._envelopes.opened(envelope, query)

    def _reached(self, head: Head, known: Reached | None) -> None:
        """Store a committed head in memory, and in the head file before any answer is returned."""
        if self.head_file is not None and known is not None and known < (reached := Reached.of(head)):
            self.head_file.advance(reached)
        self.database.heads[self.holdout] = head

    def _index(self, connection: Connection, at: Head, remembered: EntryIndex | None) -> EntryIndex:
        """Return the index of all queries that were ever asked, after a check that none is missing from the database.

        Args:
            connection: Connection in a transaction.
            at: The head that this transaction read.
            remembered: The index of this process, taken before the transaction began.

        Raises:
            IntegrityError: If a query is missing, was added or was replaced.
        """
        for before in (EntryIndex(),) if remembered is None else (remembered, EntryIndex()):
            if before.sequence > at.sequence:  # it was set back, which is judged by the head file
                continue
            later = ""
            if before.sequence < at.sequence:
                later = "".join(queries_in_order(connection, self.holdout, before.sequence, at.sequence))
            if (index := before.up_to(at.sequence, at.queries_hash, later)) is not None:
                if index is not before and self.database.indexes.get(self.holdout) is remembered:
                    self.database.indexes[self.holdout] = index
                return index
        raise not_what_was_written(at)


@dataclass
class _Appended:
    """Entries that the writers of a group append to a ledger in one transaction.

    Attributes:
        ledger: The ledger to which the entries are appended.
        found: Head of the ledger before these entries.
        reached: State of the head file before these entries.
        asked: All queries before these entries.
        head: Head of the ledger after these entries.
        digest: Digest of all queries up to the last of these entries.
        rows: The new entries.
        answers: Sequence number and answer of each new entry, by fingerprint.
    """

    ledger: Ledger
    found: Head
    reached: Reached | None
    asked: EntryIndex
    head: Head
    digest: Any
    rows: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)

    def append(
        self, queries: Sequence[EntryDraft], taken: Mapping[int, Outcome], state: str
    ) -> dict[str, tuple[int, str]]:
        """Append one entry for each outcome, and return sequence and answer of each, by fingerprint."""
        before, holdout, key = self.head, self.ledger.holdout, self.ledger.seal_key
        last, charged = before.sequence + len(taken), before.charged
        # One seal for the batch: the states between its entries never exist outside the step.
        state_seal = seal_of(key, holdout=holdout, sequence=last, state=state)
        asked_at, previous = datetime.now(UTC).isoformat(timespec="microseconds"), before.entry_hash
        digest, rows, added = self.digest.copy(), [], {}
        for sequence, (index, outcome) in enumerate(taken.items(), before.sequence + 1):
            query = queries[index]
            kept = dict(outcome.answer)
            if outcome.sealed is not None:
                kept[SEALED_VALUE] = self.ledger._envelopes.sealed(outcome.sealed, query.fingerprint)
            answer = canonical(kept)
            fields: dict[str, Any] = {
                "sequence": sequence,
                "query": query.fingerprint,
                "description": canonical(query.description),
                "answer": answer,
                "charged": outcome.charged,
                "asked_at": asked_at,
                "state_seal": state_seal,
                "previous_hash": previous,
            }
            previous = entry_hash(HashedEntry(holdout=holdout, **fields))
            seal = seal_of(key, holdout=holdout, entry=previous)
            rows.append({"holdout_id": holdout, **fields, "entry_hash": previous, "entry_seal": seal})
            added[query.fingerprint] = sequence, answer
            digest.update(query.fingerprint.encode())
            charged += outcome.charged
        self.head, self.digest = Head(last, charged, previous, digest.hexdigest(), state), digest
        self.rows += rows
        self.answers |= added
        return added

    def write(self, connection: Connection) -> None:
        """Insert the new entries into the database and update the head."""
        if not self.rows:
            return
        holdout, found, head = self.ledger.holdout, self.found, self.head
        after = head.fields()
        seal = seal_of(self.ledger.seal_key, holdout=holdout, **after)
        expected = {"holdout": holdout, "from_sequence": found.sequence, "from_hash": found.entry_hash}
        with database_errors():
            try:
                connection.execute(INSERT, self.rows)
            except ConstraintFailed:  # an entry is there already that was not written
                raise not_what_was_written(found) from None
            moved = connection.execute(MOVE_HEAD, {**after, "head_seal": seal, **expected}).rowcount
        if moved != 1:
            raise Unavailable(
                "Another query was recorded while this one was answered. Nothing was charged, so ask again."
            )

    def committed(self) -> None:
        """Add the committed entries to the index in memory, and update the head file."""
        ledger, head = self.ledger, self.head
        indexes = ledger.database.indexes
        if self.rows and indexes.get(ledger.holdout) is self.asked:  # or another thread knows more
            later = self.asked.up_to(head.sequence, head.queries_hash, "".join(self.answers))
            indexes[ledger.holdout] = later or self.asked
        ledger._reached(head, self.reached)


# Values under the steward's key: the head and the entries, whose seals are checked, and sealed values of answers.
#
# What does not carry the seal is not believed. Sealed values may not be read before the study is unsealed: three
# numbers, encrypted.
#
# The sealed mean of a query and the ends of its own interval are known for a moment, when it is answered, and cannot
# be computed again later: predictions and functions are not kept. So they are put into an envelope inside the entry,
# and the chain binds it like the rest of the answer. All envelopes have the same length. Each opens only under the
# steward's key, for its own holdout and its own query, so it cannot be passed off as another entry's.

SEALED_VALUE = "sealed"
"""Field of an entry's answer that holds the envelope."""


_PLAIN = struct.Struct(">3d")
_NONCE = 12  # bytes, drawn for each envelope
_LABEL = b"everhold envelopes of unsealing"


@dataclass(frozen=True)
class Envelopes:
    """Encryption of the sealed values of a holdout's answers.

    Attributes:
        key: The steward's key of the ledger's seals; the envelopes' own key is derived from it.
        holdout: Identifier of the holdout.
    """

    key: bytes = field(repr=False)
    holdout: str

    @cached_property
    def _cipher(self) -> AESGCM:
        return AESGCM(hmac.digest(self.key, _LABEL, "sha256"))

    def _bound_to(self, query: str) -> bytes:
        """Return the associated data that binds an envelope to the holdout and its query."""
        return f"{self.holdout}\n{query}".encode()

    def sealed(self, numbers: Numbers, query: str) -> str:
        """Encrypt the numbers of a query into an envelope: nonce, ciphertext and tag in base 64, always equally long.

        Args:
            numbers: The numbers to seal.
            query: Fingerprint of the query, to which the envelope is bound.
        """
        nonce = os.urandom(_NONCE)
        inside = self._cipher.encrypt(nonce, _PLAIN.pack(*numbers), self._bound_to(query))
        return base64.b64encode(nonce + inside).decode()

    def opened(self, envelope: object, query: str) -> Numbers:
        """Decrypt the numbers in the envelope of a query.

        Raises:
            IntegrityError: If it was altered, or belongs to another key, holdout or query.
        """
        try:
            content = base64.b64decode(str(envelope), validate=True)
            plain = self._cipher.decrypt(content[:_NONCE], content[_NONCE:], self._bound_to(query))
            mean, low, high = _PLAIN.unpack(plain)
        except (binascii.Error, InvalidTag, ValueError, struct.error):
            raise IntegrityError(
                "The sealed numbers of an answer cannot be decrypted: they were altered, or belong to another query or "
                "key. Run 'everhold ledger verify' and restore a backup."
            ) from None
        return mean, low, high


_read = json.JSONDecoder().raw_decode  # for what carries a seal, and so is the text that was written


class _Listed(GenericFunction[str]):
    """SQL function that turns a JSON array into rows, so that one statement can take any number of values."""

    name = "json_each"
    inherit_cache = True


@compiles(_Listed, "postgresql")
def _listed_by_postgres(element: _Listed, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clause_expr, **options)} AS JSON))"


_OF_HOLDOUT = entries.c.holdout_id == bindparam("holdout")
_ENTRIES = select(entries.c.holdout_id, *(entries.c[name] for name in (*HASHED, "entry_hash", "entry_seal")))
PAGE = (
    _ENTRIES.where(_OF_HOLDOUT, entries.c.sequence > bindparam("after"))
    .order_by(entries.c.sequence)
    .limit(bindparam("size"))
)
_WANTED = _Listed(bindparam("queries")).table_valued("value")
ANSWERED = _ENTRIES.where(_OF_HOLDOUT, entries.c.query.in_(select(_WANTED.c.value)))
CHARGED = (
    _ENTRIES.where(_OF_HOLDOUT, entries.c.charged > literal_column("0"))  # as the index of these entries says it
    .order_by(entries.c.sequence.desc())
    .limit(bindparam("size"))
)
BEGINNING = _ENTRIES.where(  # whatever follows is a hexadecimal digit
    _OF_HOLDOUT, entries.c.query >= bindparam("first"), entries.c.query < bindparam("end")
)
_HEAD = select(head).where(head.c.holdout_id == bindparam("holdout"))
INSERT = insert(entries)
MOVE_HEAD = update(head).where(
    head.c.holdout_id == bindparam("holdout"),
    head.c.sequence == bindparam("from_sequence"),
    head.c.entry_hash == bindparam("from_hash"),
)


@dataclass(frozen=True, slots=True)
class SealedReader:
    """Reader of a holdout's head and entries inside a transaction, which checks their seals.

    Attributes:
        holdout: Identifier of the holdout.
        key: The steward's key.
    """

    holdout: str
    key: bytes = field(repr=False)

    def head(self, connection: Connection, head_file: HeadFile | None) -> tuple[Head, Reached | None]:
        """Return the stored head, and the newest head that the head file knows.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head does not have this key's seal, or is not a successor of the head in the head
                file.
        """
        known = None
        if head_file is not None and (known := head_file.find()) is None:  # first: it is never ahead
            raise IntegrityError(
                f"The file {head_file.path.name} beside the steward's key, which records "
                f"the ledger's last entry, is missing or was altered. {RECOVER}"
            )
        found, seal = find_head(connection, self.holdout)
        expected = seal_of(self.key, holdout=self.holdout, **found.fields())
        if not hmac.compare_digest(str(seal).encode(), expected.encode()):
            raise IntegrityError(
                "The ledger's last state was not sealed with this key. Check that the key "
                "is the steward's, then run 'everhold ledger verify'."
            )
        if known is not None:
            known.check(Reached.of(found), lambda: self._hash_of_entry(connection, known.sequence))
        return found, known

    def entry(self, row: Sequence[Any]) -> Entry:
        """Build an entry from its database row, after a check of its seal.

        Raises:
            IntegrityError: If it was altered.
        """
        self._check(row)
        _, sequence, query, description, answer, *rest = row
        return Entry(sequence, query, _read(description)[0], _read(answer)[0], *rest)

    def answered(self, connection: Connection, queries: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Return sequence and answer (canonical JSON) of the queries that have an entry, by fingerprint."""
        known: dict[str, tuple[int, str]] = {}
        for row in connection.execute(ANSWERED, {"holdout": self.holdout, "queries": json.dumps(queries)}):
            self._check(row)
            known[row.query] = row.sequence, row.answer
        return known

    def _hash_of_entry(self, connection: Connection, sequence: int) -> str | None:
        """Return an entry's hash as the next entry records it, or None if there is no next one.

        Entry 0 is the sealed holdout.
        """
        row = connection.execute(PAGE, {"holdout": self.holdout, "after": sequence, "size": 1}).first()
        return None if row is None else self.entry(row).previous_hash

    def all_entries(self, connection: Connection, at: Head) -> list[Entry]:
        """Return all entries up to a head, and check that none is missing.

        Raises:
            IntegrityError: If one was altered, is missing or was added.
        """
        with database_errors():
            rows = connection.execute(PAGE, {"holdout": self.holdout, "after": 0, "size": at.sequence}).all()
        found = [self.entry(row) for row in rows]
        follows = all(entry.previous_hash == before.entry_hash for before, entry in pairwise(found))
        if len(found) != at.sequence or not follows or (found and found[-1].entry_hash != at.entry_hash):
            raise not_what_was_written(at)
        return found

    def _check(self, row: Sequence[Any]) -> None:
        """Raise IntegrityError if a row of the entries does not have the seal of this key.

        Raises:
            IntegrityError: If it was altered.
        """
        try:
            known = entry_hash(HashedEntry(*row[:-2]))
            seal = seal_of(self.key, holdout=row[0], entry=known)
            unaltered = row[-2] == known and hmac.compare_digest(row[-1], seal)
        except (TypeError, ValueError):  # another kind of value
            unaltered = False
        if not unaltered:
            raise IntegrityError(
                f"Entry {row[1]} of the ledger was altered: it was not sealed with this "
                "key. Run 'everhold ledger verify' and restore a backup."
            )


def not_what_was_written(at: Head) -> IntegrityError:
    """Return the error for entries that are missing or added."""
    return IntegrityError(
        f"The ledger does not contain the {at.sequence:,} entries that were written: some are missing, added or "
        "about other queries. Run 'everhold ledger verify' and restore a backup."
    )


def find_head(
    connection: Connection, holdout: str, missing: type[EverholdError] = HoldoutNotFound
) -> tuple[Head, Any]:  # fmt: skip
    """Return a holdout's head and its seal, which is not checked here. Raise ``missing`` if there is none."""
    row = connection.execute(_HEAD, {"holdout": holdout}).first()
    if row is None:
        raise missing(f"No ledger has a holdout with the id {holdout!r}. Pass the id of LedgerStore.record(name).")
    return Head(row.sequence, row.charged, row.entry_hash, row.queries_hash, row.state), row.head_seal
