"""Guess and check: confirms or corrects a guess without noise, and charges a surprise for a correction (S8)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.arguments import below_one
from everhold.guarantees.intervals.means import OfMeans
from everhold.mechanisms.accounting import Accounting
from everhold.mechanisms.base import (
    ChecksGuesses,
    Promise,
    Replies,
    Source,
    State,
    Traits,
    alike,
    planned_surprises,
    with_best_grid,
)
from everhold.mechanisms.labels import CHEAPEST, DEAREST, Offsets, failing_rows_cost, in_millionths, likeliest_sealed
from everhold.mechanisms.public_levels import MOST_AT_ONCE, PublicLevels
from everhold.mechanisms.records import MOST_TEXT_BITS, Evaluations, Presentation, all_narrower

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.randomness import Noise

DESCRIPTION_LENGTH = (
    "Without noise, and with coarse answers, only so many courses of queries and answers are possible. All "
    "queries that can ever come up form a tree that is fixed before the sealed rows are looked at. Each of them "
    "is given its share of the probability of failure, beta, and an interval procedure that misses the population's "
    "value of one fixed query with at most that probability. So with probability at least 1 - beta no query "
    "that could have been asked has an interval that misses, and none that was asked does."
)
"""Explanation of S8 in a certificate."""

_TRIED = 65  # numbers of surprises


class GuessAccounting(Accounting[PublicLevels]):
    """Rules for counts if every answer may be a surprise, and each surprise has a label with a cost."""

    def reachable(self, state: State) -> bool:
        """Return whether the last step still had room for its last answer, for some order of surprises.

        The labels of the last step need not have fitted. Several numbers of surprises in the last step are tried:
        evenly spread numbers, one surprise, and those with which most labels belong to earlier steps.
        """
        if not 0 <= state.charged <= state.asked:
            return False
        if not state.asked:
            return True
        least, most = max(state.charged - MOST_AT_ONCE, 0), min(state.charged, state.asked - 1)
        without_labels = state.charged - state.labels // self.dearest_label
        spread = np.linspace(least, most, _TRIED).astype(np.int64)
        before = np.clip(np.concatenate([spread, [state.charged - 1, without_labels - 1, without_labels]]), least, most)
        last = (state.charged - before) * self.dearest_label  # the labels of the last step at their dearest
        labels = np.maximum(state.labels - last, 0) / 1e6
        return bool(np.any(self.mechanism.margin.answers(self.mechanism.nats(state.asked, before, labels))))

    def leaves_capacity(
        self, state: State, silent: int, procedures: Sequence[Procedure] | None, *, failing: bool = False
    ) -> bool:
        """Return whether ``silent`` queries fit after the next one, whether it is a surprise or not.

        `failing` is true if the next query may also be a surprise about its share of failing rows (S16).
        """
        label = 0  # of a challenge, as a promotion tells no interval
        if procedures is not None:
            in_force = [self.mechanism.in_force(each) for each in procedures]
            of_means = bool(in_force) and all(isinstance(each, OfMeans) for each in in_force)
            label = self.mechanism.cells.cost if of_means else self._dearest_of_one
            label += self.dearest_label - self._dearest_of_one if failing else 0
        surprises, labels = np.array([0, 1]), np.array([0, label])
        nats = self.mechanism.nats(state.asked + 1 + silent, state.charged + surprises, (state.labels + labels) / 1e6)
        return bool(np.all(self.mechanism.margin.answers(nats)))

    def labels_of(self, surprises: int, *, forced: int = 0, failing: bool = True) -> tuple[int, float]:
        """Return the least and the most that labels of surprises can cost, in millionths of a nat.

        `failing` is true if surprises may include labels of shares of failing rows (S16).
        """
        dearest = self.dearest_label if failing else self._dearest_of_one
        most = math.inf if forced else surprises * dearest
        return surprises * min(self.mechanism.cells.cost, in_millionths(CHEAPEST)), most

    def lost_labels_of(self, surprises: int) -> int:
        """Return the cost of the labels of lost surprises, each counted as the most expensive label."""
        return surprises * self.dearest_label

    def losable(self, *, queries: int, charges: int) -> bool:
        """Return whether ``queries`` answers can include ``charges`` surprises."""
        return charges <= queries

    def after_loss(self, state: State, *, asked: int | None, charged: int | None, noise: Noise) -> State:
        """Return the state with lost answers added. Each lost label counts as the most expensive one (S8)."""
        if asked is None or charged is None:
            raise ValueError(
                "The state of the mechanism lacks the number of answers, on which the next interval depends."
            )
        return state.after(asked=asked, charged=charged, labels=self.lost_labels_of(charged))

    @property
    def dearest_label(self) -> int:
        """Largest cost of the labels of one surprise, including that of failing rows (S16), in millionths of a nat."""
        if self.mechanism.failing_rows_procedure is None:
            return self._dearest_of_one
        return 2 * self._dearest_of_one + failing_rows_cost(told=True)

    @property
    def _dearest_of_one(self) -> int:
        return in_millionths(max(math.log(self.mechanism.grid), DEAREST))


@dataclass(frozen=True, kw_only=True)
class GuessAndCheck(PublicLevels):
    """Mechanism that answers by the guess if the sealed rows confirm it, and else tells their value coarsely.

    Each query comes with a guess of its value, such as the training estimate. Each also has a level (a probability of
    failure of its own, ``beta w_j`` for query j after f surprises) and a procedure that makes intervals. The interval
    that is told with a guess is public: it is the interval of sealed rows that agree with the guess, made wider on both
    sides by the error that is expected of honest guesses. The guess is confirmed if the interval of the sealed rows
    lies inside. Otherwise it is a surprise: the position of the sealed interval on a coarse grid (its label) is
    released, and later queries get wider intervals to pay for that (Statement S8 of docs/theory).

    Queries that are asked together are one step: all have the level of its start, and only later queries pay for
    surprises in it (Statement S9).

    The numbers of queries and surprises are a plan. When they are used up, an endless holdout (one without a slack)
    still answers, with wider intervals, and refuses only queries whose interval would be useless. A holdout that is not
    endless refuses all queries once an answer to the hardest one, a yes-or-no query with a guess of 1/2, could exceed
    the tolerance.

    Examples:
        >>> mechanism = GuessAndCheck.tuned(rows=20_000, queries=1_000, surprises=10)
        >>> round(mechanism.promise().radius, 3), mechanism.grid
        (0.073, 94)
    """

    name: ClassVar[str] = "guess_and_check"
    statement: ClassVar[str] = "S8"
    presentation: ClassVar[Presentation] = Presentation(
        page="intervals",
        colour="#009e73",
        explanation=(
            "Each query comes with a guess: the estimate from the training rows, or the analyst's own. If the "
            "guess is as close to the sealed rows as honest guesses are, it is confirmed and is the answer. "
            "Otherwise the answer is near what the sealed rows say, which is told as a place on a coarse grid, and "
            "one surprise is charged. No noise is added."
        ),
        ends=(
            "Queries are refused as soon as the answer to the hardest yes-or-no "
            "query could no longer be kept within the half-width."
        ),
        endless=(
            "Queries that are asked together share one step: all of them are answered with the levels of its start, "
            "and surprises among them are paid for by later queries. When the budget is used up, queries are still "
            "answered, with wider intervals. They are refused only where an interval would say nothing."
        ),
        theorem=DESCRIPTION_LENGTH,
        sentence=(
            "Until {budget} {are} used up, every confirmed guess of a mean over all rows is {reach} and every "
            "other answer within the interval that was told with it, all of them at once, {holds}."
        ),
        no_privacy="no noise is added to the answers",
        left=(
            "Queries and surprises left are what is left of the plan: every new answer takes one query, and every "
            "charge one surprise. As long as the half-width has room, queries are answered beyond the plan. Without "
            "room no query is left. That can come before the plan is used up where values are no yes or no, because "
            "what such a surprise tells may count for more."
        ),
        left_endless=(
            "Queries and surprises left are what is left of the plan: every new answer takes one query, and "
            "every charge one surprise. When it is used up, queries are still answered, with wider intervals."
        ),
    )
    traits: ClassVar[Traits] = replace(
        ChecksGuesses.traits,
        adds_noise=False,
        unsealable=True,
        beyond_the_plan=True,
        batch_is_one_step=True,
        public_levels=True,
    )
    accounting: ClassVar[type[Accounting[Any]]] = GuessAccounting
    largest: ClassVar[Mapping[str, int]] = {
        **ChecksGuesses.largest,
        "grid": 10**5,
        "training_rows": 10**12,
        "text_bits": MOST_TEXT_BITS,
    }

    @classmethod
    def tuned(
        cls,
        *,
        rows: int,
        queries: int,
        surprises: int | None = None,
        confidence: float = 0.95,
        slack: float = 0.0,
        **shared: Any,
    ) -> Self:
        """Return the mechanism with the smallest tolerance (guaranteed half-width) for a request.

        Args:
            rows: Number of sealed rows.
            queries: Planned number of queries.
            surprises: Number of surprises (guesses that are not confirmed) after which answers still are within the
                tolerance. The default is 10, or one for each query if there are fewer.
            confidence: Probability with which all intervals hold together.
            slack: No surprise is charged for a guess closer to the population's value than this part of the tolerance.
                Without a slack the mechanism is endless: it answers beyond its plan.
            **shared: Other attributes of the mechanism, as for `Mechanism.tuned`.
        """
        below_one(slack, "slack")
        draft = cls(
            rows=rows, queries=queries, surprises=planned_surprises(surprises, queries), confidence=confidence,
            slack=slack, tolerance=1.0, **{"endless": not slack, **shared},
        )  # fmt: skip
        if slack and "grid" not in shared:
            return with_best_grid(lambda grid: replace(draft, grid=grid)._tuned(), lambda made: made.tolerance)
        return draft._tuned()

    @classmethod
    def for_request(cls, *, surprises: int, slack: float, training_rows: int = 0, **request: Any) -> Self:
        """Return what `tuned` returns for a request that names surprises, slack and training rows."""
        return cls.tuned(surprises=surprises, slack=slack, training_rows=training_rows, **request)

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Return the state after a batch of queries, and their replies.

        Queries that are asked together are a step, and all have the level (probability of failure) of its start
        (Statement S9 of docs/theory).

        Args:
            state: State before the batch: what was asked and charged so far.
            evaluations: Values of the queries on the sealed rows, with their guesses.
            noise: Not used, because this mechanism adds no noise.
        """
        every = len(evaluations)
        replies, done = Replies.refused(every), 0
        while done < every:
            nats, count = self._next(state, min(every - done, MOST_AT_ONCE))
            if not count:
                break
            some = evaluations if count == every else evaluations.some([*range(done, done + count)])
            step = BatchStep.of(self, some, nats[:count])
            state, done = step.answer(replies, done, state), done + count
        return state, replies

    def promise(self) -> Promise:
        """Return what is guaranteed: every answer is within the tolerance until the planned surprises are used up."""
        last = self.margin.last_concentration
        quiet = float(self.margin.concentration(self.nats(self.queries, 0, 0.0)))
        details = {
            "concentration": last, "concentration_without_surprise": quiet, "reach": float(self.margin.allowed(last))
        }  # fmt: skip
        beyond = self.slack * (self.tolerance - self.rounding) - self.rounding if self.slack else None
        return self._promised(self.tolerance, details, spends_only_beyond=beyond)

    def remaining(self, state: State) -> dict[str, int]:
        """Return how many planned queries and surprises (guesses that are not confirmed) are left, by name.

        The number of queries is 0 if the next answer could exceed the tolerance, the guaranteed half-width.
        """
        return {
            "queries": max(self.queries - state.asked, 0) if self.surely_answers(state, 1) else 0,
            "surprises": max(self.surprises - state.charged, 0),
        }


# One step: queries that are answered together, at levels fixed before (S9).
#
# A query about models has a second event at its place: the share of rows on which they fail (S16). It is a surprise if
# either number is, and its label tells both.


@dataclass(frozen=True, slots=True)
class BatchStep:
    """The evaluated queries of one step, asked together at levels fixed beforehand. Secret until they are answered.

    Attributes:
        mechanism: The mechanism that answers.
        queries: The evaluated queries.
        procedures: Interval procedure of each query.
        nats: ln(1 / level) of each query, shape (queries,).
        totals: Exact sums over all sealed rows, shape (queries,).
        sealed: Sealed mean and both ends of its interval, shape (queries, 3).
        released: Both ends of the interval that is told unless the query is a surprise, shape (queries, 2).
        surprise: Whether each query is a surprise, shape (queries,).
        failing: The step of the shares of failing rows, with levels of its own; None if no query has such a share.
        with_failing: Indices of the queries that have a share of failing rows, in order.
    """

    mechanism: PublicLevels
    queries: Evaluations
    procedures: Sequence[Procedure]
    nats: NDArray[np.float64]
    totals: NDArray[np.int64] = field(repr=False)
    sealed: NDArray[np.float64] = field(repr=False)
    released: NDArray[np.float64]
    surprise: NDArray[np.bool_] = field(repr=False)
    failing: BatchStep | None = field(default=None, repr=False)
    with_failing: Sequence[int] = ()

    @classmethod
    def of(cls, mechanism: PublicLevels, queries: Evaluations, nats: NDArray[np.float64]) -> BatchStep:
        """Evaluate all queries of one step at the given levels, and find out which are surprises."""
        levels = nats
        count = len(nats)
        procedures = list(queries.procedures or [mechanism.procedure] * count)
        if queries.margins is None:  # those of challenges are as they are
            guesses = queries.guesses / mechanism.steps
            at = zip(procedures, guesses.tolist(), nats.tolist(), strict=False)
            procedures = [each[0] if isinstance(each[0], OfMeans) else mechanism.procedure_at(*each) for each in at]
        if queries.described is not None:
            procedures, nats = all_narrower(procedures, nats, queries.described)
        run = cls(
            mechanism, queries, procedures, nats, queries.totals.sum(axis=1), np.empty((count, 3)),
            np.zeros((count, 2)), np.zeros(count, dtype=bool),
        )  # fmt: skip
        run.sealed[:, 0] = run.totals / mechanism.steps
        told, rounding = not queries.silent, mechanism.rounding
        if queries.margins is not None:  # a challenger wins if the lower limit of its gain reaches the margin
            for place, margin in enumerate(queries.margins.tolist()):
                least, _ = procedures[place].interval(run._summary(place), float(nats[place]) - math.log(2.0))
                run.sealed[place, 1:] = least - rounding, 1.0
                run.surprise[place] = told and bool(run.sealed[place, 1] >= margin)
            return run
        for procedure, places in alike(procedures):
            if isinstance(procedure, OfMeans):
                levels_here, means = run.nats[places], run.sealed[places, 0]
                low, high = procedure.span(means, means, levels_here)
                run.sealed[places, 1], run.sealed[places, 2] = low - rounding, high + rounding
                if told:
                    guesses = queries.guesses[places] / mechanism.steps
                    run.released[places] = np.transpose(mechanism.intervals.of_guesses(procedure, guesses, levels_here))
                continue
            for place in places.tolist():  # those that need more than the mean
                least, most = procedure.interval(run._summary(place), float(run.nats[place]))
                run.sealed[place, 1:] = least - rounding, most + rounding
                if told:
                    run.released[place] = mechanism.intervals.of_guess(
                        procedure, run._guess(place), float(run.nats[place])
                    )
        if told:  # a surprise is a sealed interval that is not inside the interval of a confirmed guess
            inside = np.clip(run.sealed[:, 1:], 0.0, 1.0)
            run.surprise[:] = (inside[:, 0] < run.released[:, 0]) | (inside[:, 1] > run.released[:, 1])
        if queries.silent or not (failing := [each for each in queries.failing or () if each is not None]):
            return run
        having = [place for place, each in enumerate(queries.failing or ()) if each is not None]
        shares = cls.of(
            mechanism.of_failing_rows, type(queries).together(failing), mechanism.failing_rows_nats(levels[having])
        )
        run.surprise[having] |= shares.surprise
        return replace(run, failing=shares, with_failing=having)

    def _guess(self, place: int) -> float:
        return float(self.queries.guesses[place]) / self.mechanism.steps

    def _guess_or_none(self, place: int) -> float | None:
        return None if self.queries.guesses[place] < 0 else self._guess(place)

    def _summary(self, place: int) -> Any:
        return self.queries.summary(place, self.procedures[place], float(self.sealed[place, 0]))

    def answer(self, replies: Replies, start: int, state: State) -> State:
        """Fill in the replies, beginning at position ``start``, and return the state after the step."""
        count, where = len(self.nats), slice(start, start + len(self.nats))
        replies.sealed[where], replies.nats[where] = np.clip(self.sealed, 0.0, 1.0), self.nats
        replies.procedures[where] = self.procedures
        if self.queries.silent:
            replies.sources[where] = Source.SILENT
            return state.after(asked=count, charged=0)
        if self.queries.margins is not None:  # nothing is told of a challenger that is kept out
            replies.sources[where] = Source.KEPT
        else:
            guesses = self.queries.guesses / self.mechanism.steps
            replies.put(where, guesses, (self.released[:, 0], self.released[:, 1]), Source.GUESS)
        surprises = np.flatnonzero(self.surprise).tolist()
        labels = 0
        if self.failing is not None:  # shares of rows on which models fail, whose labels cost, too
            shares = Replies.refused(len(self.with_failing))
            labels = self.failing.answer(shares, 0, State()).labels
            for index, place in enumerate(self.with_failing):
                ends = float(shares.lows[index]), float(shares.highs[index])
                replies.failing[start + place] = float(shares.values[index]), *ends
                if self.surprise[place]:
                    labels += failing_rows_cost(told=bool(self.failing.surprise[index]))
        told = self._released_cells(surprises) if surprises and self.queries.margins is None else {}
        labels += sum(self._answer_surprise(replies, start + place, place, told.get(place)) for place in surprises)
        return state.after(asked=count, charged=len(surprises), labels=labels)

    def _released_cells(self, surprises: Sequence[int]) -> dict[int, tuple[float, float, float]]:
        """Return the answers (value, low, high) to surprises that tell a cell of the mean, by index of the query."""
        told: dict[int, tuple[float, float, float]] = {}
        cells, rounding = self.mechanism.cells, self.mechanism.rounding
        of_means = [place for place in surprises if isinstance(self.procedures[place], OfMeans)]
        for procedure, where in alike([self.procedures[place] for place in of_means]):
            assert isinstance(procedure, OfMeans)
            places = [of_means[index] for index in where.tolist()]
            ends = np.array([cells.released(int(self.totals[place])) for place in places])
            low, high = procedure.span(ends[:, 0], ends[:, 1], self.nats[places])
            ends_told = np.transpose([low - rounding, high + rounding]).tolist()
            for place, cell, ends_of_it in zip(places, ends.tolist(), ends_told, strict=True):
                value = self.mechanism.intervals.value_in_cell(
                    procedure, cell, ends_of_it, guess=self._guess_or_none(place), nats=float(self.nats[place])
                )
                told[place] = value, *ends_of_it
        return told

    def _answer_surprise(
        self, replies: Replies, position: int, place: int, of_cell: tuple[float, float, float] | None
    ) -> int:
        """Fill in the reply to a surprise, and return the cost of its label in millionths of a nat."""
        where, mechanism, nats = slice(position, position + 1), self.mechanism, float(self.nats[place])
        procedure = self.procedures[place]
        source, cost = Source.HOLDOUT, 0
        if self.queries.margins is not None:
            value, source = float(self.queries.margins[place]), Source.PROMOTED
            low, high = value, 1.0
        elif of_cell is not None:
            cost, (value, low, high) = mechanism.cells.cost, of_cell
        else:
            offsets = Offsets.of(procedure, self._guess(place), nats)
            at, (low, high), cost = offsets.released(*self.sealed[place, 1:].tolist())
            value = likeliest_sealed(
                procedure, at, (low, high), guess=self._guess_or_none(place), nats=nats, rounding=mechanism.rounding
            )
        replies.put(where, np.array([value]), (np.array([low]), np.array([high])), source)
        replies.charged[position] = 1
        return cost
