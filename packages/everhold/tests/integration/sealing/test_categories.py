"""Categorical columns are categorical wherever an estimator meets them, with the categories of the training table."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
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
