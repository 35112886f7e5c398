"""Categorical columns are categorical wherever an estimator meets them, with the categories of the training table."""

import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier

import everhold as eh
from everhold.sklearn import SealedSearchCV

ROWS = 2_000
MODEL = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0, max_iter=10)


def frame(seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "carrier": pd.Categorical(rng.choice(["UA", "AA", "DL"], ROWS), categories=["UA", "DL", "AA"]),
            "month": pd.Categorical(rng.integers(1, 6, ROWS)),
            "weekend": pd.Categorical(rng.random(ROWS) > 0.7),
            "x": rng.random(ROWS),
        }
    )
    table.loc[::17, "carrier"] = None
    late = (table["carrier"] == "UA") & (table["x"] > 0.3) | (table["month"] == 3)
    return table.assign(y=(late ^ (rng.random(ROWS) < 0.1)).astype(int))


def create(folder, training, holdout=None):
    return eh.Holdout.create(
        f"sqlite:///{folder}/study.db", "study", holdout=frame(0) if holdout is None else holdout, training=training,
        label="y", mechanism="guess_and_check", queries=50,
    )  # fmt: skip


def parquet(folder, seed):
    path = folder / f"{seed}.parquet"
    frame(seed).to_parquet(path)
    return path


SOURCES = {
    "pandas": lambda folder, seed: frame(seed),
    "polars": lambda folder, seed: pl.from_pandas(frame(seed)[["carrier", "x", "y"]]),
    "arrow": lambda folder, seed: pa.Table.from_pandas(frame(seed)),
    "parquet": parquet,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_an_estimator_meets_the_types_that_it_was_fitted_on(kind, tmp_path):
    with create(tmp_path, SOURCES[kind](tmp_path, 1), SOURCES[kind](tmp_path, 0)) as holdout:
        rows, _ = holdout.training_rows()
        model = MODEL.fit(frame(1)[rows.columns], frame(1)["y"])
        answer = holdout.ask(eh.accuracy(model), guess=0.9)
        truth = np.mean(model.predict(frame(0)[rows.columns]) == frame(0)["y"])
        assert answer.low < truth < answer.high
        assert [str(kind) for kind in rows.dtypes] == [str(kind) for kind in frame(1)[rows.columns].dtypes]
        assert holdout.evaluate(MODEL).value > 0.7


def test_the_answer_of_the_released_value_is_what_the_frame_itself_gives(tmp_path):
    with create(tmp_path, frame(1)) as holdout:
        model = MODEL.fit(frame(1).drop(columns="y"), frame(1)["y"])
        holdout.ask(eh.accuracy(model))
        told = holdout.unseal()
    truth = np.mean(model.predict(frame(0).drop(columns="y")) == frame(0)["y"])
    assert [row["sealed"] for row in told.rows] == pytest.approx([truth], abs=1e-6)


def test_a_search_takes_them_and_an_opened_holdout_still_has_them(tmp_path):
    with create(tmp_path, frame(1)) as holdout:
        search = SealedSearchCV(MODEL, {"max_iter": [5, 10]}, holdout=holdout, n_iter=2, cv=2, reveal="checked")
        assert search.fit(frame(1).drop(columns="y"), frame(1)["y"]).best_answer_.value > 0.7
    with eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "study") as again:
        assert again.ask(eh.accuracy(search.best_estimator_)).repeated
        assert again.training_rows()[0]["carrier"].cat.categories.tolist() == ["UA", "DL", "AA"]


def test_the_categories_are_public_and_a_sealed_value_beside_them_counts_as_missing(tmp_path):
    sealed = frame(0)
    sealed["carrier"] = sealed["carrier"].cat.add_categories("secret").where(sealed["x"] < 0.9, "secret")
    with create(tmp_path, frame(1), sealed) as holdout:
        assert holdout.ask(eh.accuracy(MODEL.fit(frame(1).drop(columns="y"), frame(1)["y"]))).value is not None
        recorded = json.dumps(holdout._executor.record.configuration)
    assert '"UA"' in recorded
    assert "secret" not in recorded


def test_texts_stay_texts(tmp_path):
    plain = frame(1).astype({"carrier": object, "month": float, "weekend": bool})
    with create(tmp_path, plain) as holdout:
        assert not any(isinstance(kind, pd.CategoricalDtype) for kind in holdout.training_rows()[0].dtypes)


def as_csv(folder, name, table):
    table.to_csv(folder / f"{name}.csv", index=False)
    return folder / f"{name}.csv"


def test_texts_of_csv_files_are_categories_where_the_steward_says_so(tmp_path):
    open_rows, sealed = (frame(seed)[["carrier", "x", "y"]] for seed in (1, 0))
    sealed["carrier"] = sealed["carrier"].cat.add_categories("ZZ")
    sealed.loc[5::40, "carrier"] = "ZZ"  # of which no training row knows
    typed = open_rows.assign(
        carrier=open_rows["carrier"].astype(str).where(open_rows["carrier"].notna()).astype("category")
    )
    model = MODEL.fit(typed[["carrier", "x"]], typed["y"])
    texts = sealed["carrier"].astype(object)
    known = sealed.assign(carrier=texts.where(texts.isin(["AA", "DL", "UA"])).astype("category"))
    truth = np.mean(model.predict(known[["carrier", "x"]]) == known["y"])
    paths = {"holdout": as_csv(tmp_path, "s", sealed), "training": as_csv(tmp_path, "t", open_rows)}
    with eh.Holdout.create(
        tmp_path / "h.db", "h", **paths, label="y", mechanism="guess_and_check", queries=50,
        rows=eh.Rows(categories=["carrier"]),
    ) as holdout:  # fmt: skip
        rows, _ = holdout.training_rows()
        assert list(rows["carrier"].cat.categories) == ["AA", "DL", "UA"]
        holdout.ask(eh.accuracy(model))
        told = holdout.unseal()
    assert [row["sealed"] for row in told.rows] == pytest.approx([truth], abs=1e-6)


class Strict(ClassifierMixin, BaseEstimator):
    """An estimator that takes numbers and categories alone, as LightGBM does."""

    def fit(self, rows, labels):
        self.classes_, self.feature_names_in_ = np.unique(labels), np.array(list(rows.columns))
        self.predict(rows)
        return self

    def predict(self, rows):
        if any(kind.kind == "O" and kind.name != "category" for kind in rows.dtypes):
            raise ValueError("texts")
        return (rows["x"] > 0.3).astype(int)


def test_an_estimator_that_refuses_texts_is_told_of_categories(tmp_path):
    sealed, typed = (frame(seed)[["carrier", "x", "y"]] for seed in (0, 1))
    paths = {"holdout": as_csv(tmp_path, "s", sealed), "training": as_csv(tmp_path, "t", typed)}
    fitted = Strict().fit(typed[["carrier", "x"]], typed["y"])
    how = r"hold texts: carrier\. Leave .* rows=eh.Rows\(categories=\['carrier'\]\)"
    with eh.Holdout.create(tmp_path / "a.db", "a", **paths, label="y", queries=50) as holdout:
        with pytest.raises(eh.QueryRejected, match=how):
            holdout.ask(eh.accuracy(fitted))
        with pytest.raises(ValueError, match="texts") as raised:
            holdout.evaluate(Strict())
        assert re.search(how, raised.value.__notes__[0])
        assert holdout.remaining["queries"] == 50
    with eh.Holdout.create(
        tmp_path / "b.db", "b", **paths, label="y", queries=50, rows=eh.Rows(categories=["carrier"]),
        allow_resealing=True,
    ) as holdout:  # fmt: skip
        assert holdout.ask(eh.accuracy(fitted)).source == "training"


@pytest.mark.parametrize("names", [["nothing"], ["y"]])
def test_a_column_that_cannot_hold_categories_is_refused(names, tmp_path):
    with pytest.raises(eh.HoldoutRejected, match=f"'{names[0]}' cannot hold categories"):
        eh.Holdout.create(
            tmp_path / "h.db", "h", holdout=frame(0), training=frame(1), label="y", rows=eh.Rows(categories=names)
        )
    with pytest.raises(eh.HoldoutRejected, match="needs training rows"):
        eh.Holdout.create(tmp_path / "h.db", "h", holdout=frame(0), label="y", rows=eh.Rows(categories=names))
    assert not (tmp_path / "h.db").exists()
