"""Pictures of dependent rows: what they show is what was computed."""

import itertools

import numpy as np
import pytest

from everhold.dependence.series.markov_chain import MarkovChain
from everhold.planning.inverse import radius_of
from everhold.planning.request import PlanRequest
from everhold_lab.releases import MarkovQuiltMechanism

vl_convert = pytest.importorskip("vl_convert")

from everhold.charts.dependence import correlation_chart, influence_chart  # noqa: E402  needs the extra
from everhold_lab.charts import quilts_chart  # noqa: E402

CHAIN = MarkovChain([[0.8, 0.2], [0.3, 0.7]])
ONE_WAY = MarkovChain([[0.8, 0.15, 0.05], [0.1, 0.6, 0.3], [0.4, 0.1, 0.5]])  # not reversible
STICKY = MarkovChain([[0.99, 0.01], [0.01, 0.99]])


def values(chart, layer):
    drawn = chart.to_dict()
    return drawn["datasets"][drawn["layer"][layer].get("data", drawn.get("data"))["name"]]


@pytest.mark.parametrize("row", [0, 2, 50, 99])
def test_the_rows_around_a_row_are_drawn_once_each(row):
    mechanism = MarkovQuiltMechanism(CHAIN, rows=100, epsilon=1.0)
    active = mechanism.quilt_of(row)
    bars = sorted(values(quilts_chart(mechanism, row), 0), key=lambda bar: bar["first"])
    shown = {"the row": [row], "nearby": active.quilt.nearby, "quilt": active.quilt.quilt}
    for role, nodes in shown.items():
        here = [bar for bar in bars if bar["role"] == role]
        covered = [node for node in range(100) if any(bar["first"] < node < bar["last"] for bar in here)]
        assert covered == sorted(nodes)
    assert all(left["last"] <= right["first"] for left, right in itertools.pairwise(bars))
    assert "<svg" in vl_convert.vegalite_to_svg(quilts_chart(active).to_dict())


def test_the_drawn_row_is_one_that_needs_most_noise():
    mechanism = MarkovQuiltMechanism(CHAIN, rows=100, epsilon=1.0)
    assert "Row 50: 6 rows nearby, quilt 46 and 54" in str(quilts_chart(mechanism).to_dict())


def test_a_narrow_quilt_among_many_rows_can_be_seen():
    bars = values(quilts_chart(MarkovQuiltMechanism(STICKY, rows=1000, epsilon=1.0), 500), 0)
    width = max(bar["last"] for bar in bars) - min(bar["first"] for bar in bars)
    assert all(bar["last"] - bar["first"] > 0.005 * width for bar in bars)
    assert [bar["role"] for bar in bars[-3:]] == ["quilt", "the row", "quilt"]


def test_an_empty_quilt_is_drawn():
    assert "quilt empty" in str(quilts_chart(MarkovQuiltMechanism(STICKY, rows=20, epsilon=1.0)).to_dict())


def test_influences_are_drawn_as_computed():
    points = values(influence_chart(ONE_WAY, distances=12), 0)
    found = ONE_WAY.law.influences(12)
    assert {point["by"] for point in points} == set(found)
    assert all(point["influence"] == found[point["by"]][point["distance"] - 1] for point in points)


def test_equal_influences_of_later_and_earlier_rows_are_one_line():
    points = values(influence_chart(CHAIN, distances=12), 0)
    assert {point["by"] for point in points} == {"both sides", "one row, either side", "bound from the spectral gap"}


def test_every_picture_has_a_title_inside(monkeypatch):
    monkeypatch.setattr("everhold.charts.dependence._CORRELATIONS", (0.0, 0.5))
    drawn = {
        "Influence of a row on rows at a distance": influence_chart(CHAIN, distances=12),
        "Radius of 100 queries to 20,000 rows": correlation_chart(rows=20_000, queries=100),
        "Row 50: 6 rows nearby": quilts_chart(MarkovQuiltMechanism(CHAIN, rows=100, epsilon=1.0)),
    }
    for title, chart in drawn.items():
        assert title in vl_convert.vegalite_to_svg(chart.to_dict())


def test_a_set_of_chains_is_drawn_without_the_bound_from_its_gap():
    chart = influence_chart(MarkovChain(CHAIN.transition, uncertainty=0.01), distances=12)
    assert "spectral" not in str(chart.to_dict())


@pytest.mark.parametrize("matrix", [np.eye(2)[::-1].tolist(), [[0.5, 0.5], [0.5, 0.5]]])
def test_nothing_to_draw_is_said(matrix):
    with pytest.raises(ValueError, match="nothing to draw"):
        influence_chart(MarkovChain(matrix))


def test_radii_are_those_of_the_planner_and_rows_have_their_worth(monkeypatch):
    monkeypatch.setattr("everhold.charts.dependence._CORRELATIONS", (0.0, 0.5))
    chart = correlation_chart(rows=20_000, queries=100, model=CHAIN)
    half = MarkovChain([[0.75, 0.25], [0.25, 0.75]])
    wanted = PlanRequest(rows=20_000, queries=100, surprises=10, dependence=half)
    drawn = {(point["by"], point["correlation"]): point["radius"] for point in values(chart, 0)}
    assert drawn["guess_and_check", 0.5] == radius_of("guess_and_check", wanted)
    assert drawn["gaussian", 0.0] < drawn["gaussian", 0.5]
    mark = values(chart, 1)[0]
    assert mark["text"] == "your 20,000 rows are worth 6,667"
    assert mark["correlation"] == pytest.approx(0.5, abs=1e-3)
    assert "empirical (queries fixed in advance)" in vl_convert.vegalite_to_svg(chart.to_dict())
