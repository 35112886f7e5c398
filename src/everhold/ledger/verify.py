"""Is the ledger what was written? Recomputes every hash, every sum and, with the key, the seals.

The sums are also those of every analyst, which must be within the allotment at every entry.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everhold.display import Display, html_sentences, html_table
from everhold.errors import IntegrityError
from everhold.ledger.allotments import Accounts
from everhold.ledger.chain import HASHED, canonical, entry_hash, entry_seal, holdout_hash, seal_of
from everhold.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from everhold.ledger.head_file import HeadFile
    from everhold.ledger.records import Head
    from everhold.ledger.store import LedgerStore

__all__ = ["Finding", "VerificationReport", "check_unaltered", "verify"]

_COUNTS = {"sequence", "charged"}
_JSON = {"configuration", "state", "description", "answer"}
_REPLACED = "the chain does not pass through the expected head: entries are gone or replaced"
_SET_BACK = (
    "the ledger was set back or went another way: it does not pass through entry {}, the newest one that was answered; "
    "restore the newest backup, or run 'everhold ledger recover'"
)


@dataclass(frozen=True, slots=True)
class Finding(Display):
    """Something that is not as it was written.

    Attributes:
        sequence: Number of the entry, or None for the holdout, its head or the whole file.
        what: In plain words; quotes neither state nor answers.
    """

    sequence: int | None
    what: str


@dataclass(frozen=True, slots=True)
class VerificationReport(Display):
    """What a verification found.

    Attributes:
        name: The holdout's.
        entries: How many entries were checked.
        findings: Everything that is wrong, in the order of the ledger.
        keyed: Whether the seals were checked too. Without the key, an altered state is not seen, nor a chain whose
            hashes were all computed anew from some entry to the head.
    """

    name: str
    entries: int
    findings: tuple[Finding, ...]
    keyed: bool

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """``{"holdout", "ok", "entries", "keyed", "findings"}``."""
        findings = [found.to_dict() for found in self.findings]
        return {"holdout": self.name, "ok": self.ok, "entries": self.entries, "keyed": self.keyed, "findings": findings}

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each finding."""
        return [found.to_dict() for found in self.findings]

    def __str__(self) -> str:
        said = "as it was written" if self.ok else "not as it was written"
        return f"{self.name}: {self.entries:,} entries checked{'' if self.keyed else ' without the key'}; {said}"

    def _repr_html_(self) -> str:
        return html_sentences(str(self)) + (html_table(self.to_rows()) if self.findings else "")


def verify(
    store: LedgerStore,
    name: str,
    *,
    seal_key: bytes | None,
    expected_head: tuple[int, str] | None = None,
    head_file: HeadFile | None = None,
) -> VerificationReport:
    """Check one holdout's ledger; writers are not held up meanwhile.

    Args:
        store: The open ledger.
        name: The holdout's name.
        seal_key: The steward's key, to check the seals as well; None leaves them out.
        expected_head: Sequence and entry hash from an earlier certificate.
        head_file: The newest head, beside the steward's key. Only this and a certificate show that the whole database
            was replaced by an older copy of itself.

    Raises:
        HoldoutNotFound: If there is no such holdout.
        IntegrityError: If the file is so damaged that it cannot be read.
    """
    newest = None if head_file is None else head_file.find()  # before the database: it is never ahead of it
    with store.snapshot(name) as snapshot:
        findings = [Finding(None, f"the database finds its file damaged: {what}") for what in snapshot.damage]
        if head_file is not None and newest is None:
            missing = f"{head_file.path.name} beside the steward's key, the newest head, is missing or was altered"
            findings.append(Finding(None, missing))
        holdout = snapshot.holdout
        malformed = [Finding(None, f"the holdout {what}") for what in _malformed(holdout)]
        public = {field: holdout[field] for field in ("name", "created", "configuration")}
        start = "" if malformed else holdout_hash(holdout=holdout["id"], **public)
        walk = _Walk(str(holdout["id"]), start, seal_key)
        if expected_head is not None:
            walk.expect(
                expected_head, "the chain does not pass through the expected head: entries are gone or replaced"
            )
        if newest is not None:
            walk.expect((newest.sequence, newest.entry_hash), _SET_BACK.format(newest.sequence))
        findings += malformed
        with progress("checking the ledger", _count(snapshot.head)) as line:
            for row in snapshot.entries:
                findings += walk.step(row)
                line(walk.entries)
        findings += [Finding(None, f"the head {what}") for what in _head_findings(snapshot.head, walk)]
    if newest is not None and walk.accounts.generation > newest.generation:  # it went on from before the newest head
        walk.unmet.pop(_SET_BACK.format(newest.sequence), None)
    findings += [Finding(None, what) for what in walk.unmet]
    return VerificationReport(str(holdout["name"]), walk.entries, tuple(findings), keyed=seal_key is not None)


def _count(head: Mapping[str, Any]) -> int | None:
    """How many entries there should be; None if the head does not say."""
    said = head["sequence"]
    return said if isinstance(said, int) else None


def check_unaltered(store: LedgerStore, name: str, head: Head, *, seal_key: bytes) -> None:
    """Check everything up to a head before somebody signs for it.

    Raises:
        IntegrityError: If anything is not as it was written.
    """
    at = (head.sequence, head.entry_hash)
    report = verify(store, name, seal_key=seal_key, expected_head=at)
    if not report.ok:
        found = report.findings[0]
        where = "" if found.sequence is None else f"entry {found.sequence}: "
        raise IntegrityError(
            f"the ledger is not what was written: {where}{found.what}; expected an unaltered ledger; nothing was "
            "signed; restore a backup"
        )


@dataclass(slots=True)
class _Walk:
    """What has to be remembered from one entry to the next."""

    holdout: str
    previous: str
    seal_key: bytes | None
    entries: int = 0
    sequence: int = 0
    charged: int = 0
    state_seal: str | None = None
    unmet: dict[str, tuple[int, str]] = field(default_factory=dict)
    questions: set[str] = field(default_factory=set)
    questions_hash: Any = field(default_factory=hashlib.sha256)
    accounts: Accounts = field(default_factory=Accounts)

    def expect(self, head: tuple[int, str], otherwise: str) -> None:
        """The chain has to pass through a head; what to say if it does not."""
        if head != (0, self.previous):
            self.unmet[otherwise] = head

    def step(self, row: Mapping[str, Any]) -> Iterator[Finding]:
        """Take one entry and say what is wrong with it."""
        self.entries += 1
        expected = self.sequence + 1
        malformed = list(_malformed(row))
        if malformed:  # its fields cannot be trusted; go on as if it were the entry expected here
            self.sequence, self.previous = expected, str(row["entry_hash"])
            self.questions_hash.update(str(row["question"]).encode(errors="replace"))
            yield from (Finding(expected, f"the entry {what}") for what in malformed)
            return
        number = row["sequence"]
        if number != expected:
            yield Finding(number, f"the entry is number {number}, expected {expected}: entries are missing or added")
        if row["previous_hash"] != self.previous:
            yield Finding(number, "the entry does not continue the one before it")
        if row["entry_hash"] != entry_hash(holdout=self.holdout, **{name: row[name] for name in HASHED}):
            yield Finding(number, "the entry was altered: its hash is not that of its fields")
        if self.seal_key is not None:
            seal = entry_seal(self.seal_key, holdout=self.holdout, entry_hash=row["entry_hash"])
            if not hmac.compare_digest(seal.encode(), row["entry_seal"].encode()):
                yield Finding(number, "the entry does not carry the seal of this key")
        if row["question"] in self.questions:
            yield Finding(number, "the entry's question had been answered before")
        broken = self.accounts.replay(json.loads(row["description"]), json.loads(row["answer"]), row["charged"])
        if broken is not None:
            yield Finding(number, broken)
        self.sequence, self.previous, self.state_seal = row["sequence"], row["entry_hash"], row["state_seal"]
        self.charged += row["charged"]
        self.questions.add(row["question"])
        self.questions_hash.update(row["question"].encode())
        self.unmet = {what: head for what, head in self.unmet.items() if head != (self.sequence, self.previous)}


def _head_findings(head: Mapping[str, Any], walk: _Walk) -> Iterator[str]:
    malformed = list(_malformed(head))
    if malformed:
        yield from malformed
        return
    if head["sequence"] != walk.sequence:
        yield f"is at entry {head['sequence']}, but the last entry is number {walk.sequence}"
    if head["entry_hash"] != walk.previous:
        yield "does not carry the hash of the last entry"
    if head["charged"] != walk.charged:
        yield f"says that {head['charged']} was charged, but the entries add up to {walk.charged}"
    if head["questions_hash"] != walk.questions_hash.hexdigest():
        yield "was written for other questions than those of the entries"
    if not walk.accounts.agree_with(json.loads(head["state"])):
        yield "has allotments, spending of them, gates or submissions that do not follow from the entries"
    if walk.seal_key is None:
        return
    fields = {name: value for name, value in head.items() if name not in ("holdout_id", "head_seal")}
    seal = seal_of(walk.seal_key, holdout=walk.holdout, **fields)
    if not hmac.compare_digest(seal.encode(), head["head_seal"].encode()):
        yield "does not carry the seal of this key: it was altered, or the key is another one"
    expected = seal_of(walk.seal_key, holdout=walk.holdout, sequence=head["sequence"], state=head["state"])
    if walk.state_seal is not None and not hmac.compare_digest(expected.encode(), walk.state_seal.encode()):
        yield "has a state that is not the one sealed in the last entry"


def _malformed(row: Mapping[str, Any]) -> Iterator[str]:
    """Fields of a wrong type, and JSON that is not written in the one canonical way."""
    for name, value in row.items():
        if name in _COUNTS:
            if type(value) is not int or value < 0:
                yield f"has a {name} that is not a count"
        elif name in _JSON:
            if not _is_canonical(value):
                yield f"has a {name} that is not canonical JSON"
        elif type(value) is not str:
            yield f"has a {name} that is not text"


def _is_canonical(value: object) -> bool:
    try:
        return isinstance(value, str) and value.startswith("{") and canonical(json.loads(value)) == value
    except (ValueError, RecursionError):
        return False
