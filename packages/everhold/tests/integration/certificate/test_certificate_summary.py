"""The first page says what the facts give, in numbers that its bounds allow, and hides no query."""

import math
import re
from decimal import Decimal

import numpy as np
import pytest
from certificate_samples import SHOWN, make_sample, shown, signed_again, written
from hypothesis import given
from hypothesis import strategies as st

import everhold as eh
from everhold.certificate import verify_certificate
from everhold.certificate.summary import Bounds
from everhold.mechanisms import GuessAndCheck
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.mechanisms.averages import Empirical, SampleSplitting

SENTENCES = {
    "right": ((0.8641, 0.85123, 0.87599), "model B is right 86.4 % of the time, between 85.1 and 87.6 %."),
    "wrong": ((0.1359, 0.12401, 0.14877), "model B is wrong 13.6 % of the time, between 12.4 and 14.9 %."),
    "precision": ((0.5, 0.4, 0.6), "Where model B says yes, it is right 50.0 % of the time, between 40.0 and 60.0 %."),
    "recall": ((0.5, 0.45, 0.55), "model B finds 50.0 % of what there is to find, between 45.0 and 55.0 %."),
    "share": ((0.0, 0.0, 0.0004), "model B: 0.000 %, between 0.000 and 0.040 %."),
    "loss": ((0.18, 0.162, 0.191), "model B loses 0.180 on average, between 0.162 and 0.191; less is better."),
    "mean": ((12345.6, 12301.2, 12399.9), "model B: 12,346 on average, between 12,301 and 12,400."),
    "value": ((-3.25, -3.5, -3.0), "model B: -3.25, between -3.50 and -3.00."),
    "right more": (
        (0.012, 0.003, 0.021), "model B: right 1.2 percentage points more often, between 0.3 and 2.1.",
    ),
    "wrong more": (
        (-0.012, -0.021, -0.003), "model B: wrong 1.2 percentage points less often, between 0.3 and 2.1.",
    ),
    "points": (
        (0.012, -0.003, 0.021),
        "model B: 1.2 percentage points more, between 0.3 less and 2.1 more. "
        "These bounds leave open which of the two is larger.",
    ),
    "loss more": ((-0.25, -0.3, -0.2), "model B: loses 0.25 less on average, between 0.20 and 0.30."),
    "difference": ((3.0, 3.0, 3.0), "model B: 3.000000 more, between 3.000000 and 3.000000."),
}  # fmt: skip


def summary_of(folder, *answers, **wanted):
    return make_sample(folder, answers=answers, **wanted)[0].in_words()["summary"]


@pytest.mark.parametrize(("measure", "said"), SENTENCES.items(), ids=SENTENCES)
def test_every_measure_has_a_sentence_with_its_bounds(tmp_path, measure, said):
    numbers, sentence = said
    assert summary_of(tmp_path, shown(measure=measure, numbers=numbers))["sentences"] == [sentence]


@given(st.lists(st.floats(-1e12, 1e12), min_size=3, max_size=3), st.sampled_from([1, 100]))
def test_bounds_are_rounded_outwards_and_hold_the_value(numbers, scale):
    low, value, high = sorted(numbers)
    bounds = Bounds.of({"low": low, "value": value, "high": high}, scale=scale)
    exact = [Decimal(repr(number)) * scale for number in (low, high)]
    told = [Decimal(text.replace(",", "")) for text in (bounds.low, bounds.value, bounds.high)]
    assert told[0] <= exact[0]
    assert exact[1] <= told[2]
    assert told[0] <= told[1] <= told[2]
    if low < high:
        assert told[2] - told[0] <= max((exact[1] - exact[0]) * Decimal("1.21"), 2)


def test_an_end_that_nothing_bounds_is_infinite():
    bounds = Bounds.of({"low": 0.84999, "value": 1.4, "high": math.inf})
    assert (bounds.value, bounds.high) == ("1.4", "inf")
    assert float(bounds.low) <= 0.84999


def test_numbers_beyond_all_measure_are_shown_in_a_few_digits(tmp_path):
    (sentence,) = summary_of(tmp_path, shown(measure="mean", numbers=(2e20, 1e20, 3e20)))["sentences"]
    assert sentence == "model B: 2e+20 on average, between 100000000000000000000 and 300000000000000000000."


def test_a_confirmed_claim_is_called_one(tmp_path):
    training, guess, taken = summary_of(
        tmp_path, shown(), shown("b", entry=2, source="guess"), shown("c", entry=3, source="holdout")
    )["sources"]
    assert training == "The estimate from the training rows, which the sealed rows confirm to within these bounds."
    assert guess == "The guess of whoever asked, which the sealed rows confirm to within these bounds."
    assert taken == "Taken from the sealed rows, rounded."
    noisy = GaussianMechanism(rows=20_000, queries=10, scale=0.01)
    assert summary_of(tmp_path, shown(source="holdout"), mechanism=noisy)["sources"] == [
        "Taken from the sealed rows, with noise."
    ]


def test_what_was_unsealed_stands_first_and_what_was_told_before_behind_it(tmp_path):
    sealed = {"value": 0.861, "low": 0.856, "high": 0.866}
    summary = summary_of(tmp_path, shown(unsealed=sealed))
    assert summary["sentences"] == ["model B is right 86.1 % of the time, between 85.6 and 86.6 %."]
    assert summary["sources"] == [
        "What the sealed rows themselves say, told when the study was unsealed. Before that it was answered with "
        "86.4 %, between 85.1 and 87.6 %, which holds as well."
    ]
    silent = shown(source="silent", numbers=(None, None, None), unsealed=sealed)
    assert summary_of(tmp_path, silent)["sources"] == [
        "What the sealed rows themselves say, told when the study was unsealed."
    ]


def test_the_standing_best_is_no_score_of_the_submission(tmp_path):
    summary = summary_of(tmp_path, shown(source="standing", numbers=(0.9, 0.0, 0.91)))
    assert summary["sentences"] == [
        "model B did not show itself better than the best before it, which scored 90.0 %; its own value lies between "
        "0.0 and 91.0 %."
    ]


def test_the_number_of_all_queries_is_said_and_that_choosing_is_covered(tmp_path):
    assert summary_of(tmp_path)["asked"].startswith("5 queries were asked in all; no answer is shown here. ")
    said = summary_of(tmp_path, *SHOWN)["asked"]
    assert said.startswith("5 queries were asked in all; 3 answers are shown here. ")
    assert "the probability is that of all bounds at once, shown or not" in said


def test_the_promise_says_whether_queries_may_follow_answers(tmp_path):
    follows, fixed = "with all earlier answers in hand", "if all queries were fixed before the first answer was seen"
    assert follows in summary_of(tmp_path)["promise"]
    never = summary_of(tmp_path, mechanism=Empirical(rows=20_000, queries=10))["promise"]
    assert fixed in never
    assert follows not in never
    assert summary_of(tmp_path, simulation=True)["promise"].startswith("Simulation only: ")
    assert "next to nothing" in str(summary_of(tmp_path, mechanism=SampleSplitting(rows=100, queries=100))["found"])


def test_predictions_by_position_and_public_features_are_about_these_rows(tmp_path):
    noise = GaussianMechanism(rows=20_000, queries=10, scale=0.01)
    population = "The true value is that of the population"
    here = "about labels drawn anew on these very 20,000 sealed rows"
    of_both = " ".join(summary_of(tmp_path, shown(by_position=True), SHOWN[1], by_position=1)["means"])
    assert population in of_both
    assert f"The bounds of model B are {here}" in of_both
    assert "all bounds are about labels drawn anew on these rows only" in of_both
    public = " ".join(summary_of(tmp_path, mechanism=noise, features="public")["means"])
    assert f"All bounds are {here}" in public
    assert population not in public


LIES = {
    "a sentence of one's own": (("sentences",), ["model B is always right."], "do not belong there"),
    "bounds the wrong way round": (("answers", 0, "low"), 0.9, "the wrong way round"),
    "more than all": (("answers", 0, "high"), 1.5, "larger than there can be"),
    "an entry that is not there": (("answers", 0, "entries"), [6], "no entry of the ledger"),
    "the entry of another answer": (("answers", 0, "entries"), [2], "the same one as another"),
    "another source": (("answers", 0, "source"), "standing", "more answers of one source"),
    "by position": (("answers", 0, "by_position"), True, "by position are shown than were given"),
    "a name twice": (("answers", 0, "name"), "basket", "have the same name"),
    "unsealed": (("answers", 0, "unsealed"), {"value": 0.5, "low": 0.4, "high": 0.6}, "than were unsealed"),
}


@pytest.mark.parametrize(("path", "lie", "finding"), LIES.values(), ids=LIES)
def test_a_signed_lie_on_the_first_page_is_found(tmp_path, path, lie, finding):
    certificate, key = make_sample(tmp_path, answers=SHOWN)
    lying = certificate.to_dict()
    inside = lying["summary"]
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = lie
    report = verify_certificate(written(tmp_path / "c.json", signed_again(lying, key)), public_key=key.public_key)
    assert any(finding in what for what in report.findings)
    assert not any("altered" in what for what in report.findings)


def test_a_first_page_that_was_cut_away_is_missed(tmp_path):
    document = make_sample(tmp_path, answers=SHOWN)[0].to_dict()
    del document["summary"]
    assert "the section 'summary' is missing" in findings(tmp_path, document)


def findings(folder, document):
    return verify_certificate(written(folder / "c.json", document)).findings


def test_altered_words_of_the_page_are_found(tmp_path):
    certificate, _ = make_sample(tmp_path, answers=SHOWN)
    page = certificate.to_html()
    for old, new in (("86.4 %", "96.4 %"), ("5 queries", "3 queries"), ('cx="', 'cx="1')):
        assert old in page
        (tmp_path / "c.html").write_text(page.replace(old, new, 1), encoding="utf-8")
        assert verify_certificate(tmp_path / "c.html").findings == (
            "the page's text differs from the signed content, from the section 'summary' on",
        )


def bars(page):
    return [tuple(map(float, ends)) for ends in re.findall(r'class="bar" x1="([\d.-]+)%" x2="([\d.-]+)%"', page)]


def test_the_picture_has_a_bar_for_each_answer_on_scales_that_can_be_compared(tmp_path):
    better = shown("model C", entry=4, numbers=(0.9, 0.88, 0.92))
    page = make_sample(tmp_path, GuessAndCheck.tuned(rows=20_000, queries=100), answers=(*SHOWN, better))[0].to_html()
    b, c, against, basket = bars(page)
    assert 0 <= b[0] < b[1] < c[0] < c[1] <= 100  # 85.1 to 87.6 and 88 to 92, on one scale
    assert (b[1] - b[0]) / (c[1] - c[0]) == pytest.approx((0.876 - 0.8512) / 0.04, rel=0.01)
    assert against[0] < float(re.search(r'class="zero" x1="([\d.]+)%"', page)[1]) < against[1]
    assert basket[0] < basket[1]
    assert page.count('class="claim"') == 3
    assert page.count('class="taken"') == 1
    assert "88 %</text>" in page


def test_without_answers_there_is_no_picture(tmp_path):
    page = make_sample(tmp_path)[0].to_html()
    assert "<svg" not in page
    assert '<p class="lead">With probability 95 %, every interval of this holdout' in page


@pytest.mark.parametrize("numbers", [(0.5, 0.5, 0.5), (0.0, 0.0, 0.0), (1e-12, 0.0, 1e-9), (1e300, -1e300, 1e300)])
def test_strange_numbers_are_drawn_without_an_error(tmp_path, numbers):
    certificate, _ = make_sample(tmp_path, answers=[shown(measure="mean", numbers=numbers)])
    certificate.save(tmp_path / "c.html")
    assert verify_certificate(tmp_path / "c.html").ok
    assert all(-1 <= end <= 101 for bar in bars(certificate.to_html()) for end in bar)


def test_the_sentences_are_rows_of_the_certificate(tmp_path):
    rows = make_sample(tmp_path, answers=SHOWN)[0].to_rows()
    assert [row["item"] for row in rows[:3]] == ["model B", "model B against model A", "basket"]
    assert rows[0]["section"] == "In plain words"


def test_without_a_choice_the_first_page_begins_with_the_last_answers(tmp_path):
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=4_000), "late": rng.integers(0, 2, 4_000)}
    terms = {"label": "late", "queries": 50, "mechanism": "guess_and_check"}
    eh.Holdout.create(tmp_path / "s.db", "first", holdout=rows, **terms).close()
    with eh.Holdout.create(tmp_path / "s.db", "again", holdout=rows, allow_resealing=True, **terms) as holdout:
        for number in range(8):
            holdout.ask(f"x > {number / 4}", guess=0.5)
        holdout.ask(eh.accuracy(rows["x"] > 0), guess=0.5)
        holdout.gate("accuracy", champion="x > 0").challenge("x > 1")
        certificate = holdout.certificate()
        assert holdout.certificate(queries=False).to_dict()["summary"]["answers"] == []
    certificate.save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json").ok
    summary = certificate.in_words()["summary"]
    assert [fact["entries"] for fact in summary["answers"]] == [[entry] for entry in range(2, 10)]
    assert summary["sentences"][0].startswith("x > 0.25: ")
    assert summary["sentences"][-1].startswith("The model of entry 9 is right ")
    page = certificate.to_html()
    first = page[page.index('id="everhold-summary"') : page.index('id="everhold-promise"')]
    places = [
        first.index(text)
        for text in ("x &gt; 0.25: ", "With probability", "the holdout &#x27;first&#x27;", "Signed at")
    ]
    assert places == sorted(places)
    assert not re.search(r"[0-9a-f]{8}", first)
