"""Allot parts of the budget, ask on behalf of analysts, and see who spent what."""

import json

import pytest
import typer
from typer.testing import CliRunner

from everhold.cli import asking, holdouts, ledger, operations
from everhold.cli.failures import CommandGroup

ALLOT = ["allot", "s.db", "flights", "team-a", "--queries", "1"]
ASK = ["ask", "s.db", "flights", "--analyst", "team-a", "--mean"]


@pytest.fixture
def run(study):
    """Runs a command of these modules."""
    app = typer.Typer(cls=CommandGroup)
    for module in (operations, asking, holdouts, ledger):
        module.register(app)

    def command(*arguments, code=0, env=None):
        result = CliRunner(env=env).invoke(app, list(arguments), prog_name="everhold", catch_exceptions=False)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return command


def read(result):
    return json.loads(result.stdout)


def test_an_analyst_is_allotted_a_part_and_kept_to_it(run):
    part = read(run(*ALLOT, "--charges", "2", "--format", "json"))
    assert part == {"analyst": "team-a", "asked": 0, "queries": 1, "charged": 0, "charges": 2}
    answer = read(run(*ASK, "delay > 15", "--format", "json"))
    assert answer["remaining"] == {"queries": 0, "surprises": 2}
    refused = run(*ASK, "delay > 16", "--format", "json")
    assert (read(refused)["source"], read(refused)["value"]) == ("refused", None)
    assert "allotment" in refused.stderr
    assert run(*ASK, "delay > 16", "--strict", code=6).stderr.startswith("error: The query was refused")
    assert read(run("quote", *ASK[1:], "late = 1", "--format", "json"))["refused"]
    run(*ALLOT[:-1], "2")
    assert read(run(*ASK, "delay > 16", "--format", "json"))["source"] == "training"


def test_status_transcript_and_list_of_allotments(run):
    run(*ALLOT)
    run(*ASK, "delay > 15")
    table = run("status", "s.db", "flights").stdout
    assert table.splitlines()[-1].split() == ["team-a", "1", "1", "0", "1"]
    assert "allotments" not in table
    line = {"analyst": "team-a", "asked": 1, "queries": 1, "charged": 0, "charges": 1}
    assert read(run("status", "s.db", "flights", "--format", "json"))["allotments"] == [line]
    found = read(run("allotments", "s.db", "flights", "--format", "json"))
    assert found["allotments"] == [line]
    assert [act["sequence"] for act in found["acts"]] == [1]
    shown = run("allotments", "s.db", "flights")
    assert "team-a" in shown.stdout
    assert shown.stderr.startswith("not allotted: ")
    assert run("transcript", "s.db", "flights", "--format", "csv").stdout.splitlines()[1].endswith(",team-a")
    (listed,) = read(run("list", "s.db", "--format", "json"))["holdouts"]
    assert listed["asked"] == 1
    assert read(run("ledger", "verify", "s.db", "flights", "--format", "json"))["ok"]
    assert "queries 1 of 1, charged 0 of 1" in run("certificate", "show", "s.db", "flights").stdout


def test_the_storage_may_come_from_the_environment(run):
    place = {"EVERHOLD_STORAGE": "s.db"}
    run("allot", "flights", "team-a", "--queries", "3", env=place)
    assert "team-a" in run("allotments", "flights", env=place).stdout


@pytest.mark.parametrize("name", ["", " a", "a\x1b[2J", "x" * 101])
def test_a_name_that_cannot_be_used_is_refused(run, name):
    result = run("allot", "s.db", "flights", name, "--queries", "1", code=5)
    assert "\x1b" not in result.output
    assert len(result.output) < 500


def test_what_cannot_be_done_has_its_exit_code(run):
    run(*ALLOT[:-1], "2", "--charges", "-1", code=2)
    assert "no allotment" in run(*ASK, "delay > 15", code=5).stderr
    run(*ALLOT)
    run(*ASK, "delay > 15")
    assert "spent 1 queries" in run(*ALLOT[:-1], "0", code=5).stderr
    assert "looks like" in run("allot", "s.db", "flights", "TEAM-A", "--queries", "1", code=5).stderr
    assert "served first" in run("allot", "s.db", "flights", "b", "--queries", "99").stderr


@pytest.mark.parametrize("command", ["allot", "allotments"])
def test_the_help_teaches(run, command):
    text = run(command, "--help").stdout
    assert "Example" in text
    assert f"everhold {command} flights.db flights" in text
    assert "Exit codes:" in text
