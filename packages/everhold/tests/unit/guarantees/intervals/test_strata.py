"""A share whose strata are counted in a pool: how often its interval misses, exactly, for all pools and samples."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from everhold.families.pool import BoundPool
from everhold.guarantees.intervals import strata
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.guarantees.intervals.strata import SeenStrata, StratifiedShare

ROWS, POOL, LEVEL, POOL_LEVEL = 5, 6, 0.3, 0.1
WORLDS = list(itertools.product((0.2, 0.5, 0.85), (0.05, 0.4, 0.7, 1.0), (0.0, 0.3, 0.5, 0.9)))  # q, a, b


def intervals(within):
    """The interval of every pool and sample: number judged 1 in the pool, rows of stratum 1, counts of both."""
    found = {}
    for pooled in range(POOL + 1):
        weight = pooled / POOL
        for first in range(ROWS + 1):
            for counts in itertools.product(range(first + 1), range(ROWS - first + 1)):
                seen = SeenStrata((first, ROWS - first), counts, weight)
                procedure = StratifiedShare(seen, ROWS, ROWS, within(pooled))
                found[pooled, first, *counts] = procedure.interval(seen, -math.log(LEVEL))
    return found


def pool_event(pooled):
    pool = BoundPool(POOL, "", {"judge": ("judge", pooled)})
    return pool.within("judge", -math.log(POOL_LEVEL))


def missed(found, world):
    """Probability that the interval misses the population's share."""
    q, a, b = world
    share, lost = q * a + (1.0 - q) * b, 0.0
    for (pooled, first, k, m), (low, high) in found.items():
        if not low <= share <= high:
            rows = stats.binom.pmf(first, ROWS, q) * stats.binom.pmf(k, first, a) * stats.binom.pmf(m, ROWS - first, b)
            lost += stats.binom.pmf(pooled, POOL, q) * rows
    return lost


def test_an_interval_misses_with_both_levels_at_most():
    found = intervals(pool_event)
    most = max(missed(found, world) for world in WORLDS)
    assert 0.01 < most <= LEVEL + POOL_LEVEL


@pytest.mark.parametrize("with_event", [True, False])
def test_without_the_event_of_the_pool_most_intervals_miss(with_event):
    """Of a judge that is always right, and a pool that is smaller than the sealed rows."""
    rng, lost, rows, pool = np.random.default_rng(1), 0, 300, 60
    for _ in range(20):
        pooled, first = int(rng.binomial(pool, 0.5)), int(rng.binomial(rows, 0.5))
        recorded = BoundPool(pool, "", {"judge": ("judge", pooled)})
        within = recorded.within("judge", -math.log(0.1)) if with_event else (recorded.share("judge"),) * 2
        seen = SeenStrata((first, rows - first), (first, 0), recorded.share("judge"))
        low, high = StratifiedShare(seen, rows, rows, within).interval(seen, -math.log(0.1))
        lost += not low <= 0.5 <= high
    assert (lost <= 9) == with_event  # of 20 at a level of .2 together, 10 have probability .003


@pytest.mark.parametrize("halved", [True, False])
def test_each_side_has_half_of_the_level(monkeypatch, halved):
    """Of a judge whose share is known exactly. With all of the level on each side it is exceeded."""
    if not halved:
        monkeypatch.setattr(strata, "side_of", lambda nats: nats)
    found = {key: ends for key, ends in intervals(lambda _: (0.5, 0.5)).items() if key[0] == POOL // 2}
    lost = [missed(found, world) / stats.binom.pmf(POOL // 2, POOL, 0.5) for world in WORLDS if world[0] == 0.5]
    assert (max(lost) <= LEVEL) == halved


@pytest.mark.parametrize(("agreement", "most"), [(0.8, 0.83), (0.5, 1.03)])
def test_as_narrow_as_the_judge_allows(agreement, most):
    """Of a pool without end, over exact tails of the plain share; the least that any interval can have is .8 and 1."""
    rows, nats = 300, -math.log(0.025)
    agreeing = round(rows / 2 * agreement)
    seen = SeenStrata((rows // 2, rows // 2), (agreeing, rows // 2 - agreeing), 0.5)
    low, high = StratifiedShare(seen, rows, rows, (0.5, 0.5)).interval(seen, nats)
    plain = ClopperPearson(rows=rows, training=rows).interval(0.5, nats)
    assert high - low <= most * (plain[1] - plain[0])


@pytest.mark.parametrize("counts", [(0, 0), (9, 0), (0, 4), (9, 4)])
@pytest.mark.parametrize("nats", [0.0, 1.0, 40.0, 299.0, 400.0])
def test_ends_stay_in_the_possible_range(counts, nats):
    for rows, weight in itertools.product(((9, 4), (9, 0), (0, 4)), (0.0, 0.6, 1.0)):
        held = tuple(min(pair) for pair in zip(counts, rows, strict=True))
        seen = SeenStrata(rows, held, weight)
        low, high = StratifiedShare(seen, sum(rows), 10, (max(weight - 0.1, 0.0), min(weight + 0.1, 1.0))).interval(
            seen, nats
        )
        assert 0.0 <= low <= seen.score <= high <= 1.0
