"""The command `audit`."""

import csv
import io
import json

import pytest

from everhold_lab.audit import audit as room

QUICK = ("--queries", "60", "--surprises", "1", "--analysts", "honest,climbing", "--runs", "2")


def test_the_table_shows_each_pair_and_says_what_was_rounded(everhold):
    shown = everhold("audit", "--rows", "300", *QUICK, "--mechanism", "guess_and_check")
    assert "unprotected_violations" in shown.stdout
    assert shown.stdout.count("guess_and_check") == 2
    assert "played with 256 rows" in shown.stderr


def test_json_and_csv_say_the_same(everhold):
    document = json.loads(everhold("audit", "--rows", "300", *QUICK, "--format", "json").stdout)
    assert (document["planned_rows"], document["rows"], document["consistent"]) == (300, 256, True)
    lines = list(csv.DictReader(io.StringIO(everhold("audit", "--rows", "300", *QUICK, "--format", "csv").stdout)))
    assert [line["worst_error"] for line in lines] == [str(line["worst_error"]) for line in document["lines"]]


def test_a_plan_goes_in_as_it_came_out(everhold, tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(everhold("plan", "--rows", "300", "--queries", "60", "--surprises", "1", "--format", "json").stdout)
    game = ("--analysts", "honest", "--runs", "2", "--format", "json")
    document = json.loads(everhold("audit", "--plan", str(file), *game).stdout)
    assert (document["planned_rows"], document["queries"]) == (300, 60)
    assert document["lines"]


def test_a_broken_promise_is_a_failure(everhold, monkeypatch):
    monkeypatch.setattr(room.Audit, "consistent", False)
    assert "more often than chance" in everhold("audit", "--rows", "256", *QUICK, code=1).stderr


def test_interruption_leaves_quietly(everhold, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "coverage_study", interrupted)
    stopped = everhold("audit", "--rows", "256", *QUICK, code=130)
    assert stopped.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--rows", "256"), "--queries is missing"),
        (("--plan", "there.json", "--rows", "256"), "either a plan or a request"),
        (("--plan", "there.json"), "not well-formed JSON"),
        (("--rows", "256", "--queries", "60", "--analysts", "nobody"), "There is no analyst"),
        (("--rows", "256", "--queries", "60", "--mechanism", "magic"), "is no mechanism"),
        (("--rows", "64", "--queries", "5000"), "No mechanism can be audited"),
    ],
)
def test_wrong_usage_is_explained(everhold, tmp_path, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.json").write_text("rows: 256")
    assert reason in everhold("audit", *arguments, code=2).stderr


def test_a_missing_plan_is_a_file_error(everhold, tmp_path):
    assert "cannot be used" in everhold("audit", "--plan", str(tmp_path / "none.json"), code=1).stderr
