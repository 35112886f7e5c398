"""Lemma M and choices, exactly: all samples of small coins are enumerated; without the union over winners they fail."""

from itertools import product
from math import comb, log

import numpy as np
import pytest

from everhold.guarantees.description_length import ChoiceLevels, largest_upper
from everhold.guarantees.intervals.means import ClopperPearson

ROWS = 12
PROCEDURE = ClopperPearson(rows=ROWS, training=ROWS)


def binomial(chance):
    return np.array([comb(ROWS, count) * chance**count * (1 - chance) ** (ROWS - count) for count in range(ROWS + 1)])


def ends(nats):
    shares = np.arange(ROWS + 1) / ROWS
    return PROCEDURE.span(shares, shares, np.full(ROWS + 1, nats))


def every_sample(chances):
    laws = [binomial(chance) for chance in chances]
    for counts in product(range(ROWS + 1), repeat=len(chances)):
        yield counts, float(np.prod([law[count] for law, count in zip(laws, counts, strict=True)]))


@pytest.mark.parametrize("chances", [(0.5, 0.5, 0.5), (0.2, 0.7, 0.71), (0.05, 0.5, 0.9)])
def test_the_largest_limit_needs_one_level(chances):
    _, high = ends(log(1 / 0.2))  # each side at 0.1
    missed = [p for counts, p in every_sample(chances) if max(chances) > largest_upper([high[c] for c in counts])]
    assert sum(missed) <= 0.1


def missed_by_choice(chances, nats, levels):
    """Probability that the winner's lower limit, or the limit of all, is wrong."""
    low, high = ends(levels.lower)[0], ends(levels.upper)[1]
    total = 0.0
    for counts, p in every_sample(chances):
        winner = int(np.argmax(counts))
        total += p * (chances[winner] < low[counts[winner]] or max(chances) > max(high[c] for c in counts))
    return total


@pytest.mark.parametrize("chance", [0.3, 0.5, 0.62, 0.8])
def test_a_choice_misses_with_its_level_at_most(chance):
    nats = log(1 / 0.2)
    assert missed_by_choice((chance,) * 3, nats, ChoiceLevels.of(nats, candidates=3)) <= 0.2


def missed_among_alike(chance, candidates, nats, levels):
    """The same for many coins that are alike: the winner has the largest count, whose law is a power."""
    low, high = ends(levels.lower)[0], ends(levels.upper)[1]
    below = np.cumsum(binomial(chance)) ** candidates
    largest = np.diff(below, prepend=0.0)
    return float(np.sum(largest[(chance < low) | (chance > high)]))


@pytest.mark.parametrize("chance", [0.3, 0.5, 0.62, 0.8])
def test_levels_that_ignore_the_number_of_candidates_fail(chance):
    nats, many = log(1 / 0.2), 50
    assert missed_among_alike(chance, many, nats, ChoiceLevels.of(nats, candidates=many)) <= 0.2
    assert missed_among_alike(chance, many, nats, ChoiceLevels.of(nats, candidates=1)) > 0.2
