"""The values of a question on the training rows are held against the declaration before anything is charged."""

import warnings

import numpy as np
import pytest

import everhold as eh
from everhold.dependence.stretches import stretch_of_rows
from everhold.errors import DependenceWarning


def returns(seed, rows=4_000, start=0):
    """Independent returns, and the sum of the last twenty of them in each row."""
    draws = np.random.default_rng(seed).normal(size=rows + 19)
    momentum = np.convolve(draws, np.ones(20), mode="valid")
    return {"t": start + np.arange(rows), "momentum": momentum, "y": (draws[19:] > 0).astype(int)}


def sealed(folder, *, order=None, rows=returns, **wish):
    """A holdout of such rows; what creation says of the column is silenced, so that a test sees what the ask says."""
    training = rows(0) if order is None else {name: column[order] for name, column in rows(0).items()}
    wish = {"label": "y", "mechanism": "guess_and_check", "queries": 20, "overfits": 2, **wish}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependenceWarning)
        return eh.Holdout.create(folder / "s.db", holdout=rows(1, start=10_000), training=training, **wish)


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
        assert holdout.status()["questions_asked"] == before["questions_asked"] + 2


def test_the_declared_order_counts_and_not_that_of_the_file(tmp_path):
    shuffled = np.random.default_rng(2).permutation(4_000)
    with sealed(tmp_path, order=shuffled, dependence=chain()) as holdout, pytest.warns(DependenceWarning):
        holdout.ask("momentum > 0")


def test_functions_predictions_and_batches_are_looked_at(tmp_path):
    with sealed(tmp_path) as holdout:
        made = eh.StatisticalQuery(lambda rows: rows["momentum"] > 0, name="momentum")
        with pytest.warns(DependenceWarning):
            holdout.ask(made)
        with pytest.warns(DependenceWarning):
            holdout.ask_many(["y = 1", "momentum > 2"])
        # predictions that are right exactly while the momentum is up
        lucky = [np.where(rows["momentum"] > 0, rows["y"], 1 - rows["y"]) for rows in (returns(1), returns(0))]
        with pytest.warns(DependenceWarning):
            holdout.ask(eh.accuracy(lucky[0], training=lucky[1]))


def test_what_is_bought_is_looked_at(tmp_path):
    with sealed(tmp_path, mechanism="privacy_budget", overfits=None) as holdout:
        with pytest.warns(DependenceWarning):
            holdout.choose(["y = 1", "momentum > 0"], best="highest")
        with pytest.warns(DependenceWarning):
            holdout.quantile("momentum", low=-20, high=20, bins=8)
        with pytest.warns(DependenceWarning):
            holdout.first_above(["momentum > 0"], 0.9)
        holdout.allot("ann", questions=2)
        with pytest.warns(DependenceWarning):
            holdout.analyst("ann").ask("momentum > 3")


def independent(seed, rows=4_000, start=0):
    rng = np.random.default_rng(seed)
    return {"t": start + np.arange(rows), "x": rng.random(rows), "y": rng.integers(0, 2, rows)}


def test_a_plan_of_questions_about_independent_rows_is_left_in_peace(tmp_path):
    with sealed(tmp_path, rows=independent, queries=400) as holdout, warnings.catch_warnings():
        warnings.simplefilter("error")
        holdout.ask_many([f"x < {k / 200} and y = {y}" for k in range(1, 200) for y in (0, 1)])


def test_sums_over_stretches_are_the_sums_over_rows(tmp_path):
    shuffled = np.random.default_rng(2).permutation(4_000)
    with sealed(tmp_path, rows=independent, order=shuffled, dependence=None) as holdout:
        desk = holdout._desk
        bound = [eh.mean("x", low=0, high=1).bind(holdout.schema), eh.mean("y = 1").bind(holdout.schema)]
        for order_by in ((), ("t",)):
            sums = desk.training.stretch_totals(bound, order_by=order_by, unit=2**30)
            assert np.array_equal(sums.sum(axis=1), desk.training.totals(bound)[:, 0])
            rows = independent(0)["y"] if order_by else independent(0)["y"][shuffled]
            assert np.array_equal(sums[1] >> 30, np.bincount(stretch_of_rows(4_000), weights=rows))
