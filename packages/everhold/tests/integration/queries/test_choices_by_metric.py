"""The best of several models, or of the thresholds of one, by any metric: one step, its regret stated."""

import numpy as np
import pytest
from score_samples import SEALED, TRAINED, chances, made
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

import everhold as eh
from everhold.sklearn import SealedSearchCV

CUTS = np.linspace(0.1, 0.8, 15)


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    with made(tmp_path_factory.mktemp("best"), "y") as holdout:
        yield holdout


@pytest.mark.parametrize(
    ("name", "score"),
    [("f1", metrics.f1_score), ("balanced_accuracy", metrics.balanced_accuracy_score),
     ("matthews_corrcoef", metrics.matthews_corrcoef)],
)  # fmt: skip
def test_the_best_threshold_is_chosen_in_one_step_with_its_regret(holdout, name, score):
    scores, before = chances(SEALED), holdout.remaining["surprises"]
    best = holdout.ask(eh.choose(eh.at_thresholds(name, scores, CUTS, training=chances(TRAINED)), best="highest"))
    values = [score(SEALED["y"], scores >= cut) for cut in CUTS]
    assert best.index == int(np.argmax(values))
    assert best.low <= max(values) <= best.high
    assert 0.0 < best.regret <= best.high - best.low
    assert holdout.remaining["surprises"] == before


def test_thresholds_of_a_model_and_metrics_of_models_are_candidates(holdout):
    features = np.asarray(TRAINED["x"])[:, None]
    model = LogisticRegression().fit(features, TRAINED["y"])
    best = holdout.ask(eh.choose(eh.at_thresholds("f1", model, [0.2, 0.4, 0.6]), best="highest"))
    told = model.predict_proba(np.asarray(SEALED["x"])[:, None])[:, 1]
    assert best.index == int(np.argmax([metrics.f1_score(SEALED["y"], told >= cut) for cut in (0.2, 0.4, 0.6)]))
    noise = np.random.default_rng(5).normal(size=len(SEALED["x"]))
    areas = [eh.metric("roc_auc", SEALED["x"] + far * noise, training=TRAINED["x"] + far * noise) for far in (2.0, 0.5)]
    assert holdout.ask(eh.choose(areas, best="highest")).index == 1


def test_the_threshold_of_the_largest_net_benefit_is_chosen_for_arrays_and_models(holdout):
    cuts, odds = [0.05, 0.2, 0.6], 0.25
    model = LogisticRegression().fit(np.asarray(TRAINED["x"])[:, None], TRAINED["y"])
    for scores, told, known in (
        (chances(SEALED), chances(SEALED), {"training": chances(TRAINED)}),
        (model, model.predict_proba(np.asarray(SEALED["x"])[:, None])[:, 1], {}),
    ):  # fmt: skip
        asked = eh.at_thresholds("net_benefit", scores, cuts, threshold=0.2, **known)
        benefits = [np.mean((told >= cut) * np.where(SEALED["y"] == 1, 1.0, -odds)) for cut in cuts]
        assert holdout.ask(eh.choose(asked, best="highest")).index == int(np.argmax(benefits))


def test_candidates_of_different_metrics_are_refused(holdout):
    sealed, trained, before = chances(SEALED) >= 0.5, chances(TRAINED) >= 0.5, holdout.remaining
    candidates = [eh.metric(name, sealed, training=trained) for name in ("f1", "matthews_corrcoef")]
    with pytest.raises(eh.QueryRejected, match="f1, matthews_corrcoef"):
        holdout.ask(eh.choose(candidates, best="highest"))
    assert holdout.remaining == before


def test_several_metrics_are_one_call(holdout):
    before = holdout.remaining["queries"]
    names = ["accuracy", "roc_auc", "neg_log_loss", "roc_auc_ovr"]
    answers = holdout.evaluate(LogisticRegression(), names)
    assert [*answers] == [(name,) for name in names]
    assert holdout.remaining["queries"] == before - 4
    assert answers["roc_auc_ovr"].value == pytest.approx(answers["roc_auc"].value, abs=0.01)
    assert answers["roc_auc"].value == holdout.evaluate(LogisticRegression(), "roc_auc").value
    for metric, terms, words in (
        (["accuracy", "no_such"], {}, "There is no metric"), ([], {}, "metric is"),
        (["accuracy", "f1"], {"by": ["x"]}, "take neither by= nor guess="),
    ):  # fmt: skip
        with pytest.raises(eh.QueryRejected, match=words):
            holdout.evaluate(LogisticRegression(), metric, **terms)
    assert holdout.remaining["queries"] == before - 4


def test_candidates_that_are_no_single_query_are_refused(holdout):
    before = holdout.remaining
    mixed = [eh.metric("f1", (chances(SEALED) > 0.5).astype(int)), eh.accuracy("x > 1")]
    for candidates, words in ((mixed, "queries of different kinds"), ([], "There are 0 candidates")):
        with pytest.raises(eh.QueryRejected, match=words):
            holdout.ask(eh.choose(candidates))
    with pytest.raises(eh.QueryRejected, match="thresholds is"):
        eh.at_thresholds("f1", chances(SEALED), [float("nan")])
    assert holdout.remaining == before


def test_a_number_that_is_best_at_zero_orders_no_models(holdout):
    x, y, before = np.asarray(TRAINED["x"])[:, None], TRAINED["y"], holdout.remaining
    wanted = {"holdout": holdout, "scoring": "calibration_in_the_large", "n_iter": 2}
    search = SealedSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, **wanted)
    with pytest.raises(eh.QueryRejected, match=r"does not order models\. Order them by neg_brier_score"):
        search.fit(x, y)
    assert holdout.remaining == before


def test_thresholds_are_of_numbers_and_of_metrics_of_classes():
    missing = np.where(SEALED["x"] > 2.0, np.nan, SEALED["x"])
    for name, scores, words in (
        ("f1", "x > 0", "The scores are 'x > 0'"), ("f1", {"x": SEALED["x"]}, "Pass an array of numbers"),
        ("f1", missing, f"row {int(np.argmax(np.isnan(missing))) + 1:,} has nan"),
        ("roc_auc", SEALED["x"], "no threshold turns into classes"),
    ):  # fmt: skip
        with pytest.raises(eh.QueryRejected, match=words):
            eh.at_thresholds(name, scores, [0.5])
    with pytest.raises(eh.QueryRejected, match=r"treats all classes alike.*np.where\(scores >= 0.5, 'yes', other\)"):
        eh.at_thresholds("accuracy", SEALED["x"], [0.5], pos_label="yes")


def test_thresholds_of_text_labels_name_the_positive_class(tmp_path):
    with made(tmp_path, "kind") as holdout:
        asked = eh.at_thresholds("f1", SEALED["x"], [0.5, 1.0], training=TRAINED["x"], pos_label="c")
        best = holdout.ask(eh.choose(asked, best="highest"))
        told = [metrics.f1_score(SEALED["kind"] == "c", SEALED["x"] >= cut) for cut in (0.5, 1.0)]
        assert best.low < told[best.index] < best.high
