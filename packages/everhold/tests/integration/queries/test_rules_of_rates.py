"""Rules are models of precision, recall, F1 and risk, too: the numbers of NumPy, one identity for one rule."""

import numpy as np
import pytest

import everhold as eh
from everhold.errors import QueryRejected

ROWS = 3_000
RULES = {
    "x > 0.5": lambda table: table["x"] > 0.5,
    "not (x < 0.2)": lambda table: table["x"] >= 0.2,
    "z > 0": lambda table: table["z"] > 0,
    "case when z > 0 then 1 else 0 end": lambda table: table["z"] > 0,
}


def table(seed):
    rng = np.random.default_rng(seed)
    x = rng.random(ROWS)
    z = np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(size=ROWS))
    return {"x": x, "z": z, "y": (rng.random(ROWS) < x).astype(int)}


@pytest.fixture(scope="module")
def holdout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rules")
    made = eh.Holdout.create(
        f"sqlite:///{folder}/study.db", "rules", holdout=table(0), training=table(1), label="y",
        mechanism="guess_and_check", queries=200,
    )  # fmt: skip
    with made:
        yield made


def rates(rule, rows):
    said, true = RULES[rule](rows), rows["y"] == 1
    hits = np.count_nonzero(said & true)
    return hits / said.sum(), hits / true.sum(), 2 * hits / (said.sum() + true.sum())


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_the_rates_that_its_predictions_have(holdout, rule):
    for ask, guess, sealed in zip(
        (eh.precision, eh.recall, eh.f1), rates(rule, table(1)), rates(rule, table(0)), strict=True
    ):
        answer = holdout.ask(ask(rule))
        assert answer.value == pytest.approx(guess, abs=1e-6)  # confirmed: the value is that of the training rows
        assert answer.low < sealed < answer.high


def test_a_rule_spelled_otherwise_is_the_same_query(holdout):
    assert holdout.ask(eh.precision("x > 0.25")).repeated is False
    assert holdout.ask(eh.precision("  x>0.25 ")).repeated is True
    assert holdout.ask(eh.recall("x > 0.25")).repeated is False


@pytest.mark.parametrize(("loss", "of"), [("squared", np.square), ("absolute", np.abs)])
def test_the_risk_of_a_rule_is_that_of_its_numbers(holdout, loss, of):
    rows, sealed = table(1), table(0)
    answer = holdout.ask(eh.risk("0.5 * x", loss))
    assert answer.value == pytest.approx(np.mean(of(0.5 * rows["x"] - rows["y"])), abs=1e-6)
    assert answer.low < np.mean(of(0.5 * sealed["x"] - sealed["y"])) < answer.high


def test_what_is_missing_costs_the_worst_loss(holdout):
    rows = table(1)
    loss = np.where(np.isnan(rows["z"]), 1.0, np.clip(np.square(0.1 * rows["z"] - rows["y"]), 0.0, 1.0))
    assert holdout.ask(eh.risk("0.1 * z")).value == pytest.approx(np.mean(loss), abs=1e-6)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (eh.precision("y > 0"), "reads 'y', the label that it has to predict"),
        (eh.precision("unknown > 0"), "There is no column 'unknown'"),
        (eh.precision("x >"), "is not an expression"),
        (eh.f1("x > 0.5", least=300), "this metric takes no rules"),
        (eh.risk("x", lambda predictions, labels: abs(predictions - labels), high=1.0), "this metric takes no rules"),
    ],
)
def test_a_text_that_cannot_be_meant_costs_nothing(holdout, asked, words):
    before = holdout.remaining
    with pytest.raises(QueryRejected, match=words):
        holdout.ask(asked)
    assert holdout.remaining == before
