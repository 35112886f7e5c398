"""Verification of a ledger: recomputes every hash, every sum and, with the key, the seals.

It also checks that each analyst's spending is within the analyst's allotment at every entry.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from everhold.display import Display, html_sentences, html_table
from everhold.errors import EverholdError, IntegrityError
from everhold.ledger.acts import ARRIVAL, Accounts, EntryCounts, Head
from everhold.ledger.chain import HASHED, HashedEntry, entry_hash, holdout_hash, seal_of
from everhold.ledger.checkpoints import Checkpoint
from everhold.progress import progress
from everhold.strict_json import canonical_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from everhold.ledger.head_file import HeadFile
    from everhold.ledger.store import LedgerStore, Snapshot

READ_AGAIN = 20_000
"""So many entries are read again for every certificate: it takes a second."""

_COUNTS = {"sequence", "charged"}
_JSON = {"configuration", "state", "description", "answer"}
_REPLACED = "the chain does not pass through the expected head: entries are gone or replaced"
_SET_BACK = (
    "the ledger was set back or diverged: it does not contain entry {}, the newest that "
    "was answered. Restore the newest backup, or run 'everhold ledger recover'"
)


@dataclass(frozen=True, slots=True)
class LedgerFinding(Display):
    """One fault of a ledger, with the entry in which it was found.

    Attributes:
        sequence: Number of the entry, or None for the holdout, its head or the whole file.
        what: Description of the fault in plain words. It quotes neither state nor answers.
    """

    sequence: int | None
    what: str


@dataclass(frozen=True, slots=True)
class VerificationReport(Display):
    """Result of a ledger's verification, with all findings.

    Attributes:
        name: Name of the holdout.
        entries: Number of entries that were checked.
        findings: All faults that were found, in the order of the ledger.
        keyed: Whether the seals were checked too. Without the key, an altered state is not found, and neither is a
            chain whose hashes were computed anew from some entry to the head.
        arrivals: Descriptions of the entries by which rows arrived, in order.
    """

    rows_in: ClassVar[str] = "findings"

    name: str
    entries: int
    findings: tuple[LedgerFinding, ...]
    keyed: bool
    arrivals: tuple[Mapping[str, Any], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the verification found no fault."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Return the report as ``{"holdout", "ok", "entries", "keyed", "findings"}``."""
        findings = [found.to_dict() for found in self.findings]
        return {"holdout": self.name, "ok": self.ok, "entries": self.entries, "keyed": self.keyed, "findings": findings}

    def __str__(self) -> str:
        said = "as it was written" if self.ok else "not as it was written"
        return f"{self.name}: {self.entries:,} entries checked{'' if self.keyed else ' without the key'}, {said}"

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
    """Check every entry of one holdout's ledger. Writers are not blocked meanwhile.

    If a long ledger is unaltered, a checkpoint is stored in it, so that the next certificate need not read it from the
    beginning.

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
    findings = []
    if head_file is not None and newest is None:
        missing = (
            f"{head_file.path.name} beside the steward's key, which records the last entry, is missing or was altered"
        )
        findings.append(LedgerFinding(None, missing))
    with store.snapshot(name) as snapshot:
        walk = _Walk.of(snapshot, seal_key)
        if expected_head is not None:
            walk.expect(expected_head, _REPLACED)
        if newest is not None:
            walk.expect((newest.sequence, newest.entry_hash), _SET_BACK.format(newest.sequence))
        findings += _everything(snapshot, walk)
    generation = walk.accounts.lost.generation
    if newest is not None and generation > newest.generation:  # it went on from before the newest head
        walk.unmet.pop(_SET_BACK.format(newest.sequence), None)
    findings += [LedgerFinding(None, what) for what in walk.unmet]
    if not findings:
        _keep_checkpoint(store, walk)
    name, keyed = str(snapshot.holdout["name"]), seal_key is not None
    return VerificationReport(name, walk.entries, tuple(findings), keyed=keyed, arrivals=tuple(walk.arrivals))


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a verification without findings, up to a certain head.

    Attributes:
        counts: Sums over all entries.
        since: The checkpoint after which entries were read. None if all entries were read.
    """

    counts: EntryCounts
    since: Checkpoint | None


def check_unaltered(store: LedgerStore, name: str, head: Head, *, seal_key: bytes) -> Checked:
    """Check that all entries up to a head are unaltered, before the head is signed.

    If there are more than `READ_AGAIN` entries, only those after the latest checkpoint are read, and the fingerprints
    of all queries. The sums are those of the entries as they were written, even if earlier entries were altered since.

    Raises:
        IntegrityError: If anything was altered or is damaged.
    """
    with store.snapshot(name) as snapshot:
        walk, since = _Walk.of(snapshot, seal_key), None
        if head.sequence > READ_AGAIN and (stored := _stored_checkpoint(snapshot, walk)) is not None:
            entry = snapshot.entry(stored.sequence) if stored.sequence <= head.sequence else None
            if entry is not None and entry["entry_hash"] == stored.entry_hash:  # the chain passes through it
                since = stored
        if since is not None:
            first = snapshot.entry(1)  # bound to the name and the settings of the holdout
            findings = [LedgerFinding(1, "the entry is missing")] if first is None else [*walk.step(first)]
            walk = _Walk.after(since, walk.holdout, seal_key, snapshot.queries(since.sequence))
        walk.mark(head.sequence)
        walk.expect((head.sequence, head.entry_hash), _REPLACED)
        findings = _everything(snapshot, walk) if since is None else [*findings, *_walked(snapshot, walk)]
    findings += [LedgerFinding(None, what) for what in walk.unmet]
    if findings:
        found = findings[0]
        where = "" if found.sequence is None else f"entry {found.sequence}: "
        raise IntegrityError(
            f"The ledger was altered or is damaged: {where}{found.what}. Nothing was signed. Restore a backup."
        )
    _keep_checkpoint(store, walk)
    return Checked(EntryCounts.from_dict(walk.marks[head.sequence].tally), since)


def _everything(snapshot: Snapshot, walk: _Walk) -> list[LedgerFinding]:
    """Check the file, the holdout, all entries, the head and the checkpoint."""
    stored = _stored_checkpoint(snapshot, walk)
    walk.mark(snapshot.head["sequence"])
    if stored is not None:
        walk.mark(stored.sequence)
    return [
        *(LedgerFinding(None, f"the database finds its file damaged: {what}") for what in snapshot.damage()),
        *(LedgerFinding(None, f"the holdout {what}") for what in _malformed(snapshot.holdout)),
        *_walked(snapshot, walk),
        *(LedgerFinding(None, f"the checkpoint {what}") for what in _checkpoint_findings(snapshot, stored, walk)),
    ]


def _walked(snapshot: Snapshot, walk: _Walk) -> Iterator[LedgerFinding]:
    """Check the entries that were not checked yet, and the ledger's head. Yield a finding for each fault."""
    said = snapshot.head["sequence"]  # the number of entries there should be, if it is one
    with progress("checking the ledger", said if isinstance(said, int) else None) as line:
        for row in snapshot.entries(walk.sequence or None):
            yield from walk.step(row)
            line(walk.sequence)
    yield from (LedgerFinding(None, f"the head {what}") for what in _head_findings(snapshot.head, walk))


def _stored_checkpoint(snapshot: Snapshot, walk: _Walk) -> Checkpoint | None:
    """Return the stored checkpoint if it has a valid seal of this key, else None."""
    if snapshot.checkpoint is None or walk.seal_key is None:
        return None
    return Checkpoint.read(snapshot.checkpoint, holdout=walk.holdout, seal_key=walk.seal_key)


def _checkpoint_findings(snapshot: Snapshot, stored: Checkpoint | None, walk: _Walk) -> Iterator[str]:
    """Yield texts about faults of the checkpoint. A checkpoint from before a recovery is not checked."""
    if stored is None:
        if snapshot.checkpoint is not None and walk.seal_key is not None:
            yield "was altered: it does not carry the seal of this key"
        return
    here = walk.marks.get(stored.sequence)
    if here is not None and here.entry_hash == stored.entry_hash and not here.same_sums(stored):
        yield f"says something else than what the first {stored.sequence} entries add up to"


def _keep_checkpoint(store: LedgerStore, walk: _Walk) -> None:
    """Write a checkpoint if many entries were read. A database that cannot be written is left as it is."""
    if walk.seal_key is None or walk.entries < READ_AGAIN:
        return
    newest = walk.marks[max(walk.marks)]
    with suppress(EverholdError):
        newest.keep(store.database, holdout=walk.holdout, seal_key=walk.seal_key)


@dataclass(slots=True)
class _Walk:
    """State of a verification that checks one entry after the other."""

    holdout: str
    previous: str
    seal_key: bytes | None
    entries: int = 0
    sequence: int = 0
    charged: int = 0
    state_seal: str | None = None
    unmet: dict[str, tuple[int, str]] = field(default_factory=dict)
    queries: set[str] = field(default_factory=set)
    queries_hash: Any = field(default_factory=hashlib.sha256)
    accounts: Accounts = field(default_factory=Accounts)
    counts: EntryCounts = field(default_factory=EntryCounts)
    marked_at: set[int] = field(default_factory=set)
    marks: dict[int, Checkpoint] = field(default_factory=dict)
    arrivals: list[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, snapshot: Snapshot, seal_key: bytes | None) -> Self:
        """Return the state of a verification before the first entry."""
        holdout = snapshot.holdout
        public = {name: holdout[name] for name in ("name", "created", "configuration")}
        start = "" if any(_malformed(holdout)) else holdout_hash(holdout=holdout["id"], **public)
        return cls(str(holdout["id"]), start, seal_key)

    @classmethod
    def after(cls, checkpoint: Checkpoint, holdout: str, seal_key: bytes | None, queries: Iterable[str]) -> Self:
        """Return the state of a verification after a checkpoint's entry."""
        walk = cls(holdout, checkpoint.entry_hash, seal_key, 0, checkpoint.sequence, checkpoint.charged)
        walk.accounts, walk.counts = Accounts.from_state(checkpoint.accounts), EntryCounts.from_dict(checkpoint.tally)
        for text in queries:
            walk.queries_hash.update(text.encode(errors="replace"))
        return walk

    def expect(self, head: tuple[int, str], otherwise: str) -> None:
        """Add the sequence and hash of an entry that the chain must contain, and the finding to report otherwise."""
        if head != (self.sequence, self.previous):
            self.unmet[otherwise] = head

    def mark(self, sequence: int) -> None:
        """Remember to record a checkpoint of the state after the entry with this number."""
        self.marked_at.add(sequence)
        self._mark_here()

    def _mark_here(self) -> None:
        if self.sequence in self.marked_at:
            made = Checkpoint.now(self.sequence, self.previous, self.charged, self.accounts, self.counts)
            self.marks[self.sequence] = made

    def step(self, row: Mapping[str, Any]) -> Iterator[LedgerFinding]:
        """Check one entry, and yield a finding for each fault."""
        self.entries += 1
        expected = self.sequence + 1
        try:
            known = entry_hash(HashedEntry(self.holdout, *[row[name] for name in HASHED]))
        except (TypeError, ValueError):  # a field has a wrong type
            known = None
        sealed = known is not None and known == row["entry_hash"] and _carries_seal(row, self.holdout, self.seal_key)
        read = {name: canonical_object(row[name], sealed=sealed) for name in ("description", "answer")}
        description, answer = read.values()
        malformed = list(_malformed(row, read))
        if (
            malformed or description is None or answer is None
        ):  # its fields cannot be trusted; go on as if it were the entry expected here
            self.sequence, self.previous = expected, str(row["entry_hash"])
            self.queries_hash.update(str(row["query"]).encode(errors="replace"))
            yield from (LedgerFinding(expected, f"the entry {what}") for what in malformed)
            return
        number = row["sequence"]
        if number != expected:
            yield LedgerFinding(
                number, f"the entry is number {number}, expected {expected}: entries are missing or added"
            )
        if row["previous_hash"] != self.previous:
            yield LedgerFinding(number, "the entry does not continue the one before it")
        if row["entry_hash"] != known:
            yield LedgerFinding(number, "the entry was altered: its hash is not that of its fields")
        if not sealed and self.seal_key is not None and not _carries_seal(row, self.holdout, self.seal_key):
            yield LedgerFinding(number, "the entry does not carry the seal of this key")
        if row["query"] in self.queries:
            yield LedgerFinding(number, "the entry's query had been answered before")
        broken = self.accounts.replay(description, answer, row["charged"])
        if broken is not None:
            yield LedgerFinding(number, broken)
        elif answer.get("source") == ARRIVAL:
            self.arrivals.append(description)
        self.sequence, self.previous, self.state_seal = row["sequence"], row["entry_hash"], row["state_seal"]
        self.charged += row["charged"]
        self.queries.add(row["query"])
        self.queries_hash.update(row["query"].encode())
        self.counts.take(number, description, answer)
        if self.unmet:
            self.unmet = {what: head for what, head in self.unmet.items() if head != (number, self.previous)}
        self._mark_here()


def _carries_seal(row: Mapping[str, Any], holdout: str, seal_key: bytes | None) -> bool:
    """Return whether an entry has a valid seal for this key, False without a key."""
    if seal_key is None or not isinstance(row["entry_seal"], str):
        return False
    seal = seal_of(seal_key, holdout=holdout, entry=row["entry_hash"])
    return hmac.compare_digest(seal.encode(), row["entry_seal"].encode())


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
    if head["queries_hash"] != walk.queries_hash.hexdigest():
        yield "was written for other queries than those of the entries"
    if not walk.accounts.agree_with(json.loads(head["state"])):
        kept = ["allotments", "spending of them", *walk.accounts.extensions]
        yield f"has {', '.join(kept)} that do not follow from the entries"
    if walk.seal_key is None:
        return
    fields = {name: value for name, value in head.items() if name != "head_seal"}
    seal = seal_of(walk.seal_key, holdout=walk.holdout, **fields)
    if not hmac.compare_digest(seal.encode(), head["head_seal"].encode()):
        yield "does not carry the seal of this key: it was altered, or the key is another one"
    expected = seal_of(walk.seal_key, holdout=walk.holdout, sequence=head["sequence"], state=head["state"])
    if walk.state_seal is not None and not hmac.compare_digest(expected.encode(), walk.state_seal.encode()):
        yield "has a state that is not the one sealed in the last entry"


def _malformed(row: Mapping[str, Any], read: Mapping[str, object] | None = None) -> Iterator[str]:
    """Yield texts about the fields of a row that have a wrong type or hold JSON that is not canonical."""
    for name, value in row.items():
        if name in _COUNTS:
            if type(value) is not int or value < 0:
                yield f"has a {name} that is not a count"
        elif name in _JSON:
            if (canonical_object(value) if read is None else read[name]) is None:
                yield f"has a {name} that is not canonical JSON"
        elif type(value) is not str:
            yield f"has a {name} that is not text"
