import pytest

from everhold.planning import plan
from everhold_lab.published import STATEMENTS

vl_convert = pytest.importorskip("vl_convert")


@pytest.fixture(scope="module")
def made():
    return plan(rows=20_000, queries=100, surprises=2, radius=0.05)


def values(drawn, layer):
    return drawn["datasets"][drawn["layer"][layer]["data"]["name"]]


@pytest.mark.parametrize(("against", "at"), [("queries", 100), ("rows", 20_000)])
def test_the_picture_shows_lines_dashes_and_the_request(made, against, at):
    drawn = made.chart(against).to_dict()
    assert values(drawn, 1) == [{"number": at, "radius": 0.05}]
    dash = drawn["layer"][0]["encoding"]["strokeDash"]["scale"]
    names, dashes = dash["domain"], dash["range"]
    dashed = {name for name, dash in zip(names, dashes, strict=True) if dash != [1, 0]}
    assert dashed <= {*STATEMENTS, "guess_and_check_expected"}
    assert {"gaussian", "guess_and_check", "jung_2020"} <= set(names)
    here = {point["by"]: point["radius"] for point in values(drawn, 0) if point["number"] == at}
    assert all(here[line.mechanism] == line.radius for line in made.lines)
    assert here["guess_and_check_expected"] == made.line("guess_and_check").expected < here["guess_and_check"]
    shown = vl_convert.vegalite_to_svg(drawn)
    assert "empirical (queries fixed in advance)" in shown
    assert "guess_and_check (if guesses hold around 0.9)" in shown


def test_a_plan_without_a_requested_radius_is_marked_at_what_can_be_expected():
    made = plan(rows=20_000, queries=100, surprises=2)
    assert values(made.chart().to_dict(), 1) == [{"number": 100, "radius": made.best.expected}]


def test_half_widths_by_true_value_are_those_of_the_table(made):
    drawn = made.chart("values").to_dict()
    points = {(x["answer"], x["surprises"], x["value"]): x["width"] for x in next(iter(drawn["datasets"].values()))}
    for line in made.widths.lines:
        if line.query == "yes_no" and line.surprises != 1 and line.at in (0.5, 0.8, 0.9):
            for answer in ("confirmed", "released", "unsealed"):
                assert points[answer, line.surprises, line.at] == pytest.approx(getattr(line, answer), rel=1e-6)
    shown = vl_convert.vegalite_to_svg(drawn)
    assert "no surprise before" in shown
    assert "unsealed" in shown


def test_a_plan_for_rows_is_drawn_around_the_rows_of_its_best_line():
    made = plan(queries=100, surprises=2, radius=0.05)
    cross = values(made.chart("rows").to_dict(), 1)
    assert cross[0]["number"] == made.best.rows_needed
