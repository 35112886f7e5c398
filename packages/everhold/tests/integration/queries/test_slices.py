"""A metric in a slice, in each slice of some columns, and the difference of two models, in one call each."""

import numpy as np
import pytest

import everhold as eh
from everhold.queries.metrics.ranking import area_of

sklearn = pytest.importorskip("sklearn")
ROWS = 1_500


def rows_of(seed):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, ROWS))
    region, shift = rng.choice(["N", "it's", "S"], ROWS), rng.random(ROWS) < 0.5
    return {"x": x, "z": z, "region": region, "night": shift, "y": (x + rng.normal(size=ROWS) > 0).astype(int)}


SEALED, TRAINED = rows_of(1), rows_of(2)
FEATURES = ["x", "z"]


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    storage = tmp_path_factory.mktemp("slices") / "h.db"
    with eh.Holdout.create(
        storage, "h", holdout=SEALED, training=TRAINED, label="y", queries=200, surprises=5, mechanism="guess_and_check"
    ) as made:
        yield made


def tree(depth):
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=depth, random_state=0)


def right(model, rows):
    import pandas as pd

    return model.predict(pd.DataFrame({name: rows[name] for name in FEATURES})) == rows["y"]


def test_a_slice_has_the_mean_of_its_rows(holdout):
    model = tree(1)
    answer = holdout.evaluate(model, "accuracy", features=FEATURES, where="region = 'N'")
    assert answer.low <= np.mean(right(model, SEALED)[SEALED["region"] == "N"]) <= answer.high
    assert answer.low < 0.75 < answer.high
    assert answer.charged == 0


def test_slices_that_an_allotment_does_not_pay_for_raise_where_that_is_wanted(holdout):
    holdout.allot("ada", queries=1, charges=1)
    ada = holdout.analyst("ada")
    with pytest.raises(eh.BudgetExhausted, match=r"pay for 1 of these 3 new queries.*next one .*region.*S.*"):
        ada.evaluate(tree(4), "accuracy", features=FEATURES, by=["region"], strict=True)
    assert ada.remaining == {"queries": 1, "surprises": 1}
    refused = ada.evaluate(tree(4), "accuracy", features=FEATURES, by=["region"])
    assert [answer.refused for answer in refused.values()] == [False, True, True]


def test_every_slice_is_answered_in_one_step(holdout):
    model, before = tree(1), holdout.status()["queries_asked"]
    found = holdout.evaluate(model, "error", features=FEATURES, by=["region", "night"], where="x > -1")
    assert holdout.status()["queries_asked"] == before + len(found) == before + 6
    wrong, within = ~right(model, SEALED), SEALED["x"] > -1
    for row, values in zip(found.to_rows(), found, strict=True):
        some = within & (SEALED["region"] == values[0]) & (SEALED["night"] == values[1])
        assert (row["region"], row["night"]) == values
        assert row["low"] <= np.mean(wrong[some]) <= row["high"]
    again = holdout.evaluate(model, "error", features=FEATURES, where="(x > -1) and region = 'it''s' and night = true")
    assert again.query == found["it's", True].query
    assert [answer.low for answer in found.values()] == [row["low"] for row in found.to_rows()]
    with pytest.raises(KeyError, match="elsewhere"):
        found["elsewhere", True]


def test_a_quote_of_an_overfitted_slice_is_near_its_answer(holdout):
    model = tree(None).fit(*holdout.training_rows(FEATURES))
    query = eh.ratio(eh.accuracy(model), "region = 'N'")
    quote, answer = holdout.quote(query), holdout.ask(query)
    assert answer.charged == 1
    assert (answer.high - answer.low) / 2 <= quote.radius_if_charged <= 1.5 * (answer.high - answer.low) / 2


def test_two_models_are_compared_by_guesses_out_of_fold(holdout):
    models = tree(None), tree(1)
    answer = holdout.compare(*models, features=FEATURES)
    truth = np.mean(right(models[0], SEALED)) - np.mean(right(models[1], SEALED))
    assert answer.low <= truth <= answer.high
    assert answer.charged == 0  # an overfitted tree's own guess would be far off
    sliced = holdout.compare(*models, features=FEATURES, where="region = 'S'")
    assert sliced.low < truth < sliced.high


def test_fitted_models_are_compared_on_the_columns_that_they_know(holdout):
    import pandas as pd

    train = pd.DataFrame({name: TRAINED[name] for name in FEATURES})
    models = [tree(3).fit(train[[name]], TRAINED["y"]) for name in FEATURES]
    own = [holdout.ask(eh.accuracy(model)).value for model in models]
    assert own[0] > own[1] + 0.1
    assert holdout.compare(*models).value == pytest.approx(own[0] - own[1], abs=0.05)
    assert [*models[1].feature_names_in_] == ["z"]
    assert holdout.evaluate(models[0]).value == pytest.approx(own[0], abs=0.05)
    with pytest.raises(eh.QueryRejected, match=r"fitted on 1 columns without names.*Pass features="):
        holdout.evaluate(tree(3).fit(train[["x"]].to_numpy(), TRAINED["y"]))


def test_slices_of_days(tmp_path):
    def dated(rows):
        days = np.array(["2024-01-01", "2024-02-01T06:30"], dtype="datetime64[us]")
        return {**rows, "day": days[np.arange(ROWS) % 2]}

    with eh.Holdout.create(
        tmp_path / "s.db", "s", holdout=dated(SEALED), training=dated(TRAINED), label="y", queries=9
    ) as made:
        answers = made.evaluate(tree(1), features=["x"], by=["day"])
        assert [str(day) for (day,) in answers] == ["2024-01-01 00:00:00", "2024-02-01 06:30:00"]


def test_two_arrays_need_no_training_predictions(holdout):
    rng = np.random.default_rng(4)
    first = np.where(rng.random(ROWS) < 0.9, SEALED["y"], 1 - SEALED["y"])
    second = np.where(rng.random(ROWS) < 0.05, 1 - first, first)
    answer = holdout.compare(first, second, guess=0.0)
    assert answer.low <= np.mean(first == SEALED["y"]) - np.mean(second == SEALED["y"]) <= answer.high
    assert answer.high - answer.low < 0.14
    assert "labels drawn anew on these rows" in answer.explain()
    squared = holdout.compare(0.9 * first, 0.9 * second + 0.01, {"loss": "squared"}, guess=0.0)
    assert squared.high - squared.low < 0.2
    same = holdout.compare(first, first.copy(), guess=0.0)
    assert max(abs(same.low), abs(same.high)) < 1e-8


def area(model, rows, within):
    import pandas as pd
    from sklearn.metrics import roc_auc_score

    scores = model.predict_proba(pd.DataFrame({name: rows[name] for name in FEATURES}))[:, 1]
    return roc_auc_score(rows["y"][within], scores[within])


def test_the_auc_of_a_slice_counts_its_rows_alone(holdout):
    model, north, all_rows = tree(2), SEALED["region"] == "N", np.ones(ROWS, dtype=bool)
    answer = holdout.evaluate(model, "roc_auc", features=FEATURES, where="region = 'N'")
    assert answer.low <= area(model, SEALED, north) <= answer.high
    assert answer.charged == 0
    whole = holdout.evaluate(model, "roc_auc", features=FEATURES)
    assert whole.low <= area(model, SEALED, all_rows) <= whole.high
    assert whole.high - whole.low < answer.high - answer.low < 1.0
    found = holdout.evaluate(model, "roc_auc", features=FEATURES, by=["region"])
    assert found["N"].query == answer.query
    for name in ("S", "it's"):
        assert found[name].low <= area(model, SEALED, SEALED["region"] == name) <= found[name].high


@pytest.mark.parametrize("name", ["roc_auc", "recall", "accuracy"])
def test_a_slice_in_which_no_training_row_counts_needs_a_guess(tmp_path, name):
    lacking = (TRAINED["region"] == "S") & (TRAINED["y"] == 1)
    training = {**TRAINED, "region": np.where(lacking, "N", TRAINED["region"])}  # one class in S
    where = "x > 100" if name == "accuracy" else "region = 'S'"
    with eh.Holdout.create(
        f"{tmp_path}/h.db", "h", holdout=SEALED, training=training, label="y", queries=200, surprises=5
    ) as holdout:
        asked, model = {"features": FEATURES}, tree(2)
        with pytest.raises(eh.QueryRejected, match=r"the training rows do not give one\. Pass guess=0\.8"):
            holdout.evaluate(model, name, where=where, **asked)
        answer = holdout.evaluate(model, name, where=where, guess=0.7, **asked)
        assert (answer.value, answer.source, answer.charged) == (0.7, "guess", 0)
        assert answer.low < 0.7 < answer.high
        if name == "accuracy":
            return
        before = holdout.remaining
        with pytest.raises(eh.QueryRejected, match=r"needs a guess.*in the slice .*region.*S"):
            holdout.evaluate(tree(1), name, by=["region"], **asked)
        assert holdout.remaining == before
        found = holdout.evaluate(tree(1), name, by=["region"], guess=0.7, **asked)
        sources = {values: answer.source for (values,), answer in found.items()}
        assert (sources["N"], sources["it's"], found["S"].value) == ("training", "training", 0.7)


def test_training_rows_of_one_class_make_no_guess_of_an_auc(tmp_path):
    training = {**TRAINED, "y": np.zeros(ROWS, dtype=int)}
    with eh.Holdout.create(
        f"{tmp_path}/h.db", "h", holdout=SEALED, training=training, label="y", queries=200, surprises=5,
        rows=eh.Rows(features="public"),
    ) as holdout:  # fmt: skip
        asked = eh.auc(SEALED["x"], training=TRAINED["x"])
        other = eh.auc(SEALED["x"] + SEALED["z"], training=TRAINED["z"])
        for query in (asked, eh.difference(asked, other)):
            with pytest.raises(eh.QueryRejected, match="needs a guess"):
                holdout.ask(query)
        assert holdout.ask(asked, guess=0.8).low < area_of(SEALED["x"], SEALED["y"] == 1)


def test_an_own_guess_takes_the_place_of_that_of_cross_validation(holdout):
    answer = holdout.evaluate(tree(4), "accuracy", features=FEATURES, guess=0.71)
    assert (answer.value, answer.source) == (0.71, "guess")
    assert holdout.evaluate(tree(4), "accuracy", features=FEATURES).repeated


def test_aucs_of_two_models_are_compared(holdout):
    models, all_rows = (tree(3), tree(1)), np.ones(ROWS, dtype=bool)
    answer = holdout.compare(*models, "roc_auc", features=FEATURES)
    assert answer.low <= area(models[0], SEALED, all_rows) - area(models[1], SEALED, all_rows) <= answer.high
    assert answer.query == holdout.ask(eh.difference(*(eh.auc(model) for model in models))).query


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda h: h.evaluate(tree(1), by="region"), "Pass a list of different columns"),
        (lambda h: h.evaluate(tree(1), by=["x"]), "such as categories or bands"),
        (lambda h: h.evaluate(tree(1), features=FEATURES, where=3), "Pass a condition"),
        (lambda h: h.evaluate(tree(1), features=FEATURES, where="nothing = 1"), "no column"),
        (lambda h: h.compare(tree(1), tree(2), "unknown"), "Name one of"),
        (lambda h: h.compare(tree(1), tree(2), "r2"), "Compare them by neg_mean_squared_error"),
        (
            lambda h: h.evaluate(tree(1), "recall_at_fpr", features=FEATURES, where="x > 0"),
            "recall_at_fpr has a guarantee for all rows only",
        ),
        (
            lambda h: h.ask(eh.auc(SEALED["x"], where="region = 'N'"), guess=0.5),
            "has a guarantee only if the scores of the rows are sealed",
        ),
        (lambda h: h.ask(eh.auc(tree(1).fit(*h.training_rows(FEATURES)), where="x + 1")), "no condition"),
        (lambda h: h.compare(SEALED["y"], SEALED["y"]), "the same object"),
        (lambda h: h.compare(SEALED["y"], 1 - SEALED["y"]), "guess"),
        (lambda h: h.compare(SEALED["y"], SEALED["y"][:5], guess=0.0), "shape"),
        (lambda h: h.compare(SEALED["y"], SEALED["y"] + 0.5, guess=0.0), "no labels"),
        (lambda h: h.compare(SEALED["y"], 1 - SEALED["y"], guess=0.0, where="x"), "no condition"),
    ],
)
def test_bad_input_is_refused_and_costs_nothing(holdout, asked, said):
    before = holdout.status()["queries_asked"], holdout.status()["charged"]
    with pytest.raises(eh.QueryRejected, match=said):
        asked(holdout)
    assert (holdout.status()["queries_asked"], holdout.status()["charged"]) == before


def test_slices_that_would_be_told_nothing_are_refused_with_their_number_and_width(tmp_path):
    from sklearn.tree import DecisionTreeClassifier

    def shops(seed):
        return {**rows_of(seed), "store": np.random.default_rng(seed).integers(0, 100, ROWS)}

    with eh.Holdout.create(
        tmp_path / "h.db", "h", holdout=shops(1), training=shops(2), label="y", queries=200
    ) as holdout:
        before = holdout.remaining
        with pytest.raises(eh.QueryRejected, match=r"names 100 slices, .* 100 % of the scale"):
            holdout.evaluate(DecisionTreeClassifier(max_depth=2), "accuracy", features=FEATURES, by=["store"])
        assert holdout.remaining == before
        assert (
            len(holdout.evaluate(DecisionTreeClassifier(max_depth=2), "accuracy", features=FEATURES, by=["region"]))
            == 3
        )


def test_long_ids_make_no_slices_because_neighbours_are_equal(tmp_path):
    def with_ids(rows):
        return {**rows, "id": 2**53 + 2 * (np.arange(ROWS) % 2)}

    with (
        eh.Holdout.create(
            tmp_path / "s.db", "s", holdout=with_ids(SEALED), training=with_ids(TRAINED), label="y", queries=9
        ) as made,
        pytest.raises(eh.QueryRejected, match=r"is 2\^53 or more, where numbers equal their neighbours"),
    ):
        made.evaluate(tree(1), features=["x"], by=["id"])


QUOTED = {"recall": 0.5, "f1": 0.375, "balanced_accuracy": 0.5, "f1_macro": 0.479, "f1_weighted": 0.521}


@pytest.mark.parametrize("training", [400, 6_000])
@pytest.mark.parametrize("where", [None, "part"])
def test_a_quoted_score_is_as_wide_as_its_rows_allow_and_an_honest_guess_is_confirmed(where, training, tmp_path):
    """Whatever number of rows the plan is made from: training rows, or made-up ones for a slice."""
    rng = np.random.default_rng(5)

    def drawn(rows):
        return {"part": rng.random(rows) < 0.15, "y": (rng.random(rows) < 0.3).astype(int)}

    models = [(rng.integers(0, 2, 4_000), None), (rng.integers(0, 2, 4_000), rng.integers(0, 2, training))]
    with eh.Holdout.create(
        tmp_path / "s.db", "quoted", holdout=drawn(4_000), training=drawn(training), label="y", queries=100,
        mechanism="guess_and_check",
    ) as holdout:  # fmt: skip
        quoted = {}
        for name, score in QUOTED.items():
            for predicted, known in models:
                asked = eh.metric(name, predicted, training=known, where=where)
                quote = holdout.quote(asked, guess=score)
                answer = holdout.ask(asked, guess=score)
                assert answer.charged == 0, name
                quoted[answer.query] = quote.radius_unsealed
        for row in holdout.unseal().to_rows():
            half = (row["sealed_high"] - row["sealed_low"]) / 2
            assert 0.75 * half <= quoted[row["query"]] <= 1.35 * half, row


@pytest.mark.parametrize("training", [400, 20_000])
def test_a_quoted_average_of_aucs_is_as_wide_as_its_rows_allow(training, tmp_path):
    rng = np.random.default_rng(6)

    def drawn(rows):
        return {"x": rng.normal(size=rows), "y": rng.choice(["a", "b", "c"], rows, p=[0.3, 0.5, 0.2]).astype(object)}

    with eh.Holdout.create(
        tmp_path / "s.db", "quoted", holdout=drawn(4_000), training=drawn(training), label="y", queries=100,
        mechanism="guess_and_check",
    ) as holdout:  # fmt: skip
        for known in (None, rng.dirichlet(np.ones(3), training)):
            asked = eh.metric("roc_auc_ovr", rng.dirichlet(np.ones(3), 4_000), training=known)
            quoted = holdout.quote(asked, guess=0.5).radius_unsealed
            assert holdout.ask(asked, guess=0.5).charged == 0
            assert 0.04 <= quoted <= 0.09
        for row in holdout.unseal().to_rows():
            assert 0.05 <= (row["sealed_high"] - row["sealed_low"]) / 2 <= 0.07
