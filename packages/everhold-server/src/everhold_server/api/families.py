"""Declared families as a request has them."""

from __future__ import annotations

from typing import Any

from everhold.errors import QueryRejected
from everhold.families.protocol import family_from

_MOST, _MOST_LISTED = 100, 1_000
FAMILIES: dict[str, Any] = {
    "description": "Families by name, each as in a protocol: listed with weights, subgroups with of, or texts with "
    "bits.",
    "examples": [{
        "end points": {"listed": ["late", {"mean": "delay", "low": -60, "high": 180}]},
        "carriers": {"subgroups": ["carrier", "origin"], "of": "delay > 15"},
        "texts": {"texts": 40},
    }],
    "min_length": 1,
    "json_schema_extra": {"additionalProperties": {"type": "object", "anyOf": [
        {"required": ["listed"]}, {"required": ["subgroups", "of"]}, {"required": ["texts"]}, {"required": ["members"]},
    ]}},
}  # fmt: skip
"""Documentation of a field with families."""


def families_of(given: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Families from plain data, as `everhold.families.protocol.family_from` reads them.

    Raises:
        QueryRejected: If one of them is none, or there are too many. Nothing was changed.
    """
    listed = sum(len(each["listed"]) for each in given.values() if isinstance(each.get("listed"), list))
    if len(given) > _MOST or listed > _MOST_LISTED:
        raise QueryRejected(
            f"{len(given):,} families with {listed:,} listed queries are sent; expected at most {_MOST} and "
            f"{_MOST_LISTED:,}; declare more where the storage is; nothing was changed"
        )
    return {name: family_from(table, what=f"the family {name!r}") for name, table in given.items()}
