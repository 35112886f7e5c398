"""Survival with censored rows (S19): how often intervals miss, exactly, and what the estimate is."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from everhold.guarantees.intervals import survival
from everhold.guarantees.intervals.survival import SeenSurvival, Survival

ROWS, LEVEL, EDGES = 6, 0.4, (1.0, 2.0)
NATS = -math.log(LEVEL)
EVENTS = {0.5: 0.2, 1.0: 0.2, 1.5: 0.25, 3.0: 0.35}  # time: probability
CENSORED = {
    "at edges": {1.0: 0.5, 9.0: 0.5},
    "within intervals": {0.4: 0.3, 0.7: 0.2, 1.7: 0.3, 9.0: 0.2},
    "by chance or never": {0.2: 0.3, 9.0: 0.7},
}


def seen_rows(times, ends, widths=None):
    """The events by interval of rows with times of events and of ends of follow-up."""
    time, event = np.minimum(times, ends), np.array(times) <= np.array(ends)
    edge, before = np.array(EDGES)[:, None], np.array([-np.inf, *EDGES[:-1]])[:, None]
    found = [time > before, (time > before) & (time <= edge) & event, (time > edge) | ((time == edge) & ~event)]
    return SeenSurvival(*(each.sum(axis=1, keepdims=True).astype(float) for each in found), np.ones(1), widths)


def miss_probability(law, *, widths=None, rows=ROWS, nats=NATS):
    """Probability that the interval misses survival at 2, or the mean time up to it, over all outcomes of the rows."""
    kinds = [(time, end, p * q) for time, p in EVENTS.items() for end, q in CENSORED[law].items()]
    alike = {}
    for time, end, chance in kinds:
        one = seen_rows([time], [end])
        key = tuple(np.concatenate([one.at_risk, one.events, one.alive]).ravel())
        alike[key] = alike.get(key, 0.0) + chance
    types, chances = np.array([*alike]), np.array([*alike.values()])
    true = sum(p for time, p in EVENTS.items() if time > 2.0)
    if widths is not None:
        true = sum(p * min(time, 2.0) for time, p in EVENTS.items()) / 2.0
    missed = 0.0
    for bars in itertools.combinations(range(rows + len(types) - 1), len(types) - 1):
        counts = np.diff([-1, *bars, rows + len(types) - 1]) - 1
        parts = (counts @ types).reshape(3, 2, 1)
        seen = SeenSurvival(*parts, np.ones(1), widths)
        low, high = Survival(seen, 1.0, rows, None).interval(seen, nats)
        ways = math.factorial(rows) / math.prod(map(math.factorial, counts.tolist()))
        missed += ways * float(np.prod(chances**counts)) * (not low <= true <= high)
    return missed


@pytest.mark.parametrize("law", CENSORED)
@pytest.mark.parametrize("widths", [None, np.array([0.5, 0.5])], ids=["survival", "mean"])
def test_an_interval_misses_with_its_level_at_most(law, widths):
    assert miss_probability(law, widths=widths, rows=4 if law == "within intervals" else ROWS) <= LEVEL


@pytest.mark.parametrize("ends", [(0.7, 1.0, 1.7, 9.0), (0.7, 0.7, 1.0, 1.0), (1.7, 1.7, 9.0, 9.0)])
def test_rows_whose_follow_up_ends_at_unlike_times(ends):
    """Staggered entry: each row has its own end of follow-up, and all outcomes of their events are tried."""
    missed = 0.0
    for times in itertools.product(EVENTS, repeat=4):
        seen = seen_rows(times, ends)
        low, high = Survival(seen, 1.0, 4, None).interval(seen, NATS)
        missed += math.prod(EVENTS[time] for time in times) * (not low <= EVENTS[3.0] <= high)
    assert missed <= LEVEL


def drawn(rng, rows, steps, *, copies=1):
    """Rows with exponential times and much censoring, by interval up to 1; groups are copies of a row."""
    times, ends = rng.exponential(1.0, rows), rng.uniform(0.0, 1.2, rows)
    edge = np.arange(1, steps + 1)[:, None] / steps
    before = np.concatenate([[[-np.inf]], edge[:-1]])
    time, event = np.minimum(times, ends), times <= ends
    found = [time > before, (time > before) & (time <= edge) & event, time > edge]
    return SeenSurvival(*(copies * each.astype(float) for each in found), np.ones(rows))


def totalled(units):
    """Units as if all rows were independent."""
    return SeenSurvival(*(each[:, None] for each in units.totals), np.ones(1))


def misses(games, *, rows=80, steps=4, copies=1, grouped=False):
    """Number of games in which the interval of survival at 1 misses."""
    rng, missed = np.random.default_rng(5), 0
    for _ in range(games):
        units = drawn(rng, rows, steps, copies=copies)
        seen = units if grouped else totalled(units)
        procedure = Survival(seen, 1.0, copies * rows, float(copies) if grouped else None)
        low, high = procedure.interval(seen, math.log(5.0))
        missed += not low <= math.exp(-1.0) <= high
    return missed


def test_games_are_lost_with_the_level_at_most():
    assert misses(200) <= 54  # more of 200 have a probability of .01 at a level of .2


def test_rows_censored_within_an_interval_are_not_survivors(monkeypatch):
    """The protection removed: survivors are all rows at risk without an event."""
    alone = SeenSurvival.totals.fget

    def followed(seen):
        at_risk, events, _ = alone(seen)
        return at_risk, events, at_risk - events

    monkeypatch.setattr(SeenSurvival, "totals", property(followed))
    assert misses(60, rows=2_000, steps=2) > 25


def test_copies_of_a_row_are_a_group_and_no_rows():
    """The protection removed: rows of a group as if they were independent."""
    assert misses(20, rows=60, steps=16, copies=100, grouped=True) <= 8
    assert misses(60, rows=60, steps=16, copies=100) > 25


@pytest.mark.parametrize(("hazard", "left"), [(0.05, 0.5), (0.6, 0.1)])
def test_no_chances_that_are_left_have_another_product(hazard, left):
    """All chances of two intervals on a grid, tried one by one with the capital itself."""
    n = np.array([400.0, 300.0 * (1 - left)])
    d = np.floor(n * hazard)
    a = np.array([n[1], n[1] - d[1]])
    seen = SeenSurvival(n[:, None], d[:, None], a[:, None], np.ones(1))
    lower, upper = Survival(seen, 1.0, 400, None).curves(seen, 4.0)
    box = survival._chances(seen, 4.0 + math.log(8.0))
    side, stakes = 4.0 + math.log(16.0 / 7.0), survival._stakes(n)
    least, most = 1.0, 0.0
    for q in itertools.product(*(np.linspace(low, high, 50) for low, high in zip(*box, strict=True))):
        q = np.array(q)
        above = (a * np.log1p(stakes * (1 - q)) + d * np.log1p(-stakes * q)).sum(axis=1)
        below = ((n - d) * np.log1p(-stakes * (1 - q)) + d * np.log1p(stakes * q)).sum(axis=1)
        if np.logaddexp.reduce(above) - math.log(16) < side:
            least = min(least, q.prod())
        if np.logaddexp.reduce(below) - math.log(16) < side:
            most = max(most, q.prod())
    assert least - 0.02 <= lower[-1] <= least + 1e-9
    assert most - 1e-9 <= upper[-1] <= most + 0.02


def test_with_whole_steps_the_estimate_is_that_of_kaplan_and_meier():
    rng = np.random.default_rng(2)
    times, ends = rng.integers(1, 5, 200), rng.integers(1, 4, 200)
    edges, (time, event) = np.arange(1.0, 4.0)[:, None], (np.minimum(times, ends), times <= ends)
    before = np.concatenate([[[-np.inf]], edges[:-1]])
    found = [time > before, (time > before) & (time <= edges) & event, (time > edges) | ((time == edges) & ~event)]
    seen = SeenSurvival(*(each.astype(float) for each in found), np.ones(200))
    censored = stats.CensoredData(uncensored=time[event], right=time[~event])
    assert seen.curve == pytest.approx(stats.ecdf(censored).sf.evaluate(edges.ravel()))


def test_nothing_is_known_where_no_row_is_followed():
    none = np.zeros((3, 1))
    seen = SeenSurvival(np.array([[5.0], [0.0], [0.0]]), none, none, np.ones(1))
    assert Survival(seen, 1.0, 5, None).interval(seen, 3.0) == (0.0, 1.0)


def test_where_nothing_is_known_half_are_expected_to_survive():
    planned = SeenSurvival.expected(4, rows=800.0, largest=2.0, widths=None)
    assert planned.score == pytest.approx(0.5)
    assert planned.totals[0][0] == pytest.approx(800.0)
