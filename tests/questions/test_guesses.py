"""Guesses learn from surprises, and only from those of the same kind."""

from dataclasses import replace

import numpy as np
from holdout_samples import create, guess_and_check

import everhold as eh
from everhold.questions.guesses import learned
from everhold.values.base import BoundQuery

STEPS = 1_000
ACCURACY = {"kind": "accuracy", "label": "late"}


def bound(**description):
    return BoundQuery(description=description, shown="a question")


def surprise(value, estimate, **description):
    return description, {"value": value, "estimate": estimate}


def test_two_surprises_that_agree_move_the_next_guess():
    one, other = surprise(0.7, 0.6, **ACCURACY), surprise(0.9, 0.7, **ACCURACY)
    assert learned(600, bound(**ACCURACY), lambda: [one, other], STEPS) == 700
    assert learned(600, bound(**ACCURACY), lambda: [one], STEPS) == 600
    assert learned(600, bound(**ACCURACY), lambda: [one, surprise(0.6, 0.7, **ACCURACY)], STEPS) == 600


def test_other_scores_and_own_guesses_say_nothing():
    told = [surprise(0.7, 0.6, kind="brier", label="late"), surprise(0.7, None, **ACCURACY)] * 2
    assert learned(600, bound(**ACCURACY), lambda: told, STEPS) == 600
    assert learned(600, bound(kind="mean"), lambda: [surprise(0.7, 0.6, kind="mean")] * 2, STEPS) == 600


def test_losses_of_another_range_say_nothing():
    """A mean is a share of the declared range: half of 20 is not half of 1,000."""
    narrow, wide = ({"kind": "risk", "loss": "absolute", "low": 0.0, "high": high} for high in (20.0, 1_000.0))
    told = [surprise(0.7, 0.1, **narrow)] * 2
    assert learned(10, bound(**narrow), lambda: told, STEPS) == 410
    assert learned(10, bound(**wide), lambda: told, STEPS) == 10


def test_a_guess_stays_a_mean():
    told = [surprise(1.0, 0.0, **ACCURACY)] * 5
    assert learned(900, bound(**ACCURACY), lambda: told, STEPS) == STEPS


def test_a_holdout_corrects_the_next_model_of_a_loop(tmp_path):
    """Training predictions that are too good for all models alike: after two surprises the guesses are lower."""
    rng = np.random.default_rng(3)
    labels = {"holdout": rng.integers(0, 2, 1_000), "training": rng.integers(0, 2, 1_000)}

    def said(name, right):
        return np.where(rng.random(1_000) < right, labels[name], 1 - labels[name])

    tables = {name: {"x": rng.normal(size=1_000), "late": late} for name, late in labels.items()}
    with create(tmp_path, mechanism=guess_and_check(), features="public", **tables) as holdout:
        for _ in range(3):
            told = holdout.ask(eh.accuracy(said("holdout", 0.6), training=said("training", 0.95)))
        first, _, third = holdout.transcript().rows
    assert first["source"] == "holdout"
    assert first["guess"] == first["estimate"]
    assert third["guess"] < third["estimate"] - 0.1
    assert "corrected by what earlier surprises told" in replace(told, source="training").explain()
