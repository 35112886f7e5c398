"""What a certificate is made of: its sections in the order of the page, their fields, and which fields are words."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from everhold.estimand import FEATURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["FORMAT", "FORMAT_FIELD", "SECTIONS", "SIGNATURE", "SOURCES", "facts_of", "is_hex", "misshapen"]

FORMAT_FIELD = "everhold_certificate"
FORMAT = 1
"""Version of the document, its words and its page included; a change of any of them is a new version."""
SIGNATURE = "signature"
SOURCES = ("training", "guess", "standing", "holdout")
"""Where an answer may come from, as the ledger names it."""


def is_hex(value: object, digits: int) -> bool:
    """Whether a value is text of so many small hexadecimal digits."""
    return isinstance(value, str) and len(value) == digits and re.fullmatch("[0-9a-f]*", value) is not None


def _text(value: object) -> bool:
    return isinstance(value, str)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _pairs(value: object) -> bool:
    return isinstance(value, list) and all(_texts(pair) and len(pair) == 2 for pair in value)


def _sources(value: object) -> bool:
    return isinstance(value, dict) and set(value) == set(SOURCES) and all(map(_count, value.values()))


def _features(value: object) -> bool:
    return isinstance(value, str) and value in FEATURES


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300 and not math.isnan(value)  # type: ignore[arg-type]


def _hash(value: object) -> bool:
    return is_hex(value, 64)


def _object(value: object) -> bool:
    return isinstance(value, dict)


def _optional(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


def _map(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _allotments(value: object) -> bool:
    """How many entries are acts of the steward, and what each analyst may spend and has spent."""
    lines = value.get("analysts") if isinstance(value, dict) and set(value) == {"acts", "analysts"} else None
    return (
        isinstance(value, dict)
        and isinstance(lines, list)
        and _count(value["acts"])
        and all(isinstance(line, dict) and set(line) == _ALLOTMENT and _is_allotment(line) for line in lines)
    )


_ALLOTMENT = {"analyst", "asked", "questions", "charged", "charges"}


def _is_allotment(line: Mapping[str, object]) -> bool:
    return all(_text(value) if name == "analyst" else _count(value) for name, value in line.items())


def _lost(value: object) -> bool:
    """What answers the ledger lost and counts as spent."""
    names = {"recoveries", "questions", "charges"}
    return isinstance(value, dict) and set(value) == names and all(map(_count, value.values()))


_FACTS: dict[str, dict[str, Callable[[object], bool]]] = {
    "promise": {
        "radius": _optional(_number), "confidence": _number, "statement": _text, "questions": _count,
        "overfits": _optional(_count), "spends_only_beyond": _optional(_number),
    },
    "rows": {
        "holdout": _text, "id": _text, "rows": _count, "fingerprint": _text, "sealed_at": _text,
        "training_rows": _count, "training_fingerprint": _optional(_text), "columns": _pairs,
        "label": _optional(_text), "row_id": _optional(_text),
        "features": _features,
    },
    "assumptions": {"dependence": _object, "stated": _texts},
    "mechanism": {
        "name": _text, "rows": _count, "queries": _count, "confidence": _number, "unit": _count,
        "parameters": _map(lambda value: _number(value) or _text(value)),
    },
    "theorem": {"statement": _text, "numbers": _map(_optional(_number))},
    "account": {"asked": _count, "by_source": _sources, "by_position": _count, "charged": _count, "left": _map(_count)},
    "ledger_head": {"sequence": _count, "entry_hash": _hash},
    "privacy": {"epsilon": _optional(_number), "delta": _optional(_number)},
    "not_promised": {},
    "issue": {"software": _text, "version": _text, "issued_at": _text, "simulation": _flag},
}  # fmt: skip
_SOMETIMES: dict[str, dict[str, Callable[[object], bool]]] = {
    "rows": {"also_sealed_as": _texts},
    "account": {"allotments": _allotments, "lost": _lost},
}
"""Facts that only some certificates have: so all earlier ones keep their shape."""
_WORDS: dict[str, dict[str, Callable[[object], bool]]] = {
    "promise": {"sentence": _text, "explanation": _texts},
    "assumptions": {"always": _texts, "how_to_tell": _texts},
    "mechanism": {"explanation": _text},
    "theorem": {"says": _text, "source": _text},
    "privacy": {"explanation": _texts},
    "not_promised": {"items": _texts},
    "issue": {"banner": _optional(_text)},
}
SECTIONS = tuple(_FACTS)
"""Names of the signed sections, in the order of the page."""
_SIGNATURE = {
    "algorithm": _text,
    "public_key": _hash,
    "digests": _map(_hash),
    "value": lambda value: is_hex(value, 128),
}


def facts_of(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The sections without their words."""
    return {
        section: {
            name: document[section][name]
            for name in (*fields, *_SOMETIMES.get(section, {}))
            if name in fields or name in document[section]
        }
        for section, fields in _FACTS.items()
    }


def misshapen(document: object) -> Iterator[str]:
    """What keeps plain data from being a certificate, in words; nothing if it has the right shape."""
    if not isinstance(document, dict) or FORMAT_FIELD not in document:
        yield "this is not a certificate of everhold"
        return
    if type(document[FORMAT_FIELD]) is not int or document[FORMAT_FIELD] != FORMAT:
        yield f"the certificate has a format that this everhold does not know; expected version {FORMAT}"
        return
    expected = {FORMAT_FIELD, SIGNATURE, *SECTIONS}
    yield from (f"the section {name!r} is missing" for name in (*SECTIONS, SIGNATURE) if name not in document)
    if any(name not in expected for name in document):
        yield "there are sections that a certificate does not have"
    for name in SECTIONS:
        if name in document:
            fields, sometimes = _FACTS[name] | _WORDS.get(name, {}), _SOMETIMES.get(name, {})
            yield from _misshapen_section(name, document[name], fields, sometimes)
    if SIGNATURE in document:
        yield from _misshapen_section(SIGNATURE, document[SIGNATURE], _SIGNATURE, {})


def _misshapen_section(
    name: str,
    section: object,
    fields: Mapping[str, Callable[[object], bool]],
    sometimes: Mapping[str, Callable[[object], bool]],
) -> Iterator[str]:
    if not isinstance(section, dict):
        yield f"the section {name!r} is malformed"
        return
    yield from (f"in the section {name!r}, {field!r} is missing" for field in fields if field not in section)
    if any(field not in fields and field not in sometimes for field in section):
        yield f"in the section {name!r}, there are fields that do not belong there"
    for field, fits in (*fields.items(), *sometimes.items()):
        if field in section and not fits(section[field]):
            yield f"in the section {name!r}, {field!r} is malformed"
