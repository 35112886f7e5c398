"""Nothing is told before the end, so each query has a fixed share of the probability of failure."""

import json
import math

import numpy as np
import pytest

import everhold as eh
from everhold.dependence import Groups, Independent
from everhold.guarantees.intervals.means import Chernoff, ClopperPearson
from everhold.mechanisms import MECHANISMS, Silent, Source, State, answering
from everhold.mechanisms.records import Evaluations
from everhold.randomness import SeededNoise

ROWS = 1_000


def asked(mechanism, means, *, silent=True):
    totals = np.array([[round(mean * ROWS) * mechanism.unit] for mean in means], dtype=np.int64)
    exact = [ClopperPearson(rows=ROWS, training=ROWS)] * len(means)
    return Evaluations(
        totals, np.full(len(means), -1), ROWS, mechanism.unit, procedures=exact, seen=[None] * len(means), silent=silent
    )


@pytest.mark.parametrize(("queries", "first"), [(1, 0), (7, 0), (7, 7), (7, 1), (1_275, 50), (3, 2)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_shares_of_all_planned_queries_are_the_probability_of_failure(queries, first, confidence):
    mechanism = Silent(rows=ROWS, queries=queries, first=first, confidence=confidence)
    levels = np.exp(-mechanism.nats(np.arange(1, queries + 1)))
    assert math.fsum(levels) == pytest.approx(1.0 - confidence, rel=1e-12)
    if 0 < first < queries:
        assert math.fsum(levels[:first]) == pytest.approx((1.0 - confidence) / 2.0, rel=1e-12)


def test_nothing_is_told_and_the_interval_is_that_of_the_procedure_at_its_level():
    mechanism = Silent(rows=ROWS, queries=5, first=2)
    state, replies = mechanism.answer_many(State(), asked(mechanism, [0.3] * 4), SeededNoise(0))
    assert state == State(asked=4)
    assert np.all(replies.sources == Source.SILENT)
    assert np.all(np.isnan([replies.values, replies.lows, replies.highs]))
    for place in range(4):
        exact = ClopperPearson(rows=ROWS, training=ROWS).interval(0.3, float(mechanism.nats(place + 1)))
        wider = (exact[0] - mechanism.rounding, exact[1] + mechanism.rounding)
        np.testing.assert_allclose(replies.sealed[place], [0.3, *wider], rtol=0, atol=1e-15)
    assert replies.sealed[2, 2] > replies.sealed[1, 2]  # there are three others, and two first ones


def test_a_batch_equals_the_loop_and_the_plan_ends_it():
    mechanism, means = Silent(rows=ROWS, queries=3, first=1), [0.1, 0.5, 0.9, 0.2]
    whole, together = mechanism.answer_many(State(), asked(mechanism, means), SeededNoise(0))
    state, one_by_one = State(), []
    for mean in means:
        state, replies = mechanism.answer_many(state, asked(mechanism, [mean]), SeededNoise(0))
        one_by_one.append(replies.sealed[0])
    assert state == whole == State(asked=3)
    np.testing.assert_array_equal(together.sealed, one_by_one)
    assert together.sources[3] == Source.REFUSED
    assert (mechanism.remaining(whole), mechanism.quote(whole).refused) == ({"queries": 0}, True)


def test_what_is_asked_aloud_is_refused_before_the_look():
    mechanism = Silent(rows=ROWS, queries=3)
    state, replies = mechanism.answer_many(State(), asked(mechanism, [0.4], silent=False), SeededNoise(0))
    assert (state, replies.sources.tolist()) == (State(), [Source.REFUSED])
    assert mechanism.surely_answers(State(), 3) == 0
    assert mechanism.surely_answers(State(), 5, silent=True) == 3
    quote = mechanism.quote(State())
    assert (quote.radius, quote.charged_at_most, quote.refused) == (None, 0, False)
    assert quote.radius_unsealed == mechanism.promise().radius


@pytest.mark.parametrize("mean", [0.0, 0.02, 0.5, 0.97])
def test_the_promise_is_that_of_any_query_and_the_exact_one_is_narrower(mean):
    mechanism = Silent(rows=10_000, queries=1_275, first=50)
    promise = mechanism.promise()
    for procedure in (ClopperPearson, Chernoff):
        low, high = procedure(rows=10_000, training=10_000).interval(mean, float(mechanism.nats(1_275)))
        assert max(high - mean, mean - low) + mechanism.rounding <= promise.radius
    assert mechanism.expected_radius(0.5) < promise.details["first_queries"] < promise.radius
    assert mechanism.expected_radius(0.5) < 0.018  # fifty teams, ten thousand rows


def test_every_interval_holds_where_one_level_for_each_alone_would_not():
    """400 times 40 queries about as many fair coins; each at the whole level, some interval nearly always misses."""
    rng, mechanism = np.random.default_rng(4), Silent(rows=ROWS, queries=40, first=10)
    exact, missed, alone = ClopperPearson(rows=ROWS, training=ROWS), 0, 0
    for _ in range(400):
        means = rng.binomial(ROWS, 0.5, 40) / ROWS
        _, replies = mechanism.answer_many(State(), asked(mechanism, means), SeededNoise(0))
        missed += bool(np.any((replies.sealed[:, 1] > 0.5) | (replies.sealed[:, 2] < 0.5)))
        low, high = exact.span(means, means, np.full(40, -math.log(mechanism.beta)))
        alone += bool(np.any((low > 0.5) | (high < 0.5)))
    assert missed <= 32  # 20 are allowed on average
    assert alone > 200


def test_counts_that_it_can_have_come_to():
    mechanism = Silent(rows=ROWS, queries=3)
    assert mechanism.accounts.reachable(State(asked=3))
    assert not mechanism.accounts.reachable(State(asked=4))
    assert not mechanism.accounts.reachable(State(asked=2, charged=1))
    assert mechanism.accounts.losable(queries=2, charges=0)
    assert not mechanism.accounts.losable(queries=2, charges=1)
    assert mechanism.accounts.after_loss(State(asked=1), asked=None, charged=None, noise=SeededNoise(0)) == State(
        asked=3
    )


def test_plain_data_and_back_and_no_plan_has_it():
    mechanism = Silent.tuned(rows=ROWS, queries=9, first=3, dependence=Independent())
    data = json.loads(json.dumps(mechanism.to_dict()))
    shared = {name: data[name] for name in ("rows", "queries", "confidence", "unit")}
    assert MECHANISMS[data["mechanism"]](**shared, **data["parameters"]) == mechanism
    assert "silent" not in answering()
    assert not Silent.recommendable()
    for wrong in (-1, 10, 1.5, True):
        with pytest.raises(ValueError, match="first is"):
            Silent(rows=ROWS, queries=9, first=wrong)


def test_a_study_of_silent_queries(tmp_path):
    rng = np.random.default_rng(2)
    rows = {"delay": rng.normal(5.0, 30.0, 2_000), "day": rng.integers(0, 100, 2_000)}
    for name, dependence in (("alone", Independent()), ("grouped", Groups("day"))):
        with eh.Holdout.create(
            tmp_path / f"{name}.db", holdout=rows, mechanism="silent", queries=4, dependence=dependence
        ) as study:
            with pytest.raises(eh.QueryRejected, match="silent=True"):
                study.ask("delay > 15")
            with pytest.raises(eh.QueryRejected, match="answers only when the study is unsealed"):
                study.ask_many(["delay > 15"])
            assert study.ask("delay > 15", silent=True).value is None
            assert [answer.source for answer in study.ask_many(["delay > 0", "delay > 30"], silent=True)] == [
                "silent"
            ] * 2
            assert (study.remaining, study.status()["charged"]) == ({"queries": 1}, 0)
            study.unseal()
            answer = study.ask("delay > 15", silent=True)
            assert answer.sealed_low <= np.mean(rows["delay"] > 15) <= answer.sealed_high
            certificate = study.certificate()
        certificate.save(tmp_path / "c.html")
        assert eh.verify_certificate(tmp_path / "c.html", public_key=certificate.public_key).ok
