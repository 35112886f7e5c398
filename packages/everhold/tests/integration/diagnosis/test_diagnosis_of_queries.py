"""The values of a query on the training rows are held against the declaration before anything is charged."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.dependence.blocks import block_of_rows
from everhold.diagnosis.columns import OpenFile
from everhold.diagnosis.queries import dependence_monitor
from everhold.errors import DependenceWarning


def returns(seed, rows=4_000, start=0):
    """Independent returns, and the sum of the last twenty of them in each row."""
    draws = np.random.default_rng(seed).normal(size=rows + 19)
    momentum = np.convolve(draws, np.ones(20), mode="valid")
    return {"t": start + np.arange(rows), "momentum": momentum, "y": (draws[19:] > 0).astype(int)}


def sealed(folder, *, order=None, rows=returns, **wanted):
    """A holdout of such rows; what creation says of the column is silenced, so that a test sees what the ask says."""
    training = rows(0) if order is None else {name: column[order] for name, column in rows(0).items()}
    wanted = {"label": "y", "mechanism": "guess_and_check", "queries": 20, "surprises": 2, **wanted}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependenceWarning)
        return eh.Holdout.create(
            folder / "s.db", holdout=rows(1, start=10_000), training=training, **settings_from(wanted)
        )


def chain():
    return eh.MarkovChain.fit(returns(0), order_by="t", state="y", gap=6_000)


@pytest.mark.parametrize("declared", [None, eh.Independent(), "chain"])
@pytest.mark.parametrize("guess", [None, 0.5])
def test_momentum_of_independent_returns_is_warned_of(tmp_path, declared, guess):
    with sealed(tmp_path, dependence=chain() if declared == "chain" else declared) as holdout:
        before = holdout.status()
        with pytest.warns(DependenceWarning, match=r"momentum > 0.*worth about \d+ rows.*promises") as caught:
            holdout.ask("momentum > 0", guess=guess)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert holdout.ask("momentum > 0", guess=guess).repeated  # it was said once
            holdout.ask("y = 1")
            with pytest.raises(DependenceWarning):
                holdout.ask("momentum > 1")
        assert holdout.status()["queries_asked"] == before["queries_asked"] + 2


def test_the_declared_order_counts_and_not_that_of_the_file(tmp_path):
    shuffled = np.random.default_rng(2).permutation(4_000)
    with sealed(tmp_path, order=shuffled, dependence=chain()) as holdout, pytest.warns(DependenceWarning):
        holdout.ask("momentum > 0")


def test_functions_predictions_and_batches_are_looked_at(tmp_path):
    with sealed(tmp_path) as holdout:
        made = eh.mean(lambda rows: rows["momentum"] > 0, name="momentum")
        with pytest.warns(DependenceWarning):
            holdout.ask(made)
        with pytest.warns(DependenceWarning):
            holdout.ask_many(["y = 1", "momentum > 2"])
        # predictions that are right exactly while the momentum is up
        lucky = [np.where(rows["momentum"] > 0, rows["y"], 1 - rows["y"]) for rows in (returns(1), returns(0))]
        with pytest.warns(DependenceWarning):
            holdout.ask(eh.accuracy(lucky[0], training=lucky[1]))


def test_what_is_bought_is_looked_at(tmp_path):
    with sealed(tmp_path, mechanism="privacy_budget", surprises=None) as holdout:
        with pytest.warns(DependenceWarning):
            holdout.ask(eh.private_choose(["y = 1", "momentum > 0"], best="highest"))
        with pytest.warns(DependenceWarning):
            holdout.ask(eh.private_quantile("momentum", low=-20, high=20, bins=8))
        with pytest.warns(DependenceWarning):
            holdout.ask(eh.private_first_above(["momentum > 0"], 0.9))
        holdout.allot("ann", queries=2)
        with pytest.warns(DependenceWarning):
            holdout.analyst("ann").ask("momentum > 3")


def independent(seed, rows=4_000, start=0):
    rng = np.random.default_rng(seed)
    return {"t": start + np.arange(rows), "x": rng.random(rows), "y": rng.integers(0, 2, rows)}


def test_a_plan_of_queries_about_independent_rows_is_left_in_peace(tmp_path):
    with sealed(tmp_path, rows=independent, queries=400) as holdout, warnings.catch_warnings():
        warnings.simplefilter("error")
        holdout.ask_many([f"x < {k / 200} and y = {y}" for k in range(1, 200) for y in (0, 1)])


def test_sums_over_blocks_are_the_sums_over_rows(tmp_path):
    shuffled = np.random.default_rng(2).permutation(4_000)
    with sealed(tmp_path, rows=independent, order=shuffled, dependence=None) as holdout:
        executor = holdout._executor
        bound = [eh.mean("x", low=0, high=1).bind(holdout.schema), eh.mean("y = 1").bind(holdout.schema)]
        for order_by in ((), ("t",)):
            sums = executor.training.block_totals(bound, order_by=order_by, unit=2**30)
            assert np.array_equal(sums.sum(axis=1), executor.training.totals(bound)[:, 0])
            rows = independent(0)["y"] if order_by else independent(0)["y"][shuffled]
            assert np.array_equal(sums[1] >> 30, np.bincount(block_of_rows(4_000), weights=rows))


def volatile(seed, rows=4_000, start=0):
    """Returns whose size changes slowly, though neither they nor the label can be foreseen."""
    rng = np.random.default_rng(seed)
    wild = np.bitwise_xor.accumulate((rng.random(rows) < 0.005).astype(int))
    time = start + np.arange(rows)
    return {
        "t": time,
        "day": np.datetime64("2000-01-01") + time,
        "ret": np.where(wild, 2.0, 0.5) * rng.normal(size=rows),
        "y": rng.integers(0, 2, rows),
    }


def only(column):
    """The same rows with one of the columns that put them in order, or none."""

    def drawn(seed, start=0):
        table = volatile(seed, start=start)
        return {name: values for name, values in table.items() if name not in {"t", "day"} - {column}}

    return drawn


SHUFFLED = np.random.default_rng(2).permutation(4_000)


@pytest.mark.parametrize("column", ["t", "day"])
def test_a_slow_regime_is_warned_of_though_the_file_is_shuffled(tmp_path, column):
    with sealed(tmp_path, order=SHUFFLED, rows=only(column)) as holdout:
        with pytest.warns(DependenceWarning, match=rf"abs\(ret\) > 1.*in the order of '{column}'.*silence"):
            holdout.ask("abs(ret) > 1")
        with pytest.warns(DependenceWarning, match=f"in the order of '{column}'"):
            holdout.ask(eh.mean(lambda rows: abs(rows["ret"]) > 1.5, name="wild"))


def test_without_a_column_that_orders_them_shuffled_rows_look_independent(tmp_path):
    with sealed(tmp_path, order=SHUFFLED, rows=only(None)) as holdout, warnings.catch_warnings():
        warnings.simplefilter("error", DependenceWarning)
        holdout.ask("abs(ret) > 1")


def test_a_query_about_the_index_itself_is_left_in_peace(tmp_path):
    with sealed(tmp_path, order=SHUFFLED, rows=independent) as holdout, warnings.catch_warnings():
        warnings.simplefilter("error", DependenceWarning)
        holdout.ask("t < 500")


def test_shuffled_independent_rows_with_times_are_left_in_peace(tmp_path):
    def timed(seed, rows=4_000, start=0):
        return volatile(seed, rows, start) | {"x": independent(seed, rows, start)["x"]}

    with sealed(tmp_path, order=SHUFFLED, rows=timed, queries=400) as holdout, warnings.catch_warnings():
        warnings.simplefilter("error")
        holdout.ask_many([f"x < {k / 200} and y = {y}" for k in range(1, 200) for y in (0, 1)])


def test_false_alarms_in_all_orders_together_stay_rare(tmp_path):
    with sealed(tmp_path, order=SHUFFLED, rows=volatile) as holdout:
        training = holdout._executor.training
        watch = dependence_monitor(training, holdout.mechanism, holdout.schema)
        rng, alarms = np.random.default_rng(0), 0
        asked = eh.mean(lambda rows: rows["y"] > 0, name="tossed").bind(holdout.schema)
        for _ in range(1_000):
            tossed = replace(asked, training_values=rng.integers(0, 2, 4_000))
            alarms += bool(watch.evaluate(training, [tossed], unit=1, plan=1)[1])
        assert watch.others == ("t", "day")
        assert alarms <= 10


def test_the_orders_are_looked_for_once_and_in_the_training_rows_alone(tmp_path, monkeypatch):
    with sealed(tmp_path, order=SHUFFLED, rows=volatile) as holdout:
        opened = []

        class Counted(OpenFile):
            def __init__(self, path, **wanted):
                opened.append(path.path.name)
                super().__init__(path, **wanted)

        monkeypatch.setattr("everhold.diagnosis.queries.OpenFile", Counted)
        for price in range(3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                holdout.ask(f"ret > {price}")
        assert opened == ["training.parquet"]
