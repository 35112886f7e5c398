"""One step of guess and check: queries that are answered together, at levels fixed before (S9).

A query about models has a second event at its place: the share of rows on which they fail (S16). It is a surprise if
either number is, and its label tells both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.guarantees.intervals.means import OfMeans
from everhold.mechanisms.base import Replies, Source, State, alike
from everhold.mechanisms.described import all_narrower
from everhold.mechanisms.labels import Offsets, failing_rows_cost, likeliest_sealed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.evaluations import Evaluations
    from everhold.mechanisms.public_levels import PublicLevels


@dataclass(frozen=True, slots=True)
class BatchStep:
    """Evaluated queries of one step, whose levels are fixed before. Secret until it is told.

    Attributes:
        mechanism: The mechanism.
        queries: The queries.
        procedures: How their intervals are made.
        nats: ln(1 / level) of each, shape (queries,).
        totals: Exact sums over all sealed rows, shape (queries,).
        sealed: Sealed mean and both ends of what it leaves possible, shape (queries, 3).
        released: Both ends of what is told if it is no surprise, shape (queries, 2).
        surprise: Whether each is a surprise, shape (queries,).
        failing: Shares of failing rows, as a step of their own levels; None without.
        with_failing: Places of the queries that have one, in order.
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
        """Evaluate all queries of a step at these levels."""
        levels = nats
        count = len(nats)
        procedures = list(queries.procedures or [mechanism.procedure] * count)
        if queries.margins is None:  # those of challenges are as they are
            guesses = queries.guesses / mechanism.steps
            at = zip(procedures, guesses.tolist(), nats.tolist(), strict=False)
            procedures = [mechanism.procedure_at(*each) for each in at]
        if queries.described is not None:
            procedures, nats = all_narrower(procedures, nats, queries.described)
        run = cls(
            mechanism, queries, procedures, nats, queries.totals.sum(axis=1), np.empty((count, 3)),
            np.empty((count, 2)), np.zeros(count, dtype=bool),
        )  # fmt: skip
        run.sealed[:, 0] = run.totals / mechanism.steps
        for procedure, places in alike(procedures):
            if isinstance(procedure, OfMeans):
                run._evaluate_means(procedure, places)
            else:
                for place in places.tolist():
                    run._evaluate(procedure, place)
        if queries.margins is not None:
            run._evaluate_challenges(queries.margins)
        if queries.silent or not (failing := [each for each in queries.failing or () if each is not None]):
            return run
        having = [place for place, each in enumerate(queries.failing or ()) if each is not None]
        shares = cls.of(
            mechanism.of_failing_rows, type(queries).together(failing), mechanism.failing_rows_nats(levels[having])
        )
        run.surprise[having] |= shares.surprise
        return replace(run, failing=shares, with_failing=having)

    def _evaluate_means(self, procedure: OfMeans, places: NDArray[np.intp]) -> None:
        """Evaluate queries whose intervals are functions of the sealed mean."""
        mechanism, nats, means = self.mechanism, self.nats[places], self.sealed[places, 0]
        low, high = procedure.span(means, means, nats)
        self.sealed[places, 1], self.sealed[places, 2] = low - mechanism.rounding, high + mechanism.rounding
        if not self.queries.silent:
            told = mechanism.intervals.of_guesses(procedure, self.queries.guesses[places] / mechanism.steps, nats)
            self.released[places] = np.transpose(told)
            self.surprise[places] = self._sticks_out(places)

    def _sticks_out(self, places: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return where the sealed interval is not inside the interval that an honest guess would be told."""
        sealed, told = np.clip(self.sealed[places, 1:], 0.0, 1.0), self.released[places]
        return np.asarray((sealed[:, 0] < told[:, 0]) | (sealed[:, 1] > told[:, 1]))

    def _evaluate(self, procedure: Procedure, place: int) -> None:
        """Evaluate a query whose interval depends on more than the mean.

        A surprise if it is not inside the told one.
        """
        mechanism, nats = self.mechanism, float(self.nats[place])
        low, high = procedure.interval(self._summary(place), nats)
        self.sealed[place, 1:] = low - mechanism.rounding, high + mechanism.rounding
        if not (self.queries.silent or self._is_challenge(place)):
            self.released[place] = mechanism.intervals.of_guess(procedure, self._guess(place), nats)
            self.surprise[place] = self._sticks_out(np.array([place]))[0]

    def _evaluate_challenges(self, margins: NDArray[np.float64]) -> None:
        """Evaluate challenges: a challenger wins if its one-sided lower limit reaches the margin."""
        for place in np.flatnonzero(~np.isnan(margins)).tolist():
            low, _ = self.procedures[place].interval(self._summary(place), float(self.nats[place]) - math.log(2.0))
            self.sealed[place, 1:] = low - self.mechanism.rounding, 1.0
            better = bool(self.sealed[place, 1] >= margins[place])
            self.surprise[place] = better and not self.queries.silent

    def _is_challenge(self, place: int) -> bool:
        return self.queries.margins is not None and not math.isnan(self.queries.margins[place])

    def _guess(self, place: int) -> float:
        return float(self.queries.guesses[place]) / self.mechanism.steps

    def _guess_or_none(self, place: int) -> float | None:
        return None if self.queries.guesses[place] < 0 else self._guess(place)

    def _summary(self, place: int) -> Any:
        return self.queries.summary(place, self.procedures[place], float(self.sealed[place, 0]))

    def answer(self, replies: Replies, start: int, state: State) -> State:
        """Fill in the replies from this position on, and return the state after them."""
        count, where = len(self.nats), slice(start, start + len(self.nats))
        replies.sealed[where], replies.nats[where] = np.clip(self.sealed, 0.0, 1.0), self.nats
        replies.procedures[where] = self.procedures
        if self.queries.silent:
            replies.sources[where] = Source.SILENT
            return state.after(asked=count, charged=0)
        guesses = self.queries.guesses / self.mechanism.steps
        replies.put(where, guesses, (self.released[:, 0], self.released[:, 1]), Source.GUESS)
        for place in range(count if self.queries.margins is not None else 0):
            if self._is_challenge(place):
                replies.release_nothing(start + place, Source.KEPT)
        surprises = np.flatnonzero(self.surprise).tolist()
        labels = 0 if self.failing is None else self._answer_failing(self.failing, replies, start)
        told = self._released_cells(surprises) if surprises else {}
        labels += sum(self._answer_surprise(replies, start + place, place, told.get(place)) for place in surprises)
        return state.after(asked=count, charged=len(surprises), labels=labels)

    def _answer_failing(self, failing: BatchStep, replies: Replies, start: int) -> int:
        """Fill in the shares of failing rows. Returns what their labels cost, in millionths of a nat."""
        shares = Replies.refused(len(self.with_failing))
        labels = failing.answer(shares, 0, State()).labels
        for index, place in enumerate(self.with_failing):
            told = float(shares.values[index]), float(shares.lows[index]), float(shares.highs[index])
            replies.failing[start + place] = told
            if self.surprise[place]:
                labels += failing_rows_cost(told=bool(failing.surprise[index]))
        return labels

    def _released_cells(self, surprises: Sequence[int]) -> dict[int, tuple[float, float, float]]:
        """Return the told value, low and high of surprises whose intervals follow from the mean, by index."""
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
        """Fill in the reply to a surprise. Returns what its label costs, in millionths of a nat."""
        where, mechanism, nats = slice(position, position + 1), self.mechanism, float(self.nats[place])
        procedure = self.procedures[place]
        source, cost = Source.HOLDOUT, 0
        if self._is_challenge(place) and self.queries.margins is not None:
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
