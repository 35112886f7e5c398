"""Required form of a certificate: JSON without ambiguity, with these sections and fields.

A file may be hostile: never more than a few megabytes are read, and there is never an error but `Malformed`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from everhold.estimand import FEATURES
from everhold.values.units import MEASURES

FORMAT_FIELD = "everhold_certificate"
FORMAT = 1
"""Version of the document, its words and its page included; a change of any of them is a new version."""
SIGNATURE = "signature"
TIMESTAMP = "timestamp"
"""Section of a trusted time of the signature: a token of RFC 3161, and the time that it states."""
SUMMARY = "summary"
"""The section of the first page."""
SOURCES = ("training", "guess", "standing", "holdout")
"""Sources of an answer, as the ledger names them."""
RARE_SOURCES = ("silent", "chosen", "declared")
"""Sources that only some ledgers have; they are named where there is such an answer."""
INFINITE = ("inf", "-inf")
"""Numbers of an answer where nothing bounds it; JSON has no infinite numbers."""
DATA_BEGIN = '<script type="application/json" id="everhold-document">'
DATA_END = "</script>"
"""End of the signed document on a page."""

Fits = Callable[[object], bool]


def in_document(number: float | None) -> float | str | None:
    """A number of an answer as a certificate holds it.

    Examples:
        >>> in_document(0.5), in_document(-math.inf), in_document(None)
        (0.5, '-inf', None)
    """
    return float(number) if number is not None and math.isfinite(number) else None if number is None else f"{number:g}"


def is_hex(value: object, digits: int) -> bool:
    """True if a value is text of so many small hexadecimal digits."""
    return isinstance(value, str) and len(value) == digits and re.fullmatch("[0-9a-f]*", value) is not None


def _text(value: object) -> bool:
    return isinstance(value, str)


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300 and not math.isnan(value)  # type: ignore[arg-type]


def _hash(value: object) -> bool:
    return is_hex(value, 64)


def _optional(fits: Fits) -> Fits:
    return lambda value: value is None or fits(value)


def _list(fits: Fits) -> Fits:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _map(fits: Fits) -> Fits:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def _object(**fields: Fits) -> Fits:
    """Exactly these fields."""
    return lambda value: (
        isinstance(value, dict)
        and set(value) == set(fields)
        and all(fits(value[name]) for name, fits in fields.items())
    )


def _by_source(value: object) -> bool:
    """A count for each usual source, and for rare ones where there are such answers."""
    return (
        isinstance(value, dict)
        and set(SOURCES) <= set(value) <= {*SOURCES, *RARE_SOURCES}
        and all(map(_count, value.values()))
        and all(value.get(name, 1) for name in RARE_SOURCES)
    )


_texts = _list(_text)
_promoted = _object(
    sequence=_count, challenger=_hash, over=_hash, nats=_number, low=_number, high=_optional(_number),
    since_first=_optional(_number),
)  # fmt: skip
"""A promotion, with the interval of its gain and the level at which it was proved."""
_GATE: Mapping[str, Fits] = {
    "gate": _text, "metric": _text, "margin": _number, "limit": _optional(_count), "first": _hash, "challenges": _count,
    "promotions": _list(_promoted),
}  # fmt: skip
_completed = _object(entry=_count, arrived=_count, rows=lambda value: _span(value))
_GATE_BESIDES: Mapping[str, Fits] = {
    "completed": lambda value: _list(_completed)(value) and bool(value),
    "checks": lambda value: _object(made=_count, charged=_count)(value) and value["made"] > 0,  # type: ignore[index]
}


def _gate(value: object) -> bool:
    """A gate; how its champions got values for rows that arrived, and its checks, where there are such."""
    if not isinstance(value, dict):
        return False
    return _object(**_GATE, **{name: fits for name, fits in _GATE_BESIDES.items() if name in value})(value)


def _open_challenges(value: object) -> bool:
    """Challenges that were opened, looks at them, and where there are any, stops for futility and those open now."""
    if not isinstance(value, dict) or not value.keys() <= {"opened", "looked", "futile", "open"}:
        return False
    some = [value[name] for name in ("futile", "open") if name in value]
    return {"opened", "looked"} <= value.keys() and all(map(_count, value.values())) and all(some)


def _end(value: object) -> bool:
    """A number of an answer, which is infinite where nothing bounds it: JSON has no such number, so it is a text."""
    return _number(value) or value in INFINITE


_unsealed = _object(value=_end, low=_end, high=_end)
_chosen_facts: dict[str, Fits] = {
    "name": _text, "measure": lambda value: _text(value) and value in MEASURES, "asked": _text, "query": _hash,
    "entries": lambda value: _list(_count)(value) and bool(value),
    "by_position": lambda value: isinstance(value, bool),
    "source": lambda value: _text(value) and value in (*SOURCES, *RARE_SOURCES),
    "value": _optional(_end), "low": _optional(_end), "high": _optional(_end),
}  # fmt: skip
_BESIDES = ("unsealed", "rows")


def _span(value: object) -> bool:
    """First and last of the rows that an answer is about, in the order in which they arrived."""
    return _list(_count)(value) and len(value) == 2 and 1 <= value[0] <= value[1]  # type: ignore[arg-type, index]


def _chosen(value: object) -> bool:
    """An answer that is shown, with the numbers that were told, or unsealed, or both."""
    if not isinstance(value, dict):
        return False
    told = {name: number for name, number in value.items() if name not in _BESIDES}
    numbers = [told.get(name) for name in ("value", "low", "high")]
    silent = told.get("source") == "silent"
    return (
        _object(**_chosen_facts)(told)
        and numbers.count(None) == (3 if silent else 0)
        and ("unsealed" in value or not silent)
        and _unsealed(value.get("unsealed", {"value": 0, "low": 0, "high": 0}))
        and _span(value.get("rows", [1, 1]))
    )


_VERDICTS = ("promoted", "kept")
_query_facts: dict[str, Fits] = {
    "entry": _count, "asked": _text, "measure": lambda value: _text(value) and value in MEASURES,
    "source": lambda value: _text(value) and value in (*SOURCES, *RARE_SOURCES, *_VERDICTS),
    "value": _optional(_end), "low": _optional(_end), "high": _optional(_end), "charged": _count,
}  # fmt: skip


def _query(value: object) -> bool:
    """A query of the list: all three numbers or none, and those that were unsealed, where there are such."""
    if not isinstance(value, dict):
        return False
    told = {name: fact for name, fact in value.items() if name not in _BESIDES}
    return (
        _object(**_query_facts)(told)
        and [told[name] for name in ("value", "low", "high")].count(None) in (0, 3)
        and _unsealed(value.get("unsealed", {"value": 0, "low": 0, "high": 0}))
        and _span(value.get("rows", [1, 1]))
    )


_family: dict[str, Fits] = {
    "name": _text, "holds": _text, "nats": lambda value: _number(value) and value > 0,  # type: ignore[operator]
    "entry": _count, "later": lambda value: isinstance(value, bool), "digest": _hash, "fixed": _text,
    "members": _list(_text),
}  # fmt: skip
_declared = _object(**_family)
_arrived = _object(
    entry=_count, arrival=_count, rows=_count, training_rows=_count, fingerprint=_optional(_hash),
    training_fingerprint=_optional(_hash), until=_optional(_text), tree=_optional(_count),
)  # fmt: skip
_retired = _object(entry=_count, before=_count)
_allotted = _object(analyst=_text, asked=_count, queries=_count, charged=_count, charges=_count)
_ranking_row = _object(
    team=_text, score=_optional(_number), low=_optional(_number), high=_optional(_number), rank=_optional(_count),
    submissions=_count,
)  # fmt: skip
_competition = _object(
    feedback=_text, metric=_text, teams=_count, submissions=_count, acts=_count, rows=_list(_ranking_row)
)
_FACTS: dict[str, dict[str, Fits]] = {
    "promise": {
        "radius": _optional(_number), "confidence": _number, "statement": _text, "queries": _count,
        "surprises": _optional(_count), "spends_only_beyond": _optional(_number),
    },
    "rows": {
        "holdout": _text, "id": _text, "rows": _count, "fingerprint": _text, "sealed_at": _text,
        "training_rows": _count, "training_fingerprint": _optional(_text),
        "columns": _list(lambda pair: _texts(pair) and len(pair) == 2),  # type: ignore[arg-type]
        "label": _optional(_text), "row_id": _optional(_text),
        "features": lambda value: isinstance(value, str) and value in FEATURES,
    },
    "assumptions": {"dependence": lambda value: isinstance(value, dict), "stated": _texts},
    "mechanism": {
        "name": _text, "rows": _count, "queries": _count, "confidence": _number, "unit": _count,
        "parameters": _map(lambda value: _number(value) or _text(value) or isinstance(value, bool)),
    },
    "theorem": {"statement": _text, "numbers": _map(_optional(_number))},
    "account": {
        "asked": _count, "by_source": _by_source, "by_position": _count,
        "charged": _count, "left": _map(_count),
    },
    "ledger_head": {"sequence": _count, "entry_hash": _hash},
    "privacy": {"epsilon": _optional(_number), "delta": _optional(_number)},
    "not_promised": {},
    "issue": {
        "software": _text, "version": _text, "issued_at": _text, "simulation": lambda value: isinstance(value, bool),
    },
}  # fmt: skip
_FACTS_OF_SUMMARY: dict[str, Fits] = {"answers": _list(_chosen)}
_WORDS_OF_SUMMARY: dict[str, Fits] = {
    "sentences": _texts, "sources": _texts, "promise": _text, "asked": _text, "found": _texts, "means": _texts,
    "assumed": _texts, "does_not_mean": _texts,
}  # fmt: skip
_engine_stays = _object(kind=_text, table=_text, snapshot=_optional(_text))
_engine_grows = _object(kind=_text, table=_text, snapshot=_optional(_text), arrived=_text, until=_text)


def _engine(value: object) -> bool:
    """The engine in which rows stay, and the column that says when they arrived, if there is one."""
    return _engine_stays(value) or _engine_grows(value)


_SOMETIMES: dict[str, dict[str, Fits]] = {
    "ledger_head": {"checkpoint": _object(sequence=_count, made_at=_text)},
    "rows": {
        "also_sealed_as": _texts,
        "lacking": _list(lambda pair: isinstance(pair, list) and len(pair) == 2 and _text(pair[0]) and _count(pair[1])),
        "missing": _list(lambda pair: isinstance(pair, list) and len(pair) == 2 and all(map(_text, pair))),
        "warned": _texts,
        "stratified": _text,
        "engine": _engine,
        "training_table": _object(table=_text, rows=_count),
    },
    "account": {
        "allotments": _object(acts=_count, analysts=_list(_allotted)),
        "lost": _object(recoveries=_count, queries=_count, charges=_count),
        "unsealed": _object(acts=_count, answers=_count),
        "labels": lambda value: _count(value) and value != 0,
        "gates": _list(_gate),
        "open_challenges": _open_challenges,
        "declared": _list(_declared),
        "arrivals": _list(_arrived),
        "retired": _list(_retired),
        "competition": _competition,
        "queries": _list(_query),
    },
}
"""Facts that only some certificates have."""
_WORDS: dict[str, dict[str, Fits]] = {
    "promise": {"sentence": _text, "explanation": _texts},
    "assumptions": {"always": _texts, "how_to_tell": _texts},
    "mechanism": {"explanation": _text},
    "theorem": {"says": _text, "source": _text},
    "privacy": {"explanation": _texts},
    "not_promised": {"items": _texts},
    "issue": {"banner": _optional(_text)},
}
SECTIONS = (SUMMARY, *_FACTS)
"""Names of the signed sections, in the order of the page."""
_SIGNED: dict[str, Fits] = {
    "algorithm": _text, "public_key": _hash, "digests": _map(_hash), "value": lambda value: is_hex(value, 128),
}  # fmt: skip
_LONGEST_TOKEN = 2**17


def _token(value: object) -> bool:
    return (
        isinstance(value, str) and len(value) <= _LONGEST_TOKEN and re.fullmatch("[A-Za-z0-9+/]+=*", value) is not None
    )


_stamped = _object(token=_token, time=_text)


def facts_of(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The sections without their words."""
    return {SUMMARY: {name: document[SUMMARY][name] for name in _FACTS_OF_SUMMARY}} | {
        section: {
            name: document[section][name]
            for name in (*fields, *_SOMETIMES.get(section, {}))
            if name in fields or name in document[section]
        }
        for section, fields in _FACTS.items()
    }


def misshapen(document: object) -> Iterator[str]:
    """Reasons in words that plain data is no certificate; none if it has the right shape."""
    if not isinstance(document, dict) or FORMAT_FIELD not in document:
        yield "this is not a certificate of everhold"
        return
    if type(document[FORMAT_FIELD]) is not int or document[FORMAT_FIELD] != FORMAT:
        yield f"the certificate has a format that this everhold does not know; expected version {FORMAT}"
        return
    expected = {FORMAT_FIELD, SIGNATURE, TIMESTAMP, *SECTIONS}
    yield from (f"the section {name!r} is missing" for name in (*SECTIONS, SIGNATURE) if name not in document)
    if any(name not in expected for name in document):
        yield "there are sections that a certificate does not have"
    for name in _FACTS:
        if name in document:
            fields, sometimes = _FACTS[name] | _WORDS.get(name, {}), _SOMETIMES.get(name, {})
            yield from _misshapen_section(name, document[name], fields, sometimes)
    if SUMMARY in document:
        yield from _misshapen_section(SUMMARY, document[SUMMARY], _FACTS_OF_SUMMARY | _WORDS_OF_SUMMARY, {})
    if TIMESTAMP in document and not _stamped(document[TIMESTAMP]):
        yield "the token of the trusted time is malformed"
    if SIGNATURE in document:
        yield from _misshapen_section(SIGNATURE, document[SIGNATURE], _SIGNED, {})


def _misshapen_section(
    name: str,
    section: object,
    fields: Mapping[str, Fits],
    sometimes: Mapping[str, Fits],
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
