"""Verification of a certificate without a network: what was signed, and what its theorem gives."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.certificate import form
from everhold.certificate.document import (
    ALGORITHM,
    SOFTWARE,
    Certificate,
    entering_numbers,
    left_of,
    privacy_facts,
    signed_message,
    software_version,
    stamped_digest,
)
from everhold.certificate.outline import simulated
from everhold.certificate.page import render_page
from everhold.certificate.phrases import rows_that_arrived
from everhold.certificate.timestamps import roots_from, stamp_findings
from everhold.dependence import MODELS, dependence_from_dict
from everhold.display import Display
from everhold.errors import EverholdError
from everhold.estimand import PUBLIC
from everhold.mechanisms import MECHANISMS, GuessAndCheck, Silent, State, has_public_levels, mechanism_from_dict
from everhold.sealing.configuration import digest_of_parts
from everhold.sealing.storage import signature_holds
from everhold.strict_json import digest
from everhold.values.units import POINTS, RATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from everhold.mechanisms import Mechanism

_LONGEST_VERSION = 40
_SECTION_BEGINS = re.compile(r'<section id="everhold-(\w+)">')


@dataclass(frozen=True, slots=True)
class CertificateReport(Display):
    """Result of a certificate's verification.

    Attributes:
        findings: Everything that is wrong, in plain words; empty if nothing is.
        certificate: The certificate; None if the file does not hold one.
        notes: Facts that a reader should know although they are no faults.
        unchecked: What this version of everhold could not check, in plain words; empty if all was checked.
        trusted_time: Time of the signature, stated by a time-stamping authority whose certificate leads to one of the
            given roots; None if there is no such statement.
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
        """Whether all checks were made and found no fault."""
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


_WRONG_FILE = (
    "the file holds no certificate. Pass the .html or .json file that everhold saved, because a printed or converted "
    "copy cannot be verified"
)


def verify_certificate(
    path: Path | str, *, public_key: str | None = None, timestamp_roots: bytes | None = None
) -> CertificateReport:
    """Verify a certificate from its file alone, without network, ledger or rows.

    It checks the form, the signature, the digest of every section, whether facts agree with each other, and the
    promised numbers, which it computes again. Only facts are signed, so it makes each text of an HTML page again from
    them and compares every character. What is wrong is reported in the result; a hostile file raises no error.

    An HTML page of another version of everhold may have other words. This version cannot tell an older wording from a
    false one: it says so in ``unchecked``, and the certificate is not ``ok``. The JSON file has no words.

    Args:
        path: The certificate, a ``.json`` or ``.html`` file.
        public_key: The steward's key in hex, from a source that you trust. Without it, the signature shows only that
            nothing was altered since it was signed.
        timestamp_roots: Root certificates of time-stamping authorities, the content of a PEM file from a source that
            you trust; with them, the certificate must have a trusted time that one of these authorities signed. Without
            them, the report only states the trusted time.

    Raises:
        ValueError: If `public_key` is not a key in hex, or `timestamp_roots` holds no certificates.
        EverholdError: If `timestamp_roots` is given and the package that reads a trusted time is missing.
    """
    roots = None if timestamp_roots is None else roots_from(timestamp_roots)
    if public_key is not None:
        public_key = public_key.strip().lower()
        if not form.is_hex(public_key, 64):
            raise ValueError("public_key is malformed. Pass 64 hexadecimal digits.")
    try:
        document, page = form.read_document(path)
    except form.Malformed as fault:
        return CertificateReport((str(fault),), None, notes=(_WRONG_FILE,) if Path(path).is_file() else ())
    faults = tuple(form.misshapen(document))
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
        version = document["issue"]["version"][:_LONGEST_VERSION]
        held = "" if findings else "the signature and the numbers hold, but "
        unchecked = [
            f"{held}{' and '.join(misworded)}. Its words are those of version {version!r} and were not checked by this "
            f"version, {software_version()!r}: they may be older, newer or false. Check it with the version it names"
        ]
        misworded = []
    untimely: list[str] = []
    unread: list[str] = []
    if form.TIMESTAMP in document:
        try:
            untimely = stamp_findings(document[form.TIMESTAMP], stamped_digest(document), roots)
        except EverholdError as fault:  # the package that reads a trusted time is missing
            if roots is not None:
                raise
            unread = [f"its trusted time was not read: {fault.message}"]
    elif roots is not None:
        untimely = ["there is no trusted time in it, and one was expected"]
    findings += misworded
    notes = _notes(certificate, public_key, time_trusted=roots is not None and not untimely)
    return CertificateReport(
        tuple(findings + untimely), certificate, tuple(notes), tuple(unchecked + unread), promise=promise,
        trusted_time=None if roots is None or findings or untimely else certificate.claimed_time,
    )  # fmt: skip


def _signature_findings(document: Mapping[str, Any], public_key: str | None) -> Iterator[str]:
    """Yield faults of the signature: its key, its digests, or a section that does not match its digest."""
    signature = document[form.SIGNATURE]
    if signature["algorithm"] != ALGORITHM:
        yield "the signature names an algorithm that this everhold does not know"
    if set(signature["digests"]) != set(form.SECTIONS):
        yield "the signature does not cover exactly the sections of a certificate"
    for name in form.SECTIONS:
        if digest(document[name]) != signature["digests"].get(name):
            yield f"the section {name!r} was altered: it is not the one that was signed"
    message = signed_message(document)
    if not signature_holds(message, signature=signature["value"], public_key=signature["public_key"]):
        yield "the signature does not hold: the key, the digests or the signature itself were altered"
    if public_key is not None and signature["public_key"] != public_key:
        yield "it was signed with another key than the one expected"


def _section_at(page: str, expected: str) -> str:
    """Return a text that says in which section two pages begin to differ."""
    differ = (place for place, (found, wanted) in enumerate(zip(page, expected, strict=False)) if found != wanted)
    same = next(differ, min(len(page), len(expected)))
    before = expected[:same]
    begun = _SECTION_BEGINS.findall(before)
    if "</article>" in before:
        return "after the last section"
    return f"from the section {begun[-1]!r} on" if begun else "before the first section"


def _notes(certificate: Certificate, public_key: str | None, *, time_trusted: bool) -> Iterator[str]:
    """Yield notes for the reader of a certificate without faults, such as that it is a simulation.

    `time_trusted` is true if the trusted time was checked against root certificates.
    """
    document, time = certificate.to_dict(), certificate.claimed_time
    if document["issue"]["simulation"]:
        yield f"this is a simulation: {simulated(document)}"
    if public_key is None:
        yield (
            f"it was signed with the key {document[form.SIGNATURE]['public_key']}. Compare that "
            "with the steward's key, because anyone can sign with another key"
        )
    listed = "queries" in document["account"]
    all_of = "all answers are listed in it. Check them" if listed else (
        "answers are in it only where its first page shows them. Check all of them"
    )  # fmt: skip
    yield f"{all_of} against the ledger with the certificate's ledger head"
    if time is not None and time_trusted:
        yield f"a time-stamping authority that you trust states that it was signed by {time}"
    elif time is not None:
        yield (
            f"its trusted time, {time}, was not checked against the root of an authority, so anybody could have made it"
        )


# Checks of a certificate's facts: whether the ledger can hold them, and the rebuilt mechanism promises them.
#
# A file may be hostile: all facts have the right types, and any value. Each check is a line of a table: what is wrong,
# and how it is said.


_NO_FEEDBACK = "none"
_FEEDBACK = (_NO_FEEDBACK, "leader", "score")  # a certificate is verified without the extension that made the section
_ANYTHING = (-math.inf, math.inf)
_ENDS = ("value", "low", "high")


def fact_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of the facts that do not depend on the mechanism's statement."""
    yield from account_findings(document)
    yield from _estimand_findings(document)
    yield from _rows_findings(document)
    yield from _query_findings(document)
    yield from _summary_findings(document)
    yield from _found((document["issue"]["software"] != SOFTWARE, f"it names another software than {SOFTWARE}"))


def number_findings(document: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Compute the promise again from the parameters.

    Return faults of the numbers, and of the texts of the assumptions.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            section = document["mechanism"]
            given = {**section, **section["parameters"]}
            if any(given.get(name, 0) > most for name, most in MECHANISMS[section["name"]].largest.items()):
                raise ValueError("a parameter is larger than the largest that everhold accepts")
            described = {**section, "mechanism": section["name"]}
            mechanism = mechanism_from_dict(described, dependence_from_dict(document["assumptions"]["dependence"]))
            promise, left = mechanism.promise(), left_of(mechanism, _state_of(document), closed=_is_closed(document))
            findings = [*_promise_findings(document, mechanism), *_unreachable_findings(document, mechanism)]
    except Exception:  # parameters from a hostile file may break numerical code anywhere
        wrong = "the mechanism's parameters or the dependence are impossible"
        return [f"the half-width cannot be computed anew: {wrong}"], []
    findings += _found((
        document["account"]["left"] != left,
        "what is left of the budget does not follow from what was asked and charged",
    ))  # fmt: skip
    stated = document["assumptions"]["stated"] != list(promise.assumptions)
    return findings, [*_found((stated, "the assumptions are not those of the promise"))]


def _found(*checks: tuple[object, str]) -> Iterator[str]:
    """Yield the messages whose conditions are true."""
    return (words for wrong, words in checks if wrong)


def _is_closed(document: Mapping[str, Any]) -> bool:
    return "unsealed" in document["account"]


def _unordered(numbers: Iterable[int]) -> bool:
    """Return whether numbers of entries do not strictly grow."""
    numbers = list(numbers)
    return numbers != sorted(set(numbers))


def _summary_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield contradictions between the answers on the first page and the counts of the ledger."""
    answers, account = document[form.SUMMARY]["answers"], document["account"]
    single = [fact for fact in answers if len(fact["entries"]) == 1]
    entries = [number for fact in single for number in fact["entries"]]
    last, unsealed = document["ledger_head"]["sequence"], account.get("unsealed", {"answers": 0})["answers"]
    outside = not all(0 < number <= last for fact in answers for number in fact["entries"])
    yield from _found(
        *((len({fact[field] for fact in answers}) < len(answers),
           f"two of the answers that are shown have the same {field}") for field in ("name", "query")),
        (outside or len(set(entries)) < len(entries),
         "an answer that is shown is no entry of the ledger, or the same one as another"),
        *((count > account["by_source"].get(source, 0), "more answers of one source are shown than were given")
          for source, count in Counter(fact["source"] for fact in single).items()),
        (sum(fact["by_position"] for fact in single) > account["by_position"],
         "more answers about predictions by position are shown than were given"),
        (len({number for fact in answers if "unsealed" in fact for number in fact["entries"]}) > unsealed,
         "more unsealed answers are shown than were unsealed"),
    )  # fmt: skip
    yield from _told_findings(document, answers)


def _query_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of the list of queries: counts by source and prices that differ from the account."""
    account = document["account"]
    if (queries := account.get("queries")) is None:
        return
    lost, gates = account.get("lost", {"queries": 0, "charges": 0}), account.get("gates", ())
    entries, promoted = [query["entry"] for query in queries], sum(len(gate["promotions"]) for gate in gates)
    expected = Counter(account["by_source"]) + Counter(
        promoted=promoted, kept=sum(gate["challenges"] for gate in gates) - promoted
    )
    outside = not all(0 < entry <= document["ledger_head"]["sequence"] for entry in entries)
    yield from _found(
        (_unordered(entries) or outside,
         "the queries that are listed are not in the order of the ledger, or not in it"),
        (+Counter(query["source"] for query in queries) != expected
         or len(queries) != account["asked"] - lost["queries"],
         "the list of queries does not hold as many of each source as were asked"),
        (sum(query["charged"] for query in queries) != account["charged"] - lost["charges"],
         "the prices of the queries that are listed do not add up to what was charged"),
        (sum("unsealed" in query for query in queries) > account.get("unsealed", {"answers": 0})["answers"],
         "more queries are listed with unsealed numbers than were unsealed"),
    )  # fmt: skip
    yield from _told_findings(document, queries)


def _told_findings(document: Mapping[str, Any], told: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield impossible numbers in answers, and rows that answers cannot be about."""
    yield from _about_findings(document, told)
    for fact in told:
        numbers = [
            [float(each[end]) for end in _ENDS] for each in (fact, fact.get("unsealed"))
            if each is not None and each["low"] is not None
        ]  # fmt: skip
        measure = fact["measure"]
        least, most = (0.0, 1.0) if measure in RATES else (-1.0, 1.0) if measure in POINTS else _ANYTHING
        yield from _found(
            (any(low > high for _, low, high in numbers),
             "the bounds of an answer that is shown are the wrong way round"),
            (any(not least <= number <= most for each in numbers for number in each),
             "a share or a difference of shares that is shown is larger than there can be"),
        )  # fmt: skip


def _about_findings(document: Mapping[str, Any], told: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    last = document["rows"]["rows"] + rows_that_arrived(document)
    wrong = any(each.get("rows", [1, 1])[1] > last for each in told)
    return _found((wrong, "an answer is about rows that never arrived"))


def account_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield counts that contradict each other, the ledger's head, or the mechanism."""
    account, head = document["account"], document["ledger_head"]
    allotments = account.get("allotments", {"acts": 0, "analysts": []})
    lost = account.get("lost", {"recoveries": 0, "queries": 0, "charges": 0})
    unsealed, gates = account.get("unsealed", {"acts": 0, "answers": 0}), account.get("gates", ())
    received = account.get("competition", {"acts": 0})["acts"]
    opened = {"opened": 0, "looked": 0, "open": 0} | account.get("open_challenges", {})
    acts = (
        sum(len(account.get(name, ())) for name in ("declared", "arrivals", "retired")) + len(gates)
        + sum(len(gate.get("completed", ())) for gate in gates) + opened["opened"] + opened["looked"]
        + allotments["acts"] + lost["recoveries"] + unsealed["acts"] + received
    )  # fmt: skip
    told = sum(account["by_source"].values()) + sum(gate["challenges"] for gate in gates)
    first = head.get("checkpoint", {"sequence": 1})["sequence"]
    yield from _found(
        (any(not account.get(name, {act: 1})[act] for name, act in (("allotments", "acts"), ("lost", "recoveries"))),
         "there are allotments or losses, and no act of the steward that set or counted them"),
        (not 1 <= first <= max(head["sequence"], 1),
         "the checkpoint is not one of the entries up to the ledger's head"),
    )  # fmt: skip
    yield from _arrival_findings(account)
    yield from _found((
        account["asked"] != head["sequence"] - acts + lost["queries"] or account["asked"] != told + lost["queries"],
        "the counts of queries do not agree with each other or with the ledger's head",
    ))  # fmt: skip
    kind = MECHANISMS.get(document["mechanism"]["name"])
    if kind is not None:  # else it is said elsewhere that there is no such mechanism
        queries = document["mechanism"]["queries"]
        yield from _spending_findings(kind, account, lost=lost["charges"], queries=queries)
    if _is_closed(document):
        yield from _found(
            (kind is not None and not kind.traits.unsealable,
             "the study is said to be unsealed, and with this mechanism none can be"),
            (unsealed["acts"] > 1 or (not unsealed["acts"] and "lost" not in account),
             "the study is said to be closed, and there is no act of the steward that unsealed it, or more than one"),
            (unsealed["answers"] > account["asked"] - lost["queries"]
             or (unsealed["answers"] > 0) != (unsealed["acts"] > 0),
             "the number of unsealed answers does not agree with those of acts and queries"),
        )  # fmt: skip
    yield from gate_findings(document)
    yield from _competition_findings(document)
    parts = allotments["analysts"]
    answered = account["asked"] + received + opened["opened"] + opened["open"]  # open challenges reserved the rest
    yield from _found(
        (len({part["analyst"] for part in parts}) != len(parts) or len(parts) > allotments["acts"],
         "the allotments are not one for each analyst, each by an act of the steward"),
        (any(part["asked"] > part["queries"] or part["charged"] > part["charges"] for part in parts),
         "an analyst spent more than the allotment"),
        (sum(part["asked"] for part in parts) > answered
         or sum(part["charged"] for part in parts) > account["charged"] + opened["open"],
         "analysts spent more together than was answered or charged in all"),
    )  # fmt: skip


def _arrival_findings(account: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of the arrivals: an order or numbers that cannot be."""
    arrivals: Sequence[Mapping[str, Any]] = account.get("arrivals", ())
    trees = [each["tree"] for each in arrivals if each["tree"] is not None]
    before = [each["before"] for each in account.get("retired", ())]
    yield from _found(
        ([each["arrival"] for each in arrivals] != [*range(1, len(arrivals) + 1)]
         or _unordered(each["entry"] for each in arrivals), "arrivals are not numbered in the order of their entries"),
        (trees != [*range(2, len(trees) + 2)],
         "trees of suffixes are not numbered in the order in which they opened"),
        (any((each["rows"] == 0) != (each["fingerprint"] is None) for each in arrivals),
         "an arrival has rows without a fingerprint, or a fingerprint without rows"),
        (_unordered(before) or not {*before} <= {each["arrival"] for each in arrivals if each["tree"] is not None},
         "rows were retired before an arrival at which no budget began"),
    )  # fmt: skip


def _spending_findings(kind: type[Mechanism], account: Mapping[str, Any], *, lost: int, queries: int) -> Iterator[str]:
    """Yield counts of answers and charges that a mechanism of this kind cannot have."""
    by_source: Mapping[str, int] = Counter(account["by_source"])
    taken = by_source["holdout"] + sum(len(gate["promotions"]) for gate in account.get("gates", ()))
    taken += _charged_checks(account) + account.get("open_challenges", {}).get("futile", 0)
    yield from kind.accounting.mispriced(charged=account["charged"], taken=taken, lost=lost, queries=queries)
    yield from _found(
        (by_source["silent"] and not kind.traits.unsealable,
         "there are silent answers, and with this mechanism nothing is ever told of them"),
        (by_source["standing"] and "standing" not in kind.traits.sources,
         "there are answers of a kind that the mechanism does not give"),
        (by_source["standing"] and not by_source["holdout"], "the best so far was shown before there was one"),
        ((by_source["training"] or by_source["guess"]) and not kind.traits.needs_guess,
         "there are confirmed guesses, and the mechanism confirms none"),
        (account["asked"] > queries and not kind.traits.beyond_the_plan,
         "more queries were answered than were planned"),
    )  # fmt: skip


def _charged_checks(account: Mapping[str, Any]) -> int:
    return sum(gate.get("checks", {"charged": 0})["charged"] for gate in account.get("gates", ()))


def gate_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of gates: challenges and promotions that cannot have been."""
    if (gates := document["account"].get("gates")) is None:
        return
    labelled = document["rows"]["label"] is not None or all(gate["metric"].startswith("cases: ") for gate in gates)
    sequences = [promotion["sequence"] for gate in gates for promotion in gate["promotions"]]
    outside = any(not 1 < sequence <= document["ledger_head"]["sequence"] for sequence in sequences)
    yield from _found(
        (not gates or len({gate["gate"] for gate in gates}) != len(gates),
         "the gates are not one or more, each with a name of its own"),
        (document["mechanism"]["name"] != GuessAndCheck.name or not labelled,
         "there are gates, and with these rows and this mechanism they are refused"),
        (len(set(sequences)) != len(sequences) or outside,
         "two promotions are said to be one entry of the ledger, or one that it does not have"),
    )  # fmt: skip
    when = {each["arrival"]: each["entry"] for each in document["account"].get("arrivals", ())}
    for gate in gates:
        promotions, completed = gate["promotions"], gate.get("completed", ())
        champions = [gate["first"], *(promotion["challenger"] for promotion in promotions)]
        most = gate["challenges"] if gate["limit"] is None else gate["limit"]
        in_order = [promotion["sequence"] for promotion in promotions]
        arrived = all(each["arrived"] in when and when[each["arrived"]] < each["entry"] for each in completed)
        entries = [each["entry"] for each in completed]
        checks = gate.get("checks", {"made": 0, "charged": 0})
        yield from _found(
            (not len(promotions) <= gate["challenges"] <= most or gate["margin"] < 0,
             "a gate promoted more often than it was challenged, or answered more challenges than its limit"),
            (checks["charged"] > checks["made"] or checks["made"] + len(promotions) > gate["challenges"],
             "a gate has more checks than challenges, or more that were charged than it has"),
            (in_order != sorted(in_order), "the promotions of a gate are not in the order of the ledger"),
            ([promotion["over"] for promotion in promotions] != champions[:-1],
             "a challenger was promoted over another model than the champion of its gate"),
            (not all(promotion["low"] == gate["margin"]
                     and (promotion["high"] is None or promotion["low"] <= promotion["high"])
                     and promotion["since_first"] in (None, number * gate["margin"])
                     for number, promotion in enumerate(promotions, 1)),
             "the gain of a champion has bounds that do not follow from the margin of its gate"),
            (any(promotion["nats"] <= 0.0 for promotion in promotions),
             "a promotion was proved at a level that no promotion has"),
            (not arrived or _unordered(each["arrived"] for each in completed) or entries != sorted(entries),
             "a champion got values for rows that had not arrived, or not in the order of arrivals"),
        )  # fmt: skip
        yield from _about_findings(document, completed)


def _competition_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of a competition and its leaderboard."""
    account = document["account"]
    if (competition := account.get("competition")) is None:
        return
    name, rows, feedback = document["mechanism"]["name"], competition["rows"], competition["feedback"]
    received = sum(row["submissions"] for row in rows)
    expected = Silent.name if feedback == _NO_FEEDBACK or "public" in competition else GuessAndCheck.name
    yield from _found(
        (feedback not in _FEEDBACK or name != expected,
         "with this mechanism no competition tells its teams what is said"),
        ("public" in competition
         and [competition["public"][name] for name in ("holdout", "rows")]
         not in [part[:2] for part in document["rows"].get("dealt", {"all": []})["all"]],
         "the public rows are no part of the whole that the rows are a part of"),
        (document["rows"]["label"] is None,
         "there is a competition, and there are no labels that submissions could be held against"),
        (rows and not account.get("unsealed", {"acts": 0})["acts"],
         "there is a final leaderboard of a study that was not unsealed"),
        (rows and (len({row["team"] for row in rows}) != len(rows) or received >= competition["acts"]),
         "the leaderboard does not have one line for each team, or more submissions than were received"),
        (len(rows) > competition["teams"] or any(row["submissions"] > competition["submissions"] for row in rows),
         "there are more teams or submissions than were planned"),
    )  # fmt: skip
    for row in rows:
        ends = (row["low"], row["score"], row["high"])
        whole = None not in ends and ends[0] <= ends[1] <= ends[2]
        placed = row["rank"] is not None and 1 <= row["rank"] <= len(rows)
        if not (whole and placed) and (*ends, row["rank"]) != (None,) * 4:
            yield "a line of the leaderboard has a place or an interval that none can have"


def _estimand_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield facts about the promised value with which no holdout is created or query answered."""
    rows, kind = document["rows"], MECHANISMS.get(document["mechanism"]["name"])
    dependence, by_position = document["assumptions"]["dependence"].get("kind"), document["account"]["by_position"]
    model, one_law = MODELS.get(str(dependence)), kind is not None and kind.traits.one_law
    refused = rows["label"] is None or one_law or model is None or not model.holds_given_features
    column, public = rows.get("stratified"), rows["features"] == PUBLIC
    unsplit = (
        column not in [name for name, _ in rows["columns"]] or dependence != "independent" or one_law
        or (public and column == rows["label"])
    )  # fmt: skip
    yield from _found(
        (public and refused,
         "the features are said to be public, and with these rows and this mechanism nothing is promised then"),
        (by_position and refused,
         "there are answers about predictions by position, and for these rows and this mechanism they are refused"),
        (column is not None and unsplit,
         "the rows are said to be split by a column, and with these rows and this mechanism that is refused"),
        (by_position > document["account"]["asked"],
         "there are more queries about predictions by position than queries"),
    )  # fmt: skip


def _rows_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield facts about the rows with which no holdout is created, and missing facts."""
    rows = document["rows"]
    columns, training, table = [name for name, _ in rows["columns"]], rows["training_rows"], rows.get("training_table")
    declared = document["assumptions"]["dependence"].get("column")
    digests, others = [rows["fingerprint"], rows["training_fingerprint"]], rows.get("also_sealed_as")
    yield from _found(
        (not columns or len(set(columns)) != len(columns), "the rows have no columns, or two of the same name"),
        (not {rows["label"], rows["row_id"]} - {None} <= {*columns}, "the label or the row id is none of the columns"),
        (rows["label"] is not None and rows["label"] == rows["row_id"],
         "one column is said to be both the label and the row id"),
        (not all(form.is_hex(each, 64) for each in digests if each is not None),
         "the fingerprint of a file is no SHA-256, which has 64 hexadecimal digits"),
        ((digests[1] is not None) != (training > 0),
         "there are training rows without a fingerprint, or a fingerprint without training rows"),
        (any(name not in columns or not 0 < count <= training for name, count in rows.get("lacking", ())),
         "more training rows are said to lack a value of a column than there are"),
        (any(name not in columns for name, _ in rows.get("missing", ())),
         "what counts for missing values is said of a column that is not there"),
        (any(name not in columns or name in (rows["label"], declared) or count > training or (worth or 0) > count
             for name, worth, count in rows.get("independent", ())),
         "a column is said to be independent that cannot be declared so, or rows to be worth more than they are"),
        (document["account"]["by_source"]["training"] and not training,
         "there are answers of training rows, and there are no such rows"),
        ("engine" in rows and not all(rows["engine"][name] for name in ("kind", "table")),
         "the rows are said to stay in an engine, and the engine or the table has no name"),
        (table is not None and not ("engine" in rows and table["table"] and 0 < training <= table["rows"]),
         "training rows are said to be in a table of an engine, and there is no such table, or too few rows in it"),
        (others is not None and (not others or others != sorted(set(others)) or rows["holdout"] in others),
         "the other holdouts with the same rows are not a sorted list of names other than its own"),
    )  # fmt: skip
    yield from dealt_findings(rows)


def dealt_findings(rows: Mapping[str, Any]) -> Iterator[str]:
    """Yield contradictions in the facts about a dealt table, of which the rows are a part."""
    if (dealt := rows.get("dealt")) is None:
        return
    every, own = dealt["all"], dealt["part"] - 1
    yield from _found(
        (len(every) != dealt["parts"] or not own < len(every)
         or every[own] != [rows["holdout"], rows["rows"], rows["fingerprint"]],
         "the rows are not the part of the whole that they are said to be"),
        (len({name for name, _, _ in every}) != len(every) or len({each for *_, each in every}) != len(every),
         "one part of the whole is listed twice"),
        (dealt["whole"] != digest_of_parts(every), "the whole is not named by the digest of its parts"),
    )  # fmt: skip


def _state_of(document: Mapping[str, Any]) -> State:
    """Return the public part of the mechanism's state."""
    account = document["account"]
    later = sum(family["later"] for family in account.get("declared", ())) + _opened(account)
    asked = account["asked"] - account["by_source"].get("declared", 0) + later  # places among the queries
    return State(asked=asked, charged=account["charged"], labels=account.get("labels", 0))


def _opened(account: Mapping[str, Any]) -> int:
    """Return the number of challenges that were opened, each of which counts as a query."""
    return int(account.get("open_challenges", {"opened": 0})["opened"])


def _unreachable_findings(document: Mapping[str, Any], mechanism: Mechanism) -> Iterator[str]:
    """Yield counts that no sequence of queries and losses can lead to with this mechanism."""
    account, accounts = document["account"], mechanism.accounts
    lost, by_source = account.get("lost", {"queries": 0, "charges": 0}), account["by_source"]
    yield from _found(
        (not accounts.reachable(_state_of(document)), "the mechanism never answers and charges as much as is said")
    )
    yield from _family_findings(account, mechanism)
    forced = by_source.get("chosen", 0) + by_source.get("declared", 0) + _opened(account) + _charged_checks(account)
    least, most = accounts.labels_of(by_source["holdout"], forced=forced)
    yield from _found(
        ("lost" in account and not accounts.losable(queries=lost["queries"], charges=lost["charges"]),
         "the lost answers cannot have been charged what is said"),
        (not least <= account.get("labels", 0) - accounts.lost_labels_of(lost["charges"]) <= most,
         "what surprises told cannot have cost what is said"),
    )  # fmt: skip


def _family_findings(account: Mapping[str, Any], mechanism: Mechanism) -> Iterator[str]:
    """Yield contradictions in the facts about declared families, such as impossible error probabilities."""
    families = account.get("declared", [])
    if not families:
        yield from _found((
            account["by_source"].get("declared", 0),
            "there are answers to members of declared families, and no family is declared",
        ))  # fmt: skip
        return
    first = [family for family in families if not family["later"]]
    yield from _found(
        (len({family["name"] for family in families}) != len(families)
         or _unordered(family["entry"] for family in families),
         "two declared families have the same name or entry, or they are not in the order of their entries"),
        ([family["entry"] for family in first] != [*range(1, len(first) + 1)],
         "families are said to be of the holdout's creation, and other entries came before them"),
    )  # fmt: skip
    if not has_public_levels(mechanism):
        yield "families are declared, and this mechanism has no level to give them"
        return
    share = (1.0 - mechanism.statement_confidence) * mechanism.share
    least = float(mechanism.nats(1, 0, 0.0))
    if mechanism.text_bits:
        least = min(least, mechanism.of_text(0.0))
    yield from _found(
        (sum(math.exp(-family["nats"]) for family in first) > share * (1.0 + 1e-9),
         "declared families have more of the probability of failure than was set apart for them"),
        (any(family["nats"] < least - 1e-9 for family in families if family["later"]),
         "a family that was declared later has a larger level than any query"),
    )  # fmt: skip


def _promise_findings(document: Mapping[str, Any], mechanism: Mechanism) -> Iterator[str]:
    """Yield differences between the stated promise and the one computed from the mechanism's parameters."""
    promise, stated, theorem = mechanism.promise(), document["promise"], document["theorem"]
    numbers = entering_numbers(mechanism, promise)
    privacy = privacy_facts(promise.privacy, simulation=document["issue"]["simulation"])
    yield from _found(
        (not _close(stated["radius"], promise.radius),
         f"the half-width is not the one that the mechanism's parameters give, {promise.radius:.6g}"),
        ({stated["statement"], theorem["statement"]} != {promise.statement},
         f"the statement is not the one that proves the promise, {promise.statement}"),
        (stated["confidence"] != promise.confidence,
         "the probability of the promise is not the mechanism's confidence"),
        ((stated["queries"], stated["surprises"]) != (mechanism.queries, mechanism.planned_surprises),
         "the planned queries or surprises of the promise are not the mechanism's"),
        (not _close(stated["spends_only_beyond"], promise.spends_only_beyond, relative=1e-3),
         "the distance beyond which surprises are charged is not the one that the mechanism's parameters give"),
        (set(numbers) != set(theorem["numbers"]) or not all(
            _close(theorem["numbers"][name], value, relative=1e-2) for name, value in numbers.items()
        ), "the numbers that enter the statement are not those that the mechanism's parameters give"),
        (not all(_close(document["privacy"][name], value) for name, value in privacy.items()),
         "the privacy is not the one that the mechanism's parameters give"),
        (document["rows"]["rows"] != mechanism.rows,
         "the number of sealed rows is not the one that the mechanism was planned for"),
    )  # fmt: skip


def _close(stated: float | None, computed: float | None, *, relative: float = 1e-6) -> bool:
    """Return whether two numbers agree up to differences in floating-point arithmetic between machines."""
    if computed is None or not math.isfinite(computed):
        return stated is None
    return stated is not None and math.isclose(stated, computed, rel_tol=relative, abs_tol=1e-9)
