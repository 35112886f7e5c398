"""Which events follow from a ledger: each once, and none with a value."""

import pytest

pytest.importorskip("fastapi")

from everhold.asking.news import Count, Happening, News
from everhold.service.webhooks.happenings import Kind, events_of


def news(*sources, counts=(), closed=False):
    happened = [
        Happening(number, "0" * 64, "2026-01-31T12:00:00", source, "ada", "g" if source == "promoted" else None)
        for number, source in enumerate(sources, 1)
    ]
    return News(len(sources), happened, counts, closed)


def kinds(found, told=()):
    events, reached = events_of("study", found, told=told)
    return [event.kind for event in events], reached


def test_only_what_came_from_the_sealed_rows_is_an_answer_released():
    sources = ["training", "guess", "silent", "standing", "kept", "allotment", "gate", "submission", "holdout"]
    (event,), _ = events_of("study", news(*sources), told=())
    assert (event.kind, event.at) == (Kind.ANSWER, "2026-01-31T12:00:00")
    assert event.facts == {"holdout": "study", "sequence": 9, "question": "0" * 64, "analyst": "ada"}


def test_a_promotion_and_the_end_are_told():
    events, _ = events_of("study", news("promoted", "unsealing"), told=())
    assert [event.kind for event in events] == [Kind.LEADER, Kind.UNSEALED]
    assert events[0].facts["gate"] == "g"


@pytest.mark.parametrize(
    ("left", "expected"), [(11, []), (10, [Kind.LOW]), (1, [Kind.LOW]), (0, [Kind.LOW, Kind.SPENT])]
)
def test_a_count_is_low_from_a_tenth_on(left, expected):
    assert kinds(news(counts=[Count("questions", left, 100)]))[0] == expected


def test_a_count_is_told_once_and_again_after_it_was_raised():
    low, high = (news(counts=[Count("questions", left, 100, "ada")]) for left in (5, 50))
    first, told = kinds(low)
    again, told = kinds(low, told)
    assert (first, again) == ([Kind.LOW], [])
    _, told = kinds(high, told)
    assert kinds(low, told)[0] == [Kind.LOW]


def test_each_count_and_each_analyst_is_told_of():
    counts = [Count("questions", 5, 100), Count("overfits", 0, 3), Count("questions", 1, 20, "ada")]
    events, _ = events_of("study", news(counts=counts), told=())
    assert [(event.kind, event.facts["count"], event.facts.get("analyst")) for event in events] == [
        (Kind.LOW, "questions", None), (Kind.LOW, "overfits", None), (Kind.SPENT, "overfits", None),
        (Kind.LOW, "questions", "ada"),
    ]  # fmt: skip


def test_a_study_that_is_over_has_no_budget_to_be_spent():
    assert kinds(news("unsealing", counts=[Count("questions", 0, 100)], closed=True))[0] == [Kind.UNSEALED]
