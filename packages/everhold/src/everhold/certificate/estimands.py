"""The promised value in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.answers import with_shares

if TYPE_CHECKING:
    from collections.abc import Mapping

OF_POPULATION = "the population's value"


def value_in_words(rows: Mapping[str, Any]) -> str:
    """The value that is promised."""
    if rows["features"] == "public":
        return "the value for labels drawn anew on these rows"
    if "stratified" in rows:
        return f"the value for {with_shares(rows['stratified'])}"
    return OF_POPULATION


def by_labels(rows: Mapping[str, Any]) -> bool:
    """True if the table was split by its labels."""
    return rows.get("stratified") is not None and rows["stratified"] == rows["label"]
