"""Files of results: what is an outcome of a run, which names tell tests apart, and what a broken file says."""

import io
import json
import os
import zipfile

import pyarrow as pa
import pytest
from pyarrow import parquet

from everhold.errors import CaseRejected, QueryRejected
from everhold.gates.files import Columns, read_case_file
from everhold_integrations import readers


def xml(inner="", attributes=""):
    return f'<testsuite name="s"><testcase classname="c" name="t" {attributes}>{inner}</testcase></testsuite>'


def prompt(*rows):
    return json.dumps({"results": {"results": [{"success": True, "vars": {"q": 1}, **row} for row in rows]}})


def read(folder, content, kind):
    path = folder / f"results{kind}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_case_file(path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (xml(attributes='status="notrun"'), "skipped"),
        (xml(attributes='status="run" result="skipped"'), "skipped"),
        (xml(attributes='result="suppressed"'), "skipped"),
        (xml(attributes='status="Disabled"'), "skipped"),
        (xml(attributes='status="something new"'), "skipped"),
        (xml(attributes='executed="False"'), "skipped"),
        (xml("<skipped/>"), "skipped"),
        (xml("<disabled/>"), "skipped"),
        (xml("<error/>"), "crashed"),
        (xml(attributes='status="error"'), "crashed"),
        (xml(attributes='status="timeout"'), "crashed"),
        (xml("<flakyFailure/>"), "retried"),
        (xml("<flakyError/>"), "retried"),
        (xml("<failure/><rerunFailure/>"), "retried"),
        (xml("<rerunError/>"), "retried"),
        (xml("<failure/>", 'status="passed"'), "retried"),
        (xml(attributes='retries="2"'), "retried"),
        (xml('<failure type="java.net.ConnectException"/>'), "crashed"),
        (xml('<failure message="requests.exceptions.ConnectionError: x"/>'), "crashed"),
        (xml("<failure message=\"Boom: x\">E Boom\ntests/test_a.py:3: Boom</failure>"), "crashed"),
        (xml('<failure message="test_a.Boom: x">test_a.py:3: in test_it\nE   test_a.Boom: x</failure>'), "crashed"),
        (xml('<failure message="test_a.test_it.&lt;locals&gt;.Boom: x"/>'), "crashed"),
        (xml('<failure message="ExceptionGroup: two (2 sub-exceptions)"/>'), "crashed"),
        (xml('<failure message="Timeout"/>'), "crashed"),
        (xml('<failure type="test abort with signal"/>'), "crashed"),
        (xml("<failure>Error: connect ECONNREFUSED</failure>"), "crashed"),
        (xml() [:-12] + "<testcase classname='c' name='t'/></testsuite>", "doubled"),
    ],
)  # fmt: skip
def test_a_junit_test_that_has_no_outcome_is_refused_by_name(tmp_path, content, fault):
    with pytest.raises(CaseRejected, match=r"1 case x \d runs?, 1 refused: case 's::c::t' \(line") as found:
        read(tmp_path, content, ".xml")
    assert (found.value.data["fault"], found.value.data["case"]) == (fault, "s::c::t")


@pytest.mark.parametrize(
    "failure",
    [
        "<failure/>",
        '<failure message="assert 1 == 2">tests/test_a.py:3: AssertionError</failure>',
        '<failure message="Failed: no">tests/test_a.py:3: Failed</failure>',
        '<failure type="org.opentest4j.AssertionFailedError" message="java.net.ConnectException expected"/>',
        '<failure type="Xunit.Sdk.EqualException" message="Assert.Equal() Failure"/>',
        '<failure type="RSpec::Expectations::ExpectationNotMetError"/>',
        '<failure message="a.cc:12&#10;Expected equality" type=""/>',
        "<failure>Error: expect(received).toBe(expected)</failure>",
        '<failure type="FAILURE" message="a.spec.ts:3:5 title"/>',
    ],
)
def test_a_failed_assertion_is_an_outcome_in_all_tools(tmp_path, failure):
    assert read(tmp_path, xml(failure, 'status="run" time="0.5"'), ".xml") == {
        "case": ["s::c::t"], "passed": [0], "duration": [0.5],
    }  # fmt: skip


def test_suite_class_and_name_tell_tests_apart_and_runs_have_numbers(tmp_path):
    names = [("A", "c", "t"), ("B", "c", "t"), ("B", "d", "t")]
    suites = "".join(
        f'<testsuite name="{suite}"><testcase classname="{cls}" name="{name}" time="1,024.5"/></testsuite>'
        for suite, cls, name in names
    )
    table = read(tmp_path, f"<testsuites>{suites}</testsuites>", ".xml")
    assert table["case"] == ["A::c::t", "B::c::t", "B::d::t"]
    assert table["duration"] == [1024.5] * 3
    number = '<properties><property name="run" value="{}"/></properties>'
    two = xml(number.format(1)).replace("</testsuite>", "") + xml(number.format(2)).partition(">")[2]
    assert read(tmp_path, two, ".xml")["run"] == ["1", "2"]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([{"response": {"cached": True}}], "copied"),
        ([{"cached": True}], "copied"),
        ([{"tokenUsage": {"cached": 12}}], "copied"),
        ([{"response": {"tokenUsage": {"cached": 12}}}], "copied"),
        ([{"id": "r1"}, {"id": "r1", "latencyMs": 5}], "doubled"),
        ([{"testIdx": 1, "id": "a"}, {"testIdx": 1, "id": "b"}], "doubled"),
        ([{"latencyMs": 5}, {"latencyMs": 5}], "doubled"),
        ([{"testCase": {"assert": 1}}, {"testCase": {"assert": 2}}], "doubled"),
        ([{"failureReason": 2, "success": False}], "crashed"),
        ([{"error": "429"}], "crashed"),
        ([{"success": False, "response": {"error": "429"}}], "crashed"),
        ([{"success": "false"}], "broken"),
        ([{"success": True, "gradingResult": {"pass": False}}], "broken"),
    ],
)
def test_a_promptfoo_row_that_is_no_run_of_its_own_is_refused(tmp_path, rows, fault):
    with pytest.raises(CaseRejected) as found:
        read(tmp_path, prompt(*rows), ".json")
    assert found.value.data["fault"] == fault


def test_promptfoo_repeats_are_runs_and_tests_with_one_description_are_cases(tmp_path):
    rows = [
        {"testIdx": 0, "latencyMs": 500}, {"testIdx": 1, "success": False, "failureReason": 1, "error": "not equal"},
        {"testIdx": 2, "vars": {"q": 2}},
    ]  # fmt: skip
    table = read(tmp_path, prompt(*({**row, "testCase": {"description": "refund"}} for row in rows)), ".json")
    assert table["case"] == ['refund {"q": 1}', 'refund {"q": 1}', 'refund {"q": 2}']
    assert (table["run"], table["passed"]) == ([1, 2, 1], [1, 0, 1])
    assert table["latency"] == [0.5, None, None]


PROPERTY = '<properties><property name="{}" value="1"/></properties>'
JUDGED = {"metricsData": [{"name": "cost", "score": 1}], "name": "a", "success": True}


@pytest.mark.parametrize(
    ("content", "kind", "columns"),
    [
        (xml(PROPERTY.format("case")), ".xml", Columns()),
        (xml(PROPERTY.format("passed")), ".xml", Columns()),
        (prompt({"namedScores": {"passed": 0.0}}), ".json", Columns()),
        (prompt({"namedScores": {"run": 1.0}}), ".json", Columns()),
        (json.dumps({"testCases": [JUDGED]}), ".json", Columns()),
        (json.dumps({"doc_id": 1, "metrics": ["case"], "case": 1}), ".jsonl", Columns()),
        ("test,case\na,b\n", ".csv", Columns(case="test")),
        ("case,passed,verdict\na,1,no\n", ".csv", Columns(passed="verdict")),
    ],
)
def test_a_name_of_a_metric_is_no_other_metric_and_no_id(tmp_path, content, kind, columns):
    path = tmp_path / f"results{kind}"
    path.write_text(content)
    with pytest.raises(CaseRejected, match="uses the name of a metric twice"):
        read_case_file(path, columns=columns)


def table_of(folder, columns):
    parquet.write_table(pa.table(list(columns.values()), names=list(columns)), folder / "small.parquet")
    return (folder / "small.parquet").read_bytes()


def test_a_small_file_does_not_become_a_large_table(tmp_path, monkeypatch):
    names = "".join(f"<testcase name='{n}'>{PROPERTY.format(n)}</testcase>" for n in range(250))
    with pytest.raises(QueryRejected, match="more than 250,000 runs, 200 metrics"):
        read(tmp_path, f"<testsuite>{names}</testsuite>", ".xml")
    with pytest.raises(QueryRejected, match="names of the tests are too long"):
        read(tmp_path, f"<testsuite name='{'s' * 2**20}'>" + "<testcase name='a'/>" * 100 + "</testsuite>", ".xml")
    for kind in (".json", ".jsonl"):
        with pytest.raises(QueryRejected, match="objects and lists"):
            read(tmp_path, "[]\n" * 2_500_001, kind)
    with pytest.raises(QueryRejected, match="not well-formed JSONL"):
        read(tmp_path, json.dumps({"doc_id": 1, "filter": "f" * 10_000, "metrics": ["a"], "a": 1}), ".jsonl")
    text = pa.array(["y" * 10_000] * 1_000)  # Parquet writes it once
    rows = {"case": [*range(1_000)], "note": text, "bytes": [b"x"] * 1_000, "list": [[1]] * 1_000}
    table = read(tmp_path, table_of(tmp_path, rows), ".parquet")
    assert list(table) == ["case", "note"]
    assert table["note"][0] is table["note"][999]
    parquet.write_table(pa.table([["a"], ["b"]], names=["case", "case"]), tmp_path / "twice.parquet")
    with pytest.raises(QueryRejected, match="column 'case' twice"):
        read_case_file(tmp_path / "twice.parquet")
    monkeypatch.setattr(readers, "_MOST_UNPACKED", 1_000)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", " " * 1_001)
    for content, kind in ((packed.getvalue(), ".eval"), (table_of(tmp_path, rows), ".parquet")):
        with pytest.raises(QueryRejected, match="unpacks to"):
            read(tmp_path, content, kind)


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        ("case;passed\na;1\n", ".csv", "separates values by ';'"),
        ("", ".csv", "The CSV file is empty"),
        ("case,passed,passed\na,1,0\n", ".csv", "column 'passed' twice"),
        ("case,passed\na,1,0\n", ".csv", "Line 2 of the CSV file has 3 values for 2 columns"),
        ("case,a,b\nx,1\n", ".csv", "has 2 values for 3 columns"),
        ("case,passed\n,1\n", ".csv", "Line 2 of the file has no value in the column 'case'"),
        ("case,run,passed\na,,1\n", ".csv", "has no value in the column 'run'"),
        ("case,passed\na,1\na,1\n", ".csv", "case 'a' \\(line 3\\) is there twice, also at line 2"),
        ("case,run,passed\na,1,1\na,1,0\n", ".csv", "is there twice, run '1' also at line 2"),
        ("case,passed,cached\na,1,true\n", ".csv", "is a copy from a cache"),
        ("case,passed,status\na,1,skipped\n", ".csv", "did not run"),
        ("name,passed\na,1\n", ".csv", "no column 'case'"),
        ("case,passed\na,1\n".encode("utf-16"), ".csv", "not encoded in UTF-8"),
        ("case," + ",".join(map(str, range(5000))) + "\n", ".csv", "5,001 columns"),
        ("case,a\n" + "x,1\n" * 250_001, ".csv", "more than 250,000 runs"),
        ("<testsuite><failure/><testcase name='a'/></testsuite>", ".xml", "error outside of its cases"),
        ('<?xml version="1.0" encoding="rot13"?><a/>', ".xml", "not well-formed XML"),
        ("<testsuite><testcase/></testsuite>", ".xml", "Line 1 of the file names no test"),
        (prompt({"testCase": {"description": {}}}), ".json", "description of test 1"),
        ('{"results":' * 200_000, ".json", "not well-formed JSON"),
        ('{"results": [{"success": false, "success": true}]}', ".json", "'success' twice"),
        ('{"results": [{"success": true, "score": NaN}]}', ".json", "the value NaN"),
        (prompt({"provider": "x"}, {"provider": "y"}), ".json", "2 providers"),
        ("", ".txt", "JUnit"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(tmp_path, content, kind, said):
    with pytest.raises(QueryRejected, match=said):
        read(tmp_path, content, kind)


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "r.csv")
    with pytest.raises(QueryRejected, match="no regular file"):
        read_case_file(tmp_path / "r.csv")
