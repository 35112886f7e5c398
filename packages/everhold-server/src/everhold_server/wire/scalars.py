"""Checks of single values from JSON or from the command line, before a query is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from everhold.arguments import as_float, as_whole, brief
from everhold.errors import QueryRejected
from everhold.queries import Form

MOST_ITEMS = 10_000
"""Largest number of items in a list of edges, categories or groups."""

_LARGEST = 2**53
_INFINITE = {"inf": math.inf, "-inf": -math.inf}


def refuse(problem: str, expected: str) -> NoReturn:
    """Raise a `QueryRejected` that says what is wrong and what was expected.

    Raises:
        QueryRejected: Always. Nothing is charged.
    """
    raise QueryRejected(f"{problem}. Pass {expected}.")


def a_text(value: Any, name: str) -> str:
    """Check that a value is a text that can be encoded, and return it."""
    if not isinstance(value, str) or any("\ud800" <= sign <= "\udfff" for sign in value):
        refuse(f"{name} is {brief(value)}", "a text")
    return value


def a_number(value: Any, name: str) -> int | float:
    """Check that a value is a finite number, and return it."""
    number: int | float = value
    if not math.isfinite(as_float(value)):
        refuse(f"{name} is {brief(value)}", "a finite number")
    return number


def a_whole_number(value: Any, name: str) -> int:
    """Return a value as an int after a check that it is whole and at most 2^53, so that all programs read it alike."""
    whole = as_whole(value)
    if whole is None or abs(whole) > _LARGEST:
        refuse(f"{name} is {brief(value)}", "a whole number")
    return whole


def a_truth(value: Any, name: str) -> bool:
    """Check that a value is True or False, and return it."""
    if not isinstance(value, bool):
        refuse(f"{name} is {brief(value)}", "true or false")
    return value


def a_scalar(value: Any, name: str) -> str | int | float | bool:
    """Check that a value is a text, a finite number or a truth value, and return it."""
    if isinstance(value, bool):
        return value
    return a_text(value, name) if isinstance(value, str) else a_number(value, name)


def a_list(value: Any, name: str) -> list[Any]:
    """Return a list of texts or numbers, with ``"inf"`` and ``"-inf"`` turned into infinite numbers."""
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        refuse(f"{name} is {brief(value)}", f"a list of at most {MOST_ITEMS:,} texts or numbers")
    items = [a_scalar(item, f"an item of {name}") for item in value]
    if all(isinstance(item, str) and item not in _INFINITE for item in items):
        return items
    return [_INFINITE.get(item, item) if isinstance(item, str) else item for item in items]


def plain(value: Any, of: Callable[[Any, str], Any], name: str) -> Any:
    """Return a Python value as JSON writes it, after the check `of` has accepted it."""
    items = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(items, (list, tuple)):
        items = [_finite(item.item() if hasattr(item, "item") else item) for item in items]
    of(items, name)
    return items


def _finite(item: Any) -> Any:
    return next((text for text, number in _INFINITE.items() if item == number), item)


SCALARS: Mapping[Form, Callable[[Any, str], Any]] = {
    Form.NUMBER: a_number, Form.WHOLE: a_whole_number, Form.TEXT: a_scalar, Form.BEST: a_text, Form.LIST: a_list,
    Form.FLAG: a_truth,
}  # fmt: skip
"""Functions that check single values, by their form."""


def spelled(option: str) -> str:
    """Return the public name of an option, without the underscore that avoids a Python keyword."""
    return option.rstrip("_")
