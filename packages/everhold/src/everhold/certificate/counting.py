"""Counting in a certificate: groups beside rows, the weight of a row, and the treatment of missing values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.certificate.arrivals import rows_that_arrived
from everhold.certificate.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GROUPS = "groups"
_MISSING = (
    "A condition whose value is missing counts as not met. A missing number counts as the low end of its range. A row "
    "on which a model fails counts as a wrong answer."
)
_REFUSED = "A query that has no value in some training rows was refused, unless it says what counts for them."
_DECLARED = "For missing values of {columns} the steward said what counts: {said}."


def _counts(facts: Mapping[str, Mapping[str, Any]]) -> list[list[int]]:
    """Pairs of a size and the number of groups of that size; none where rows are not in declared groups."""
    dependence = facts["assumptions"]["dependence"]
    counts = dependence.get("counts")
    sound = isinstance(counts, list) and all(map(_is_pair, counts))  # a certificate's file may hold anything
    return counts if sound and dependence.get("kind") == _GROUPS else []


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(number) is int for number in value)


def _groups(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """The number of groups, and the column that says which rows belong together."""
    number = sum(count for _, count in _counts(facts))
    column = facts["assumptions"]["dependence"].get("column")
    return counted(number, "group") + ("" if column is None else f" (equal values of the column {column!r})")


def rows_and_groups(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """The sealed rows, and the groups that they form where groups are declared.

    Examples:
        >>> facts = {"rows": {"rows": 12}, "assumptions": {"dependence": {"kind": "groups", "counts": [[3, 4]]}}}
        >>> rows_and_groups(facts)
        '12 sealed rows of 4 groups'
    """
    rows = counted(facts["rows"]["rows"], "sealed row")
    said = f"{rows} of {_groups(facts)}" if _counts(facts) else rows
    arrived = rows_that_arrived(facts)
    return f"{said} and {arrived:,} that arrived later" if arrived else said


def group_items(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Groups and their sizes, as items of the section about the rows."""
    if counts := _counts(facts):
        sizes = sorted({size for size, _ in counts})
        of = f"{sizes[0]:,} rows" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,} rows"
        yield "groups of sealed rows", f"{_groups(facts)}, of {of}"


def counting_words(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Weights of rows and treatment of missing values, in sentences."""
    weight = "Every sealed row has the same weight."
    if _counts(facts):
        weight += " So a group counts in proportion to its number of rows, and not once."
    rules = facts["rows"].get("missing", ())
    declared = [
        _DECLARED.format(columns=", ".join(name for name, each in rules if each == said), said=said)
        for said in dict.fromkeys(said for _, said in rules)
    ]
    return [weight, *declared, *([_REFUSED] if facts["rows"]["training_rows"] else []), _MISSING]
