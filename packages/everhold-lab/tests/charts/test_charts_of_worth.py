"""The picture of what rows are worth: whole labels, and an axis as long as the bars."""

import re

import pytest

from everhold_lab.charts import WorthBar, worth_chart

vl_convert = pytest.importorskip("vl_convert")

BARS = (
    WorthBar("each flight alone", 0.043, "±4.4 points: 20,000 rows are worth 20,000"),
    WorthBar("one hour, one airport", 0.0625, "±6.3 points: 20,000 rows are worth 9,132"),
    WorthBar("one day", 0.2917, "±29.2 points: 20,000 rows are worth 354"),
)


@pytest.fixture(scope="module")
def svg():
    return vl_convert.vegalite_to_svg(worth_chart(BARS, title="radius").to_dict())


def test_names_and_labels_are_whole(svg):
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    for bar in BARS:
        assert bar.assumption in texts
        assert bar.label in texts


def test_the_axis_is_as_long_as_the_longest_bar_needs(svg):
    shares = [int(share) for share in re.findall(r">(\d+)%<", svg)]
    assert (min(shares), max(shares)) == (0, 30)


def test_there_is_room_for_wider_fonts():
    assert worth_chart(BARS, title="radius").to_dict()["config"]["padding"]["left"] >= 40


def test_a_radius_of_more_than_half_the_range_is_cut_off():
    drawn = worth_chart([WorthBar("all together", 3.0, "no promise")], title="radius").to_dict()
    (values,) = drawn["datasets"].values() if "datasets" in drawn else (drawn["data"]["values"],)
    assert values[0]["length"] == 0.5
