"""Blocks of a certificate: titled text and values, and the labels of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.certificate.numbers import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """One section of the page, in the order of its parts.

    Attributes:
        key: Name of the section in the document.
        title: Its heading.
        before: Paragraphs.
        bullets: Points of a list.
        after: More paragraphs.
        items: Label and value, both as text.
        tables: The same as markup, where a table shows it better; empty for a list of items.
    """

    key: str
    title: str
    before: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    items: tuple[tuple[str, str], ...] = ()
    tables: str = ""


def labelled(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Labels and values as text."""
    return tuple((_label(name), value_text(value)) for name, value in fields.items())


def _label(name: str) -> str:
    return _LABELS.get(name, name.replace("_", " "))


def brief_value(value: Any) -> str:
    """A value of the dependence, which may be a large table: the document has it in full."""
    text = value_text(value)
    return (
        text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN].rsplit(',', 1)[0]}, ... (in full in the document)"
    )


def value_text(value: Any) -> str:
    """A value as text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return shown(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {value_text(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(
            f"({value_text(inner)})" if isinstance(inner, (list, dict)) else value_text(inner) for inner in value
        )
    return str(value)
