"""Is a certificate what was signed, and does it promise what its theorem gives? Offline, and never an error."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.certificate.arrivals import about_findings, arrival_findings, arrivals_of
from everhold.certificate.document import (
    ALGORITHM,
    SOFTWARE,
    Certificate,
    digest,
    earlier_left_of,
    entering_numbers,
    left_of,
    privacy_facts,
    signed_message,
    software_version,
    stamped_digest,
)
from everhold.certificate.form import (
    SIGNATURE,
    SUMMARY,
    TIMESTAMP,
    Malformed,
    facts_of,
    is_hex,
    misshapen,
    read_document,
    sections_of,
)
from everhold.certificate.page import in_the_style_of_today, render_page
from everhold.certificate.timestamps import roots_from, stamp_findings
from everhold.certificate.words import add_words
from everhold.dependence import MODELS, dependence_from_dict
from everhold.display import Display
from everhold.errors import EverholdError
from everhold.estimand import PUBLIC
from everhold.mechanisms import MECHANISMS, GuessAndCheck, Silent, State, mechanism_from_dict
from everhold.sealing.keys import signature_holds
from everhold.values.measures import POINTS, RATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cryptography.x509 import Certificate as Root

    from everhold.mechanisms import Mechanism, Promise

__all__ = ["CertificateReport", "verify_certificate"]

_LONGEST_VERSION = 40
_NO_FEEDBACK = "none"
_FEEDBACK = (_NO_FEEDBACK, "leader", "score")  # a certificate is verified without the extension that made the section
_ANYTHING = (-math.inf, math.inf)
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
    if _rests_on_earlier_statement(document):
        unchecked.append(_of_an_earlier_statement(document, signed=not findings, paged=page is not None))
    else:
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


def _signature_findings(document: Mapping[str, Any], public_key: str | None) -> Iterator[str]:
    signature = document[SIGNATURE]
    if signature["algorithm"] != ALGORITHM:
        yield "the signature names an algorithm that this everhold does not know"
    if set(signature["digests"]) != set(sections_of(document)):
        yield "the signature does not cover exactly the sections of a certificate"
    for name in sections_of(document):
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
    yield from _account_findings(document)
    yield from _estimand_findings(document)
    yield from _rows_findings(document)
    yield from _query_findings(document)
    if SUMMARY in document:
        yield from _summary_findings(document)
    if document["issue"]["software"] != SOFTWARE:
        yield f"it names another software than {SOFTWARE}"


def _content(document: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Faults of the numbers, and by section faults of the words that this everhold would not write."""
    findings: list[str] = []
    misworded: dict[str, str] = {}
    try:
        said = add_words(facts_of(document))
    except Exception:  # facts from a hostile file may be anything of the right type
        findings.append("the facts are such that no certificate could be worded from them")
    else:
        misworded = {
            name: f"the words of the section {name!r} are not what everhold says about its facts"
            for name in sections_of(document) if said[name] != document[name]
        }  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mechanism = _mechanism_of(document)
            promise = mechanism.promise()
            state, closed = _state_of(document), "unsealed" in document["account"]
            of_plan = "left_of_plan" in document["account"] or not mechanism.presentation.earlier_left
            left = (left_of if of_plan else earlier_left_of)(mechanism, state, closed=closed)
            unreachable = list(_unreachable(document, mechanism))
    except Exception:  # parameters from a hostile file may break numerical code anywhere
        findings.append(
            "the half-width cannot be computed anew: the mechanism's parameters or the dependence are impossible"
        )
        return findings, misworded
    findings += [*_promise_findings(document, mechanism, promise), *unreachable]
    if document["account"]["left"] != left:
        findings.append("what is left of the budget does not follow from what was asked and charged")
    if document["assumptions"]["stated"] != list(promise.assumptions):
        misworded["assumptions"] = "the assumptions are not those of the promise"
    return findings, misworded


def _rests_on_earlier_statement(document: Mapping[str, Any]) -> bool:
    """True if it says so itself; then nothing that follows from the statement of today can be compared with it."""
    kind, stated = MECHANISMS.get(document["mechanism"]["name"]), document["promise"]["statement"]
    return kind is not None and stated in kind.earlier_statements and document["theorem"]["statement"] == stated


def _of_an_earlier_statement(document: Mapping[str, Any], *, signed: bool, paged: bool) -> str:
    kind, stated = MECHANISMS[document["mechanism"]["name"]], document["promise"]["statement"]
    held = "the signature holds, and " if signed else ""
    unchecked = "its half-width, what is left of the budget and its words were not checked"
    if paged:
        unchecked = "its half-width, what is left, its words and the page around what was signed were not checked"
    version = document["issue"]["version"][:_LONGEST_VERSION]
    return (
        f"{held}it says that an earlier version of everhold made it, in which {kind.name} rested on another statement, "
        f"{stated}; here it rests on {kind.statement}, so {unchecked}; "
        f"check it with the version of everhold that made it (it names {version!r}) and with no other"
    )


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
        yield "there are more questions about predictions by position than questions"


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


def _summary_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """True if the ledger can hold the answers that the first page shows."""
    answers, account = document[SUMMARY]["answers"], document["account"]
    for field in ("name", "question"):
        if len({fact[field] for fact in answers}) < len(answers):
            yield f"two of the answers that are shown have the same {field}"
    single = [fact for fact in answers if len(fact["entries"]) == 1]
    entries = [number for fact in single for number in fact["entries"]]
    every = [number for fact in answers for number in fact["entries"]]
    last = document["ledger_head"]["sequence"]
    if len(set(entries)) < len(entries) or not all(0 < number <= last for number in every):
        yield "an answer that is shown is no entry of the ledger, or the same one as another"
    for source, count in Counter(fact["source"] for fact in single).items():
        if count > account["by_source"].get(source, 0):
            yield "more answers of one source are shown than were given"
    if sum(fact["by_position"] for fact in single) > account["by_position"]:
        yield "more answers about predictions by position are shown than were given"
    unsealed = {number for fact in answers if "unsealed" in fact for number in fact["entries"]}
    if len(unsealed) > account.get("unsealed", {"answers": 0})["answers"]:
        yield "more unsealed answers are shown than were unsealed"
    yield from about_findings(document, answers)
    for fact in answers:
        yield from _bounds_findings(fact)


def _bounds_findings(fact: Mapping[str, Any]) -> Iterator[str]:
    """True if the numbers of an answer that is shown can be such."""
    told = [numbers for numbers in (fact, fact.get("unsealed")) if numbers is not None and numbers["low"] is not None]
    if any(numbers["low"] > numbers["high"] for numbers in told):
        yield "the bounds of an answer that is shown are the wrong way round"
    least, most = (0.0, 1.0) if fact["measure"] in RATES else (-1.0, 1.0) if fact["measure"] in POINTS else _ANYTHING
    if any(not least <= numbers[end] <= most for numbers in told for end in ("value", "low", "high")):
        yield "a share or a difference of shares that is shown is larger than there can be"


def _mechanism_of(document: Mapping[str, Any]) -> Mechanism:
    section = document["mechanism"]
    given = {**section, **section["parameters"]}
    if any(given.get(name, 0) > most for name, most in MECHANISMS[section["name"]].largest.items()):
        raise ValueError("the parameters are larger than any that are in use")
    described = {**section, "mechanism": section["name"]}
    return mechanism_from_dict(described, dependence_from_dict(document["assumptions"]["dependence"]))


def _state_of(document: Mapping[str, Any]) -> State:
    account = document["account"]
    later = sum(family["later"] for family in account.get("declared", ())) + _opened(account)
    asked = account["asked"] - account["by_source"].get("declared", 0) + later  # places among the queries
    return State(asked=asked, charged=account["charged"], labels=account.get("labels", 0))


def _opened(account: Mapping[str, Any]) -> int:
    """Challenges that were opened; each took a place, and the look of a promotion is a label."""
    return int(account.get("open_challenges", {"opened": 0})["opened"])


def _unreachable(document: Mapping[str, Any], mechanism: Mechanism) -> Iterator[str]:
    """True if the mechanism can have answered and lost what the account says, whatever was asked."""
    if not mechanism.reachable(_state_of(document)):
        yield "the mechanism never answers and charges as much as is said"
    account = document["account"]
    yield from _family_findings(account, mechanism)
    lost = account.get("lost")
    if lost is not None and not mechanism.losable(questions=lost["questions"], charges=lost["charges"]):
        yield "the lost answers cannot have been charged what is said"
    by_source = account["by_source"]
    forced = by_source.get("chosen", 0) + by_source.get("declared", 0) + _opened(account)
    least, most = mechanism.labels_of(by_source["holdout"], forced=forced)
    fewest, dearest = mechanism.lost_labels_of(0 if lost is None else lost["charges"])
    if not least + fewest <= account.get("labels", 0) <= most + dearest:
        yield "what surprises told cannot have cost what is said"


def _family_findings(account: Mapping[str, Any], mechanism: Mechanism) -> Iterator[str]:
    """Check that declared families can have the levels that are said."""
    families = account.get("declared", [])
    if account["by_source"].get("declared", 0) and not families:
        yield "there are answers to members of declared families, and no family is declared"
    if not families:
        return
    names, entries = [family["name"] for family in families], [family["entry"] for family in families]
    if len(set(names)) != len(names) or entries != sorted(set(entries)):
        yield "two declared families have the same name or entry, or they are not in the order of their entries"
    first = [family for family in families if not family["later"]]
    if [family["entry"] for family in first] != [*range(1, len(first) + 1)]:
        yield "families are said to be of the holdout's creation, and other entries came before them"
    if not isinstance(mechanism, GuessAndCheck):
        yield "families are declared, and this mechanism has no level to give them"
        return
    share = (1.0 - mechanism.statement_confidence) * mechanism.share
    if sum(math.exp(-family["nats"]) for family in first) > share * (1.0 + 1e-9):
        yield "declared families have more of the probability of failure than was set apart for them"
    least = float(mechanism.nats(1, 0, 0.0))
    if mechanism.text_bits:
        least = min(least, mechanism.of_text(0.0))
    if any(family["nats"] < least - 1e-9 for family in families if family["later"]):
        yield "a family that was declared later has a larger level than any query"


def _promise_findings(document: Mapping[str, Any], mechanism: Mechanism, promise: Promise) -> Iterator[str]:
    stated, theorem = document["promise"], document["theorem"]
    if not _close(stated["radius"], promise.radius):
        yield f"the half-width is not the one that the mechanism's parameters give, {promise.radius:.6g}"
    if {stated["statement"], theorem["statement"]} != {promise.statement}:
        yield f"the statement is not the one that proves the promise, {promise.statement}"
    if stated["confidence"] != promise.confidence:
        yield "the probability of the promise is not the mechanism's confidence"
    if stated["questions"] != mechanism.queries or stated["overfits"] != mechanism.parameters().get("overfits"):
        yield "the planned questions or overfits of the promise are not the mechanism's"
    if not _close(stated["spends_only_beyond"], promise.spends_only_beyond, relative=1e-3):
        yield "the distance beyond which overfits are charged is not the one that the mechanism's parameters give"
    numbers = entering_numbers(mechanism, promise)
    if set(numbers) != set(theorem["numbers"]) or not all(
        _close(theorem["numbers"][name], value, relative=1e-2) for name, value in numbers.items()
    ):
        yield "the numbers that enter the statement are not those that the mechanism's parameters give"
    privacy = privacy_facts(promise.privacy, simulation=document["issue"]["simulation"])
    if not all(_close(document["privacy"][name], value) for name, value in privacy.items()):
        yield "the privacy is not the one that the mechanism's parameters give"
    if document["rows"]["rows"] != mechanism.rows:
        yield "the number of sealed rows is not the one that the mechanism was planned for"


def _close(stated: float | None, computed: float | None, *, relative: float = 1e-6) -> bool:
    """True if two numbers agree up to what another machine's arithmetic may change."""
    if computed is None or not math.isfinite(computed):
        return stated is None
    return stated is not None and math.isclose(stated, computed, rel_tol=relative, abs_tol=1e-9)


def _account_findings(document: Mapping[str, Any]) -> Iterator[str]:
    account, head = document["account"], document["ledger_head"]
    if any(not account.get(name, {act: 1})[act] for name, act in (("allotments", "acts"), ("lost", "recoveries"))):
        yield "there are allotments or losses, and no act of the steward that set or counted them"
    allotments = account.get("allotments", {"acts": 0, "analysts": []})
    lost = account.get("lost", {"recoveries": 0, "questions": 0, "charges": 0})
    unsealed, gates = account.get("unsealed", {"acts": 0, "answers": 0}), account.get("gates", ())
    received = account.get("competition", {"acts": 0})["acts"]
    acts = (
        len(account.get("declared", ()))
        + arrivals_of(account)
        + allotments["acts"]
        + lost["recoveries"]
        + unsealed["acts"]
        + len(gates)
        + sum(account.get("open_challenges", {}).get(name, 0) for name in ("opened", "looked"))
        + received
    )
    questions = head["sequence"] - acts + lost["questions"]
    told = sum(account["by_source"].values()) + sum(gate["challenges"] for gate in gates)
    if not 1 <= head.get("checkpoint", {"sequence": 1})["sequence"] <= max(head["sequence"], 1):
        yield "the checkpoint is not one of the entries up to the ledger's head"
    yield from arrival_findings(account)
    if account["asked"] != questions or account["asked"] != told + lost["questions"]:
        yield "the counts of questions do not agree with each other or with the ledger's head"
    kind, queries = MECHANISMS.get(document["mechanism"]["name"]), document["mechanism"]["queries"]
    if kind is not None:  # else it is said elsewhere that there is no such mechanism
        yield from _spending_findings(kind, account, lost=lost["charges"], queries=queries)
    if "unsealed" in account:
        yield from _unsealing_findings(
            kind, unsealed, kept=account["asked"] - lost["questions"], lost=account.get("lost")
        )
    yield from _gate_findings(document)
    yield from _competition_findings(document)
    yield from _allotment_findings(allotments, answered=account["asked"] + received, charged=account["charged"])


def _spending_findings(kind: type[Mechanism], account: Mapping[str, Any], *, lost: int, queries: int) -> Iterator[str]:
    """True if a mechanism of this kind gives such answers at such a price."""
    by_source = account["by_source"]
    taken, standing = by_source.get("holdout", 0), by_source.get("standing", 0)
    taken += sum(len(gate["promotions"]) for gate in account.get("gates", ()))
    taken += account.get("open_challenges", {}).get("futile", 0)
    yield from kind.mispriced(charged=account["charged"], taken=taken, lost=lost, queries=queries)
    if by_source.get("silent", 0) and not kind.traits.unsealable:
        yield "there are silent answers, and with this mechanism nothing is ever told of them"
    if standing and "standing" not in kind.traits.sources:
        yield "there are answers of a kind that the mechanism does not give"
    if standing and not by_source.get("holdout", 0):
        yield "the best so far was shown before there was one"
    if (by_source.get("training", 0) or by_source.get("guess", 0)) and not kind.traits.needs_guess:
        yield "there are confirmed guesses, and the mechanism confirms none"
    if account["asked"] > queries and not kind.traits.beyond_the_plan:
        yield "more questions were answered than were planned"


def _query_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """True if the list of queries is whole: as many of each source, and at such a price, as the account says."""
    account = document["account"]
    queries = account.get("queries")
    if queries is None:
        return
    lost = account.get("lost", {"questions": 0, "charges": 0})
    entries = [query["entry"] for query in queries]
    if entries != sorted(set(entries)) or not all(
        0 < entry <= document["ledger_head"]["sequence"] for entry in entries
    ):
        yield "the queries that are listed are not in the order of the ledger, or not in it"
    sources = Counter(query["source"] for query in queries)
    gates = account.get("gates", ())
    expected = Counter(account["by_source"]) + Counter(
        promoted=sum(len(gate["promotions"]) for gate in gates),
        kept=sum(gate["challenges"] - len(gate["promotions"]) for gate in gates),
    )
    if +sources != expected or len(queries) != account["asked"] - lost["questions"]:
        yield "the list of queries does not hold as many of each source as were asked"
    if sum(query["charged"] for query in queries) != account["charged"] - lost["charges"]:
        yield "the prices of the queries that are listed do not add up to what was charged"
    if sum("unsealed" in query for query in queries) > account.get("unsealed", {"answers": 0})["answers"]:
        yield "more queries are listed with unsealed numbers than were unsealed"
    yield from about_findings(document, queries)
    for query in queries:
        yield from _bounds_findings(query)


def _unsealing_findings(
    kind: type[Mechanism] | None, unsealed: Mapping[str, int], *, kept: int, lost: Mapping[str, int] | None
) -> Iterator[str]:
    """True if such a study can have been unsealed, and so many of its answers."""
    if kind is not None and not kind.traits.unsealable:
        yield "the study is said to be unsealed, and with this mechanism none can be"
    if unsealed["acts"] > 1 or (not unsealed["acts"] and lost is None):
        yield "the study is said to be closed, and there is no act of the steward that unsealed it, or more than one"
    if unsealed["answers"] > kept or (unsealed["answers"] > 0) != (unsealed["acts"] > 0):
        yield "the number of unsealed answers does not agree with those of acts and questions"


def _gate_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """True if gates can have been challenged and their champions promoted as it is said."""
    account = document["account"]
    gates = account.get("gates")
    if gates is None:
        return
    if not gates or len({gate["gate"] for gate in gates}) != len(gates):
        yield "the gates are not one or more, each with a name of its own"
    labelled = document["rows"]["label"] is not None or all(gate["metric"].startswith("cases: ") for gate in gates)
    if document["mechanism"]["name"] != GuessAndCheck.name or not labelled:
        yield "there are gates, and with these rows and this mechanism they are refused"
    sequences = [promotion["sequence"] for gate in gates for promotion in gate["promotions"]]
    if len(set(sequences)) != len(sequences) or any(
        not 1 < sequence <= document["ledger_head"]["sequence"] for sequence in sequences
    ):
        yield "two promotions are said to be one entry of the ledger, or one that it does not have"
    for gate in gates:
        most = gate["challenges"] if gate["limit"] is None else gate["limit"]
        if not len(gate["promotions"]) <= gate["challenges"] <= most or gate["margin"] < 0:
            yield "a gate promoted more often than it was challenged, or answered more challenges than its limit"
        yield from _succession_findings(gate)


def _competition_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """True if there can be such a competition, and its leaderboard."""
    account = document["account"]
    competition = account.get("competition")
    if competition is None:
        return
    name, rows = document["mechanism"]["name"], competition["rows"]
    silent = competition["feedback"] == _NO_FEEDBACK
    if competition["feedback"] not in _FEEDBACK or name != (Silent.name if silent else GuessAndCheck.name):
        yield "with this mechanism no competition tells its teams what is said"
    if document["rows"]["label"] is None:
        yield "there is a competition, and there are no labels that submissions could be held against"
    if rows and not account.get("unsealed", {"acts": 0})["acts"]:
        yield "there is a final leaderboard of a study that was not unsealed"
    received = sum(row["submissions"] for row in rows)
    if rows and (len({row["team"] for row in rows}) != len(rows) or received >= competition["acts"]):
        yield "the leaderboard does not have one line for each team, or more submissions than were received"
    if len(rows) > competition["teams"] or any(row["submissions"] > competition["submissions"] for row in rows):
        yield "there are more teams or submissions than were planned"
    for row in rows:
        ends = (row["low"], row["score"], row["high"])
        whole = None not in ends and ends[0] <= ends[1] <= ends[2]
        placed = row["rank"] is not None and 1 <= row["rank"] <= len(rows)
        if not (whole and placed) and (*ends, row["rank"]) != (None,) * 4:
            yield "a line of the leaderboard has a place or an interval that none can have"


def _succession_findings(gate: Mapping[str, Any]) -> Iterator[str]:
    promotions = gate["promotions"]
    if [promotion["sequence"] for promotion in promotions] != sorted(promotion["sequence"] for promotion in promotions):
        yield "the promotions of a gate are not in the order of the ledger"
    champions = [gate["first"], *(promotion["challenger"] for promotion in promotions)]
    if [promotion["over"] for promotion in promotions] != champions[:-1]:
        yield "a challenger was promoted over another model than the champion of its gate"
    told = [(number, promotion) for number, promotion in enumerate(promotions, 1) if "low" in promotion]
    if not all(
        promotion["low"] == gate["margin"]
        and (promotion["high"] is None or promotion["low"] <= promotion["high"])
        and promotion["since_first"] in (None, number * gate["margin"])
        for number, promotion in told
    ):
        yield "the gain of a champion has bounds that do not follow from the margin of its gate"
    if any(promotion.get("nats", 1.0) <= 0.0 for promotion in promotions):
        yield "a promotion was proved at a level that no promotion has"


def _allotment_findings(allotments: Mapping[str, Any], *, answered: int, charged: int) -> Iterator[str]:
    parts = allotments["analysts"]
    if len({part["analyst"] for part in parts}) != len(parts) or len(parts) > allotments["acts"]:
        yield "the allotments are not one for each analyst, each by an act of the steward"
    if any(part["asked"] > part["questions"] or part["charged"] > part["charges"] for part in parts):
        yield "an analyst spent more than the allotment"
    if sum(part["asked"] for part in parts) > answered or sum(part["charged"] for part in parts) > charged:
        yield "analysts spent more together than was answered or charged in all"


def _page_findings(page: str, document: Mapping[str, Any]) -> Iterator[str]:
    try:
        expected = render_page(document)
        page = in_the_style_of_today(page, document)
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
