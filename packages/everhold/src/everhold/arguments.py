"""Checks of arguments from outside: numbers, lists and texts of any type, and how messages show them."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np

Named = TypeVar("Named", bound=Callable[..., Any])


def as_float(value: object) -> float:
    """Return a real number as a float, or nan for anything else and for numbers too large for a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def as_whole(value: object) -> int | None:
    """Return a whole number as a Python int, or None for anything else, including True and False."""
    return int(value) if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else None


def as_numbers(texts: Sequence[str]) -> list[float]:
    """Return texts as numbers, or an empty list if one of them is not a number."""
    try:
        return [float(text) for text in texts]
    except ValueError:
        return []


def items_of(value: object) -> list[Any] | None:
    """Return the items of a list, an array or another collection, or None for texts, mappings and anything else."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Collection):
        return None
    try:
        return list(value)
    except TypeError:  # an array without dimensions
        return None


def whole(value: object, name: str, *, least: int = 1, most: int | None = None) -> int:
    """Return an argument as a Python int, or raise ValueError unless it is a whole number within these limits."""
    number = as_whole(value)
    if number is None or number < least or (most is not None and number > most):
        limits = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise ValueError(f"{name} is {brief(value)}. Pass a whole number {limits}.")
    return number


def truth(value: object, name: str) -> bool:
    """Return an argument as a Python bool, or raise ValueError unless it is one: the text "no" counts as true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {brief(value)}. Pass True or False.")
    return bool(value)


def positive(value: object, name: str) -> float:
    """Return an argument as a float, or raise ValueError unless it is finite and above 0."""
    number = as_float(value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} is {brief(value)}. Pass a finite number above 0, such as 1.")
    return number


def fraction(value: object, name: str) -> float:
    """Return an argument as a float, or raise ValueError unless it lies strictly between 0 and 1."""
    number = as_float(value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} is {brief(value)}. Pass a number strictly between 0 and 1, such as 0.05 or 0.95.")
    return number


def below_one(value: object, name: str) -> float:
    """Return an argument as a float, or raise ValueError unless it is at least 0 and below 1."""
    number = as_float(value)
    if not 0.0 <= number < 1.0:
        raise ValueError(f"{name} is {brief(value)}. Pass a number of at least 0 and below 1.")
    return number


def is_text(value: object, *, longest: int) -> bool:
    """Return whether a value is a text of at most ``longest`` characters that UTF-8 can encode (no lone surrogates)."""
    return isinstance(value, str) and len(value) <= longest and not any("\ud800" <= sign <= "\udfff" for sign in value)


def brief(value: object, *, longest: int = 100) -> str:
    """Return any argument as a short text for a message, without characters that cannot be printed."""
    try:
        text = repr(value)
        if not text.isprintable():  # of a class of one's own
            text = ascii(value)
    except Exception:  # such as a whole number of more digits than Python writes
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= longest else f"{text[:longest]}..."


_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?")


def advice_for(name: object, known: Iterable[str]) -> str:
    """Return the advice for a name that is not known: the similar known name, or all known names if none is similar.

    Examples:
        >>> advice_for("rocauc", ["accuracy", "roc_auc"]), advice_for("x", ["age", "bill"])
        ("Did you mean 'roc_auc'?", "Name one of 'age', 'bill'.")
    """
    names = list(known)
    texts = [each for each in names[:_MOST_COMPARED] if isinstance(each, str)]
    similar = get_close_matches(name[:_LONGEST_COMPARED], texts, n=1) if isinstance(name, str) else []
    return f"Did you mean {similar[0]!r}?" if similar else f"Name one of {listed(names)}."


def listed(names: Iterable[str]) -> str:
    """Return names as a text for messages, shortened if there are many.

    Examples:
        >>> listed(["id", "p"]), listed(map(str, range(2_000)))[-14:]
        ("'id', 'p'", 'and 1,960 more')
    """
    every = list(names)
    more = [f"and {len(every) - _MOST_LISTED:,} more"] if len(every) > _MOST_LISTED else []
    return " ".join([", ".join(map(repr, every[:_MOST_LISTED])), *more]) or "none"


_MOST_LISTED = 40
_LONGEST_COMPARED, _MOST_COMPARED = 64, 1_000  # characters and names, as comparing takes their product


def check_time(name: str, given: object) -> None:
    """Check that an argument is a text with a date, or with a date, hours and minutes.

    Raises:
        ValueError: If the argument is another text or no text.
    """
    try:
        if isinstance(given, str) and _TIME.fullmatch(given):
            datetime.fromisoformat(given)
            return
    except ValueError:
        pass  # such as a 13th month
    raise ValueError(f"{name} is {brief(given)}. Pass a date such as '2026-12-01' or '2026-12-01 06:00'.")


def names_keywords(terms: type, defaults: Mapping[str, Any] = MappingProxyType({})) -> Callable[[Named], Named]:
    """Put the keywords of a typed dict into a function's signature, where `help` and notebooks look for them.

    Any other keyword is refused, as Python does.

    Args:
        terms: The typed dict that the function takes as ``**terms``.
        defaults: Values for keywords that are left out, if they differ from None.

    Examples:
        >>> from typing import TypedDict, Unpack
        >>> class Size(TypedDict, total=False):
        ...     width: int
        >>> @names_keywords(Size, {"width": 3})
        ... def box(height, **size: Unpack[Size]): ...
        >>> list(inspect.signature(box).parameters)
        ['height', 'width']
    """

    def named(function: Named) -> Named:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        needed = dict.fromkeys(terms.__required_keys__, inspect.Parameter.empty)  # type: ignore[attr-defined]
        more = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=needed.get(name, defaults.get(name)),
                annotation=getattr(kind, "__forward_arg__", kind),
            )
            for name, kind in terms.__annotations__.items()
        ]  # fmt: skip
        known = {each.name for each in (*own, *more)}

        @wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            if unknown := given.keys() - known:
                raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {min(unknown)!r}")
            return function(*args, **given)

        called.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return cast("Named", called)

    return named
