"""Is a certificate what was signed, and does it promise what its theorem gives? Offline, and never an error."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.certificate.account_findings import account_findings, query_findings, summary_findings
from everhold.certificate.document import (
    ALGORITHM,
    SOFTWARE,
    Certificate,
    digest,
    left_of,
    signed_message,
    software_version,
    stamped_digest,
)
from everhold.certificate.form import SECTIONS, SIGNATURE, TIMESTAMP, facts_of, is_hex, misshapen
from everhold.certificate.number_findings import mechanism_of, promise_findings, state_of, unreachable_findings
from everhold.certificate.page import render_page
from everhold.certificate.reading import Malformed, read_document
from everhold.certificate.sections import add_sections
from everhold.certificate.timestamps import roots_from, stamp_findings
from everhold.dependence import MODELS
from everhold.display import Display
from everhold.errors import EverholdError
from everhold.estimand import PUBLIC
from everhold.mechanisms import MECHANISMS
from everhold.sealing.storage import signature_holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cryptography.x509 import Certificate as Root

_LONGEST_VERSION = 40
_SECTION_BEGINS = re.compile(r'<section id="everhold-(\w+)">')


@dataclass(frozen=True, slots=True)
class CertificateReport(Display):
    """Report of a verification.

    Attributes:
        findings: Everything that is wrong, in plain words; empty if nothing is.
        certificate: The certificate; None if the file does not hold one.
        notes: What the reader should know although it is not wrong.
        unchecked: What this version of everhold could not check, in plain words; empty if all was checked.
        trusted_time: When it was signed, as a time-stamping authority states it that one of the given roots stands
            behind; None without such a statement.
    """

    findings: tuple[str, ...]
    certificate: Certificate | None
    notes: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    trusted_time: str | None = None

    @property
    def ok(self) -> bool:
        """True if everything was checked and nothing is wrong."""
        return not self.findings and not self.unchecked

    def to_dict(self) -> dict[str, Any]:
        """``{"ok", "findings", "unchecked", "notes", "promise", "public_key", "trusted_time"}``."""
        certificate = self.certificate
        return {
            "ok": self.ok,
            "findings": list(self.findings),
            "unchecked": list(self.unchecked),
            "notes": list(self.notes),
            "promise": None if certificate is None else certificate.promise,
            "public_key": None if certificate is None else certificate.public_key,
            "trusted_time": self.trusted_time,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """``{"kind", "what"}``, findings first."""
        rows = [{"kind": "finding", "what": what} for what in self.findings]
        rows += [{"kind": "unchecked", "what": what} for what in self.unchecked]
        rows = rows or [{"kind": "result", "what": "nothing is wrong"}]
        return rows + [{"kind": "note", "what": what} for what in self.notes]


def verify_certificate(
    path: Path | str, *, public_key: str | None = None, timestamp_roots: bytes | None = None
) -> CertificateReport:
    """Check a certificate without network, ledger or rows.

    Checks the form, the signature, the digest of every section, that the words say what the facts give, the numbers
    against the theorem evaluated anew, and of a page every character. A hostile file gives findings, never an error.

    The words of another version of everhold are checked like its own. Where they differ, this version cannot tell an
    older wording from a false one: it says so in ``unchecked``, and the certificate is not ``ok``.

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
            raise ValueError("the expected public key is malformed; expected 64 hexadecimal digits")
    try:
        document, page = read_document(path)
    except Malformed as fault:
        return CertificateReport((str(fault),), None)
    faults = tuple(misshapen(document))
    if faults:
        return CertificateReport(faults, None)
    findings, unchecked = [*_signature_findings(document, public_key), *_findings_in_facts(document)], []
    computed, misworded = _content(document)
    findings += computed
    if document["issue"]["version"] == software_version():
        findings += misworded.values()
    elif misworded:
        unchecked.append(_words_of_another_version(document, misworded, signed=not findings))
    if page is not None:
        findings += _page_findings(page, document)
    untimely, unread = _time_findings(document, roots)
    certificate = Certificate(document)
    notes = [*_notes(certificate, public_key), *_time_notes(certificate, trusted=roots is not None and not untimely)]
    return CertificateReport(
        tuple(findings + untimely), certificate, tuple(notes), tuple(unchecked + unread),
        trusted_time=None if roots is None or findings or untimely else certificate.claimed_time,
    )  # fmt: skip


def listed_report(path: Path, *, name: str, public_key: str | None) -> dict[str, Any]:
    """The report about a stranger's file as plain data; run by the worker of `everhold.untrusted`."""
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
    """Faults of the trusted time, and parts of it that could not be checked."""
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
            f"it carries a trusted time, {certificate.claimed_time}, that was not checked against the root of an "
            "authority; anybody could have made it"
        )


def _findings_in_facts(document: Mapping[str, Any]) -> Iterator[str]:
    """Faults of the facts that do not depend on the mechanism's statement."""
    yield from account_findings(document)
    yield from _estimand_findings(document)
    yield from _rows_findings(document)
    yield from query_findings(document)
    yield from summary_findings(document)
    if document["issue"]["software"] != SOFTWARE:
        yield f"it names another software than {SOFTWARE}"


def _content(document: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Faults of the numbers, and by section faults of the words that this everhold would not write."""
    findings: list[str] = []
    misworded: dict[str, str] = {}
    try:
        said = add_sections(facts_of(document))
    except Exception:  # facts from a hostile file may be anything of the right type
        findings.append("the facts are such that no certificate could be worded from them")
    else:
        misworded = {
            name: f"the words of the section {name!r} are not what everhold says about its facts"
            for name in SECTIONS if said[name] != document[name]
        }  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mechanism = mechanism_of(document)
            promise = mechanism.promise()
            state, closed = state_of(document), "unsealed" in document["account"]
            left = left_of(mechanism, state, closed=closed)
            unreachable = list(unreachable_findings(document, mechanism))
    except Exception:  # parameters from a hostile file may break numerical code anywhere
        findings.append(
            "the half-width cannot be computed anew: the mechanism's parameters or the dependence are impossible"
        )
        return findings, misworded
    findings += [*promise_findings(document, mechanism, promise), *unreachable]
    if document["account"]["left"] != left:
        findings.append("what is left of the budget does not follow from what was asked and charged")
    if document["assumptions"]["stated"] != list(promise.assumptions):
        misworded["assumptions"] = "the assumptions are not those of the promise"
    return findings, misworded


def _words_of_another_version(document: Mapping[str, Any], sections: Iterable[str], *, signed: bool) -> str:
    version = document["issue"]["version"][:_LONGEST_VERSION]
    held = "the signature and the numbers hold, but the wording" if signed else "the wording"
    named = ", ".join(map(repr, sections))
    return (
        f"{held} of {named} belongs to version {version!r} and was not checked here, by version "
        f"{software_version()!r}: these may be older or newer words, or false ones; check it with the version it names"
    )


def _estimand_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """True if the value that is promised is one that can be: what is refused at creation and when it is asked."""
    rows, kind = document["rows"], MECHANISMS.get(document["mechanism"]["name"])
    model = MODELS.get(str(document["assumptions"]["dependence"].get("kind")))
    given_features = model is not None and model.holds_given_features
    one_law, by_position = kind is not None and kind.traits.one_law, document["account"]["by_position"]
    if rows["features"] == PUBLIC and (rows["label"] is None or one_law or not given_features):
        yield "the features are said to be public, and with these rows and this mechanism nothing is promised then"
    if by_position and (rows["label"] is None or one_law or not given_features):
        yield "there are answers about predictions by position, and for these rows and this mechanism they are refused"
    if (column := rows.get("stratified")) is not None:
        dependent = document["assumptions"]["dependence"].get("kind") != "independent"
        known = column in [name for name, _ in rows["columns"]]
        if not known or dependent or one_law or (rows["features"] == PUBLIC and column == rows["label"]):
            yield "the rows are said to be split by a column, and with these rows and this mechanism that is refused"
    if by_position > document["account"]["asked"]:
        yield "there are more queries about predictions by position than queries"


def _rows_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """True if such rows can have been sealed: what is refused at creation, and what a creation always writes."""
    rows = document["rows"]
    columns = [name for name, _ in rows["columns"]]
    if not columns or len(set(columns)) != len(columns):
        yield "the rows have no columns, or two of the same name"
    if not {rows["label"], rows["row_id"]} - {None} <= set(columns):
        yield "the label or the row id is none of the columns"
    if rows["label"] is not None and rows["label"] == rows["row_id"]:
        yield "one column is said to be both the label and the row id"
    training = rows["training_fingerprint"]
    if not all(is_hex(fingerprint, 64) for fingerprint in (rows["fingerprint"], training) if fingerprint is not None):
        yield "the fingerprint of a file is no SHA-256, which has 64 hexadecimal digits"
    if (training is not None) != (rows["training_rows"] > 0):
        yield "there are training rows without a fingerprint, or a fingerprint without training rows"
    lacking = rows.get("lacking", ())
    if any(name not in columns or not 0 < count <= rows["training_rows"] for name, count in lacking):
        yield "more training rows are said to lack a value of a column than there are"
    if any(name not in columns for name, _ in rows.get("missing", ())):
        yield "what counts for missing values is said of a column that is not there"
    if document["account"]["by_source"]["training"] and not rows["training_rows"]:
        yield "there are answers of training rows, and there are no such rows"
    if "engine" in rows and not all(rows["engine"][name] for name in ("kind", "table")):
        yield "the rows are said to stay in an engine, and the engine or the table has no name"
    if "training_table" in rows and not (
        "engine" in rows and rows["training_table"]["table"] and rows["training_rows"] > 0
        and rows["training_rows"] <= rows["training_table"]["rows"]
    ):  # fmt: skip
        yield "training rows are said to be in a table of an engine, and there is no such table, or too few rows in it"
    others = rows.get("also_sealed_as")
    if others is not None and (not others or others != sorted(set(others)) or rows["holdout"] in others):
        yield "the other holdouts with the same rows are not a sorted list of names other than its own"


def _page_findings(page: str, document: Mapping[str, Any]) -> Iterator[str]:
    try:
        expected = render_page(document)
    except Exception:
        yield "the page's text differs from the signed content: no page can be made from it"
        return
    if page == expected:
        return
    where = _section_at(page, expected)
    yield f"the page's text differs from the signed content, {where}"
    if document["issue"]["version"] != software_version():
        yield (
            "the page may only have been made by another version of everhold; check it with the version that it "
            "names, or ask for the JSON file"
        )


def _section_at(page: str, expected: str) -> str:
    """First section in which two pages differ, by its name in the expected one."""
    differ = (place for place, (found, wanted) in enumerate(zip(page, expected, strict=False)) if found != wanted)
    same = next(differ, min(len(page), len(expected)))
    before = expected[:same]
    begun = _SECTION_BEGINS.findall(before)
    if "</article>" in before:
        return "after the last section"
    return f"from the section {begun[-1]!r} on" if begun else "before the first section"


def _notes(certificate: Certificate, public_key: str | None) -> Iterator[str]:
    if certificate.simulation:
        kind = MECHANISMS.get(certificate.to_dict()["mechanism"]["name"])
        noisy = kind is None or kind.traits.adds_noise
        yield "this is a simulation: " + ("the noise could be predicted" if noisy else "it was created with a seed")
    if public_key is None:
        yield (
            f"it was signed with the key {certificate.public_key}; compare that with the steward's key, because "
            "anyone can sign with another key"
        )
    if "queries" in certificate.to_dict()["account"]:
        yield "all answers are listed in it; check them against the ledger with the certificate's ledger head"
    else:
        yield (
            "answers are in it only where its first page shows them; check all of them against the ledger with the "
            "certificate's ledger head"
        )
