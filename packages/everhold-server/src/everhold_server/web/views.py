"""What a holdout's page shows: all answers to stewards, their own answers to analysts, and public facts to viewers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends

from everhold.asking.model_scores import verdict_at
from everhold.asking.reports.holdout_ledger import with_names
from everhold.display import at_most, counted
from everhold.errors import DependenceError, QueryRejected
from everhold.ledger.acts import CHECKED, VERDICTS
from everhold.queries.metrics.registry import METRICS
from everhold_competitions.competition import LEADER, NOTHING, SCORE
from everhold_server.api.contract import HoldoutName
from everhold_server.api.holdouts import status_for
from everhold_server.open_holdouts import Holdouts, OpenHoldouts
from everhold_server.principals import Analyst, Principal, Role, Steward, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everhold.dependence import DependenceModel
    from everhold.holdout import Holdout
    from everhold.values.units import MeanUnits

_SHOWN = ("sequence", "asked_at", "asked", "value", "low", "high", "source", "charged", "analyst", "estimate", "models")
_DISTANCES = (1, 2, 5, 10, 20, 50, 100)
_MOST_SETS = 10
_ABOUT_CASES = "cases: "

SAID_OF = {
    "training": "confirmed: training estimate",
    "guess": "confirmed: own guess",
    "holdout": "from the sealed rows",
    "declared": "declared: exact",
    "chosen": "from the sealed rows: a choice, a scan, a quantile or a table",
    "standing": "not better than the best",
    "silent": "silent until unsealed",
    "promoted": "promoted: proved to be better",
    "kept": "kept: nothing is proved",
    "not worse": "check: not worse than the baseline",
    "regression": "check: a regression",
    "undecided": "check: undecided",
    "refused": "refused",
}
"""Sources of answers in words."""

FEEDBACK_IN_WORDS = {
    NOTHING: "Nothing is told about a submission before the end.",
    LEADER: "A team is told whether its submission is proved to lead, and nothing else.",
    SCORE: "A team is told the score of each submission, with its interval.",
}
"""Feedback of a competition before the end."""


@dataclass(frozen=True)
class View:
    """Facts about a holdout that one principal may see on its pages.

    Attributes:
        holdouts: All holdouts of the service.
        whole: The holdout as the steward opens it. A page shows nothing of it that is neither public nor the
            principal's own.
        status: Public facts of the holdout. For an analyst, the remaining budget is the analyst's own.
        mine: The holdout opened for the principal, to ask queries. None for a viewer, and for an analyst without an
            allotment.
        lacking: Reason why an analyst has no allotment, as a text. Empty for everybody else.
    """

    holdouts: OpenHoldouts
    whole: Holdout
    status: Mapping[str, Any]
    principal: Principal
    mine: Holdout | None
    lacking: str = ""

    @classmethod
    def of(cls, holdouts: OpenHoldouts, name: str, principal: Principal) -> View:
        """Return the facts about a holdout that a principal may see on its pages.

        Raises:
            HoldoutNotFound: If there is no such holdout for them.
        """
        whole, status = holdouts.whole(name, principal), status_for(holdouts, name, principal)
        if not principal.at_least(Role.ANALYST):
            return cls(holdouts, whole, status, principal, None)
        try:
            return cls(holdouts, whole, status, principal, holdouts.asked_by(name, principal))
        except QueryRejected as reason:
            return cls(holdouts, whole, status, principal, None, "" if "competition" in status else reason.message)

    def anew(self) -> View:
        """Return the facts as they are now, such as after a query."""
        return View.of(self.holdouts, self.name, self.principal)

    def asking(self) -> Holdout:
        """Return the holdout opened for the principal, to ask queries.

        Raises:
            QueryRejected: If the principal is an analyst without an allotment.
        """
        return self.holdouts.asked_by(self.name, self.principal)

    @property
    def name(self) -> str:
        """The holdout's name."""
        return str(self.status["name"])

    @property
    def competition(self) -> Mapping[str, Any] | None:
        """Terms of the competition, or None if the holdout is not a competition."""
        found: Mapping[str, Any] | None = self.status.get("competition")
        return found

    @property
    def grows(self) -> bool:
        """Whether rows arrived, or the holdout was created for rows that will arrive."""
        return "arrivals" in self.status or self.whole.arrivals.expected

    @property
    def steward(self) -> bool:
        """Whether the principal is a steward, who may see everything."""
        return self.principal.role is Role.STEWARD

    @property
    def labelled(self) -> bool:
        """Whether the rows have labels, so that gates can compare models."""
        return self.whole.schema.label is not None

    @cached_property
    def budget(self) -> Budget:
        """The budget, which is the allotment for an analyst."""
        alone = self.principal.role is Role.ANALYST and self.mine is None
        return Budget(self.status, None if alone else (self.mine or self.whole).promise.budget)

    @property
    def declares(self) -> bool:
        """Whether the principal may declare a family of queries."""
        able = "worth" in self.status and "arrivals" not in self.status
        return self.steward and able and not self.competition and not self.status["closed"]

    @cached_property
    def families(self) -> list[dict[str, Any]]:
        """Declared families with the widths of their members."""
        return self.whole.declared.families().to_rows() if "declared" in self.status else []

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Answers that this principal may see, in order: all for a steward, their own for an analyst, else none."""
        if self.mine is None:
            return []
        return [{name: row.get(name) for name in _SHOWN} for row in self.mine.transcript().to_rows()]

    def latest(self, most: int) -> list[dict[str, Any]]:
        """Return the newest answers that this principal may see, each with its place in its query's range."""
        latest = self.rows[: -most - 1 : -1]
        places = map(_place, latest, self.whole.ledger.readings(latest))
        return self.named({**row, "place": place} for row, place in zip(latest, places, strict=True))

    def named(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return rows with the names of models and submissions in ``asked``, as far as this principal may know them."""
        return [{**row, "asked": with_names(str(row["asked"]), self.names)} for row in rows]

    @cached_property
    def names(self) -> dict[str, str]:
        """Names of models and submissions that this principal may know, by SHA-256."""
        if self.steward:
            return self.whole.ledger.model_names()
        return {} if self.mine is None else self.whole.ledger.model_names(asked_by=self.principal.name)

    @cached_property
    def tracked(self) -> list[tuple[list[str], dict[str, Any]]]:
        """Answers about models of a tracker that this principal may see, each after the models in words."""
        named = zip(self.whole.ledger.models(self.rows), self.rows, strict=True)
        return [(models, row) for models, row in named if models]

    def gates(self) -> list[dict[str, Any]]:
        """Public facts and promotions of every gate, empty for a competition.

        The function ``name_of`` of a gate names its models: as they were proposed if this principal may know that, else
        by their ledger entry.
        """
        if self.competition:
            return []
        return [_gate_of(self, gate) for gate in self.status.get("gates", [])]

    def challenges(self) -> list[dict[str, Any]]:
        """Challenges that this principal may see, latest first."""
        return [row for row in reversed(self.rows) if row["source"] in (*VERDICTS, *CHECKED)]


def _seen_by(role: Any) -> Any:
    """Return a FastAPI dependency: the view of the holdout in the address, for a principal with a role."""

    def view(name: str, holdouts: OpenHoldouts, principal: Principal) -> View:
        return View.of(holdouts, name, principal)

    view.__annotations__ = {"name": HoldoutName, "holdouts": Holdouts, "principal": role}
    return Depends(view)


ViewerView = Annotated[View, _seen_by(Viewer)]
AnalystView = Annotated[View, _seen_by(Analyst)]
StewardView = Annotated[View, _seen_by(Steward)]


def _gate_of(view: View, gate: Mapping[str, Any]) -> dict[str, Any]:
    found = view.whole.gate(name=gate["gate"])
    history = found.history()
    champions = history.to_rows()
    by_entry = {row["champion"]: f"the challenger of entry {row['entry']:,}" for row in champions[1:]}
    models = {gate["first_champion"]: "the first champion", **by_entry}
    names = {digest: view.names.get(digest, place) for digest, place in models.items()}
    cases = dict(found.status()) if gate["metric"].startswith(_ABOUT_CASES) else None
    rows = None
    if "rows_left" in gate:  # the rows that the next challenge is about
        arrivals = view.status["arrivals"]
        rows = next(int(tree["rows"]) for tree in arrivals["trees"] if tree["tree"] == arrivals["answers_from"])
    return {
        **gate, "metric": gate["metric"].removeprefix(_ABOUT_CASES), "history": history, "name_of": names,
        "champions": _reigns(champions, view.status["ledger_head"]["sequence"]), "cases": cases,
        "rows_left": gate.get("rows_left"), "rows": rows,
    }  # fmt: skip


_OF_MODEL = re.compile(r"(.+?) of .*?\b([0-9a-f]{8})((?: among .*)?)")
"""A score in words: its metric, the start of the digest of what is scored, and the rows."""


def compared(view: View, first: str, second: str, margin: float) -> list[dict[str, Any]]:
    """Return for each metric the interval of the difference of two tracked models, and the verdict.

    All intervals hold at once. So the difference lies between the ends of the two answers, and within the answer to
    their paired comparison, if that was asked. Analysts name the models, and may give two predictions one name. So
    answers are combined only if they are about the same predictions, by their digests.
    """
    known = {metric.title or name: metric.greater for name, metric in METRICS.own.items() if metric.ordered}
    told: dict[str, dict[tuple[tuple[str, str], ...], tuple[float, float]]] = {}
    for models, row in view.tracked:
        scores = [_OF_MODEL.fullmatch(text) for text in str(row["asked"]).split(" minus ")]
        metrics = {None if score is None else score[1] + score[3] for score in scores}
        metric, low, high = metrics.pop() or "", row["low"], row["high"]
        if metrics or None in (low, high) or len(models) != len(scores) or metric.partition(" among ")[0] not in known:
            continue
        about = tuple((model, score[2]) for model, score in zip(models, scores, strict=True) if score)
        told.setdefault(metric, {}).update({about: (low, high), **({about[::-1]: (-high, -low)} if about[1:] else {})})
    rows = []
    for metric, each in told.items():
        alone = [[of[0] for of in each if len(of) == 1 and of[0][0] == model] for model in (first, second)]
        paired = [of for of in each if [model for model, _ in of] == [first, second]]
        pairs = dict.fromkeys([*paired, *product(*alone)])
        for pair in pairs if first != second else ():
            sides, within = [each.get((side,)) for side in pair], [each[pair]] if pair in each else []
            if (one := sides[0]) is not None and (other := sides[1]) is not None:
                within.append((one[0] - other[1], one[1] - other[0]))
            low, high = max(low for low, _ in within), min(high for _, high in within)
            shown = [None if side is None else {"low": side[0], "high": side[1]} for side in sides]
            named = f", predictions {pair[0][1]} and {pair[1][1]}" if len(pairs) > 1 else ""
            rows.append({
                "metric": metric + named, "first": shown[0], "second": shown[1], "low": low, "high": high,
                "paired": pair in each,
                "verdict": verdict_at(margin, low, high, greater=known[metric.partition(" among ")[0]]),
            })  # fmt: skip
    return rows


def told_in_words(contest: Mapping[str, Any]) -> str:
    """Return a sentence on the feedback that a competition gives to teams before its end."""
    return str(contest.get("told") or FEEDBACK_IN_WORDS[contest["feedback"]])


def handed_in(view: View) -> str:
    """Return sentences on the number of submissions in a competition and their feedback.

    The holdout must be a competition.
    """
    contest = view.competition or {}
    counts = {each.team: each.submissions for each in view.whole.competition.leaderboard().standings}
    number = sum(counts.values()) if view.steward else counts.get(view.principal.name, 0)
    if not number:
        return "Nothing has been handed in yet."
    if view.steward:
        said = f"Handed in: {counted(number, 'submission')} of {counted(len(counts), 'team')}."
    else:
        said = f"You have handed in {number:,} of {contest['submissions']:,} submissions."
    return said if view.status["closed"] else f"{said} {told_in_words(contest)}"


def dependence_of(view: View) -> dict[str, Any]:
    """Return the declared dependence of the rows as a text, and the number of independent rows they are worth."""
    model, rows = view.whole.mechanism.dependence, view.status["rows"]
    worth = model.concentration(rows)
    return {
        "words": model.describe(),
        "title": model.title,
        "rows": rows,
        "worth": min(worth, rows),
        "independent": model.independent,
        "how_to_tell": list(model.how_to_tell),
        "influence": _influence(model),
        "sets": sorted((model.independent_sets() or {}).items())[:_MOST_SETS],
    }


def _influence(model: DependenceModel) -> dict[str, Any] | None:
    """Return the influence of a row on another at several distances, or None if it does not depend on distance."""
    try:
        found = model.influences(max(_DISTANCES))
    except DependenceError:
        return None
    if found is None:
        return None
    described, lines = found
    rows = [{"distance": at, "values": [float(line[at - 1]) for line in lines.values()]} for at in _DISTANCES]
    return {"described": described, "names": list(lines), "rows": rows}


def _place(row: Mapping[str, Any], reading: MeanUnits | None) -> float | None:
    """Return where an answer lies in its query's range, from 0 to 1, or None without a finite range."""
    value = row["value"]
    if reading is None or value is None:
        return None
    least, most = reading.ends
    return None if not -math.inf < least < most < math.inf else (float(value) - least) / (most - least)


def _reigns(champions: list[dict[str, Any]], head: int) -> list[dict[str, Any]]:
    """Return champions with the numbers to draw their reigns and gains, in shares of the width."""
    starts = [row["entry"] or 0 for row in champions]
    drawn = []
    for row, start, end in zip(champions, starts, [*starts[1:], head], strict=True):
        since = row["low"] if row["since_first"] is None else row["since_first"]
        gain = None
        if row["low"] is not None:
            most = row["high"] or 2.0 * since or 1.0  # a ratio has no largest gain
            gain = (min(since / most, 1.0), 1.0)
        drawn.append({**row, "reign": (start / head, max(end, start) / head), "gain": gain})
    return drawn


_OUTLOOK = 2  # widths of a confirmed guess: now and later


@dataclass(frozen=True, slots=True)
class Budget:
    """The remaining budget of a principal, and the expected widths of answers.

    Attributes:
        planned: Planned amount of each part of the budget by name. None for analysts without an allotment.
    """

    status: Mapping[str, Any]
    planned: Mapping[str, int] | None

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Remaining and planned amount of each part of the budget, empty for analysts without an allotment."""
        planned, left = self.planned, self.status["remaining"]
        if planned is None:
            return []
        return [{"name": name, "left": left[name], "planned": planned[name]} for name in left]

    @property
    def explained(self) -> str:
        """The budget explained in words."""
        if self.status.get("competition"):
            counted = "Each submission, final score and comparison of two teams counts as a query."
        else:
            counted = "Every new query counts, and asking the same again is free."
        surprises = any(part["name"] == "surprises" for part in self.parts)
        return counted + " A surprise is an answer that had to correct its guess." * surprises

    @property
    def worth(self) -> list[dict[str, Any]]:
        """Half-widths of the next answers by kind of query, empty for a competition."""
        return [] if self.status.get("competition") else self.status.get("worth", [])

    @property
    def widest(self) -> float:
        """The largest half-width in `worth`."""
        return max((half for row in self.worth for half in (row["now"], row["later"]) if half), default=0.5)

    @property
    def undeclared(self) -> str:
        """Sentence with the half-widths of coming confirmed guesses, empty if they are unknown."""
        outlook = [at_most(half) for half in self.status.get("outlook", {}).values()]
        if len(outlook) != _OUTLOOK:
            return ""
        return f"A confirmed guess is within {outlook[0]} now, and within {outlook[1]} after five more surprises."
