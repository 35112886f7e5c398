"""Rows of one series that arrive after the sealed ones: intervals narrow, in one tree."""

import numpy as np
import pytest

import everhold as eh
from everhold.errors import HoldoutRejected

CHAIN = eh.MarkovChain([[0.9, 0.1], [0.2, 0.8]], states=["0", "1"], order_by="day", state="wet", gap=20)
TRAINED, GAP, ROWS = 3_000, 20, 3_000


def weather(days, seed=0):
    rng, wet, states = np.random.default_rng(seed), 0, []
    for chance in rng.random(days):
        wet = int(chance < (0.1 if wet == 0 else 0.8))
        states.append(wet)
    return {"day": np.arange(days), "wet": np.array(states), "warm": rng.random(days) < 0.5}


WEATHER = weather(TRAINED + GAP + 4 * ROWS)


def days(first, last, **changed):
    start = TRAINED + GAP
    return {name: column[start + first : start + last] for name, column in (WEATHER | changed).items()}


def create(folder, **more):
    training = {name: column[:TRAINED] for name, column in WEATHER.items()}
    return eh.Holdout.create(
        f"sqlite:///{folder}/a.db", "a", holdout=days(0, ROWS), training=training, queries=20, surprises=2,
        dependence=CHAIN, **more,
    )  # fmt: skip


@pytest.fixture
def holdout(tmp_path):
    with create(tmp_path) as made:
        yield made


def half(answer):
    return (answer.high - answer.low) / 2


def test_intervals_narrow_and_the_model_knows_the_longer_series(holdout, tmp_path):
    first = holdout.ask("wet = 1")
    assert holdout.append(days(ROWS, 3 * ROWS), until="2027-01-01").tree is None
    second = holdout.ask("wet = 1")
    assert half(second) < 0.75 * half(first)
    assert second.low < 1 / 3 < second.high
    assert holdout.ask("wet = 1", as_of=0).value == first.value
    windows = holdout.over_time("wet = 1").to_rows()
    assert [row["rows"] for row in windows] == [ROWS, 2 * ROWS]
    assert all(row["low"] < 1 / 3 < row["high"] for row in windows)
    holdout.certificate().save(tmp_path / "a.json")
    assert eh.verify_certificate(tmp_path / "a.json").ok


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (days(0, ROWS, wet=1 - WEATHER["wet"]), "do not come after all sealed rows"),
        (days(ROWS - 1, 2 * ROWS, warm=~WEATHER["warm"]), "do not come after all sealed rows"),
        (days(ROWS, 2 * ROWS, day=WEATHER["day"] // 2 + 2 * ROWS), "one row per step"),
        (days(ROWS, 2 * ROWS, wet=WEATHER["wet"] * 3), "is no state of the chain"),
    ],
    ids=["before", "overlap", "ties", "states"],
)
def test_rows_that_do_not_go_on_are_refused(holdout, rows, said):
    with pytest.raises(HoldoutRejected, match=said):
        holdout.append(rows)
    assert holdout.status()["rows"] == ROWS


def test_rows_that_come_near_later_training_rows_are_refused(tmp_path):
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/a.db", "a", holdout=days(0, ROWS), training=days(2 * ROWS, 3 * ROWS), queries=20,
        surprises=2, dependence=CHAIN,
    ) as holdout, pytest.raises(HoldoutRejected, match="training rows do not all come before them"):  # fmt: skip
        holdout.append(days(ROWS, 3 * ROWS // 2))


def test_training_rows_and_later_trees_are_refused(holdout, tmp_path):
    with pytest.raises(HoldoutRejected, match="no training rows can be added to a series"):
        holdout.append(days(ROWS, 2 * ROWS), training=days(2 * ROWS, 3 * ROWS))
    (tmp_path / "b").mkdir()
    with pytest.raises(HoldoutRejected, match="grows=True does not support"):
        create(tmp_path / "b", planning=eh.Planning(grows=True))
