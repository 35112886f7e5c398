"""Pictures of a study: what is drawn, in words, and what is not."""

import re

import pytest

from everhold.charts import svg_text
from everhold.charts.studies import (
    MOST_DRAWN,
    answers_chart,
    budget_chart,
    drawable,
    estimates_chart,
    gates_chart,
)

ROWS = [
    {"sequence": 1, "value": 0.4, "low": 0.3, "high": 0.5, "source": "training", "estimate": 0.4},
    {"sequence": 2, "value": 0.6, "low": 0.5, "high": 0.7, "source": "holdout", "estimate": 0.9},
    {"sequence": 3, "value": 0.2, "low": 0.1, "high": 0.3, "source": "guess", "estimate": None},
    {"sequence": 4, "value": None, "low": None, "high": None, "source": "silent", "estimate": 0.5},
    {"sequence": 5, "value": None, "low": None, "high": None, "source": "promoted"},
]
STEPS = [
    {"gate": "<b>", "sequence": 1, "promotions": 0},
    {"gate": "<b>", "sequence": 7, "promotions": 1},
    {"gate": "<b>", "sequence": 9, "promotions": 2},
]


def texts(chart):
    return set(re.findall(r"<text[^>]*>([^<]*)</text>", svg_text(chart, title="t")))


def marks(chart, kind):
    return len(re.findall(rf'aria-roledescription="{kind}"', svg_text(chart, title="t")))


def test_only_answers_with_an_interval_are_drawn_and_of_many_the_latest():
    assert [row["sequence"] for row in drawable(ROWS)] == [1, 2, 3]
    many = [{**ROWS[0], "sequence": number} for number in range(MOST_DRAWN + 5)]
    assert drawable(many)[0]["sequence"] == 5
    assert len(drawable(many)) == MOST_DRAWN


def test_answers_are_named_by_where_they_come_from():
    chart = answers_chart(drawable(ROWS))
    assert {"confirmed: training estimate", "from the sealed rows", "confirmed: own guess"} <= texts(chart)
    assert "not better than the best" not in texts(chart)
    assert (marks(chart, "rule mark"), marks(chart, "point")) == (3, 3)


def test_estimates_lie_in_a_band_that_is_as_wide_as_the_promise():
    chart = estimates_chart(drawable(ROWS), band=0.1)
    assert marks(chart, "point") == 2
    assert marks(chart, "area mark") == 1
    assert marks(estimates_chart(drawable(ROWS), band=None), "area mark") == 0
    assert {"training estimate", "released answer"} <= texts(chart)


def test_what_is_left_is_drawn_part_by_part():
    left = [
        {"part": part, "asked": asked, "left": 10 - asked, "planned": 10}
        for part in ("questions", "surprises") for asked in range(4)
    ]  # fmt: skip
    chart = budget_chart(left)
    assert {"questions", "surprises", "questions asked", "100%"} <= texts(chart)
    assert marks(chart, "line mark") == 2


def test_a_staircase_has_a_dot_for_each_promotion_and_holds_no_name_that_somebody_chose():
    chart = gates_chart(STEPS, last=20)
    assert marks(chart, "point") == 2
    assert "<b>" not in svg_text(chart, title="t")
    assert "&lt;b&gt;" not in svg_text(chart, title="t")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: answers_chart([]), lambda: estimates_chart(drawable(ROWS[2:]), band=0.1), lambda: budget_chart([]),
        lambda: gates_chart([], last=1),
    ],
)  # fmt: skip
def test_where_there_is_nothing_to_draw_that_is_said(draw):
    with pytest.raises(ValueError, match="nothing to draw"):
        draw()
