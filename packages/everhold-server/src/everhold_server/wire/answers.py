"""Wire format of results: JSON from which a client builds the same class again.

``{"result": "answer", "value": 0.21, "low": 0.16, "high": 0.26, ...}``. JSON has no infinite numbers. They are written
as null, and ``"infinite"`` of the outermost object has their places and values: ``{"/high": "inf"}``. Every subclass of
`everhold.display.Display` can be sent, including answers of new kinds of queries.

    >>> import everhold as eh
    >>> document = told(eh.Transcript([]))
    >>> document, result_from(document)
    ({'result': 'transcript', 'rows': []}, Transcript(rows=[]))
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

import numpy as np

from everhold import queries as registry
from everhold.certificate import Certificate
from everhold.display import Display, Facts
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind
from everhold_competitions.leaderboard import Comparison, RankingRow

RESULT = "result"
"""Names the class of an object."""

_INFINITE, _FACTS, _CERTIFICATE = "infinite", "facts", "certificate"
_PLAIN = frozenset({str, int, bool, type(None)})
_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_HOMES = (
    "everhold.answers",
    "everhold.asking.allotting",
    "everhold.asking.arrivals",
    "everhold.gates.checks",
    "everhold.gates.steps",
    "everhold.gates.open_challenge",
    "everhold_competitions.leaderboard",
    "everhold_competitions.submission_result",
    "everhold.mechanisms.records",
    "everhold.gates.gate",
    "everhold.gates.challenge",
)
_WHERE_INSTALLED = ("everhold_privacy.spending", "everhold_privacy.synthetic")
_UNIVERSE = "everhold.values.universe"
_OTHERS = (Comparison, Schema, RankingRow)


def told(result: Any) -> dict[str, Any]:
    """Return a result as plain JSON data, with infinite numbers replaced."""
    infinite: dict[str, str] = {}
    document = _told(result, "", infinite)
    if not isinstance(document, dict) or RESULT not in document:
        raise TypeError(
            f"A {type(result).__name__} is not a result. Pass an answer, a quote, a transcript or another result."
        )
    return {**document, _INFINITE: infinite} if infinite else document


def result_from(document: Mapping[str, Any]) -> Any:
    """Build a result object from the plain data of a response, the inverse of `told`.

    Raises:
        ValueError: If the document is not a result that this version of everhold knows.
    """
    try:
        whole = dict(document)
        for place, name in dict(whole.pop(_INFINITE, {})).items():
            whole = _placed(whole, place.split("/")[1:], _NUMBERS[name])
        if type(found := _read(whole)) is dict:
            raise ValueError(f"its kind {whole.get(RESULT)!r} is unknown")
        return found
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as fault:
        raise ValueError(
            f"This version of everhold cannot read the result of the service: {fault}. Update everhold."
        ) from None


def as_json(done: Any) -> Any:
    """Convert a result, or a list of results, into plain JSON data."""
    if isinstance(done, list):
        return [as_json(each) for each in done]
    return told(done) if isinstance(done, Display) else done


def received(found: Any) -> Any:
    """Build the result objects in a service's response, also inside lists. Other data is returned unchanged."""
    if isinstance(found, list):
        return [received(each) for each in found]
    return result_from(found) if isinstance(found, dict) and RESULT in found else found


def schema_of(kind: Any) -> tuple[str, dict[str, Any]]:
    """Return a sentence about a type of results, and its JSON schema.

    Args:
        kind: The name of a result class, or a type of plain data.
    """
    if isinstance(kind, str) and (listed := re.fullmatch(r"list\[(\w+)\]", kind)):
        return "The results, in order.", {"type": "array", "items": schema_of(listed[1])[1]}
    if kind is Any:
        return "The result, whose class is named by `result`.", {"type": "object", "required": [RESULT]}
    found = _classes().get(_snake(kind)) if isinstance(kind, str) else None
    if found is None:
        return "The result.", _json_type(getattr(kind, "__name__", str(kind)))
    properties = {field.name: _json_type(str(field.type)) for field in fields(found)}
    schema = {"type": "object", "properties": {RESULT: {"const": _name(found)}, **properties}}
    return (found.__doc__ or "").strip().partition("\n")[0], {**schema, "required": [RESULT, *properties]}


_JSON_TYPES = {
    "str": "string", "bool": "boolean", "int": "integer", "float": "number", "Sequence": "array", "tuple": "array",
    "list": "array", "NDArray": "array", "Mapping": "object", "dict": "object", "Facts": "object", "None": "null",
}  # fmt: skip


def _json_type(declared: str) -> dict[str, Any]:
    """Return the JSON schema of a declared Python type, empty for classes.

    A number may be null, which stands for an infinite one.
    """
    outer = re.sub(r"\[.*\]", "", declared).split(" | ")
    if not _JSON_TYPES.keys() >= set(outer):
        return {}
    kinds = {_JSON_TYPES[each] for each in outer} | ({"null"} if "float" in outer else set())
    return {"type": sorted(kinds) if len(kinds) > 1 else kinds.pop()}


@cache
def _classes() -> dict[str, type[Any]]:
    """Return all classes of results by their names in the wire format."""
    installed = [home for home in _WHERE_INSTALLED if find_spec(home.partition(".")[0]) is not None]
    homes = {*_HOMES, *installed, *(kind.module for kind in registry.KINDS)}
    inside = {each.name for home in _HOMES
              for each in iter_modules(getattr(import_module(home), "__path__", ()), f"{home}.")}  # fmt: skip
    found = [
        each for home in sorted(homes | inside) for each in vars(import_module(home)).values()
        if isinstance(each, type) and issubclass(each, Display) and is_dataclass(each)
    ]  # fmt: skip
    return {_name(each): each for each in (*found, *_OTHERS)}


def _name(kind: type[Any]) -> str:
    return _snake(kind.__name__)


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _told(value: Any, place: str, infinite: dict[str, str]) -> Any:
    if type(value) in _PLAIN or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, Certificate):
        return {RESULT: _CERTIFICATE, "document": value.to_dict()}
    if isinstance(value, float) and not math.isfinite(value):
        infinite[place] = f"{value:g}"
        return None
    if isinstance(value, Facts):
        return {RESULT: _FACTS, "facts": _told(dict(value), f"{place}/facts", infinite)}
    if is_dataclass(value) and _classes().get(_name(type(value))) is type(value):
        parts = {field.name: _told(getattr(value, field.name), f"{place}/{field.name}", infinite)
                 for field in fields(value)}  # fmt: skip
        return {RESULT: _name(type(value)), **parts}
    if isinstance(value, Mapping):
        return {str(name): _told(each, f"{place}/{_escaped(str(name))}", infinite) for name, each in value.items()}
    if isinstance(value, Enum):
        return value.value
    return _listed(value, place, infinite)


def _listed(value: Any, place: str, infinite: dict[str, str]) -> Any:
    if type(value).__module__ == _UNIVERSE:
        return _told(value.to_dict(), place, infinite)
    items = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(items, Sequence) and not isinstance(items, str):
        return [_told(item, f"{place}/{number}", infinite) for number, item in enumerate(items)]
    return items if items is value else _told(items, place, infinite)


def _escaped(name: str) -> str:
    """Return a part of a JSON pointer, escaped by RFC 6901."""
    return name.replace("~", "~0").replace("/", "~1")


def _placed(inside: Any, place: Sequence[str], value: float) -> Any:
    """Return a copy of nested plain data with one value replaced at a path."""
    if not place:
        return value
    name = place[0].replace("~1", "/").replace("~0", "~")
    if isinstance(inside, list):
        at = int(name)
        return [*inside[:at], _placed(inside[at], place[1:], value), *inside[at + 1 :]]
    return {**inside, name: _placed(inside[name], place[1:], value)}


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(each) for each in value]
    if not isinstance(value, dict):
        return value
    named, rest = value.get(RESULT), {name: each for name, each in value.items() if name != RESULT}
    if named == _FACTS and rest.keys() == {"facts"}:
        return Facts(_read(rest["facts"]))
    if named == _CERTIFICATE and rest.keys() == {"document"}:
        return Certificate(rest["document"])
    kind = _classes().get(named) if isinstance(named, str) else None
    if kind is None or rest.keys() != {field.name for field in fields(kind)}:
        return {name: _read(each) for name, each in value.items()}
    return kind(**{field.name: _field(field, rest[field.name]) for field in fields(kind)})


def _field(field: Field[Any], value: Any) -> Any:
    """Convert the JSON value of a field to the type that its class declares."""
    declared = str(field.type)
    reader = next((read for name, read in _READERS.items() if name in declared), None)
    return _read(value) if value is None or reader is None else reader(value)


def _array(values: list[float]) -> Any:
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "NDArray": _array,
    "Universe": lambda plain: import_module(_UNIVERSE).Universe.from_dict(plain),
    "ColumnKind": lambda columns: {name: ColumnKind(kind) for name, kind in columns.items()},
    "Mapping[str, tuple": lambda lists: {name: tuple(values) for name, values in lists.items()},
    "tuple[tuple": lambda lists: tuple(map(tuple, lists)),
    "tuple": lambda values: tuple(_read(values)),
}
"""Decoders of values that JSON does not tell apart, by the first text here that is in a field's declaration."""
