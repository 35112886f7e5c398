"""Rows on which a model fails count the same in every metric: of one model, of two, in slices and in gates."""

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.base import BaseEstimator

import everhold as eh
from everhold.display import at_most, rounded
from everhold.queries.metrics.registry import METRICS

ROWS, LOG_CLIP = 150, np.log(1000.0)
HOW = {"raises": "at_random", "nan": "of_ones", "no class": "of_zeros", "None": "on_purpose"}
"""In which way a model fails, and the column that says on which sealed rows; it fails on no training row."""


def table(seed, *, sealed, rows=ROWS):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, rows))
    y = (x + z + rng.normal(size=rows) > 0.3).astype(int)
    some = rng.random(rows) < 0.15
    fails = {
        "at_random": some, "of_ones": some & (y == 1), "of_zeros": some & (y == 0), "on_purpose": x > 1.2,
        "second": rng.random(rows) < 0.05,
    }  # fmt: skip
    return {"x": x, "z": z, "y": y, **{name: found * sealed for name, found in fails.items()}}


SEALED, TRAINING = table(1, sealed=1), table(2, sealed=0)
Y = SEALED["y"]


class Model:
    classes_ = np.array([0, 1])

    def __init__(self, column, how, weight):
        self.column, self.how, self.weight = column, how, weight
        self.feature_names_in_ = np.array(["x", "z", column])

    def fails(self, rows):
        return np.asarray(rows[self.column]) == 1

    def chances(self, rows):
        return 1.0 / (1.0 + np.exp(-2.0 * (np.asarray(rows["x"]) + self.weight * np.asarray(rows["z"]))))

    def given(self, values, rows, strange):
        fails = self.fails(rows)
        if not fails.any():
            return values
        if self.how == "raises":
            raise ValueError("found unknown categories")
        values = values.astype(object if self.how == "None" else float)
        values[fails] = {"nan": np.nan, "no class": strange, "None": None}[self.how]
        return values

    def predict(self, rows):
        return self.given((self.chances(rows) > 0.5).astype(int), rows, 7)

    def predict_proba(self, rows):
        chances = self.chances(rows)
        return self.given(np.column_stack([1.0 - chances, chances]), rows, 1.5)


def predicted(model, rows):
    return np.where(model.fails(rows), 1 - rows["y"], model.chances(rows) > 0.5).astype(int)


def ranked(model, rows):
    return np.where(model.fails(rows), np.where(rows["y"] == 1, -1.0, 2.0), model.chances(rows))


def loss(of, of_all=np.mean):
    def summary(model, rows):
        y, p = rows["y"], model.chances(rows)
        losses = {
            "squared": (p - y) ** 2, "log": -np.log(np.where(y == 1, p, 1 - p)), "wrong": ((p > 0.5) != y) * 1.0
        }[of]  # fmt: skip
        most = LOG_CLIP if of == "log" else 1.0
        return -float(of_all(np.where(model.fails(rows), most, np.minimum(losses, most))))

    return summary


def calibration(model, rows):
    p, fails = model.chances(rows), model.fails(rows)
    bins = np.bincount((p * 10).astype(int)[~fails], (rows["y"] - p)[~fails])
    return float((np.abs(bins).sum() + fails.sum()) / len(p))


def recall_at_rate(model, rows):
    alarms, recalls, _ = metrics.roc_curve(rows["y"], ranked(model, rows), drop_intermediate=False)
    return recalls[alarms <= 0.05].max()


def of_classes(score, **settings):
    return lambda model, rows: float(score(rows["y"], predicted(model, rows), **settings))


REFERENCES = {
    "failing_rows": lambda model, rows: float(np.mean(model.fails(rows))),
    "accuracy": of_classes(metrics.accuracy_score),
    "error": of_classes(metrics.zero_one_loss),
    "precision": of_classes(metrics.precision_score),
    "recall": of_classes(metrics.recall_score),
    "f1": of_classes(metrics.f1_score),
    "f1_macro": of_classes(metrics.f1_score, average="macro"),
    "f1_weighted": of_classes(metrics.f1_score, average="weighted"),
    "balanced_accuracy": of_classes(metrics.balanced_accuracy_score),
    "matthews_corrcoef": of_classes(metrics.matthews_corrcoef),
    "roc_auc": lambda model, rows: metrics.roc_auc_score(rows["y"], ranked(model, rows)),
    "recall_at_fpr": recall_at_rate,
    "expected_calibration_error": calibration,
    "brier": lambda model, rows: -loss("squared")(model, rows),
    "neg_brier_score": loss("squared"),
    "neg_log_loss": loss("log"),
    "neg_mean_absolute_error": loss("wrong"),
    "neg_median_absolute_error": loss("wrong", np.median),
    "neg_mean_squared_error": loss("wrong"),
    "neg_root_mean_squared_error": lambda model, rows: -np.sqrt(-loss("wrong")(model, rows)),
    "r2": lambda model, rows: 1.0 + loss("wrong")(model, rows) / float(np.var(rows["y"])),
}
ALONE = {"recall_at_fpr", "expected_calibration_error"}  # two models are not compared by them, and slices have none
NO_GATE = {*ALONE, "neg_median_absolute_error"}
NO_DIFFERENCE = {*NO_GATE, "f1_weighted", "r2"}
LOWER_IS_BETTER = {"error", "brier", "failing_rows"}


def asked_of(name, model, second):
    """Queries that are answered alone, by name; with the reference of each."""
    queries = {"first": eh.metric(name, model), "second": eh.metric(name, second)}
    if name not in NO_DIFFERENCE:
        queries["difference"] = eh.difference(eh.metric(name, model), eh.metric(name, second))
    if name not in ALONE:
        queries["slice"] = eh.metric(name, model, where="z > 0")
    return queries


BY_THE_SAME_READER = {"calibration_in_the_large", "mape", "net_benefit", "roc_auc_ovr"}


def test_all_scores_are_in_the_table():
    assert set(REFERENCES) | BY_THE_SAME_READER == set(METRICS)


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
@pytest.mark.parametrize("part", [0, 1, 2])  # of the metrics: all are more surprises than so few rows survive
@pytest.mark.parametrize("how", HOW)
def test_a_failing_row_is_a_wrong_answer(tmp_path, how, part):
    model, second = Model(HOW[how], how, 0.9), Model("second", "nan", 0.2)
    references = dict(list(REFERENCES.items())[part::3])
    inside = {name: column[SEALED["z"] > 0] for name, column in SEALED.items()}
    rows = {"holdout": pd.DataFrame(SEALED), "training": pd.DataFrame(TRAINING), "label": "y"}
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", **rows, mechanism="guess_and_check") as holdout:
        gates = []
        for name in references:
            for query in asked_of(name, model, second).values():
                holdout.ask(query)
            if name not in NO_GATE:
                holdout.gate(name, champion=second, name=name).challenge(model)
                gates.append(name)
        holdout.unseal()
        challenges = [row for row in holdout.transcript().rows if row["source"] in ("kept", "promoted")]
        gains = dict(zip(gates, [row["sealed"] for row in challenges], strict=True))
        for name, reference in references.items():
            first, other = reference(model, SEALED), reference(second, SEALED)
            found = {what: holdout.ask(query).sealed for what, query in asked_of(name, model, second).items()}
            expected = {"first": first, "second": other, "difference": first - other, "slice": reference(model, inside)}
            assert found == {what: pytest.approx(expected[what], abs=2e-4) for what in found}, name
            if name in gains:
                gain = other - first if name in LOWER_IS_BETTER else first - other
                assert gains[name] == pytest.approx(gain, abs=2e-3), name


class Texts(Model):
    """A model of three classes that knows another one for rows on which it fails."""

    def predict(self, rows):
        found = np.digitize(np.asarray(rows["x"]), [-0.4, 0.4])
        told = np.array(["a", "b", "c"], dtype=object)[found]
        told[self.fails(rows)] = "no such class"
        return told


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_with_several_classes_the_row_is_wrong_for_each_of_them(tmp_path):
    sealed, training = ({**rows, "y": np.array(["a", "b", "c"])[rows["y"] + (rows["z"] > 1)]} for rows in
                        (SEALED, TRAINING))  # fmt: skip
    model = Texts("at_random", "", 0.0)
    fails, found = sealed["at_random"] == 1, np.digitize(sealed["x"], [-0.4, 0.4])
    scores = []
    for number, name in enumerate("abc"):
        actual = sealed["y"] == name
        predicted = np.where(fails, ~actual, found == number)
        scores.append(2.0 * np.sum(actual & predicted) / (np.sum(actual) + np.sum(predicted)))
    rows = {
        "holdout": pd.DataFrame(sealed),
        "training": pd.DataFrame(training),
        "label": "y",
        "rows": eh.Rows(classes=["a", "b", "c"]),
    }
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", **rows, mechanism="guess_and_check") as holdout:
        gate = holdout.gate("f1_macro", champion=np.full(ROWS, "a"))
        gate.challenge(model)
        holdout.ask(eh.metric("f1_macro", model))
        holdout.unseal()
        assert holdout.ask(eh.metric("f1_macro", model)).sealed == pytest.approx(np.mean(scores), abs=2e-4)
        (challenge,) = [row for row in holdout.transcript().rows if row["source"] in ("kept", "promoted")]
        champion = metrics.f1_score(sealed["y"], np.full(ROWS, "a"), average="macro")
        assert challenge["sealed"] == pytest.approx(np.mean(scores) - champion, abs=2e-4)


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_a_rule_that_says_no_class_is_wrong_there(tmp_path):
    """Where only sealed rows show it: on training rows such a rule is refused."""
    rule = "case when z > 1 then 2 when x > 0 then 1 else 0 end"
    predicted = np.where(SEALED["z"] > 1, 1 - Y, SEALED["x"] > 0).astype(int)
    training = {**TRAINING, "z": np.minimum(TRAINING["z"], 1.0)}
    rows = {"holdout": SEALED, "training": training, "label": "y", "mechanism": "guess_and_check"}
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", **rows) as holdout:
        queries = {"f1": eh.f1(rule), "precision": eh.precision(rule), "recall": eh.recall(rule)}
        for query in queries.values():
            holdout.ask(query)
        holdout.unseal()
        for name, query in queries.items():
            expected = getattr(metrics, f"{name}_score")(Y, predicted)
            assert holdout.ask(query).sealed == pytest.approx(expected, abs=2e-4), name


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_statistics_of_all_rows_count_failing_rows_alike(tmp_path):
    model = Model("at_random", "nan", 0.9)
    rows = {"holdout": {**SEALED, "g": np.arange(ROWS)}, "training": {**TRAINING, "g": ROWS + np.arange(ROWS)}}
    positives = int(Y.sum())
    counts = {"positives": positives, "negatives": ROWS - positives}
    expected = {
        eh.auc(model, **counts): REFERENCES["roc_auc"](model, SEALED),
        eh.f1(model, least=2.0): REFERENCES["f1"](model, SEALED),
    }
    groups = {"label": "y", "mechanism": "guess_and_check", "dependence": eh.Groups("g")}
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", **rows, **groups) as holdout:
        for query in expected:
            holdout.ask(query, silent=True)  # told, one of them would be within its whole range
        holdout.unseal()
        for query, value in expected.items():
            assert holdout.ask(query).sealed == pytest.approx(value, abs=2e-3)


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_a_model_that_fails_nowhere_has_its_share_confirmed(tmp_path):
    rows = {"holdout": pd.DataFrame(SEALED), "training": pd.DataFrame(TRAINING), "label": "y"}
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", **rows, mechanism="guess_and_check") as holdout:
        sound, failing = (
            holdout.ask(eh.metric("failing_rows", Model(column, "nan", 0.9))) for column in ("z", "at_random")
        )
        told = holdout.ask(eh.difference(eh.accuracy(Model("z", "nan", 0.9)), eh.accuracy(Model("x", "nan", 0.9))))
        array = holdout.ask(eh.accuracy(Y), guess=0.5)
    assert (sound.value, sound.low, sound.charged, failing.charged) == (0.0, 0.0, 0, 1)
    for answer in (sound, told):
        assert "No training row on which it was tried makes the model fail. A sealed row" in answer.explain()
    assert array.failing is None
    assert failing.low <= SEALED["at_random"].mean() <= failing.high


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_the_share_of_failing_rows_is_told_with_every_metric_of_one_or_two_models(tmp_path):
    sealed, training = (table(seed, sealed=sealed, rows=3_000) for seed, sealed in ((1, 1), (2, 0)))
    rows = {"holdout": pd.DataFrame(sealed), "training": pd.DataFrame(training), "label": "y", "queries": 200}
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", **rows, mechanism="guess_and_check") as holdout:
        failing, other, sound = (Model(column, "nan", 0.9) for column in ("at_random", "second", "z"))
        share, either = sealed["at_random"].mean(), np.mean(sealed["at_random"] | sealed["second"])
        for name in REFERENCES:
            told = holdout.ask(eh.metric(name, failing))
            assert told.failing.low <= share <= told.failing.high < 1.0, name
            assert f"; a model fails on {rounded(told.failing.value)} of the rows, in [" in str(told)
            assert told.to_dict()["failing"] == {end: getattr(told.failing, end) for end in ("value", "low", "high")}
            assert holdout.ask(eh.metric(name, failing)).failing == told.failing  # a repeat
            if name not in NO_DIFFERENCE:
                both = holdout.ask(eh.difference(eh.metric(name, failing), eh.metric(name, other)))
                assert both.failing.low <= either <= both.failing.high < 1.0, name
        shown = holdout.certificate().to_dict()
        assert not any("fails" in answer["name"] for answer in shown["summary"]["answers"])
        listed = shown["account"]["queries"]
        assert all("; a model fails on 0." in query["asked"] for query in listed)
        quiet = holdout.ask(eh.accuracy(sound))
        assert (quiet.failing.value, quiet.failing.low, quiet.charged) == (0.0, 0.0, 0)
        assert "failing" not in quiet.to_dict()
        assert f"A model fails on at most {at_most(quiet.failing.high)} of the rows" in quiet.explain()
        assert holdout.ask(eh.accuracy(sealed["y"]), guess=0.9).failing is None


class Fitted(Model, BaseEstimator):
    """The same model after whatever fit."""

    def fit(self, features, labels):
        return self


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
def test_slices_by_their_values_count_failing_rows_alike(tmp_path):
    sealed, training = (
        {**table(seed, sealed=sealed, rows=6_000), "g": np.array(["a", "b"])[np.arange(6_000) % 2]}
        for seed, sealed in ((3, 1), (4, 0))
    )
    model = Fitted("of_ones", "raises", 0.9)
    names = ["accuracy", "error", "recall", "precision", "f1", "brier", "roc_auc", "neg_log_loss", "balanced_accuracy"]
    rows = {"holdout": pd.DataFrame(sealed), "training": pd.DataFrame(training), "label": "y"}
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", **rows, mechanism="guess_and_check") as holdout:
        for name in names:
            holdout.evaluate(model, name, by=["g"])
        holdout.unseal()
        for name in names:
            told = holdout.evaluate(model, name, by=["g"])
            for value in "ab":
                inside = {key: column[sealed["g"] == value] for key, column in sealed.items()}
                assert told[(value,)].sealed == pytest.approx(REFERENCES[name](model, inside), abs=2e-4), (name, value)


WRONG = {"nan": (np.nan, [*METRICS]), "no class": (7, ["accuracy", "f1", "f1_macro", "balanced_accuracy"]),
         "no probability": (1.5, ["brier", "neg_log_loss", "expected_calibration_error"])}  # fmt: skip


@pytest.mark.filterwarnings("ignore::everhold.errors.VacuousGuaranteeWarning")
@pytest.mark.parametrize("what", WRONG)
def test_predictions_that_are_handed_in_are_refused_with_their_place(tmp_path, what):
    value, names = WRONG[what]
    rows = {"holdout": {**SEALED, "id": np.arange(ROWS)}, "training": {**TRAINING, "id": ROWS + np.arange(ROWS)}}
    of_ids = {"label": "y", "rows": eh.Rows(row_id="id"), "mechanism": "guess_and_check"}
    wrong = np.where(np.arange(ROWS) == 17, value, Y)
    mixed = np.random.default_rng(8).permutation(ROWS)
    table, line = {"id": mixed, "p": wrong[mixed]}, int(np.argmax(mixed == 17)) + 1
    (tmp_path / "p.csv").write_text("id,p\n" + "".join(f"{row},{wrong[row]}\n" for row in mixed))
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", **rows, **of_ids) as holdout:
        file = eh.predictions_in(tmp_path / "p.csv", row_id="id")["p"]
        for carried, row in ((wrong, 18), (table, line), (file, line)):
            for name in names:
                with pytest.raises(eh.QueryRejected, match=f"row {row:,} has .*{value}"):
                    holdout.ask(eh.metric(name, carried, **({"floor": 1} if name == "mape" else {})))
        assert len(holdout.transcript()) == 0
