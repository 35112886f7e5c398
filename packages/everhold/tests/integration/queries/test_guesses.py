"""Guesses learn from surprises, and only from those of the same kind."""

from dataclasses import replace

import numpy as np
import pytest
from holdout_samples import create, guess_and_check

import everhold as eh
from everhold.ledger import Entry
from everhold.mechanisms import GuessAndCheck
from everhold.queries.interval_planner import learned, worth_of_guesses
from everhold.values.base import BoundQuery

STEPS = 1_000
ACCURACY = {"kind": "accuracy", "label": "late"}


def bound(**description):
    return BoundQuery(description=description, shown="a query")


def surprise(value, estimate, *, sequence=1, **description):
    answer = {"value": value, "estimate": estimate}
    return Entry(sequence, "", description, answer, 1, "", "", "", "", "")


def test_two_surprises_that_agree_move_the_next_guess():
    one, other = surprise(0.7, 0.6, **ACCURACY), surprise(0.9, 0.7, **ACCURACY)
    assert learned(600, bound(**ACCURACY), lambda: [one, other], STEPS) == 700
    assert learned(600, bound(**ACCURACY), lambda: [one], STEPS) == 600
    assert learned(600, bound(**ACCURACY), lambda: [one, surprise(0.6, 0.7, **ACCURACY)], STEPS) == 600
    one.answer["guess"] = 0.65  # it had been corrected, and was a surprise all the same
    assert learned(600, bound(**ACCURACY), lambda: [one, other], STEPS) == 600


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


def test_frequent_surprises_make_guesses_worth_fewer_rows():
    def worth(*sequences, missed=0.04):
        told = [surprise(0.7 + missed, 0.7, sequence=number, **ACCURACY) for number in sequences]
        return worth_of_guesses(bound(**ACCURACY), lambda: told, rows=1_000.0, training=1_000.0, reach=0.02)

    assert worth(90, 80, 70, 60, 50) == pytest.approx(1.0 / (0.002 * 4.0 - 0.001))  # a reach of .04
    assert worth(90, 80, 70, 60, 50, missed=0.4) == pytest.approx(1.0 / (0.002 * 6.25 - 0.001))
    assert worth(90, 80, 70, 60) == worth(110, 80, 70, 60, 50) == 1_000.0  # few, or not frequent
    assert worth(90, 80, 70, 60, 50, missed=0.01) == pytest.approx(1_000.0)


def test_a_guess_stays_a_mean():
    told = [surprise(1.0, 0.0, **ACCURACY)] * 5
    assert learned(900, bound(**ACCURACY), lambda: told, STEPS) == STEPS


class Cut:
    """A model that knows the training labels."""

    feature_names_in_ = ("x",)

    def __init__(self, cut):
        self.cut = cut

    def predict(self, rows):
        return (np.ravel(rows) > self.cut).astype(int)


def test_a_holdout_corrects_the_next_model_of_a_loop(tmp_path):
    """Models that are too good on training rows, all alike: after two surprises the guesses are lower."""
    rng = np.random.default_rng(3)
    late = rng.integers(0, 2, 1_000)
    signal = (2 * late - 1) * rng.uniform(0.3, 0.9, 1_000)
    training, sealed = {"x": signal, "late": late}, {"x": rng.normal(size=1_000), "late": late}
    with create(tmp_path, mechanism=guess_and_check(), training=training, holdout=sealed) as holdout:
        for cut in (0.0, 0.1, 0.2):
            told = holdout.ask(eh.accuracy(Cut(cut)))
        first, _, third = holdout.transcript().rows
    assert first["source"] == "holdout"
    assert first["guess"] == first["estimate"]
    assert third["guess"] < third["estimate"] - 0.1
    assert "corrected by what earlier surprises told" in replace(told, source="training").explain()


def test_arrays_of_predictions_are_guessed_as_they_are(tmp_path):
    """They come from loops of any kind, such as one that climbs, where the next one is off in its own way."""
    late = np.random.default_rng(3).integers(0, 2, 1_000)
    with create(
        tmp_path, mechanism=guess_and_check(), features="public", holdout={"late": late}, training={"late": late}
    ) as holdout:
        for number in range(3):
            holdout.ask(eh.accuracy(np.roll(late, number + 1), training=late))
        assert all(row["guess"] == row["estimate"] for row in holdout.transcript().rows)


def test_a_bet_whose_stakes_follow_from_an_own_guess_has_no_level_by_its_description(tmp_path):
    rows = {"x": np.random.default_rng(0).normal(size=2_000)}
    mechanism = GuessAndCheck.tuned(rows=2_000, queries=20, text_bits=100)
    with create(tmp_path, holdout=rows, label=None, training=None, mechanism=mechanism) as made:
        compiler = made._executor.compiler
        bet, share = (
            compiler.prepare([query], [guess])[0]
            for query, guess in ((eh.mean("x", low=-4, high=4), 0.1), ("x > 0", 0.5))
        )
        assert bet.described is None
        assert share.described is not None


class Above:
    """Says 1 where x is above 0, and ``spare`` makes two models of it that agree on every row."""

    feature_names_in_ = ("x",)

    def __init__(self, spare):
        self.spare = spare

    def predict(self, rows):
        return (np.ravel(np.asarray(rows, dtype=float)) > 0.0).astype(int)


@pytest.mark.filterwarnings("ignore::everhold.VacuousGuaranteeWarning")
@pytest.mark.parametrize("few", [1, 4])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_guess_that_is_exactly_right_is_confirmed_where_training_rows_show_no_spread(tmp_path, few, grouped):
    """Equal models, events that never happen, and a model without errors: only the numbers of rows vary."""
    arms = {"arm": "arm", "treated": "A", "control": "B"}
    asked = {
        "no event": lambda: eh.risk_difference("none = 1", **arms),
        "every row": lambda: eh.risk_difference("none = 0", **arms, given="x > 1"),
        "equal F1": lambda: eh.difference(eh.metric("f1", Above(1)), eh.metric("f1", Above(2))),
        "equal recall": lambda: eh.difference(eh.metric("recall", Above(1)), eh.metric("recall", Above(2))),
        "balanced": lambda: eh.metric("balanced_accuracy", Above(1)),
    }
    wrong = dict.fromkeys(asked, 0)
    for draw in range(6):
        rng = np.random.default_rng(draw)

        def rows(count, first, rng=rng):
            x = rng.normal(size=count)
            made = {"x": x, "y": (x > 0).astype(int), "none": np.zeros(count),
                    "arm": rng.choice(["A", "B"], count, p=[0.3, 0.7]).astype(object)}  # fmt: skip
            return {**made, "home": first + np.arange(count) // 3} if grouped else made

        dependence = eh.Groups("home") if grouped else None
        with eh.Holdout.create(
            tmp_path / f"{draw}.db", holdout=rows(1_200, 0), training=rows(1_200 // few, 10_000), label="y",
            queries=50, dependence=dependence, planning=eh.Planning(allow_vacuous=True),
        ) as holdout:  # fmt: skip
            for name, query in asked.items():
                wrong[name] += holdout.ask(query()).charged
    assert sum(wrong.values()) <= 1, wrong
