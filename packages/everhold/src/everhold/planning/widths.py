"""Widths of the answers of guess-and-check: by true value or spread, and by earlier surprises."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.display import Display, at_most
from everhold.guarantees.intervals.bets.closed_form import planned_radius
from everhold.guarantees.intervals.shares.means import OfMeans
from everhold.mechanisms import GuessAndCheck
from everhold.mechanisms.labels import Offsets
from everhold.planning.request import USUAL_VALUE
from everhold.planning.steps import USUAL_DISAGREEMENT, least_step

if TYPE_CHECKING:
    from everhold.dependence import DependenceModel
    from everhold.mechanisms import Mechanism

TRUE_VALUES = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Of yes-or-no queries; at 1 minus such a value the widths are the same."""

SPREADS = (0.05, 0.1, 0.2)
"""Standard deviations of row values on the scale [0, 1], or of the means of groups."""

_VACUOUS = 0.5  # a radius of half the range: an interval of that half-width holds for any mean


def least_vacuous(at: float) -> float:
    """The half-width that a radius of half the range leaves of [0, 1] around a value.

    Examples:
        >>> round(least_vacuous(0.9), 9), least_vacuous(0.5)
        (0.3, 0.5)
    """
    return half_within(at - _VACUOUS, at + _VACUOUS)


@dataclass(frozen=True, slots=True)
class Width:
    """Half-widths of answers at the last planned query, as parts of [0, 1].

    Attributes:
        query: ``"yes_no"``: a yes-or-no query; ``"spread"``: other values, whose spread training rows predict;
            ``"groups"``: sums of groups, whose spread training rows predict.
        at: The population's value of a yes-or-no query; else the standard deviation of rows, or of means of groups.
        surprises: Surprises before it.
        confirmed: If its guess holds.
        released: If it is a surprise.
    """

    query: str
    at: float
    surprises: int
    confirmed: float
    released: float
    unsealed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths(Display):
    """Widths of the answers of guess-and-check in the course of a plan.

    Half-widths by true value are exact. Those by spread are in closed form (S7) and for values of any shape: bets on
    values that seldom lie near 0 or 1 reach about a tenth less, and with few large groups up to a third less.

    Attributes:
        training_rows: Rows that guesses are made from.
        lines: By kind of query, then by surprises, then by true value or spread.
    """

    rows: int
    queries: int
    training_rows: int
    lines: tuple[Width, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """One table row for each line."""
        return [
            {"query": x.query, "at": x.at, "surprises": x.surprises, "confirmed": x.confirmed,
             "released": x.released, "unsealed": x.unsealed}
            for x in self.lines
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"training_rows": self.training_rows, "lines": self.to_rows()}

    def __str__(self) -> str:
        return self.to_text()


def widths_of(mechanism: GuessAndCheck, alike: float | None = None) -> Widths:
    """With no surprise, with some, and after all that are planned; `alike` is as for `Mechanism.expected_radius`."""
    most = min(mechanism.surprises, mechanism.queries - 1)
    counts = sorted({0, math.isqrt(most), most})
    lines = [width_at(mechanism, value, surprises, alike) for surprises in counts for value in TRUE_VALUES]
    kind, size = _units(mechanism)
    if kind:
        lines += [_width_by_spread(mechanism, kind, size, sd, surprises) for surprises in counts for sd in SPREADS]
    return Widths(
        rows=mechanism.rows, queries=mechanism.queries, training_rows=mechanism.training_rows or mechanism.rows,
        lines=tuple(lines),
    )  # fmt: skip


def width_at(mechanism: GuessAndCheck, value: float, surprises: int, alike: float | None = None) -> Width:
    """Of a yes-or-no query with this true value, the last planned one, after so many surprises."""
    nats = _last_nats(mechanism, surprises)
    procedure = mechanism.quotes.yes_no_at(value, nats, alike)
    confirmed = mechanism.intervals.of_guess(procedure, value, nats)
    if not isinstance(procedure, OfMeans):
        usual = Offsets.of(procedure, value, nats).usual + mechanism.rounding
        low, high = procedure.expected(value, nats)
        unsealed = half_within(low - mechanism.rounding, high + mechanism.rounding)
        return Width(
            "yes_no", value, surprises, half_within(*confirmed), half_within(value - usual, value + usual), unsealed
        )
    cell = mechanism.cells.released(math.floor(value * mechanism.steps))
    told, exact = procedure.span(*cell, nats), procedure.interval(value, nats)
    halves = (
        half_within(*confirmed),
        half_within(float(told[0]) - mechanism.rounding, float(told[1]) + mechanism.rounding),
        half_within(exact[0] - mechanism.rounding, exact[1] + mechanism.rounding),
    )
    return Width("yes_no", value, surprises, *halves)


def _last_nats(mechanism: GuessAndCheck, surprises: int) -> float:
    """Of the last planned query, if every surprise cost a label of a cell."""
    labels = surprises * mechanism.cells.cost / 1e6
    return float(mechanism.nats(mechanism.queries, surprises, labels))


def half_within(low: float, high: float) -> float:
    """Half of what an interval has of [0, 1]."""
    return (min(high, 1.0) - max(low, 0.0)) / 2.0


def _units(mechanism: GuessAndCheck) -> tuple[str, float]:
    """Units that are bet on where training rows predict the spread, and the number of rows of the largest unit."""
    if mechanism.slack:
        return "", 0.0  # a promise of slack takes no bets
    if mechanism.dependence.independent:
        return "spread", 1.0
    if counts := mechanism.dependence.unit_counts:
        return "groups", float(counts[-1][0])
    return "", 0.0


def _width_by_spread(mechanism: GuessAndCheck, kind: str, size: float, sd: float, surprises: int) -> Width:
    """Of values whose units spread by ``sd`` per row about a mean that may be anything (S7)."""
    rows, nats = float(mechanism.rows), _last_nats(mechanism, surprises)
    counts = mechanism.dependence.unit_counts
    spread = sd * sd * (_squares(counts, mechanism.rows) if counts else rows)
    unsealed = planned_radius(spread=spread, total=rows, largest=size, nats=nats + math.log(2.0))
    training = mechanism.training_rows or mechanism.rows
    error = math.sqrt(spread * (1.0 + rows / training)) / rows
    confirmed = unsealed + mechanism.allowance * error
    released = Offsets(0.5, unsealed).usual
    halves = (min(half + mechanism.rounding, 0.5) for half in (min(confirmed, mechanism.tolerance), released, unsealed))
    return Width(kind, sd, surprises, *halves)


def _squares(counts: tuple[tuple[int, int], ...], rows: int) -> float:
    """Sum of the squared sizes of all sealed units; sizes that are only shares are scaled to the rows."""
    return rows * sum(size * size * number for size, number in counts) / sum(size * number for size, number in counts)


def surprises_until(mechanism: GuessAndCheck, width: float, at: float, alike: float | None = None) -> int | None:
    """After how many surprises an answer at the end of the plan is first wider than this; None if never within it."""
    most = mechanism.queries - 1

    def wider(surprises: int) -> bool:
        nats = _last_nats(mechanism, surprises)
        procedure = mechanism.quotes.yes_no_at(at, nats, alike)
        return half_within(*mechanism.intervals.of_guess(procedure, at, nats)) > width

    dearest = min(most, math.floor(mechanism.queries * mechanism.grid / (mechanism.grid + 1.0)))
    if not wider(dearest):
        return None
    narrow, wide = -1, dearest
    while wide - narrow > 1:
        middle = (narrow + wide) // 2
        narrow, wide = (narrow, middle) if wider(middle) else (middle, wide)
    return wide


def vacuous_in_words(mechanism: Mechanism, alike: float | None = None) -> str:
    """Remark about a worst case of half the range or more; empty where it is less."""
    radius, expected = mechanism.promise().radius, mechanism.expected_radius(USUAL_VALUE, alike)
    if radius < _VACUOUS:
        return ""
    if expected >= least_vacuous(USUAL_VALUE):
        return f"the radius {radius:.2f} is half the range or more and promises nothing"
    if alike is not None:
        return (
            f"the guaranteed radius {radius:.2f} is half the range or more, because it allows for rows that are all "
            f"alike in a group; each answer has an interval of its own that holds, expected within {at_most(expected)} "
            f"around {USUAL_VALUE:g} while guesses hold"
        )
    return (
        f"after all planned surprises the radius {radius:.2f} is half the range or more and promises nothing; only "
        f"while guesses hold are answers narrower, with half-widths of {at_most(expected)} around {USUAL_VALUE:g}"
    )


def sealed_units(dependence: DependenceModel) -> str:
    """The units of which more make answers narrower: groups where they are declared, else rows."""
    return "groups" if dependence.in_groups else "rows"


def few_rows(mechanism: Mechanism, alike: float | None = None) -> str:
    """Differences that few rows can show at all."""
    expected = at_most(mechanism.expected_radius(USUAL_VALUE, alike))
    said = f"expect wide intervals, such as ±{expected} around {USUAL_VALUE:g}"
    if isinstance(mechanism, GuessAndCheck) and mechanism.dependence.independent:
        seen = step_in_words(mechanism, USUAL_DISAGREEMENT)
        return f"{said}; {seen}"
    return said


def step_in_words(mechanism: Mechanism, disagreement: float) -> str:
    """Smallest step that a gate proves before its first promotion, and after three, in points."""
    request: dict[str, Any] = {
        "rows": mechanism.rows, "disagreement": disagreement, "challenges": mechanism.queries,
        "confidence": mechanism.confidence,
    }  # fmt: skip
    first, later = least_step(**request), least_step(**request, promotions=3)
    who = f"of two models that disagree on {100 * disagreement:.3g} % of {mechanism.rows:,} rows"
    if first is None:
        return f"{who} a gate cannot see which is better"
    then = f"{at_most(100 * later)} after three promotions" if later else "none any more after three promotions"
    return f"{who} a gate sees steps from {at_most(100 * first)} points on, {then}"
