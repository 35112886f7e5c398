"""Chains learned from rows: counts by hand, coverage by simulation, real weather."""

import datetime
import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import betaln, xlogy

from everhold.dependence.series.fitting import _mixture_ends, bound_transitions, count_transitions
from everhold.dependence.series.markov_chain import MarkovChain
from everhold.errors import DependenceError
from everhold_privacy.curves import GaussianCurve
from everhold_privacy.leakage import leakage


def simulated(rng, matrix, rows):
    thresholds, uniform = np.cumsum(matrix, axis=1), rng.random(rows)
    path = [0]
    for draw in uniform[1:]:
        path.append(min(int(np.searchsorted(thresholds[path[-1]], draw)), len(matrix) - 1))
    return np.array(path)


def test_counts_by_hand():
    series = [np.array(list("aabba")), np.array(list("ab"))]
    assert count_transitions(series, ["a", "b"]).tolist() == [[1, 2], [1, 1]]


@pytest.mark.parametrize("states", [2, 3])
@pytest.mark.parametrize("narrow", [False, True])
def test_the_true_chain_is_in_the_set_as_often_as_promised(states, narrow):
    rng, runs = np.random.default_rng(11), 300
    matrix = np.full((states, states), 0.1 / (states - 1)) + (0.9 - 0.1 / (states - 1)) * np.eye(states)
    missed = 0
    for _ in range(runs):
        counts = count_transitions([simulated(rng, matrix, 150).astype(str)], [str(s) for s in range(states)])
        if counts.sum(axis=1).min() == 0:
            continue
        bound = bound_transitions(counts, miss=0.1)
        radii = bound.radii * (0.25 if narrow else 1.0)
        missed += bool(np.any(np.abs(bound.transition - matrix).sum(axis=1) > radii))
    assert (missed > 0.1 * runs) == narrow


def test_the_radius_of_more_than_two_states_by_hand():
    bound = bound_transitions([[50, 30, 20], [10, 10, 10], [300, 300, 400]], miss=0.05)
    expected = [math.sqrt(2.0 * (math.log(6.0 * 3 / 0.05) + 0.5 * math.log(k)) / k) for k in (100, 30, 1000)]
    assert bound.radii == pytest.approx(expected)
    assert bound.transition[2].tolist() == [0.3, 0.3, 0.4]


def test_the_mixture_costs_no_more_than_half_a_logarithm():
    """The redundancy of Krichevsky and Trofimov that the radius uses: ln(k)/2 + ln 2."""
    for trials in (1, 2, 7, 100, 5_000):
        hits = np.arange(trials + 1)
        best = xlogy(hits, hits / trials) + xlogy(trials - hits, 1.0 - hits / trials)
        mixture = betaln(hits + 0.5, trials - hits + 0.5) - betaln(0.5, 0.5)
        assert np.max(best - mixture) <= 0.5 * math.log(trials) + math.log(2.0) + 1e-9


def test_intervals_of_two_states_hold_for_every_number_of_exits_at_once():
    """All paths of 12 draws: how likely is it that the truth was outside at any time?"""
    for chance in (0.05, 0.3, 0.5):
        alive = {0: 1.0}
        for trials in range(1, 13):
            moved = {}
            for hits, weight in alive.items():
                for more, part in ((1, chance), (0, 1.0 - chance)):
                    moved[hits + more] = moved.get(hits + more, 0.0) + weight * part
            ends = {hits: _mixture_ends(hits, trials, 0.2) for hits in moved}
            alive = {hits: weight for hits, weight in moved.items() if ends[hits][0] <= chance <= ends[hits][1]}
        assert sum(alive.values()) >= 0.8


def test_two_states_that_never_change_keep_room_for_change():
    bound = bound_transitions([[40, 0], [1, 1]], miss=0.05)
    stays, mixture = bound.transition[0, 0], math.exp(betaln(40.5, 0.5) - betaln(0.5, 0.5))
    assert stays - bound.radii[0] / 2.0 == pytest.approx((0.025 * mixture) ** (1 / 40))
    assert stays + bound.radii[0] / 2.0 == pytest.approx(1.0)


COLUMNS = {
    "city": ["x", "y", "x", "y", "x", "x"],
    "day": [3, 1, 1, 2, 2, 4],
    "wet": [True, False, False, True, True, False],
}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, lambda data: pl.DataFrame(data).lazy()])
def test_every_kind_of_table_and_any_order_of_rows(make):
    model = MarkovChain.fit(make(COLUMNS), order_by="day", state="wet", groups="city", gap=3, confidence=0.9)
    by_hand = bound_transitions([[0, 2], [1, 1]], miss=0.1)
    assert model.states == ("false", "true")
    assert np.array(model.transition) == pytest.approx(by_hand.transition)
    assert model.uncertainty == pytest.approx(by_hand.radii)
    assert (model.gap, model.fit_miss, model.groups) == (3, pytest.approx(0.1), "city")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"day": [1, 1, 1, 2, 2, 4]}, "have the same value in column"),
        ({"day": [3, 1, 1, 2, None, 4]}, "1 training rows have no value in column 'day'"),
        ({"wet": [True, False, None, True, True, False]}, "no value in column 'wet'"),
        ({"wet": [1.5] * 6}, "Use texts, whole numbers"),
        ({"wet": ["a"] * 6}, "Use a column with at least two"),
        ({"wet": list("abbbbc")}, "have no next row"),
        ({"wet": list("ab")}, r"'wet' \(2,\), .* Pass one value per row"),
        ({"day": [3, "x", 1, 2, 2, 4]}, "texts or values of several types"),
        ({"day": [math.inf, 1, 1, 2, 2, 4]}, "infinite value in column 'day'"),
        ({"city": ["x", 1, "x", 1, "x", "x"]}, "values of different types"),
        ({"day": [10.0, 1, 1.5, 2, 2.7, 5]}, "of the training rows follow the row before"),
        ({"wet": pd.array(["a", "b", None, "a", "b", "a"], dtype="string")}, "1 training rows have no value"),
    ],
)
def test_tables_that_cannot_be_learned_from_are_refused(change, message):
    with pytest.raises(DependenceError, match=message):
        MarkovChain.fit(COLUMNS | change, order_by="day", state="wet", groups="city")


def test_other_refusals():
    with pytest.raises(DependenceError, match=r"no column 'rain'\. Name one of 'city', 'day', 'wet'"):
        MarkovChain.fit(pd.DataFrame(COLUMNS), order_by="day", state="rain")
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="strictly between 0 and 1") as caught:
            MarkovChain.fit(COLUMNS, order_by="day", state="wet", confidence=confidence)
        assert not isinstance(caught.value, DependenceError)
    with pytest.raises(DependenceError, match=r"type int\. Pass a data frame"):
        MarkovChain.fit(3, "day", "wet")
    with pytest.raises(DependenceError, match="2 training rows are in none of the 2 states"):
        MarkovChain.fit(COLUMNS, order_by="day", state="wet", groups="city", states=["true", "maybe"])


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (range(200), "Every row has a state of its own. There are 200 states in 200 rows"),
        ([k % 150 for k in range(200)], "^There are 150 states in 200 rows of column 's', more than 128. Cut"),
    ],
)
def test_too_many_states_are_said_to_be(states, message):
    with pytest.raises(DependenceError, match=message):
        MarkovChain.fit({"t": range(200), "s": states}, "t", "s")


DAY = datetime.datetime(2020, 1, 1)
CLOCKS = {
    "whole": lambda k: 7 * k,
    "parts": lambda k: 0.1 * k,
    "dates": lambda k: (DAY + datetime.timedelta(days=k)).date(),
    "times": lambda k: DAY + datetime.timedelta(hours=k),
    "zone": lambda k: DAY.replace(tzinfo=datetime.UTC) + datetime.timedelta(hours=k),
    "text": lambda k: (DAY + datetime.timedelta(days=k)).strftime("%Y-%m-%d"),
    "months": lambda k: datetime.date(2020 + k // 12, 1 + k % 12, 1),
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_only_pairs_that_are_one_step_apart_count(clock):
    """Where rows are missing, the next row is two or more steps away and tells of less dependence."""
    rng = np.random.default_rng(5)
    path = simulated(rng, np.array([[0.95, 0.05], [0.05, 0.95]]), 600).tolist()
    kept = [k for k in range(600) if rng.random() > 0.2]
    model = MarkovChain.fit({"t": [CLOCKS[clock](k) for k in kept], "s": [path[k] for k in kept]}, "t", "s")
    pairs = [(path[a], path[b]) for a, b in itertools.pairwise(kept) if b == a + 1]
    by_hand = bound_transitions([[pairs.count((x, y)) for y in (0, 1)] for x in (0, 1)], miss=0.01)
    assert np.array(model.transition) == pytest.approx(by_hand.transition)
    assert model.uncertainty == pytest.approx(by_hand.radii)


def test_rows_of_every_second_step_alone_would_say_too_little():
    """The same rows without the cut: the estimate is that of longer steps, far from the truth."""
    rng = np.random.default_rng(6)
    path = simulated(rng, np.array([[0.95, 0.05], [0.05, 0.95]]), 60_000)
    kept = np.flatnonzero(np.arange(60_000) % 5 < 3)  # three days, then two are missing
    with_cut = MarkovChain.fit({"t": kept, "s": path[kept]}, "t", "s").transition[0][1]
    without = MarkovChain.fit({"t": np.arange(len(kept)), "s": path[kept]}, "t", "s").transition[0][1]
    assert with_cut == pytest.approx(0.05, abs=0.005)
    assert without > 0.07


def test_rain_in_seattle():
    """Two years to learn from, two weeks left out, two years sealed."""
    data = pytest.importorskip("vega_datasets").data
    weather = data.seattle_weather()
    weather["wet"] = weather["precipitation"] > 0.0
    past = weather[weather["date"] < datetime.datetime(2014, 1, 1)]
    model = MarkovChain.fit(past, order_by="date", state="wet", gap=14)
    sealed = len(weather) - len(past) - 14
    assert model.states == ("false", "true")
    assert np.array(model.transition) == pytest.approx(np.array([[0.72, 0.28], [0.34, 0.66]]), abs=0.05)
    assert 0.01 <= model.miss < 0.03
    assert 0.2 * sealed < model.concentration(sealed) < 0.6 * sealed
    curve = GaussianCurve(0.02)
    assert curve.delta(0.05) < leakage(model, curve, sealed).delta(0.05) < curve.group(20).delta(0.05)


@pytest.mark.parametrize("unit", ["D", "h", "s", "us", "ns"])
def test_the_usual_step_is_kept_in_seconds(unit):
    days = np.arange("2020-01-01", "2020-06-01", dtype="datetime64[D]").astype(f"datetime64[{unit}]")
    rows = {"day": days, "on": np.arange(len(days)) // 2 % 2}
    assert MarkovChain.fit(rows, "day", "on").step == 86_400.0
    assert MarkovChain.fit({**rows, "day": 3 * np.arange(len(days))}, "day", "on").step == 3.0


def test_truth_values_are_states_as_they_are_read():
    rows = {"day": range(100), "on": [day // 2 % 2 == 0 for day in range(100)]}
    assert MarkovChain.fit(rows, "day", "on").states == ("false", "true")
    assert MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=[False, True]).states == ("false", "true")
