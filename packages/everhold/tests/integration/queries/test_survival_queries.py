"""Survival and the restricted mean survival time: declared, silent and told, of rows and of groups."""

import math

import numpy as np
import pytest

import everhold as eh
from everhold.errors import QueryRejected

MEAN_TIME, FOLLOWED = 20.0, 48.0


def patients(seed, rows, *, first=None):
    """Patients who entered evenly over four years and are followed to one day, two of each household if it has one."""
    rng = np.random.default_rng(seed)
    times, ends = rng.exponential(MEAN_TIME, rows), rng.uniform(0.0, FOLLOWED, rows)
    homes = {} if first is None else {"home": first + np.arange(rows) // 2}
    arms = rng.choice(np.array(["A", "B"]), rows)
    return {"months": np.minimum(times, ends), "died": (times <= ends).astype(int), "arm": arms, **homes}


QUERIES = {
    "survival": (eh.survival("months", "died = 1", at=12), math.exp(-12 / MEAN_TIME)),
    "mean": (
        eh.restricted_mean_survival("months", "died = 1", at=12, steps=20), MEAN_TIME * (1 - math.exp(-12 / MEAN_TIME)),
    ),
    "an arm": (eh.survival("months", "died = 1", at=24, given="arm = 'A'"), math.exp(-24 / MEAN_TIME)),
}  # fmt: skip


def created(tmp_path, *, training=True, grouped=False, **given):
    rows = patients(1, 1_500, first=10_000 if grouped else None) if training else None
    sealed = patients(2, 3_000, first=0 if grouped else None)
    return eh.Holdout.create(tmp_path / "s.db", "s", holdout=sealed, training=rows, **given)


@pytest.mark.parametrize(("grouped", "training"), [(False, True), (False, False), (True, True), (True, False)])
def test_all_are_declared_with_and_without_training_rows(tmp_path, grouped, training):
    asked = [query for query, _ in QUERIES.values()]
    given = {"dependence": eh.Groups("home")} if grouped else {}
    with created(
        tmp_path, training=training, grouped=grouped, declared=[eh.listed(asked)], share=0.99, **given
    ) as holdout:  # fmt: skip
        for query, true in QUERIES.values():
            answer = holdout.ask(query)
            assert (answer.source, answer.charged) == ("declared", 0)
            assert answer.low < true < answer.high
            assert answer.high - answer.low < (0.5 if query.how == "survival" else 4.0)
        survival = holdout.ask(asked[0])
        assert survival.repeated
        assert survival.high - survival.low < (0.3 if grouped else 0.1)
        page = holdout.certificate().to_html()
        assert "if censoring is independent of it" in page


def test_told_and_silent_ones(tmp_path):
    with created(tmp_path) as holdout:
        for query, true in QUERIES.values():
            answer = holdout.ask(query)
            assert answer.low < true < answer.high
            assert answer.charged == 0
        assert "if censoring is independent" in holdout.ask(QUERIES["survival"][0]).explain()
        silent = eh.survival("months", "died = 1", at=6)
        assert holdout.ask(silent, silent=True).value is None
        told = holdout.unseal().rows[-1]
        assert told["sealed_low"] < math.exp(-6 / MEAN_TIME) < told["sealed_high"]


def test_the_last_step_ends_at_the_time_that_is_asked_about(tmp_path):
    """0.35 * 12 / 12 is below 0.35, and half of the events are at 0.35."""
    rows = {"time": np.where(np.arange(2_000) % 2 == 0, 0.35, 2.0), "event": np.ones(2_000, dtype=int)}
    with eh.Holdout.create(tmp_path / "s.db", "s", holdout=rows, training=rows) as holdout:
        answer = holdout.ask(eh.survival("time", "event = 1", at=0.35, steps=12))
        assert answer.low < 0.5 < answer.high
        assert holdout.ask(eh.survival("time", "event = 1", at=1e308)).low == 0.0  # times 50 it is infinite


def test_steps_and_spellings_make_queries(tmp_path):
    with created(tmp_path) as holdout:
        first = holdout.ask(QUERIES["survival"][0])
        assert holdout.ask(eh.survival("months", "1 = died", at=12.0, steps=50)).query == first.query
        assert holdout.ask(eh.survival("months", "died = 1", at=12, steps=40)).query != first.query


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (eh.survival("months", "died = 1", at=0), "at is 0"),
        (eh.survival("months", "died = 1", at=math.inf), "at is inf"),
        (eh.survival("months", "died = 1", at="later"), "at is 'later'"),
        (eh.survival("months", "died = 1", at=12, steps=0), "steps is 0"),
        (eh.survival("months", "died = 1", at=12, steps=2.5), "steps is 2.5"),
        (eh.survival("arm", "died = 1", at=12), "is a string"),
        (eh.survival("died = 1", "died = 1", at=12), "no number"),
        (eh.survival("months", "died", at=12), "no condition"),
        (eh.survival("months", "dead = 1", at=12), "dead"),
        (eh.survival("months", "died = 1", at=12, given="months"), "'months'"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path, query, why):
    with created(tmp_path) as holdout:
        with pytest.raises(QueryRejected, match=why):
            holdout.ask(query)
        assert not holdout.transcript().rows


def test_rows_for_which_nothing_is_proved_are_refused(tmp_path):
    asked = QUERIES["survival"][0]
    in_order = {**patients(2, 400), "day": np.arange(400)}
    with (
        eh.Holdout.create(
            tmp_path / "o.db", "o", holdout=in_order, dependence=eh.InOrder("day"), declared=[eh.listed(["died = 1"])],
            share=0.99,
        ) as holdout,
        pytest.raises(QueryRejected, match="declared otherwise"),
    ):  # fmt: skip
        holdout.ask(asked, silent=True)
    with (
        created(tmp_path, rows=eh.Rows(stratified="arm")) as holdout,
        pytest.raises(QueryRejected, match="split by 'arm'"),
    ):
        holdout.ask(asked)
    public = {"label": "died", "rows": eh.Rows(features="public")}
    with (
        eh.Holdout.create(
            tmp_path / "p.db", "p", holdout=patients(2, 3_000), training=patients(1, 1_500), **public
        ) as holdout,
        pytest.raises(QueryRejected, match="public features have one each"),
    ):  # fmt: skip
        holdout.ask(asked)


def test_missing_times_are_refused_or_asked_about_those_that_have_one(tmp_path):
    rows, training = patients(2, 2_000), patients(1, 1_000)
    for table in (rows, training):
        table["months"] = np.where(np.arange(len(table["months"])) % 10 == 0, np.nan, table["months"])
    with (
        eh.Holdout.create(
            tmp_path / "m.db", "m", holdout=rows, training=training, rows=eh.Rows(missing="bounds")
        ) as holdout,
        pytest.raises(QueryRejected, match="Missing values of months"),
    ):  # fmt: skip
        holdout.ask(QUERIES["survival"][0])
    with eh.Holdout.create(tmp_path / "n.db", "n", holdout=rows, training=training) as holdout:
        with pytest.raises(QueryRejected, match="no value"):
            holdout.ask(QUERIES["survival"][0])
        answer = holdout.ask(eh.survival("months", "died = 1", at=12, given="months is not null"))
        assert answer.low < QUERIES["survival"][1] < answer.high
    with eh.Holdout.create(
        tmp_path / "o.db", "o", holdout=rows, training=training, rows=eh.Rows(missing=99)
    ) as holdout:  # fmt: skip
        answer = holdout.ask(QUERIES["survival"][0])
        assert answer.clipped == "missing values of months count as 99 (10 % of the training rows)"
