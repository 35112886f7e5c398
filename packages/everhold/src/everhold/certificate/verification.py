"""Verification of a certificate without a network: what was signed, and what its theorem gives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.certificate.document import (
    ALGORITHM,
    Certificate,
    digest,
    signed_message,
    software_version,
    stamped_digest,
)
from everhold.certificate.findings import fact_findings, number_findings
from everhold.certificate.form import SECTIONS, SIGNATURE, TIMESTAMP, Malformed, is_hex, misshapen, read_document
from everhold.certificate.outline import simulated
from everhold.certificate.page import render_page
from everhold.certificate.timestamps import roots_from, stamp_findings
from everhold.display import Display
from everhold.errors import EverholdError
from everhold.sealing.storage import signature_holds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from cryptography.x509 import Certificate as Root

_LONGEST_VERSION = 40
_SECTION_BEGINS = re.compile(r'<section id="everhold-(\w+)">')


@dataclass(frozen=True, slots=True)
class CertificateReport(Display):
    """Result of a certificate's verification.

    Attributes:
        findings: Everything that is wrong, in plain words; empty if nothing is.
        certificate: The certificate; None if the file does not hold one.
        notes: What the reader should know although it is not wrong.
        unchecked: What this version of everhold could not check, in plain words; empty if all was checked.
        trusted_time: When it was signed, as a time-stamping authority states it that one of the given roots stands
            behind; None without such a statement.
        promise: The promise in one sentence; None if there is no certificate, or its facts cannot be worded.
    """

    findings: tuple[str, ...]
    certificate: Certificate | None
    notes: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    trusted_time: str | None = None
    promise: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything was checked and nothing is wrong."""
        return not self.findings and not self.unchecked

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"ok", "findings", "unchecked", "notes", "promise", "public_key", "trusted_time"}``."""
        certificate = self.certificate
        return {
            "ok": self.ok,
            "findings": list(self.findings),
            "unchecked": list(self.unchecked),
            "notes": list(self.notes),
            "promise": self.promise,
            "public_key": None if certificate is None else certificate.public_key,
            "trusted_time": self.trusted_time,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return ``{"kind", "what"}`` for each line, findings first."""
        rows = [{"kind": "finding", "what": what} for what in self.findings]
        rows += [{"kind": "unchecked", "what": what} for what in self.unchecked]
        rows = rows or [{"kind": "result", "what": "nothing is wrong"}]
        return rows + [{"kind": "note", "what": what} for what in self.notes]


def verify_certificate(
    path: Path | str, *, public_key: str | None = None, timestamp_roots: bytes | None = None
) -> CertificateReport:
    """Verify a certificate without network, ledger or rows.

    Checks the form, the signature, the digest of every section, the facts against each other, the numbers against the
    theorem evaluated anew, and of a page every character: what is signed are facts, and each text is made from them
    when it is read. A hostile file gives findings, never an error.

    A page of another version of everhold may have other words. This version cannot tell an older wording from a false
    one: it says so in ``unchecked``, and the certificate is not ``ok``. The JSON file has no words.

    Args:
        path: A ``.json`` or ``.html`` file.
        public_key: The steward's key in hex, from a source that you trust. Without it, the signature shows only that
            nothing was altered since it was signed.
        timestamp_roots: Root certificates of time-stamping authorities, the content of a PEM file from a source that
            you trust; then there has to be a trusted time, and one of them has to stand behind it. Without them, it is
            only said that there is one, and which.

    Raises:
        ValueError: If `public_key` is not a key, or `timestamp_roots` holds no certificates.
        EverholdError: If there are `timestamp_roots` and the package that reads a trusted time is missing.
    """
    roots = None if timestamp_roots is None else roots_from(timestamp_roots)
    if public_key is not None:
        public_key = public_key.strip().lower()
        if not is_hex(public_key, 64):
            raise ValueError("public_key is malformed. Pass 64 hexadecimal digits.")
    try:
        document, page = read_document(path)
    except Malformed as fault:
        return CertificateReport((str(fault),), None)
    faults = tuple(misshapen(document))
    if faults:
        return CertificateReport(faults, None)
    certificate, promise = Certificate(document), None
    computed, misworded = number_findings(document)
    findings = [*_signature_findings(document, public_key), *fact_findings(document), *computed]
    try:
        promise, expected = certificate.promise, render_page(document)
    except Exception:  # facts from a hostile file may be anything of the right type
        findings.append("the facts are such that no certificate could be worded from them")
    else:
        if page not in (None, expected):
            where = _section_at(page, expected)
            misworded.append(f"the page's text differs from the signed content, {where}")
    unchecked: list[str] = []
    if document["issue"]["version"] != software_version() and misworded:
        misworded, unchecked = [], [_of_another_version(document, misworded, signed=not findings)]
    untimely, unread = _time_findings(document, roots)
    findings += misworded
    notes = [*_notes(document, public_key), *_time_notes(certificate, trusted=roots is not None and not untimely)]
    return CertificateReport(
        tuple(findings + untimely), certificate, tuple(notes), tuple(unchecked + unread), promise=promise,
        trusted_time=None if roots is None or findings or untimely else certificate.claimed_time,
    )  # fmt: skip


def listed_report(path: Path, *, name: str, public_key: str | None) -> dict[str, Any]:
    """Return the report about a stranger's file as plain data. The worker of `everhold.untrusted` runs this."""
    return verify_certificate(path, public_key=public_key).to_dict()


def _signature_findings(document: Mapping[str, Any], public_key: str | None) -> Iterator[str]:
    signature = document[SIGNATURE]
    if signature["algorithm"] != ALGORITHM:
        yield "the signature names an algorithm that this everhold does not know"
    if set(signature["digests"]) != set(SECTIONS):
        yield "the signature does not cover exactly the sections of a certificate"
    for name in SECTIONS:
        if digest(document[name]) != signature["digests"].get(name):
            yield f"the section {name!r} was altered: it is not the one that was signed"
    message = signed_message(document)
    if not signature_holds(message, signature=signature["value"], public_key=signature["public_key"]):
        yield "the signature does not hold: the key, the digests or the signature itself were altered"
    if public_key is not None and signature["public_key"] != public_key:
        yield "it was signed with another key than the one expected"


def _time_findings(document: Mapping[str, Any], roots: Sequence[Root] | None) -> tuple[list[str], list[str]]:
    """Return the faults of the trusted time, and the parts of it that could not be checked."""
    if TIMESTAMP not in document:
        return ([] if roots is None else ["there is no trusted time in it, and one was expected"]), []
    try:
        return stamp_findings(document[TIMESTAMP], stamped_digest(document), roots), []
    except EverholdError as fault:  # the package is missing
        if roots is not None:
            raise
        return [], [f"its trusted time was not read: {fault.message}"]


def _time_notes(certificate: Certificate, *, trusted: bool) -> Iterator[str]:
    if certificate.claimed_time is None:
        return
    if trusted:
        yield f"a time-stamping authority that you trust states that it was signed by {certificate.claimed_time}"
    else:
        yield (
            f"its trusted time, {certificate.claimed_time}, was not checked against the "
            "root of an authority, so anybody could have made it"
        )


def _of_another_version(document: Mapping[str, Any], misworded: Sequence[str], *, signed: bool) -> str:
    version = document["issue"]["version"][:_LONGEST_VERSION]
    held = "the signature and the numbers hold, but " if signed else ""
    return (
        f"{held}{' and '.join(misworded)}. Its words are those of version {version!r} and "
        f"were not checked by this version, {software_version()!r}: they may be older, "
        "newer or false. Check it with the version it names"
    )


def _section_at(page: str, expected: str) -> str:
    """Say in words from which section on two pages differ."""
    differ = (place for place, (found, wanted) in enumerate(zip(page, expected, strict=False)) if found != wanted)
    same = next(differ, min(len(page), len(expected)))
    before = expected[:same]
    begun = _SECTION_BEGINS.findall(before)
    if "</article>" in before:
        return "after the last section"
    return f"from the section {begun[-1]!r} on" if begun else "before the first section"


def _notes(document: Mapping[str, Any], public_key: str | None) -> Iterator[str]:
    if document["issue"]["simulation"]:
        yield f"this is a simulation: {simulated(document)}"
    if public_key is None:
        yield (
            f"it was signed with the key {document[SIGNATURE]['public_key']}. Compare that "
            "with the steward's key, because anyone can sign with another key"
        )
    listed = "queries" in document["account"]
    all_of = "all answers are listed in it. Check them" if listed else (
        "answers are in it only where its first page shows them. Check all of them"
    )  # fmt: skip
    yield f"{all_of} against the ledger with the certificate's ledger head"
