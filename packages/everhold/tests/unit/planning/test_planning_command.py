import csv
import io
import json

import pytest
import typer
from typer.testing import CliRunner

from everhold.cli import plan as command
from everhold.cli.failures import CommandGroup
from everhold.dependence import Groups
from everhold.planning import plan
from everhold.planning.request import MOST_ROWS

WISH = ["--rows", "20000", "--queries", "100", "--surprises", "2"]


@pytest.fixture
def everhold():
    app = typer.Typer(cls=CommandGroup, rich_markup_mode="rich", add_completion=False)
    app.callback()(lambda: None)
    command.register(app)

    def run(*arguments, code=0):
        result = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run


def test_json_is_the_plan(everhold):
    printed = json.loads(everhold(*WISH, "--radius", "0.05", "--format", "json").stdout)
    assert printed == plan(rows=20_000, queries=100, surprises=2, radius=0.05).to_dict()


def test_rows_may_be_left_out_with_a_radius(everhold):
    printed = json.loads(everhold("--queries", "100", "--radius", "0.05", "--format", "json").stdout)
    assert printed["rows"] is None
    assert printed["lines"][0]["rows_needed"] > 0


def test_the_table_ends_with_advice(everhold):
    result = everhold(*WISH)
    assert "guess_and_check" in result.stdout
    assert "has the narrowest answers for adaptive queries if guesses hold" in result.stderr
    assert "The worst case, after 2 surprises" in result.stderr


def test_half_widths_follow_the_table_and_steps_where_they_were_asked_for(everhold):
    shown = everhold(*WISH, "--disagreement", "0.05").stdout
    assert "unsealed" in shown
    assert "step_by_bets" in shown
    assert "step_by_bets" not in everhold(*WISH).stdout
    data = json.loads(everhold(*WISH, "--disagreement", "0.05", "--training-rows", "0", "--format", "json").stdout)
    requested = {"disagreement": 0.05, "training_rows": 0}
    assert data == plan(rows=20_000, queries=100, surprises=2, **requested).to_dict()
    assert "disagreement is 2.0" in everhold(*WISH, "--disagreement", "2", code=2).stderr
    assert "training_rows is -1" in everhold(*WISH, "--training-rows", "-1", code=2).stderr


def test_csv_has_a_line_for_each_mechanism_and_statement(everhold):
    lines = list(csv.DictReader(io.StringIO(everhold(*WISH, "--format", "csv").stdout)))
    assert len(lines) == 15
    assert lines[0]["by"] == "guess_and_check"


def test_surprises_are_at_most_the_queries_by_default(everhold):
    printed = json.loads(everhold("--rows", "100000", "--queries", "3", "--format", "json").stdout)
    assert printed == plan(rows=100_000, queries=3, surprises=3).to_dict()
    assert printed["surprises"] == 3


def test_groups_of_one_size_need_no_file(everhold):
    printed = json.loads(everhold(*WISH, "--group-size", "5", "--format", "json").stdout)
    assert printed == plan(rows=20_000, queries=100, surprises=2, dependence=Groups(5)).to_dict()
    for wrong, reason in ((("--group-size", "0"), "--group-size is 0"), (("--model", "a.json"), "both given")):
        assert reason in everhold(*WISH, "--group-size", "5", *wrong, code=2).stderr


def test_the_notes_of_the_table_are_short(everhold):
    shown = everhold(*WISH, "--group-size", "5").stdout
    assert "only for independent rows" in shown
    assert max(map(len, shown.splitlines())) < 130


def test_how_alike_rows_of_a_group_are_expected_to_be_narrows_what_is_expected_alone(everhold):
    groups = ("--group-size", "5", "--format", "json")
    worst, expected = (json.loads(everhold(*WISH, *groups, *more).stdout) for more in ((), ("--alike", "0.05")))
    assert expected == plan(rows=20_000, queries=100, surprises=2, dependence=Groups(5), alike=0.05).to_dict()
    before, after = (
        next(line for line in made["lines"] if line["mechanism"] == "guess_and_check") for made in (worst, expected)
    )
    assert after["expected"] < before["expected"]
    assert after["radius"] == before["radius"]
    assert "--alike is only for groups" in everhold(*WISH, "--alike", "0.05", code=2).stderr
    assert "alike is 2.0" in everhold(*WISH, "--group-size", "5", "--alike", "2", code=2).stderr


def test_bad_requests_are_wrong_usage(everhold):
    assert "Neither rows nor radius" in everhold("--queries", "100", code=2).stderr
    assert "confidence is 1.0" in everhold(*WISH, "--confidence", "1", code=2).stderr


@pytest.mark.parametrize("ending", ["svg", "html"])
def test_the_chart_is_saved(everhold, tmp_path, ending):
    everhold(*WISH, "--chart", str(tmp_path / f"plan.{ending}"))
    assert "<svg" in (tmp_path / f"plan.{ending}").read_text()


def test_another_ending_is_refused(everhold, tmp_path):
    assert "ends in .svg or .html" in everhold(*WISH, "--chart", str(tmp_path / "plan.doc"), code=2).stderr


def test_rows_needed_for_dependent_rows_name_the_true_reason(everhold):
    shown = everhold("--queries", "100", "--group-size", "5", "--radius", "0.1").stdout
    assert shown.count("only for independent rows") >= 2
    assert f"{MOST_ROWS:,}" not in shown
