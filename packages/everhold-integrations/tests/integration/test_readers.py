"""Files that tools wrote become runs of cases: `tests/support/results` has one of each, named by tool and version.

Surefire's and Gradle's are written by hand after their documentation, because neither can be installed here.
"""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import everhold as eh
from everhold.cli.application import app
from everhold.errors import CaseRejected, QueryRejected
from everhold.gates.files import Columns, groups_in, read_case_file

RESULTS = Path(__file__).parents[1] / "support" / "results"
PROMPTS = [
    {"testIdx": n, "promptIdx": 0, "vars": {"q": n}, "testCase": {"vars": {"q": n}}, "success": n != 1,
     "score": 1.0, "namedScores": {"tone": 0.5}, "latencyMs": 250}
    for n in range(3)
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "case", "metrics"),
    [
        ("pytest-9.2.xml", "pytest::test_cases::test_answer[1]", {"passed": [1, 0, 1], "score": [0.0, 0.25, 0.5]}),
        ("jest-30.5.xml", "sums::sums large", {"passed": [1, 0]}),
        ("googletest-1.12.xml", "Sums::Large", {"passed": [1, 0], "score": [1.0, 0.0]}),
        ("ctest-3.25.xml", "(empty)::large", {"passed": [1, 0]}),
        ("surefire.xml", "org.example.SumsTest::large", {"passed": [1, 0]}),
        ("gradle.xml", "org.example.SumsTest::large()", {"passed": [1, 0]}),
        ("deepeval-4.3.json", "refund 1 question 1", {"passed": [1, 0, 1], "Answer Relevancy": [0.9, 0.3, 0.9]}),
        ("samples_lm-eval-0.4.13.jsonl", 1, {"strict-match:exact_match": [1.0, 0.0, 1.0]}),
    ],
)
def test_what_a_tool_wrote_is_read(name, case, metrics):
    table = read_case_file(RESULTS / name)
    assert table["case"][1] == case
    assert {metric: table[metric] for metric in metrics} == metrics


def test_results_of_promptfoo_are_the_same_in_lines(tmp_path):
    whole, lines = tmp_path / "r.json", tmp_path / "r.jsonl"
    whole.write_text(json.dumps({"results": {"results": PROMPTS}}))
    lines.write_text("\n".join(map(json.dumps, PROMPTS)))
    assert read_case_file(lines) == read_case_file(whole)
    assert read_case_file(lines)["tone"] == [0.5] * 3


@pytest.mark.parametrize("form", ["eval", "json"])
def test_logs_of_inspect_are_read_with_their_epochs(tmp_path, form):
    from inspect_ai import Task
    from inspect_ai import eval as run
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match

    samples = [Sample(id=f"case-{n}", input="2 + 2?", target="4") for n in range(2)]
    task = Task(dataset=samples, scorer=match())
    output = ModelOutput.from_content("mockllm/model", "5")
    output.usage = ModelUsage(total_tokens=7)
    model = get_model("mockllm/model", custom_outputs=[output] * 99)
    (log,) = run(task, model=model, epochs=3, display="none", log_dir=str(tmp_path), log_format=form)
    table = read_case_file(Path(log.location.removeprefix("file://")))
    assert sorted(zip(table["case"], table["run"], strict=True)) == [
        (f"case-{n}", e) for n in range(2) for e in (1, 2, 3)
    ]
    assert set(table["match"]) == {0.0}


ROWS = {"test": ["a", "a", "b", "b"], "try": [1, 2, 1, 2], "verdict": ["pass", "FAIL", "yes", "no"], "doc": [*"xxyy"]}
NAMED = Columns(case="test", run="try", passed="verdict")


def written(folder, kind, rows):
    path = folder / f"results{kind}"
    if kind == ".parquet":
        parquet.write_table(pa.table(rows), path)
    else:
        lines = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
        told = (
            map(json.dumps, lines)
            if kind == ".jsonl"
            else [",".join(rows), *(",".join(map(str, each.values())) for each in lines)]
        )
        path.write_text("\n".join(told))
    return path


@pytest.mark.parametrize("kind", [".csv", ".jsonl", ".parquet"])
def test_a_table_may_have_any_column_names(tmp_path, kind):
    table = read_case_file(written(tmp_path, kind, ROWS), columns=NAMED)
    assert (table["case"], table["passed"]) == ([*"aabb"], [1, 0, 1, 0])
    assert groups_in(table, "doc") == {"a": "x", "b": "y"}
    with pytest.raises(QueryRejected, match=r"no column 'case', but 'test', 'try'.*--case"):
        read_case_file(written(tmp_path, kind, ROWS))
    with pytest.raises(
        CaseRejected, match=r"2 cases x 2 runs, 1 refused: case 'a' \((line|row) \d\).* its verdict is 'maybe'"
    ):
        read_case_file(written(tmp_path, kind, ROWS | {"verdict": ["pass", "maybe", "yes", "no"]}), columns=NAMED)
    with pytest.raises(CaseRejected, match="the groups 'x' and 'z'"):
        groups_in(read_case_file(written(tmp_path, kind, ROWS | {"doc": [*"xzyy"]}), columns=NAMED), "doc")


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("pytest-9.2.xml", "</testcase>", "</testcas>", "Line 1 of the file is not well-formed XML"),
        ("googletest-1.12.xml", 'name="Large" ', "", "Line 9 of the file names no test"),
        ("ctest-3.25.xml", 'status="fail"', 'status="notrun"', r"2 cases x 1 run, 1 refused: .*line 14\) did not run"),
        ("googletest-1.12.xml", 'name="score" value="1"', 'name="passed" value="1"', r"line 4\) uses .*'passed'"),
        ("deepeval-4.3.json", 'false, "metricsData"', 'null, "metricsData"', r"refused: .*test case 2\)"),
        ("deepeval-4.3.json", '"testCases"', '"cases"', "has no form that can be read.*promptfoo"),
        ("samples_lm-eval-0.4.13.jsonl", '"exact_match": 0.0', '"exact_match": [0, 1]', r"line 3\).*no number"),
        ("samples_lm-eval-0.4.13.jsonl", '{"doc_id": 1', '{"doc_id" 1', "Line 3 of the JSONL file is not well-formed"),
        ("samples_lm-eval-0.4.13.jsonl", '{"doc_id": 2', '{"doc_id": 1', r"line 5\) is there twice, also at line 3"),
    ],
)  # fmt: skip
def test_a_faulty_file_is_refused_with_its_place(tmp_path, name, old, new, said):
    whole = (RESULTS / name).read_text()
    assert old in whole
    path = tmp_path / name
    path.write_text(whole.replace(old, new, 1))
    with pytest.raises(QueryRejected, match=said):
        read_case_file(path)


def test_the_commands_take_columns_and_clusters(tmp_path):
    rows = {"test": [f"t{n}" for n in range(40)], "ok": ["yes", "no"] * 20, "doc": [n // 2 for n in range(40)]}
    store = str(tmp_path / "s.db")
    columns = ["--case", "test", "--passed", "ok", "--cluster", "doc"]
    said = CliRunner().invoke(app, ["suite", str(written(tmp_path, ".jsonl", rows)), *columns, "--storage", store])
    assert (said.exit_code, "40 cases x 1 run" in said.output) == (0, True), said.output
    with eh.Holdout.open(store, "suite") as suite:
        assert suite.status()["dependence"]["kind"] == "groups"
