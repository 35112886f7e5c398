"""S14 for rows in groups: members of declared families, against every schedule that depends on what was told.

The rows of a group are all alike, which is the worst that they can be. The schedule chooses the size of each group that
arrives, in the light of all groups before.
"""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest

from everhold.guarantees.intervals.base import GroupSums
from everhold.guarantees.intervals.betting import NO_STAKE, side_of
from everhold.guarantees.intervals.in_order import CoinMixture, groups_at_all_sizes
from everhold.guarantees.intervals.joint import ratio_bets
from everhold.guarantees.intervals.means import Hoeffding

SIZES, LARGEST, MOST = (1, 2, 3), 3, 9


def seen(counts):
    """Groups by size, each of zeros or of ones alone; `counts` has a pair for each size."""
    kinds = [(size, ones * size, counts[2 * place + ones]) for place, size in enumerate(SIZES) for ones in (0, 1)]
    there = [kind for kind in kinds if kind[2]] or [(1, 0, 0)]
    return GroupSums(*(np.array(each) for each in zip(*there, strict=True)), 1)


def capital(theta, largest):
    """Logarithm of the capital against theta from one side, at some counts.

    Args:
        theta: The value of all groups; those that say more are mirrored.
        largest: Rows that no group exceeds, fixed beforehand; None for the largest group that is there.
    """

    @cache
    def of(counts, upper):
        groups = seen(counts)
        bound = largest or int(groups.sizes.max())
        made = groups_at_all_sizes(Hoeffding(rows=1, training=1), sizes=((bound, 1),), largest=bound)
        units = made._units(groups)
        side, value = (units, theta) if upper else (units.mirrored, 1.0 - theta)
        return ratio_bets(side, NO_STAKE).at(value) if any(counts) else 0.0

    return of


def bets_miss(theta, nats, largest):
    """True if bets miss at some counts."""
    of, side = capital(theta, largest), side_of(nats)
    return lambda counts: any(of(counts, upper) >= side for upper in (False, True))


def next_counts(counts, kind):
    """Counts after one more group of a size, of zeros and of ones."""
    return [
        tuple(count + (place == 2 * kind + ones) for place, count in enumerate(counts)) for ones in (0, 1)
    ]  # fmt: skip


def coins_miss(theta, nats):
    """True if the mixture for independent rows misses, which takes each row for a coin."""

    @cache
    def misses(counts):
        groups = seen(counts)
        rows, ones = int(groups.sizes @ groups.counts), int(groups.sums @ groups.counts)
        low, high = CoinMixture(rows=rows, training=rows, concentration=2.0).interval(ones / rows, nats)
        return not low <= theta <= high

    return misses


def worst_schedule(misses, theta, most=MOST):
    """Largest chance that an interval ever misses, over all schedules; found by backward induction."""

    @cache
    def lost(counts):
        if any(counts) and misses(counts):
            return 1.0
        if sum(counts) == most:
            return 0.0
        after = [next_counts(counts, kind) for kind in range(len(SIZES))]
        return max((1 - theta) * lost(zeros) + theta * lost(ones) for zeros, ones in after)

    return lost((0,) * (2 * len(SIZES)))


def most_gained(theta, largest, most=4):
    """Largest factor by which one more group multiplies the capital on average, over all counts of few groups."""
    of, found = capital(theta, largest), 0.0
    for counts in product(range(most + 1), repeat=2 * len(SIZES)):
        if sum(counts) <= most:
            for kind, upper in product(range(len(SIZES)), (False, True)):
                after = [math.exp(of(each, upper) - of(counts, upper)) for each in next_counts(counts, kind)]
                found = max(found, (1 - theta) * after[0] + theta * after[1])
    return found


def test_the_capital_is_a_supermartingale_whichever_size_comes_next():
    for theta in (0.1, 0.5):
        assert most_gained(theta, LARGEST) <= 1.0 + 1e-7


def test_with_the_largest_group_so_far_it_is_none():
    """The protection removed: stakes in units of the largest group that is there."""
    assert most_gained(0.5, None) > 1.05


@pytest.mark.parametrize("theta", [0.1, 0.5])
def test_no_schedule_beats_bets_on_groups(theta):
    for nats in (0.02, 1.0):
        assert 0.0 < worst_schedule(bets_miss(theta, nats, LARGEST), theta) <= math.exp(-nats)


def test_a_schedule_beats_rows_taken_as_independent():
    """The protection removed: rows of a group count as if each were a coin."""
    assert worst_schedule(coins_miss(0.3, 1.5), 0.3, most=5) > 2.0 * math.exp(-1.5)
