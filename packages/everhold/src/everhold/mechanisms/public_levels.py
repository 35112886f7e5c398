"""Base of mechanisms whose error probabilities follow from public facts: tree of queries, tolerance, widths (S8).

Levels, tolerance and widths are public: they are decided before the sealed rows are evaluated, or have been told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeGuard

import numpy as np

from everhold.arguments import as_float, below_one, brief
from everhold.arguments import whole as whole_number
from everhold.guarantees.description_length import QueryTree, hoeffding_radius
from everhold.guarantees.intervals.in_order import betting_on
from everhold.guarantees.intervals.means import BoundedDifferences, ClopperPearson, Ends, Hoeffding, OfMeans
from everhold.mechanisms.base import ChecksGuesses, Mechanism, whole
from everhold.mechanisms.labels import ArcsineCells, Offsets, likeliest_in, widest_released
from everhold.mechanisms.records import REFUSED, USUAL_TEXT_BITS, Description, Quote, check_text_bits, narrower

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.guarantees.intervals.betting import GroupBetting
    from everhold.mechanisms.records import Evaluations, State

_MOST_LATEST = 16
_LEVELS_AHEAD = 64  # queries whose levels are computed at once
_SAYS_NOTHING = 0.5  # half-width of an interval of everything
_AHEAD = 5  # surprises
MOST_AT_ONCE = 10_000
"""The most queries of one step."""

_MOST_ALLOWED = 100.0
_ALLOWED_OF_FAILING = 2.0  # standard errors
_MOST_FAILING = 0.1  # of a model that fails on no sealed row
_ACCEPTED = 1.25  # times the expected width of means alone, for bets


@dataclass(frozen=True, kw_only=True)
class PublicLevels(ChecksGuesses):
    """Base of mechanisms that check guesses against exact intervals, at levels that public facts decide (S8).

    Gates, choices and declared families need such a mechanism; see `has_public_levels`.

    Attributes:
        tolerance: tau, the largest half-width of a confirmed mean, and of a released mean whose interval is a function
            of the sealed mean, as long as the budget lasts. The interval of bets may be wider after a surprise. Ratios
            and statistics of all rows have half-widths of their own.
        grid: Number G of cells of sealed means, of equal width on the arcsine scale; by default half a cell is 1/60 of
            the spread of single rows, and with a slack the grid is the one with the smallest tolerance.
        slack: c in [0, 1): within the plan a guess costs no budget if it is closer than ``c tau`` to the population's
            value.
        allowance: z, the number of standard errors by which a guess may miss the sealed mean and still be confirmed.
        training_rows: Number of rows from which guesses are made. 0 if it is unknown: then the number of sealed rows is
            used.
        share: Share of the probability of failure for declared families (S10), in [0, 1). All other queries have the
            rest.
        endless: Whether queries are answered after the budget is used up. False with a slack, because its promise ends
            with the budget.
        text_bits: Largest length, in bits, of the description of a text expression. Shorter expressions have the level
            of their description if it is larger than that of the tree (S10). 0 if no expression has such a level.
    """

    tolerance: float
    grid: int = 94
    slack: float = 0.0
    allowance: float = 4.0
    training_rows: int = 0
    share: float = 0.0
    endless: bool = False
    text_bits: int = 0

    @cached_property
    def bets(self) -> bool:
        """Whether intervals use the spread of sealed values. False with a slack, which promises widths beforehand."""
        return not self.slack

    def __post_init__(self) -> None:
        super().__post_init__()
        below_one(self.slack, "slack")
        whole(self, "grid")
        if not self.tolerance > 0.0:
            raise ValueError(f"tolerance is {self.tolerance}. Pass a positive half-width.")
        if not 0.0 < as_float(self.allowance) <= _MOST_ALLOWED:
            raise ValueError(
                f"allowance is {brief(self.allowance)}. Pass a positive number of standard errors of at most "
                f"{_MOST_ALLOWED}."
            )
        whole_number(self.training_rows, "training_rows", least=0)
        below_one(self.share, "share")
        if not isinstance(self.endless, bool) or (self.endless and self.slack):
            raise ValueError(
                f"endless is {brief(self.endless)} and slack is {brief(self.slack)}. Pass endless=True or False, and "
                "False with a slack."
            )
        check_text_bits(self.text_bits)

    @cached_property
    def beta(self) -> float:
        """Failure probability of the query tree: that of the statement minus the share of declared families."""
        return (1.0 - self.statement_confidence) * (1.0 - self.share)

    def sharing(self, share: float) -> Self:
        """Return the mechanism with a share of the probability of failure for declared families (S10)."""
        return replace(self, share=share)._tuned()

    def described(self, nats: float) -> float:
        """Return ln(1 / level) of a member of a declared family whose weight is ``exp(-nats)`` (S10)."""
        return nats - math.log((1.0 - self.statement_confidence) * self.share)

    def of_text(self, nats: float) -> float:
        """Return ln(1 / level) of a text expression whose weight among all texts is ``exp(-nats)`` (S10)."""
        return nats - math.log(self.beta * self.tree.of_texts)

    def _tuned(self) -> Self:
        return replace(self, tolerance=self.margin.least_tolerance())

    @cached_property
    def tree(self) -> QueryTree:
        """The tree of all possible sequences of queries and surprises, which gives each query its weight."""
        return QueryTree(queries=self.queries)

    @cached_property
    def procedure(self) -> OfMeans:
        """Interval procedure for means over [0, 1] with guesses from the training rows."""
        made = super().procedure
        return replace(made, training=self.effective_training)

    @cached_property
    def yes_no_procedure(self) -> OfMeans:
        """Interval procedure for yes-or-no queries with guesses from the training rows."""
        kind = ClopperPearson if self.dependence.independent else Hoeffding
        return kind(rows=self.effective_rows(self.rows), training=self.effective_training)

    @cached_property
    def of_failing_rows(self) -> Self:
        """The same mechanism with a smaller allowance for guesses, which answers about shares of failing rows (S16)."""
        return replace(self, allowance=min(self.allowance, _ALLOWED_OF_FAILING))

    @cached_property
    def failing_rows_procedure(self) -> Procedure | None:
        """Interval procedure for a model's share of failing rows, or None if it is not told (S16).

        It is None with a slack, because a slack promises that near guesses are no surprises, also for models that fail.
        It is None with so few rows that the interval of a model that never fails would be wide.
        """
        if self.slack:
            return None
        few = 1.0 / (1.0 + self.effective_training)
        bets = bets_on_groups(self, few, 1.0, training_rows=self.training_rows or self.rows)
        procedure = self.yes_no_procedure if bets is None else bets
        nats = float(self.failing_rows_nats(self.nats(self.queries, 0, 0.0)))
        _, most = self.of_failing_rows.intervals.of_guess(procedure, 0.0, nats)
        return procedure if most <= _MOST_FAILING else None

    @property
    def effective_training(self) -> float:
        """Effective number of independent training rows. Guesses are made from these rows."""
        return self.effective_rows(self.training_rows or self.rows)

    @cached_property
    def margin(self) -> ToleranceMargin:
        """Room that the tolerance leaves for surprises and guesses."""
        return ToleranceMargin(self)

    @cached_property
    def intervals(self) -> ReleasedIntervals:
        """The intervals of answers: those of confirmed guesses and those of surprises."""
        return ReleasedIntervals(self)

    def nats(self, asked: ArrayLike, charged: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
        """Return ln(1 / level) of query number ``asked``, after surprises whose labels cost ``labels`` nats."""
        weight = self.tree.log_inverse_weight(asked=asked, surprises=charged, labels=labels)
        return weight - math.log(self.beta)

    def failing_rows_nats(self, nats: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ln(1 / level) for the shares of failing rows of queries with these levels (S16)."""
        return nats - math.log(self.tree.failing_rows)

    def next_nats(self, state: State, count: int = 1) -> NDArray[np.float64]:
        """Return ln(1 / level) of the next queries if none is a surprise, shape (count,), read-only."""
        return self._next(state, count)[0]

    def _next(self, state: State, count: int) -> tuple[NDArray[np.float64], int]:
        """Return ln(1 / level) of the next queries like `next_nats`, and how many of them are certain to be answered.

        The levels of 64 queries are computed at once, and used again until there is a surprise.
        """
        key = state.charged, state.labels
        first, nats, room = self._ahead.get(key, (0, np.empty(0), np.empty(0, dtype=bool)))
        if not first <= state.asked <= first + len(nats) - count:
            first = state.asked
            nats = self.nats(first + 1 + np.arange(max(count, _LEVELS_AHEAD)), state.charged, state.labels / 1e6)
            nats.flags.writeable = False
            room = self.margin.answers(nats)
            if len(self._ahead) >= _MOST_LATEST:
                self._ahead.clear()
            self._ahead[key] = first, nats, room
        some = slice(state.asked - first, state.asked - first + count)
        return nats[some], count if room[some].all() else int(room[some].argmin())

    @cached_property
    def _ahead(self) -> dict[tuple[int, int], tuple[int, NDArray[np.float64], NDArray[np.bool_]]]:
        """Cache of `_next` by charges and label costs: queries asked before, ln(1 / level), and which are answered."""
        return {}

    def procedures_of(self, evaluations: Evaluations) -> Sequence[Procedure]:
        """Return the interval procedure of each query. A slack does not change the procedures of challenges."""
        procedures = super().procedures_of(evaluations)
        if evaluations.margins is not None:
            return procedures
        return [self.in_force(procedure) for procedure in procedures]

    def in_force(self, procedure: Procedure) -> Procedure:
        """Return the procedure that makes the interval: with a slack, that of a mean instead of bets.

        The width of a bet's interval depends on the sealed spread, which is not known in advance. So with bets a slack
        could not promise that near guesses are no surprises.
        """
        return self.procedure if self.slack and _bets_on_means(procedure) else procedure

    def procedure_at(self, procedure: Procedure, guess: float, nats: float) -> Procedure:
        """Return the given procedure, or that of a mean if bets are expected to be much wider at this level.

        Very unequal groups, and levels that are small for the number of units, can cost bets more than the spread
        saves. Bets are kept if they are expected to be a little wider, because they adapt to a sealed spread that was
        not foreseen.

        Args:
            procedure: The procedure that the query's compiler chose.
            guess: Guess in units of a mean. Negative if there is no guess.
            nats: ln(1 / level).
        """
        procedure = self.in_force(procedure)
        if not _bets_on_means(procedure):
            return procedure
        place = guess if guess >= 0.0 else 0.5
        (low, high), (least, most) = (each.expected(place, nats) for each in (procedure, self.procedure))
        return procedure if high - low <= _ACCEPTED * (most - least) else self.procedure

    @cached_property
    def cells(self) -> ArcsineCells:
        """Cells that label a surprise about a sealed mean."""
        return ArcsineCells(self.grid, self.steps)

    def surely_answers(
        self, state: State, most: int, procedures: Sequence[Procedure] | None = (), *, silent: bool = False
    ) -> int:
        """Return how many queries of the next step are answered whichever of them are surprises (S9)."""
        return self._next(state, min(most, MOST_AT_ONCE))[1]

    def yes_no_at(self, at: float, nats: float, alike: float | None) -> Procedure:
        """Return the procedure of a planned yes-or-no query. ``alike`` is as in `Mechanism.expected_radius`."""
        bets = bets_on_groups(self, at, alike, training_rows=self.training_rows or self.rows)
        return self.yes_no_procedure if bets is None else self.procedure_at(bets, at, nats)

    def expected_radius(self, at: float, alike: float | None = None) -> float:
        """Return the half-width of the last planned yes-or-no answer if no guess was a surprise."""
        quiet = float(self.nats(self.queries, 0, 0.0))
        low, high = self.intervals.of_guess(self.yes_no_at(at, quiet, alike), at, quiet)
        return float(high - low) / 2.0

    def quote(
        self, state: State, *, guess: float | None = None, procedure: Procedure | None = None,
        described: Description | None = None,
    ) -> Quote:  # fmt: skip
        """Return price and half-widths of the next answer for a confirmed guess, a surprise and an unsealing.

        Without a guess or a procedure, they are those of the hardest query, yes-or-no with a guess of 1/2.
        """
        room, hardest = self.margin, self.next_nats(state)
        if not room.answers(hardest)[0]:
            return REFUSED
        if guess is None or procedure is None:
            concentration = float(room.concentration(hardest)[0]) + self.rounding
            confirmed = concentration + float(room.allowed(concentration - self.rounding))
            return Quote(confirmed, concentration + self.intervals.half_cell, 0, 1, refused=False)
        expected = self.expected(state, guess, procedure, described)
        procedure, nats = self._next_interval(state, guess, procedure, described)
        released = float(room.concentration(nats)) + self.rounding + self.intervals.half_cell
        if not isinstance(procedure, OfMeans):
            scale = procedure.frame[1] - procedure.frame[0]
            released = widest_released(procedure.widest_if_honest(nats) + self.rounding, scale)
        low, high = expected.confirmed
        confirmed, unsealed = max(guess - max(low, 0.0), min(high, 1.0) - guess), _half(expected.unsealed)
        return Quote(confirmed, released, 0, 1, refused=False, radius_unsealed=unsealed, confirmed=expected.confirmed)

    def expected(
        self, state: State, guess: float, procedure: Procedure | None = None, described: Description | None = None
    ) -> Expected:
        """Return the intervals that the next answer to a query with this guess is expected to have.

        Args:
            state: State before the query.
            guess: Guess in units of a mean over [0, 1].
            procedure: Interval procedure of the query. By default the procedure for any mean of values in [0, 1] is
                used.
            described: Level and procedure that the query has by its description, if it has them.
        """
        rounding = self.rounding
        procedure, nats = self._next_interval(state, guess, procedure, described)
        confirmed, likely = self.intervals.of_guess(procedure, guess, nats), procedure.expected(guess, nats)
        if isinstance(procedure, OfMeans):
            furthest = procedure.honest(guess, self.allowance)[1]
            released = self.intervals.of_cell(procedure, math.floor(float(furthest) * self.steps), nats)
        else:
            usual = Offsets.of(procedure, guess, nats).usual
            released = guess - usual - rounding, guess + usual + rounding
        return Expected(confirmed, released, (likely[0] - rounding, likely[1] + rounding))

    def _next_interval(
        self, state: State, guess: float, procedure: Procedure | None, described: Description | None
    ) -> tuple[Procedure, float]:
        """Return procedure and ln(1 / level) of the next query."""
        nats = float(self.next_nats(state)[0])
        asked = procedure or self.procedure
        return narrower(self.procedure_at(asked, guess, nats), nats, described)

    def outlook(self, state: State) -> dict[str, float]:
        """Return half-widths by name: of a yes-or-no answer now, after `_AHEAD` more surprises, and of a usual text."""
        usual = self.yes_no_procedure
        later = state.after(asked=_AHEAD, charged=_AHEAD, labels=_AHEAD * self.cells.cost)
        found = {"now": state, f"after {_AHEAD} more surprises": later}
        told = {name: self.quote(at, guess=0.5, procedure=usual).radius for name, at in found.items()}
        if self.text_bits >= USUAL_TEXT_BITS:
            text = Description(self.of_text(USUAL_TEXT_BITS * math.log(2.0)), usual)
            quoted = self.quote(state, guess=0.5, procedure=usual, described=text)
            told[f"now for a text of {USUAL_TEXT_BITS} bits"] = quoted.radius
        return {name: radius for name, radius in told.items() if radius is not None}


def has_public_levels(mechanism: Mechanism | None) -> TypeGuard[PublicLevels]:
    """Return whether every query has a level that public facts decide (`Traits.public_levels`)."""
    return mechanism is not None and mechanism.traits.public_levels


class ToleranceMargin:
    """Half-widths of the hardest query, yes-or-no with a guess of 1/2, compared with the tolerance.

    Args:
        mechanism: The mechanism with the tolerance.
    """

    def __init__(self, mechanism: PublicLevels) -> None:
        self.mechanism = mechanism

    def concentration(self, nats: ArrayLike) -> NDArray[np.float64]:
        """Return Hoeffding's half-width, which no procedure exceeds at this level."""
        return hoeffding_radius(rows=self._rows, log_inverse_level=nats)

    @cached_property
    def _rows(self) -> float:
        return self.mechanism.effective_rows(self.mechanism.rows)

    @cached_property
    def widest_honest(self) -> float:
        """Largest distance of a sealed mean from the told value: of an honest guess of 1/2, or half a cell."""
        low, _ = self.mechanism.procedure.honest(0.5, self.mechanism.allowance)
        return max(0.5 - float(low), 0.25 * math.pi / self.mechanism.grid)

    @property
    def last_concentration(self) -> float:
        """Largest half-width within the plan: that of its last query after the most expensive surprises."""
        mechanism = self.mechanism
        most = min(mechanism.surprises, mechanism.queries - 1)
        dearest = mechanism.queries * mechanism.grid / (mechanism.grid + 1.0)  # there C(m, f+1) G^f is largest
        surprises = np.clip(np.round(dearest + np.arange(-2.0, 3.0)), 0.0, most)
        labels = surprises * mechanism.cells.cost / 1e6
        return float(np.max(self.concentration(mechanism.nats(mechanism.queries, surprises, labels))))

    def least_tolerance(self) -> float:
        """Return the smallest tolerance that lasts for the whole plan."""
        last, slack = self.last_concentration, self.mechanism.slack
        needed = max(self.widest_honest + last, 2.0 * last / (1.0 - slack) if slack else 0.0)
        return needed + self.mechanism.rounding

    def allowed(self, concentration: ArrayLike) -> NDArray[np.float64]:
        """Return how far a sealed mean may be from a confirmed guess: as far as honest guesses need, or the slack."""
        slack, tolerance = self.mechanism.slack, self.mechanism.tolerance - self.mechanism.rounding
        return np.maximum(self.widest_honest, slack * tolerance + np.asarray(concentration) if slack else 0.0)

    def answers(self, nats: ArrayLike) -> NDArray[np.bool_]:
        """Return whether a query at each level is answered.

        Queries within the plan are. An endless holdout also answers as long as the half-width is below 1/2.
        """
        room = self.within_plan(nats)
        if self.mechanism.endless:
            room = room | (self.concentration(nats) + self.mechanism.rounding < _SAYS_NOTHING)
        return np.asarray(room)

    def within_plan(self, nats: ArrayLike) -> NDArray[np.bool_]:
        """Return whether the hardest query at each level would be answered within the tolerance."""
        concentration = self.concentration(nats)
        room = self.mechanism.tolerance - self.mechanism.rounding - concentration - self.allowed(concentration)
        return np.asarray(room >= -1e-12)  # the tuned tolerance leaves exactly no room at the end of the plan


class ReleasedIntervals:
    """Intervals that answers tell, at levels ``exp(-nats)``, in units of a mean over [0, 1].

    Args:
        mechanism: The mechanism that answers.
    """

    def __init__(self, mechanism: PublicLevels) -> None:
        self.mechanism = mechanism

    def of_cell(self, procedure: OfMeans, total: int, nats: float) -> tuple[float, float]:
        """Return the interval to answer for a surprise, given the cell that contains the sealed sum."""
        low, high = procedure.span(*self.mechanism.cells.released(total), nats)
        return float(low) - self.mechanism.rounding, float(high) + self.mechanism.rounding

    def value_in_cell(
        self, procedure: OfMeans, cell: tuple[float, float], told: tuple[float, float], *, guess: float | None,
        nats: float,
    ) -> float:  # fmt: skip
        """Return the value to answer for a sealed mean in a cell, near enough to both ends of its interval."""
        reach = float(self.mechanism.margin.concentration(nats)) + self.mechanism.rounding + self.half_cell
        middle = sum(cell) / 2.0
        value = likeliest_in(*cell, guess=guess, error=procedure.standard_error(middle))
        return min(max(value, min(told[1] - reach, middle)), max(told[0] + reach, middle))

    @property
    def half_cell(self) -> float:
        """Half of the width of the widest cell, as a mean."""
        return 0.25 * math.pi / self.mechanism.grid

    def of_guess(self, procedure: Procedure, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval to answer if the guess is confirmed. It depends on public facts alone."""
        if isinstance(procedure, OfMeans):
            low, high = self.of_guesses(procedure, np.array([guess]), np.array([nats]))
            return float(low[0]), float(high[0])
        mechanism = self.mechanism
        error = procedure.standard_error(guess)
        least, most = procedure.expected(guess, nats)
        if not isinstance(procedure, BoundedDifferences):  # without a spread it rests on about nats / half rows
            half, trained = (most - least) / 2.0, mechanism.training_rows or mechanism.rows
            error = max(error, half * math.sqrt((1.0 + mechanism.rows / trained) / 2.0 * half / nats))
        reach = mechanism.allowance * error
        if mechanism.slack and isinstance(procedure, BoundedDifferences):
            # whatever near guesses leave possible, as of means
            spared = mechanism.slack * (mechanism.tolerance - mechanism.rounding)
            reach = max(reach, spared + procedure.reach(nats))
        least, most = least - reach, most + reach
        if procedure.of_all_rows:
            ends = self._rounded(np.array([guess]), np.array([least]), np.array([most]), np.array([nats]))
            return float(ends[0][0]), float(ends[1][0])
        return float(max(least - mechanism.rounding, 0.0)), float(min(most + mechanism.rounding, 1.0))

    def of_guesses(self, procedure: OfMeans, guesses: NDArray[np.float64], nats: NDArray[np.float64]) -> Ends:
        """Return the interval of a confirmed guess for queries about means, shape (queries,) each.

        It is the interval for a sealed mean equal to the guess, extended on either side by the error of honest guesses.
        With a slack it also contains the intervals of all means within the slack (S8, no needless surprises).
        """
        low, high = procedure.span(guesses, guesses, nats)
        least, most = procedure.honest(guesses, self.mechanism.allowance)
        low, high = low - (guesses - least), high + (most - guesses)
        if self.mechanism.slack:
            room = self.mechanism.margin
            spared = room.allowed(concentration := room.concentration(nats)) + concentration
            low, high = np.minimum(low, guesses - spared), np.maximum(high, guesses + spared)
        return self._rounded(guesses, low, high, nats)

    def _rounded(
        self, guesses: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64],
        nats: NDArray[np.float64],
    ) -> Ends:  # fmt: skip
        """Return both ends moved outwards by the grid's rounding, but within the tolerance during the plan."""
        rounding = self.mechanism.rounding
        reach = np.where(self.mechanism.margin.within_plan(nats), self.mechanism.tolerance, 1.0)
        told = np.maximum(low - rounding, np.maximum(guesses - reach, 0.0))
        return told, np.minimum(np.minimum(high + rounding, guesses + reach), 1.0)


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected intervals of the next answer to a query, in units of a mean over [0, 1].

    Attributes:
        confirmed: Interval if the guess is confirmed. It is exact.
        released: Interval for a surprise, if the sealed mean is only just far enough from the guess for one.
        unsealed: Expected interval at the unsealing.
    """

    confirmed: tuple[float, float]
    released: tuple[float, float]
    unsealed: tuple[float, float]


def _half(interval: tuple[float, float]) -> float:
    """Return half the length of the part of an interval inside [0, 1]."""
    return (min(interval[1], 1.0) - max(interval[0], 0.0)) / 2.0


def bets_on_groups(mechanism: Mechanism, at: float, alike: float | None, *, training_rows: int) -> GroupBetting | None:
    """Return the bets on groups that a yes-or-no query is planned with, or None if no groups are known.

    Args:
        mechanism: The mechanism that is planned.
        at: The population's value, in [0, 1].
        alike: Correlation of two rows of one sealed group, in [0, 1]. None if groups are not known.
        training_rows: Number of training rows.
    """
    dependence = mechanism.dependence
    counts = dependence.unit_counts
    if alike is None or not counts:
        return None
    times = mechanism.rows / sum(size * number for size, number in counts)  # 1 where the rows are known
    sizes = tuple((size, number * times) for size, number in counts)
    return betting_on(in_order=dependence.assumes_no_law).planned(
        sizes, at=at, alike=alike, training_rows=training_rows
    )


def _bets_on_means(procedure: Procedure) -> bool:
    """Return whether a procedure is about a mean over all rows, and its width depends on the sealed spread."""
    return procedure.of_all_rows and not procedure.width_is_known
