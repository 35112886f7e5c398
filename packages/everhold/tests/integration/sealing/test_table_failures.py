"""A function that fails on single sealed rows must not move the others, nor say that it failed."""

import numpy as np

from everhold.sealing.rows.code_trials import sealed_values


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
