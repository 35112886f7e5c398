"""Two files of predictions are compared in a terminal, by one query."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import everhold as eh
from everhold.cli import asking
from everhold.cli.failures import CommandGroup

ROWS = 1_000


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, ROWS)
    eh.Holdout.create(
        "s.db",
        "s",
        holdout={"x": rng.normal(size=ROWS), "y": truth},
        label="y",
        queries=20,
        mechanism="guess_and_check",
    ).close()
    first = np.where(rng.random(ROWS) < 0.9, truth, 1 - truth)
    for name, values in (("a", first), ("b", np.where(rng.random(ROWS) < 0.1, 1 - first, first)), ("c", first + 0.5)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["prediction", *map(str, values.tolist())]))
    app = typer.Typer(cls=CommandGroup)
    app.callback()(lambda: None)
    asking.register(app)

    def command(*arguments, code=0):
        result = CliRunner().invoke(app, ["compare", "s.db", "s", *arguments])
        assert result.exit_code == code, result.output
        return result

    return command


def test_two_files_are_one_query_about_these_rows(run):
    told = json.loads(run("a.csv", "b.csv", "--format", "json").stdout)
    assert told["low"] <= told["value"] <= told["high"]
    assert told["high"] - told["low"] < 0.3
    turned = json.loads(run("b.csv", "a.csv", "--format", "json").stdout)
    assert (turned["low"], turned["high"], turned["charged"]) == pytest.approx((-told["high"], -told["low"], 0))
    squared = json.loads(run("a.csv", "b.csv", "--metric", "risk", "--loss", "squared", "--format", "json").stdout)
    assert squared["query"] != told["query"]
    judged = json.loads(run("a.csv", "b.csv", "--margin", "0.3", "--format", "json").stdout)
    assert (judged["verdict"], judged["query"], judged["charged"]) == ("not worse", told["query"], 0)
    assert run("b.csv", "a.csv", "--margin", "0").stdout.startswith("undecided: ")
    run("a.csv", "b.csv", "--margin", "-1", code=5)


@pytest.mark.parametrize("metric", ["accuracy", "error", "balanced_accuracy", "f1", "precision", "recall"])
def test_two_files_are_compared_on_some_rows(run, metric):
    guess = "-0.1" if metric == "error" else "0.1"
    told = run("a.csv", "b.csv", "--metric", metric, "--where", "x > -1", "--guess", guess, "--format", "json")
    answer = json.loads(told.stdout)
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert answer["high"] - answer["low"] < 0.8
    assert "x > -1" in run("a.csv", "b.csv", "--metric", metric, "--where", "x > -1", "--guess", guess).stdout


@pytest.mark.parametrize("metric", ["balanced_accuracy", "f1", "precision", "recall", "roc_auc"])
def test_two_files_are_compared_by_scores_that_are_no_means(run, metric):
    told = json.loads(run("a.csv", "b.csv", "--metric", metric, "--guess", "0.1", "--format", "json").stdout)
    assert told["low"] <= told["value"] <= told["high"]
    assert told["high"] - told["low"] < 0.8


@pytest.mark.parametrize(
    "arguments",
    [
        ("a.csv", "b.csv", "--loss", "squared"),
        ("a.csv", "b.csv", "--high", "3"),
        ("a.csv", "b.csv", "--metric", "risk"),
    ],
)
def test_options_that_do_not_belong_together_are_misuse(run, arguments):
    run(*arguments, code=2)


def test_files_that_hold_no_labels_cost_nothing(run):
    assert "no labels" in run("a.csv", "c.csv", code=5).output
    with eh.Holdout.open("s.db", "s") as holdout:
        assert holdout.status()["queries_asked"] == 0
