"""A query that was answered before its family was declared is told exactly when it is asked again."""

import numpy as np
import pytest

import everhold as eh

ROWS = 2_000
ASKED = ["x > 0.5", eh.mean("x > 0", given="g = 'a'"), eh.difference("x > 0", "x > 0.1")]


def rows(seed):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=ROWS), "g": rng.choice(list("ab"), ROWS).astype(object)}


@pytest.fixture
def holdout(tmp_path):
    with eh.Holdout.create(f"sqlite:///{tmp_path}/a.db", "a", holdout=rows(0), training=rows(1), queries=100) as made:
        yield made


def test_members_are_told_exactly_although_the_tree_answered_them(holdout, tmp_path):
    before = [holdout.ask(query) for query in ASKED]
    holdout.declare("these", eh.listed(ASKED))
    left = holdout.remaining
    quotes = [holdout.quote(query) for query in ASKED]
    after = [holdout.ask(query) for query in ASKED]
    assert [answer.source for answer in before] == ["training"] * 3
    assert [answer.source for answer in after] == ["declared"] * 3
    for first, quote, last in zip(before, quotes, after, strict=True):
        assert last.high - last.low < first.high - first.low
        assert (last.high - last.low) / 2 <= (quote.radius_if_charged or quote.radius) + 1e-9
        assert not last.repeated
    again = holdout.ask_many([ASKED[0]]) + [holdout.ask(query) for query in ASKED]
    assert all(answer.repeated for answer in again)
    assert [answer.low for answer in again[1:]] == [answer.low for answer in after]
    assert holdout.remaining == left
    holdout.certificate().save(tmp_path / "a.json")
    assert eh.verify_certificate(tmp_path / "a.json").ok
    assert len(holdout.unseal().to_dict()["entries"]) == 6


def test_a_silent_query_stays_silent(holdout):
    holdout.ask(ASKED[0], silent=True)
    holdout.declare("these", eh.listed(ASKED))
    assert holdout.ask(ASKED[0]).source == "silent"
