import pytest

from everhold.guarantees.published import STATEMENTS
from everhold.planning import plan

vl_convert = pytest.importorskip("vl_convert")


@pytest.fixture(scope="module")
def made():
    return plan(rows=20_000, queries=100, overfits=2, radius=0.05)


def values(drawn, layer):
    return drawn["datasets"][drawn["layer"][layer]["data"]["name"]]


@pytest.mark.parametrize(("against", "at"), [("queries", 100), ("rows", 20_000)])
def test_the_picture_shows_lines_dashes_and_the_wish(made, against, at):
    drawn = made.chart(against).to_dict()
    assert values(drawn, 1) == [{"number": at, "radius": 0.05}]
    dash = drawn["layer"][0]["encoding"]["strokeDash"]["scale"]
    names, dashes = dash["domain"], dash["range"]
    assert {name for name, dash in zip(names, dashes, strict=True) if dash != [1, 0]} <= set(STATEMENTS)
    assert {"gaussian", "guess_and_check", "jung_2020"} <= set(names)
    here = {point["by"]: point["radius"] for point in values(drawn, 0) if point["number"] == at}
    assert all(here[line.mechanism] == line.radius for line in made.lines)
    assert "empirical (questions fixed in advance)" in vl_convert.vegalite_to_svg(drawn)


def test_a_plan_for_rows_is_drawn_around_the_rows_of_its_best_line():
    made = plan(queries=100, overfits=2, radius=0.05)
    cross = values(made.chart("rows").to_dict(), 1)
    assert cross[0]["number"] == made.best.rows_needed
