"""`everhold suite` and `everhold challenge`: files, exit codes, and what a stranger's file cannot do."""

import json

import pytest
from typer.testing import CliRunner

from everhold.cli.application import app
from everhold.errors import CaseRejected, QueryRejected
from everhold.queries.case_files import read_case_file


def junit(path, passed, *, more=""):
    cases = "".join(
        f'<testcase classname="tests.t" name="case[{n}]" time="0.1">{"" if n < passed else "<failure/>"}</testcase>'
        for n in range(40)
    )
    path.write_text(f"<testsuites><testsuite>{cases}{more}</testsuite></testsuites>")
    return str(path)


def call(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def storage(tmp_path):
    at = f"{tmp_path}/suite.db"
    made = call("suite", junit(tmp_path / "first.xml", 10), "--storage", at, "--challenges", 20)
    assert made.exit_code == 0, made.output
    return at


def test_the_exit_code_is_the_verdict(storage, tmp_path):
    summary = tmp_path / "summary.md"
    kept = call("challenge", junit(tmp_path / "a.xml", 12), "--storage", storage, "--summary", summary)
    good = call("challenge", junit(tmp_path / "b.xml", 40), "--storage", storage, "--format", "json")
    assert (kept.exit_code, good.exit_code) == (1, 0)
    assert json.loads(good.stdout)["verdict"] == "promoted"
    assert "### Gate main: kept" in summary.read_text()
    assert "[0]" not in summary.read_text()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("<testsuite><testcase name='other'/></testsuite>", "has no result"),
        ("<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><testsuite>&x;</testsuite>", "declares"),
        ("<testsuite><testcase", "well-formed XML"),
        ("<a>" * 100 + "</a>" * 100, "well-formed XML"),
        ("<testsuite/>", "no results"),
        ("<testsuite><testcase name='x'><skipped/></testcase></testsuite>", "was skipped"),
    ],
)
def test_an_error_has_the_code_2_and_charges_nothing(storage, tmp_path, content, fault):
    (tmp_path / "bad.xml").write_text(content)
    told = call("challenge", tmp_path / "bad.xml", "--storage", storage)
    assert told.exit_code == 2
    assert fault in told.stderr
    assert "/etc/passwd" not in told.output
    assert json.loads(call("status", storage, "suite", "--format", "json").stdout)["queries_asked"] == 0


def test_cases_are_added_with_the_results_of_the_champion(storage, tmp_path):
    more = '<testcase classname="tests.t" name="new"/>'
    added = call(
        "suite", junit(tmp_path / "more.xml", 10, more=more), "--add", "--storage", storage, "--format", "json"
    )
    assert added.exit_code == 0, added.output
    assert json.loads(added.stdout)["cases"] == 41
    assert call("challenge", junit(tmp_path / "a.xml", 40), "--storage", storage).exit_code == 2
    assert call("challenge", junit(tmp_path / "a.xml", 40, more=more), "--storage", storage).exit_code == 0
    assert call("suite", junit(tmp_path / "b.xml", 10), "--add", "--storage", storage).exit_code == 5
    wrong = call("suite", tmp_path / "b.xml", "--baseline-results", tmp_path / "b.xml", "--storage", storage)
    assert wrong.exit_code == 2


def test_a_spent_budget_has_the_code_3(tmp_path):
    storage = f"{tmp_path}/suite.db"
    assert call("suite", junit(tmp_path / "a.xml", 39), "--storage", storage, "--margin", 0.9).exit_code == 0
    assert call("challenge", junit(tmp_path / "a.xml", 40), "--storage", storage).exit_code == 3


def test_a_case_whose_setup_failed_has_crashed(tmp_path):
    path = junit(tmp_path / "a.xml", 40, more="<testcase name='x'><error/></testcase>")
    assert read_case_file(path)["passed"][-1] is None


def row(case, *, success=True, **more):
    return {"testCase": {"description": case}, "vars": {}, "success": success, "score": 1, "latencyMs": 500, **more}


def test_promptfoo_repeats_are_runs_and_errors_are_crashes(tmp_path):
    path = tmp_path / "out.json"
    rows = [row("a", testIdx=0), row("a", testIdx=1, success=False, failureReason=1), row("b", failureReason=2)]
    path.write_text(json.dumps({"results": {"version": 3, "results": rows}}))
    table = read_case_file(path)
    assert table["case"] == ["a", "a", "b"]
    assert table["passed"] == [1, 0, None]
    assert table["latency"] == [0.5, 0.5, None]
    path.write_text(json.dumps({"results": {"results": [row("a", provider="x"), row("a", provider="y")]}}))
    with pytest.raises(QueryRejected, match="2 providers"):
        read_case_file(path)


def test_csv_has_a_column_of_cases(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("case,run,accuracy\na,0,1\na,1,\n")
    assert read_case_file(path) == {"case": ["a", "a"], "run": ["0", "1"], "accuracy": ["1", None]}
    path.write_text("name,accuracy\na,1\n")
    with pytest.raises(QueryRejected, match="no column 'case'"):
        read_case_file(path)
    with pytest.raises(QueryRejected, match="JUnit"):
        read_case_file(tmp_path / "out.txt")
    assert issubclass(CaseRejected, QueryRejected)
