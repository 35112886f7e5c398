"""Statistics of low sensitivity: proven sensitivities by enumeration, claims that are tried, intervals that hold."""

import itertools
import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sealed_copies import copy_of
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score

import everhold as eh
from everhold import low_sensitivity
from everhold.asking.creation import settings_from
from everhold.errors import QueryRejected
from everhold.mechanisms import State
from everhold.queries.metrics.ranking import auc, auc_of, auc_sensitivity, f1, f1_of, f1_sensitivity
from everhold.queries.statistic import Statistic, StatisticGrid
from everhold.randomness import SeededNoise
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget
from everhold_privacy.queries.low_sensitivity import StatisticPurchase, counterexample, neighbours

ROWS = 4_000


def rows(seed=0, count=ROWS):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count)
    return {"x": x, "flag": rng.random(count) < 0.5, "y": (x + rng.normal(size=count) > 0).astype(int)}


def spread(table):
    return np.var(np.clip(np.nan_to_num(table["x"]), -1, 1))


def variance(**more):
    return low_sensitivity(spread, 4 / ROWS, columns=["x"], **more)


def sealed(folder):
    return eh.Holdout.create(
        folder / "s.db", "g", holdout=rows(0), training=rows(1), label="y", mechanism="privacy_budget", queries=20
    )


@pytest.fixture
def holdout(tmp_path):
    with copy_of(tmp_path, sealed, storage="s.db", name="g") as made:
        yield made


def largest_move(statistic, kinds, size):
    """The most that replacing one row moves a statistic of ordered rows, by looking at all data sets."""
    value = {data: statistic(*np.array(data, dtype=float).T) for data in itertools.product(kinds, repeat=size)}
    return max(
        abs(value[data] - value[(*data[:place], row, *data[place + 1 :])])
        for data in value
        for place in range(size)
        for row in kinds
    )


@pytest.mark.parametrize(("positives", "negatives"), [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 3)])
def test_one_row_moves_an_auc_by_its_sensitivity_and_no_more(positives, negatives):
    kinds = list(itertools.product([0, 1, 2], [0, 1]))
    moved = largest_move(
        lambda scores, labels: auc_of(scores, labels, positives=positives, negatives=negatives), kinds, 5
    )
    delta = auc_sensitivity(positives=positives, negatives=negatives)
    assert moved <= delta * (1 + 1e-12)  # floats; the grid has a step to spare for them
    if positives + negatives <= 4:
        assert moved == pytest.approx(delta)


@pytest.mark.parametrize("least", [2, 3, 4.5, 6, 20])
def test_one_row_moves_an_f1_by_its_sensitivity_and_no_more(least):
    moved = largest_move(
        lambda predicted, labels: f1_of(predicted, labels, least=least), list(itertools.product([0, 1], [0, 1])), 5
    )
    assert moved <= f1_sensitivity(least=least) * (1 + 1e-12)
    assert moved == pytest.approx(2 / least)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40))
def test_auc_and_f1_are_the_usual_ones_where_nothing_is_missing(pairs):
    scores, labels = np.array(pairs, dtype=float).T
    positives, negatives = int(labels.sum()), int((1 - labels).sum())
    if positives and negatives:
        found = auc_of(scores, labels, positives=positives, negatives=negatives)
        assert found == pytest.approx(roc_auc_score(labels, scores))
    predicted = (scores > 2).astype(int)
    assert f1_of(predicted, labels, least=0.5) == pytest.approx(f1_score(labels, predicted, zero_division=0))


def test_missing_slots_of_an_auc_count_one_half_for_each_pair():
    scores, labels = np.array([3.0, 2.0, 1.0]), np.array([1, 0, 0])
    assert auc_of(scores, labels, positives=2, negatives=2) == 0.75
    assert auc_of(scores, 1 - labels, positives=2, negatives=1) == 0.0
    assert auc_of(scores, np.zeros(3), positives=2, negatives=2) == 0.5


@given(
    st.integers(2, 2**30), st.floats(1e-9, 1.0), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.floats(0, 1),
    st.floats(-1, 1),
)  # fmt: skip
def test_the_grid_moves_by_one_row_at_most(unit, delta, low, width, where, step):
    grid = StatisticGrid(low, low + width, delta, unit)
    one = low + where * width
    other = one + step * delta
    if abs(Fraction(other) - Fraction(one)) <= Fraction(delta):
        assert abs(grid.position(one) - grid.position(other)) <= unit
    assert 0 <= grid.position(one) * grid.share <= 1
    assert abs(grid.at(float(grid.position(one) * grid.share)) - min(one, low + width)) <= float(grid.step) + 1e-9


def test_an_auc_of_very_many_pairs_is_exact():
    """A double would lose the one pair that is in order, and with it the proven sensitivity."""
    query = auc(np.array([0.0, 1.0]), positives=10**9, negatives=10**9)
    value = query.of_rows(np.arange(2.0), np.arange(2.0))
    assert value == Fraction(1, 2) + Fraction(1, 2 * 10**18)
    assert f1(np.ones(2), least=3).of_rows(np.ones(2), np.array([1.0, 0.0])) == Fraction(2, 3)


@pytest.mark.parametrize(("positives", "negatives"), [(1, 1), (2, 2), (3, 1)])
def test_fresh_samples_are_worth_the_auc_less_what_their_class_counts_miss(positives, negatives):
    """All samples of 4 rows: label 1 with probability 0.3, scores 0, 1, 2 by a law for each label."""
    size, share = 4, 0.3
    laws = {1: np.array([0.1, 0.3, 0.6]), 0: np.array([0.5, 0.25, 0.25])}
    rows_of = [
        (label, score, (share if label else 1 - share) * laws[label][score]) for label in (0, 1) for score in range(3)
    ]
    expected = filled = 0.0
    for sample in itertools.product(rows_of, repeat=size):
        labels, scores, chances = (np.array(part) for part in zip(*sample, strict=True))
        ones = int(labels.sum())
        expected += chances.prod() * auc_of(scores.astype(float), labels, positives=positives, negatives=negatives)
        filled += chances.prod() * min(ones, positives) * min(size - ones, negatives) / (positives * negatives)
    above = np.array([[0.5, 0, 0], [1, 0.5, 0], [1, 1, 0.5]])
    area = laws[1] @ above @ laws[0]
    assert expected - area == pytest.approx((0.5 - area) * (1 - filled), abs=1e-12)
    assert expected < area


def excess_of_chosen_claims(law, kernel, claims, epsilon):
    """E of how far the worst claim's posterior mean is beyond tanh; the transcript chooses the claim."""
    told = law @ kernel
    posterior = law[:, None] * kernel / told
    off = np.max([claim @ posterior - claim @ law for claim in claims], axis=0) - math.tanh(epsilon / 4)
    return told @ np.maximum(off, 0.0)


def binary_worlds(size):
    """All samples of binary rows, and the pairs of them that differ in one row."""
    worlds = np.array(list(itertools.product((0, 1), repeat=size)))
    return worlds, np.argwhere((worlds[:, None] != worlds).sum(axis=2) == 1).T


def hockey_stick(kernel, pairs, epsilon):
    one, other = kernel[pairs]
    return np.maximum(one - math.exp(epsilon) * other, 0.0).sum(axis=1).max()


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.5])
def test_transcripts_may_choose_between_means_and_statistics(epsilon):
    """S1 for low sensitivity, exactly, with statistics that are fitted to what is told."""
    rng = np.random.default_rng(5)
    for _ in range(150):
        size = int(rng.integers(2, 4))
        worlds, pairs = binary_worlds(size)
        ones = rng.uniform(0.1, 0.9, size)
        law = np.where(worlds == 1, ones, 1 - ones).prod(axis=1)
        kernel = np.exp(rng.normal(scale=rng.choice([0.2, 1.0, 3.0]), size=(len(worlds), 3)))
        kernel /= kernel.sum(axis=1, keepdims=True)
        fitted = np.log(kernel)
        moves = np.abs(fitted[pairs[0]] - fitted[pairs[1]]).max(axis=0)
        statistics = [sign * statistic / size for statistic in (fitted / moves).T for sign in (-1, 1)]
        means = [(value == worlds).mean(axis=1) for value in worlds]
        most = hockey_stick(kernel, pairs, epsilon)
        assert excess_of_chosen_claims(law, kernel, statistics + means, epsilon) <= most + 1e-12


def test_the_number_of_rows_belongs_to_the_half_width_of_a_statistic():
    """The number of ones has the sensitivity 1, and a whisper about it moves what it is expected to be by more."""
    worlds, pairs = binary_worlds(8)
    count, law = worlds.sum(axis=1), np.full(len(worlds), 1 / len(worlds))
    kernel = 0.5 + np.outer(count - 4, [-0.01, 0.01])
    whispered = hockey_stick(kernel, pairs, 0.0)
    assert excess_of_chosen_claims(law, kernel, [count, -count], 0.0) > whispered
    assert excess_of_chosen_claims(law, kernel, [count / 8, -count / 8], 0.0) <= whispered


def test_what_is_no_number_counts_as_the_least_value():
    grid = StatisticGrid(0.25, 1.0, 0.01)
    assert [grid.position(value) for value in (math.nan, -math.inf, 0.0, 0.25)] == [0, 0, 0, 0]
    assert grid.position(math.inf) == grid.position(7.0) == math.floor(Fraction(0.75) / grid.step)


def test_intervals_hold_for_statistics_and_would_not_without_the_number_of_rows():
    """AUC of coins is 1/2. Planted error: a half-width of Delta in place of n Delta times that of a mean."""
    count, missed, missed_without = 500, 0, 0
    mechanism = PrivacyBudget.tuned(rows=count, queries=5)
    delta = auc_sensitivity(positives=200, negatives=200)
    grid = StatisticGrid(0.0, 1.0, delta, mechanism.unit)
    wrong = delta * mechanism.radius_at(mechanism.scale)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        value = auc_of(rng.normal(size=count), rng.integers(0, 2, count), positives=200, negatives=200)
        bought = StatisticPurchase(Statistic(grid, lambda sealed, value=value: value, {}, ""), mechanism.scale)
        drawn = bought.answer(mechanism, State(), bought.evaluate(None, mechanism.unit), SeededNoise(seed))
        missed += not drawn.answer["low"] <= 0.5 <= drawn.answer["high"]
        missed_without += abs(drawn.answer["value"] - 0.5) > wrong
    assert missed <= 2
    assert missed_without > 90


def test_the_half_width_is_n_delta_times_that_of_a_mean():
    mechanism = PrivacyBudget.tuned(rows=500, queries=5)
    statistic = Statistic(StatisticGrid(0.0, 1.0, 0.01), lambda sealed: 0.0, {}, "")
    width = StatisticPurchase(statistic, mechanism.scale).price(mechanism).within
    assert width == pytest.approx(500 * 0.01 * mechanism.radius_at(mechanism.scale), rel=1e-8)
    assert width >= 500 * 0.01 * mechanism.radius_at(mechanism.scale)


def test_an_answer_costs_what_was_quoted_and_repeats_for_nothing(holdout):
    sharp, query = 0.8 * holdout.quote(variance()).radius, variance(name="v")
    for tolerance in (None, sharp):
        quoted = holdout.quote(query, tolerance=tolerance)
        answer = holdout.ask(query, tolerance=tolerance)
        assert (quoted.charged_at_most > 100) == (tolerance is not None)
        assert (answer.charged, answer.statement, answer.source) == (quoted.charged_at_most, "S1", "holdout")
        assert answer.low <= spread(rows(7, 400_000)) <= answer.high
        again = holdout.ask(query, tolerance=tolerance)
        assert (again.repeated, again.charged, again.value) == (True, 0, answer.value)
    assert answer.high - answer.low <= 2 * sharp * (1 + 1e-12)


def test_auc_and_f1_of_arrays_and_of_estimators(holdout):
    truth = rows(0)
    scores, predicted = truth["x"], (truth["x"] > 0).astype(int)
    model = LogisticRegression().fit(np.column_stack([rows(1)["x"], rows(1)["flag"]]), rows(1)["y"])
    for query, value in (
        (auc(scores, positives=1_800, negatives=1_800), roc_auc_score(truth["y"], scores)),
        (auc(model, positives=1_800, negatives=1_800), roc_auc_score(truth["y"], scores)),
        (f1(predicted, least=3_800), f1_score(truth["y"], predicted)),
        (f1(model, least=3_800), f1_score(truth["y"], predicted)),
    ):
        answer = holdout.ask(query)
        assert answer.low <= value <= answer.high
        assert answer.high - answer.low < 1.0
        assert holdout.ask(query).repeated
    assert holdout.transcript().rows[0]["asked"].startswith("share of pairs in order by predictions ")
    json.dumps(holdout.transcript().to_dict(), allow_nan=False)


def test_rows_on_which_an_estimator_fails_do_not_move_the_others(tmp_path):
    """sklearn refuses a whole table for one missing value; here the row at fault counts as a negative one."""
    sealed = rows(0)
    sealed["x"] = np.where(np.arange(ROWS) % 100 == 0, np.nan, sealed["x"])
    model = LogisticRegression().fit(np.column_stack([rows(1)["x"], rows(1)["flag"]]), rows(1)["y"])
    with eh.Holdout.create(
        tmp_path / "s.db", "g", holdout=sealed, label="y", mechanism="privacy_budget", queries=5
    ) as made:
        answer = made.ask(auc(model, positives=1_800, negatives=1_800))
    assert answer.low < 0.83 < answer.high


@pytest.mark.parametrize("sensitivity", [0, 0.0, -0.1, math.nan, math.inf, "1", None, True])
def test_a_sensitivity_that_makes_no_sense_is_refused_at_once(sensitivity):
    with pytest.raises(ValueError, match=r"sensitivity is .*\. Pass a positive finite number"):
        low_sensitivity(spread, sensitivity)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            lambda: low_sensitivity(spread, 0.1, low=1.0, high=1.0),
            "low is 1.0 and high is 1.0. Pass two finite numbers, the lower one as low.",
        ),
        (
            lambda: low_sensitivity(spread, 0.1, low=math.nan),
            "low is nan and high is 1.0. Pass two finite numbers, the lower one as low.",
        ),
        (
            lambda: low_sensitivity(spread, 0.1, high=math.inf),
            "low is 0.0 and high is inf. Pass two finite numbers, the lower one as low.",
        ),
        (lambda: low_sensitivity("spread", 0.1), "function is a str. Pass a function from a table to a number."),
        (
            lambda: low_sensitivity(spread, 0.1, probe={}),
            "probe is not a table. Pass columns by name, all equally long.",
        ),
        (
            lambda: low_sensitivity(spread, 0.1, probe={"x": [0.0, 1.0], "y": [1.0]}),
            "probe is not a table. Pass columns by name, all equally long.",
        ),
        (lambda: auc([0.1], positives=0, negatives=1), "positives is 0. Pass a whole number of rows, at least 1."),
        (lambda: auc([0.1], positives=1, negatives=2.5), "negatives is 2.5. Pass a whole number of rows, at least 1."),
        (lambda: f1([1], least=0), "least is 0. Pass a positive finite number."),
        (lambda: f1([1], least=math.nan), "least is nan. Pass a positive finite number."),
        (lambda: f1([1], least=1.5), "least is 1.5. Pass at least 2 rows, and preferably some hundreds."),
    ],
)
def test_other_wrong_numbers_are_refused_at_once(wrong, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        wrong()


@pytest.mark.parametrize(
    ("function", "sensitivity", "high"),
    [
        (lambda t: np.var(np.clip(np.nan_to_num(t["x"]), -1, 1)), 0.5 / ROWS, 1.0),  # too small by half
        (lambda t: np.var(np.clip(t["x"], -1, 1)), 4 / ROWS, 1.0),  # one missing value and it is nan
        (lambda t: np.mean(np.nan_to_num(t["x"])), 8 / ROWS, 5.0),  # not clipped
        (lambda t: np.median(np.nan_to_num(t["x"])), 0.01, 5.0),
        (lambda t: np.max(np.clip(np.nan_to_num(t["x"]), 0, 1)), 0.01, 1.0),
        (lambda t: float(np.sum(t["y"]) == 1), 0.5, 1.0),  # tips at one boundary
        (lambda t: float(np.sum(t["y"]) > ROWS // 2), 0.5, 1.0),
        (lambda t: roc_auc_score(t["y"], np.nan_to_num(t["x"])), 0.01, 1.0),  # fails where there is one class only
        (lambda t: np.nan_to_num(t["x"])[0] > 0, 0.5, 1.0),  # the first row alone
    ],
)
def test_a_sensitivity_with_a_counterexample_is_refused_and_costs_nothing(holdout, function, sensitivity, high):
    query, before = low_sensitivity(function, sensitivity, low=-high, high=high), holdout.remaining
    for attempt in (holdout.ask, holdout.quote):
        with pytest.raises(QueryRejected, match=r"Replacing one row moves the statistic by ") as caught:
            attempt(query)
    assert caught.value.data["difference"] > sensitivity == caught.value.data["sensitivity"]
    assert holdout.remaining == before


def test_without_training_rows_made_up_ones_are_tried(tmp_path):
    with eh.Holdout.create(
        tmp_path / "s.db", "g", holdout=rows(0), label="y", mechanism="privacy_budget", queries=20
    ) as made:
        assert made.ask(variance()).charged == 100
        with pytest.raises(QueryRejected, match="Replacing one row"):
            made.ask(low_sensitivity(lambda t: np.median(np.nan_to_num(t["x"])), 0.01))


def test_rows_given_at_creation_are_tried_at_creation():
    public = {"x": np.linspace(0, 1, 200), "y": np.arange(200) % 2}
    low_sensitivity(spread, 4 / 200, probe=public)
    low_sensitivity(lambda t: np.mean(t["y"]), 1 / 200, probe=public)
    with pytest.raises(QueryRejected, match="Replacing one row"):
        low_sensitivity(spread, 0.5 / 200, probe=public)
    with pytest.raises(QueryRejected, match="fails on public rows with KeyError"):
        low_sensitivity(lambda t: t["no"], 1.0, probe=public)


def test_neighbours_differ_in_one_row_and_the_rows_are_public():
    table = {"x": np.array([0.5, 1.5, np.nan]), "t": np.array(["a", "b", None], dtype=object), "y": np.array([0, 1, 1])}
    kinds = set()
    for kind, one, other in neighbours(table, rows=6, label="y"):
        kinds.add(kind.split(";")[0])
        differs = np.zeros(6, dtype=bool)
        for name in table:
            assert len(one[name]) == len(other[name]) == 6
            differs |= np.array([str(a) != str(b) for a, b in zip(one[name], other[name], strict=True)])
            assert set(one["y"].tolist()) <= {0, 1}
        assert differs.sum() <= 1
    assert kinds == {"ordinary rows", "equal rows", "two kinds of rows"}


def test_a_true_sensitivity_passes_and_a_slightly_smaller_one_does_not():
    table = {"x": np.linspace(0, 1, 50)}

    def mean(rows_of):
        return float(np.mean(np.clip(np.nan_to_num(rows_of["x"]), 0, 1)))

    assert counterexample(mean, table, rows=50, allowed=1 / 50 + 1e-12) is None
    found = counterexample(mean, table, rows=50, allowed=0.99 / 50)
    assert found.difference == pytest.approx(1 / 50)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (low_sensitivity(spread, 4 / ROWS, columns=["no"]), "columns is"),
        (low_sensitivity(lambda t: t["no"], 0.1), "fails on public rows with KeyError"),
        (low_sensitivity(lambda t: np.array([1.0, 2.0]), 0.1), r"array of shape \(2,\)"),
        (low_sensitivity(lambda t: math.nan, 0.1), "not finite"),
        (low_sensitivity(spread, 1e-12), "too wide for a sensitivity"),
        (auc(np.zeros(3), positives=1, negatives=1), "shape"),
        (auc(np.full(ROWS, np.nan), positives=1, negatives=1), "not all finite"),
        (f1(np.full(ROWS, 0.5), least=100), "The predictions are no labels"),
        (auc(DummyClassifier(), positives=1, negatives=1), "fitted"),
    ],
)
def test_what_cannot_be_asked_costs_nothing(holdout, query, words):
    before = holdout.remaining
    with pytest.raises(QueryRejected, match=words):
        holdout.ask(query)
    assert holdout.remaining == before


def test_dependent_rows_and_holdouts_without_labels_are_refused(tmp_path):
    wanted = {"mechanism": "privacy_budget", "queries": 5}
    with eh.Holdout.create(
        tmp_path / "s.db", "tied", holdout=rows(0), dependence=eh.Groups(4), **settings_from(wanted)
    ) as made:
        with pytest.raises(QueryRejected, match="independent rows only"):
            made.ask(variance())
        with pytest.raises(QueryRejected, match="needs labels 0 and 1"):
            made.ask(auc(np.zeros(ROWS), positives=10, negatives=10))
        assert made.remaining["credits"] == 500


def test_sealed_rows_are_not_tried_and_their_faults_are_silent(tmp_path):
    """The function meets sealed rows once, fails on them with their values in its words, and nothing is heard of it."""
    sealed, met = rows(0), []
    sealed["x"] = np.full(ROWS, 321.5)

    def statistic(table):
        met.append(len(table["x"]))
        if np.all(table["x"] == 321.5):
            raise ValueError(f"secret {table['x'][0]}")
        return spread(table)

    with eh.Holdout.create(
        tmp_path / "s.db", "g", holdout=sealed, training=rows(1), mechanism="privacy_budget", queries=5
    ) as made:
        answer = made.ask(low_sensitivity(statistic, 4 / ROWS, columns=["x"], name="s"))
    assert (answer.charged, answer.low) == (100, 0.0)
    assert "321.5" not in str(answer)  # digits of the noise alone may be 321


def test_an_analyst_who_picks_the_luckiest_score_on_the_holdout_is_held_to_the_truth():
    """Labels are coins. Of 2,000 random scores the best one looks good on the sample, and is worth 1/2."""
    count, fooled, broken = 1_000, 0, 0
    mechanism = PrivacyBudget.tuned(rows=count, queries=40)
    grid = StatisticGrid(0.0, 1.0, auc_sensitivity(positives=450, negatives=450), mechanism.unit)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        labels, scores = rng.integers(0, 2, count), rng.normal(size=(40, count))
        state, noise, vote = State(), SeededNoise(seed), np.zeros(count)
        signs = np.sign(np.array([float(auc_of(row, labels, positives=450, negatives=450)) for row in scores]) - 0.5)
        fooled += auc_of(signs @ scores, labels, positives=450, negatives=450) > 0.55
        for row in scores:
            value = auc_of(row, labels, positives=450, negatives=450)
            bought = StatisticPurchase(Statistic(grid, lambda sealed, value=value: value, {}, ""), mechanism.scale)
            drawn = bought.answer(mechanism, state, bought.evaluate(None, mechanism.unit), noise)
            state, vote = drawn.state, vote + np.sign(drawn.answer["value"] - 0.5) * row
            broken += not drawn.answer["low"] <= 0.5 <= drawn.answer["high"]
    assert fooled == 5
    assert broken == 0


def test_an_f1_with_a_floor_is_not_certified_as_an_f1(tmp_path):
    truth = rows(0)
    wanted = {"mechanism": "guess_and_check", "queries": 10, "surprises": 2}
    with eh.Holdout.create(tmp_path / "h.db", "h", holdout=truth, label="y", **settings_from(wanted)) as holdout:
        floored = holdout.ask(f1(truth["y"].astype(int), least=4.0 * int(truth["y"].sum())), guess=0.5)
        (fact,) = holdout.certificate([floored]).to_dict()["summary"]["answers"]
    assert floored.low <= 0.5 <= floored.high < 1.0
    assert fact["name"].startswith("2 TP / max(predicted + actual positives, ")
    assert fact["asked"].startswith("2 TP / max(predicted + actual positives, ")
