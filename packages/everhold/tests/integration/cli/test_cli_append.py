"""The commands append, over-time and retire."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import everhold as eh
from everhold.cli import asking, holdouts, operations
from everhold.cli import plan as plan_command
from everhold.cli.failures import CommandGroup


def rows(count, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"delay": rng.normal(5.0, 30.0, count), "late": rng.integers(0, 2, count)})


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command in a folder with a growing holdout and files of rows."""
    monkeypatch.chdir(tmp_path)
    planning = eh.Planning(grows=True)
    with eh.Holdout.create(
        "s.db", "h", holdout=rows(400, 1), training=rows(400, 2), queries=50, planning=planning
    ) as h:
        h.ask("delay > 15", guess=0.98)
    rows(400, 3).to_parquet("more.parquet")
    app = typer.Typer(cls=CommandGroup)
    for module in (asking, operations, holdouts, plan_command):
        module.register(app)

    def command(*arguments, code=0):
        result = CliRunner().invoke(app, list(arguments), prog_name="everhold", catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return command


def test_rows_are_appended_asked_over_time_and_retired(run, tmp_path):
    told = json.loads(run("append", "s.db", "h", "more.parquet", "--until", "2026-02-01", "--format", "json").stdout)
    assert (told["arrival"], told["total"], told["tree"]) == (1, 800, 2)
    assert "already" in run("append", "s.db", "h", "more.parquet", code=3).output
    windows = json.loads(run("over-time", "s.db", "h", "late > 0", "--by", "month", "--format", "json").stdout)
    assert [row["window"] for row in windows["windows"]] == ["at creation", "2026-02"]
    assert "--to" in run("retire", "s.db", "h", "1", code=2).output
    opened = json.loads(run("retire", "s.db", "h", "1", "--to", "old.parquet", "--format", "json").stdout)
    assert opened["rows"] == len(pd.read_parquet(tmp_path / "old.parquet")) == 400
    assert json.loads(run("status", "s.db", "h", "--format", "json").stdout)["rows"] == 400


def test_widths_over_time_are_planned(run):
    arguments = ("--rows-per-month", "2000", "--queries", "50", "--format", "json")
    months = json.loads(run("plan", *arguments, "--months", "12", "--chart", "w.svg").stdout)["months"]
    drawn = Path("w.svg").read_text(encoding="utf-8")
    assert "no arrivals" in drawn
    assert len(months) == 12
    assert months[-1]["unsealed"] < 0.032 < months[-1]["static"]
    quiet = json.loads(run("plan", *arguments, "--months", "12", "--surprises", "0").stdout)["months"]
    assert quiet[-1]["unsealed"] < 0.0085
    assert "belong together" in run("plan", *arguments, code=2).output
