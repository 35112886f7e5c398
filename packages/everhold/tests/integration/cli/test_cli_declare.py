"""Declare families in a terminal, and ask their members for nothing."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from everhold.cli import create, declare, holdouts
from everhold.cli.failures import CommandGroup

PROTOCOL = """
[families.thresholds]
listed = ["delay > 15", "delay > 60"]
[families.texts]
texts = 40
"""


@pytest.fixture
def run(study):
    """Runs a command of these modules."""
    app = typer.Typer(cls=CommandGroup)
    for module in (create, declare, holdouts):
        module.register(app)

    def command(*arguments, code=0):
        result = CliRunner().invoke(app, list(arguments), prog_name="everhold", catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return command


def test_families_are_declared_and_printed_and_their_members_cost_nothing(run):
    Path("study.toml").write_text(PROTOCOL)
    assert "no family is declared" in run("declare", "s.db", "flights").stderr
    told = json.loads(run("declare", "s.db", "flights", "--protocol", "study.toml", "--format", "json").stdout)
    assert [family["name"] for family in told["families"]] == ["thresholds", "texts"]
    answer = json.loads(run("ask", "s.db", "flights", "--mean", "delay > 60", "--format", "json").stdout)
    assert (answer["source"], answer["charged"]) == ("declared", 0)
    assert "there is a family" in run("declare", "s.db", "flights", "--protocol", "study.toml", code=5).stderr


def test_what_is_no_protocol_is_refused(run):
    Path("study.toml").write_text("budget = 3")
    assert "has 'budget'" in run("declare", "s.db", "flights", "--protocol", "study.toml", code=5).stderr
    assert "cannot be read" in run("declare", "s.db", "flights", "--protocol", "no.toml", code=5).stderr
