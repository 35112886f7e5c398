"""S8 against the best of all analysts, who knows P, mixes all kinds of queries and is unsealed at the end.

A tiny world has a few independent rows that are 0 or 1, each with a chance of its own, and queries that may depend on
the row's position. An interval misses for some of the data sets; as all of them are unsealed at the end, a study has
failed once one of its sealed intervals misses. The best analyst is found by dynamic programming over the data sets that
what was told leaves possible. Beside the promise stand planted errors, which the same search has to find.
"""

import itertools
import math
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np
import pytest

from everhold.guarantees.description_length import QueryTree
from everhold.guarantees.intervals.base import Procedure
from everhold.guarantees.intervals.means import Chernoff, ClopperPearson
from everhold.mechanisms import GuessAndCheck, Source, State
from everhold.mechanisms.records import Evaluations

UNIT = 2**20
ALOUD, SILENT, CHALLENGE = "aloud", "silent", "challenge"


@dataclass(frozen=True)
class Bet(Procedure):
    """A bet with a fixed stake on every row's value: an interval that is no function of the mean."""

    rows: int
    stake: float = 0.9

    name: ClassVar[str] = "bet"
    title: ClassVar[str] = "a bet"
    needs: ClassVar[str] = "pairs"
    why: ClassVar[str] = "its gains are fair at the truth"

    def interval(self, seen, nats):
        """Ends by a fine scan, rounded outwards."""
        least = math.log(2.0) + nats
        return 1.0 - self._upper(1.0 - np.array(seen), least), self._upper(np.array(seen), least)

    def _upper(self, values, least):
        thetas = np.linspace(0.0, 1.0, 257)
        capital = np.log1p(self.stake * (thetas[:, None] - values)).sum(axis=1)
        return float(thetas[np.argmax(capital >= least)]) if capital[-1] >= least else 1.0

    def expected(self, guess, nats):
        """As if every row had the guess."""
        return self.interval((guess,) * self.rows, nats)

    def standard_error(self, guess):
        """That of yes-or-no values."""
        return math.sqrt(guess * (1.0 - guess) * 2.0 / self.rows)

    @property
    def worth(self):
        """All rows."""
        return float(self.rows)


@dataclass(frozen=True)
class Ask:
    """Something that can be asked.

    Attributes:
        values: For each row its value if the row is 0, and if it is 1.
        kind: Aloud, silent or a challenge.
        public: The guess, or the margin of a challenge.
        procedure: Of its interval.
    """

    values: tuple[tuple[float, float], ...]
    kind: str
    public: float
    procedure: Procedure


def patterns(rows):
    """How many rows are as a pattern of zeros and ones says, for every pattern."""
    return [tuple((0.0, 1.0) if bit else (1.0, 0.0) for bit in bits) for bits in itertools.product((0, 1), repeat=rows)]


def names_all_rows(rows):
    """A mean that is another one for every data set."""
    return tuple((0.0, 2.0 ** -(place + 1)) for place in range(rows))


class TinyWorld:
    """All data sets of a few rows, and what a mechanism tells of them."""

    def __init__(self, mechanism, chances, asks, *, unsealed_early=False):
        self.mechanism, self.asks, self.unsealed_early = mechanism, asks, unsealed_early
        self.chances = np.array(chances)
        self.sets = np.array(list(itertools.product((0, 1), repeat=len(chances))))
        self.mass = np.prod(np.where(self.sets == 1, self.chances, 1.0 - self.chances), axis=1)
        self.reply, self.replies = cache(self._reply), cache(self._replies)
        self.worst = cache(self._worst)

    def truth(self, ask):
        """The population's value."""
        zero, one = np.array(ask.values).T
        return float(np.mean(zero + (one - zero) * self.chances))

    def _reply(self, state, ask, total, values):
        mechanism = self.mechanism
        aloud = ask.kind == ALOUD
        evaluation = Evaluations(
            totals=np.array([[total]]),
            guesses=np.array([round(ask.public * mechanism.steps) if aloud else -1]),
            rows=mechanism.rows,
            unit=UNIT,
            procedures=[ask.procedure],
            seen=[values or None],
            margins=np.array([ask.public]) if ask.kind == CHALLENGE else None,
            silent=ask.kind == SILENT,
        )
        after, replies = mechanism.answer(state, evaluation, noise=None)
        told = tuple(np.nan_to_num([replies.values[0], replies.lows[0], replies.highs[0]], nan=-1.0).tolist())
        return after, (*told, int(replies.sources[0])), tuple(replies.sealed[0].tolist())

    def _replies(self, state, ask):
        """For each thing that can be told: the state after it, where it is told, and where the interval misses."""
        truth, outcomes = self.truth(ask), {}
        rows = np.array(ask.values)[np.arange(len(self.chances)), self.sets]
        for place, values in enumerate(map(tuple, rows.tolist())):
            seen = tuple(sorted(values)) if isinstance(ask.procedure, Bet) else ()
            after, told, sealed = self.reply(state, ask, round(sum(values) * UNIT), seen)
            key = (after, told, sealed if self.unsealed_early else None)
            here, misses = outcomes.setdefault(key, (np.zeros(len(self.sets), bool), np.zeros(len(self.sets), bool)))
            numbers = told[3] not in {Source.SILENT, Source.KEPT}
            here[place] = True
            misses[place] = not sealed[1] <= truth <= sealed[2] or (numbers and not told[1] <= truth <= told[2])
        return [(after, here, misses) for (after, _, _), (here, misses) in outcomes.items()]

    def promise(self, queries):
        """The greatest probability that an interval of so many queries misses, over all analysts."""
        return self.worst(np.ones(len(self.sets), dtype=bool).tobytes(), State(), queries)

    def _worst(self, alive, state, queries):
        possible = np.frombuffer(alive, dtype=bool)
        if queries == 0 or not possible.any():
            return 0.0
        return max(self._after(possible, state, ask, queries) for ask in self.asks)

    def _after(self, possible, state, ask, queries):
        failed = 0.0
        for after, here, misses in self.replies(state, ask):
            failed += float(self.mass[possible & here & misses].sum())
            if queries > 1:
                failed += self.worst((possible & here & ~misses).tobytes(), after, queries - 1)
        return failed

    def in_silence(self):
        """The probability that an interval misses when everything is asked silently, one after the other."""
        state, failed = State(), np.zeros(len(self.sets), dtype=bool)
        for ask in self.asks:
            ((state, _, misses),) = self.replies(state, replace(ask, kind=SILENT))
            failed |= misses
        return float(self.mass[failed].sum())


def mechanism(kind=GuessAndCheck, *, rows, queries, confidence=0.1, grid=4):
    """One that never refuses, and whose guesses may be off by half a standard error."""
    return kind(
        rows=rows, queries=queries, surprises=1, confidence=confidence, tolerance=10.0,
        grid=grid, allowance=0.5, unit=UNIT,
    )  # fmt: skip


def everything(rows, values):
    """Each of these queries, asked in every way."""
    exact, crude, bet = ClopperPearson(rows, rows), Chernoff(rows, rows), Bet(rows)
    yes_no = [exact if set(itertools.chain(*value)) <= {0.0, 1.0} else crude for value in values]
    return [
        *(Ask(value, ALOUD, guess, of) for value, of in zip(values, yes_no, strict=True) for guess in (0.0, 0.5, 1.0)),
        *(Ask(value, ALOUD, 0.5, bet) for value in values),
        *(Ask(value, SILENT, 0.0, of) for value, of in zip(values, yes_no, strict=True)),
        *(Ask(value, CHALLENGE, margin, bet) for value in values for margin in (0.1, 0.5)),
        *(Ask(value, CHALLENGE, 0.3, of) for value, of in zip(values, yes_no, strict=True)),
    ]


CHANCES = [(0.5,) * 5, (0.2, 0.9, 0.5, 0.5, 0.7), (0.06, 0.94, 0.06, 0.94, 0.5)]


@pytest.mark.parametrize(("chances", "grid"), [*zip(CHANCES, (2, 94, 94), strict=True)])
def test_no_analyst_breaks_two_queries_of_any_kind(chances, grid):
    honest = mechanism(rows=5, queries=2, grid=grid)
    world = TinyWorld(honest, chances, everything(5, [names_all_rows(5), *patterns(5)[::4]]))
    assert 0.0 < world.promise(2) <= honest.beta


def test_no_analyst_breaks_three_queries_of_any_kind():
    honest = mechanism(rows=4, queries=3)
    world = TinyWorld(honest, (0.5, 0.3, 0.8, 0.5), everything(4, [names_all_rows(4), *patterns(4)[::4]]))
    assert 0.0 < world.promise(3) <= honest.beta


def test_nor_queries_beyond_the_plan():
    honest = mechanism(rows=5, queries=1)
    world = TinyWorld(honest, (0.5,) * 5, everything(5, [names_all_rows(5), *patterns(5)[::6]]))
    assert 0.0 < world.promise(3) <= honest.beta


def test_nor_everything_asked_silently_and_unsealed_together():
    honest = mechanism(rows=5, queries=2)
    world = TinyWorld(honest, (0.5,) * 5, [Ask(values, SILENT, 0.0, ClopperPearson(5, 5)) for values in patterns(5)])
    assert 0.0 < world.in_silence() <= honest.beta


@dataclass(frozen=True, slots=True)
class SumsTo:
    """All weight on the first query, whatever it is."""

    weight: float

    def log_inverse_weight(self, *, asked, surprises, labels=0.0):
        """The same everywhere; it is asked once."""
        return np.zeros(np.broadcast(asked, surprises, labels).shape) - math.log(self.weight)


class AllAtOnce(GuessAndCheck):
    """Weights that sum to 1: the sharpest honest ones for a single query."""

    tree = SumsTo(1.0)


class TooMuch(GuessAndCheck):
    """Planted: weights that sum to 1.2."""

    tree = SumsTo(1.2)


def test_weights_that_sum_to_1_hold_and_those_that_sum_to_1_2_are_found():
    yes = Ask(((0.0, 1.0),) * 8, SILENT, 0.0, ClopperPearson(8, 8))
    chances = (0.4391, 0.5609)  # both tails are nearly used up at 1.2 times the level
    worst = {
        kind: max(
            TinyWorld(mechanism(kind, rows=8, queries=1, confidence=0.6), (chance,) * 8, [yes]).promise(1)
            for chance in chances
        )
        for kind in (AllAtOnce, TooMuch)
    }
    assert worst[AllAtOnce] <= 0.4 < worst[TooMuch]


class FreeLabels(GuessAndCheck):
    """Planted: what a surprise tells is not paid for."""

    def nats(self, asked, charged, labels):
        """Without the labels."""
        return super().nats(asked, charged, np.zeros_like(labels))


class FreeSurprises(GuessAndCheck):
    """Planted: weights for queries that are fixed in advance."""

    def nats(self, asked, charged, labels):
        """Without surprises."""
        return super().nats(asked, np.zeros_like(charged), np.zeros_like(labels))


class LooksAtRows(GuessAndCheck):
    """Planted: the reach of a confirmed guess is what the rows need."""

    def answer_many(self, state, evaluations, noise):
        """Tell the sealed interval of a confirmed guess."""
        after, replies = super().answer_many(state, evaluations, noise)
        confirmed = replies.sources == Source.GUESS
        replies.lows[confirmed], replies.highs[confirmed] = replies.sealed[confirmed, 1], replies.sealed[confirmed, 2]
        return after, replies


class UncountedSilence(GuessAndCheck):
    """Planted: a silent query does not count, as nothing is told of it."""

    def answer_many(self, state, evaluations, noise):
        """Stand still."""
        after, replies = super().answer_many(state, evaluations, noise)
        return state if evaluations.silent else after, replies


def teller_and_patterns(rows, guess):
    """A query that may name all rows, and one that every pattern of rows would make miss."""
    teller = Ask(names_all_rows(rows), ALOUD, guess, Chernoff(rows, rows))
    return [teller, *(Ask(values, ALOUD, 0.5, ClopperPearson(rows, rows)) for values in patterns(rows))]


@pytest.mark.parametrize(
    ("planted", "guess", "grid"),
    [(FreeLabels, 1.0, 4096), (FreeSurprises, 1.0, 4096), (LooksAtRows, 0.1, 94)],
)
def test_telling_more_than_is_paid_for_is_found(planted, guess, grid):
    rows = 6
    asks = teller_and_patterns(rows, guess)
    worst = {
        kind: TinyWorld(mechanism(kind, rows=rows, queries=2, grid=grid), (0.5,) * rows, asks).promise(2)
        for kind in (GuessAndCheck, planted)
    }
    assert worst[GuessAndCheck] <= 0.9 < worst[planted]


def test_silent_queries_that_do_not_count_are_found():
    asks = [Ask(values, SILENT, 0.0, ClopperPearson(5, 5)) for values in patterns(5)]
    planted = mechanism(UncountedSilence, rows=5, queries=2)
    assert TinyWorld(planted, (0.5,) * 5, asks).in_silence() > planted.beta


def test_a_study_that_goes_on_after_it_was_unsealed_is_found():
    honest = mechanism(rows=6, queries=2)
    asks = [replace(ask, kind=SILENT) for ask in teller_and_patterns(6, 0.0)]
    assert TinyWorld(honest, (0.5,) * 6, asks).promise(2) <= honest.beta
    assert TinyWorld(honest, (0.5,) * 6, asks, unsealed_early=True).promise(2) > honest.beta


def test_the_library_uses_the_weights_whose_sum_was_counted():
    assert mechanism(rows=5, queries=2).tree == QueryTree(queries=2)
