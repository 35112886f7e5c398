"""The required form of a certificate's JSON, and how a certificate is read from a file.

A file may be hostile. So at most a few megabytes are read, and `Malformed` is the only error that is raised.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from everhold.estimand import FEATURES
from everhold.ledger.acts import CHECKED, VERDICTS
from everhold.strict_json import JsonFault, canonical, read_json
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
DATA_BEGIN = '<script type="application/json" id="everhold-document">'
DATA_END = "</script>"
"""End of the signed document on a page."""
MOST_BYTES = 4 * 2**20
_MOST_DEPTH = 16
_INFINITE = ("inf", "-inf")  # numbers of an answer where nothing bounds it: JSON has none that are infinite
_LONGEST_TOKEN = 2**17

Fits = Callable[[Any], bool]


def in_document(number: float | None) -> float | str | None:
    """Return a number of an answer in the form that a certificate stores, where infinity is a text.

    Examples:
        >>> in_document(0.5), in_document(-math.inf), in_document(None)
        (0.5, '-inf', None)
    """
    return float(number) if number is not None and math.isfinite(number) else None if number is None else f"{number:g}"


def is_hex(value: object, digits: int) -> bool:
    """Return whether a value is a text of exactly this number of lower-case hexadecimal digits."""
    return isinstance(value, str) and len(value) == digits and re.fullmatch("[0-9a-f]*", value) is not None


def _text(value: Any) -> bool:
    """Return whether a value is a text."""
    return isinstance(value, str)


def _truth(value: Any) -> bool:
    """Return whether a value is true or false."""
    return isinstance(value, bool)


def _count(value: Any) -> bool:
    """Return whether a value is a whole number from 0 that fits into 64 bits."""
    return type(value) is int and 0 <= value < 2**63


def _some(value: Any) -> bool:
    """Return whether a value is a whole number from 1 that fits into 64 bits."""
    return _count(value) and value != 0


def _number(value: Any) -> bool:
    """Return whether a value is a number of a size that arithmetic can take."""
    return type(value) in (int, float) and abs(value) <= 1e300 and not math.isnan(value)


def _end(value: Any) -> bool:
    """Return whether a value is a number or the text of an infinite number, as interval ends are."""
    return _number(value) or value in _INFINITE


def _hash(value: Any) -> bool:
    """Return whether a value is a SHA-256 in hex."""
    return is_hex(value, 64)


def _one_of(*texts: str) -> Fits:
    """Return a function that checks whether a value is one of these texts."""
    return lambda value: isinstance(value, str) and value in texts


def _optional(fits: Fits) -> Fits:
    """Return a check that accepts None and whatever the given check accepts."""
    return lambda value: value is None or fits(value)


def _list(*fits: Fits, least: int = 0) -> Fits:
    """Return a check for a list. With one check, all elements must pass it, and with several, one each in order."""
    if len(fits) == 1:
        return lambda value: isinstance(value, list) and len(value) >= least and all(map(fits[0], value))
    return lambda value: (
        isinstance(value, list) and len(value) == len(fits) and all(fit(each) for fit, each in zip(fits, value))  # noqa: B905
    )


def _map(fits: Fits) -> Fits:
    """Return a check for an object whose values all pass a check."""
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def _split(fields: Mapping[str, Fits]) -> tuple[dict[str, Fits], set[str]]:
    """Return all checks by field name, and the names of required fields. A question mark marks an optional field."""
    return {name.rstrip("?"): fits for name, fits in fields.items()}, {name for name in fields if name[-1] != "?"}


def _object(fields: Mapping[str, Fits]) -> Fits:
    """Return a check for an object with exactly these fields. A question mark makes a field optional."""
    known, needed = _split(fields)
    return lambda value: (
        isinstance(value, dict)
        and needed <= value.keys() <= known.keys()
        and all(known[name](each) for name, each in value.items())
    )


def _span(value: Any) -> bool:
    """Check that a value is the first and last of some rows, counted from 1 in the order of arrival."""
    return _list(_count, _count)(value) and 1 <= value[0] <= value[1]


def _answer(facts: Mapping[str, Fits], absent: Callable[[Mapping[str, Any]], tuple[int, ...]]) -> Fits:
    """Return a check for an answer. ``absent`` returns how many of value, low and high may be missing."""
    unsealed = _object({"value": _end, "low": _end, "high": _end})
    numbers = dict.fromkeys(("value", "low", "high"), _optional(_end))
    whole = _object({**facts, **numbers, "unsealed?": unsealed, "rows?": _span})
    return lambda value: whole(value) and [value[name] for name in numbers].count(None) in absent(value)


_SOURCE = _one_of(*SOURCES, *RARE_SOURCES)
_chosen = _answer(
    {"name": _text, "measure": _one_of(*MEASURES), "asked": _text, "query": _hash, "entries": _list(_count, least=1),
     "by_position": _truth, "source": _SOURCE},
    lambda fact: (3 if "unsealed" in fact else -1,) if fact["source"] == "silent" else (0,),
)  # fmt: skip
_query = _answer(
    {"entry": _count, "asked": _text, "measure": _one_of(*MEASURES), "charged": _count,
     "source": _one_of(*SOURCES, *RARE_SOURCES, *VERDICTS), "verdict?": _one_of(*CHECKED)},
    lambda _: (0, 3),
)  # fmt: skip
_promoted = _object({
    "sequence": _count, "challenger": _hash, "over": _hash, "nats": _number, "low": _number, "high": _optional(_number),
    "since_first": _optional(_number),
})  # fmt: skip
_gate = _object({
    "gate": _text, "metric": _text, "margin": _number, "limit": _optional(_count), "first": _hash, "challenges": _count,
    "promotions": _list(_promoted),
    "completed?": _list(_object({"entry": _count, "arrived": _count, "rows": _span}), least=1),
    "checks?": _object({"made": _some, "charged": _count}),
})  # fmt: skip
_arrived = _object({
    "entry": _count, "arrival": _count, "rows": _count, "training_rows": _count, "fingerprint": _optional(_hash),
    "training_fingerprint": _optional(_hash), "until": _optional(_text), "tree": _optional(_count),
})  # fmt: skip
_declared = _object({
    "name": _text, "holds": _text, "nats": lambda value: _number(value) and value > 0, "entry": _count,
    "later": _truth, "digest": _hash, "fixed": _text, "members": _list(_text),
})  # fmt: skip
_ranked = _object({
    "team": _text, "score": _optional(_number), "low": _optional(_number), "high": _optional(_number),
    "rank": _optional(_count), "submissions": _count,
})  # fmt: skip
_engine = {"kind": _text, "table": _text, "snapshot": _optional(_text)}
_stays, _grows = _object(_engine), _object({**_engine, "arrived": _text, "until": _text})
_FACTS: dict[str, dict[str, Fits]] = {
    SUMMARY: {"answers": _list(_chosen)},
    "promise": {
        "radius": _optional(_number), "confidence": _number, "statement": _text, "queries": _count,
        "surprises": _optional(_count), "spends_only_beyond": _optional(_number),
    },
    "rows": {
        "holdout": _text, "id": _text, "rows": _count, "fingerprint": _text, "sealed_at": _text,
        "training_rows": _count, "training_fingerprint": _optional(_text), "columns": _list(_list(_text, _text)),
        "label": _optional(_text), "row_id": _optional(_text), "features": _one_of(*FEATURES),
        "also_sealed_as?": _list(_text), "lacking?": _list(_list(_text, _count)),
        "missing?": _list(_list(_text, _text)), "warned?": _list(_text), "stratified?": _text,
        "independent?": _list(_list(_text, _optional(_count), _count)),
        "dealt?": _object({
            "of": _text, "part": _some, "parts": _some, "whole": _hash, "all": _list(_list(_text, _some, _hash)),
        }),
        "engine?": lambda value: _stays(value) or _grows(value),
        "training_table?": _object({"table": _text, "rows": _count}),
    },
    "assumptions": {"dependence": lambda value: isinstance(value, dict), "stated": _list(_text)},
    "mechanism": {
        "name": _text, "rows": _count, "queries": _count, "confidence": _number, "unit": _count,
        "parameters": _map(lambda value: _number(value) or _text(value) or _truth(value)),
    },
    "theorem": {"statement": _text, "numbers": _map(_optional(_number))},
    "account": {
        "asked": _count, "by_position": _count, "charged": _count, "left": _map(_count),
        "by_source": _object(dict.fromkeys(SOURCES, _count) | {f"{name}?": _some for name in RARE_SOURCES}),
        "allotments?": _object({"acts": _count, "analysts": _list(_object(
            {"analyst": _text, "asked": _count, "queries": _count, "charged": _count, "charges": _count}
        ))}),
        "lost?": _object({"recoveries": _count, "queries": _count, "charges": _count}),
        "unsealed?": _object({"acts": _count, "answers": _count}), "labels?": _some, "gates?": _list(_gate),
        "open_challenges?": _object({"opened": _count, "looked": _count, "futile?": _some, "open?": _some}),
        "declared?": _list(_declared), "arrivals?": _list(_arrived),
        "retired?": _list(_object({"entry": _count, "before": _count})),
        "competition?": _object({
            "feedback": _text, "metric": _text, "teams": _count, "submissions": _count, "acts": _count,
            "rows": _list(_ranked),
            "public?": _object({"holdout": _text, "rows": _some, "step": _number, "confidence": _number}),
        }),
        "queries?": _list(_query),
    },
    "ledger_head": {
        "sequence": _count, "entry_hash": _hash, "checkpoint?": _object({"sequence": _count, "made_at": _text}),
    },
    "privacy": {"epsilon": _optional(_number), "delta": _optional(_number)},
    "issue": {"software": _text, "version": _text, "issued_at": _text, "simulation": _truth},
}  # fmt: skip
SECTIONS = tuple(_FACTS)
"""Names of the signed sections."""
_SIGNED: dict[str, Fits] = {
    "algorithm": _text, "public_key": _hash, "digests": _map(_hash), "value": lambda value: is_hex(value, 128),
}  # fmt: skip
_stamped = _object({
    "time": _text,
    "token": lambda value: (
        isinstance(value, str) and len(value) <= _LONGEST_TOKEN and re.fullmatch("[A-Za-z0-9+/]+=*", value) is not None
    ),
})  # fmt: skip


def misshapen(document: object) -> Iterator[str]:
    """Yield the reasons why plain data do not have the form of a certificate, or nothing if they have it."""
    if not isinstance(document, dict) or FORMAT_FIELD not in document:
        yield "this is not a certificate of everhold"
        return
    if type(document[FORMAT_FIELD]) is not int or document[FORMAT_FIELD] != FORMAT:
        yield f"the certificate has another format than version {FORMAT}, which this everhold reads"
        return
    sections = {**_FACTS, SIGNATURE: _SIGNED}
    yield from (f"the section {name!r} is missing" for name in sections if name not in document)
    if document.keys() - {FORMAT_FIELD, TIMESTAMP, *sections}:
        yield "there are sections that a certificate does not have"
    if TIMESTAMP in document and not _stamped(document[TIMESTAMP]):
        yield "the token of the trusted time is malformed"
    for name, fields in sections.items():
        if not isinstance(section := document.get(name, {}), dict):
            yield f"the section {name!r} is malformed"
        elif name in document:
            known, needed = _split(fields)
            yield from (f"in the section {name!r}, {field!r} is missing" for field in known
                        if field in needed - section.keys())  # fmt: skip
            if section.keys() - known.keys():
                yield f"in the section {name!r}, there are fields that do not belong there"
            yield from (f"in the section {name!r}, {field!r} is malformed" for field, fits in known.items()
                        if field in section and not fits(section[field]))  # fmt: skip


class Malformed(Exception):
    """Error for a file that is not a certificate. Its message quotes at most one name from the file."""


def read_document(path: Path | str) -> tuple[Any, str | None]:
    """Return the certificate document in a file, and the HTML page around it, or None for a JSON file.

    Raises:
        Malformed: If the file holds no certificate document.
    """
    text = _read(path)
    if not text.lstrip().startswith("<"):
        return _parsed(text), None
    if text.count(DATA_BEGIN) != 1:
        raise Malformed("the page does not hold exactly one signed document")
    inside = text.split(DATA_BEGIN)[1]
    if DATA_END not in inside:
        raise Malformed("the signed document in the page has no end")
    return _parsed(inside.split(DATA_END)[0]), text


def _read(path: Path | str) -> str:
    """Return the text of a file, after a check of its size and encoding."""
    try:
        path = Path(path)
        if not path.is_file():
            raise Malformed("there is no such file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError):  # a null byte in a name is a ValueError
        raise Malformed("the file cannot be read") from None
    if len(content) > MOST_BYTES:
        raise Malformed(f"the file is larger than {MOST_BYTES // 2**20} MiB, the most that a certificate may have")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Malformed("the file is not text in UTF-8") from None
    return text.replace("\r\n", "\n")  # what mail and version control may do to line ends


def _parsed(text: str) -> Any:
    """Return the JSON value of a text with sorted names, after a check of its depth."""
    try:
        level = [value := read_json(text)]
    except JsonFault as fault:
        raise Malformed(f"the document {fault}") from None
    for _ in range(_MOST_DEPTH):
        level = [inner for outer in level if isinstance(outer, (dict, list))
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]  # fmt: skip
    if level:
        raise Malformed("the document is nested too deeply")
    try:
        return json.loads(canonical(value))  # sorted, so that a page does not depend on the order in the file
    except ValueError:
        raise Malformed("the document holds a number that is not finite, or text that is not Unicode") from None
