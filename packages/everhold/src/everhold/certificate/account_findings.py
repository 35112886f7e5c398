"""Check of the account: can the ledger hold as many queries, gates and allotments, at such a price?"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from everhold.certificate.arrivals import about_findings, arrival_findings, arrivals_of, completion_findings
from everhold.certificate.form import SUMMARY
from everhold.mechanisms import MECHANISMS, GuessAndCheck, Silent
from everhold.values.units import POINTS, RATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from everhold.mechanisms import Mechanism

_NO_FEEDBACK = "none"
_FEEDBACK = (_NO_FEEDBACK, "leader", "score")  # a certificate is verified without the extension that made the section
_ANYTHING = (-math.inf, math.inf)


def summary_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """True if the ledger can hold the answers that the first page shows."""
    answers, account = document[SUMMARY]["answers"], document["account"]
    for field in ("name", "query"):
        if len({fact[field] for fact in answers}) < len(answers):
            yield f"two of the answers that are shown have the same {field}"
    single = [fact for fact in answers if len(fact["entries"]) == 1]
    entries = [number for fact in single for number in fact["entries"]]
    every = [number for fact in answers for number in fact["entries"]]
    last = document["ledger_head"]["sequence"]
    if len(set(entries)) < len(entries) or not all(0 < number <= last for number in every):
        yield "an answer that is shown is no entry of the ledger, or the same one as another"
    for source, count in Counter(fact["source"] for fact in single).items():
        if count > account["by_source"].get(source, 0):
            yield "more answers of one source are shown than were given"
    if sum(fact["by_position"] for fact in single) > account["by_position"]:
        yield "more answers about predictions by position are shown than were given"
    unsealed = {number for fact in answers if "unsealed" in fact for number in fact["entries"]}
    if len(unsealed) > account.get("unsealed", {"answers": 0})["answers"]:
        yield "more unsealed answers are shown than were unsealed"
    yield from about_findings(document, answers)
    for fact in answers:
        yield from _bounds_findings(fact)


def _bounds_findings(fact: Mapping[str, Any]) -> Iterator[str]:
    """True if the numbers of an answer that is shown can be such."""
    told = [
        {end: float(numbers[end]) for end in ("value", "low", "high")}
        for numbers in (fact, fact.get("unsealed")) if numbers is not None and numbers["low"] is not None
    ]  # fmt: skip
    if any(numbers["low"] > numbers["high"] for numbers in told):
        yield "the bounds of an answer that is shown are the wrong way round"
    least, most = (0.0, 1.0) if fact["measure"] in RATES else (-1.0, 1.0) if fact["measure"] in POINTS else _ANYTHING
    if any(not least <= numbers[end] <= most for numbers in told for end in ("value", "low", "high")):
        yield "a share or a difference of shares that is shown is larger than there can be"


def account_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """Check that the counts agree with each other, with the ledger's head and with the mechanism."""
    account, head = document["account"], document["ledger_head"]
    if any(not account.get(name, {act: 1})[act] for name, act in (("allotments", "acts"), ("lost", "recoveries"))):
        yield "there are allotments or losses, and no act of the steward that set or counted them"
    allotments = account.get("allotments", {"acts": 0, "analysts": []})
    lost = account.get("lost", {"recoveries": 0, "queries": 0, "charges": 0})
    unsealed, gates = account.get("unsealed", {"acts": 0, "answers": 0}), account.get("gates", ())
    received = account.get("competition", {"acts": 0})["acts"]
    acts = (
        len(account.get("declared", ()))
        + arrivals_of(account)
        + allotments["acts"]
        + lost["recoveries"]
        + unsealed["acts"]
        + len(gates)
        + sum(len(gate.get("completed", ())) for gate in gates)
        + sum(account.get("open_challenges", {}).get(name, 0) for name in ("opened", "looked"))
        + received
    )
    asked = head["sequence"] - acts + lost["queries"]
    told = sum(account["by_source"].values()) + sum(gate["challenges"] for gate in gates)
    if not 1 <= head.get("checkpoint", {"sequence": 1})["sequence"] <= max(head["sequence"], 1):
        yield "the checkpoint is not one of the entries up to the ledger's head"
    yield from arrival_findings(account)
    if account["asked"] != asked or account["asked"] != told + lost["queries"]:
        yield "the counts of queries do not agree with each other or with the ledger's head"
    kind, queries = MECHANISMS.get(document["mechanism"]["name"]), document["mechanism"]["queries"]
    if kind is not None:  # else it is said elsewhere that there is no such mechanism
        yield from _spending_findings(kind, account, lost=lost["charges"], queries=queries)
    if "unsealed" in account:
        yield from _unsealing_findings(
            kind, unsealed, kept=account["asked"] - lost["queries"], lost=account.get("lost")
        )
    yield from gate_findings(document)
    yield from _competition_findings(document)
    opened = account.get("open_challenges", {"opened": 0})  # each took a place of its own; open ones reserved the rest
    reserved = opened.get("open", 0)
    yield from _allotment_findings(
        allotments, answered=account["asked"] + received + opened["opened"] + reserved,
        charged=account["charged"] + reserved,
    )  # fmt: skip


def _spending_findings(kind: type[Mechanism], account: Mapping[str, Any], *, lost: int, queries: int) -> Iterator[str]:
    """True if a mechanism of this kind gives such answers at such a price."""
    by_source = account["by_source"]
    taken, standing = by_source.get("holdout", 0), by_source.get("standing", 0)
    gates = account.get("gates", ())
    taken += sum(len(gate["promotions"]) + gate.get("checks", {"charged": 0})["charged"] for gate in gates)
    taken += account.get("open_challenges", {}).get("futile", 0)
    yield from kind.accounting.mispriced(charged=account["charged"], taken=taken, lost=lost, queries=queries)
    if by_source.get("silent", 0) and not kind.traits.unsealable:
        yield "there are silent answers, and with this mechanism nothing is ever told of them"
    if standing and "standing" not in kind.traits.sources:
        yield "there are answers of a kind that the mechanism does not give"
    if standing and not by_source.get("holdout", 0):
        yield "the best so far was shown before there was one"
    if (by_source.get("training", 0) or by_source.get("guess", 0)) and not kind.traits.needs_guess:
        yield "there are confirmed guesses, and the mechanism confirms none"
    if account["asked"] > queries and not kind.traits.beyond_the_plan:
        yield "more queries were answered than were planned"


def query_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """True if the list of queries is whole: as many of each source, and at such a price, as the account says."""
    account = document["account"]
    queries = account.get("queries")
    if queries is None:
        return
    lost = account.get("lost", {"queries": 0, "charges": 0})
    entries = [query["entry"] for query in queries]
    if entries != sorted(set(entries)) or not all(
        0 < entry <= document["ledger_head"]["sequence"] for entry in entries
    ):
        yield "the queries that are listed are not in the order of the ledger, or not in it"
    sources = Counter(query["source"] for query in queries)
    gates = account.get("gates", ())
    expected = Counter(account["by_source"]) + Counter(
        promoted=sum(len(gate["promotions"]) for gate in gates),
        kept=sum(gate["challenges"] - len(gate["promotions"]) for gate in gates),
    )
    if +sources != expected or len(queries) != account["asked"] - lost["queries"]:
        yield "the list of queries does not hold as many of each source as were asked"
    if sum(query["charged"] for query in queries) != account["charged"] - lost["charges"]:
        yield "the prices of the queries that are listed do not add up to what was charged"
    if sum("unsealed" in query for query in queries) > account.get("unsealed", {"answers": 0})["answers"]:
        yield "more queries are listed with unsealed numbers than were unsealed"
    yield from about_findings(document, queries)
    for query in queries:
        yield from _bounds_findings(query)


def _unsealing_findings(
    kind: type[Mechanism] | None, unsealed: Mapping[str, int], *, kept: int, lost: Mapping[str, int] | None
) -> Iterator[str]:
    """True if such a study can have been unsealed, and so many of its answers."""
    if kind is not None and not kind.traits.unsealable:
        yield "the study is said to be unsealed, and with this mechanism none can be"
    if unsealed["acts"] > 1 or (not unsealed["acts"] and lost is None):
        yield "the study is said to be closed, and there is no act of the steward that unsealed it, or more than one"
    if unsealed["answers"] > kept or (unsealed["answers"] > 0) != (unsealed["acts"] > 0):
        yield "the number of unsealed answers does not agree with those of acts and queries"


def gate_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """True if gates can have been challenged and their champions promoted as it is said."""
    account = document["account"]
    gates = account.get("gates")
    if gates is None:
        return
    if not gates or len({gate["gate"] for gate in gates}) != len(gates):
        yield "the gates are not one or more, each with a name of its own"
    labelled = document["rows"]["label"] is not None or all(gate["metric"].startswith("cases: ") for gate in gates)
    if document["mechanism"]["name"] != GuessAndCheck.name or not labelled:
        yield "there are gates, and with these rows and this mechanism they are refused"
    sequences = [promotion["sequence"] for gate in gates for promotion in gate["promotions"]]
    if len(set(sequences)) != len(sequences) or any(
        not 1 < sequence <= document["ledger_head"]["sequence"] for sequence in sequences
    ):
        yield "two promotions are said to be one entry of the ledger, or one that it does not have"
    for gate in gates:
        most = gate["challenges"] if gate["limit"] is None else gate["limit"]
        if not len(gate["promotions"]) <= gate["challenges"] <= most or gate["margin"] < 0:
            yield "a gate promoted more often than it was challenged, or answered more challenges than its limit"
        checks = gate.get("checks", {"made": 0, "charged": 0})
        if checks["charged"] > checks["made"] or checks["made"] + len(gate["promotions"]) > gate["challenges"]:
            yield "a gate has more checks than challenges, or more that were charged than it has"
        yield from _succession_findings(gate)
        yield from completion_findings(document, gate)


def _competition_findings(document: Mapping[str, Any]) -> Iterator[str]:
    """True if there can be such a competition, and its leaderboard."""
    account = document["account"]
    competition = account.get("competition")
    if competition is None:
        return
    name, rows = document["mechanism"]["name"], competition["rows"]
    silent = competition["feedback"] == _NO_FEEDBACK
    if competition["feedback"] not in _FEEDBACK or name != (Silent.name if silent else GuessAndCheck.name):
        yield "with this mechanism no competition tells its teams what is said"
    if document["rows"]["label"] is None:
        yield "there is a competition, and there are no labels that submissions could be held against"
    if rows and not account.get("unsealed", {"acts": 0})["acts"]:
        yield "there is a final leaderboard of a study that was not unsealed"
    received = sum(row["submissions"] for row in rows)
    if rows and (len({row["team"] for row in rows}) != len(rows) or received >= competition["acts"]):
        yield "the leaderboard does not have one line for each team, or more submissions than were received"
    if len(rows) > competition["teams"] or any(row["submissions"] > competition["submissions"] for row in rows):
        yield "there are more teams or submissions than were planned"
    for row in rows:
        ends = (row["low"], row["score"], row["high"])
        whole = None not in ends and ends[0] <= ends[1] <= ends[2]
        placed = row["rank"] is not None and 1 <= row["rank"] <= len(rows)
        if not (whole and placed) and (*ends, row["rank"]) != (None,) * 4:
            yield "a line of the leaderboard has a place or an interval that none can have"


def _succession_findings(gate: Mapping[str, Any]) -> Iterator[str]:
    promotions = gate["promotions"]
    if [promotion["sequence"] for promotion in promotions] != sorted(promotion["sequence"] for promotion in promotions):
        yield "the promotions of a gate are not in the order of the ledger"
    champions = [gate["first"], *(promotion["challenger"] for promotion in promotions)]
    if [promotion["over"] for promotion in promotions] != champions[:-1]:
        yield "a challenger was promoted over another model than the champion of its gate"
    told = [(number, promotion) for number, promotion in enumerate(promotions, 1)]
    if not all(
        promotion["low"] == gate["margin"]
        and (promotion["high"] is None or promotion["low"] <= promotion["high"])
        and promotion["since_first"] in (None, number * gate["margin"])
        for number, promotion in told
    ):
        yield "the gain of a champion has bounds that do not follow from the margin of its gate"
    if any(promotion["nats"] <= 0.0 for promotion in promotions):
        yield "a promotion was proved at a level that no promotion has"


def _allotment_findings(allotments: Mapping[str, Any], *, answered: int, charged: int) -> Iterator[str]:
    parts = allotments["analysts"]
    if len({part["analyst"] for part in parts}) != len(parts) or len(parts) > allotments["acts"]:
        yield "the allotments are not one for each analyst, each by an act of the steward"
    if any(part["asked"] > part["queries"] or part["charged"] > part["charges"] for part in parts):
        yield "an analyst spent more than the allotment"
    if sum(part["asked"] for part in parts) > answered or sum(part["charged"] for part in parts) > charged:
        yield "analysts spent more together than was answered or charged in all"
