"""Pictures: self-contained, labelled in words, readable on light and dark pages."""

from __future__ import annotations

import builtins
import re

import pytest

from everhold.charts import covered_lines, save_chart, svg_text
from everhold.mechanisms import MECHANISMS
from everhold.planning import plan
from everhold_lab.charts import ClimbPoint, climb_chart, plots_available

POINTS = (
    ClimbPoint("bare", 1, 0.76, 0.76),
    ClimbPoint("bare", 1_000, 0.80, 0.67),
    ClimbPoint("sealed", 1, 0.76, 0.76, 0.74, 0.78),
    ClimbPoint("sealed", 1_000, 0.65, 0.67, 0.56, 0.74),
    ClimbPoint("sealed", 2_000, None, 0.66),
)


@pytest.fixture(scope="module")
def svg():
    return svg_text(climb_chart(POINTS, score="flights predicted correctly"), title="The <climb>")


def test_axes_panels_and_lines_are_labelled_in_words(svg):
    texts = set(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    assert {
        "queries asked", "flights predicted correctly", "bare", "sealed",
        "what the analyst is told", "the truth, on fresh flights", "the interval that everhold states",
    } <= texts  # fmt: skip


def test_the_picture_names_itself_and_escapes_its_title(svg):
    assert 'role="img"' in svg
    assert "<title>The &lt;climb&gt;</title>" in svg


def test_every_ink_and_paper_colour_turns_on_dark_pages(svg):
    style = re.search(r"<style>(.*?)</style>", svg).group(1)
    assert style.startswith("@media (prefers-color-scheme:dark)")
    greys = {colour for colour in re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', svg) if colour not in DATA_COLOURS}
    assert greys
    assert all(f'"{colour}"' in style for colour in greys)


DATA_COLOURS = {"#d55e00", "#56b4e9"}


def test_lines_differ_in_more_than_colour(svg):
    assert re.search(r'stroke="#24292f"[^>]*stroke-dasharray="6,4"', svg)
    assert not re.search(r'stroke="#d55e00"[^>]*stroke-dasharray="6,4"', svg)


def test_nothing_is_loaded_from_elsewhere(tmp_path):
    chart = climb_chart(POINTS, score="score")
    save_chart(chart, tmp_path / "climb.html", title="The climb", caption="A & B")
    page = (tmp_path / "climb.html").read_text()
    assert "<svg" in page
    assert "A &amp; B" in page
    assert not re.search(r"<script|<link|\bsrc=|@import|url\((?!#)", page)
    assert set(re.findall(r"https?://[^\"' ]*", page)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.svg or \.html"):
        save_chart(climb_chart(POINTS, score="score"), tmp_path / "climb.gif", title="t", caption="c")


def test_without_the_extra_plots_are_not_available(monkeypatch):
    assert plots_available()
    real = builtins.__import__

    def without_altair(name, *args, **kwargs):
        if name == "altair":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_altair)
    assert not plots_available()


def test_a_line_under_another_is_found_on_either_axis():
    near, far = {1: 0.010, 2: 0.995}, {1: 0.015, 2: 1.0}
    assert covered_lines({"under": near, "over": far}, log=False) == {"under"}
    assert covered_lines({"under": near, "over": far}, log=True) == set()
    assert covered_lines({"alone": {1: 0.0, 2: 1.0}, "elsewhere": {3: 0.0, 4: 1.0}}, log=False) == set()


@pytest.fixture(scope="module")
def planned():
    return svg_text(plan(rows=20_000, queries=1_000).chart(), title="The plan")


def lines_of(svg, *names):
    """Mechanism and width of each line of some, in the order in which they are drawn; those of the legend come last."""
    colours = {MECHANISMS[name].presentation.colour: name for name in names}
    drawn = re.findall(r'<path [^>]*stroke="(#[0-9a-f]{6})" stroke-width="([\d.]+)"', svg)
    return [(colours[colour], float(width)) for colour, width in drawn if colour in colours]


def test_of_lines_that_coincide_the_wider_is_drawn_first(planned):
    (under, wide), (over, narrow), *legend = lines_of(planned, "gaussian", "subsampling")
    assert {under, over} == {"gaussian", "subsampling"}
    assert wide > 2 * narrow
    assert len(legend) == 2


def test_the_legend_is_in_the_order_of_the_lines_and_names_the_request(planned):
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", planned)
    names = [text for text in texts if text.split(" ")[0] in (*MECHANISMS, "jung_2020")]
    assert names.index("sample_splitting") < names.index("laplace") < names.index("guess_and_check")
    assert names[-1].startswith("empirical")
    assert "your plan" in texts
    assert not any("\u2026" in text for text in texts)  # nothing is cut
