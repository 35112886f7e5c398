"""`everhold split` as people type it: the printed command seals what was written."""

import doctest
import json
import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    days = np.datetime64("1980-01-01") + np.arange(6_000)
    lines = [f"{i},p{rng.integers(1_500)},{days[i]},{rng.normal():.3f},{int(rng.random() < 0.2)}" for i in range(6_000)]
    (tmp_path / "my visits.csv").write_text("\n".join(["id,patient,date,x,late", *lines]) + "\n")
    return "my visits.csv"


DESIGNS = {
    "chance": ([], "", 3_000),
    "groups": (["--groups", "patient", "--label", "late"], " --groups patient ", None),
    "time": (["--time", "date", "--gap", "10", "--label", "late"], " --groups block ", 3_000),
    "order": (["--time", "date", "--label", "late"], " --label late --in-order date ", 3_000),
    "classes": (["--stratify", "late", "--row-id", "id"], " --label late --row-id id --stratified late ", 3_000),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_the_printed_command_seals_the_files(everhold, table, design):
    options, declared, sealed = DESIGNS[design]
    done = everhold("split", table, "--holdout", "0.5", "--output", "my data", *options)
    command = done.stdout.splitlines()[-1]
    assert command.startswith("everhold create my-visits.db my-visits --holdout 'my data/holdout.parquet'")
    assert declared in command
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        everhold(*shlex.split(command)[1:])
    status = json.loads(everhold("status", "my-visits.db", "my-visits", "--format", "json").stdout)
    assert sealed in (None, status["rows"])
    assert "my visits.csv away" in done.stderr
    assert ("were left out" in done.stderr) == (design == "time")
    assert ("only if they are several times as long" in " ".join(done.stderr.split())) == (design == "time")


def test_the_record_says_who_got_what_and_what_answers_are_about(everhold, table):
    arguments = ("--holdout", "0.5", "--time", "date", "--gap", "10", "--output", "d", "--format", "json")
    record = json.loads(everhold("split", table, *arguments).stdout)
    assert record["training_rows"] + record["holdout_rows"] + record["left_out"] == 6_000
    assert (record["left_out"], record["groups"]) == (9, 75)
    assert "later times only if" in record["about"]
    assert "--queries" in record["create"]


def test_rows_in_order_have_no_gap_and_no_blocks(everhold, table):
    arguments = ("--holdout", "0.5", "--time", "date", "--output", "d", "--format", "json")
    record = json.loads(everhold("split", table, *arguments).stdout)
    assert (record["training_rows"], record["holdout_rows"], record["left_out"], record["groups"]) == (
        3_000, 3_000, 0, None,
    )  # fmt: skip
    assert record["about"] == "the sealed rows in order of 'date', given what came before each"


def test_too_few_groups_for_the_request_are_said(everhold, table):
    done = everhold("split", table, "--holdout", "0.2", "--time", "date", "--gap", "300", "--output", "d")
    assert "too few independent ones" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--holdout", "20"], "Pass a share of the rows between 0 and 1"),
        (["--holdout", "0.2", "--groups", "patient", "--time", "date", "--gap", "3"], "are given together"),
        (["--holdout", "0.2", "--time", "date", "--block", "9"], "--block is given without --gap"),
        (["--holdout", "0.2", "--time", "date", "--gap", "0"], "Pass a positive number of days"),
        (["--holdout", "0.2", "--gap", "3"], "are only for --time"),
        (["--holdout", "0.2", "--seed", "-1"], "seed is -1"),
    ],
)
def test_wrong_usage_writes_nothing(everhold, table, tmp_path, options, message):
    done = everhold("split", table, "--output", "d", *options, code=2)
    assert message in done.stderr
    assert not (tmp_path / "d").exists()


def test_nothing_is_overwritten(everhold, table):
    everhold("split", table, "--holdout", "0.5", "--output", "d")
    assert "exists" in everhold("split", table, "--holdout", "0.5", "--output", "d", code=3).stderr
    for option in ("--label", "--row-id"):
        done = everhold("split", table, "--holdout", "0.5", "--output", "e", option, "nope", code=3)
        assert "There is no column 'nope'. Name one of" in done.stderr
        assert not [*Path("e").iterdir()]


PAGE = Path(__file__).parents[5] / "docs" / "guides" / "dependent-rows.md"


def test_the_commands_of_the_guide_work_and_seal(everhold, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text().partition("\n## Splitting a table\n")[2].partition("\n## ")[0]
    example = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert doctest.DocTestRunner().run(example).failed == 0
    commands = re.findall(r"^\$ everhold (.*)$", text, re.MULTILINE)
    assert len(commands) == 4
    for place, command in enumerate(commands):
        printed = everhold(*shlex.split(command)).stdout.splitlines()[-1]
        words = shlex.split(printed)[1:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            everhold("create", f"again-{place}.db", *words[2:])


@pytest.mark.filterwarnings("ignore::everhold.errors.EverholdWarning")
def test_blocks_are_planned_by_the_spread_of_the_label_between_them(everhold, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, days = np.random.default_rng(0), 1_500
    state = np.zeros(days)
    for day in range(1, days):
        state[day] = 0.8 * state[day - 1] + 0.6 * rng.normal()
    dates = np.datetime64("2018-01-01") + np.arange(days)
    lines = [f"{date},{int(value > 0)}" for date, value in zip(dates, state, strict=True)]
    Path("days.csv").write_text("\n".join(["date,y", *lines]), encoding="utf-8")
    planned = {}
    for name, more in (("with", ["--label", "y"]), ("without", [])):
        given = ["--holdout", "0.3", "--time", "date", "--gap", "5", "--output", name, "--format", "json"]
        ran = everhold("split", "days.csv", *given, *more)
        command = json.loads(ran.stdout)["create"]
        planned[name] = int(re.search(r"--queries (\d+)", command)[1])
        assert ("Give --label" in ran.stderr) == (name == "without")
        if name == "with":
            everhold(*shlex.split(command)[1:])
    assert planned["with"] >= 20 > planned["without"]
