"""Three sources, item by item: what each says, the call that evaluates it, and the number it gives.

The sources are Zhao 2017 and two sets of lecture notes. docs/theory/sources.md is made from these lists, and a test
computes every number again. Names that begin with an underscore are examples of this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from everhold_lab.sources.items import (
    ITEMS,
    LECTURE_23,
    LECTURE_23_TITLE,
    TECHNIQUES,
    TECHNIQUES_TITLE,
    TITLE,
    Call,
    ExperimentOf,
    Item,
)

__all__ = ["SOURCES", "Call", "ExperimentOf", "Item", "number", "written"]

SOURCES: Mapping[str, tuple[str, tuple[Item, ...]]] = MappingProxyType(
    {
        "zhao-2017": (TITLE, ITEMS),
        "lecture-23": (LECTURE_23_TITLE, LECTURE_23),
        "more-dp-techniques": (TECHNIQUES_TITLE, TECHNIQUES),
    }
)
"""Short name of each source: its title and its items in their order."""


def number(item: Item) -> Any:
    """Return the number to which the item's call evaluates, or None for an item without a call."""
    return item.run.value() if isinstance(item.run, Call) else None


def written(value: Any) -> str:
    """Return a number, or several, to four significant digits as a text."""
    if isinstance(value, (tuple, list)):
        return ", ".join(written(part) for part in value) or "none"
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 10_000:
        return f"{value:,.0f}" if abs(value) < 1e15 else str(value)
    return "0" if abs(value) < 1e-12 else f"{value:.4g}"
