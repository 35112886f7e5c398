"""Queries that once had a price: with one they are the private queries of everhold-privacy, for one version."""

from __future__ import annotations

from typing import Any

from everhold.errors import ExtensionError, warn_caller
from everhold.queries import KINDS

__all__ = ["private_query"]


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
    strange = sorted(former.keys() - {"price", "rounds", "method"})
    if strange or "price" not in former:
        raise TypeError(f"{name}() got an unexpected keyword argument {(strange or sorted(former))[0]!r}")
    warn_caller(FutureWarning(f"{name}(price=...) is now private_{name}(price=...)"))
    kind = KINDS.named(f"private_{name}")
    if kind is None:
        raise ExtensionError(f"private_{name} is not installed. Install it: {KINDS.missing(f'private_{name}')}.")
    return kind.make(*subjects, **{key: value for key, value in details.items() if value is not None}, **former)
