"""Queries made of queries, asked of a holdout: all parts or none, one price, one interval that is true."""

import json

import numpy as np
import pytest
from holdout_samples import ROWS, copied, create, guess_and_check, rows

from everhold import BudgetExhausted, Empirical, GaussianMechanism, GuessAndCheck, QueryRejected, Thresholdout, mean
from everhold.mechanisms import State
from everhold.queries.means.distribution import correlation, covariance, histogram, variance
from everhold_privacy.mechanisms.privacy_budget import CREDITS, PrivacyBudget

TRAINED = rows(1)
DELAY = {"low": -60, "high": 60}
UA = mean("delay > 15", given="carrier = 'UA'")
SPREAD = variance("delay", **DELAY)
LINK = correlation("delay", "late = 1", **DELAY)
DERIVED = [UA, SPREAD, variance("late = 1"), covariance("delay", "late = 1", **DELAY), LINK]


@pytest.fixture
def holdout(tmp_path):
    """With room for four surprises at once, whatever each of them tells: a correlation has four parts."""
    with copied(tmp_path, mechanism=guess_and_check(tolerance=0.35)) as made:
        yield made


@pytest.fixture
def alone(tmp_path):
    """Without a training set."""
    with copied(tmp_path, training=None) as made:
        yield made


def clipped(data):
    return np.clip(data["delay"], -60, 60)


def truth(data):
    """The parameters of DERIVED for these rows."""
    delay, late = clipped(data), data["late"]
    return [
        np.mean(data["delay"][data["carrier"] == "UA"] > 15), delay.var(), late.var(),
        np.cov(delay, late, bias=True)[0, 1], np.corrcoef(delay, late)[0, 1],
    ]  # fmt: skip


def test_the_training_estimate_of_the_parameter_is_confirmed_for_nothing(holdout):
    for query, expected in zip(DERIVED, truth(TRAINED), strict=True):
        answer = holdout.ask(query)
        assert answer.value == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert (answer.source, answer.charged, answer.repeated) == ("training", 0, query is LINK)
        assert answer.low < answer.value < answer.high


@pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning")
def test_the_bare_average_of_the_parts_is_that_of_the_sealed_rows(tmp_path):
    with create(tmp_path, mechanism=Empirical(rows=ROWS, queries=30)) as holdout:
        answers = [holdout.ask(query) for query in DERIVED]
        assert [answer.value for answer in answers] == pytest.approx(truth(rows(0)), rel=1e-4, abs=1e-6)
        assert [answer.charged for answer in answers] == [2, 2, 1, 1, 0]  # the rest had been answered before
        assert [answer.repeated for answer in answers] == [False, False, False, False, True]
        assert {answer.source for answer in answers} == {"holdout"}


@pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning", "ignore::everhold.VacuousGuaranteeWarning")
@pytest.mark.parametrize(
    "mechanism",
    [
        Empirical(rows=ROWS, queries=20),
        GaussianMechanism(rows=ROWS, queries=20, scale=0.05),
        GuessAndCheck(rows=ROWS, queries=20, surprises=5, tolerance=0.35, grid=20),
        Thresholdout.tuned(rows=ROWS, queries=20, surprises=5),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_every_mechanism_gives_intervals_that_contain_the_population(tmp_path, mechanism):
    population = truth(rows(2, 400_000))
    with create(tmp_path, mechanism=mechanism, seed=1, allow_vacuous=True) as holdout:
        for query, expected in zip(DERIVED, population, strict=True):
            answer = holdout.ask(query)
            assert answer.low - 0.01 * abs(expected) <= expected <= answer.high + 0.01 * abs(expected)
            assert answer.statement == holdout.promise.statement


def test_a_derived_query_has_its_own_digest_and_its_parts_are_in_the_transcript(holdout):
    answer = holdout.ask(SPREAD)
    listed = [entry["query"] for entry in holdout.transcript().to_rows()]
    assert listed == [part.bind(holdout.schema).query for part in SPREAD.parts(holdout.schema)]
    assert answer.query not in listed
    again = holdout.ask(SPREAD)
    assert (again.query, again.value, again.charged, again.repeated) == (answer.query, answer.value, 0, True)
    assert set(answer.to_dict()) == {"value", "low", "high", "source", "charged", "remaining", "query", "clipped"}
    assert answer.remaining == holdout.remaining


def test_a_part_that_occurs_twice_is_asked_once(holdout):
    twice = covariance("delay", "delay", low=-60, high=60, other_low=-60, other_high=60)
    assert holdout.ask(twice).value == pytest.approx(clipped(TRAINED).var(), rel=1e-4)
    assert len(holdout.transcript()) == 2


def test_a_single_guess_is_rejected_and_guesses_for_the_parts_make_the_whole_free(alone):
    with pytest.raises(QueryRejected, match=r"\(a variance\) takes two queries, so one guess does not fit"):
        alone.ask(SPREAD, guess=100.0)
    with pytest.raises(QueryRejected, match="needs a guess"):
        alone.ask(SPREAD)
    with pytest.raises(QueryRejected, match="one guess does not fit"):
        alone.quote(SPREAD, guess=100.0)
    assert len(alone.transcript()) == 0
    for part, guess in zip(SPREAD.parts(alone.schema), (5.0, 0.2), strict=True):
        alone.ask(part, guess=guess)
    answer = alone.ask(SPREAD)
    assert answer.repeated
    assert answer.value == pytest.approx(120**2 * (0.2 - 65 / 120 * (65 / 120 - 1) - 0.4), rel=0.2)
    assert answer.low < truth(rows(0))[1] < answer.high


# All or nothing -------------------------------------------------------------------------------------------------------


def ask_until(holdout, left):
    """Spend queries on trifles until so many are left."""
    for k in range(holdout.remaining["queries"] - left):
        holdout.ask(f"delay > {k}.5")


@pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning")
@pytest.mark.parametrize(("query", "needed"), [(UA, 2), (SPREAD, 2), (LINK, 4)])
def test_where_the_budget_ends_between_the_parts_none_is_asked(tmp_path, query, needed):
    with create(tmp_path, mechanism=Empirical(rows=ROWS, queries=8)) as holdout:
        ask_until(holdout, needed - 1)
        before = holdout.status()
        refused = holdout.ask(query)
        assert (refused.value, refused.source, refused.charged, refused.repeated) == (None, "refused", 0, False)
        assert "refused" in str(refused)
        assert holdout.status() == before
        assert holdout.quote(query).refused
        with pytest.raises(BudgetExhausted):
            holdout.ask(query, strict=True)
        holdout.ask(query.parts(holdout.schema)[0])  # a part alone can still be had, and then less is needed
        assert holdout.ask(query).value is None if needed > 2 else True


@pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning")
def test_the_last_queries_of_the_budget_can_be_spent_on_all_parts(tmp_path):
    with create(tmp_path, mechanism=Empirical(rows=ROWS, queries=8)) as holdout:
        ask_until(holdout, 4)
        assert holdout.ask(LINK).charged == 4
        assert holdout.remaining == {"queries": 0}
        assert holdout.ask(LINK).repeated  # what was answered stays answered
        assert holdout.ask("delay > 100").source == "refused"
        assert holdout.ask(mean("late = 1", given="delay > 100")).source == "refused"


def test_whether_all_parts_are_answered_is_seen_from_the_public_state():
    """Not from whether the guesses hold: that would tell for nothing that one of them is wrong."""
    mechanism = Thresholdout.tuned(rows=ROWS, queries=20, surprises=2)
    assert mechanism.surely_answers(State(asked=3, charged=0), 2) == 2
    assert mechanism.surely_answers(State(asked=3, charged=1), 2) == 1
    assert mechanism.surely_answers(State(asked=19, charged=0), 2) == 1
    assert mechanism.surely_answers(State(asked=19, charged=2), 2) == 0
    paid = PrivacyBudget.tuned(rows=ROWS, queries=20)
    assert paid.surely_answers(State(asked=3, charged=17 * CREDITS), 3) == 3
    assert paid.surely_answers(State(asked=3, charged=17 * CREDITS + 1), 3) == 2


@pytest.mark.filterwarnings("ignore::everhold.VacuousGuaranteeWarning")
def test_one_surprise_left_refuses_two_parts_whatever_their_guesses_are(tmp_path):
    mechanism = Thresholdout.tuned(rows=ROWS, queries=20, surprises=1)
    for name, training in [
        ("good", {**rows(0), "delay": rows(0)["delay"] + 1e-9}),
        ("bad", {**rows(1), "delay": rows(1)["delay"] + 500.0}),
    ]:
        wanted = {"mechanism": mechanism, "training": training, "seed": 5, "allow_vacuous": True}
        (tmp_path / name).mkdir()
        with create(tmp_path / name, **wanted) as holdout:
            assert holdout.ask(UA).source == "refused"
            assert len(holdout.transcript()) == 0


# Prices ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", DERIVED)
def test_a_quote_is_what_then_happens(holdout, query):
    price = holdout.quote(query)
    assert len(holdout.transcript()) == 0
    answer = holdout.ask(query)
    assert (price.query, price.refused, price.answered_before) == (answer.query, False, False)
    assert answer.charged == price.charged_if_confirmed == 0
    farthest = max(answer.value - answer.low, answer.high - answer.value)
    assert farthest <= price.radius * (1 + 1e-9)
    assert price.charged_at_most == (1 if query is UA else len(query.parts(holdout.schema)))
    again = holdout.quote(query)
    assert (again.answered_before, again.charged_at_most, again.refused) == (True, 0, False)
    if query is not UA:  # one query: what a new one would get
        assert again.radius == pytest.approx(farthest)


@pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning")
def test_parts_that_were_answered_cost_nothing(tmp_path):
    with create(tmp_path, training=None, mechanism=Empirical(rows=ROWS, queries=20)) as holdout:
        first = holdout.quote(LINK)
        assert (first.charged_at_most, first.charged_if_confirmed, first.radius) == (4, 4, None)  # nobody has a guess
        holdout.ask(mean("delay", **DELAY))
        holdout.ask("late = 1")
        assert holdout.quote(LINK).charged_at_most == holdout.ask(LINK).charged == 2


# Histograms -----------------------------------------------------------------------------------------------------------


def test_a_histogram_has_an_answer_for_each_bin(holdout):
    query = histogram("delay", [-20, 0, 20])
    price = holdout.quote(query)
    shares = holdout.ask(query)
    assert (price.charged_if_confirmed, price.charged_at_most, price.refused) == (0, 5, False)
    assert max(answer.high - answer.low for answer in shares.answers.values()) <= 2 * price.radius
    assert holdout.quote(query).answered_before
    expected, _ = np.histogram(TRAINED["delay"], [-np.inf, -20, 0, 20, np.inf])
    rows_of = shares.to_rows()
    assert [row["value"] for row in rows_of] == pytest.approx([*(expected / ROWS), 0.0], abs=1e-3)
    assert [row["bin"] for row in rows_of] == list(query.shares(holdout.schema))
    assert list(rows_of[0]) == ["bin", "value", "low", "high", "source", "charged"]
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows_of)
    assert (len(shares), shares.charged, len(holdout.transcript())) == (5, 0, 5)
    assert shares["missing"].low == 0.0
    assert "below -20" in shares.to_text()
    assert json.loads(json.dumps(shares.to_dict()))["bins"] == rows_of
    with pytest.raises(QueryRejected, match="five queries"):
        holdout.ask(query, guess=0.5)


@pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning")
def test_bins_after_the_end_of_the_budget_are_refused_each_by_itself(tmp_path):
    with create(tmp_path, mechanism=Empirical(rows=ROWS, queries=3)) as holdout:
        shares = holdout.ask(histogram("carrier", ["AA", "UA", "DL"], missing=False))
        assert [row["source"] for row in shares.to_rows()] == ["holdout"] * 3 + ["refused"]
        assert shares.charged == 3
        assert holdout.quote(histogram("delay", [0, 1])).refused
        with pytest.raises(BudgetExhausted):
            holdout.ask(histogram("carrier", ["AA", "UA", "DL"], missing=False), strict=True)
