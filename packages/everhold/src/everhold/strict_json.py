"""Strict JSON: reading what others wrote, and the one canonical form of which everhold computes digests.

What others wrote are request bodies, files of results, models and certificates. Readers of JSON differ in which value
of a name they take that an object has twice. So one is refused: what was checked would not be what is used.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any, NoReturn

from everhold.display import printable

_LONGEST_NAME = 60


class JsonFault(ValueError):
    """Error that says what is wrong with a JSON text, such as "has 'a' twice in one object"."""


def read_json(text: str | bytes) -> Any:
    """Parse a JSON text in UTF-8. Repeated names in an object and numbers that are not finite are refused.

    >>> read_json('{"of": "delay", "high": 60, "high": 90}')
    Traceback (most recent call last):
    everhold.strict_json.JsonFault: has 'high' twice in one object

    Raises:
        JsonFault: If the text is not such JSON.
    """
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        return json.loads(decoded, object_pairs_hook=_each_once, parse_constant=_refuse_constant)
    except JsonFault:
        raise
    except (ValueError, RecursionError):
        raise JsonFault("is not well-formed JSON") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object, after checking that each name is there once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = printable(next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1))
        raise JsonFault(f"has {name[:_LONGEST_NAME]!r} twice in one object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    """Refuse a number that is not finite."""
    raise JsonFault(f"has the value {name}, which is no finite number")


# Canonical JSON: one text for equal values, of which digests are computed.

_WITHOUT_KEYS = frozenset({str, int, float, bool, type(None)})
_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: object) -> str:
    """Return the canonical JSON text of a value, with sorted keys and without spaces.

    Raises:
        ValueError: If the value is not plain JSON data (nan, infinity, keys that are not text, lone surrogates ...).

    Examples:
        >>> canonical({"b": 1, "a": [0.5, None]})
        '{"a":[0.5,null],"b":1}'
    """
    try:
        text = _ENCODER.encode(value)
        text.encode()
        plain, left = True, [value]
        while left and plain:  # keys that are no text would become text, and sort differently when read again
            item = left.pop()
            if isinstance(item, dict):
                plain = all(isinstance(key, str) for key in item)
                item = item.values()
            elif not isinstance(item, list | tuple):
                continue
            left += [each for each in item if type(each) not in _WITHOUT_KEYS]
    except (TypeError, ValueError, RecursionError):  # the original message may quote a secret state
        plain = False
    if not plain:
        raise ValueError(
            "The value is not plain JSON data. Pass only dicts with text keys, lists, "
            "texts, finite numbers, booleans and None."
        )
    return text


def canonical_object(text: object, *, sealed: bool = False) -> dict[str, Any] | None:
    """Return the object of a canonical JSON text, or None if the text is not canonical JSON.

    Args:
        text: JSON text from the ledger.
        sealed: Whether a valid seal covers the text. Then everhold wrote it as it is, and its form is not compared
            again.
    """
    try:
        if not isinstance(text, str) or not text.startswith("{"):
            return None
        value, end = _DECODER.raw_decode(text)  # what was read has text keys
        return value if sealed or (end == len(text) and _ENCODER.encode(value) == text) else None
    except (ValueError, RecursionError):
        return None


def digest(value: object) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hex.

    Raises:
        ValueError: If the value is not plain JSON data.
    """
    return hashlib.sha256(canonical(value).encode()).hexdigest()
