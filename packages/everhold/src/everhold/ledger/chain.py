"""Entries of the ledger, and their hashes and seals: pure functions, so that an exported ledger can be checked alone.

The hash of an entry is SHA-256 over canonical JSON of all its fields, and one field is the hash of the entry before. A
field that holds JSON is included as its text. The chain starts at a hash of the holdout itself (its name, its
identifier, when it was created, its configuration), so these are bound too. Each of three keyed seals is over the
fields named here:

- the *entry seal* (``holdout``, and its hash as ``entry``) binds each entry to the steward's key. So a stored answer
  can be checked by itself, and only the holder of the key can write a valid one;
- the *state seal* in each entry (``holdout, sequence, state``) commits to the secret state of the mechanism after that
  entry. It is keyed, because a noisy threshold has some 40 bits of entropy, so a plain hash could be inverted;
- the *head seal* in the head row (``holdout, sequence, charged, entry_hash, queries_hash, state``) binds state, charge,
  all queries and the whole chain up to that entry to the key, so a rewritten chain has no valid head.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from json.encoder import encode_basestring as _quoted
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np

from everhold.strict_json import canonical, digest

if TYPE_CHECKING:
    from numpy.typing import NDArray


Numbers: TypeAlias = tuple[float, float, float]
"""The sealed mean and the lower and upper end of the query's own interval, means of row values in [0, 1]."""


def is_act(description: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Return whether an entry is an act, such as an allotment, rather than a query."""
    return "kind" in description and description["kind"] == answer.get("source")


@dataclass(frozen=True)
class HoldoutRecord:
    """Stored record of one sealed holdout: its identifier, name, time of creation and settings.

    Attributes:
        id: Random identifier, 32 hexadecimal digits.
        name: Unique in its database.
        created: UTC, ISO 8601.
        configuration: Public settings: mechanism, rows, fingerprints, promise and more.
    """

    id: str
    name: str
    created: str
    configuration: dict[str, Any] = field(repr=False)

    @cached_property
    def settings(self) -> str:
        """SHA-256 of all four, with which the ledger begins and which every stored state of the holdout includes."""
        public = {"name": self.name, "created": self.created, "configuration": canonical(self.configuration)}
        return holdout_hash(holdout=self.id, **public)


@dataclass(frozen=True, slots=True)
class EntryDraft:
    """A query or an act before it becomes an entry of the ledger.

    Attributes:
        fingerprint: SHA-256 in 64 hexadecimal digits; equal queries have equal fingerprints.
        description: Public description, plain JSON data.
    """

    fingerprint: str
    description: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A mechanism's answer to one new query, and its charge.

    Attributes:
        answer: The exact answer, plain JSON data.
        charged: Charge for the entry, an integer >= 0 in the mechanism's own unit.
        sealed: Numbers that are revealed only when the study is unsealed, or None. They are secret, so the ledger
            encrypts them.
    """

    answer: dict[str, Any] = field(repr=False)
    charged: int
    sealed: Numbers | None = field(default=None, repr=False)

    @classmethod
    def of_act(cls, source: str, more: Mapping[str, Any] | None = None, *, charged: int = 0) -> Self:
        """Return the outcome of an act or a check: it has no value and no interval.

        ``more`` gives further fields of the answer.
        """
        return cls({"value": None, "low": None, "high": None, "source": source, **(more or {})}, charged)


@dataclass(frozen=True, slots=True)
class Committed:
    """An answer that is stored on disk.

    Attributes:
        sequence: Number of its entry, from 1.
        answer: The exact answer. For a repeated query: the answer given the first time.
        charged: 0 for a repeat.
        repeated: Whether the query had been answered before, or earlier in the same batch.
        sealed: Its sealed numbers, once the study is unsealed. None before that, and for an answer without sealed
            numbers.
    """

    sequence: int
    answer: dict[str, Any] = field(repr=False)
    charged: int
    repeated: bool
    sealed: Numbers | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the ledger.

    Attributes:
        sequence: Number of the entry, counted from 1 without gaps.
        query: Fingerprint of the query.
        description: Public description of the query.
        answer: The exact answer.
        charged: Charge of the entry, in the mechanism's own unit.
        asked_at: UTC, ISO 8601.
        state_seal: Keyed commitment to the state after the batch that contains the entry.
        previous_hash: Hash of the entry before.
        entry_hash: Hash of this entry.
        entry_seal: Keyed commitment to this entry.
    """

    sequence: int
    query: str
    description: dict[str, Any]
    answer: dict[str, Any] = field(repr=False)
    charged: int
    asked_at: str
    state_seal: str
    previous_hash: str
    entry_hash: str
    entry_seal: str

    @property
    def is_act(self) -> bool:
        """Whether the entry is an act, such as an allotment, rather than a query."""
        return is_act(self.description, self.answer)


class HashedEntry(NamedTuple):
    """The fields of an entry that its hash covers, with `description` and `answer` as canonical JSON."""

    holdout: str
    sequence: int
    query: str
    description: str
    answer: str
    charged: int
    asked_at: str
    state_seal: str
    previous_hash: str


HASHED = HashedEntry._fields[1:]
"""Columns of the fields of an entry that its hash is over; the holdout has another name there."""


def holdout_hash(*, holdout: str, name: str, created: str, configuration: str) -> str:
    """Return the hash before the first entry, from the sealed holdout's public facts."""
    return digest({"configuration": configuration, "created": created, "holdout": holdout, "name": name})


def entry_hash(entry: HashedEntry) -> str:
    """Return the hash of an entry, computed from all its other fields.

    The JSON text is assembled by hand in half the time of an encoder, because all entries are read often.

    Raises:
        TypeError: If a field is not of its type.
        ValueError: If a count is not a whole number of at least 0.
    """
    holdout, sequence, query, description, answer, charged, asked_at, state_seal, previous_hash = entry
    text = (
        f'{{"answer":{_quoted(answer)},"asked_at":{_quoted(asked_at)},"charged":{charged:d},'
        f'"description":{_quoted(description)},"holdout":{_quoted(holdout)},'
        f'"previous_hash":{_quoted(previous_hash)},"query":{_quoted(query)},"sequence":{sequence:d},'
        f'"state_seal":{_quoted(state_seal)}}}'
    )
    return hashlib.sha256(text.encode()).hexdigest()


def seal_of(key: bytes, **fields: str | int) -> str:
    """Return the seal of an entry, a state, a head or a checkpoint: HMAC-SHA256 of its named fields as JSON."""
    lines = (f'"{name}":{_quoted(value) if isinstance(value, str) else value}' for name, value in fields.items())
    return hmac.digest(key, f"{{{','.join(sorted(lines))}}}".encode(), "sha256").hex()


# Index of a ledger's queries in a process, so that none can be taken away from it unnoticed.
#
# A query that is gone from the database would be answered anew. The head of the ledger holds a digest of all queries
# under the steward's seal; a process that has checked it once reads only the queries that came later. That takes as
# long after a million queries as after the first, also if others write to the database. The first check of a process
# reads 64 bytes of every entry, and what it remembers of each is 32.

_LENGTH = 64  # of a fingerprint, in hexadecimal digits
_KIND = f"S{_LENGTH // 2}"
_MANY = 50_000  # that are sorted anew; fewer of them wait in a set, which takes four times as much memory


@dataclass(frozen=True, slots=True)
class EntryIndex:
    """Set of the fingerprints of all queries up to one entry. Nothing is ever removed.

    Attributes:
        sequence: Number of that entry.
        digest: Running SHA-256 of the fingerprints in order.
    """

    sequence: int = 0
    digest: Any = field(default_factory=hashlib.sha256, repr=False)
    _sorted: NDArray[np.bytes_] = field(default_factory=partial(np.empty, 0, _KIND), repr=False)  # type: ignore[arg-type]
    _latest: set[bytes] = field(default_factory=set, repr=False)

    def __contains__(self, fingerprint: str) -> bool:
        wanted = bytes.fromhex(fingerprint)
        if wanted in self._latest or not len(self._sorted):
            return wanted in self._latest
        sought = np.array([wanted], _KIND)
        place = int(self._sorted.searchsorted(sought)[0])
        return bool(np.any(self._sorted[place : place + 1] == sought))

    def up_to(self, sequence: int, queries_hash: str, later: str) -> EntryIndex | None:
        """Return the index extended to a later head, or None if the new queries do not match the head's digest.

        Args:
            sequence: Number of the last entry of a head that carries the steward's seal.
            queries_hash: Digest of all queries up to the later head.
            later: Fingerprints of all later entries in the database, in order and concatenated to texts of any length.
                They are accepted if their digest is the head's.
        """
        if not later and self.sequence == sequence:
            return self if self.digest.hexdigest() == queries_hash else None
        digest = self.digest.copy()
        digest.update(later.encode(errors="replace"))
        if len(later) != _LENGTH * (sequence - self.sequence) or digest.hexdigest() != queries_hash:
            return None
        added = np.frombuffer(bytes.fromhex(later), _KIND)
        if len(added) + len(self._latest) < _MANY:
            self._latest.update(each.ljust(_LENGTH // 2, b"\0") for each in added.tolist())  # NumPy drops zeros
            return EntryIndex(sequence, digest, self._sorted, self._latest)
        latest = np.array([*self._latest], _KIND)
        return EntryIndex(sequence, digest, np.sort(np.concatenate([self._sorted, latest, added])))
