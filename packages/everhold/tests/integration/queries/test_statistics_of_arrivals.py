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
    assert "about rows 1 to 800" in str(holdout.ask(eh.auc(FIRST)))
    windows = holdout.over_time(eh.auc(FIRST)).to_rows()
    assert windows[0]["value"] > 0.5 > windows[1]["value"]


CHOSEN = {
    "quantile": lambda: eh.quantile("x", low=-3, high=3),
    "choice": lambda: eh.choose(["x > 0", "x > 1"]),
    "scan": lambda: eh.first_above(["x > 1", "x > 0"], 0.3),
    "table": lambda: eh.synthesize({"columns": [{"name": "y", "values": [0, 1], "rest": 0}]}, 1),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_chosen_says_which_rows_it_is_about(holdout, name):
    first = holdout.ask(CHOSEN[name]())
    assert first.rows is None
    assert "rows" not in first.to_dict()
    holdout.append(rows(3))
    later = holdout.ask(CHOSEN[name]())
    assert later.rows == (1, 800)
    assert later.to_dict()["rows"] == [1, 800]
    assert str(later).endswith("; about rows 1 to 800")
    assert "It is about rows 1 to 800, in the order of arrival." in later.explain()


def test_a_quantile_that_was_told_stays_when_training_rows_arrive(holdout):
    told = holdout.ask(CHOSEN["quantile"]())
    more = rows(4)
    holdout.append(rows(3), training={**more, "x": more["x"] + 0.2})
    again = holdout.ask(CHOSEN["quantile"](), as_of=0)
    assert again.repeated
    assert (again.value, again.low, again.high) == (told.value, told.low, told.high)


@pytest.mark.filterwarnings("ignore::everhold.EverholdWarning")
def test_old_answers_about_models_stay_free_after_rows_were_retired(holdout):
    """Models are recognised by training rows, of which there are more after a retirement."""
    before = {name: holdout.ask(query()) for name, query in STATISTICS.items()}
    holdout.ask("x > 2", guess=0.9)
    holdout.append(rows(3))
    holdout.retire(before=1)
    later = holdout.ask(STATISTICS["score"]())
    holdout.append(rows(4))
    for name, query in STATISTICS.items():
        again = holdout.ask(query(), as_of=0)
        assert again.repeated, name
        assert (again.value, again.low, again.high) == (before[name].value, before[name].low, before[name].high)
    assert holdout.ask(STATISTICS["score"](), as_of=1).query == later.query
    with pytest.raises(eh.QueryRejected, match="was not asked then"):
        holdout.ask("x > 1.5", as_of=0)
    with pytest.raises(eh.QueryRejected, match="There is no column"):
        holdout.ask("nothing > 1.5", as_of=0)
