"""Check of the numbers: the mechanism is built anew from a certificate, and says what it promises."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from everhold.certificate.document import entering_numbers, privacy_facts
from everhold.dependence import dependence_from_dict
from everhold.mechanisms import MECHANISMS, State, has_public_levels, mechanism_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from everhold.mechanisms import Mechanism, Promise


def mechanism_of(document: Mapping[str, Any]) -> Mechanism:
    """The mechanism that a certificate describes, built anew."""
    section = document["mechanism"]
    given = {**section, **section["parameters"]}
    if any(given.get(name, 0) > most for name, most in MECHANISMS[section["name"]].largest.items()):
        raise ValueError("the parameters are larger than any that are in use")
    described = {**section, "mechanism": section["name"]}
    return mechanism_from_dict(described, dependence_from_dict(document["assumptions"]["dependence"]))


def state_of(document: Mapping[str, Any]) -> State:
    """The public part of the mechanism's state."""
    account = document["account"]
    later = sum(family["later"] for family in account.get("declared", ())) + _opened(account)
    asked = account["asked"] - account["by_source"].get("declared", 0) + later  # places among the queries
    return State(asked=asked, charged=account["charged"], labels=account.get("labels", 0))


def _opened(account: Mapping[str, Any]) -> int:
    """Challenges that were opened; each took a place, and the look of a promotion is a label."""
    return int(account.get("open_challenges", {"opened": 0})["opened"])


def unreachable_findings(document: Mapping[str, Any], mechanism: Mechanism) -> Iterator[str]:
    """True if the mechanism can have answered and lost what the account says, whatever was asked."""
    if not mechanism.accounts.reachable(state_of(document)):
        yield "the mechanism never answers and charges as much as is said"
    account = document["account"]
    yield from _family_findings(account, mechanism)
    lost = account.get("lost")
    if lost is not None and not mechanism.accounts.losable(queries=lost["queries"], charges=lost["charges"]):
        yield "the lost answers cannot have been charged what is said"
    by_source = account["by_source"]
    forced = by_source.get("chosen", 0) + by_source.get("declared", 0) + _opened(account)
    forced += sum(gate.get("checks", {"charged": 0})["charged"] for gate in account.get("gates", ()))
    least, most = mechanism.accounts.labels_of(by_source["holdout"], forced=forced)
    lost_labels = mechanism.accounts.lost_labels_of(0 if lost is None else lost["charges"])
    if not least <= account.get("labels", 0) - lost_labels <= most:
        yield "what surprises told cannot have cost what is said"


def _family_findings(account: Mapping[str, Any], mechanism: Mechanism) -> Iterator[str]:
    """Check that declared families can have the levels that are said."""
    families = account.get("declared", [])
    if account["by_source"].get("declared", 0) and not families:
        yield "there are answers to members of declared families, and no family is declared"
    if not families:
        return
    names, entries = [family["name"] for family in families], [family["entry"] for family in families]
    if len(set(names)) != len(names) or entries != sorted(set(entries)):
        yield "two declared families have the same name or entry, or they are not in the order of their entries"
    first = [family for family in families if not family["later"]]
    if [family["entry"] for family in first] != [*range(1, len(first) + 1)]:
        yield "families are said to be of the holdout's creation, and other entries came before them"
    if not has_public_levels(mechanism):
        yield "families are declared, and this mechanism has no level to give them"
        return
    share = (1.0 - mechanism.statement_confidence) * mechanism.share
    if sum(math.exp(-family["nats"]) for family in first) > share * (1.0 + 1e-9):
        yield "declared families have more of the probability of failure than was set apart for them"
    least = float(mechanism.nats(1, 0, 0.0))
    if mechanism.text_bits:
        least = min(least, mechanism.of_text(0.0))
    if any(family["nats"] < least - 1e-9 for family in families if family["later"]):
        yield "a family that was declared later has a larger level than any query"


def promise_findings(document: Mapping[str, Any], mechanism: Mechanism, promise: Promise) -> Iterator[str]:
    """Check that the promise is the one that the mechanism's parameters give."""
    stated, theorem = document["promise"], document["theorem"]
    if not _close(stated["radius"], promise.radius):
        yield f"the half-width is not the one that the mechanism's parameters give, {promise.radius:.6g}"
    if {stated["statement"], theorem["statement"]} != {promise.statement}:
        yield f"the statement is not the one that proves the promise, {promise.statement}"
    if stated["confidence"] != promise.confidence:
        yield "the probability of the promise is not the mechanism's confidence"
    if stated["queries"] != mechanism.queries or stated["surprises"] != mechanism.planned_surprises:
        yield "the planned queries or surprises of the promise are not the mechanism's"
    if not _close(stated["spends_only_beyond"], promise.spends_only_beyond, relative=1e-3):
        yield "the distance beyond which surprises are charged is not the one that the mechanism's parameters give"
    numbers = entering_numbers(mechanism, promise)
    if set(numbers) != set(theorem["numbers"]) or not all(
        _close(theorem["numbers"][name], value, relative=1e-2) for name, value in numbers.items()
    ):
        yield "the numbers that enter the statement are not those that the mechanism's parameters give"
    privacy = privacy_facts(promise.privacy, simulation=document["issue"]["simulation"])
    if not all(_close(document["privacy"][name], value) for name, value in privacy.items()):
        yield "the privacy is not the one that the mechanism's parameters give"
    if document["rows"]["rows"] != mechanism.rows:
        yield "the number of sealed rows is not the one that the mechanism was planned for"


def _close(stated: float | None, computed: float | None, *, relative: float = 1e-6) -> bool:
    """True if two numbers agree up to what another machine's arithmetic may change."""
    if computed is None or not math.isfinite(computed):
        return stated is None
    return stated is not None and math.isclose(stated, computed, rel_tol=relative, abs_tol=1e-9)
