"""The certificate as people read it: titled blocks of paragraphs and labelled values, the same for page and table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.certificate.numbers import at_least, at_most, percent, shown
from everhold.certificate.shape import SIGNATURE, SOURCES
from everhold.dependence import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Block", "outline"]

_LABELS = {
    "id": "identifier of the holdout",
    "rows": "sealed rows",
    "fingerprint": "SHA-256 of the sealed file",
    "training_fingerprint": "SHA-256 of the training file",
    "sealed_at": "sealed at",
    "row_id": "column that names rows",
    "features": "features of the sealed rows",
    "by_position": "of these about predictions as arrays or files",
    "label": "column with the truth",
    "name": "mechanism",
    "queries": "planned questions",
    "overfits": "planned overfits",
    "unit": "grid steps of a row's value",
    "asked": "different questions asked",
    "charged": "charged in all",
    "entry_hash": "hash of the last entry",
    "sequence": "entries in the ledger",
    "issued_at": "issued at",
    "version": "version",
    "value": "signature",
    "questions": "planned questions",
    "beta": "beta, the probability of failure",
    "public_key": "public key",
    "training": "confirmed: the training estimate",
    "guess": "confirmed: the analyst's own guess",
    "standing": "not better than the best so far",
    "holdout": "taken from the sealed rows",
    "effective_rows": "effective rows, the independent rows that they are worth",
}
_MOST_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Block:
    """One section of the page, in the order of its parts.

    Attributes:
        key: Name of the section in the document.
        title: Its heading.
        before: Paragraphs.
        bullets: Points of a list.
        after: More paragraphs.
        items: Label and value, both as text.
    """

    key: str
    title: str
    before: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    items: tuple[tuple[str, str], ...] = ()


def outline(document: Mapping[str, Any]) -> tuple[Block, ...]:
    """The blocks of a certificate, in order."""
    promise, account, privacy = document["promise"], document["account"], document["privacy"]
    said = (promise["sentence"], *promise["explanation"])
    refused = tuple(document["not_promised"]["items"])
    return (
        Block("promise", "What is promised", said, items=tuple(_promise_items(promise))),
        Block(
            "rows",
            "For which rows",
            (_ALSO_SEALED,) if document["rows"].get("also_sealed_as") else (),
            items=tuple(_rows_items(document["rows"])),
        ),
        _assumptions(document["assumptions"]),
        _mechanism(document["mechanism"]),
        _theorem(document["theorem"]),
        _account(account, document["mechanism"]["name"]),
        Block("ledger_head", "Where the ledger stands", (_LEDGER,), items=_labelled(document["ledger_head"])),
        Block("privacy", "Privacy of single rows", tuple(privacy["explanation"]), items=_privacy_items(privacy)),
        Block("not_promised", "What is not promised", bullets=refused),
        Block("issue", "Issued", items=tuple(_issue_items(document["issue"]))),
        _signature(document[SIGNATURE]),
    )


_LEDGER = (
    "Every question and its exact answer is an entry of the ledger, chained by SHA-256. Whoever keeps this "
    "certificate can show later that no entry up to here was changed or taken away."
)
_OVERFITS_LEFT = (
    "Overfits left are the surprises after which all planned questions still fit into the half-width; there can be "
    "more than were planned, as long as it has room for them."
)
_ALLOTTED = (
    "The steward let named analysts spend parts of the budget, and the ledger kept them to it. One transcript and one "
    "promise hold for all of them together. A name says on whose behalf a question was asked; it does not prove who "
    "asked."
)
_LOST = (
    "The database was set back to an older copy and recovered: answers that it does not hold were given before. Their "
    "number and price are known and count as asked and charged; what they said is not in the ledger."
)
_ALSO_SEALED = (
    "The same rows were sealed more than once in the same storage. Budgets do not add up: what the other holdouts told "
    "is not counted here, and the promise holds only for questions that were chosen without it."
)
_SPENDING = ("asked", "questions", "charged", "charges")
_CHECKING = (
    "To check this certificate, offline: everhold certificate verify FILE --public-key KEY. The key must come to "
    "you from the steward, who sealed the rows, and not with this document. Without it, the signature only shows "
    "that nothing was altered since somebody signed. Use the version of everhold that is named above: another one that "
    "has other words says that it did not check them, and does not call the certificate sound."
)


def _promise_items(promise: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    radius, beyond = promise["radius"], promise["spends_only_beyond"]
    yield "half-width, at most", "infinite" if radius is None else f"{at_most(radius)} (rounded up from {radius!r})"
    yield "probability, at least", percent(promise["confidence"])
    yield "statement", promise["statement"]
    yield "planned questions", shown(promise["questions"])
    if promise["overfits"] is not None:
        yield "planned overfits", shown(promise["overfits"])
    if beyond:
        yield "overfits are charged only beyond", at_least(beyond)


def _rows_items(rows: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "holdout", rows["holdout"]
    yield from _labelled({name: rows[name] for name in ("rows", "fingerprint", "sealed_at")})
    if rows["training_rows"]:
        yield "training rows, open", shown(rows["training_rows"])
        yield from _labelled({"training_fingerprint": rows["training_fingerprint"]})
    else:
        yield "training rows, open", "none"
    yield from _labelled({name: rows[name] for name in ("label", "row_id", "features") if rows[name] is not None})
    if rows.get("also_sealed_as"):
        yield "also sealed as", ", ".join(map(repr, rows["also_sealed_as"]))
    yield "columns", ", ".join(f"{name} ({kind})" for name, kind in rows["columns"])
    yield from _labelled({"id": rows["id"]})


def _assumptions(section: Mapping[str, Any]) -> Block:
    return Block(
        "assumptions",
        "What is assumed about the rows, and how to tell if it is wrong",
        bullets=tuple(f"It is assumed that {text}." for text in (*section["stated"], *section["always"])),
        after=tuple(section["how_to_tell"]),
        items=tuple(_dependence_items(section["dependence"])),
    )


def _dependence_items(dependence: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What the model says; what it leaves open, and a fit that cannot be wrong, are not shown."""
    model = MODELS.get(str(dependence.get("kind")))
    labels, words = (model.entries, {("kind", model.kind): model.title, **model.value_words}) if model else ({}, {})
    for name, value in dependence.items():
        if value in (None, "", [], {}) or (name == "miss" and value == 0):
            continue
        said = words.get((name, value)) if isinstance(value, str) else None
        yield f"dependence: {labels.get(name, name.replace('_', ' '))}", said or _brief(value)


def _mechanism(section: Mapping[str, Any]) -> Block:
    shared = {name: section[name] for name in ("name", "rows", "queries", "confidence", "unit")}
    items = (*_labelled(shared), *_labelled(section["parameters"]))
    return Block("mechanism", "How answers are made", (section["explanation"],), items=items)


def _theorem(section: Mapping[str, Any]) -> Block:
    items = (("statement", section["statement"]), ("source", section["source"]), *_labelled(section["numbers"]))
    return Block("theorem", "Why it holds", (section["says"],), items=items)


def _account(account: Mapping[str, Any], mechanism: str) -> Block:
    said = (_OVERFITS_LEFT,) if mechanism == "guess_and_check" and "overfits" in account["left"] else ()
    if "allotments" in account:
        said = (*said, _ALLOTTED)
    if "lost" in account:
        said = (*said, _LOST)
    return Block("account", "What was asked, spent and left", after=said, items=tuple(_account_items(account)))


def _account_items(account: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _labelled({"asked": account["asked"], "by_position": account["by_position"]})
    yield from _labelled({name: account["by_source"][name] for name in SOURCES})
    if "lost" in account:
        lost = account["lost"]
        yield "times that the ledger was set back and recovered", shown(lost["recoveries"])
        yield "answered and lost", shown(lost["questions"])
        yield "charged for what was lost", shown(lost["charges"])
    yield from _labelled({"charged": account["charged"]})
    yield from ((f"{name} left", shown(count)) for name, count in sorted(account["left"].items(), reverse=True))
    allotments = account.get("allotments")
    if allotments is not None:
        yield "acts of the steward in the ledger", shown(allotments["acts"])
        for part in allotments["analysts"]:
            asked, questions, charged, charges = (shown(part[name]) for name in _SPENDING)
            yield f"analyst {part['analyst']!r}", f"questions {asked} of {questions}, charged {charged} of {charges}"


def _privacy_items(privacy: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _value(privacy[name])) for name in ("epsilon", "delta") if privacy[name] is not None)


def _issue_items(issue: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "software", f"{issue['software']} {issue['version']}"
    yield "issued at", issue["issued_at"]
    yield "simulation", "yes: the noise could be predicted" if issue["simulation"] else "no"


def _signature(signature: Mapping[str, Any]) -> Block:
    shown_fields = {name: signature[name] for name in ("algorithm", "public_key", "value")}
    digests = ((f"SHA-256 of {name!r}", value) for name, value in signature["digests"].items())
    return Block(SIGNATURE, "Signature", (_CHECKING,), items=(*_labelled(shown_fields), *digests))


def _labelled(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((_label(name), _value(value)) for name, value in fields.items())


def _label(name: str) -> str:
    return _LABELS.get(name, name.replace("_", " "))


def _brief(value: Any) -> str:
    """A value of the dependence, which may be a large table: the document has it in full."""
    text = _value(value)
    return (
        text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN].rsplit(',', 1)[0]}, ... (in full in the document)"
    )


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return shown(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_value(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(f"({_value(inner)})" if isinstance(inner, (list, dict)) else _value(inner) for inner in value)
    return str(value)
