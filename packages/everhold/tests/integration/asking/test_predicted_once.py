"""A model predicts the sealed rows once in a call, and nothing of it is kept for the next one."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import everhold as eh
from everhold.sealing.rows import code_trials


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    def rows(seed):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=3_000)
        return {"x": x, "k": rng.integers(0, 3, 3_000), "y": (x + rng.normal(size=3_000) > 0).astype(int)}

    with eh.Holdout.create(
        tmp_path_factory.mktemp("once") / "s.db", holdout=rows(0), training=rows(1), label="y", queries=100,
        mechanism="guess_and_check",
    ) as made:  # fmt: skip
        made.model = LogisticRegression().fit(np.c_[rows(1)["x"], rows(1)["k"]], rows(1)["y"])
        yield made


def test_the_sealed_rows_are_predicted_once_in_a_call(holdout, monkeypatch):
    called, predictions = [], code_trials._predictions

    def counted(function, table, rows):
        called.append(rows)
        return predictions(function, table, rows)

    monkeypatch.setattr(code_trials, "_predictions", counted)
    holdout.evaluate(holdout.model, "f1", by=["k"])
    assert called == [3_000]
    holdout.ask_many([eh.accuracy(holdout.model), eh.error(holdout.model)])
    assert called == [3_000] * 2, "nothing was kept of the call before"
    assert code_trials._PREDICTED.get() is None
