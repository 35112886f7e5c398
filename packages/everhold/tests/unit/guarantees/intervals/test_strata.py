"""A share whose strata are counted in a pool: how often its interval misses, exactly, for all pools and samples."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from everhold.families.pool import BoundPool, PooledMean
from everhold.guarantees.intervals import strata
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.guarantees.intervals.strata import SeenStrata, StratifiedShare
from everhold.mechanisms import GuessAndCheck
from everhold.queries.interval_planner import JudgedMean
from everhold.queries.means.assisted import _Residuals
from everhold.sealing.rows.sums import cells_of
from everhold.values.base import BoundQuery

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
    judged = PooledMean("judge", None, POOL, pooled / POOL)
    return BoundPool(POOL, "", {"judge": (judged,)}).within(judged, -math.log(POOL_LEVEL))


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
        judged = PooledMean("judge", None, pool, pooled / pool)
        recorded = BoundPool(pool, "", {"judge": (judged,)})
        within = recorded.within(judged, -math.log(0.1)) if with_event else (judged.share,) * 2
        seen = SeenStrata((first, rows - first), (first, 0), judged.share)
        low, high = StratifiedShare(seen, rows, rows, within).interval(seen, -math.log(0.1))
        lost += not low <= 0.5 <= high
    assert (lost <= 9) == with_event  # of 20 at a level of .2 together, 10 have probability .003


def verdicts_miss(counts, chances, *, shared=True):
    """Whether the interval of any verdict but the commonest one misses its chance in the population."""
    rows, seen = sum(counts), sorted(((k, p) for k, p in zip(counts, chances, strict=True) if k), reverse=True)[1:]
    parts = tuple(PooledMean("t", None, rows, k / rows, verdict=shared) for k, _ in seen)
    nats = -math.log(POOL_LEVEL) + (0.0 if shared else math.log(max(len(seen), 1)))
    pool = BoundPool(rows, "", {"t": parts})
    ends = [pool.within(part, nats) for part in parts]
    return any(not low <= p <= high for (low, high), (_, p) in zip(ends, seen, strict=True))


@pytest.mark.parametrize("law", [(0.5, 0.3, 0.2), (0.96, 0.02, 0.02), (0.8, 0.15, 0.05), (0.34, 0.33, 0.33)])
def test_all_verdicts_of_a_text_hold_with_the_level_of_its_judge(law):
    pools = [counts for counts in itertools.product(range(13), repeat=3) if sum(counts) == 12]
    missed = [counts for counts in pools if verdicts_miss(counts, law)]
    assert sum(stats.multinomial.pmf(counts, 12, law) for counts in missed) <= POOL_LEVEL


@pytest.mark.parametrize("shared", [True, False])
def test_verdicts_that_happen_to_be_seen_share_the_level_with_all_others(shared):
    """One of a thousand rare verdicts is in nearly every pool, and the pool decides which ones have a limit."""
    rng, lost = np.random.default_rng(1), 0
    law = np.append(0.5, np.full(1_000, 0.5 / 1_000))
    for _ in range(50):
        lost += verdicts_miss(rng.multinomial(POOL, law).tolist(), law.tolist(), shared=shared)
    assert (lost <= 10) == shared  # of 50 at a level of .1


@pytest.mark.parametrize("chance", [0.001, 0.02, 0.3])
def test_a_verdict_is_excluded_at_the_level_times_its_chance(chance):
    """Chances just inside the limits are not excluded at their own level, and those outside are."""
    rows, nats = 1_000, 4.0
    part = PooledMean("t", None, rows, chance, verdict=True)
    low, high = part.within(nats)
    alone = PooledMean("t", None, rows, chance)
    assert low <= alone.within(nats)[0] <= alone.within(nats)[1] <= high
    for at in np.linspace(low / 50.0, 0.998 * low, 20) if low > 0.0 else ():
        assert at < alone.within(nats - math.log(at))[0]
    assert high >= alone.within(nats - math.log(high))[1]


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


class Arrays:
    """Rows whose values are known, by the name of the query."""

    def __init__(self, **values):
        self.values = {name: np.asarray(value, dtype=float) for name, value in values.items()}
        self.rows = len(self.values["h"])

    def row_values(self, query, *, unit):
        return np.floor(self.values[query.shown] * unit).astype(np.int64)

    def summary(self, need, grid, *, group_by=None, unit):
        return int(grid.sum()), cells_of(grid, unit=unit)


def of_residuals(rows, weight, judged):
    """The interval of the mean of h with a public weight of what the judge says."""
    mechanism = GuessAndCheck.tuned(rows=rows.rows, queries=20)
    values = BoundQuery({}, "h"), BoundQuery({}, "t")
    reader = _Residuals(values, [judged], (round(1_024 * weight),), "cells", mechanism)
    compiler = SimpleNamespace(mechanism=mechanism, schema=SimpleNamespace(rows=rows.rows))
    training = Arrays(
        h=np.linspace(0.0, 1.0, 40), t=np.linspace(0.0, 1.0, 40) if weight > 0 else np.linspace(1.0, 0.0, 40)
    )
    return reader.procedure(compiler, training).interval(reader.seen(rows), -math.log(LEVEL))


ATOMS = [(0.0, 0.0), (0.0, 1.0), (0.5, 1.0), (1.0, 0.0), (1.0, 1.0)]  # label and judge of a row
LAWS = [
    (0.2,) * 5,
    (0.4, 0.0, 0.1, 0.0, 0.5),
    (0.0, 0.5, 0.0, 0.5, 0.0),
    (0.9, 0.05, 0.0, 0.0, 0.05),
    (0.0, 0.0, 0.8, 0.2, 0.0),
]


@pytest.mark.parametrize("weight", [1.0, 0.5, -0.75])
def test_a_mean_of_numbers_misses_with_both_levels_at_most(weight):
    """All samples of four rows and all pools of six, for several laws of label and judge."""
    rows, found = 4, {}
    for counts in itertools.product(range(rows + 1), repeat=len(ATOMS)):
        if sum(counts) != rows:
            continue
        label, judge = np.repeat(np.array(ATOMS), counts, axis=0).T
        for pooled in range(POOL + 1):
            part = PooledMean("t", None, POOL, pooled / POOL)
            judged = JudgedMean("t", None, part.share, part.within(-math.log(POOL_LEVEL)))
            found[counts, pooled] = of_residuals(Arrays(h=label, t=judge), weight, judged)
    for law in LAWS:
        mean, share = np.array(law) @ np.array(ATOMS)
        lost = sum(
            float(stats.multinomial.pmf(counts, rows, law)) * float(stats.binom.pmf(pooled, POOL, share))
            for (counts, pooled), (low, high) in found.items() if not low <= mean <= high
        )  # fmt: skip
        assert lost <= LEVEL + POOL_LEVEL


@pytest.mark.parametrize("weight", [1.0, -1.0])
@pytest.mark.parametrize("with_event", [True, False])
def test_without_the_event_of_the_pool_most_means_of_numbers_miss(with_event, weight):
    """Of a judge that always says the label, or its opposite, and a pool that is smaller than the sealed rows."""
    rng, lost, rows, pool = np.random.default_rng(1), 0, 20_000, 60
    for _ in range(20):
        pooled, label = int(rng.binomial(pool, 0.5)), rng.random(rows) < 0.5
        part = PooledMean("t", None, pool, pooled / pool)
        within = part.within(-math.log(0.1)) if with_event else (part.share,) * 2
        judged = JudgedMean("t", None, part.share, within)
        low, high = of_residuals(Arrays(h=label, t=label if weight > 0 else ~label), weight, judged)
        lost += not low <= 0.5 <= high
    assert (lost <= 9) == with_event
