"""One query walks through the house: identity, price, charge, refusal, repetition."""

import json
import threading

import numpy as np
import pytest
from holdout_samples import ROWS, copied, create, files, guess_and_check, rows

from everhold import (
    BudgetExhausted,
    Empirical,
    GaussianMechanism,
    Holdout,
    HoldoutNotFound,
    QueryRejected,
    SampleSplitting,
    accuracy,
    brier,
    error,
    mean,
    variance,
)
from everhold.queries.query import Query
from everhold.sealing.intake.request import Rows
from everhold.values.evaluation import UNIT

SURPRISES = [f"delay > {k} or delay <= {k}" for k in range(20)]  # always true


@pytest.fixture
def holdout(tmp_path):
    with copied(tmp_path) as made:
        yield made


@pytest.fixture
def alone(tmp_path):
    """Without a training set."""
    with copied(tmp_path, training=None) as made:
        yield made


def surprise(holdout, k=0):
    return holdout.ask(SURPRISES[k], guess=0.0)


def test_a_text_is_answered_by_the_training_estimate(holdout):
    answer = holdout.ask("delay > 15 and carrier = 'UA'")
    trained = rows(1)
    assert answer.value == pytest.approx(np.mean((trained["delay"] > 15) & (trained["carrier"] == "UA")), abs=1e-9)
    assert (answer.source, answer.charged, answer.repeated) == ("training", 0, False)
    assert answer.low < answer.value < answer.high
    assert answer.remaining == holdout.remaining == {"queries": 59, "surprises": answer.remaining["surprises"]}


def test_an_own_guess_goes_before_the_training_estimate(holdout):
    answer = holdout.ask("delay > 15", guess=0.4)
    assert (answer.source, answer.charged) == ("guess", 0)
    assert answer.value == pytest.approx(0.4, abs=1e-9)


def test_a_wrong_guess_is_corrected_and_charged(holdout):
    before = holdout.remaining["surprises"]
    answer = surprise(holdout)
    assert (answer.source, answer.charged, answer.remaining["surprises"]) == ("holdout", 1, before - 1)
    assert answer.low <= 1.0 <= answer.high


@pytest.mark.filterwarnings("ignore::everhold.NonAdaptiveWarning")
def test_a_range_is_clipped_and_missing_numbers_count_as_the_steward_says(tmp_path):
    delay = np.array([np.nan, -500.0, 500.0, 60.0] * 250)
    with create(
        tmp_path,
        training=None,
        holdout={"delay": delay},
        label=None,
        missing=-60.0,
        mechanism=Empirical(rows=ROWS, queries=4),
    ) as holdout:
        assert holdout.ask(mean("delay", low=-60, high=180)).value == pytest.approx((-60 - 60 + 180 + 60) / 4)
        assert holdout.ask(mean("delay > 0")).value == 0.5


def test_accuracy_and_error_are_one_query(holdout):
    predictions = np.arange(ROWS) % 2
    first = holdout.ask(accuracy(predictions, training=predictions))
    second = holdout.ask(error(predictions))
    assert second.query == first.query
    assert (second.repeated, second.charged) == (True, 0)
    assert (second.value, second.low, second.high) == pytest.approx((1 - first.value, 1 - first.high, 1 - first.low))
    assert second.low < second.value < second.high


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.float32, np.float64, bool, object, list])
def test_the_same_predictions_of_any_type_are_one_query(holdout, kind):
    predictions = np.arange(ROWS) % 2
    other = predictions.tolist() if kind is list else predictions.astype(kind)
    first = holdout.ask(accuracy(predictions, training=predictions))
    assert holdout.ask(accuracy(other)).query == first.query


def test_two_spellings_are_one_query_also_in_one_batch(holdout):
    spellings = [
        "delay > 15 and carrier = 'UA'",
        "NOT (delay <= 15.0) AND 'UA' = carrier",
        "( delay>15 )and(carrier='UA')",
    ]
    answers = holdout.ask_many(spellings)
    assert len({answer.query for answer in answers}) == 1
    assert [answer.repeated for answer in answers] == [False, True, True]
    assert len(holdout.transcript()) == 1


def test_a_batch_of_nothing_is_nothing(holdout):
    assert holdout.ask_many([]) == []
    assert len(holdout.transcript()) == 0


def test_a_repeat_needs_no_guess_and_ignores_one(alone):
    first = alone.ask(SURPRISES[0], guess=0.0)
    again, guessed = alone.ask(SURPRISES[0]), alone.ask(SURPRISES[0], guess=0.5)
    assert first.charged == 1
    assert again == guessed
    assert (again.value, again.charged, again.repeated) == (first.value, 0, True)


def test_without_training_rows_and_guess_a_query_is_rejected(alone):
    with pytest.raises(QueryRejected, match=r"needs a guess.*Pass guess=0\.8"):
        alone.ask("delay > 15")
    with pytest.raises(QueryRejected, match="training="):
        alone.ask(accuracy(np.zeros(ROWS)))
    assert len(alone.transcript()) == 0


def test_predictions_for_sealed_rows_only_need_a_guess_although_there_are_training_rows(holdout):
    with pytest.raises(QueryRejected, match="guess"):
        holdout.ask(accuracy(np.zeros(ROWS)))
    assert holdout.ask(accuracy(np.zeros(ROWS)), guess=0.5).source == "guess"


@pytest.mark.parametrize("guess", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_guess_outside_the_range_is_rejected(alone, guess):
    with pytest.raises(QueryRejected, match="the range of the query"):
        alone.ask("delay > 15", guess=guess)
    with pytest.raises(QueryRejected, match=r"Pass a number from -60\.0 to 180\.0"):
        alone.ask(mean("delay", low=-60, high=180), guess=181)
    assert alone.ask(mean("delay", low=-60, high=180), guess=180).charged == 1


@pytest.mark.parametrize("query", [None, 5, b"delay > 1", ["delay > 1"], variance("late = 1")])
def test_what_is_not_a_query_is_rejected(holdout, query):
    said = r"is not answered by one mean .*Ask it alone" if isinstance(query, Query) else "is no query. Pass a text"
    with pytest.raises(QueryRejected, match=said):
        holdout.ask_many([query])


@pytest.mark.parametrize(
    "query",
    [
        "",
        "delay >",
        "unknown > 1",
        "delay",
        "length(carrier) > 1",
        "carrier",
        "late and delay > 1",
        "carrier = '\ud800'",
    ],
)
def test_a_bad_text_is_rejected_and_nothing_recorded(holdout, query):
    with pytest.raises(QueryRejected):
        holdout.ask(query)
    assert len(holdout.transcript()) == 0


def test_one_bad_query_in_a_batch_rejects_all(holdout):
    with pytest.raises(QueryRejected):
        holdout.ask_many(["delay > 1", "unknown > 1"])
    with pytest.raises(QueryRejected, match="2 guesses for 1 queries"):
        holdout.ask_many(["delay > 1"], guesses=[0.5, 0.5])
    assert len(holdout.transcript()) == 0


def spend_all(holdout):
    for k in range(len(SURPRISES)):
        if surprise(holdout, k).source == "refused":
            return k
    raise AssertionError("the budget never ends")


def test_a_spent_budget_refuses_without_charge(alone):
    used = spend_all(alone)
    left = alone.remaining
    refused = alone.ask(SURPRISES[used + 1], guess=1.0)
    assert (refused.value, refused.low, refused.high, refused.source) == (None, None, None, "refused")
    assert (refused.charged, refused.remaining, alone.remaining) == (0, left, left)
    assert left["surprises"] == 0
    assert "refused" in str(refused)
    with pytest.raises(BudgetExhausted):
        alone.ask(SURPRISES[used + 2], guess=1.0, strict=True)
    assert alone.ask(SURPRISES[0], strict=True).charged == 0  # an answer that was given stays
    assert alone.quote().refused


def test_charges_survive_closing(tmp_path):
    with create(tmp_path, training=None) as holdout:
        answers = [surprise(holdout, k) for k in range(2)]
        left = holdout.remaining
    with Holdout.open(f"sqlite:///{tmp_path}/study.db", "study") as again:
        assert again.remaining == left
        assert surprise(again).value == answers[0].value
        assert again.status()["charged"] == 2
        assert again.mechanism == guess_and_check()
        assert again.promise == holdout.promise


def test_quote_asks_nothing_and_tells_what_then_happens(alone):
    price, left = alone.quote(SURPRISES[0], guess=0.0), alone.remaining
    assert len(alone.transcript()) == 0
    answer = surprise(alone)
    assert price.remaining == left
    assert (price.query, price.charged_at_most, price.refused) == (answer.query, answer.charged, False)
    assert (answer.high - answer.low) / 2 <= price.radius_if_charged
    known = alone.quote(SURPRISES[0])
    assert (known.answered_before, known.charged_at_most, known.refused) == (True, 0, False)
    confirmed = alone.quote("delay > 5", guess=0.5)
    answer = alone.ask("delay > 5", guess=0.5)
    assert (answer.charged, answer.source) == (confirmed.charged_if_confirmed, "guess")
    assert (answer.high - answer.low) / 2 <= confirmed.radius
    with pytest.raises(QueryRejected):
        alone.quote("delay > 6")


def test_a_quote_is_in_the_units_of_the_query(alone):
    plain = alone.quote(mean("(delay + 60) / 240", low=0, high=1), guess=0.25)
    wide = alone.quote(mean("delay", low=-60, high=180), guess=0)
    for name in ("radius", "radius_if_charged", "radius_unsealed"):
        assert getattr(wide, name) == pytest.approx(240 * getattr(plain, name))


@pytest.mark.filterwarnings("ignore::everhold.VacuousGuaranteeWarning")
@pytest.mark.parametrize("parts", [1, 3, 7])
def test_sample_splitting_answers_query_i_from_rows_i_modulo_the_parts(tmp_path, parts):
    sealed = rows(0)
    mechanism = SampleSplitting(rows=ROWS, queries=parts)
    with create(tmp_path, mechanism=mechanism, allow_vacuous=True) as holdout:
        for part in range(parts):
            late = sealed["delay"][part::parts] > part
            if part % 2:
                answer = holdout.ask(f"delay > {part}")
            else:
                answer = holdout.ask(mean(lambda table, part=part: table["delay"] > part))
            assert answer.value == pytest.approx(late.mean(), abs=2 / UNIT)
        assert holdout.ask("delay > 99").source == "refused"


def test_a_seed_repeats_and_is_called_a_simulation(tmp_path):
    mechanism = GaussianMechanism(rows=ROWS, queries=10, scale=0.01)
    values = {}
    for name, seed in [("a", 3), ("b", 3), ("c", 4), ("d", None), ("e", None)]:
        with create(tmp_path, name, mechanism=mechanism, seed=seed, allow_resealing=True) as holdout:
            values[name] = [holdout.ask(text).value for text in ("delay > 5", "delay > 6")]
            assert holdout.status()["simulation"] is (seed is not None)
    assert values["a"] == values["b"]
    assert len({values[name][0] for name in "acde"}) == 4


def test_the_noise_of_two_queries_differs_and_a_batch_equals_the_loop(tmp_path):
    mechanism = GaussianMechanism(rows=ROWS, queries=10, scale=0.01)
    with create(tmp_path, "loop", mechanism=mechanism, seed=1) as holdout:
        values = [holdout.ask(text).value for text in SURPRISES[:3]]
    assert len(set(values)) > 1


def test_eight_threads_ask_the_same_and_different_queries(holdout):
    answers, faults = [], []

    def ask(number):
        try:
            answers.extend(holdout.ask(f"delay > {k + (number % 2) * 0.5}") for k in range(4))
            answers.append(holdout.ask(brier(np.full(ROWS, 0.5)), guess=0.25))
            answers.append(holdout.ask(mean(lambda table: table["late"] == 1, name="late")))
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert len(answers) == 48
    assert sum(not answer.repeated for answer in answers) == len({answer.query for answer in answers}) == 10
    assert len({(answer.query, answer.value) for answer in answers}) == 10
    assert holdout.status()["queries_asked"] == 10


def test_status_and_transcript_are_plain_data(holdout):
    surprise(holdout)
    holdout.ask(error(np.zeros(ROWS)), guess=0.5)
    status = json.loads(json.dumps(holdout.status()))
    assert status["queries_asked"] == 2
    assert status["rows"] == ROWS
    assert status["ledger_head"]["sequence"] == 2
    assert len(json.loads(json.dumps(holdout.transcript().to_dict()))["entries"]) == 2


def test_one_column_is_not_both_the_label_and_the_row_id(tmp_path):
    with pytest.raises(ValueError, match=r"both the label and the row id"):
        Holdout.create(tmp_path / "t.db", "t", holdout=rows(0), label="late", rows=Rows(row_id="late"), queries=20)
    assert list(tmp_path.iterdir()) == []


def test_opening_what_is_not_there_creates_nothing(tmp_path):
    with pytest.raises(HoldoutNotFound):
        Holdout.open(f"sqlite:///{tmp_path}/none.db", "study")
    assert files(tmp_path) == []
    create(tmp_path).close()
    with pytest.raises(HoldoutNotFound, match="study"):
        Holdout.open(tmp_path / "study.db", "other")


def test_a_conditional_mean_is_one_query_where_guesses_are_confirmed(holdout):
    answer = holdout.ask(mean("delay > 15", given="carrier = 'UA'"))
    trained = rows(1)
    here = trained["carrier"] == "UA"
    assert answer.value == pytest.approx(np.mean(trained["delay"][here] > 15), abs=1e-6)
    assert answer.low < answer.value < answer.high
    assert len(holdout.transcript()) == 1
    assert holdout.ask(mean("delay > 15", given="carrier = 'UA'"), guess=0.5).repeated
    with pytest.raises(QueryRejected, match=r"'delay' is a number without a known range.*such as 'delay > 0'"):
        holdout.ask(mean("delay", given="late = 1"))
    with pytest.raises(QueryRejected, match=r"is a number, and it has to say which rows count"):
        holdout.ask(mean("late = 1", given="delay"))


def test_a_closed_holdout_is_shown_without_rows(holdout):
    assert repr(holdout) == "Holdout('study', rows=1000, mechanism='guess_and_check')"
