"""The account of a certificate in words: what was asked, spent and left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from everhold.certificate.arrivals import ARRIVED, FAMILIES_ARRIVED, arrival_items
from everhold.certificate.blocks import Block, labelled
from everhold.certificate.form import RARE_SOURCES, SOURCES
from everhold.certificate.numbers import at_least, at_most, shown
from everhold.certificate.sections import is_endless
from everhold.certificate.summary import margin_of
from everhold.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from everhold.mechanisms import Mechanism

_ALLOTTED = (
    "The steward let named analysts spend parts of the budget, and the ledger kept them to it. One transcript and one "
    "promise hold for all of them together. A name says on whose behalf a query was asked; it does not prove who "
    "asked."
)
_LOST = (
    "The database was set back to an older copy and recovered: answers that it does not hold were given before. Their "
    "number and price are known and count as asked and charged; what they said is not in the ledger."
)
_DECLARED = (
    "Declared families were fixed, with what each of their members asks and how its interval is made, before the "
    "answers to the members were known. Each member has its share of the family's probability of failure, so all "
    "of their intervals hold together with all others, exactly as they were told, in whatever order "
    "they were asked, and after the study was unsealed, too. They take no query and no surprise. Files, programs and "
    "the network are refused to the code of models among them. It is assumed that nothing else outside of a model "
    "decides what it predicts: a clock, the environment, threads of its own and compiled code that reads files are not "
    "seen."
)
_CLOSED = (
    "The study is over: it was unsealed, and the ledger takes no new query. The entry that closed it holds, for "
    "each unsealed answer, what the sealed rows say and an interval for the promised value, usually narrower than what "
    "was answered before. All of these intervals hold together with the probability of the promise."
)
_SPENDING = ("asked", "queries", "charged", "charges")


def account_block(account: Mapping[str, Any], mechanism: Mapping[str, Any]) -> Block:
    """The block of what was asked, spent and left."""
    kind = MECHANISMS.get(mechanism["name"])
    said = (
        _said_of_left(kind, endless=is_endless(mechanism))
        if kind is not None and "surprises" in account["left"]
        else "",
        _ALLOTTED if "allotments" in account else "",
        _LOST if "lost" in account else "",
        _CLOSED if "unsealed" in account else "",
        _DECLARED if "declared" in account else "",
        ARRIVED if "arrivals" in account else "",
        FAMILIES_ARRIVED if "arrivals" in account and "declared" in account else "",
    )
    items = tuple(_account_items(account))
    return Block("account", "What was asked, spent and left", after=tuple(filter(None, said)), items=items)


def _said_of_left(kind: type[Mechanism], *, endless: bool) -> str:
    """The sentence on what is left."""
    return kind.presentation.left_endless if endless else kind.presentation.left


def _account_items(account: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from labelled({"asked": account["asked"], "by_position": account["by_position"]})
    yield from labelled({name: account["by_source"][name] for name in (*SOURCES, *RARE_SOURCES)
                          if name in account["by_source"]})  # fmt: skip
    if "lost" in account:
        lost = account["lost"]
        yield "times that the ledger was set back and recovered", shown(lost["recoveries"])
        yield "answered and lost", shown(lost["queries"])
        yield "charged for what was lost", shown(lost["charges"])
    if "unsealed" in account:
        yield "unsealed answers", shown(account["unsealed"]["answers"])
    yield from labelled({"charged": account["charged"]})
    if "labels" in account:
        yield "what surprises have told costs later queries, in nats", shown(account["labels"] / 1e6)
    yield from ((f"{name} left", shown(count)) for name, count in sorted(account["left"].items(), reverse=True))
    yield from _family_items(account.get("declared", ()))
    yield from arrival_items(account)
    yield from _gate_items(account.get("gates", ()))
    yield from _competition_items(account.get("competition"))
    allotments = account.get("allotments")
    if allotments is not None:
        yield "acts of the steward in the ledger", shown(allotments["acts"])
        for part in allotments["analysts"]:
            asked, queries, charged, charges = (shown(part[name]) for name in _SPENDING)
            yield f"analyst {part['analyst']!r}", f"queries {asked} of {queries}, charged {charged} of {charges}"


def _family_items(families: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for family in families:
        when = "when the holdout was created" if not family["later"] else f"by entry {shown(family['entry'])}"
        when += f", fixed at {family['fixed']}"
        level = f"a probability of failure of {math.exp(-family['nats']):.3g} in all"
        yield f"declared family {family['name']!r}", f"{family['holds']}, {when}, {level}, {family['digest']}"
        yield from ((f"declared in {family['name']!r}", member) for member in family["members"])


def _gate_items(gates: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for gate in gates:
        limit = "" if gate["limit"] is None else f" of {shown(gate['limit'])}"
        margin = margin_of(gate)
        yield (
            f"gate {gate['gate']!r}",
            f"{gate['metric']}, margin {margin}, challenges {shown(gate['challenges'])}{limit}, "
            f"promotions {shown(len(gate['promotions']))}, first champion {gate['first']}",
        )
        if (checks := gate.get("checks")) is not None:
            yield (
                f"gate {gate['gate']!r}, checks against the baseline",
                f"{shown(checks['made'])}, of which {shown(checks['charged'])} were charged",
            )
        for promotion in gate["promotions"]:
            yield (
                f"gate {gate['gate']!r}, promoted in entry {shown(promotion['sequence'])}",
                f"{promotion['challenger']} is better than {promotion['over']} by more than {margin}"
                + _gain_of(promotion),
            )
        yield from _completed_items(gate)


def _completed_items(gate: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A line for each entry by which a champion got values for rows that arrived."""
    for each in gate.get("completed", ()):
        first, last = each["rows"]
        yield (
            f"gate {gate['gate']!r}, champion completed in entry {shown(each['entry'])}",
            f"values for rows {shown(first)} to {shown(last)}, after arrival {shown(each['arrived'])}",
        )


def _gain_of(promotion: Mapping[str, Any]) -> str:
    """Bounds of a gain and the level of the promotion."""
    since = promotion["since_first"]
    total = "" if since is None else f"; than the first champion by {at_least(since)} at least"
    most = "" if promotion["high"] is None else f", at most {at_most(promotion['high'])}"
    level = f"; proved at the level e^-{promotion['nats']:.1f}"
    return f"{most}{total}{level}"


def _competition_items(competition: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if competition is None:
        return
    teams, each = shown(competition["teams"]), shown(competition["submissions"])
    yield "competition by", f"{competition['metric']}, for up to {teams} teams with {each} submissions each"
    for row in competition["rows"]:
        place = "no place" if row["rank"] is None else f"place {shown(row['rank'])}"
        ends = "" if row["low"] is None else f" between {at_least(row['low'])} and {at_most(row['high'])}"
        score = "unknown" if row["score"] is None else f"{shown(row['score'])},{ends}"
        yield f"team {row['team']!r}", f"{place}, score {score}, of {shown(row['submissions'])} submissions"
