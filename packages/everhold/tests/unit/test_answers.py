"""What an analyst gets, in numbers and in words."""

import dataclasses

import pytest

from everhold.answers import PUBLIC_FEATURES, Answer, QuotedPrice

ANSWER = Answer(0.5, 0.4, 0.6, "training", 0, {"queries": 1_999, "surprises": 2}, "ab" * 32, False, "S3", 0.95)
REFUSED = dataclasses.replace(ANSWER, value=None, low=None, high=None, source="refused")


def test_the_stable_form_has_exactly_these_names():
    assert list(ANSWER.to_dict()) == ["value", "low", "high", "source", "charged", "remaining", "query"]


def test_one_line_says_it_all():
    assert str(ANSWER) == "0.5 in [0.4, 0.6], from training, charged 0, 1,999 queries and 2 surprises left"
    assert str(REFUSED) == "refused: what is left may not cover it (1,999 queries and 2 surprises left)"


@pytest.mark.parametrize("source", ["training", "guess", "holdout"])
def test_every_source_is_explained(source):
    words = dataclasses.replace(ANSWER, source=source).explain()
    assert "probability 95 %" in words
    assert "[0.4, 0.6]" in words
    assert "S3" in words
    assert "refused" in REFUSED.explain()


def test_an_answer_cannot_be_altered():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ANSWER.value = 1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "within 0.1 if the guess holds, else 0.2, costs 0 if the guess holds, else 1, 9 queries left"),
        ({"radius": None, "charged_if_confirmed": 1}, "within 0.2, costs 1, 9 queries left"),
        (
            {"radius_if_charged": None, "charged_if_confirmed": 1},
            "within 0.1 if the sealed rows spread as expected, costs 1, 9 queries left",
        ),
        ({"bits": 8.0}, "within 0.1 if the sealed rows spread as expected, declared in 8.0 bits, free"),
        (
            {"answered_before": True, "charged_at_most": 0},
            "within 0.1, free, because it was answered before, 9 queries left",
        ),
        ({"refused": True, "radius": None}, "would be refused: what is left does not pay for it (9 queries left)"),
    ],
)
def test_a_price_is_one_line(changes, words):
    price = QuotedPrice(None, 0.1, 0.2, 0, 1, False, False, {"queries": 9})
    assert str(dataclasses.replace(price, **changes)).startswith(words)


def test_credits_are_what_makes_an_answer_of_a_budget_narrower():
    assert "tolerance=" in dataclasses.replace(ANSWER, source="holdout", remaining={"credits": 5}).explain()
    assert "tolerance=" not in ANSWER.explain()


@pytest.mark.parametrize("changes", [{}, {"source": "silent", "value": None, "low": None, "high": None}])
@pytest.mark.parametrize("source", ["training", "guess", "holdout"])
def test_what_is_about_labels_drawn_anew_is_never_said_to_be_about_the_population(source, changes):
    words = dataclasses.replace(ANSWER, **{"source": source, "about": PUBLIC_FEATURES, **changes}).explain()
    assert "population's" not in words
    assert f"is the one for {PUBLIC_FEATURES}, and not for new rows" in words
