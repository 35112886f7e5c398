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
    on_a_panel,
)
from everhold.values.measures import MEASURES

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


def test_a_difference_is_drawn_where_it_is_and_not_at_its_place_among_means():
    row = {"sequence": 1, "value": 0.06, "low": 0.01, "high": 0.11, "source": "training", "estimate": 0.06}
    placed = on_a_panel(row, measure="points", ends=(-1.0, 1.0))
    assert [placed[name] for name in ("value", "low", "high", "estimate")] == pytest.approx([6.0, 1.0, 11.0, 6.0])
    drawn = answers_chart([placed])
    assert "difference in percentage points" in texts(drawn)
    assert {"2", "10"} <= texts(drawn)
    assert not any("47" in text or "%" in text for text in texts(drawn))


def test_shares_differences_and_numbers_have_a_panel_each():
    rows = [
        on_a_panel({**ROWS[0], "value": value, "low": value - 1e-3, "high": value + 1e-3}, measure=measure, ends=ends)
        for value, measure, ends in (
            (0.4, "share", (0.0, 1.0)), (-0.2, "right more", (-1.0, 1.0)), (15.0, "mean", (0.0, 60.0)),
            (-30.0, "difference", (-60.0, 60.0)),
        )
    ]  # fmt: skip
    assert [row["value"] for row in rows] == pytest.approx([0.4, -20.0, 0.25, -0.5])
    titles = {
        "share", "difference in percentage points", "number, as its place in its range",
        "difference, as a share of the range",
    }  # fmt: skip
    assert titles <= texts(answers_chart(rows))
    assert titles <= texts(estimates_chart(rows, band=0.1))


@pytest.mark.parametrize("measure", sorted(MEASURES))
def test_every_measure_has_a_panel(measure):
    assert on_a_panel(ROWS[0], measure=measure, ends=(-1.0, 1.0))["panel"] in {
        "share",
        "points",
        "number",
        "difference",
    }


def test_pictures_of_pages_are_readable_on_a_phone():
    left = [{"part": "questions", "asked": asked, "left": 9 - asked, "planned": 9} for asked in range(5)]
    charts = [
        answers_chart(drawable(ROWS)), estimates_chart(drawable(ROWS), band=0.1), budget_chart(left),
        gates_chart(STEPS, last=20),
    ]  # fmt: skip
    for chart in charts:
        (width,) = re.findall(r'<svg[^>]* width="([0-9.]+)"', svg_text(chart, title="t"))
        assert float(width) < 460  # at 358 pixels a text of 12 points still has more than 9
