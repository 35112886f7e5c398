"""Statistics of all rows are other queries about other rows: AUCs, their differences, and scores by name."""

import numpy as np
import pytest

import everhold as eh


class Model:
    """A score that follows one column."""

    def __init__(self, column):
        self.column = column

    def decision_function(self, features):
        return np.asarray(features)[:, self.column]

    def predict(self, features):
        return (self.decision_function(features) > 0.0).astype(int)


def rows(seed, *, sign=1.0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, 400))
    return {"x": x, "z": z, "y": (sign * x + 0.5 * rng.normal(size=400) > 0.0).astype(int)}


@pytest.fixture
def holdout(tmp_path):
    planning = eh.Planning(grows=True)
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/s.db", holdout=rows(1), training=rows(2), label="y", queries=50, planning=planning
    ) as made:
        yield made


FIRST, SECOND = Model(0), Model(1)
STATISTICS = {
    "auc": lambda: eh.auc(FIRST),
    "auc among some rows": lambda: eh.auc(FIRST, where="z > 0"),
    "difference of aucs": lambda: eh.difference(eh.auc(FIRST), eh.auc(SECOND)),
    "f1 with a floor": lambda: eh.f1(FIRST, least=400),
    "score": lambda: eh.metric("balanced_accuracy", FIRST),
    "difference of scores": lambda: eh.difference(eh.metric("f1", FIRST), eh.metric("f1", SECOND)),
}


def test_statistics_of_rows_that_arrived_are_other_queries(holdout):
    before = {name: holdout.ask(query()) for name, query in STATISTICS.items()}
    holdout.append(rows(3, sign=-1.0))
    for name, query in STATISTICS.items():
        again = holdout.ask(query())
        assert not again.repeated, name
        assert again.query != before[name].query
        assert holdout.ask(query(), as_of=0).value == before[name].value
    windows = holdout.over_time(eh.auc(FIRST)).to_rows()
    assert windows[0]["value"] > 0.5 > windows[1]["value"]
