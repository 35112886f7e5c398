"""Rows that arrived, on a certificate: when, how many, and by what they are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.certificate.numbers import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


def arrivals_of(account: Mapping[str, Any]) -> int:
    """Number of entries of the ledger that are arrivals and retirements."""
    return len(account.get("arrivals", ())) + len(account.get("retired", ()))


def arrival_items(account: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A line for each arrival and each retirement."""
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
    """The rows that an answer is about, where rows arrived; empty without.

    Examples:
        >>> about_rows({"rows": [2_001, 6_000]}), about_rows({})
        (', rows 2,001 to 6,000', '')
    """
    rows = fact.get("rows")
    return "" if rows is None else f", rows {rows[0]:,} to {rows[1]:,}"


def rows_that_arrived(facts: Mapping[str, Any]) -> int:
    """Number of sealed rows that arrived after the creation."""
    return sum(each["rows"] for each in facts.get("account", {}).get("arrivals", ()))


def about_findings(facts: Mapping[str, Any], told: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Check that answers are about rows that there are."""
    last = facts["rows"]["rows"] + rows_that_arrived(facts)
    if any(each.get("rows", [1, 1])[1] > last for each in told):
        yield "an answer is about rows that never arrived"


def completion_findings(facts: Mapping[str, Any], gate: Mapping[str, Any]) -> Iterator[str]:
    """Check that champions of a gate got values for rows that had arrived, each time for later ones."""
    completed = gate.get("completed", ())
    when = {each["arrival"]: each["entry"] for each in facts["account"].get("arrivals", ())}
    numbers, entries = [each["arrived"] for each in completed], [each["entry"] for each in completed]
    arrived = all(each["arrived"] in when and when[each["arrived"]] < each["entry"] for each in completed)
    if not arrived or numbers != sorted(set(numbers)) or entries != sorted(entries):
        yield "a champion got values for rows that had not arrived, or not in the order of arrivals"
    yield from about_findings(facts, completed)


def arrival_findings(account: Mapping[str, Any]) -> Iterator[str]:
    """Check that arrivals are in the order in which they can be."""
    arrivals: Sequence[Mapping[str, Any]] = account.get("arrivals", ())
    entries = [each["entry"] for each in arrivals]
    if [each["arrival"] for each in arrivals] != [*range(1, len(arrivals) + 1)] or entries != sorted(set(entries)):
        yield "arrivals are not numbered in the order of their entries"
    trees = [each["tree"] for each in arrivals if each["tree"] is not None]
    if trees != [*range(2, len(trees) + 2)]:
        yield "trees of suffixes are not numbered in the order in which they opened"
    if any((each["rows"] == 0) != (each["fingerprint"] is None) for each in arrivals):
        yield "an arrival has rows without a fingerprint, or a fingerprint without rows"
    opened = {each["arrival"] for each in arrivals if each["tree"] is not None}
    before = [each["before"] for each in account.get("retired", ())]
    if before != sorted(set(before)) or not set(before) <= opened:
        yield "rows are retired before an arrival at which no tree opened"
