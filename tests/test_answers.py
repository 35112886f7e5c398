"""What an analyst gets, in numbers and in words."""

import dataclasses

import pytest

from everhold.answers import Answer

ANSWER = Answer(0.5, 0.4, 0.6, "training", 0, {"questions": 1_999, "overfits": 2}, "ab" * 32, False, "S3", 0.95)
REFUSED = dataclasses.replace(ANSWER, value=None, low=None, high=None, source="refused")


def test_the_stable_form_has_exactly_these_names():
    assert list(ANSWER.to_dict()) == ["value", "low", "high", "source", "charged", "remaining", "question"]


def test_one_line_says_it_all():
    assert str(ANSWER) == "0.5 in [0.4, 0.6], from training, charged 0, 1,999 questions and 2 overfits left"
    assert str(REFUSED) == "refused: the budget is spent (1,999 questions and 2 overfits left)"


@pytest.mark.parametrize("source", ["training", "guess", "holdout"])
def test_every_source_is_explained(source):
    words = dataclasses.replace(ANSWER, source=source).explain()
    assert "probability 95%" in words
    assert "[0.4, 0.6]" in words
    assert "S3" in words
    assert "refused" in REFUSED.explain()


def test_an_answer_cannot_be_altered():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ANSWER.value = 1.0
