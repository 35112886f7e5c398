"""Report of the demonstration: tables, the picture of the climb, a closing paragraph; all numbers are measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from rich.table import Table

from everhold.charts import save_chart
from everhold.display import Display
from everhold_lab.charts import WorthBar, climb_chart, plots_available, worth_chart
from everhold_lab.demo.flights import contains
from everhold_lab.demo.night import BEFORE, TAKE_OFF

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rich.console import Console

    from everhold_lab.charts import ClimbPoint
    from everhold_lab.demo.flights import GroupsWorth
    from everhold_lab.demo.night import Trial, TunedModel

_HONEST = "An honest analyst, on a holdout of their own over the same sealed flights"
_UNSEALED = "The end of the study: a gate, and every sealed number"
_HONEST_BY_HOUR = "The same analyst, where one hour at one airport moves together"
BARE, EVERHOLD = "a bare test set", "the same flights behind everhold"
_CLIMB_TITLE = "The climb"
_CLIMB_CAPTION = (
    "One analyst scores thousands of coin-flip rules, lets the rules vote by their scores, and reports the vote's "
    "score. On a bare test set the reported score climbs while the truth falls. Behind everhold each score comes "
    "with an interval for the truth."
)
_VACUOUS = 0.5
_WORTH_TITLE = "What the same flights are worth"
_WORTH_CAPTION = (
    "The same sealed flights and the same queries, under four assumptions about which flights move together. "
    "Flights that may move together count for less, and the radius that can be promised is larger."
)


@dataclass(frozen=True, slots=True)
class ClimbOutcome:
    """Final reported score of the hill climber, and the true value.

    Attributes:
        fresh: The score of the same vote on the fresh flights.
        low: Lower end of the stated interval. None if no interval was stated.
        high: Upper end of the stated interval. None if no interval was stated.
        charged: Number of answers that cost a surprise.
    """

    reported: float
    fresh: float
    queries: int
    low: float | None = None
    high: float | None = None
    charged: int = 0
    refused: int = 0

    @property
    def gap(self) -> float:
        """Reported value minus true value."""
        return self.reported - self.fresh

    @property
    def confirmed(self) -> bool:
        """True if the value on fresh flights lies in the stated interval."""
        return self.low is not None and self.high is not None and self.low <= self.fresh <= self.high


@dataclass(frozen=True, slots=True)
class Member:
    """The answer about one subgroup, with its value on fresh flights.

    Attributes:
        high: Upper end of the interval.
        fresh: Share of late flights among the fresh ones.
        fresh_flights: Number of fresh flights of the subgroup.
        charged: Surprises that the answer cost.
    """

    subgroup: str
    low: float
    high: float
    fresh: float
    fresh_flights: int
    charged: int

    @property
    def true(self) -> bool:
        """True if the interval contains the fresh value, up to the sampling error of the fresh flights."""
        return contains(self.low, self.high, self.fresh, self.fresh_flights)


@dataclass(frozen=True, slots=True)
class GateNight:
    """Result of one challenge: the challenger, the champion at that time, the verdict and the gain on fresh flights.

    Attributes:
        promoted: Whether the challenger was promoted, because it is proved to be better.
        gain: Gain on the fresh flights.
    """

    candidate: TunedModel
    champion: TunedModel
    promoted: bool
    gain: float


@dataclass(frozen=True, slots=True)
class UnsealedStudy:
    """An answer of the study, before and after the holdout was unsealed.

    Attributes:
        told: Half-width of the interval before unsealing.
        low: Lower end of the interval after unsealing.
        high: Upper end of the interval after unsealing.
    """

    candidate: TunedModel
    told: float
    low: float
    high: float
    fresh: float

    @property
    def half_width(self) -> float:
        """Half-width of the interval after unsealing."""
        return (self.high - self.low) / 2.0


@dataclass(frozen=True, slots=True)
class DemoResult(Display):
    """All measurements of the demonstration.

    Attributes:
        bare: The hill climber on a bare test set.
        everhold: Result of the same hill climber on the same flights when it asks the sealed holdout.
        always_on_time: Score of "no flight is late" on the fresh flights.
        intervals: Intervals stated to the hill climber.
        intervals_true: How many of them contain the fresh value, up to three of its standard errors.
        trials: Models that the honest analyst tried, with the answers.
        worth: Number of independent rows that the sealed flights are worth, under each assumption about their
            dependence.
        dependent_trials: Models that the honest analyst tried on a holdout whose declared dependence says that flights
            of one hour at one airport move together, with the answers.
        other_hours: Training flights of hours that are not sealed.
        challenges: Verdicts of the gate on the models of act 4.
        unsealed: Answers of act 2 with the numbers that their unsealing told.
        members: Answers to the members of a declared family, on a holdout of their own.
        files: Files that were written.
    """

    bare: ClimbOutcome
    everhold: ClimbOutcome
    always_on_time: float
    intervals: int
    intervals_true: int
    trials: tuple[Trial, ...]
    worth: tuple[GroupsWorth, ...]
    dependent_trials: tuple[Trial, ...]
    other_hours: int
    challenges: tuple[GateNight, ...]
    unsealed: tuple[UnsealedStudy, ...]
    members: tuple[Member, ...]
    climb: tuple[ClimbPoint, ...]
    fresh_flights: int
    sealed_flights: int
    files: tuple[Path, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, the stable contract of ``everhold demo --format json``.

        ``{"bare": {"reported", "fresh"}, "everhold": {"reported", "low", "high", "fresh", "queries", "refused"},
        "dependent": [{"assumption", "groups", "largest", "effective_rows", "within", "left", "radius"}, ...]}``.
        """
        return {
            "bare": {"reported": self.bare.reported, "fresh": self.bare.fresh},
            "everhold": {
                name: getattr(self.everhold, name)
                for name in ("reported", "low", "high", "fresh", "queries", "refused")
            },
            "dependent": [asdict(worth) for worth in self.worth],
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary for the bare test set and one for everhold."""
        names = ("reported", "low", "high", "fresh", "gap", "queries", "charged", "refused")
        acts = {"bare test set": self.bare, "everhold": self.everhold}
        return [{"holdout": act, **{name: getattr(outcome, name) for name in names}} for act, outcome in acts.items()]

    def print_to(self, console: Console) -> None:
        """Print the tables, the files and the closing paragraph."""
        print_result(self, console)


def save_climb(points: Sequence[ClimbPoint], output: Path) -> tuple[Path, ...]:
    """Save the chart of the climb as SVG and as a page, and return the paths, none without ``[plots]``."""
    if not plots_available():
        return ()
    chart = climb_chart(points, score="flights predicted correctly")
    files = tuple(output / f"climb{suffix}" for suffix in (".svg", ".html"))
    for file in files:
        save_chart(chart, file, title=_CLIMB_TITLE, caption=_CLIMB_CAPTION)
    return files


def save_worth(worth: Sequence[GroupsWorth], sealed_flights: int, output: Path) -> tuple[Path, ...]:
    """Save the chart of how many rows the sealed flights are worth, and return the paths, none without ``[plots]``."""
    if not plots_available():
        return ()
    bars = [
        WorthBar(
            line.assumption,
            line.radius,
            f"{_promised(line.radius)}: {sealed_flights:,} rows are worth {line.effective_rows:,.0f}",
        )
        for line in worth
    ]
    chart = worth_chart(bars, title="radius of the promise, for the same flights and queries")
    files = tuple(output / f"worth{suffix}" for suffix in (".svg", ".html"))
    for file in files:
        save_chart(chart, file, title=_WORTH_TITLE, caption=_WORTH_CAPTION)
    return files


def print_result(result: DemoResult, console: Console) -> None:
    """Print the tables, the files and the closing paragraph."""
    climber = _table(
        "A hill climber, on a bare test set and on everhold",
        "", "reported", "interval", "truth", "gap", "asked", "charged", "refused",
    )  # fmt: skip
    climber.add_row("bare test set", *_cells(result.bare), "-", "-")
    everhold = result.everhold
    climber.add_row("everhold", *_cells(everhold), str(everhold.charged), str(everhold.refused))
    climber.caption = (
        f"{result.intervals_true:,} of the {result.intervals:,} intervals that everhold stated contain the truth on "
        "fresh flights (up to 3 of its own standard errors)."
    )
    worth = _table(
        f"What {result.sealed_flights:,} sealed flights are worth if some of them move together",
        "moving together", "groups", "largest", "rows worth", "within", "left", "radius",
    )  # fmt: skip
    for row in result.worth:
        worth.add_row(
            row.assumption,
            f"{row.groups:,}",
            str(row.largest),
            f"{row.effective_rows:,.0f}",
            _correlation(row.within),
            _correlation(row.left),
            f"{_within(row.radius)} pts" if row.radius < _VACUOUS else "-",
        )
    worth.caption = (
        "within, left: correlation of being late on training flights, in one group and between groups of one day (for "
        "whole days: the day after). The assumption says that nothing is left."
    )
    tables = (
        climber,
        _trials_table(_HONEST, result.trials),
        worth,
        _trials_table(_HONEST_BY_HOUR, result.dependent_trials),
        _ending_table(result),
    )
    for table in tables:
        console.print(table)
        console.print()
    closing = closing_paragraph, closing_of_worth, closing_of_members, closing_of_the_study
    for paragraph in (write(result) for write in closing):
        console.print(paragraph, highlight=False)
        console.print()
    if not plots_available():
        console.print("No pictures were drawn: install them with pip install 'everhold\\[plots]'.")
    console.print("Written: " + ", ".join(str(file) for file in result.files), highlight=False, soft_wrap=True)
    console.print(f"The demonstration took {result.seconds:.0f} seconds.", highlight=False)


def _table(title: str, *columns: str) -> Table:
    """Return an empty table that fits 80 characters, with names to the left and numbers to the right."""
    table = Table(title=title, title_justify="left", caption_justify="left", box=None, padding=(0, 1, 0, 0))
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    return table


def _cells(outcome: ClimbOutcome) -> list[str]:
    return [
        _percent(outcome.reported),
        _between(outcome.low, outcome.high),
        _percent(outcome.fresh),
        f"{_points(outcome.gap)} pts",
        f"{outcome.queries:,}",
    ]


def _correlation(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


_Line = TypeVar("_Line", "Trial", UnsealedStudy)


def _trials_table(title: str, trials: Sequence[Trial]) -> Table:
    table = _table(title, "model", "guess", "answer", "interval", "charged", "truth", "inside")

    def cells(trial: Trial) -> list[str]:
        answer = trial.answer
        return [
            _percent(trial.guess), _percent(answer.value), _between(answer.low, answer.high), str(answer.charged),
            _percent(trial.fresh), _inside(answer.low, answer.high, trial.fresh),
        ]  # fmt: skip

    return _filled(table, trials, cells)


def _ending_table(result: DemoResult) -> Table:
    table = _table(_UNSEALED, "model", "gate", "before", "unsealed", "truth", "inside")
    verdicts = {line.candidate: "promoted" if line.promoted else "kept out" for line in result.challenges}

    def cells(line: UnsealedStudy) -> list[str]:
        return [
            verdicts.get(line.candidate, "champion"), f"±{_within(line.told)}", _between(line.low, line.high),
            _percent(line.fresh), _inside(line.low, line.high, line.fresh),
        ]  # fmt: skip

    return _filled(table, result.unsealed, cells)


def _filled(table: Table, lines: Sequence[_Line], cells: Callable[[_Line], list[str]]) -> Table:
    """Return a table with a line for each model, below what was known to the models."""
    for known in dict.fromkeys(line.candidate.known for line in lines):
        table.add_row(f"{known}:")
        for line in lines:
            if line.candidate.known == known:
                table.add_row(f"  {line.candidate.model}", *cells(line))
    return table


def _between(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{_tenths(low, ROUND_FLOOR)}-{_tenths(high, ROUND_CEILING)}%"


def _tenths(share: float, direction: str) -> Decimal:
    """Return a share in per cent with one decimal, rounded in the given direction so that a bound stays true."""
    return (Decimal(repr(float(share))) * 100).quantize(Decimal("0.1"), rounding=direction)


def _within(radius: float) -> str:
    """Return a radius in points as a text, rounded up."""
    return str(_tenths(radius, ROUND_CEILING))


def _ends(low: float | None, high: float | None) -> str:
    """Return an interval in words, rounded outwards."""
    if low is None or high is None:
        return "no interval"
    return f"{_tenths(low, ROUND_FLOOR)}% to {_tenths(high, ROUND_CEILING)}%"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _points(share: float) -> str:
    return f"{100.0 * share:.1f}"


def _promised(radius: float) -> str:
    return f"±{_within(radius)} points" if radius < _VACUOUS else "no promise"


def _inside(low: float | None, high: float | None, fresh: float) -> str:
    return "yes" if low is not None and high is not None and low <= fresh <= high else "no"


def closing_paragraph(result: DemoResult) -> str:
    """Return a paragraph that sums up the demonstration for decision makers, and says if a promise was broken."""
    bare, everhold = result.bare, result.everhold
    against = "less" if bare.fresh < result.always_on_time else "more"
    verdict = "inside" if everhold.confirmed else "OUTSIDE"
    sentences = [
        f"An analyst scored {bare.queries:,} coin-flip rules and votes on {result.sealed_flights:,} test flights "
        f"and reported a forecaster that is right {bare.reported:.1%} of the time. "
        f"On {result.fresh_flights:,} flights that nobody had looked at it is right {bare.fresh:.1%} of the time, "
        f"{against} than the {result.always_on_time:.1%} of saying that no flight is ever late: "
        f"{_points(bare.gap)} points of the report were luck, kept and added up.",
        f"With the same flights behind everhold, the same analyst got {everhold.queries - everhold.refused:,} "
        f"answers and could report {everhold.reported:.1%}, with the interval from "
        f"{_ends(everhold.low, everhold.high)}; the fresh flights say {everhold.fresh:.1%}, {verdict} it.",
    ]
    before, at_take_off = (_best(result.trials, known) for known in (BEFORE, TAKE_OFF))
    if before is not None and at_take_off is not None:
        sentences.append(
            f"An honest analyst compared {len(result.trials)} real models and learned what can be relied on: the best "
            f"forecast before the day is right {_stated(before)}, the best at take-off {_stated(at_take_off)}."
        )
    caught = [trial for trial in result.trials if trial.answer.charged and trial.answer.value is not None]
    if caught:
        worst = max(caught, key=lambda trial: trial.guess - trial.fresh)
        sentences.append(
            f"A model that claimed {worst.guess:.1%} was caught: everhold says {_stated(worst)}, and the fresh flights "
            f"say {worst.fresh:.1%}."
        )
    return " ".join(sentences)


def closing_of_worth(result: DemoResult) -> str:
    """Return in words how the certificates of acts 2 and 3 differ."""
    alone, hour, aircraft, day = result.worth
    rows = f"{result.sealed_flights:,}"
    sentences = [
        "So far flights counted as independent: the sealed ones are a random sample of one year's flights, and the "
        "promises are about that year. Other days like these have other queues and other weather, and about them "
        f"{rows} flights say less: being late correlates by {_correlation(hour.within)} between training flights of "
        f"one hour at one airport. If such flights may move together in any way, {rows} rows are worth "
        f"{hour.effective_rows:,.0f}, and the third certificate says so: within {_within(hour.radius)} points in place "
        f"of {_within(alone.radius)}, with the assumption in words, and how to tell that it is wrong.",
        *_of_the_best_by_hour(result),
        "The assumption is not the whole story: flights of one day in different hours still correlate by "
        f"{_correlation(hour.left)}. Aircraft as groups would cost more and explain less "
        f"({aircraft.effective_rows:,.0f} rows, {_correlation(aircraft.within)}); whole days are worth "
        f"{day.effective_rows:,.0f} rows, within {_within(day.radius)} points. No computation can choose for you; the "
        "certificate states what was chosen.",
    ]
    return " ".join(sentences)


def closing_of_members(result: DemoResult) -> str:
    """Return the results of the declared family in words."""
    members = result.members
    if not members:
        return "No subgroup of the declared family has enough fresh flights."
    widest, narrowest = (choose(members, key=lambda each: each.high - each.low) for choose in (max, min))
    held, charged = sum(member.true for member in members), sum(member.charged for member in members)
    least, most = (_within((member.high - member.low) / 2.0) for member in (narrowest, widest))
    return (
        f"Lateness by carrier and airport was declared beforehand. All {len(members)} members were answered from the "
        f"sealed flights at a charge of {charged}, each with an interval of its own width: from {least} points to "
        f"either side ({narrowest.subgroup}) to {most} ({widest.subgroup}). {held} of them contain the value on fresh "
        "flights."
    )


def closing_of_the_study(result: DemoResult) -> str:
    """Return the results of the gate and of unsealing in words, also if fresh flights contradict."""
    promoted = [line for line in result.challenges if line.promoted]
    wrong = sum(line.gain <= 0.0 for line in promoted)
    proved = "all of them are better" if not wrong else f"{wrong} of them are NOT better"
    sentences = [
        f"In the end {len(result.challenges)} models challenged the first one through a gate, which promotes only what "
        f"is proved to be better: {len(promoted)} were promoted, and on the fresh flights {proved} than the champion "
        "of their moment."
    ]
    if result.unsealed:
        before, after = (max(widths) for widths in zip(*((u.told, u.half_width) for u in result.unsealed), strict=True))
        held = sum(line.low <= line.fresh <= line.high for line in result.unsealed)
        sentences.append(
            f"Then the study was unsealed, which closes it for ever: every answer is known within {_within(after)} "
            f"points in place of {_within(before)} at most, and {held} of the {len(result.unsealed)} intervals contain "
            "what the fresh flights say."
        )
    return " ".join(sentences)


def _of_the_best_by_hour(result: DemoResult) -> list[str]:
    best = _best(result.dependent_trials, BEFORE)
    if best is None:
        return []
    return [
        f"With {result.other_hours:,} training flights of other hours, the honest analyst's best forecast before the "
        f"day is right {_stated(best)}."
    ]


def _best(trials: Sequence[Trial], known: str) -> Trial | None:
    answered = [trial for trial in trials if trial.candidate.known == known and trial.answer.value is not None]
    return max(answered, key=lambda trial: trial.answer.value or 0.0, default=None)


def _stated(trial: Trial) -> str:
    answer = trial.answer
    return f"{_percent(answer.value)} of the time ({_ends(answer.low, answer.high)})"
