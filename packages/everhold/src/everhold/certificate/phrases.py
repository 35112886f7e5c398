"""Numbers and rows of a certificate in words. Bounds are rounded to the side on which the sentence stays true."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any

from everhold.display import LEAST_SHOWN, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LEAST_SHOWN = Decimal(repr(LEAST_SHOWN))


def at_most(value: float) -> str:
    """Return an upper bound as text, rounded up to three decimals, or to two digits if it is small.

    Examples:
        >>> at_most(0.09301), at_most(0.1), at_most(0.00123), at_most(2.8e-27)
        ('0.094', '0.1', '0.0013', '0.000000000000001')
    """
    return _rounded(value, ROUND_CEILING)


def at_least(value: float) -> str:
    """Return a lower bound as text, rounded down.

    Examples:
        >>> at_least(0.0399), at_least(2.8e-27)
        ('0.039', '0')
    """
    return _rounded(value, ROUND_FLOOR)


def _rounded(value: float, direction: str) -> str:
    """Return a number as text, rounded in the given direction of the module `decimal`."""
    exact = Decimal(repr(float(value)))
    if not exact.is_finite():
        return f"{value:g}"
    if abs(exact) < _LEAST_SHOWN:
        return plain(exact.quantize(_LEAST_SHOWN, rounding=direction) + 0)  # + 0 takes the sign of -0 away
    in_decimals = Decimal("0.01") <= abs(exact) < Decimal("1e15")
    last = -3 if in_decimals else exact.adjusted() - 1
    return plain(exact.quantize(Decimal(1).scaleb(last), rounding=direction))


def plain(exact: Decimal) -> str:
    """Return a number as text without an exponent and without zeros at the end.

    Examples:
        >>> plain(Decimal("0.100")), plain(Decimal("1E+3"))
        ('0.1', '1000')
    """
    text = format(exact, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(probability: float) -> str:
    """Return a probability in per cent as text with all its digits.

    Examples:
        >>> percent(0.95), percent(0.9995)
        ('95 %', '99.95 %')
    """
    return f"{plain(Decimal(repr(float(probability))) * 100)} %"


def shown(value: float) -> str:
    """Return a number for a table as text, with six significant digits.

    Examples:
        >>> shown(0.0465805205), shown(20000), shown(1e-06), shown(2.8e-27)
        ('0.0465805', '20,000', '0.000001', '0')
    """
    if abs(value) < _LEAST_SHOWN:
        return "0"
    if abs(value) < 1e15 and value == int(value):
        return f"{int(value):,}"
    if not 1e-9 < abs(value) < 1e15:
        return f"{value:.6g}"
    exact = Decimal(repr(value))
    return plain(exact.quantize(Decimal(1).scaleb(min(exact.adjusted() - 5, 0)), rounding=ROUND_HALF_EVEN))


# The rows of a certificate in words: declared groups, rows that arrived, and rules for missing values.


_MISSING = (
    "A condition whose value is missing counts as not met. A missing number counts as the low end of its range. A row "
    "on which a model fails counts as a wrong answer."
)
_REFUSED = "A query that has no value in some training rows was refused, unless it says what counts for them."
_DECLARED = "For missing values of {columns} the steward said what counts: {said}."


def _counts(facts: Mapping[str, Mapping[str, Any]]) -> list[list[int]]:
    """Return pairs of group size and number of groups, empty without declared groups."""
    dependence = facts["assumptions"]["dependence"]
    counts = dependence.get("counts")
    sound = isinstance(counts, list) and all(  # a certificate's file may hold anything
        isinstance(pair, list) and len(pair) == 2 and all(type(number) is int for number in pair) for pair in counts
    )
    return counts if sound and dependence.get("kind") == "groups" else []


def _groups(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the number of groups as a text, with the name of the group column."""
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
    """Yield label and value for each arrival and retirement of rows."""
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
