"""Widths of coming answers, as the status shows them."""

import json

import pytest
from holdout_samples import copied, create, guess_and_check

import everhold as eh
from everhold import GuessAndCheck
from everhold.asking.reports.status import AHEAD, Worth


@pytest.fixture
def holdout(tmp_path):
    tuned = GuessAndCheck.tuned(rows=1_000, queries=100, surprises=2)
    with copied(tmp_path, mechanism=tuned, declared={"ends": eh.listed(["late = 1", "delay > 60"])}) as made:
        yield made


def worth(holdout):
    return {row["query"]: row for row in holdout.status()["worth"]}


def test_the_status_says_what_each_kind_of_query_is_worth_now_and_later(holdout):
    rows = worth(holdout)
    assert list(rows) == [
        "not declared, guess confirmed", "not declared, a surprise", "not declared, unsealed", "member of 'ends'",
        "text of 20 bits, if texts are declared",
    ]  # fmt: skip
    assert all(row["now"] <= row["later"] for row in rows.values())
    assert json.loads(json.dumps(holdout.status()["worth"])) == holdout.status()["worth"]


def test_the_width_of_a_member_never_changes_and_that_of_others_is_what_is_then_told(holdout):
    before = worth(holdout)
    quoted = holdout.quote("delay > 0", guess=0.5).radius_if_charged
    assert before["not declared, a surprise"]["now"] == pytest.approx(quoted)
    for cut in range(AHEAD):
        assert holdout.ask(f"delay > {cut}", guess=0.01).charged == 1
    after = worth(holdout)
    assert after["member of 'ends'"] == before["member of 'ends'"]
    later = before["not declared, unsealed"]["later"]
    assert after["not declared, unsealed"]["now"] == pytest.approx(later, rel=0.05)


def test_texts_that_are_declared_have_their_own_width(holdout):
    before = worth(holdout)["text of 20 bits, if texts are declared"]["now"]
    holdout.declare("texts", eh.texts(40))
    assert worth(holdout)["text of 20 bits, declared as 'texts'"]["now"] == pytest.approx(before)


def test_the_picture_has_two_bars_for_each_kind(holdout):
    lines = str(Worth(holdout.status()["worth"])).splitlines()
    assert "after 5 more surprises" in lines[0]
    assert len(lines) == 6
    assert all(line.count("±") == 2 and "█" in line for line in lines[1:])


def test_members_alone_are_answered_after_unsealing_and_other_mechanisms_show_nothing(holdout, tmp_path):
    holdout.ask("delay > 0")
    holdout.unseal()
    assert list(worth(holdout)) == ["member of 'ends'"]
    (folder := tmp_path / "other").mkdir()
    with create(folder, mechanism="gaussian", queries=5, allow_vacuous=True) as other:
        assert "worth" not in other.status()


def test_what_is_refused_is_said(tmp_path):
    with create(tmp_path, mechanism=guess_and_check(surprises=1)) as ending:
        assert "refused" in str(Worth(ending.status()["worth"]))


def test_families_of_another_process_are_noticed_with_the_status(tmp_path):
    with create(tmp_path) as one, eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "study") as other:
        one.declare_all({"ends": eh.listed(["late = 1", "delay > 60"])})
        other.status()
        assert other.ask("late = 1").source == "declared"
        before = one.status()
        with pytest.raises(eh.QueryRejected, match="listed twice"):
            one.declare_all({"texts": eh.texts(40), "twice": eh.listed(["delay > 1", "delay>1"])})
        assert one.status() == before
