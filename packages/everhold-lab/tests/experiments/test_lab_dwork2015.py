"""The reusable holdout at small sizes: what must be seen is seen, what is promised holds, and errors are noticed."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_games import played
from scipy.integrate import quad
from scipy.stats import norm

from everhold.charts import svg_text
from everhold.mechanisms import GuessAndCheck
from everhold.randomness import SeededNoise
from everhold.values.evaluation import clip_to_grid
from everhold_lab.experiments import accuracy_bands
from everhold_lab.experiments.attributes import (
    AttributeHoldout,
    AttributeLaw,
    LinearSample,
    PlainHoldout,
    PromisingHoldout,
    PublishedThresholdout,
    clipped_mean,
    draw_columns,
    draw_samples,
    grid_totals,
    right_votes,
    vote_accuracy,
)
from everhold_lab.experiments.dwork2015 import ANALYSTS, Dwork2015

SMALL = Dwork2015(rows=1_600, attributes=1_600, counts=(0, 10, 20, 80))
REPETITIONS = 24
TINY = Dwork2015(rows=400, attributes=400, counts=(0, 10, 20, 40))
MAIN_KEYS = [
    "analyst", "signal", "k", "training", "reported", "fresh", "sd_training", "sd_reported", "sd_fresh",
]  # fmt: skip


def without_times(rows: list[dict]) -> list[dict]:
    return [{key: value for key, value in row.items() if not key.startswith("seconds")} for row in rows]


def findings(experiment: Dwork2015, rows: list[dict], about: str) -> list[bool]:
    found = experiment.findings(experiment.summary(rows), rows)
    return [value for words, value in found.items() if about in words]


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return played(SMALL, REPETITIONS)


@pytest.fixture(scope="module")
def lines(rows: list[dict]) -> dict[tuple, dict]:
    return {(line["signal"], line["analyst"], line["k"]): line for line in SMALL.summary(rows)}


def test_play__same_seed__same_rows_as_plain_data() -> None:
    once, again, other = (TINY.play({"signal": True}, seed) for seed in (3, 3, 4))
    assert without_times(once) == without_times(again) != without_times(other)
    assert json.loads(json.dumps(once, allow_nan=False)) == once


def test_play__settings__are_drawn_apart() -> None:
    same_law = Dwork2015(rows=400, attributes=400, lean=0.0, counts=TINY.counts)
    plain, signal = (same_law.play(setting, 3) for setting in TINY.settings())
    assert [row["training"] for row in plain] != [row["training"] for row in signal]
    assert {row["signal"] for row in plain} == {False}
    assert {row["signal"] for row in signal} == {True}


def test_play__rows__one_for_each_analyst_and_count() -> None:
    rows = TINY.play({"signal": False}, 0)
    assert [(row["analyst"], row["k"]) for row in rows] == [(name, k) for name in ANALYSTS for k in TINY.counts]
    promised = {row["analyst"] for row in rows if row["radius"] is not None}
    assert promised == {"thresholdout_tuned", "guess_and_check_tuned"}
    assert all(0.0 < row["seconds_drawing"] <= row["seconds"] for row in rows)


def test_play__nobody_votes__fair_coin_and_nothing_asked() -> None:
    rows = Dwork2015(rows=400, attributes=2, informative=10, counts=(0, 10)).play({"signal": False}, 1)
    common = [row for row in rows if row["analyst"] == "common"]
    assert [(row["training"], row["reported"], row["fresh"], row["population"]) for row in common] == [(0.5,) * 4] * 2
    assert all(row["low"] is None and not row["refused"] for row in rows if row["k"] == 0)


def test_summary__lines__have_the_published_columns_first(rows: list[dict], lines: dict[tuple, dict]) -> None:
    assert len(lines) == 2 * len(ANALYSTS) * len(SMALL.counts)
    assert all(list(line)[:9] == MAIN_KEYS for line in lines.values())
    some = [row["reported"] for row in rows if (row["signal"], row["analyst"], row["k"]) == (True, "thresholdout", 20)]
    line = lines[True, "thresholdout", 20]
    assert len(some) == REPETITIONS
    assert (line["reported"], line["sd_reported"]) == pytest.approx((np.mean(some), np.std(some)))


def test_summary__refused_answer__counts_as_refused_only(rows: list[dict]) -> None:
    mine = [row for row in rows if row["analyst"] == "thresholdout" and row["k"] == 20 and row["signal"]]
    refused = {**mine[0], "reported": None, "refused": True}
    line, alone = SMALL.summary([refused, *mine[1:]])[0], SMALL.summary([refused])[0]
    assert line["refused"] == 1
    assert line["reported"] == pytest.approx(np.mean([row["reported"] for row in mine[1:]]))
    assert alone["reported"] is alone["sd_reported"] is None


def test_no_signal__plain_reuse__overfits_and_fresh_rows_do_not(lines: dict[tuple, dict]) -> None:
    common = lines[False, "common", 80]
    assert common["reported"] > 0.62
    assert abs(common["reported"] - common["training"]) < 0.02
    assert abs(common["fresh"] - 0.5) < 0.01


def test_fresh_accuracy__every_line__matches_the_closed_form(lines: dict[tuple, dict]) -> None:
    deviations = [
        (line["fresh"] - line["population"]) / np.sqrt(0.25 / SMALL.rows / REPETITIONS)
        for line in lines.values()
        if line["k"] > 0
    ]
    assert np.max(np.abs(deviations)) < 4.0
    assert lines[True, "common", 20]["population"] > 0.7  # so that a half everywhere would be noticed


def test_findings__small_size__all_true(rows: list[dict]) -> None:
    assert findings(SMALL, rows, "no signal") == [True] * 3
    assert findings(SMALL, rows, "signal, k = 20") == [True] * 2
    assert findings(SMALL, rows, "everhold's promise") == [True] * 4


def test_findings__one_setting_alone__says_nothing_of_the_other(rows: list[dict]) -> None:
    plain = [row for row in rows if not row["signal"]]
    assert findings(SMALL, plain, "k = 20, ") == []
    assert len(findings(SMALL, plain, "no signal")) == 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Mislabelled(Dwork2015):
    """The bare holdout under the name of Thresholdout."""

    def _holdout(self, analyst: str, stream: np.random.SeedSequence) -> AttributeHoldout:
        return PlainHoldout() if analyst == "thresholdout" else Dwork2015._holdout(self, analyst, stream)


def test_findings__bare_holdout_called_thresholdout__noticed() -> None:
    wrong = Mislabelled(rows=SMALL.rows, attributes=SMALL.attributes, counts=SMALL.counts)
    rows = [row for seed in range(3) for row in wrong.play({"signal": False}, seed)]
    assert findings(wrong, rows, "Thresholdout as published") == [False]


@pytest.mark.parametrize("analyst", ["thresholdout_tuned", "guess_and_check_tuned"])
@pytest.mark.parametrize(
    "change",
    [
        lambda row: {"reported": row["population"] + 1.01 * row["radius"]},
        lambda row: {"high": row["population"] - 0.001},
        lambda row: {"correlations_hold": False},
    ],
    ids=["beyond the radius", "outside the interval", "a correlation"],
)
def test_findings__one_broken_promise__noticed(rows: list[dict], analyst: str, change) -> None:
    last = max(i for i, row in enumerate(rows) if row["analyst"] == analyst)
    broken = [{**row, **change(row)} if i == last else row for i, row in enumerate(rows)]
    assert findings(SMALL, broken, ANALYSTS[analyst]).count(False) == 1


def test_findings__every_accuracy_refused__noticed_and_hides_no_broken_correlation(rows: list[dict]) -> None:
    nothing = {"reported": None, "low": None, "high": None, "refused": True, "correlations_hold": False}
    refused = [{**row, **nothing} if row["analyst"] == "thresholdout_tuned" else row for row in rows]
    found = SMALL.findings(SMALL.summary(rows), refused)
    assert [kept for text, kept in found.items() if ANALYSTS["thresholdout_tuned"] in text] == [False, False]


def test_tuned_thresholdout__overfit_below_the_threshold__reports_the_training_value(rows: list[dict]) -> None:
    mine = [row for row in rows if row["analyst"] == "thresholdout_tuned" and row["k"] == 80]
    assert all(row["reported"] == row["training"] > row["population"] + 0.05 for row in mine)


def test_tuned_guess_and_check__overfit_beyond_the_threshold__is_corrected(rows: list[dict]) -> None:
    mine = [row for row in rows if row["analyst"] == "guess_and_check_tuned" and row["k"] == 80 and not row["signal"]]
    corrected = [row for row in mine if row["reported"] != row["training"]]
    assert len(corrected) > REPETITIONS / 2
    assert all(abs(row["reported"] - row["population"]) < row["training"] - row["population"] for row in corrected)


@pytest.mark.parametrize("counts", [(0, 30, 20), (0, 20, 20), (0, 10), (20,)])
def test_counts__unordered_or_incomplete__refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="among them 0 and 20, the value of informative"):
        Dwork2015(counts=counts)


def test_mechanism__plan__covers_every_query() -> None:
    for analyst in ("thresholdout_tuned", "guess_and_check_tuned"):
        mechanism = TINY.mechanism(analyst)
        assert (mechanism.rows, mechanism.queries, mechanism.parameters()["surprises"]) == (400, 403, 3)


def test_pictures__both_settings__show_every_analyst(rows: list[dict]) -> None:
    pictures = SMALL.pictures(SMALL.summary(rows), rows)
    assert [picture.name for picture in pictures] == ["dwork2015-no-signal", "dwork2015-signal"]
    for picture in pictures:
        svg = svg_text(picture.chart, title=picture.title)
        assert all(title.replace("'", "&#39;") in svg or title in svg for title in ANALYSTS.values())


def test_accuracy_bands__refused_and_other_panels__left_out() -> None:
    line = {"k": 1, "who": "a", "training": 0.6, "reported": None, "fresh": 0.5}
    line |= {"sd_training": 0.1, "sd_reported": None, "sd_fresh": 0.0}
    chart = accuracy_bands([line, {**line, "who": "b"}], horizontal=("k", "k"), panels="who", panel_titles={"a": "A"})
    drawn = chart.to_dict()
    points = drawn["data"].get("values") or drawn["datasets"][drawn["data"]["name"]]
    assert [(point["panel"], point["mean"]) for point in points] == [("A", 0.6), ("A", 0.5)]
    assert (points[0]["low"], points[0]["high"]) == pytest.approx((0.5, 0.7))


LAW = AttributeLaw(attributes=1_203, informative=7, shift=0.4)


@pytest.fixture(scope="module")
def samples() -> tuple[LinearSample, LinearSample]:
    streams = map(np.random.default_rng, (1, 2))
    return draw_samples(LAW, rows=300, clip=3.0, keep_beyond=0.1, training=next(streams), holdout=next(streams))


def test_draw_samples__columns__are_those_of_the_averages(samples: tuple[LinearSample, LinearSample]) -> None:
    training, holdout = samples
    expected = np.flatnonzero(np.abs(training.correlations) > 0.1).tolist()
    assert 50 < len(expected) < 300
    for sample in samples:
        assert sorted(sample.columns) == expected
        means = [float(sample.columns[attribute].mean()) for attribute in expected]
        assert means == pytest.approx(sample.correlations[expected], abs=1e-6)
        again = grid_totals(np.stack([sample.columns[attribute] for attribute in expected]), clip=3.0)
        assert again.tolist() == sample.totals[expected].tolist()
    assert not np.any(training.correlations == holdout.correlations)


def test_draw_samples__shift__for_the_informative_alone(samples: tuple[LinearSample, LinearSample]) -> None:
    for sample in samples:
        standardised = (sample.correlations - LAW.shifts()) * np.sqrt(300)
        assert np.max(np.abs(standardised)) < 4.5
        assert np.std(standardised) == pytest.approx(1.0, abs=0.1)
        assert np.min(sample.correlations[:7]) > 0.15


@given(st.lists(st.floats(-8.0, 8.0, width=32), min_size=1, max_size=40), st.sampled_from([0.5, 3.0, 4.0]))
def test_grid_totals__any_products__are_sums_on_the_grid_of_everhold(products: list[float], clip: float) -> None:
    block = np.array([products, products[::-1]], dtype=np.float32)
    expected = [clip_to_grid((row.astype(float) + clip) / (2.0 * clip)).sum() for row in block]
    assert np.max(np.abs(grid_totals(block, clip=clip) - expected)) <= len(products)  # at most one step for each row


@pytest.mark.parametrize("mean", [0.0, 0.06, -0.4, 2.5])
def test_clipped_mean__normal__is_the_integral(mean: float) -> None:
    inside, _ = quad(lambda x: x * norm.pdf(x, mean), -3.0, 3.0, epsabs=1e-12)
    expected = inside + 3.0 * (norm.sf(3.0, mean) - norm.cdf(-3.0, mean))
    assert clipped_mean(np.array([mean]), clip=3.0)[0] == pytest.approx(expected, abs=1e-10)


def test_vote_accuracy__against_simulation__with_wrong_signs_too() -> None:
    law = AttributeLaw(attributes=9, informative=4, shift=0.3)
    order, counts = np.array([0, 7, 3, 1, 8, 2]), [0, 1, 2, 3, 5, 6, 50]
    signs = np.array([1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0, 1.0])
    rows = 200_000
    columns = draw_columns(law, rows=rows, chosen=order.tolist(), generator=np.random.default_rng(5))
    right = right_votes(columns, order=order, signs=signs, counts=counts)
    exact = vote_accuracy(law, order=order, signs=signs, counts=counts)
    assert right[1:] / rows == pytest.approx(exact[1:], abs=4.5 * 0.5 / np.sqrt(rows))
    assert (right[0], exact[0]) == (0, 0.5)
    assert right[-1] == right[-2]
    assert exact[1] == pytest.approx(norm.cdf(0.3))


def test_right_votes__labels_and_attributes_apart__the_published_rule() -> None:
    rng = np.random.default_rng(8)
    labels, attributes = rng.choice([-1.0, 1.0], 500), rng.standard_normal((500, 30))
    correlations = attributes.T @ labels / 500
    order = np.argsort(-np.abs(correlations))
    columns = dict(enumerate((attributes * labels[:, None]).T.astype(np.float32)))
    signs, counts = np.sign(correlations), [3, 10, 30]
    expected = []
    for count in counts:
        weights = np.zeros(30)
        weights[order[:count]] = signs[order[:count]]
        expected.append(np.count_nonzero(np.sign(attributes @ weights) == labels))
    assert right_votes(columns, order=order, signs=signs, counts=counts).tolist() == expected


def bare(correlations: np.ndarray) -> LinearSample:
    return LinearSample(correlations, np.zeros(len(correlations), dtype=np.int64), {})


def test_published_thresholdout__agreement_and_surprise__training_value_or_noisy_holdout() -> None:
    holdout = PublishedThresholdout(2_500, np.random.default_rng(0))
    training = np.full(4_000, 0.5)
    near = holdout.correlations(bare(training), bare(training - 0.01))
    far = holdout.correlations(bare(training), bare(training - 0.2)) - 0.3
    edge = holdout.correlations(bare(training), bare(training - 4.0 / 50.0))
    assert np.mean(near == 0.5) > 0.99
    assert (np.mean(far), np.std(far)) == pytest.approx((0.0, 1.0 / 50.0), abs=0.0015)
    assert np.mean(edge == 0.5) == pytest.approx(0.5, abs=0.04)


def test_promising_holdout__another_population__its_promise_does_not_hold(
    samples: tuple[LinearSample, LinearSample],
) -> None:
    mechanism = GuessAndCheck.tuned(rows=300, queries=1_203, surprises=1)
    holdout = PromisingHoldout(mechanism, clip=3.0, noise=SeededNoise(0))
    answers = holdout.correlations(*samples)
    assert np.nanmax(np.abs(answers - samples[0].correlations)) < 0.05  # the clipped training values
    assert holdout.correlations_hold(LAW)
    assert not holdout.correlations_hold(AttributeLaw(attributes=1_203, informative=3, shift=-1_000.0))
