"""The least step that a gate can see: how much better a challenger has to be, before anybody has data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.arguments import as_float, as_whole, brief
from everhold.display import Display
from everhold.guarantees.description_length import QueryTree
from everhold.guarantees.intervals.bets.closed_form import planned_radius
from everhold.guarantees.intervals.shares.means import SignTest
from everhold.planning.request import LEAST_RADIUS, MOST_QUERIES, MOST_ROWS

if TYPE_CHECKING:
    from everhold.planning.request import PlanRequest

USUAL_DISAGREEMENT = 0.2
"""The share of rows on which two language models or prompts often disagree; for words about small holdouts."""

_PROMOTIONS = (0, 1, 3, 7)


def least_step(
    *,
    rows: int,
    disagreement: float,
    challenges: int,
    promotions: int = 0,
    confidence: float = 0.95,
    public: bool = True,
) -> float | None:
    """The least observed gain in accuracy with which a challenger is promoted by a gate without a margin.

    It is the gate's own procedure at its own level: that of the last planned challenge. Rows are independent.

    Args:
        rows: Number of sealed rows.
        disagreement: Share of the sealed rows on which challenger and champion differ, in (0, 1].
        challenges: Number of planned queries; all of them may be challenges.
        promotions: Promotions and other surprises so far. Labels of surprises that told a number would cost more.
        confidence: 1 - beta, in (0, 1).
        public: Whether both predictions are public and of two classes: then the exact sign test decides. Otherwise it
            is bets on gains in {-1, 0, 1}, whose spread training rows predict; here in closed form (S7).

    Returns:
        The gain: accuracy of the challenger less that of the champion on the sealed rows, in (0, disagreement]. None
        where not even a challenger that is right wherever they differ could be promoted.

    Raises:
        ValueError: If an argument is not valid.

    Source: docs/theory, the gate; docs/theory, interval procedures (sign test, S7).

    Examples:
        >>> request = {"rows": 20_000, "disagreement": 0.05, "challenges": 10_000}
        >>> [round(least_step(**request, promotions=before), 4) for before in (0, 3, 7)]
        [0.0073, 0.0136, 0.0182]
    """
    _check(rows, disagreement, challenges, promotions, confidence)
    tree = QueryTree(queries=challenges)
    before = min(promotions, challenges - 1)
    nats = float(tree.log_inverse_weight(asked=challenges, surprises=before)) - math.log1p(-confidence)
    return step_at(rows=rows, disagreement=disagreement, nats=nats, public=public)


def step_at(*, rows: int, disagreement: float, nats: float, public: bool) -> float | None:
    """`least_step` of one challenge at its own level, within the plan or beyond it.

    Args:
        rows: Number of sealed rows, which are independent.
        disagreement: Share of the rows on which challenger and champion differ, in (0, 1].
        nats: ln(1 / level) of the challenge.
        public: As for `least_step`.

    Returns:
        The gain, as `least_step` returns it.
    """
    differing = max(round(rows * disagreement), 1)
    if public:
        return _sign_test_step(rows, differing, nats - math.log(2.0))
    # row values are (1 + gain) / 2: ties at 1/2, others half a unit away from it
    step = 2.0 * planned_radius(spread=differing / 4.0, total=rows, largest=0.5, nats=nats)
    return step if step <= differing / rows else None


def _sign_test_step(rows: int, differing: int, nats: float) -> float | None:
    """The fewest wins whose lower limit is above a tie, found by bisection: limits rise with the wins."""
    test = SignTest(rows=rows, training=rows, differing=differing)

    def seen(wins: int) -> bool:
        low, _ = test.interval(0.5 + (2 * wins - differing) / (2.0 * rows), nats)
        return low - LEAST_RADIUS >= 0.5 + LEAST_RADIUS / 2.0

    if not seen(differing):
        return None
    fails, holds = differing // 2, differing
    while holds - fails > 1:
        middle = (fails + holds) // 2
        fails, holds = (fails, middle) if seen(middle) else (middle, holds)
    return (2 * holds - differing) / rows


def _check(rows: int, disagreement: float, challenges: int, promotions: int, confidence: float) -> None:
    for name, value, least, most in (
        ("rows", rows, 1, MOST_ROWS), ("challenges", challenges, 1, MOST_QUERIES),
        ("promotions", promotions, 0, MOST_QUERIES),
    ):  # fmt: skip
        whole = as_whole(value)
        if whole is None or not least <= whole <= most:
            raise ValueError(f"{name} is {brief(value)}; expected a whole number from {least} to {most}")
    if not 0.0 < as_float(disagreement) <= 1.0:
        raise ValueError(
            f"disagreement is {brief(disagreement)}; expected the share of rows, in (0, 1], on which two models differ"
        )
    if not 0.0 < as_float(confidence) < 1.0:
        raise ValueError(f"confidence is {brief(confidence)}; expected a number strictly between 0 and 1, such as 0.95")


@dataclass(frozen=True, slots=True)
class Step:
    """Steps that a gate can prove after some promotions.

    Attributes:
        promotions: Promotions so far.
        step: Least gain in accuracy with two public sets of predictions for two classes (sign test); None where there
            is none.
        step_by_bets: The same where predictions are sealed, or of more classes; in closed form.
    """

    promotions: int
    step: float | None
    step_by_bets: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Display):
    """The least steps that a gate can see in the course of a plan.

    Attributes:
        challenges: Planned queries, all of them challenges.
        disagreement: Share of the rows on which challenger and champion differ.
        lines: One line for each number of promotions so far.
    """

    rows: int
    challenges: int
    disagreement: float
    lines: tuple[Step, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """One table row for each number of promotions."""
        return [{"promotions": x.promotions, "step": x.step, "step_by_bets": x.step_by_bets} for x in self.lines]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"challenges": self.challenges, "disagreement": self.disagreement, "lines": self.to_rows()}

    def __str__(self) -> str:
        return self.to_text()


def steps_of(request: PlanRequest, disagreement: float) -> Steps:
    """Steps that a gate could prove if all planned queries were challenges, for independent rows."""
    shared: dict[str, Any] = {
        "rows": request.rows, "disagreement": disagreement, "challenges": request.queries,
        "confidence": request.confidence,
    }  # fmt: skip
    lines = tuple(
        Step(
            before,
            least_step(**shared, promotions=before),
            least_step(**shared, promotions=before, public=False),
        )
        for before in _PROMOTIONS
        if before < request.queries
    )
    return Steps(rows=request.rows, challenges=request.queries, disagreement=float(disagreement), lines=lines)
