"""S3 against the worst analyst: every decision tree over a few queries and guesses, on all data sets of a tiny world.

An interval is a function of the transcript, so whether it misses is known at the leaf; the best tree is found by
dynamic programming over the set of data sets that a transcript leaves possible.
"""

import itertools
import math
from functools import cache

import numpy as np
import pytest

from everhold.mechanisms import GuessAndCheck, Source, State
from everhold.mechanisms.records import Evaluations

UNIT = 2**20


class TinyWorld:
    """Independent rows of a few kinds; a query is the set of kinds on which it is 1."""

    def __init__(self, mechanism, shares, queries, guesses):
        self.mechanism = mechanism
        self.guesses = guesses
        self.shares = np.asarray(shares)
        counts = [
            c for c in itertools.product(range(mechanism.rows + 1), repeat=len(shares)) if sum(c) == mechanism.rows
        ]
        self.counts = np.array(counts)
        self.mass = np.array([self._mass(count) for count in counts])
        self.hits = [self.counts[:, list(query)].sum(axis=1) for query in queries]
        self.means = [float(self.shares[list(query)].sum()) for query in queries]
        self.reply = cache(self._reply)

    def _mass(self, count):
        ways = math.factorial(sum(count)) / math.prod(map(math.factorial, count))
        return ways * float(np.prod(self.shares ** np.array(count)))

    def _reply(self, state, hits, guess):
        mechanism = self.mechanism
        total = np.array([[hits * mechanism.unit]])
        evaluation = Evaluations(total, np.array([guess * mechanism.unit]), mechanism.rows, mechanism.unit)
        state, replies = mechanism.answer(state, evaluation, noise=None)
        return state, float(replies.values[0]), float(replies.lows[0]), float(replies.highs[0]), int(replies.sources[0])

    def worst(self, queries):
        """The greatest P[some interval misses, or budget is spent on a guess that is near] over all analysts."""
        return self._worst(np.ones(len(self.mass), dtype=bool), State(), queries)

    def _worst(self, possible, state, queries):
        if queries == 0 or not possible.any():
            return 0.0
        choices = itertools.product(range(len(self.hits)), self.guesses)
        return max(self._after(possible, state, queries, query, guess) for query, guess in choices)

    def _after(self, possible, state, queries, query, guess):
        outcomes = {}
        for hits in np.unique(self.hits[query][possible]).tolist():
            reply = self.reply(state, hits, guess)
            outcomes.setdefault(reply, []).append(hits)
        failed = 0.0
        for (after, _, low, high, source), hits in outcomes.items():
            if source == Source.REFUSED:
                continue
            left = possible & np.isin(self.hits[query], hits)
            truth = self.means[query]
            wrong = not low <= truth <= high or (source == Source.HOLDOUT and self._needless(state, truth, guess))
            failed += float(self.mass[left].sum()) if wrong else self._worst(left, after, queries - 1)
        return failed

    def _needless(self, state, truth, guess):
        """Whether a surprise contradicts ``|g - f(P)| >= c tau``."""
        beyond = self.mechanism.promise().spends_only_beyond or 0.0
        return abs(guess / self.mechanism.rows - truth) < beyond


def mechanism(kind=GuessAndCheck, *, rows, queries, confidence, slack=0.0, tolerance=1.2):
    return kind(
        rows=rows,
        queries=queries,
        surprises=1,
        confidence=confidence,
        tolerance=tolerance,
        grid=2,
        slack=slack,
        allowance=0.5,  # more would call every guess honest with so few rows
        unit=UNIT,
    )


ALL_PAIRS = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)]
SHARES = [(1 / 3, 1 / 3, 1 / 3), (0.45, 0.45, 0.1), (0.2, 0.2, 0.6)]


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize(("rows", "confidence"), [(8, 0.3), (6, 0.1), (8, 0.8)])
@pytest.mark.parametrize("slack", [0.0, 0.25])
def test_no_analyst_breaks_guess_and_check_with_two_queries(shares, rows, confidence, slack):
    honest = mechanism(rows=rows, queries=2, confidence=confidence, slack=slack)
    world = TinyWorld(honest, shares, ALL_PAIRS, guesses=range(rows + 1))
    assert world.worst(2) <= honest.beta


def test_no_analyst_breaks_guess_and_check_with_three_queries():
    honest = mechanism(rows=7, queries=3, confidence=0.2)
    world = TinyWorld(honest, (0.3, 0.3, 0.4), ALL_PAIRS[:4], guesses=(0, 3, 7))
    assert world.worst(3) <= honest.beta


class Overconfident(GuessAndCheck):
    """The planted error: no union over the tree, and Chernoff's slack of a factor of ten used up."""

    name = "overconfident"

    def nats(self, asked, charged, labels):
        return np.zeros(np.broadcast(asked, charged, labels).shape) - np.log(10 * self.beta)


def test_without_the_union_over_the_tree_an_analyst_wins():
    planted = mechanism(Overconfident, rows=8, queries=2, confidence=0.9)
    worlds = [TinyWorld(planted, shares, ALL_PAIRS, guesses=range(9)) for shares in SHARES]
    assert max(world.worst(2) for world in worlds) > planted.beta
