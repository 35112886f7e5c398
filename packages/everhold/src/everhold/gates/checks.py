"""Checks of a version against a gate's baseline: not worse, a regression, or undecided.

A check is a challenge that changes no champion. One verdict is free, and public facts say which (`free_verdict`). Any
other verdict costs a surprise. So checks of a branch that stays as good as it was are free. The end of the module
writes verdicts of checks and challenges in Markdown.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, brief
from everhold.display import at_least, at_most, left_in_words
from everhold.errors import QueryRejected
from everhold.gates.cases import CaseEvidence, CaseVersion, ClaimChallenge, interim_label
from everhold.gates.challenge import MISSING, RUNS_OF_THESE, Verdict, challenge_of, next_nats
from everhold.gates.records import GateAccount
from everhold.gates.steps import more_cases, reaches
from everhold.ledger import Entry, Head, Outcome
from everhold.ledger.acts import CHECK, KEPT, NOT_WORSE, REGRESSION, UNDECIDED, told_as
from everhold.ledger.store import charged_entries
from everhold.queries.query import ExecutionResult, Outdated, Pricing
from everhold.queries.selection.results import QueryResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from everhold.gates.results import CaseSuite
    from everhold.gates.units import PairedResults, UnitPlan
    from everhold.guarantees.intervals.claims import GateClaim
    from everhold.mechanisms import State
    from everhold.randomness import Noise


_OTHERS = 2  # verdicts that are not the free one: the label of a mark says which it is


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVerdict(QueryResult):
    """Verdict of a check against the baseline of a gate.

    Attributes:
        verdict: ``"not worse"``: the version is proved not worse than the baseline by more than the margin, and all
            guards hold. ``"regression"``: it is proved worse by more than the margin, or a guard is proved violated.
            ``"undecided"``: neither is proved. ``"refused"``: the budget that is left does not pay for the check.
        margin: The margin of the check, in the metric's units.
        low: Proved lower bound of the gain over the baseline, in the metric's units; None if no bound is proved.
        high: Proved upper bound of this gain; None if no bound is proved, or a guard is violated.
        cases_needed: For an undecided check, about how many more cases like these would prove a version that is as good
            as the baseline; 0 if the cases are enough for most such versions. None for other verdicts, and for a stored
            verdict.
        challenger: Name of the version.
        statement: The proved statement in docs/theory on which the verdict rests.
        missing: Words for how runs without a result are treated. Empty if they are refused.
    """

    verdict: str
    margin: float
    low: float | None
    high: float | None
    cases_needed: int | None
    challenger: str
    statement: str
    missing: str = ""

    def __bool__(self) -> bool:
        return self.verdict == NOT_WORSE

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes by name."""
        named = ("verdict", "margin", "low", "high", "cases_needed", "challenger", "charged", "remaining", "query",
                 "repeated", "about", "missing")  # fmt: skip
        return {name: getattr(self, name) for name in named}

    def __str__(self) -> str:
        left = left_in_words(self.remaining)
        if self.verdict == "refused":
            return f"refused: what is left does not pay for it ({left} left)"
        stored = f"stored verdict of {self.challenger}: " if self.repeated else ""
        return f"{stored}{self._found()}, charged {self.charged}, {left} left"

    def _found(self) -> str:
        where = f", where {self.missing}" if self.missing else ""
        if self.verdict == NOT_WORSE:
            if self.margin < 0.0:
                return f"better than the baseline by more than {at_least(-self.margin)}{where} (proved)"
            return f"not worse than the baseline by more than {at_most(self.margin)}{where} (proved)"
        if self.verdict == REGRESSION:
            guard = "" if self.high is not None else ", or a guard is violated"
            worse = f"worse than the baseline by more than {at_least(max(self.margin, 0.0))}"
            return f"regression: {worse}{guard}{where} (proved)"
        more = "" if not self.cases_needed else f": about {self.cases_needed:,} more cases would tell"
        return f"undecided{more}"

    def explain(self) -> str:
        """Explain in words what the check proved and what it did not prove."""
        if self.verdict == "refused":
            return "The check was refused because what is left of the budget may not cover it. Nothing was charged."
        if self.verdict == UNDECIDED:
            # Runs of the same cases are units of their own only if the promise is about these cases.
            runs = " or with more runs of these in the same proportion," if self.about == RUNS_OF_THESE else ""
            return "Nothing is proved: the version may be as good as the baseline, or worse. " + (
                f"With about {self.cases_needed:,} more cases,{runs} a version as good as the baseline is proved to be "
                "so."
                if self.cases_needed
                else "A check of another version with this margin may well be decided."
            )
        return (
            f"With probability {100.0 * self.confidence:.8g} %, together with all other verdicts and answers of this "
            f"holdout, this is true: {self._found().removesuffix(' (proved)')} (statement {self.statement})."
        )


@dataclass(frozen=True)
class Check(ClaimChallenge):
    """Query plan of a check of a version against the baseline.

    Attributes:
        margin: The margin, in units of the metric's range.
        free: The verdict that costs nothing.
        free_at: Function from ln(1 / level) to the verdict that costs nothing. If it is another one when the check is
            decided, because queries were asked meanwhile, ``free`` is outdated.
        marks: Number of charges when the check was prepared. If it has changed, ``free`` is outdated, too.
        paired: The results of the version and the baseline. Secret.
        cases_needed: Number of further cases that an undecided check reports, computed from public facts and the
            version's own results.
    """

    margin: float = field(kw_only=True)
    free: str = field(kw_only=True)
    free_at: Callable[[float], str] = field(kw_only=True, repr=False)
    marks: int = field(kw_only=True)
    paired: PairedResults = field(kw_only=True, repr=False)
    cases_needed: int | None = field(kw_only=True, default=None)

    @property
    def shown(self) -> str:
        """The check in words."""
        return f"gate {self.gate.name!r}: {self.version.name} checked against the baseline, margin {self.margin:g}"

    @property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """The price of the check: at most one surprise."""

        def sure(state: State, count: int) -> int:
            if state.charged != self.marks or self.free_at(next_nats(self.mechanism, state)) != self.free:
                raise Outdated
            return min(count, 1)

        return Pricing(1, sure)

    def answer(self, state: State, seen: None, rows: list[int], noise: Noise) -> tuple[State, list[Outcome]]:
        """Decide the check. A verdict other than the free one costs a surprise and its label."""
        nats = next_nats(self.mechanism, state)
        found = verdict_of(self.paired, self.margin, nats)
        marked = found != self.free
        node = {"by": "claims", "nats": nats, "one_sided": True, "verdict": found}
        after = state.after(charged=int(marked), labels=interim_label(_OTHERS) if marked else 0)
        return after, [Outcome.of_act(KEPT, {"node": node}, charged=int(marked))]

    def present(self, result: ExecutionResult) -> CheckVerdict:  # type: ignore[override]
        """Return the verdict in the metric's units."""
        (entry,) = result.entries
        first, guards = self.units.suite.first, len(self.units.suite.claims) > 1
        width = 1.0 if first is None else first.width
        found = "refused" if entry is None else told_as(entry.answer)
        repeated = entry is not None and entry.repeated
        return CheckVerdict(
            verdict=found, margin=self.margin * width, challenger=self.version.name or "",
            low=-self.margin * width if found == NOT_WORSE else None,
            high=-max(self.margin, 0.0) * width if found == REGRESSION and not guards else None,
            cases_needed=self.cases_needed if found == UNDECIDED and not repeated else None,
            charged=0 if entry is None else entry.charged, remaining=result.remaining, query=self.query,
            repeated=repeated, confidence=self.mechanism.confidence, about=self.about,
            shown=self.shown, statement=result.statement, missing=MISSING[self.units.suite.missing],
        )  # fmt: skip


def verdict_of(paired: PairedResults, margin: float, nats: float) -> str:
    """Return the verdict that a version's results prove at a level: not worse, a regression, or undecided (S17).

    Args:
        paired: Results of the version beside those of the baseline.
        margin: The version may be worse by this much, in units of the range of each success's metric.
        nats: ln(1 / level), where the level is the error probability that the check may have.
    """
    claims = claims_of(paired.plan, margin)
    units, extra = paired.against_baseline(), math.log(2.0) if margin < 0.0 else 0.0
    held = [values.proves(claim, nats + extra) for claim, values in zip(claims, units, strict=True)]
    if all(held):
        return NOT_WORSE
    level = nats + extra + math.log(len(claims))
    turned = [
        (replace(claim, floor=-claim.floor if claim.fixed else max(-claim.floor, 0.0)),
         replace(values, sums=values.sizes - values.sums))
        for claim, values in zip(claims, units, strict=True)
    ]  # fmt: skip
    violated = [values.proves(claim, level) for claim, values in turned]  # all, so that the time tells nothing
    return REGRESSION if any(violated) else UNDECIDED


def free_verdict(plan: UnitPlan, margin: float, latest: Entry | None, nats: float) -> str:
    """Return the verdict of a check that costs nothing, from public facts: that of the latest charged check.

    Before the first charge it is *undecided*. It is *undecided* again where a check loses *not worse* by its smaller
    level alone: where results that equal the baseline's were proved not worse at the level of the latest charged check,
    and are not at this one.

    Args:
        plan: The units of the suite.
        margin: The margin of the check, in units of the range of each success's metric.
        latest: Entry of the latest charged check of the gate; None if there is none.
        nats: ln(1 / level) of the check.
    """
    if latest is None:
        return UNDECIDED
    claims = [claim for claim in claims_of(plan, margin) if not claim.fixed]
    before, now = (
        all(plan.equal_proves(claim, level) for claim in claims) for level in (latest.answer["node"]["nats"], nats)
    )
    verdict = told_as(latest.answer)
    return UNDECIDED if verdict == NOT_WORSE and before and not now else verdict


def claims_of(plan: UnitPlan, margin: float) -> list[GateClaim]:
    """Return the claims of a check: each success of the gate becomes a guard with the margin as its slack."""
    return [claim if claim.guard else replace(claim, floor=-margin, guard=True) for claim in plan.suite.claims]


def prepared_check(evidence: CaseEvidence, gate: GateAccount, version: CaseVersion, head: Head, margin: Any) -> Check:
    """Prepare a check of a version on a state of the ledger.

    Args:
        evidence: The evidence of the gate.
        gate: Public record of the gate, as of the head.
        version: The checked version, with new results of the baseline if there are any.
        head: The head of the ledger.
        margin: The version may be worse by this much, in units of the first metric. It is negative if the version has
            to be better.

    Raises:
        QueryRejected: If the margin cannot be used, a claim is about a ratio, the champion lacks results, or a
            challenge is open.
    """
    executor = evidence.executor
    evidence.check_none_is_open(head)
    slack = checked_margin(evidence.units.suite, margin)
    stored = evidence.whole(gate) if version.rerun is None else version.rerun
    if missing := int(np.isnan(stored[1]).any(axis=(1, 2)).sum()):  # without guards, cases arrive without them
        raise QueryRejected(
            f"The baseline has no results on {missing} cases that were added. Run it on all cases, and pass baseline=."
        )
    paired = evidence.paired(version.digest, [version.results, *stored])
    marked = [
        entry for entry in charged_entries(executor.ledger)
        if entry.description.get("gate") == gate.name and CHECK in entry.description
    ]  # fmt: skip
    state, plan, needed = executor.state_from(head), evidence.units, None
    latest, nats = marked[-1] if marked else None, next_nats(executor.mechanism, state)
    free_at = partial(free_verdict, plan, slack, latest)
    if slack > 0.0 and (first := plan.suite.first) is not None:
        # cases with which four of five checks prove a version as good as the baseline, where two versions like this
        # one, with independent runs, differ as its own runs do
        own = first.scaled(version.results[:, :, plan.suite.metrics.index(first)])
        runs, units = own.shape[1], plan.all_at_once / len(plan.suite.ids)
        within = own.var(axis=1, ddof=1).mean() if runs > 1 else own.mean() * (1.0 - own.mean()) / 2.0
        spread = math.sqrt(2.0 * within) / (math.sqrt(runs) if units == 1.0 else 1.0)
        needed = more_cases(lambda cases: reaches(round(cases * units), slack, spread, nats), len(plan.suite.ids))
    identity, free = {**challenge_of(gate, gate.champion, version.digest, executor.schema), CHECK: slack}, free_at(nats)
    return Check(
        gate, version, identity, {CHECK: {"margin": slack, "free": free}, **evidence.told_of(version)},
        version.about, executor.mechanism,
        evidence.units, lambda _: False, lambda: None, margin=slack, free=free, free_at=free_at, marks=state.charged,
        paired=paired, cases_needed=needed,
    )  # fmt: skip


def checked_margin(suite: CaseSuite, margin: Any) -> float:
    """Return the margin of a check in units of the range of the first metric.

    Raises:
        QueryRejected: If the margin cannot be used, or a claim is about a ratio. Nothing was charged.
    """
    if suite.ratios or suite.first is None:
        raise QueryRejected(
            "A check of a ratio has no guarantee. Check its two columns with a margin each, as guards of a gate."
        )
    width = suite.first.width
    if not -width < (slack := as_float(margin)) < width:
        raise QueryRejected(f"The margin is {brief(margin)}. Pass a number within the metric's range of {width:g}.")
    return slack / width


def markdown_of(verdict: Verdict | CheckVerdict, status: Mapping[str, Any]) -> str:
    """Return a verdict and public facts about its gate in Markdown. It never says which claim failed.

    Args:
        verdict: Verdict of a challenge or of a check.
        status: Status of the gate, as `Gate.status` returns it.
    """
    said = verdict.to_dict()
    word, name = said["verdict"], said.get("challenger")
    sees = status.get("sees")
    step = "no gain can be proved any more: seal new cases"
    if sees is not None or status.get("provable"):
        step = "ratios, by how far cases spread" if sees is None else f"a gain of {sees:.3g} or more"
    claims = _escaped(status["metric"].removeprefix("cases: "))
    low, high = said["low"], said["high"]  # nothing that was not proved is told
    told = "nothing is told" if high is None else f"{at_most(high)} or less"
    if low is not None:
        told = f"more than {at_least(low)}" + ("" if high is None else f", and at most {at_most(high)}")
    rows = [
        ("claims", f"{claims}, margin {said.get('margin', status['margin']):g}"),
        ("difference", told),
        ("population", str(status.get("population"))),
        ("cases and runs", f"{status.get('cases')} and {status.get('runs')}"),
        ("promotions so far", f"{status['promotions']} of {status['challenges']} challenges"),
        ("provable next", step),
        ("confidence", f"{100 * verdict.confidence:g} % for all verdicts together"),
        ("left", ", ".join(f"{number} {_LEFT.get(name, name)}" for name, number in verdict.remaining.items())),
    ]
    lines = "".join(f"| {name} | {value} |\n" for name, value in rows)
    more = f" About {count:,} more cases would tell." if (count := said.get("cases_needed")) else ""
    stored = f"\nThis is the stored verdict of {_escaped(str(name))} on these results.\n"
    return (
        f"### Gate {_escaped(status['gate'])}: {word}\n\n| | |\n| --- | --- |\n{lines}\n{_MEANING[word]}{more}\n"
        f"{stored if verdict.repeated and name is not None else ''}"
    )


def write_fault(summary: str | Path | None, gate: str, message: str) -> None:
    """Append an error in Markdown to a summary file, if a file is given and can be written."""
    told = f"### Gate {_escaped(gate)}: error\n\n{_escaped(message)}\n\nThere is no verdict.\n"
    with suppress(OSError):
        write_summary(summary, told)


def write_summary(summary: str | Path | None, text: str) -> None:
    """Append a text to a file, if a file is given."""
    if summary is not None:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)


_LEFT = {"queries": "planned challenges", "surprises": "planned verdicts that cost"}
_MEANING = {
    "promoted": "All claims are proved. This version is the champion now.",
    "kept": "Not all claims are proved. That promises nothing: the version may be better by too little to prove.",
    "not worse": "All claims are proved: this version is not worse than the baseline by more than the margin.",
    "regression": "It is proved that this version is worse than the baseline, or violates a guard.",
    "undecided": "Nothing is proved: this version may be as good as the baseline, or worse.",
    "refused": "What is left does not pay for another verdict, or no results could prove it. Nothing was charged.",
}


def _escaped(text: str) -> str:
    """Return a text with a backslash before each sign that has a meaning in Markdown."""
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>()#+!|" else each for each in text)
