"""Presentation of a mechanism: its documentation page, chart colour, and sentences in plans and certificates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """Texts and colour of a mechanism. No answer depends on them.

    A certificate signs these sentences, so a change of one is a new version of the mechanism.

    Attributes:
        page: Page of docs/theory that proves its promise.
        colour: Colour in charts, after Okabe and Ito, distinct for people with colour blindness.
        explanation: Sentences that say how answers are made.
        endless: Last sentences of the explanation for a holdout that goes on when the budget is used up. If empty,
            `ends` is used.
        ends: Last sentences of the explanation for a holdout that stops when the budget is used up.
        theorem: Sentences that say why the answers are true.
        sentence: The promise, with placeholders for numbers of the certificate.
        no_privacy: Reason why nothing is promised about single rows, for mechanisms that promise nothing about them.
        left: What a reader has to know about the remaining budget.
        left_endless: What a reader has to know about the remaining budget of a holdout that goes on when the budget is
            used up.
        note: Note beside the mechanism's line in a plan.
        legend: Note beside the mechanism's name in a chart.
    """

    page: str
    colour: str
    explanation: str
    endless: str = ""
    ends: str = ""
    theorem: str
    sentence: str = "Until {budget} {are} used up, every answer is {reach}, all of them at once, {holds}."
    no_privacy: str = "the noise is too small for any"
    left: str = ""
    left_endless: str = ""
    note: str = ""
    legend: str = ""

    def explained(self, *, endless: bool) -> str:
        """Return the explanation followed by what happens at the end of the budget.

        Args:
            endless: Whether the holdout goes on when the budget is used up.
        """
        return f"{self.explanation} {self.endless if endless else self.ends}".strip()
