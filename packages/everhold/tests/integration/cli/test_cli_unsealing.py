"""Ask silently, and end a study from the command line."""

import json

import pytest
import typer
from typer.testing import CliRunner

from everhold.cli import asking, holdouts, ledger, operations
from everhold.cli.failures import CommandGroup
from everhold.sealing.intake.request import Rows

UNSEAL = ["unseal", "s.db", "flights"]
ASK = ["ask", "s.db", "flights", "--mean"]


@pytest.fixture
def run(study):
    """Runs a command of these modules."""
    app = typer.Typer(cls=CommandGroup)
    for module in (operations, asking, holdouts, ledger):
        module.register(app)

    def command(*arguments, code=0, **how):
        result = CliRunner().invoke(app, list(arguments), prog_name="everhold", catch_exceptions=False, **how)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return command


def read(result):
    return json.loads(result.stdout)


def make_noise_free(folder):
    from everhold import GuessAndCheck, Holdout

    (folder / "s.db").unlink()
    mechanism = GuessAndCheck(rows=1_000, queries=60, surprises=3, tolerance=0.2, grid=10)
    Holdout.create(
        folder / "s.db", "flights", holdout=folder / "sealed.csv", training=folder / "train.csv", label="late",
        rows=Rows(row_id="id"), mechanism=mechanism,
    ).close()  # fmt: skip


@pytest.fixture
def asked(run, study):
    """A study with an open and a silent query."""
    make_noise_free(study)
    run(*ASK, "delay > 15")
    silent = run(*ASK, "delay > 5", "--silent", "--format", "json")
    assert read(silent) | {"query": 0} == {
        "value": None, "low": None, "high": None, "source": "silent", "charged": 0,
        "remaining": read(silent)["remaining"], "query": 0,
    }  # fmt: skip
    assert "before the study is unsealed" in silent.stderr
    return run


def test_nobody_unseals_by_accident(asked):
    result = asked(*UNSEAL, code=2)
    assert "no new query is answered afterwards" in result.stderr
    assert "--yes" in result.stderr
    assert not read(asked("status", "s.db", "flights", "--format", "json"))["closed"]


@pytest.mark.parametrize(("said", "closed"), [("n\n", False), ("y\n", True)])
def test_a_person_is_asked(asked, monkeypatch, said, closed):
    monkeypatch.setattr(holdouts, "_has_terminal", lambda: True)
    result = asked(*UNSEAL, code=0 if closed else 1, input=said)
    assert "Unseal?" in result.stderr
    assert read(asked("status", "s.db", "flights", "--format", "json"))["closed"] == closed


def test_the_end_is_told_everywhere_and_once(asked):
    told = asked(*UNSEAL, "--yes", "--format", "json")
    assert "This cannot be undone." in told.stderr
    entries = read(told)["entries"]
    assert [entry["asked"] for entry in entries] == ["mean of delay > 15", "mean of delay > 5"]
    again = asked(*UNSEAL, "--format", "json")  # nothing is left to confirm
    assert again.stdout == told.stdout
    shown = asked("transcript", "s.db", "flights", "--format", "csv").stdout.splitlines()
    assert shown[0].split(",")[-3:] == ["sealed", "sealed_low", "sealed_high"]
    assert float(shown[2].split(",")[-3]) == entries[1]["sealed"]
    assert read(asked(*ASK, "delay > 5", "--format", "json"))["sealed"] == entries[1]["sealed"]
    assert "The study was unsealed" in asked(*ASK, "delay > 6", code=5).stderr
    assert "The study was unsealed" in asked("allot", "s.db", "flights", "a", "--queries", "1", code=5).stderr
    assert "The study is over" in asked("certificate", "show", "s.db", "flights").stdout
    assert read(asked("ledger", "verify", "s.db", "flights", "--format", "json"))["ok"]
    assert "sealed_high" in asked(*UNSEAL).stdout


def test_a_promise_that_rests_on_noise_is_not_unsealed(run, study):
    from everhold import GaussianMechanism, Holdout

    (study / "s.db").unlink()
    Holdout.create(
        study / "s.db", "flights", holdout=study / "sealed.csv", rows=Rows(row_id="id"),
        mechanism=GaussianMechanism(rows=1_000, queries=30, scale=0.02),
    ).close()  # fmt: skip
    for options in ([], ["--yes"]):
        assert "comes from noise" in run(*UNSEAL, *options, code=5).stderr
