"""Declared families of a holdout whose rows arrive (S14)."""

import numpy as np
import pytest

import everhold as eh
from everhold.errors import HoldoutRejected, QueryRejected

ROWS = 1_000


def rows(seed, number=ROWS):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=number), "g": rng.choice(list("ab"), number).astype(object)}


def create(folder, **more):
    declared = {"texts": eh.texts(60), "rates": eh.subgroups(["g"], of="x > 0")}
    wanted = {"declared": declared, "planning": eh.Planning(grows=True), "training": rows(1), "queries": 50, **more}
    return eh.Holdout.create(f"sqlite:///{folder}/a.db", "a", holdout=rows(0), **wanted)


@pytest.fixture
def holdout(tmp_path):
    with create(tmp_path) as made:
        yield made


def half(answer):
    return (answer.high - answer.low) / 2


def test_members_are_told_about_all_rows_at_one_level(holdout):
    asked = ["x > 0.5", eh.mean("x > 0", given="g = 'a'")]
    before = [holdout.ask(query) for query in asked]
    spent = holdout.remaining
    for arrival in (1, 2):
        holdout.append(rows(10 + arrival, 2_000))
    after = [holdout.ask(query) for query in asked]
    sealed = np.concatenate([rows(0)["x"], rows(11, 2_000)["x"], rows(12, 2_000)["x"]])
    assert after[0].value == np.mean(sealed > 0.5)
    for first, last in zip(before, after, strict=True):
        assert (last.source, last.charged, last.repeated) == ("declared", 0, False)
        assert half(last) < 0.6 * half(first)
    assert holdout.remaining == spent
    assert holdout.ask(asked[0]).repeated
    assert holdout.ask(asked[0], as_of=0).value == before[0].value
    assert holdout.quote(asked[0]).radius >= half(after[0])
    within = {row["name"]: row["within"] for row in holdout.declared.families().to_rows()}
    assert half(after[0]) < within["texts"] < half(before[0])


def test_listed_differences_and_means_are_told_about_all_rows(tmp_path):
    asked = [eh.difference("x > 0", "x > 0.1"), eh.mean("x", low=-3, high=3)]
    with create(tmp_path, declared={"listed": eh.listed(asked)}) as holdout:
        before = [holdout.ask(query) for query in asked]
        holdout.append(rows(2, 4_000))
        sealed = np.concatenate([rows(0)["x"], rows(2, 4_000)["x"]])
        truths = [np.mean((sealed > 0) & (sealed <= 0.1)), np.mean(np.clip(sealed, -3, 3))]
        for query, first, truth in zip(asked, before, truths, strict=True):
            last = holdout.ask(query)
            assert (last.source, last.repeated) == ("declared", False)
            assert last.low < truth < last.high
            assert half(last) < 0.6 * half(first)


def test_a_window_is_no_member(holdout):
    holdout.append(rows(2))
    told = holdout.over_time("x > 0.5").to_rows()
    assert [row["source"] for row in told] == ["training", "training"]


def test_a_family_is_declared_after_arrivals(holdout):
    holdout.append(rows(2))
    left = holdout.remaining["queries"]
    holdout.declare("later", eh.listed(["abs(x) > 1 and g = 'b' or x > 1.23456789 and x < 2.3456789 and g < 'abc'"]))
    assert holdout.remaining["queries"] == left - 1
    holdout.append(rows(3))
    answer = holdout.ask("abs(x) > 1 and g = 'b' or x > 1.23456789 and x < 2.3456789 and g < 'abc'")
    assert answer.source == "declared"


def test_the_certificate_says_that_all_arrivals_have_one_value(holdout, tmp_path):
    holdout.append(rows(2))
    holdout.ask("x > 0.5")
    certificate = holdout.certificate()
    certificate.save(tmp_path / "a.json")
    assert eh.verify_certificate(tmp_path / "a.json").ok
    assert "statement S14" in certificate.to_html()


def test_what_does_not_go_together_is_refused(holdout, tmp_path):
    with pytest.raises(HoldoutRejected, match="use the training rows of the declaration"):
        holdout.append(rows(2), training=rows(3))


def people(seed, count, *, first=0, most=3):
    """Rows of persons, alike in part; some of whom have one row and some more."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, count)
    mood = np.repeat(rng.normal(size=count), sizes)
    person = np.repeat(np.arange(first, first + count), sizes)
    return {**rows(seed, int(sizes.sum())), "x": mood + rng.normal(size=len(person)), "person": person}


def of_groups(folder, **more):
    declared = {
        "texts": eh.texts(40), "rates": eh.subgroups(["g"], of="x > 0"),
        "listed": eh.listed([eh.mean("x", low=-3, high=3), eh.difference("x > 0", "x > 0.1")]),
    }  # fmt: skip
    wanted = {"declared": declared, "training": people(1, 300, first=50_000), "planning": PLANNED, **more}
    return eh.Holdout.create(
        f"sqlite:///{folder}/g.db", "g", holdout=people(0, 600), dependence=eh.Groups("person"), queries=50, **wanted
    )  # fmt: skip


PLANNED = eh.Planning(grows=True, largest_group=4, allow_vacuous=True)
OF_GROUPS = ("x > 0.5", eh.mean("x > 0", given="g = 'a'"), eh.mean("x", low=-3, high=3))


@pytest.mark.parametrize("training", [True, False])
def test_groups_arrive_and_members_are_told_about_all_rows(tmp_path, training):
    alone = {"training": None, "declared": {"listed": eh.listed([OF_GROUPS[0], OF_GROUPS[2]])}}
    with of_groups(tmp_path, **({} if training else alone)) as holdout:
        asked = OF_GROUPS if training else OF_GROUPS[::2]
        before = [holdout.ask(query) for query in asked]
        holdout.append(people(2, 2_400, first=1_000, most=4))
        after = [holdout.ask(query) for query in asked]
        for first, last, query in zip(before, after, asked, strict=True):
            assert (last.source, last.charged, last.repeated) == ("declared", 0, False)
            assert half(last) < 0.6 * half(first)
            assert holdout.quote(query).radius_if_charged >= half(last) - 1e-12
        sealed = np.concatenate([people(0, 600)["x"], people(2, 2_400, first=1_000, most=4)["x"]])
        assert after[0].low < np.mean(sealed > 0.5) < after[0].high
        holdout.certificate().save(tmp_path / "c.json")
        assert eh.verify_certificate(tmp_path / "c.json").ok


def test_groups_that_are_larger_than_was_said_are_refused(tmp_path):
    with of_groups(tmp_path) as holdout:
        head = holdout.status()["ledger_head"]
        with pytest.raises(HoldoutRejected, match=r"have up to 6 rows, and largest_group of this holdout is 4"):
            holdout.append(people(3, 50, first=7_000, most=6))
        assert holdout.status()["ledger_head"] == head


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"planning": eh.Planning(grows=True)}, "largest_group= is missing"),
        ({"planning": eh.Planning(grows=True, largest_group=2)}, "at least 3, the size of the largest group"),
        ({"planning": eh.Planning(grows=True, largest_group=2.5)}, "whole number"),
        ({"planning": eh.Planning(largest_group=5)}, "largest_group= is only for"),
        ({"declared": None}, "largest_group= is only for"),
    ],
)
def test_the_largest_group_is_said_where_it_is_needed(tmp_path, wanted, said):
    with pytest.raises(HoldoutRejected, match=said):
        of_groups(tmp_path, **wanted)


def test_families_of_a_fixed_number_of_rows_take_no_arrivals(tmp_path):
    with create(tmp_path, planning=None) as fixed, pytest.raises(QueryRejected, match="declared, which do not support"):
        fixed.append(rows(2))


def test_a_fixed_family_is_an_eighth_narrower(tmp_path):
    (tmp_path / "fixed").mkdir()
    with create(tmp_path) as grows, create(tmp_path / "fixed", planning=None) as fixed:
        narrow, wide = (half(each.ask("x > 0.5")) for each in (fixed, grows))
    assert 1.05 < wide / narrow < 1.2
