"""A function that fails on single sealed rows must not move the others, nor say that it failed."""

import logging

import numpy as np
import pandas as pd
import pytest

import everhold as eh
from everhold.sealing.rows.code_trials import sealed_values

ROWS = 1000


def fails_on_missing(table):
    if np.isnan(table["x"]).any():
        raise ValueError("x is missing")
    return table["x"] > 0


def test_one_missing_value_costs_one_row():
    x = np.where(np.arange(1000) == 617, np.nan, 1.0)
    assert sealed_values(fails_on_missing, {"x": x}, 1000).sum() == 999


def test_a_function_that_always_fails_is_zero():
    values = sealed_values(lambda table: 1 / 0, {"x": np.ones(50)}, 50)
    assert values.shape == (50,)
    assert not values.any()


def rows_of(seed, shops):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, ROWS))
    y = (x + rng.normal(size=ROWS) > 0).astype(int)
    return {"x": x, "z": np.round(z), "shop": rng.choice(shops, ROWS), "y": y}


FAILURES = {
    "category": (lambda rows: rows["shop"] == "c", 60),
    "one value of some": (lambda rows: rows["z"] == 1.0, 60),
    "scattered": (lambda rows: rows["x"] > 0.4, 950),
    "one row": (lambda rows: rows["x"] > 2.9, 60),
}
"""On which rows, and the most calls besides one for each of these rows."""


class Encoder:
    """A classifier that raises on a shop that it does not know, or on large numbers, and logs its calls."""

    classes_ = np.array([0, 1])
    feature_names_in_ = np.array(["x", "z", "shop"])

    def __init__(self, what):
        self.what = what

    def predict(self, rows):
        logging.getLogger("encoder").info("called", extra={"x": list(rows["x"])})
        if FAILURES[self.what][0](rows).any():
            raise ValueError("found unknown categories")
        return (np.asarray(rows["x"]) > 0).astype(int)


@pytest.fixture
def calls(caplog):
    """The rows in each call of an encoder, by their values of x; apart from the model, which is what it is made of."""
    caplog.set_level(logging.INFO, "encoder")
    return lambda known: [record.x for record in caplog.records if not set(record.x).isdisjoint(known)]


@pytest.mark.parametrize("what", FAILURES)
def test_failing_rows_are_found_in_few_calls(tmp_path, calls, what):
    fails, most = FAILURES[what]
    sealed, training = rows_of(1, ["a", "b", "c"]), rows_of(2, ["a", "b"])
    training |= {"x": 0.4 - np.abs(training["x"]), "z": training["z"] * (training["z"] != 1)}
    data = {"holdout": pd.DataFrame(sealed), "training": pd.DataFrame(training), "label": "y"}
    with eh.Holdout.create(f"sqlite:///{tmp_path}/s.db", "s", **data, mechanism="guess_and_check") as holdout:
        holdout.ask(eh.recall(Encoder(what)))
        called = calls(sealed["x"])
        holdout.unseal()
        (told,) = [row["sealed"] for row in holdout.transcript().rows]
    bad = np.asarray(fails(sealed))
    assert told == pytest.approx(np.mean(~bad & (sealed["x"] > 0), where=sealed["y"] == 1), abs=1e-5)
    assert all([x] in called for x in sealed["x"][bad])  # whether a row fails is decided by the row alone
    assert len(called) <= bad.sum() + most
