"""`everhold suite` and `everhold challenge`: files, exit codes, and what a stranger's file cannot do."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from everhold.cli.application import app


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
    assert "read 40 cases x 1 run" in kept.stderr
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
        ("<testsuite><testcase name='x'><skipped/></testcase></testsuite>", "did not run"),
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


def test_a_crashed_run_is_reported_anew_and_a_verdict_is_stored_once(storage, tmp_path):
    named = ("--storage", storage, "--challenger", "commit")
    good = junit(tmp_path / "good.xml", 40)
    outage = tmp_path / "outage.xml"
    outage.write_text(
        (tmp_path / "first.xml").read_text().replace("<failure/>", '<failure message="ConnectionError: x"/>')
    )
    crashed = call("challenge", outage, *named)
    assert crashed.exit_code == 2
    assert "its failure is 'ConnectionError' and no assertion" in crashed.stderr
    assert call("challenge", good, *named).exit_code == 0
    summary = tmp_path / "summary.md"
    other = call("challenge", tmp_path / "first.xml", *named)
    assert (other.exit_code, "about other results than these" in other.stderr) == (2, True)
    again = call("challenge", good, *named, "--summary", summary)
    assert again.exit_code == 0
    assert "stored verdict of commit: promoted" in again.stdout
    assert "stored verdict of commit" in summary.read_text()


def test_runs_without_a_result_count_as_the_suite_says_and_verdicts_name_it(tmp_path):
    outage = tmp_path / "outage.xml"
    outage.write_text(Path(junit(tmp_path / "a.xml", 10)).read_text().replace("<failure/>", "<error/>"))
    for missing, said in (("worst", "no result counts as the worst"), ("drop-case", "left out where both")):
        place = ("--storage", f"{tmp_path}/{missing}.db")
        assert call("suite", outage, "--missing", missing, *place).exit_code == 0
        told = call("check", outage, "--margin", "0.25", *place)
        assert (told.exit_code, said in told.stdout) == (0 if missing == "worst" else 4, missing == "worst")
        promoted = call("challenge", junit(tmp_path / "b.xml", 40), *place)
        assert (promoted.exit_code, said in promoted.stdout) == (0, True)
        skipped = tmp_path / "skipped.xml"
        skipped.write_text(outage.read_text().replace("<error/>", "<skipped/>"))
        assert call("challenge", skipped, *place).exit_code == 2
        certificate = json.loads(
            call("certificate", "show", f"{tmp_path}/{missing}.db", "suite", "--format", "json").stdout
        )
        assert said in json.dumps(certificate)
    assert call("suite", outage, "--storage", f"{tmp_path}/refused.db").exit_code == 5
    assert call("suite", outage, "--missing", "drop", "--storage", f"{tmp_path}/refused.db").exit_code == 5


def test_a_value_beyond_its_range_is_refused_at_sealing_and_at_a_challenge(tmp_path):
    place = ("--storage", f"{tmp_path}/suite.db")
    first, slow = junit(tmp_path / "a.xml", 10), tmp_path / "b.xml"
    slow.write_text((tmp_path / "a.xml").read_text().replace('time="0.1"', 'time="60"', 1))
    terms = ("--not-worse", "duration=2", "--range", "duration=0:5")
    refused = call("suite", slow, *terms, *place)
    assert refused.exit_code == 5
    assert "duration 60, outside the range 0 to 5" in refused.stderr
    assert call("suite", first, *terms, *place).exit_code == 0
    assert call("challenge", slow, *place).exit_code == 2


def test_a_guard_that_an_equal_version_cannot_meet_is_named_when_it_is_sealed(tmp_path):
    first = junit(tmp_path / "a.xml", 10)
    for name, slack, warned in (("a", 0.1, True), ("b", 2, False)):
        told = call("suite", first, "--not-worse", f"duration={slack}", "--range", "duration=0:5", "--storage",
                    f"{tmp_path}/{name}.db")  # fmt: skip
        assert told.exit_code == 0
        assert ("units cannot prove even of a version that is equal" in told.stderr) == warned


def test_tables_need_no_extra_and_other_files_name_theirs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "everhold_integrations.readers", None)  # as where it is not installed
    storage, table = tmp_path / "s.db", tmp_path / "first.csv"
    table.write_text("case,passed\n" + "".join(f"t{number},{number % 2}\n" for number in range(40)))
    assert call("suite", table, "--storage", storage).exit_code == 0
    assert call("challenge", table, "--storage", storage).exit_code == 1
    (tmp_path / "b.json").write_text("{}")
    for file in (junit(tmp_path / "a.xml", 10), tmp_path / "b.json"):
        told = call("challenge", file, "--storage", storage)
        assert (told.exit_code, "pip install 'everhold[integrations]'" in told.stderr) == (2, True)
