"""Head and entries of one holdout as they are stored: what does not carry the steward's seal is not believed."""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from everhold.errors import EverholdError, HoldoutNotFound, IntegrityError
from everhold.ledger.chain import entry_hash, entry_seal, seal_of
from everhold.ledger.database import database_errors
from everhold.ledger.head_file import RECOVER, Reached
from everhold.ledger.records import Entry, Head
from everhold.ledger.statements import ANSWERED, HEAD, PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from everhold.ledger.head_file import HeadFile

__all__ = ["SealedReader", "find_head", "not_what_was_written"]

_read = json.JSONDecoder().raw_decode  # for what carries a seal, and so is the text that was written


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
        _, sequence, question, description, answer, *rest = row
        return Entry(sequence, question, _read(description)[0], _read(answer)[0], *rest)

    def answered(self, connection: Connection, questions: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Sequence and answer (canonical JSON) of those questions that have an entry, by fingerprint; seals checked."""
        known: dict[str, tuple[int, str]] = {}
        for row in connection.execute(ANSWERED, {"holdout": self.holdout, "questions": json.dumps(questions)}):
            self._check(row)
            known[row.question] = row.sequence, row.answer
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
            known = entry_hash(*row[:-2])
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
        "other questions; expected all of them; nothing was answered or charged; verify the ledger and restore a "
        "backup"
    )


def find_head(connection: Connection, holdout: str, missing: type[EverholdError] = HoldoutNotFound) -> dict[str, Any]:
    """The head row of a holdout, its seal unchecked; an error of type `missing` if there is none."""
    row = connection.execute(HEAD, {"holdout": holdout}).first()
    if row is None:
        raise missing(f"no ledger has a head for the holdout {holdout!r}; expected the id that `record(name)` gives")
    return row._asdict()
