"""Answers that a certificate shows: only what the ledger holds, in the direction in which it was asked."""

from dataclasses import replace

import numpy as np
import pytest
from holdout_samples import ROWS, copied, create, guess_and_check, rows

import everhold as eh
from everhold.certificate import verify_certificate
from everhold.errors import QueryRejected
from everhold.mechanisms import MECHANISMS, answering


@pytest.fixture
def holdout(tmp_path):
    with copied(tmp_path, mechanism=guess_and_check(surprises=6, tolerance=0.25)) as made:
        yield made


def predictions(seed):
    return np.random.default_rng(seed).integers(0, 2, ROWS)


def first(certificate):
    (fact,) = certificate.to_dict()["summary"]["answers"]
    return fact


def numbers(fact):
    return fact["value"], fact["low"], fact["high"]


def scored(metric, seed):
    """A metric of predictions, those for the training rows included."""
    return metric(predictions(seed), training=predictions(seed + 10))


QUERIES = {
    "right": scored(eh.accuracy, 1),
    "wrong": scored(eh.error, 1),
    "loss": scored(eh.brier, 1),
    "share": eh.mean("delay > 15"),
    "mean": eh.mean("delay", low=-100, high=100),
    "right more": eh.difference(scored(eh.accuracy, 1), scored(eh.accuracy, 2)),
    "wrong more": eh.difference(scored(eh.error, 2), scored(eh.error, 1)),
    "points": eh.difference("delay > 15", "delay > 20"),
    "loss more": eh.difference(scored(eh.brier, 1), scored(eh.brier, 2)),
    "difference": eh.difference(eh.mean("delay", low=0, high=9), eh.mean("delay", low=1, high=10)),
    "precision": scored(eh.precision, 1),
    "recall": scored(eh.recall, 1),
}


@pytest.mark.parametrize(("measure", "query"), QUERIES.items(), ids=QUERIES)
def test_an_answer_its_query_and_its_ids_are_shown_alike(holdout, measure, query):
    answer = holdout.ask(query)
    facts = [
        first(holdout.certificate({"it": choice})) for choice in (answer, query, 1, answer.query, answer.query[:8])
    ]
    for fact in facts:
        assert fact["measure"] == measure
        assert numbers(fact) == pytest.approx((answer.value, answer.low, answer.high), abs=1e-6)
        assert fact["low"] <= answer.low + 1e-12
        assert fact["high"] >= answer.high - 1e-12
        assert (fact["query"], fact["entries"], fact["source"]) == (answer.query, [1], answer.source)
        assert fact["asked"] == "; ".join(filter(None, (answer.shown, answer.clipped)))
    assert numbers(facts[1]) == (answer.value, answer.low, answer.high)


@pytest.mark.parametrize(("asked", "told"), [("right", "wrong"), ("wrong", "right")])
def test_an_error_is_shown_as_it_was_told_though_the_ledger_holds_an_accuracy(holdout, asked, told):
    holdout.ask(QUERIES[asked])
    other = holdout.ask(QUERIES[told])
    assert other.repeated
    for choice in (other, QUERIES[told]):
        fact = first(holdout.certificate({"it": choice}))
        assert (fact["measure"], numbers(fact)) == (told, (other.value, other.low, other.high))
    assert first(holdout.certificate({"it": 1}))["measure"] == asked


def test_a_difference_that_is_told_the_other_way_round_says_no_more_than_its_sign(holdout):
    better = eh.difference(scored(eh.accuracy, 1), scored(eh.accuracy, 2))
    worse = eh.difference(scored(eh.accuracy, 2), scored(eh.accuracy, 1))
    answer, turned = holdout.ask(better), holdout.ask(worse)
    fact = first(holdout.certificate({"it": turned}))
    assert (fact["measure"], fact["value"]) == ("points", turned.value)
    assert turned.value == pytest.approx(-answer.value)
    assert first(holdout.certificate({"it": worse}))["measure"] == "right more"


def test_what_is_made_of_several_is_shown_by_its_query(holdout):
    query = eh.variance("delay", low=-100, high=100)
    answer = holdout.ask(query)
    fact = first(holdout.certificate({"spread": query}))
    assert numbers(fact) == (answer.value, answer.low, answer.high)
    assert (fact["measure"], fact["entries"]) == ("value", [1, 2])
    with pytest.raises(QueryRejected, match=r"has several parts\. Pass its query"):
        holdout.certificate({"spread": answer})


def test_without_names_answers_go_by_their_queries(holdout):
    answers = [holdout.ask("delay > 1"), holdout.ask("delay > 2")]
    shown = holdout.certificate(answers).to_dict()["summary"]["answers"]
    assert [fact["name"] for fact in shown] == ["delay > 1", "delay > 2"]


def test_a_query_with_a_guess_of_its_own_is_found_without_it(holdout):
    query = eh.accuracy(predictions(1))
    answer = holdout.ask(query, guess=0.5)
    assert numbers(first(holdout.certificate({"it": query}))) == (answer.value, answer.low, answer.high)


def test_a_text_is_the_query_that_was_asked(holdout):
    holdout.ask("delay > 15")
    assert first(holdout.certificate({"late": "delay>15"}))["entries"] == [1]


def refused(holdout, choice, match):
    asked, charged = holdout.status()["queries_asked"], holdout.status()["charged"]
    with pytest.raises(QueryRejected, match=match):
        holdout.certificate({"it": choice})
    assert (holdout.status()["queries_asked"], holdout.status()["charged"]) == (asked, charged)


def test_only_answers_of_this_ledger_are_shown(tmp_path, holdout):
    answer = holdout.ask("delay > 15")
    refused(holdout, replace(answer, value=answer.value + 0.01), "differs from the one in the ledger")
    refused(holdout, replace(answer, low=answer.low + 0.01), "differs from the one in the ledger")
    refused(holdout, replace(answer, query="0" * 64), "belongs to another holdout")
    refused(holdout, "delay > 16", "was not asked yet")
    refused(holdout, eh.variance("delay", low=0, high=1), "was not asked yet")
    refused(holdout, 0, "has no entry 0. Pass a number from 1 to 1")
    refused(holdout, 2, "has no entry 2")
    refused(holdout, -1, "has no entry -1")
    refused(holdout, "00000000", "belongs to 0 entries")
    refused(holdout, object(), "is no query|expected")
    with create(tmp_path, "other", holdout=rows(5)) as other:
        refused(other, answer, "belongs to another holdout")


def test_acts_challenges_and_histograms_are_no_numbers(holdout):
    gate = holdout.gate(eh.accuracy, champion=predictions(1), training=predictions(2))
    gate.challenge(predictions(3), training=predictions(4))
    for number in (1, 2):
        refused(holdout, number, "has no numeric answer")
    histogram = eh.histogram("carrier", ["AA", "UA"])
    bins = holdout.ask(histogram)
    refused(holdout, histogram, "single answers of a histogram")
    assert first(holdout.certificate({"AA": bins["AA"]}))["measure"] == "share"


def test_a_choice_is_no_number(tmp_path):
    mechanism = MECHANISMS["privacy_budget"].tuned(rows=ROWS, queries=20)
    with create(tmp_path, mechanism=mechanism, allow_vacuous=True) as holdout:
        query = eh.private_choose(["delay > 1", "delay > 2"])
        holdout.ask(query)
        refused(holdout, query, "no single number")
        refused(holdout, 1, "has no numeric answer")


def test_what_was_asked_silently_is_shown_only_when_it_was_told(holdout):
    holdout.ask("delay > 15", silent=True)
    openly = holdout.ask("delay > 45")
    refused(holdout, 1, "its query was silent")
    refused(holdout, "delay > 15", "its query was silent")
    holdout.unseal()
    silent = holdout.ask("delay > 15")
    told = first(holdout.certificate({"it": 1}))
    assert told["unsealed"] == {"value": silent.sealed, "low": silent.sealed_low, "high": silent.sealed_high}
    assert numbers(told) == (None, None, None)
    before = first(holdout.certificate({"it": openly}))  # an answer from before the end shows what was unsealed
    assert numbers(before) == (openly.value, openly.low, openly.high)
    assert before["unsealed"]["high"] - before["unsealed"]["low"] < openly.high - openly.low


@pytest.mark.parametrize(
    "name", ["", " x", "x ", "a  b", "a\nb", "x" * 101, "\ud800", 7, "B is right 99 % by proof", "Best. Model A"]
)
def test_names_that_cannot_be_used(holdout, name):
    holdout.ask("delay > 15")
    with pytest.raises(ValueError, match=r"Pass 1 to 100 printable characters"):
        holdout.certificate({name: 1})


def test_an_answer_is_shown_once(holdout):
    answer = holdout.ask("delay > 15")
    with pytest.raises(ValueError, match="have the same query"):
        holdout.certificate({"a": answer, "b": 1})
    with pytest.raises(ValueError, match="a dict from names to answers"):
        holdout.certificate("delay > 15")
    with pytest.raises(ValueError, match="at most 50"):
        holdout.certificate([1] * 51)


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
@pytest.mark.parametrize("name", answering())
def test_every_mechanism_shows_its_answers(tmp_path, name):
    with create(tmp_path, mechanism=name, queries=10, surprises=2, allow_vacuous=True) as holdout:
        answers = holdout.ask_many(["delay > 15", "delay > -1e9", "delay > 1e9", "carrier = 'AA'"])
        answers += [holdout.ask("delay > 30", guess=1.0)]
        chosen = {answer.shown: answer for answer in answers if not answer.refused}
        certificate = holdout.certificate(chosen)
    certificate.save(tmp_path / "c.html")
    report = verify_certificate(tmp_path / "c.html", public_key=certificate.public_key)
    assert report.findings == ()
    assert len(certificate.in_words()["summary"]["sentences"]) == len(chosen) > 2
