"""A member that was asked before as another query, told or silently, is told exactly when it is asked again."""

import numpy as np
import pytest

import everhold as eh
from everhold.ledger import verify

ROWS = 2_000
ASKED = ["x > 0.5", eh.mean("x > 0", given="g = 'a'"), eh.difference("x > 0", "x > 0.1")]


def rows(seed):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=ROWS), "g": rng.choice(list("ab"), ROWS).astype(object)}


def created(folder):
    declared = {"declared": eh.listed(ASKED)} if folder.name in ("first", "second") else {}
    return eh.Holdout.create(
        f"sqlite:///{folder}/a.db", "a", holdout=rows(0), training=rows(1), queries=100, **declared
    )


@pytest.fixture
def holdout(tmp_path):
    with created(tmp_path) as made:
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


def test_members_that_were_asked_silently_are_told_openly(holdout, tmp_path):
    silent = [holdout.ask(query, silent=True) for query in ASKED]
    assert [answer.source for answer in silent] == ["silent"] * 3
    holdout.declare("these", eh.listed(ASKED))
    left, quoted = holdout.remaining, holdout.quote(ASKED[0])
    assert (quoted.answered_before, quoted.charged_at_most, quoted.bits is None) == (False, 0, False)
    told = [*holdout.ask_many(ASKED[:1]), holdout.ask(ASKED[1]), *holdout.ask_many(ASKED[2:], reveal="all")]
    assert [(answer.source, answer.charged, answer.repeated) for answer in told] == [("declared", 0, False)] * 3
    assert holdout.ask(ASKED[0]).low == told[0].low
    assert [holdout.ask(query, silent=True).source for query in ASKED] == ["silent"] * 3
    assert holdout.remaining == left
    assert [row["source"] for row in holdout.transcript().to_rows()] == ["silent"] * 3 + ["declared"] * 3
    holdout.certificate().save(tmp_path / "a.json")
    assert eh.verify_certificate(tmp_path / "a.json").ok
    executor = holdout._executor
    assert not verify(executor.store, "a", seal_key=executor.key.seal_key, head_file=executor.ledger.head_file).findings
    unsealed = holdout.unseal().to_rows()
    assert holdout.ask(ASKED[0]).value == told[0].value
    assert [row["sealed"] for row in unsealed[:3]] == [row["sealed"] for row in unsealed[3:]]


def test_what_is_told_openly_is_what_was_told_without_the_silence(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with created(tmp_path / "first") as one, created(tmp_path / "second") as other:
        one.ask(ASKED[0], silent=True)
        for holdout in (one, other):
            holdout.ask("x > 2")
        assert one.ask(ASKED[0]).low == other.ask(ASKED[0]).low
        assert one.ask("x > 1").low < other.ask("x > 1").low  # the silent one took its place in the plan


def test_after_the_end_a_silent_query_tells_its_sealed_numbers(holdout):
    holdout.ask(ASKED[0], silent=True)
    holdout.declare("these", eh.listed(ASKED))
    holdout.unseal()
    told = holdout.ask(ASKED[0])
    assert told.source == "silent"
    assert told.sealed_low < told.sealed < told.sealed_high
