"""Any class against the rest, and the AUC of each class: scikit-learn's numbers, for models and for predictions."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from score_samples import SEALED, TRAINED, each_class, made, three
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

import everhold as eh
from everhold.queries.metrics.measures import measure_of
from everhold.queries.metrics.registry import METRICS

AGAINST = {
    "f1": metrics.f1_score, "precision": metrics.precision_score, "recall": metrics.recall_score,
    "matthews_corrcoef": metrics.matthews_corrcoef, "roc_auc": metrics.roc_auc_score,
    "brier": metrics.brier_score_loss, "neg_brier_score": lambda labels, p: -metrics.brier_score_loss(labels, p),
}  # fmt: skip
CHANCE = ("roc_auc", "brier", "neg_brier_score")


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    with made(tmp_path_factory.mktemp("pos"), "kind") as holdout:
        yield holdout


def told(name, table, positive):
    return each_class(table)[:, "abc".index(positive)] if name in CHANCE else three(table)


def test_any_class_against_the_rest_is_scikit_learns_number_of_predictions_and_of_models(holdout):
    model = LogisticRegression().fit(np.asarray(TRAINED["x"])[:, None], TRAINED["kind"])
    features, asked = np.asarray(SEALED["x"])[:, None], {}
    for name, score in AGAINST.items():
        given = told(name, SEALED, "b")
        query = eh.metric(name, given, training=told(name, TRAINED, "b"), pos_label="b")
        own = model.predict_proba(features)[:, 1] if name in CHANCE else model.predict(features) == "b"
        asked[name] = (query, score(SEALED["kind"] == "b", given if name in CHANCE else given == "b"))
        asked[name, "model"] = (eh.metric(name, model, pos_label="b"), score(SEALED["kind"] == "b", own))
    for query, true in asked.values():
        answer = holdout.ask(query)
        assert "'b' against the rest" in answer.shown
        assert answer.low <= true <= answer.high
    first, second = (eh.metric("f1", three(each), pos_label="b") for each in (SEALED, {"x": SEALED["x"] + 0.2}))
    apart = holdout.ask(eh.difference(first, second), guess=0.05)
    assert apart.low < apart.high
    holdout.unseal()
    for query, true in asked.values():
        assert holdout.ask(query).sealed == pytest.approx(true, abs=2e-4)


def test_a_class_against_the_rest_is_answered_as_labels_0_and_1_are(tmp_path):
    """Also for truth values as predictions, and where public predictions alone show how to bet."""
    rng = np.random.default_rng(0)
    late = rng.random(2_000) < 0.3
    first, second = (np.clip(0.2 + spread * late + 0.1 * rng.normal(size=2_000), 0.0, 1.0) for spread in (0.6, 0.5))

    def answers(labels, **more):
        classes = eh.Rows(classes=[*np.unique(labels).tolist()])
        address = f"sqlite:///{tmp_path}/{labels.dtype.kind}.db"
        with eh.Holdout.create(
            address, "study", holdout={"kind": labels}, label="kind", rows=classes, mechanism="guess_and_check"
        ) as holdout:
            for guess, name, *scores in (
                (0.0, "precision", first > 0.5, second > 0.5), (0.0, "brier", first, second), (0.04, "brier", first),
            ):  # fmt: skip
                one, *other = (eh.metric(name, each, **more) for each in scores)
                answer = holdout.ask(eh.difference(one, *other) if other else one, guess=guess)
                yield answer.source, answer.low, answer.high

    assert [*answers(np.where(late, "yes", "no"), pos_label="yes")] == [*answers(late.astype(int))]


@pytest.mark.parametrize("positive", [False, 0, True, 1])
def test_truth_values_are_the_classes_0_and_1_where_one_of_these_is_positive(tmp_path, positive):
    rng = np.random.default_rng(0)
    late = rng.random(1_000) < 0.2
    predicted = (rng.random(1_000) < 0.1) | late
    for place, labels in enumerate((late, late.astype(int))):
        with eh.Holdout.create(
            tmp_path / f"{place}.db", "s", holdout={"late": labels}, label="late", mechanism="guess_and_check"
        ) as holdout:
            holdout.ask(eh.metric("recall", predicted, pos_label=positive), guess=0.5)
            (row,) = holdout.unseal().to_rows()
            true = metrics.recall_score(late, predicted, pos_label=bool(positive))
            assert row["sealed"] == pytest.approx(true)


def test_false_is_a_positive_class_as_any_other_is(tmp_path):
    """The share of the class among training labels is that of False, by which bets on two public arrays are planned."""
    rng = np.random.default_rng(0)
    late = rng.random(4_000) < 0.2
    first, second = (np.where(rng.random(4_000) < wrong, ~late, late) for wrong in (0.1, 0.12))

    def told(labels, predictions, **more):
        address = f"sqlite:///{tmp_path}/{labels.dtype.kind}.db"
        with eh.Holdout.create(
            address, "study", holdout={"late": labels[:2_000]}, training={"late": labels[2_000:]}, label="late",
            mechanism="guess_and_check",
        ) as holdout:  # fmt: skip
            scores = (eh.metric("recall", each[:2_000], **more) for each in predictions)
            answer = holdout.ask(eh.difference(*scores), guess=0.0)
            return answer.low, answer.high

    as_numbers = told((~late).astype(int), [(~each).astype(int) for each in (first, second)])
    assert told(late, [first, second], pos_label=False) == as_numbers
    assert as_numbers[1] - as_numbers[0] < 0.3


def test_what_cannot_be_meant_is_refused_and_costs_nothing(holdout):
    before = holdout.remaining
    for name, positive, words in (
        ("f1", "z", "is 'z', which is no class"), ("f1_macro", "b", "takes no pos_label"),
        ("f1", None, "pos_label"), ("accuracy", "b", "takes no pos_label"),
        ("f1", np.array(["a", "b"]), "Pass one class"),
    ):  # fmt: skip
        with pytest.raises(eh.QueryRejected, match=words):
            holdout.ask(eh.metric(name, three(SEALED), training=three(TRAINED), pos_label=positive))
    assert holdout.remaining == before
    assert {str(eh.metric("f1", [1], pos_label=one).positive) for one in (True, 1, 1.0, np.int8(1))} == {"1"}


def test_models_are_evaluated_searched_and_gated_by_one_class(tmp_path):
    with made(tmp_path, "kind") as holdout:
        of_c = partial(eh.metric, "f1", pos_label="c")
        answer = holdout.evaluate(LogisticRegression(), of_c)
        assert answer.low < 0.75 < answer.high
        gate = holdout.gate(of_c, champion=np.full(len(SEALED["x"]), "a"), name="c")
        assert gate.challenge(three(SEALED)).promoted


def test_the_parts_of_a_macro_area_share_the_level():
    rng = np.random.default_rng(0)
    labels, chances = rng.integers(3, size=400).astype(float), rng.dirichlet([1.0] * 3, size=400)
    measure = measure_of(METRICS["roc_auc_ovr"])
    from everhold.queries.metrics.score_parts import Judged, Setting, Sized

    for dealt in ("ranks", "blocks"):
        setting = Setting(classes=3, shares=(0.3, 0.3, 0.4), dealt=dealt)
        seen = measure.see(Judged(chances, labels), setting)
        procedure = measure.procedure(seen, setting, Sized(400, 400, 400))
        low, high = procedure.interval(seen, 5.0)
        ends = np.mean([part.interval(of, 5.0 + np.log(3.0)) for part, of in zip(procedure.parts, seen.parts,
                        strict=True)], axis=0)  # fmt: skip
        assert (low, high) == pytest.approx(tuple(ends), abs=1e-9)
        removed = replace(procedure, shares=(1 / 3, 1 / 3, 1 / 3 - 1e-9))
        object.__setattr__(removed, "shares", (1.0,) * 3)  # the protection removed: each part has the whole level
        assert removed.interval(seen, 5.0)[0] > low
