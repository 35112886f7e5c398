"""What is told of a ledger to whoever follows it: which entries there are and how much is left, and no value."""

from dataclasses import fields

import holdout_samples
import pytest

from everhold.asking.reports.holdout_ledger import Count, LedgerEvent


@pytest.fixture
def holdout(tmp_path):
    with holdout_samples.copied(tmp_path) as made:
        yield made


def test_entries_are_told_from_where_one_stood(holdout):
    for number in range(5):
        holdout.ask(f"delay > {number}")
    found = holdout.ledger.events(2, limit=2)
    assert ([each.sequence for each in found.events], found.sequence) == ([3, 4], 4)
    assert [each.sequence for each in holdout.ledger.events(found.sequence).events] == [5]
    assert (holdout.ledger.events(5).events, holdout.ledger.events(5).sequence) == ([], 5)


def test_an_entry_is_told_without_what_it_says(holdout):
    answer = holdout.ask("delay > 15", guess=0.99)
    (happening,) = holdout.ledger.events().events
    assert (happening.query, happening.source) == (answer.query, "holdout")
    assert {field.name for field in fields(LedgerEvent)} == {"sequence", "query", "at", "source", "analyst", "gate"}
    assert str(answer.value) not in repr(happening)


def test_analysts_and_gates_are_named(holdout):
    holdout.allot("ada", queries=10, charges=1)
    holdout.analyst("ada").ask("delay > 15")
    holdout.gate("accuracy", champion="delay > 0", name="nightly").challenge("delay > 10")
    allotment, asked, opened, challenged = holdout.ledger.events().events
    assert (allotment.source, asked.source, asked.analyst) == ("allotment", "training", "ada")
    assert (opened.gate, challenged.gate, challenged.analyst) == ("nightly", "nightly", None)
    assert {opened.source, challenged.source} <= {"gate", "promoted", "kept"}


def test_what_is_left_is_told_of_the_whole_and_of_each_allotment(holdout):
    before = holdout.remaining
    holdout.allot("ada", queries=10, charges=1)
    holdout.analyst("ada").ask("delay > 15")
    whole = [Count(name, left, before[name]) for name, left in holdout.remaining.items()]
    assert whole[0] == Count("queries", 59, 60)
    assert list(holdout.ledger.events(2).counts) == [
        *whole,
        Count("queries", 9, 10, "ada"),
        Count("charges", 1, 1, "ada"),
    ]


def test_the_end_is_told(holdout):
    holdout.ask("delay > 15")
    assert not holdout.ledger.events().closed
    holdout.unseal()
    found = holdout.ledger.events()
    assert (found.closed, found.events[-1].source) == (True, "unsealing")
