"""The first query above a threshold: its law, its price, its promise, and what it refuses."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import everhold as eh
from everhold.certificate import verify_certificate
from everhold.errors import QueryRejected
from everhold.mechanisms import State
from everhold.randomness import SeededNoise
from everhold.values.base import BoundQuery
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget
from everhold_privacy.queries.choice import AbovePurchase, AboveQuery, first_above_exceedance

ROWS = 20_000
CUTS = range(60, -31, -10)


def scan(count, threshold, price=100):
    return AbovePurchase(tuple(BoundQuery({"number": i}, f"query {i}") for i in range(count)), price, threshold)


def found(purchase, mechanism, sums, noise):
    return purchase.answer(mechanism, State(), sums, noise).answer["value"]


def law_of_scan(stream, sums, *, threshold_noise=True):
    """P[first above is j], j = 0..k, where k stands for none: summed over every noise on the threshold."""
    reach = 40 * stream.threshold_scale
    drawn = np.arange(-reach, reach + 1) if threshold_noise else np.zeros(1, dtype=int)
    chance = np.exp(-np.abs(drawn) / stream.threshold_scale)
    needed = stream.threshold + drawn[:, None] - sums[None, :]
    above = stats.dlaplace.sf(needed - 1, 1.0 / stream.query_scale)
    before = np.cumprod(1.0 - above, axis=1)
    first = np.column_stack([above, np.ones(len(drawn))]) * np.column_stack([np.ones(len(drawn)), before])
    return chance / chance.sum() @ first


def test_the_law_is_that_of_the_definition_and_not_one_without_noise_on_the_threshold():
    mechanism = PrivacyBudget.tuned(rows=200, queries=5, unit=2**8)
    purchase = scan(4, 0.4, 500)
    stream = purchase.stream(mechanism)
    sums = stream.threshold + np.array([-1.5, -0.5, 0.3, -2.0]) * stream.query_scale
    sums, noise = np.clip(sums, 0, mechanism.steps).astype(np.int64), SeededNoise(3)
    drawn = [found(purchase, mechanism, sums, noise) for _ in range(4_000)]
    counts = np.bincount([4 if index is None else index for index in drawn], minlength=5)
    right, wrong = (law_of_scan(stream, sums, threshold_noise=on) for on in (True, False))
    assert stats.chisquare(counts, 4_000 * right).pvalue > 1e-4
    assert stats.chisquare(counts, 4_000 * wrong).pvalue < 1e-4


@pytest.mark.parametrize("price", [1, 100, 4_000])
def test_a_scan_is_as_private_as_it_costs(price):
    mechanism = PrivacyBudget.tuned(rows=20_000, queries=40)
    epsilon = scan(1_000, 0.5, price).stream(mechanism).curve().epsilon(0.0)
    paid = price / mechanism.credits * mechanism.curve().rho
    assert 0.999 * paid < epsilon**2 / 2 <= paid


@pytest.mark.parametrize("count", [1, 2, 50, 2_000])
def test_the_exceedance_is_above_what_noise_does_and_not_much(count):
    """Half of the means are just above the threshold and half just below: then both directions can harm."""
    rng, runs = np.random.default_rng(count), 4_000
    shared, own = rng.laplace(0.0, 1.0, runs), 1.26
    harm = np.full(runs, -np.inf)
    for sign in [1.0] * (count - count // 2) + [-1.0] * (count // 2):
        harm = np.maximum(harm, sign * (shared - rng.laplace(0.0, own, runs)))
    for alpha in (1.0, 4.0, 8.0):
        bound = first_above_exceedance(alpha, queries=count, threshold_scale=1.0, query_scale=own)
        excess = np.maximum(harm - alpha, 0.0)
        assert excess.mean() <= bound + 4 * excess.std() / math.sqrt(runs)
    beyond = 8.0 + own * math.log(count)
    excess = np.maximum(harm - beyond, 0.0).mean()
    assert first_above_exceedance(beyond, queries=count, threshold_scale=1.0, query_scale=own) < 20 * excess + 0.01


def test_the_allowance_adds_no_more_than_any_query_may():
    mechanism = PrivacyBudget.tuned(rows=20_000, queries=40)
    purchase = scan(300, 0.5, 1_000)
    stream, steps = purchase.stream(mechanism), mechanism.steps
    alpha = purchase.price(mechanism).within - mechanism.reach(0.0)
    scales = {"threshold_scale": stream.threshold_scale / steps, "query_scale": stream.query_scale / steps}
    allowed = mechanism.own_exceedance
    assert first_above_exceedance(alpha, queries=300, **scales) <= allowed
    assert first_above_exceedance(0.99 * alpha, queries=300, **scales) > allowed


def broken(index, truth, threshold, within):
    """Whether a claim of the scan about the population is false."""
    before = truth if index is None else truth[:index]
    return bool(np.any(before > threshold + within)) or (index is not None and truth[index] < threshold - within)


def test_the_promise_holds_for_known_populations_and_a_tenth_of_it_would_not():
    mechanism = PrivacyBudget.tuned(rows=5_000, queries=40, confidence=0.9)
    truth, purchase = np.tile(np.linspace(0.2, 0.45, 25), 8), scan(200, 0.5, 2_000)
    within = purchase.price(mechanism).within
    stated = tenth = 0
    for seed in range(60):
        sums = np.random.default_rng(seed).binomial(5_000, truth) * mechanism.unit
        index = found(purchase, mechanism, sums, SeededNoise(seed))
        stated += broken(index, truth, 0.5, within)
        tenth += broken(index, truth, 0.5, within / 10)
    assert within < 0.5
    assert stated == 0
    assert tenth > 6


def test_finding_the_wrong_way_round_breaks_the_promise():
    mechanism = PrivacyBudget.tuned(rows=20_000, queries=40)
    within = scan(3, 0.5, 2_000).price(mechanism).within
    truth = np.array([0.1, 0.9, 0.2])
    assert not broken(1, truth, 0.5, within)
    assert broken(0, truth, 0.5, within)
    assert broken(None, truth, 0.5, within)


def rows(seed):
    rng = np.random.default_rng(seed)
    delay = rng.normal(10.0, 20.0, ROWS)
    return {"delay": delay, "late": (delay > 15).astype(int)}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("above")
    with eh.Holdout.create(
        folder / "s.db", "flights", holdout=rows(0), label="late", mechanism="privacy_budget", queries=60
    ) as holdout:
        yield holdout


def cuts():
    return [f"delay > {cut}" for cut in CUTS]


def test_the_first_cut_above_is_found_and_stays_found(study):
    query, before = AboveQuery(cuts(), 0.5, price=500), study.remaining
    quoted = study.quote(query)
    answer = study.ask(query)
    assert (answer.index, answer.found, answer.asked) == (5, True, "mean of delay > 10") or answer.index in (4, 6)
    assert (quoted.charged_at_most, quoted.radius) == (answer.charged, answer.within) == (500, answer.within)
    assert study.remaining == {"queries": before["queries"] - 1, "credits": before["credits"] - 500}
    again = study.ask(query)
    assert (again.index, again.charged, again.repeated) == (answer.index, 0, True)
    assert list(answer.to_dict())[:5] == ["index", "found", "asked", "threshold", "within"]


def test_none_may_be_above(study):
    answer = study.ask(AboveQuery(["delay > 90", "delay > 80"], 0.9, price=300))
    assert (answer.index, answer.found, answer.asked) == (None, False, None)
    assert answer.within > 0.0


def test_errors_are_scanned_in_their_own_direction(study):
    labels = rows(0)["late"]
    found = [
        study.ask(AboveQuery([metric(labels), metric(1 - labels)], 0.5, price=400)).index
        for metric in (eh.accuracy, eh.error)
    ]
    assert found == [0, 1]


def test_units_carry_over(study):
    wide = [eh.mean("delay", low=-100, high=100), eh.mean("delay + 50", low=-100, high=100)]
    answer = study.ask(AboveQuery(wide, 40.0, price=1_000))
    narrow = study.quote(AboveQuery(["late = 1", "late = 0"], 0.5, price=1_000))
    assert answer.index == 1
    assert answer.within == pytest.approx(200 * narrow.radius)


def test_the_certificate_and_the_ledger_know_it(study, tmp_path):
    answer = study.ask(AboveQuery(cuts(), 0.5, price=500))
    (line,) = [line for line in study.transcript().to_rows() if line["query"] == answer.query]
    assert line["asked"].startswith("the first above 0.5 of 10: mean of delay > 60; ")
    assert (line["value"], line["within"]) == (answer.index, answer.within)
    study.certificate().save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json").ok
    json.dumps(answer.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (AboveQuery([], 0.5), "There are 0 queries"),
        (AboveQuery("delay > 5", 0.5), "Pass a list of 1 to 100,000"),
        (AboveQuery(["late = 1"] * 100_001, 0.5), "100,001 queries"),
        (AboveQuery(["late = 1"], 1.5), "threshold is 1.5. Pass a number from 0 to 1"),
        (AboveQuery(["late = 1"], math.nan), "threshold is nan"),
        (AboveQuery(["late = 1"], "high"), "threshold is 'high'"),
        (AboveQuery(["late = 1"], True), "threshold is True"),
        (AboveQuery(["late = 1"], 0.5, price=0), "price is 0"),
        (AboveQuery(["late = 1", eh.mean("delay", low=0, high=9)], 0.5), "different ranges"),
        (AboveQuery(["speed > 3"], 0.5), "speed"),
        (AboveQuery([eh.variance("delay", low=0, high=1)], 0.5), "is not answered by one mean"),
    ],
)
def test_what_cannot_be_asked_costs_nothing(study, query, reason):
    before = study.remaining
    with pytest.raises(QueryRejected, match=reason):
        study.ask(query)
    assert study.remaining == before


def test_a_scan_that_cannot_be_paid_is_refused_for_nothing(study):
    before = study.remaining
    answer = study.ask(AboveQuery(cuts(), 0.5, price=10**6))
    assert (answer.index, answer.found, answer.within, answer.charged) == (None, None, None, 0)
    assert study.remaining == before
    assert study.quote(AboveQuery(cuts(), 0.25, price=10**6)).refused


def test_thousands_of_queries_are_one(study):
    before = study.remaining
    answer = study.ask(AboveQuery([f"delay > {300 - i / 10}" for i in range(2_000)], 0.9, price=200))
    assert answer.charged == 200
    assert study.remaining["queries"] == before["queries"] - 1
