"""The rows of a certificate in words: declared groups, rows that arrived, and rules for missing values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.certificate.numbers import counted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MISSING = (
    "A condition whose value is missing counts as not met. A missing number counts as the low end of its range. A row "
    "on which a model fails counts as a wrong answer."
)
_REFUSED = "A query that has no value in some training rows was refused, unless it says what counts for them."
_DECLARED = "For missing values of {columns} the steward said what counts: {said}."


def _counts(facts: Mapping[str, Mapping[str, Any]]) -> list[list[int]]:
    """Return pairs of a group's size and the number of such groups, none without declared groups."""
    dependence = facts["assumptions"]["dependence"]
    counts = dependence.get("counts")
    sound = isinstance(counts, list) and all(  # a certificate's file may hold anything
        isinstance(pair, list) and len(pair) == 2 and all(type(number) is int for number in pair) for pair in counts
    )
    return counts if sound and dependence.get("kind") == "groups" else []


def _groups(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the number of groups in words, with the column that says which rows belong together."""
    number = sum(count for _, count in _counts(facts))
    column = facts["assumptions"]["dependence"].get("column")
    return counted(number, "group") + ("" if column is None else f" (equal values of the column {column!r})")


def rows_and_groups(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe the sealed rows in words, with the declared groups that they form.

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
    """Yield the number and sizes of groups as an item of the section about the rows."""
    if counts := _counts(facts):
        sizes = sorted({size for size, _ in counts})
        of = f"{sizes[0]:,} rows" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,} rows"
        yield "groups of sealed rows", f"{_groups(facts)}, of {of}"


def counting_words(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return sentences on the weight of rows and on missing values."""
    weight = "Every sealed row has the same weight."
    if _counts(facts):
        weight += " So a group counts in proportion to its number of rows, and not once."
    rules = facts["rows"].get("missing", ())
    declared = [
        _DECLARED.format(columns=", ".join(name for name, each in rules if each == said), said=said)
        for said in dict.fromkeys(said for _, said in rules)
    ]
    return [weight, *declared, *([_REFUSED] if facts["rows"]["training_rows"] else []), _MISSING]


ARRIVED = (
    "Rows were appended after the holdout had been created. The half-width at the top is that of the rows of its "
    "creation; what is answered later is about more rows, or about the rows since an arrival, and each answer says "
    "which. Trees of suffixes share the probability of failure, so all intervals hold at once (statement S13). It is "
    "assumed that what arrived, and when, depended on the sealed rows through nothing but what had been told. AUCs of "
    "models, their differences and recalls at a rate hold if the rows of all arrivals have one law."
)
"""Sentences of a certificate about rows that arrived."""

FAMILIES_ARRIVED = (
    "Intervals of members of declared families hold at all numbers of rows at once (statement S14). It is assumed that "
    "the population value of each member is the same for the rows of all arrivals."
)
"""Sentences about declared families of such a holdout."""


def arrival_items(account: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield an item for each arrival and each retirement."""
    for each in account.get("arrivals", ()):
        until = f" until {each['until']}" if each["until"] else ""
        tree = f", tree {shown(each['tree'])} opened" if each["tree"] else ""
        trained = f", {shown(each['training_rows'])} training rows" if each["training_rows"] else ""
        known = f", {each['fingerprint']}" if each["fingerprint"] else ""
        yield (
            f"arrival {shown(each['arrival'])}",
            f"{shown(each['rows'])} sealed rows{until}{trained}, entry {shown(each['entry'])}{tree}{known}",
        )
    for each in account.get("retired", ()):
        yield f"rows before arrival {shown(each['before'])}", f"retired by entry {shown(each['entry'])}"


def about_rows(fact: Mapping[str, Any]) -> str:
    """Say after a comma which rows an answer is about, or return an empty text if no rows arrived.

    Examples:
        >>> about_rows({"rows": [2_001, 6_000]}), about_rows({})
        (', rows 2,001 to 6,000', '')
    """
    rows = fact.get("rows")
    return "" if rows is None else f", rows {rows[0]:,} to {rows[1]:,}"


def rows_that_arrived(facts: Mapping[str, Any]) -> int:
    """Return the number of sealed rows that arrived after the creation."""
    return sum(each["rows"] for each in facts.get("account", {}).get("arrivals", ()))
