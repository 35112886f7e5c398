"""Outline of a certificate: its blocks in order, with titles, texts and labelled values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.certificate.form import RARE_SOURCES, SIGNATURE, SOURCES, TIMESTAMP
from everhold.certificate.phrases import (
    ARRIVED,
    FAMILIES_ARRIVED,
    about_rows,
    arrival_items,
    at_least,
    at_most,
    group_items,
    percent,
    shown,
)
from everhold.certificate.summary import bounds_of, margin_of, unit_of
from everhold.certificate.words import engine_name, is_endless
from everhold.dependence import MODELS
from everhold.display import counted
from everhold.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LABELS = {
    "id": "identifier of the holdout",
    "rows": "sealed rows",
    "fingerprint": "SHA-256 of the sealed file",
    "training_fingerprint": "SHA-256 of the training file",
    "sealed_at": "sealed at",
    "row_id": "column that names rows",
    "features": "features of the sealed rows",
    "stratified": "column that the table was split by",
    "by_position": "of these about predictions as arrays or files",
    "label": "column with the truth",
    "name": "mechanism",
    "queries": "planned queries",
    "surprises": "planned surprises",
    "unit": "grid steps of a row's value",
    "asked": "different queries asked",
    "charged": "charged in all",
    "entry_hash": "hash of the last entry",
    "sequence": "entries in the ledger",
    "issued_at": "issued at",
    "version": "version",
    "value": "signature",
    "beta": "beta, the probability of failure",
    "public_key": "public key",
    "training": "confirmed: the training estimate",
    "guess": "confirmed: the analyst's own guess",
    "standing": "not better than the best so far",
    "holdout": "taken from the sealed rows",
    "silent": "asked silently",
    "chosen": "choices among many, from the sealed rows",
    "declared": "members of declared families, from the sealed rows",
    "effective_rows": "effective rows, the independent rows that they are worth",
}
_MOST_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Block:
    """One titled block of the page, with its parts in order.

    Attributes:
        key: Name of the section in the document.
        title: Heading of the block.
        before: Paragraphs above the bullets.
        bullets: Points of a list.
        after: Paragraphs below the bullets.
        items: Label and value, both as text.
    """

    key: str
    title: str
    before: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    items: tuple[tuple[str, str], ...] = ()


def labelled(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return pairs of label and value, both as text, for the fields of a section."""
    return tuple((_LABELS.get(name, name.replace("_", " ")), _value_text(value)) for name, value in fields.items())


def _value_text(value: Any) -> str:
    """Return any value of a document as text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return shown(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_value_text(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(
            f"({_value_text(inner)})" if isinstance(inner, (list, dict)) else _value_text(inner) for inner in value
        )
    return str(value)


def outline(document: Mapping[str, Any]) -> tuple[Block, ...]:
    """Return the blocks of a certificate, in order.

    Args:
        document: The certificate document, with the explanations that `everhold.certificate.words.with_words` adds.
    """
    promise, rows, privacy = document["promise"], document["rows"], document["privacy"]
    mechanism, theorem, issue, signature = (document[name] for name in ("mechanism", "theorem", "issue", SIGNATURE))
    also = (_ALSO_SEALED,) if rows.get("also_sealed_as") else ()
    shared = labelled({name: mechanism[name] for name in ("name", "rows", "queries", "confidence", "unit")})
    proof = (("statement", theorem["statement"]), ("source", theorem["source"]), *labelled(theorem["numbers"]))
    kept_private = tuple(
        (name, _value_text(privacy[name])) for name in ("epsilon", "delta") if privacy[name] is not None
    )
    issued = (
        ("software", f"{issue['software']} {issue['version']}"),
        ("issued at", issue["issued_at"]),
        ("simulation", f"yes: {simulated(document)}" if issue["simulation"] else "no"),
    )
    signed = labelled({name: signature[name] for name in ("algorithm", "public_key", "value")})
    stamp = document.get(TIMESTAMP)
    checking = (_CHECKING,) if stamp is None else (_CHECKING, _CHECKING_TIME)
    stated = () if stamp is None else (("trusted time, as its token states it", stamp["time"]),)
    digests = tuple((f"SHA-256 of {name!r}", value) for name, value in signature["digests"].items())
    queries, head = document["account"].get("queries"), document["ledger_head"]
    listed = _NOT_LISTED if queries is None else "No query was asked."
    listed = _LISTED.format(number=shown(len(queries))) if queries else listed
    answers = []
    for query in queries or ():
        entry, asked, answer, interval, source, charged = query_cells(query)
        numbers = answer if interval == _NO_NUMBER else f"{answer}, between {interval.replace(' to ', ' and ', 1)}"
        answers.append((f"entry {entry}", f"{asked}: {numbers}; {source}, charged {charged}"))
    checkpoint = (_CHECKPOINT.format(**head["checkpoint"]),) if "checkpoint" in head else ()
    return (
        Block("promise", "What is promised", (promise["sentence"], *promise["explanation"]),
              items=tuple(_promise_items(promise))),
        Block("rows", "For which rows", also, items=tuple(_rows_items(document))),
        assumptions_block(document["assumptions"]),
        Block("mechanism", "How answers are made", (mechanism["explanation"],),
              items=(*shared, *labelled(mechanism["parameters"]))),
        Block("theorem", "Why it holds", (theorem["says"],), items=proof),
        account_block(document["account"], mechanism),
        Block("queries", "All queries", (listed,), items=tuple(answers)),
        Block("ledger_head", "Where the ledger stands", (_LEDGER, *checkpoint),
              items=labelled({name: value for name, value in head.items() if name != "checkpoint"})),
        Block("privacy", "Privacy of single rows", tuple(privacy["explanation"]), items=kept_private),
        Block("not_promised", "What is not promised", bullets=tuple(document["not_promised"]["items"])),
        Block("issue", "Issued", items=issued),
        Block(SIGNATURE, "Signature", checking, items=(*signed, *stated, *digests)),
    )  # fmt: skip


def simulated(document: Mapping[str, Any]) -> str:
    """Return a text that says why a certificate is a simulation: predictable noise, or a seed."""
    kind = MECHANISMS.get(document["mechanism"]["name"])
    return "the noise could be predicted" if kind is None or kind.traits.adds_noise else "it was created with a seed"


_LISTED = (
    "These are all queries of the ledger, {number} in number, in its order and in their own units. A difference of "
    "shares is in percentage points. All intervals hold at once, with the probability of the promise. A query without "
    "an interval has another kind of answer, or was not told yet."
)
_NOT_LISTED = (
    "This certificate does not list the queries and their answers. The steward's command 'everhold transcript' prints "
    "them all, and the hash of the last entry, below, commits to them."
)
_LEDGER = (
    "Every query and its exact answer is an entry of the ledger, chained by SHA-256. Whoever keeps this "
    "certificate can show later that no entry up to here was changed or taken away."
)
_CHECKPOINT = (
    "Entries up to number {sequence:,} were checked before, the last of them at {made_at}, and what they add up to was "
    "kept under the key's seal. For this certificate they were not read again, except for which queries they "
    "answer; those after them were. The ledger passes through the hash that commits to all of them. Whether each can "
    "still be read as it was written is what 'everhold ledger verify' checks."
)
_ALSO_SEALED = (
    "The same rows were sealed more than once in the same storage. Budgets do not add up: what the other holdouts told "
    "is not counted here, and the promise holds only for queries that were chosen without it."
)
_CHECKING = (
    "To check this certificate, offline: everhold certificate verify FILE --public-key KEY. The key must come to "
    "you from the steward, who sealed the rows, and not with this document. Without it, the signature only shows "
    "that nothing was altered since somebody signed. Use the version of everhold that is named above: another one that "
    "has other words says that it did not check them, and does not call the certificate sound."
)
_CHECKING_TIME = (
    "The trusted time is a token of a time-stamping authority (RFC 3161) about this signature. Whether to believe it: "
    "everhold certificate verify FILE --timestamp-roots ROOTS, with the authority's root certificate from a source "
    "that you trust."
)


def _promise_items(promise: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield label and value of each number of the promise."""
    radius, beyond = promise["radius"], promise["spends_only_beyond"]
    yield "half-width, at most", "infinite" if radius is None else f"{at_most(radius)} (rounded up from {radius!r})"
    yield "probability, at least", percent(promise["confidence"])
    yield "statement", promise["statement"]
    yield "planned queries", shown(promise["queries"])
    if promise["surprises"] is not None:
        yield "planned surprises", shown(promise["surprises"])
    if beyond:
        yield "surprises are charged only beyond", at_least(beyond)


def _rows_items(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield label and value of each fact about the sealed and the training rows."""
    rows = document["rows"]
    yield "holdout", rows["holdout"]
    if "engine" in rows:
        engine = rows["engine"]
        yield from labelled({"rows": rows["rows"]})
        yield "they stay in", f"{engine_name(engine)}, table {engine['table']!r}"
        if "arrived" in engine:
            yield "rows sealed at creation", f"those with {engine['arrived']} before {engine['until']}"
        yield "snapshot", "none: the table itself" if engine["snapshot"] is None else engine["snapshot"]
        yield "fingerprint, keyed (HMAC-SHA256 of the table's contents)", rows["fingerprint"]
        yield from labelled({"sealed_at": rows["sealed_at"]})
    else:
        yield from labelled({name: rows[name] for name in ("rows", "fingerprint", "sealed_at")})
    yield from group_items(document)
    if table := rows.get("training_table"):
        yield "training rows, open", f"{shown(table['rows'])} in the table {table['table']!r}"
        yield "of them copied", shown(rows["training_rows"])
    else:
        yield "training rows, open", shown(rows["training_rows"]) if rows["training_rows"] else "none"
    if table or rows["training_rows"]:
        yield from labelled({"training_fingerprint": rows["training_fingerprint"]})
    yield from labelled(
        {name: rows[name] for name in ("label", "row_id", "features", "stratified") if rows.get(name) is not None}
    )
    if dealt := rows.get("dealt"):
        yield "part", f"{dealt['part']} of the {dealt['parts']} parts of {dealt['of']!r}"
        yield "the whole", (
            f"{shown(sum(part[1] for part in dealt['all']))} rows, dealt before they were sealed; each is in one part, "
            "and no row is in two of them"
        )  # fmt: skip
        yield "SHA-256 of the whole, by its parts", dealt["whole"]
        for name, count, fingerprint in dealt["all"]:
            yield f"part {name!r}", f"{shown(count)} rows, SHA-256 {fingerprint}"
    if rows.get("lacking"):
        yield "training rows without a value", ", ".join(f"{name}: {shown(count)}" for name, count in rows["lacking"])
    if rows.get("missing"):
        yield "rows without a value", ", ".join(f"{name}: {said}" for name, said in rows["missing"])
    if rows.get("also_sealed_as"):
        yield "also sealed as", ", ".join(map(repr, rows["also_sealed_as"]))
    yield "columns", ", ".join(f"{name} ({kind})" for name, kind in rows["columns"])
    yield from labelled({"id": rows["id"]})


def assumptions_block(section: Mapping[str, Any]) -> Block:
    """Return the block of the page with the assumptions about the rows."""
    return Block(
        "assumptions",
        "What is assumed about the rows, and how to tell if it is wrong",
        bullets=tuple(f"It is assumed that {text}." for text in (*section["stated"], *section["always"])),
        after=tuple(section["how_to_tell"]),
        items=tuple(_dependence_items(section["dependence"])),
    )


def _dependence_items(dependence: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the dependence model's facts as items, without unset fields and fits that cannot be wrong."""
    model = MODELS.get(str(dependence.get("kind")))
    labels, words = (model.entries, {("kind", model.kind): model.title, **model.value_words}) if model else ({}, {})
    for name, value in dependence.items():
        if value in (None, "", [], {}) or (name == "miss" and value == 0):
            continue
        said = words.get((name, value)) if isinstance(value, str) else None
        text = said or _value_text(value)  # which may be a large table
        if len(text) > _MOST_SHOWN:
            text = f"{text[:_MOST_SHOWN].rsplit(',', 1)[0]}, ... (in full in the document)"
        yield f"dependence: {labels.get(name, name.replace('_', ' '))}", text


_ALLOTTED = (
    "The steward let named analysts spend parts of the budget, and the ledger kept them to it. One transcript and one "
    "promise hold for all of them together. A name says on whose behalf a query was asked; it does not prove who asked."
)
_LOST = (
    "The database was set back to an older copy and recovered: answers that it does not hold were given before. Their "
    "number and price are known and count as asked and charged; what they said is not in the ledger."
)
_DECLARED = (
    "Declared families were fixed, with what each of their members asks and how its interval is made, before the "
    "answers to the members were known. Each member has its share of the family's probability of failure, so all of "
    "their intervals hold together with all others, exactly as they were told, in whatever order they were asked, and "
    "after the study was unsealed, too. They take no query and no surprise. Files, programs and the network are "
    "refused to the code of models among them. It is assumed that nothing else outside of a model decides what it "
    "predicts: a clock, the environment, threads of its own and compiled code that reads files are not seen."
)
_CLOSED = (
    "The study is over: it was unsealed, and the ledger takes no new query. The entry that closed it holds, for "
    "each unsealed answer, what the sealed rows say and an interval for the promised value, usually narrower than what "
    "was answered before. All of these intervals hold together with the probability of the promise."
)
_SPENDING = ("asked", "queries", "charged", "charges")


def account_block(account: Mapping[str, Any], mechanism: Mapping[str, Any]) -> Block:
    """Return the block of the page with queries, charges and remaining budget."""
    kind, left = MECHANISMS.get(mechanism["name"]), ""
    if kind is not None and "surprises" in account["left"]:
        left = kind.presentation.left_endless if is_endless(mechanism) else kind.presentation.left
    said = (
        left,
        _ALLOTTED if "allotments" in account else "",
        _LOST if "lost" in account else "",
        _CLOSED if "unsealed" in account else "",
        _DECLARED if "declared" in account else "",
        ARRIVED if "arrivals" in account else "",
        FAMILIES_ARRIVED if "arrivals" in account and "declared" in account else "",
    )
    items = tuple(_account_items(account))
    return Block("account", "What was asked, spent and left", after=tuple(filter(None, said)), items=items)


def _account_items(account: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield label and text for all that was asked, spent and left: counts, families, gates, teams and allotments."""
    yield from labelled({"asked": account["asked"], "by_position": account["by_position"]})
    yield from labelled({name: account["by_source"][name] for name in (*SOURCES, *RARE_SOURCES)
                          if name in account["by_source"]})  # fmt: skip
    if "lost" in account:
        lost = account["lost"]
        yield "times that the ledger was set back and recovered", shown(lost["recoveries"])
        yield "answered and lost", shown(lost["queries"])
        yield "charged for what was lost", shown(lost["charges"])
    if "unsealed" in account:
        yield "unsealed answers", shown(account["unsealed"]["answers"])
    yield from labelled({"charged": account["charged"]})
    if "labels" in account:
        yield "what surprises have told costs later queries, in nats", shown(account["labels"] / 1e6)
    yield from ((f"{name} left", shown(count)) for name, count in sorted(account["left"].items(), reverse=True))
    for family in account.get("declared", ()):
        when = "when the holdout was created" if not family["later"] else f"by entry {shown(family['entry'])}"
        when += f", fixed at {family['fixed']}"
        level = f"a probability of failure of {math.exp(-family['nats']):.3g} in all"
        yield f"declared family {family['name']!r}", f"{family['holds']}, {when}, {level}, {family['digest']}"
        yield from ((f"declared in {family['name']!r}", member) for member in family["members"])
    yield from arrival_items(account)
    yield from _gate_items(account.get("gates", ()))
    if (competition := account.get("competition")) is not None:
        teams, each = shown(competition["teams"]), shown(competition["submissions"])
        yield "competition by", f"{competition['metric']}, for up to {teams} teams with {each} submissions each"
        for row in competition["rows"]:
            place = "no place" if row["rank"] is None else f"place {shown(row['rank'])}"
            ends = "" if row["low"] is None else f" between {at_least(row['low'])} and {at_most(row['high'])}"
            score = "unknown" if row["score"] is None else f"{shown(row['score'])},{ends}"
            yield f"team {row['team']!r}", f"{place}, score {score}, of {counted(row['submissions'], 'submission')}"
    allotments = account.get("allotments")
    if allotments is not None:
        yield "acts of the steward in the ledger", shown(allotments["acts"])
        for part in allotments["analysts"]:
            asked, queries, charged, charges = (shown(part[name]) for name in _SPENDING)
            yield f"analyst {part['analyst']!r}", f"queries {asked} of {queries}, charged {charged} of {charges}"


def _gate_items(gates: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield label and value for each gate, with its promotions and checks."""
    for gate in gates:
        limit = "" if gate["limit"] is None else f" of {shown(gate['limit'])}"
        margin = margin_of(gate)
        yield (
            f"gate {gate['gate']!r}",
            f"{gate['metric']}, margin {margin}, challenges {shown(gate['challenges'])}{limit}, "
            f"promotions {shown(len(gate['promotions']))}, first champion {gate['first']}",
        )
        if (checks := gate.get("checks")) is not None:
            yield (
                f"gate {gate['gate']!r}, checks against the baseline",
                f"{shown(checks['made'])}, of which {shown(checks['charged'])} were charged",
            )
        for promotion in gate["promotions"]:
            since = promotion["since_first"]
            total = "" if since is None else f"; than the first champion by {at_least(since)} at least"
            high = "" if promotion["high"] is None else f", at most {at_most(promotion['high'])}"
            yield (
                f"gate {gate['gate']!r}, promoted in entry {shown(promotion['sequence'])}",
                f"{promotion['challenger']} is better than {promotion['over']} by more than {margin}{high}{total}; "
                f"proved at the level e^-{promotion['nats']:.1f}",
            )
        for each in gate.get("completed", ()):
            first, last = each["rows"]
            yield (
                f"gate {gate['gate']!r}, champion completed in entry {shown(each['entry'])}",
                f"values for rows {shown(first)} to {shown(last)}, after arrival {shown(each['arrived'])}",
            )


_SOURCES = {
    "training": "confirmed: training estimate",
    "guess": "confirmed: own guess",
    "standing": "not better than the best so far",
    "holdout": "sealed rows",
    "silent": "asked silently",
    "chosen": "sealed rows: a choice among many",
    "declared": "sealed rows: declared beforehand",
    "promoted": "promoted: proved to be better",
    "kept": "kept: nothing is proved",
    "not worse": "check: proved not to be worse than the baseline by more than the margin",
    "regression": "check: proved to be worse than the baseline",
    "undecided": "check: nothing is proved",
}
_NO_NUMBER = "–"


def query_cells(query: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the table cells of a query: entry, query, answer, interval, source, charge."""
    answer = interval = _NO_NUMBER
    if query["low"] is not None or "unsealed" in query:
        bounds, unit = bounds_of(query), unit_of(query)
        answer, interval = bounds.value + unit, f"{bounds.low} to {bounds.high}{unit}"
    known = query.get("verdict", query["source"])
    source = _SOURCES.get(known, known)
    told = f"{source}; unsealed" if "unsealed" in query else source
    return f"{query['entry']:,}", query["asked"] + about_rows(query), answer, interval, told, f"{query['charged']:,}"
