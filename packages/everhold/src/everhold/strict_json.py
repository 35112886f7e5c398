"""Strict reading of JSON from others: request bodies, files of results, models and certificates.

Readers of JSON differ in which value of a name they take that an object has twice. So one is refused: what was checked
would not be what is used.
"""

from __future__ import annotations

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
        JsonFault: If it is something else.
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
