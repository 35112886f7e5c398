"""What the page of a holdout shows: to stewards everything, to analysts their own, to viewers what is public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from everhold.asking.names import with_names
from everhold.certificate.numbers import counted
from everhold.charts.dependence import portrait_of
from everhold.charts.studies import MOST_DRAWN, SOURCES, drawable, on_a_panel
from everhold.dependence import Independent
from everhold.display import at_most
from everhold.errors import QueryRejected
from everhold.ledger.gates import VERDICTS
from everhold.sealing.competition import LEADER, NOTHING, SCORE
from everhold.service.api.holdouts import status_for
from everhold.service.visitors import Role
from everhold.service.web.pictures import Sketch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from everhold.holdout import Holdout
    from everhold.service.open_holdouts import OpenHoldouts
    from everhold.service.visitors import Visitor

__all__ = ["FEEDBACK_IN_WORDS", "SAID_OF", "View"]

_SHOWN = ("sequence", "asked_at", "asked", "value", "low", "high", "source", "charged", "analyst", "estimate")
_WORDS = {"overfits": "surprises"}

SAID_OF = {
    **{source: look[0] for source, look in SOURCES.items()},
    "silent": "silent until unsealed",
    "promoted": "promoted: proved to be better",
    "kept": "kept: nothing is proved",
    "refused": "refused",
}
"""Sources of answers in words."""

FEEDBACK_IN_WORDS = {
    NOTHING: "Nothing is told about a submission before the end.",
    LEADER: "A team is told whether its submission is proved to lead, and nothing else.",
    SCORE: "A team is told the score of each submission, with its interval.",
}
"""What a competition tells a team before the end."""


@dataclass(frozen=True)
class View:
    """A holdout as a visitor may see it.

    Attributes:
        whole: As the steward has it; of it nothing is shown that is not public or theirs.
        status: Its public facts; for analysts what is left is theirs.
        visitor: Whose view it is.
        mine: What they ask; None for viewers, and for analysts without an allotment.
        lacking: Why there is none, in words; empty for viewers.
    """

    whole: Holdout
    status: Mapping[str, Any]
    visitor: Visitor
    mine: Holdout | None
    lacking: str = ""

    @classmethod
    def of(cls, holdouts: OpenHoldouts, name: str, visitor: Visitor) -> View:
        """The view of a visitor.

        Raises:
            HoldoutNotFound: If there is no such holdout for them.
        """
        whole, status = holdouts.whole(name, visitor), status_for(holdouts, name, visitor)
        if not visitor.at_least(Role.ANALYST):
            return cls(whole, status, visitor, None)
        try:
            return cls(whole, status, visitor, holdouts.asked_by(name, visitor))
        except QueryRejected as reason:
            return cls(whole, status, visitor, None, "" if "competition" in status else reason.message)

    @property
    def name(self) -> str:
        """The holdout's name."""
        return str(self.status["name"])

    @property
    def competition(self) -> Mapping[str, Any] | None:
        """What is fixed of the competition, if it is one."""
        found: Mapping[str, Any] | None = self.status.get("competition")
        return found

    @property
    def steward(self) -> bool:
        """Whether everything may be shown."""
        return self.visitor.role is Role.STEWARD

    @cached_property
    def parts(self) -> list[dict[str, Any]]:
        """The budget: what is left of each part and what was there; none for analysts without an allotment."""
        if self.visitor.role is Role.ANALYST and self.mine is None:
            return []
        asked = self.mine or self.whole
        planned, left = asked.planned, self.status["remaining"]
        return [
            {"name": name, "word": _WORDS.get(name, name), "left": left[name], "planned": planned[name]}
            for name in left
        ]

    @property
    def explained_budget(self) -> str:
        """What counts against it, in words."""
        if self.competition:
            counted = "Each submission, final score and comparison of two teams counts as a question."
        else:
            counted = "Every new question counts; asking the same again is free."
        surprises = any(part["name"] == "overfits" for part in self.parts)
        return counted + " A surprise, or overfit, is an answer that had to correct its guess." * surprises

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The answers that this visitor may see, in order: all, their own, or none."""
        if self.mine is None:
            return []
        return [{name: row.get(name) for name in _SHOWN} for row in self.mine.transcript().to_rows()]

    def latest(self, most: int) -> list[dict[str, Any]]:
        """The newest answers that this visitor may see, newest first."""
        return self.named(self.rows[: -most - 1 : -1])

    def named(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Rows whose ``asked`` names models and submissions, where this visitor may know the name."""
        return [{**row, "asked": with_names(str(row["asked"]), self.names)} for row in rows]

    @cached_property
    def names(self) -> dict[str, str]:
        """Names of models and submissions that this visitor may know, by SHA-256: all, or what they proposed."""
        if self.steward:
            return self.whole.model_names()
        return {} if self.mine is None else self.whole.model_names(asked_by=self.visitor.name)

    @property
    def handed_in(self) -> str:
        """How many submissions there are, the visitor's own or all, and what is told of them, in one or two sentences.

        Only of a competition.
        """
        contest = self.competition or {}
        counts = {each.team: each.submissions for each in self.whole.leaderboard().standings}
        number = sum(counts.values()) if self.steward else counts.get(self.visitor.name, 0)
        if not number:
            return "Nothing has been handed in yet."
        if self.steward:
            said = f"Handed in: {counted(number, 'submission')} of {counted(len(counts), 'team')}."
        else:
            said = f"You have handed in {number:,} of {contest['submissions']:,} submissions."
        return said if self.status["closed"] else f"{said} {FEEDBACK_IN_WORDS[contest['feedback']]}"

    @property
    def key(self) -> tuple[str, str, str]:
        """What pictures depend on: how far the ledger had come, and whose view it is."""
        whose = self.visitor.name if self.visitor.role is Role.ANALYST else ""
        return self.status["ledger_head"]["entry_hash"], self.visitor.role.value, whose

    def sketches(self) -> dict[str, Sketch]:
        """The pictures that there are for this visitor, by name."""
        return {sketch.name: sketch for sketch in self._sketches()}

    def _sketches(self) -> Iterator[Sketch]:
        drawn = self._on_panels(drawable(self.rows))
        if self.rows:
            yield self._budget()
        if drawn:
            yield self._answers(drawn)
        if any(row["estimate"] is not None for row in drawn):
            yield self._estimates([row for row in drawn if row["estimate"] is not None])
        portrait = portrait_of(self.whole.mechanism.dependence)
        if portrait is not None:
            yield Sketch(
                "dependence", portrait.title, portrait.alt, portrait.caption,
                lambda: {"model": self.whole.mechanism.dependence.to_dict()},
            )  # fmt: skip

    def _on_panels(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Answers as charts draw them: shares and differences in their own units, other numbers by their range."""
        return [
            row if reading is None else on_a_panel(row, measure=reading.measure, ends=reading.ends)
            for row, reading in zip(rows, self.whole.readings(rows), strict=True)
        ]

    def _budget(self) -> Sketch:
        left = ", ".join(f"{part['left']:,} of {part['planned']:,} {part['word']}" for part in self.parts)
        now = "the study is over" if self.status["closed"] else f"now {left}"
        return Sketch(
            "budget", "How it burns down", f"What was left of the budget after each question: {now}.",
            "Of the plan, question by question. A confirmed answer costs a question and nothing else.",
            lambda: {"left": list(self._burning())},
        )  # fmt: skip

    def _burning(self) -> Iterator[dict[str, Any]]:
        """What was left after each question, counted back from what is left now.

        The end of a study takes all that was left, so that there it is counted from the plan.
        """
        asked = [row for row in self.rows if row["source"] != "refused"]
        for place, part in enumerate(self.parts):
            prices = [1 if place == 0 else row["charged"] for row in asked]
            left = part["planned"] if self.status["closed"] else min(part["left"] + sum(prices), part["planned"])
            for number, price in enumerate([0, *prices]):
                left = max(left - price, part["left"])
                yield {"part": part["word"], "asked": number, "left": left, "planned": part["planned"]}

    def _answers(self, drawn: list[dict[str, Any]]) -> Sketch:
        taken = sum(row["source"] == "holdout" for row in drawn)
        latest = f"The latest {MOST_DRAWN}. " if len(drawn) == MOST_DRAWN else ""
        whose = "" if self.steward else "your "
        return Sketch(
            "answers", "Each with its interval",
            f"{len(drawn):,} {whose}answers in the order of the ledger, each with its interval; "
            f"{taken:,} of them come from the sealed rows and the others were confirmed.",
            f"{latest}All intervals hold at once, with the probability of the promise.", lambda: {"answers": drawn},
        )  # fmt: skip

    def _estimates(self, drawn: list[dict[str, Any]]) -> Sketch:
        band, what = self._band
        said = "" if band is None else f" The band is {what}: {at_most(band)} to either side."
        confirmed = sum(row["source"] == "training" for row in drawn)
        return Sketch(
            "estimates", "Training estimates and answers",
            f"Training estimate against released answer for {len(drawn):,} questions; {confirmed:,} estimates were "
            "confirmed and lie on the diagonal.",
            f"On the dashed line, the estimate was released as it was.{said} What lies off the line was corrected.",
            lambda: {"answers": drawn, "band": band},
        )  # fmt: skip

    @property
    def _band(self) -> tuple[float | None, str]:
        """Half-width around an estimate that says something of it, and what; None where it would be the whole range."""
        threshold, radius = self.whole.mechanism.confirms_within, self.status["radius"]
        if threshold is not None and threshold < 0.5:
            return threshold, "the threshold, beyond which an estimate is corrected, but for noise"
        return (radius if radius is not None and radius < 0.5 else None), "as wide as the promise"

    @cached_property
    def dependence(self) -> dict[str, Any]:
        """What is assumed of the rows: in words, and what they are worth."""
        model, rows = self.whole.mechanism.dependence, self.status["rows"]
        worth = model.concentration(rows)
        return {
            "words": model.describe(), "title": model.title, "rows": rows, "worth": min(worth, rows),
            "independent": isinstance(model, Independent), "how_to_tell": list(model.how_to_tell),
        }  # fmt: skip

    def gates(self) -> list[dict[str, Any]]:
        """Every gate with its promotions, all of it public; none of a competition, which has a leaderboard.

        ``name_of`` names its models: as they were proposed, where this visitor may know that, and else by their entry.
        """
        if self.competition:
            return []
        return [self._gate(gate) for gate in self.status.get("gates", [])]

    def _gate(self, gate: Mapping[str, Any]) -> dict[str, Any]:
        steps = self.whole.gate(name=gate["gate"]).promotions()
        by_entry = {step["challenger"]: f"the challenger of entry {step['sequence']:,}" for step in steps}
        models = {gate["first_champion"]: "the first champion", **by_entry}
        names = {digest: self.names.get(digest, place) for digest, place in models.items()}
        return {**gate, "steps": steps, "left": _left(gate), "name_of": names}

    def staircase(self, gates: list[dict[str, Any]]) -> Sketch:
        """The picture of these gates."""
        steps = [
            {"gate": gate["gate"], "sequence": sequence, "promotions": number}
            for gate in gates
            for number, sequence in enumerate([0, *(step["sequence"] for step in gate["steps"])])
        ]
        promotions = sum(len(gate["steps"]) for gate in gates)
        return Sketch(
            "gates", "The staircase", f"{promotions:,} promotions along the ledger; every step is proved to be better "
            "than the one below it.",
            "A step up is a promotion. Flat stretches are challengers of which nothing is proved.",
            lambda: {"steps": steps, "last": max(self.status["ledger_head"]["sequence"], 1)},
        )  # fmt: skip

    def challenges(self) -> list[dict[str, Any]]:
        """The challenges that this visitor may see, latest first."""
        return [row for row in reversed(self.rows) if row["source"] in VERDICTS]


def _left(gate: Mapping[str, Any]) -> int | None:
    return None if gate["limit"] is None else gate["limit"] - gate["challenges"]
