"""A plan for a study protocol: the widths that families and other queries then have."""

import math

import holdout_samples as samples
import pytest

import everhold as eh
from everhold.charts import svg_text
from everhold.families.protocol import protocol_from

STUDY = {
    "queries": 500, "surprises": 10,
    "families": {"end points": {"members": 30}, "subgroups": {"members": 200}, "models": {"members": 1_000_000}},
}  # fmt: skip


def lines(**wanted):
    made = eh.plan(**{"rows": 20_000, "protocol": STUDY, **wanted})
    return {line.queries: line for line in made.lines}


def test_each_family_has_its_bits_and_widths():
    found = lines()
    bits = [(line.members, round(line.bits, 1)) for line in list(found.values())[:3]]
    assert bits == [(30, 4.9), (200, 7.6), (1_000_000, 19.9)]
    assert found["end points"].widths == pytest.approx((0.01288, 0.00774), rel=1e-2)
    assert found["models"].widths == pytest.approx((0.0204, 0.0123), rel=1e-2)


def test_weights_change_the_width_of_listed_queries_and_not_their_number():
    weighted = {"listed": ["late = 1", "delay > 5"], "weights": [0.75, 0.25]}
    found = lines(protocol={"families": {"ends": weighted}})["ends"]
    assert (found.members, round(found.bits, 1)) == (2, 2.0)


def test_queries_that_are_not_declared_have_the_widths_of_the_plan_and_pay_for_told_members():
    found = lines()
    usual = eh.plan(rows=20_000, queries=500, surprises=10, training_rows=20_000).widths
    confirmed = {(x.at, x.surprises): x.confirmed for x in usual.lines if x.query == "yes_no"}
    planned = found["not declared: guess confirmed, after 10 surprises"].widths[0]
    assert confirmed[0.5, 10] < planned < 1.1 * confirmed[0.5, 10]  # half of the probability is shared
    told, free = (found[f"not declared: unsealed, {when}"] for when in ("after 10 told members", "no surprise before"))
    assert all(more > 2.0 * less for more, less in zip(told.widths, free.widths, strict=True))


def test_a_family_is_as_wide_as_it_was_planned(tmp_path):
    protocol = {"families": {"ends": {"listed": ["late = 1", "delay > 5"]}, "texts": {"texts": 40}}}
    planned = {line.queries: line for line in eh.plan(rows=samples.ROWS, protocol=protocol).lines}
    with samples.create(tmp_path, mechanism=None, declared=protocol_from(protocol).families) as holdout:
        answer = holdout.ask("late = 1")
        assert (answer.high - answer.low) / 2.0 == pytest.approx(planned["ends"].widths[0], rel=0.02)


def test_without_training_rows_nothing_but_members_is_planned():
    assert list(lines(training_rows=0)) == ["end points", "subgroups", "models"]


@pytest.mark.parametrize(
    ("family", "why"),
    [({"subgroups": ["carrier"], "of": "delay > 3"}, "Write its categories"), ({"texts": 40, "x": 1}, "has 'x'")],
)
def test_what_cannot_be_planned_is_refused(family, why):
    with pytest.raises(eh.QueryRejected, match=why):
        lines(protocol={"families": {"a": family}})


CARRIERS = {"subgroups": ["carrier"], "of": "delay > 3", "values": {"carrier": ["UA", "AA"]}}
UNPLANNED = [
    ({"texts": "x"}, "bits is 'x'"),
    ({"texts": -5}, "bits is -5"),
    ({"listed": ["delay > 1", "late = 1"], "weights": 3}, "weights is 3. Pass a positive number for each"),
    ({"listed": ["delay > 1", "late = 1", "delay  >  1"]}, "'delay  >  1' is listed twice"),
    ({"listed": ["delay > 1", {"mean": "delay > 1"}]}, "'delay > 1' is listed twice"),
    (CARRIERS | {"together": -1}, "together is -1. Pass a whole number from 1 to 4"),
    (CARRIERS | {"together": 5}, "together is 5"),
    (CARRIERS | {"subgroups": "carrier"}, "columns is 'carrier'. Pass a list of names"),
    (CARRIERS | {"subgroups": [["carrier"]]}, "columns is "),
    (CARRIERS | {"values": ["UA"]}, "values is .'UA'.. Pass lists of categories by column"),
    (CARRIERS | {"values": {"carrier": 5}}, "values of carrier is 5. Pass a list of its categories"),
    (CARRIERS | {"values": {"carrier": "UA"}}, "values of carrier is 'UA'"),
    (CARRIERS | {"values": {"carrier": []}}, "values of carrier is "),
    (CARRIERS | {"values": {"carrier": [["UA"]]}}, "values of carrier is "),
    (CARRIERS | {"values": {"carier": ["UA"]}}, "values names 'carier', which is no column of these subgroups"),
]


@pytest.mark.parametrize(("family", "why"), UNPLANNED)
def test_a_plan_refuses_what_could_not_be_declared(family, why):
    with pytest.raises(eh.QueryRejected, match=f"{why}"):
        lines(protocol={"families": {"a": family}})


def test_the_same_expression_in_another_range_is_another_query():
    means = [{"mean": "delay", "low": 0, "high": high} for high in (10, 20)]
    assert lines(protocol={"families": {"a": {"listed": means}}})["a"].members == 2


@pytest.mark.parametrize("share", [0.995, 1, 0, True, "x", math.nan])
def test_a_plan_takes_the_shares_that_a_holdout_takes(share):
    families = {"a": {"members": 3}}
    made = protocol_from({"families": families})._replace(share=share)
    for protocol in ({"families": families, "share": share}, made):
        with pytest.raises(eh.QueryRejected, match=r"share is .*Pass a number above 0 and at most 0\.99"):
            lines(protocol=protocol)


def test_a_column_that_is_named_twice_is_planned_once():
    twice = CARRIERS | {"subgroups": ["carrier", "carrier"]}
    found = [lines(protocol={"families": {"a": family}})["a"].members for family in (CARRIERS, twice)]
    assert found == [3, 3]


def test_subgroups_are_counted_by_their_categories():
    values = {"carrier": ["UA", "AA"], "origin": ["A", "B", "C"]}
    family = {"subgroups": ["carrier", "origin"], "of": "delay > 3", "values": values}
    found = lines(protocol={"families": {"a": family}})["a"]
    assert found.bits == pytest.approx(math.log2(1 + 2 + 3 + 6))


def test_a_protocol_needs_rows_and_no_requested_radius():
    for wanted in ({"rows": None}, {"radius": 0.1}):
        with pytest.raises(ValueError, match="planned for a number of sealed rows"):
            lines(**wanted)


def test_the_plan_is_shown_as_a_table_in_words_and_as_a_picture():
    made = eh.plan(rows=20_000, protocol=STUDY)
    assert "ask those first" in made.explain()
    assert "subgroups" in str(made)
    assert len(made.to_dict()["lines"]) == len(made.lines) == 9
    assert "end points" in svg_text(made.chart(), title="x")
