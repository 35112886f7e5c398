"""Values under the steward's key: the head and the entries, whose seals are checked, and sealed values of answers.

What does not carry the seal is not believed. Sealed values may not be read before the study is unsealed: three numbers,
encrypted.

The sealed mean of a query and the ends of its own interval are known for a moment, when it is answered, and cannot
be computed again later: predictions and functions are not kept. So they are put into an envelope inside the entry, and
the chain binds it like the rest of the answer. All envelopes have the same length. Each opens only under the steward's
key, for its own holdout and its own query, so it cannot be passed off as another entry's.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
import struct
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import bindparam, insert, literal_column, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from everhold.errors import EverholdError, HoldoutNotFound, IntegrityError
from everhold.ledger.chain import HASHED, HashedEntry, entry_hash, entry_seal, seal_of
from everhold.ledger.database import database_errors, entries, head
from everhold.ledger.head_file import RECOVER, Reached
from everhold.ledger.records import Entry, Head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection
    from sqlalchemy.sql.compiler import SQLCompiler

    from everhold.ledger.head_file import HeadFile

SEALED_VALUE = "sealed"
"""Field of an entry's answer that holds the envelope."""

Numbers: TypeAlias = tuple[float, float, float]
"""The sealed mean and the lower and upper end of the query's own interval, means of row values in [0, 1]."""

_PLAIN = struct.Struct(">3d")
_NONCE = 12  # bytes, drawn for each envelope
_LABEL = b"everhold envelopes of unsealing"


def sealed(numbers: Numbers, *, key: bytes, holdout: str, query: str) -> str:
    """An envelope: nonce, ciphertext and tag in base 64, of the same length for all numbers.

    Args:
        numbers: What it holds.
        key: The steward's key of the ledger's seals; the envelopes' own key is derived from it.
        holdout: Identifier of the holdout.
        query: Fingerprint of the query.
    """
    nonce = os.urandom(_NONCE)
    inside = _cipher(key).encrypt(nonce, _PLAIN.pack(*numbers), _bound_to(holdout, query))
    return base64.b64encode(nonce + inside).decode()


def opened(envelope: object, *, key: bytes, holdout: str, query: str) -> Numbers:
    """The numbers in an envelope.

    Raises:
        IntegrityError: If it was altered, or belongs to another key, holdout or query.
    """
    try:
        content = base64.b64decode(str(envelope), validate=True)
        plain = _cipher(key).decrypt(content[:_NONCE], content[_NONCE:], _bound_to(holdout, query))
        mean, low, high = _PLAIN.unpack(plain)
    except (binascii.Error, InvalidTag, ValueError, struct.error):
        raise IntegrityError(
            "an answer's sealed numbers cannot be opened: they were altered, or belong to another query or key; "
            "expected an unaltered ledger; nothing was told; verify the ledger and restore a backup"
        ) from None
    return mean, low, high


def _cipher(key: bytes) -> AESGCM:
    return AESGCM(hmac.digest(key, _LABEL, "sha256"))


def _bound_to(holdout: str, query: str) -> bytes:
    return f"{holdout}\n{query}".encode()


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
    """Reader of the head and the entries of a holdout, inside a transaction.

    Attributes:
        holdout: Identifier of the holdout.
        key: The steward's key.
    """

    holdout: str
    key: bytes = field(repr=False)

    def head(self, connection: Connection, head_file: HeadFile | None) -> tuple[Head, Reached | None]:
        """The head and the newest one that is known, for a transaction that has read nothing before, or may write.

        Raises:
            HoldoutNotFound: If there is no such holdout.
            IntegrityError: If the head does not carry this key's seal, is older, or diverged.
        """
        known = None
        if head_file is not None and (known := head_file.find()) is None:  # first: it is never ahead
            raise IntegrityError(
                f"{head_file.path.name}, which says how far the ledger had come, is missing or was altered; "
                f"expected it beside the steward's key; nothing was answered or charged; {RECOVER}"
            )
        fields = find_head(connection, self.holdout)
        del fields["holdout_id"]
        seal = str(fields.pop("head_seal"))
        if not hmac.compare_digest(seal.encode(), seal_of(self.key, holdout=self.holdout, **fields).encode()):
            raise IntegrityError(
                "the ledger's head does not carry the seal of this key; expected the steward's key and an unaltered "
                "ledger; nothing was charged; check the key, then verify the ledger"
            )
        found = Head(**{**fields, "state": json.loads(fields["state"])})  # it is what was written
        if known is not None:
            known.check(Reached.of(found), lambda: self._hash_of_entry(connection, known.sequence))
        return found, known

    def entry(self, row: Sequence[Any]) -> Entry:
        """An entry from its row.

        Raises:
            IntegrityError: If it was altered.
        """
        self._check(row)
        _, sequence, query, description, answer, *rest = row
        return Entry(sequence, query, _read(description)[0], _read(answer)[0], *rest)

    def answered(self, connection: Connection, queries: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Sequence and answer (canonical JSON) of those queries that have an entry, by fingerprint; seals checked."""
        known: dict[str, tuple[int, str]] = {}
        for row in connection.execute(ANSWERED, {"holdout": self.holdout, "queries": json.dumps(queries)}):
            self._check(row)
            known[row.query] = row.sequence, row.answer
        return known

    def _hash_of_entry(self, connection: Connection, sequence: int) -> str | None:
        """The hash of an entry, or of the holdout for 0, as the entry after it says under its own seal."""
        row = connection.execute(PAGE, {"holdout": self.holdout, "after": sequence, "size": 1}).first()
        return None if row is None else self.entry(row).previous_hash

    def all_entries(self, connection: Connection, at: Head) -> list[Entry]:
        """The entries up to a head, all that were written.

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
        """Check that a row of the entries carries this key's seal.

        Raises:
            IntegrityError: If it was altered.
        """
        try:
            known = entry_hash(HashedEntry(*row[:-2]))
            seal = entry_seal(self.key, holdout=row[0], entry_hash=known)
            unaltered = row[-2] == known and hmac.compare_digest(row[-1], seal)
        except (TypeError, ValueError):  # another kind of value
            unaltered = False
        if not unaltered:
            raise IntegrityError(
                f"entry {row[1]} of the ledger was altered: it does not carry the seal of this key; expected the "
                "answer as it was given; nothing was answered or charged; verify the ledger and restore a backup"
            )


def not_what_was_written(at: Head) -> IntegrityError:
    """The error for entries that are missing or added."""
    return IntegrityError(
        f"the ledger does not hold the {at.sequence:,} entries that were written: some are missing, added or about "
        "other queries; expected all of them; nothing was answered or charged; verify the ledger and restore a "
        "backup"
    )


def find_head(connection: Connection, holdout: str, missing: type[EverholdError] = HoldoutNotFound) -> dict[str, Any]:
    """The head row of a holdout, its seal unchecked; an error of type `missing` if there is none."""
    row = connection.execute(_HEAD, {"holdout": holdout}).first()
    if row is None:
        raise missing(f"no ledger has a head for the holdout {holdout!r}; expected the id that `record(name)` gives")
    return row._asdict()
