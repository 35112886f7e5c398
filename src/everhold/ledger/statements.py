"""The SQL of the ledger, and what lies between its rows and our values."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, insert, select, update

from everhold.errors import EverholdError, HoldoutNotFound, IntegrityError
from everhold.ledger import chain
from everhold.ledger.head_file import Reached
from everhold.ledger.records import Entry, Head, HoldoutRecord, Outcome, Question
from everhold.ledger.schema import entries, head, holdouts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

__all__ = [
    "ALL_ENTRIES",
    "ALL_QUESTIONS",
    "ENTRY",
    "HASHED",
    "NAMES",
    "PAGE",
    "answered",
    "append",
    "check_reached",
    "check_sealed",
    "find_head",
    "find_holdout",
    "insert_holdout",
    "now",
    "read_entry",
    "read_head",
    "read_holdout",
    "sealed_head",
]

_LOOKUP_SIZE = 500

HASHED = ("sequence", "question", "description", "answer", "charged", "asked_at", "state_seal", "previous_hash")
"""Fields of an entry that its hash is over."""

NAMES = select(holdouts.c.name).order_by(holdouts.c.name)
ENTRY = select(entries).where(
    entries.c.holdout_id == bindparam("holdout"), entries.c.question == bindparam("fingerprint")
)
ALL_ENTRIES = select(entries).where(entries.c.holdout_id == bindparam("holdout")).order_by(entries.c.sequence)
PAGE = ALL_ENTRIES.where(entries.c.sequence > bindparam("after")).limit(bindparam("size"))
ALL_QUESTIONS = (
    select(entries.c.sequence, entries.c.question)
    .where(entries.c.holdout_id == bindparam("holdout"))
    .order_by(entries.c.sequence)
)

_HOLDOUT = select(holdouts).where(holdouts.c.name == bindparam("name"))
_HEAD = select(head).where(head.c.holdout_id == bindparam("holdout"))
_HEAD_LOCKED = _HEAD.with_for_update()  # SQLite has no row locks; there BEGIN IMMEDIATE has locked the file
_ANSWERED = select(entries).where(
    entries.c.holdout_id == bindparam("holdout"),
    entries.c.question.in_(bindparam("fingerprints", expanding=True)),
)
_INSERT_HOLDOUT = insert(holdouts)
_INSERT_HEAD = insert(head)
_INSERT_ENTRIES = insert(entries)
_MOVED = ("sequence", "charged", "state", "entry_hash", "questions_hash", "head_seal")
_MOVE_HEAD = (
    update(head)
    .where(
        head.c.holdout_id == bindparam("holdout"),
        head.c.sequence == bindparam("from_sequence"),
        head.c.entry_hash == bindparam("from_hash"),
    )
    .values({name: bindparam(f"to_{name}") for name in _MOVED})
    .returning(head.c.sequence)
)


def now() -> str:
    """The time in UTC, ISO 8601, with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def find_holdout(connection: Connection, name: str) -> dict[str, Any]:
    """The row of that holdout, or `HoldoutNotFound` with the names that exist."""
    row = connection.execute(_HOLDOUT, {"name": name}).first()
    if row is None:
        names = list(connection.scalars(NAMES))
        known = "the holdouts there are " + ", ".join(map(repr, names)) if names else "there are none yet"
        raise HoldoutNotFound(f"there is no holdout named {name!r}; {known}", name=name, names=names)
    return row._asdict()


def find_head(
    connection: Connection,
    holdout_id: str,
    *,
    locked: bool = False,
    missing: type[EverholdError] = HoldoutNotFound,
) -> dict[str, Any]:
    """The head row of that holdout; an error of type `missing` if there is none."""
    row = connection.execute(_HEAD_LOCKED if locked else _HEAD, {"holdout": holdout_id}).first()
    if row is None:
        raise missing(f"no ledger has a head for the holdout {holdout_id!r}; expected the id that `record(name)` gives")
    return row._asdict()


def insert_holdout(connection: Connection, record: HoldoutRecord, state: dict[str, Any], *, seal_key: bytes) -> Head:
    """Add a holdout and its head, at sequence 0; returns the head."""
    public = {"name": record.name, "created": record.created, "configuration": chain.canonical(record.configuration)}
    connection.execute(_INSERT_HOLDOUT, {"id": record.id, **public})
    nothing_asked = hashlib.sha256().hexdigest()
    first = Head(0, 0, chain.genesis_hash(holdout=record.id, **public), nothing_asked, state)
    connection.execute(
        _INSERT_HEAD,
        _head_fields(record.id, first, seal_key=seal_key),
    )
    return first


def sealed_head(connection: Connection, holdout_id: str, *, seal_key: bytes, locked: bool = False) -> Head:
    """The head, if it carries this key's seal: nothing is built on an altered state."""
    row = find_head(connection, holdout_id, locked=locked)
    found = read_head(row)
    if _head_fields(holdout_id, found, seal_key=seal_key) != row:
        raise IntegrityError(
            "the ledger's head does not carry the seal of this key; expected the steward's key and an unaltered "
            "ledger; nothing was charged; check the key, then verify the ledger"
        )
    return found


def answered(
    connection: Connection, holdout_id: str, questions: Sequence[Question], *, seal_key: bytes
) -> dict[str, tuple[int, str]]:
    """Sequence and answer (canonical JSON) of those questions that have an entry, by fingerprint; seals checked."""
    known: dict[str, tuple[int, str]] = {}
    for start in range(0, len(questions), _LOOKUP_SIZE):
        fingerprints = [question.fingerprint for question in questions[start : start + _LOOKUP_SIZE]]
        rows = connection.execute(_ANSWERED, {"holdout": holdout_id, "fingerprints": fingerprints})
        for row in rows:
            fields = row._asdict()
            check_sealed(fields, seal_key=seal_key)
            known[fields["question"]] = fields["sequence"], fields["answer"]
    return known


def check_reached(connection: Connection, holdout_id: str, head: Head, known: Reached, *, seal_key: bytes) -> None:
    """Check that the database's head is the newest one that is known, or goes on from there.

    Raises:
        IntegrityError: If it was set back, or went another way.
    """

    def hash_before_the_next() -> str | None:
        row = connection.execute(PAGE, {"holdout": holdout_id, "after": known.sequence, "size": 1}).first()
        return None if row is None else read_entry(row._asdict(), seal_key=seal_key).previous_hash

    known.check(Reached.of(head), hash_before_the_next)


def append(
    connection: Connection,
    holdout_id: str,
    before: Head,
    questions: Sequence[Question],
    outcomes: Sequence[Outcome],
    state: dict[str, Any],
    *,
    questions_hash: str,
    seal_key: bytes,
) -> tuple[Head, dict[str, tuple[int, str]]]:
    """Append one entry for each question and move the head; returns the head, and what `answered` would find."""
    last = before.sequence + len(questions)
    # One seal for the batch: the states between its entries never exist outside the step.
    seal = chain.state_seal(seal_key, holdout=holdout_id, sequence=last, state=chain.canonical(state))
    asked_at, previous = now(), before.entry_hash
    rows: list[dict[str, Any]] = []
    for sequence, (question, outcome) in enumerate(zip(questions, outcomes, strict=True), before.sequence + 1):
        fields: dict[str, Any] = {
            "sequence": sequence,
            "question": question.fingerprint,
            "description": chain.canonical(question.description),
            "answer": chain.canonical(outcome.answer),
            "charged": outcome.charged,
            "asked_at": asked_at,
            "state_seal": seal,
            "previous_hash": previous,
        }
        previous = chain.entry_hash(holdout=holdout_id, **fields)
        entry_seal = chain.entry_seal(seal_key, holdout=holdout_id, entry_hash=previous)
        rows.append({"holdout_id": holdout_id, **fields, "entry_hash": previous, "entry_seal": entry_seal})
    connection.execute(_INSERT_ENTRIES, rows)
    charged = before.charged + sum(outcome.charged for outcome in outcomes)
    after = Head(last, charged, previous, questions_hash, state)
    _move_head(connection, before, _head_fields(holdout_id, after, seal_key=seal_key))
    return after, {row["question"]: (row["sequence"], row["answer"]) for row in rows}


def _move_head(connection: Connection, before: Head, after: dict[str, Any]) -> None:
    expected = {"holdout": after["holdout_id"], "from_sequence": before.sequence, "from_hash": before.entry_hash}
    moved = connection.execute(_MOVE_HEAD, expected | {f"to_{name}": value for name, value in after.items()}).all()
    if len(moved) != 1:
        raise EverholdError("the ledger moved on while the question was answered; nothing was charged; ask again")


def _head_fields(holdout_id: str, at: Head, *, seal_key: bytes) -> dict[str, Any]:
    state = chain.canonical(at.state)
    public: dict[str, Any] = {
        "sequence": at.sequence, "charged": at.charged, "entry_hash": at.entry_hash,
        "questions_hash": at.questions_hash,
    }  # fmt: skip
    seal = chain.head_seal(seal_key, holdout=holdout_id, state=state, **public)
    return {"holdout_id": holdout_id, **public, "state": state, "head_seal": seal}


def read_holdout(row: Mapping[str, Any]) -> HoldoutRecord:
    """A row of `holdouts` as a value."""
    return HoldoutRecord(row["id"], row["name"], row["created"], _parse(row["configuration"]))


def read_head(row: Mapping[str, Any]) -> Head:
    """A row of `head` as a value."""
    return Head(row["sequence"], row["charged"], row["entry_hash"], row["questions_hash"], _parse(row["state"]))


def check_sealed(row: Mapping[str, Any], *, seal_key: bytes) -> None:
    """Check that a row of `entries` is what was written.

    Raises:
        IntegrityError: If it does not carry this key's seal.
    """
    fields = {name: row[name] for name in HASHED}
    entry_hash = chain.entry_hash(holdout=row["holdout_id"], **fields)
    seal = chain.entry_seal(seal_key, holdout=row["holdout_id"], entry_hash=entry_hash)
    if row["entry_hash"] != entry_hash or not hmac.compare_digest(str(row["entry_seal"]).encode(), seal.encode()):
        raise IntegrityError(
            f"entry {row['sequence']} of the ledger was altered: it does not carry the seal of this key; expected the "
            "answer as it was given; nothing was answered or charged; verify the ledger and restore a backup"
        )


def read_entry(row: Mapping[str, Any], *, seal_key: bytes) -> Entry:
    """A row of `entries` as a value, its seal checked."""
    check_sealed(row, seal_key=seal_key)
    return Entry(
        sequence=row["sequence"],
        question=row["question"],
        description=_parse(row["description"]),
        answer=_parse(row["answer"]),
        charged=row["charged"],
        asked_at=row["asked_at"],
        state_seal=row["state_seal"],
        previous_hash=row["previous_hash"],
        entry_hash=row["entry_hash"],
        entry_seal=row["entry_seal"],
    )


def _parse(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):  # the original message quotes the text
        value = None
    if not isinstance(value, dict):
        raise IntegrityError("a field of the ledger is not the JSON it was written as; verify the ledger") from None
    return value
