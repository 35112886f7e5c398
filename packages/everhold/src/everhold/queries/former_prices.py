"""Queries that once had a price: with one they are the private queries of everhold-privacy, for one version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.errors import ExtensionError, warn_former
from everhold.queries import KINDS

if TYPE_CHECKING:
    from collections.abc import Container

_PRICED = frozenset({"choose", "first_above", "quantile", "synthesize"})
_DETAILS = frozenset({"price", "rounds", "method"})


def former_kind(name: str, given: Container[str]) -> str:
    """The kind that was written down, in a command or a document: with a price it is a private one, for one version.

    Args:
        name: Of the kind.
        given: Names of the details that are written down with it.
    """
    priced = name in _PRICED and any(detail in given for detail in _DETAILS)
    return f"private_{name}" if priced else name


def private_query(name: str, former: dict[str, Any], *subjects: Any, **details: Any) -> Any:
    """The private query of a maker that was given a price.

    Args:
        name: Of the maker, such as ``"choose"``.
        former: Its arguments of earlier versions.
        *subjects: Its other arguments.
        **details: Its other arguments by name.

    Raises:
        TypeError: If there are arguments that no version had.
        ExtensionError: If everhold-privacy is not installed.

    Warns:
        FutureWarning: Always; says which name to use.
    """
    strange = sorted(former.keys() - _DETAILS)
    if strange:
        raise TypeError(f"{name}() got an unexpected keyword argument {strange[0]!r}")
    warn_former(f"{name}(price=...) is now private_{name}(price=...). The former one works in this version only.")
    kind = KINDS.named(f"private_{name}")
    if kind is None:
        raise ExtensionError(f"private_{name} is not installed. Install it: {KINDS.missing(f'private_{name}')}.")
    return kind.make(*subjects, **{key: value for key, value in details.items() if value is not None}, **former)
