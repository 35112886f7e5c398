"""Differences of two models in precision, recall and F1 where rows come in groups: told, declared and silent."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

import everhold as eh
from everhold.queries.metrics.measures import measure_of
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.score_parts import Judged, Setting

GROUPS = 400
SCORES = {
    "f1": f1_score, "precision": precision_score, "recall": recall_score,
    "f1_macro": lambda labels, said, **how: f1_score(labels, said, average="macro", **how),
}  # fmt: skip


def rows_of(seed, *, first=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, GROUPS)
    shared, groups = np.repeat(rng.normal(size=GROUPS), sizes), np.repeat(first + np.arange(GROUPS), sizes)
    x = shared + rng.normal(size=len(groups))
    near = (x + 0.4 * rng.normal(size=len(x)) > 0.7) * 1
    return {"g": groups, "x": x, "one": (x > 0.5) * 1, "other": near, "w": rng.random(len(x)),
            "y": (shared + 0.7 * rng.normal(size=len(x)) > 0.5) * 1}  # fmt: skip


SEALED, TRAINED = rows_of(1), rows_of(2, first=10**6)


def of(name, which, **terms):
    return eh.metric(name, SEALED[which], training=TRAINED[which], **terms)


def gain(name, **terms):
    return eh.difference(of(name, "one", **terms), of(name, "other", **terms))


def sealed_gain(name, where=None, weights=None):
    inside = slice(None) if where is None else where
    labels, weights = SEALED["y"][inside], None if weights is None else weights[inside]
    told = [SCORES[name](labels, SEALED[each][inside], sample_weight=weights) for each in ("one", "other")]
    return told[0] - told[1]


@pytest.fixture
def create(tmp_path):
    made = []

    def create(name="h", **terms):
        asked = {"holdout": SEALED, "training": TRAINED, "label": "y", "queries": 60, "surprises": 4}
        made.append(eh.Holdout.create(f"{tmp_path}/{name}.db", name, **asked | {"dependence": eh.Groups("g")} | terms))
        return made[-1]

    yield create
    for holdout in made:
        holdout.close()


@pytest.mark.parametrize("name", SCORES)
def test_a_difference_of_rates_is_told_and_unsealed(create, name):
    holdout, positive = create(), SEALED["x"] > 0
    told = holdout.ask(gain(name))
    some = holdout.ask(gain(name, where="x > 0"))
    weighed = holdout.ask(gain(name, weight="w", weight_cap=1))
    assert [answer.source for answer in (told, some, weighed)] == ["training"] * 3
    single = holdout.ask(of(name, "one"))
    assert told.high - told.low < 1.3 * (single.high - single.low)  # two intervals would be twice as wide
    holdout.unseal()
    rows = holdout.transcript().rows
    truths = sealed_gain(name), sealed_gain(name, positive), sealed_gain(name, weights=SEALED["w"])
    for answer, row, truth in zip((told, some, weighed), rows, truths, strict=False):
        assert row["sealed"] == pytest.approx(truth, abs=1e-5)
        assert answer.low <= row["sealed_low"] < truth < row["sealed_high"] <= answer.high


def test_declared_and_silent_differences_are_narrower(create):
    declared, silent, told = create("d", declared=[eh.listed([*map(gain, SCORES)])]), create("s"), create("t")
    for name in SCORES:
        silent.ask(gain(name), silent=True)
    for name, row in zip(SCORES, silent.unseal().rows, strict=True):
        exact, open_ = declared.ask(gain(name)), told.ask(gain(name))
        assert exact.source == "declared"
        assert exact.low < sealed_gain(name) < exact.high
        widths = exact.high - exact.low, row["sealed_high"] - row["sealed_low"], open_.high - open_.low
        assert widths[0] < widths[1] < widths[2]
    parts = create("p", declared=[eh.listed([of("f1", "one"), of("f1", "other")])])
    each = [parts.ask(of("f1", which)) for which in ("one", "other")]
    both = declared.ask(gain("f1"))
    assert both.high - both.low < 0.6 * sum(answer.high - answer.low for answer in each)


class Above:
    """A model that predicts 1 for all rows above a number."""

    feature_names_in_ = ("x",)

    def __init__(self, cut):
        self.cut = cut

    def predict(self, rows):
        return (np.ravel(rows) > self.cut).astype(int)


@pytest.mark.parametrize("dependence", [eh.Groups("g"), eh.Independent()], ids=["groups", "rows"])
def test_two_models_are_compared_without_training_rows(create, dependence):
    asked = {name: eh.difference(*(eh.metric(name, Above(cut)) for cut in (0.5, 0.9))) for name in SCORES}
    holdout = create(
        training=None, dependence=dependence, declared=[eh.listed(list(asked.values()))], share=0.99, mechanism=None
    )
    for name, query in asked.items():
        answer = holdout.ask(query)
        said = [(SEALED["x"] > cut).astype(int) for cut in (0.5, 0.9)]
        truth = SCORES[name](SEALED["y"], said[0]) - SCORES[name](SEALED["y"], said[1])
        assert answer.source == "declared"
        assert answer.low < truth < answer.high < answer.low + 0.5


def test_f1_of_functions_is_the_same_query(create):
    holdout = create()
    query = eh.difference(*(eh.f1(SEALED[each], training=TRAINED[each]) for each in ("one", "other")))
    assert holdout.ask(query).query == holdout.ask(gain("f1")).query


def test_a_model_that_never_predicts_the_class_needs_a_guess(create):
    holdout, nothing = create(), np.zeros(len(SEALED["y"]))
    query = eh.difference(of("precision", "one"), eh.metric("precision", nothing, training=0 * TRAINED["y"]))
    with pytest.raises(eh.QueryRejected, match="guess"):
        holdout.ask(query)
    answer = holdout.ask(query, guess=0.5)
    assert answer.low < answer.high
    assert holdout.status()["queries_asked"] == 1


@pytest.mark.parametrize("name", SCORES)
def test_rows_of_a_group_are_one_unit(name):
    said, labels, groups = np.array([1.0, 0.0, 1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 1.0, 0.0]), np.arange(5) // 2
    both = Judged(said, labels, groups), Judged(1.0 - said, labels, groups)
    seen = measure_of(METRICS[name]).see_difference(*both, Setting(classes=2), 2.0)
    assert [arms.treated.counts.sum() for arms in seen.parts] == [3.0] * len(seen.parts)


def test_weighted_f1_is_refused(create):
    holdout = create()
    with pytest.raises(eh.QueryRejected, match=r"by f1_weighted. .* unknown, .* by f1_macro or accuracy"):
        holdout.ask(gain("f1_weighted"))
    assert holdout.status()["queries_asked"] == 0
