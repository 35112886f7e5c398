"""Checkpoints: sealed sums over all entries up to one of them, so that these entries need not be read again.

A checkpoint is made when all entries up to one have just been checked. It names the hash of that entry, which commits
to all entries before. It is used only if the ledger's chain leads from that hash to a sealed head. So

- forging one needs the steward's key;
- a checkpoint of another history of the ledger, as after a recovery, does not fit the chain, and is not used;
- if an older checkpoint is put back, its sums are still true, and only more entries are read again;
- a missing checkpoint costs the time of reading all entries.

A checkpoint does not show that the entries before it can still be read: somebody may have altered them since. Its sums
stay those of the entries that were written. `verify` always reads every entry, and compares the checkpoint with them.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import Connection, bindparam, delete, insert, select

from everhold.ledger.acts import Accounts, EntryCounts
from everhold.ledger.chain import seal_of
from everhold.ledger.database import LedgerDatabase, database_errors
from everhold.ledger.schema import checkpoints
from everhold.strict_json import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping


_OF_HOLDOUT = checkpoints.c.holdout_id == bindparam("holdout")
_STORED = select(checkpoints).where(_OF_HOLDOUT)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Sums over all entries of a ledger up to a certain entry.

    Attributes:
        sequence: Number of that entry.
        entry_hash: Hash of that entry.
        charged: Sum of all charges.
        accounts: Allotments and the state of extensions, as a head's state carries them.
        tally: Counts of the entries, for certificates.
        made_at: Time at which the latest of these entries were read and checked, in UTC, ISO 8601.
    """

    sequence: int
    entry_hash: str
    charged: int
    accounts: Mapping[str, Any] = field(repr=False)
    tally: Mapping[str, Any] = field(repr=False)
    made_at: str

    @classmethod
    def now(cls, sequence: int, entry_hash: str, charged: int, accounts: Accounts, counts: EntryCounts) -> Self:
        """Build a checkpoint for entries that were just verified. The sums are copied."""
        sums = json.loads(canonical({"accounts": accounts.into({}), "tally": counts.to_dict()}))
        at = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(sequence, entry_hash, charged, sums["accounts"], sums["tally"], at)

    @classmethod
    def read(cls, row: Mapping[str, Any], *, holdout: str, seal_key: bytes) -> Self | None:
        """Read the checkpoint in a row of the table, or return None if the seal is not this key's."""
        content, seal = str(row["content"]), str(row["seal"])
        if not hmac.compare_digest(seal.encode(), seal_of(seal_key, holdout=holdout, checkpoint=content).encode()):
            return None
        return cls(**json.loads(content))  # it is what was written

    def same_sums(self, other: Checkpoint) -> bool:
        """Return whether another checkpoint equals this one, apart from the time at which it was made."""
        return self == replace(other, made_at=self.made_at)

    def keep(self, database: LedgerDatabase, *, holdout: str, seal_key: bytes) -> None:
        """Write the checkpoint to the database, and replace an earlier one.

        Raises:
            EverholdError: If the database takes no writes at the moment.
        """
        fields = ("sequence", "entry_hash", "charged", "accounts", "tally", "made_at")
        content = canonical({name: getattr(self, name) for name in fields})
        seal = seal_of(seal_key, holdout=holdout, checkpoint=content)
        row = {"holdout_id": holdout, "sequence": self.sequence, "content": content, "seal": seal}
        with database.transaction(writing=True, turn=holdout) as connection, database_errors():
            connection.execute(delete(checkpoints).where(_OF_HOLDOUT), {"holdout": holdout})
            connection.execute(insert(checkpoints), row)


def stored_checkpoint(connection: Connection, holdout: str) -> Mapping[str, Any] | None:
    """Return the row of a holdout's checkpoint with its seal unchecked, or None."""
    row = connection.execute(_STORED, {"holdout": holdout}).first()
    return None if row is None else row._asdict()
