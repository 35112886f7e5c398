"""Every failure: its exit code, one line on stderr, nothing on stdout, nothing charged, nothing leaked."""

import json
import sys
from importlib.metadata import metadata

import pytest
from cli_samples import SECRET

from everhold.cli.failures import EXTRAS
from everhold.errors import AuthError, DependenceError
from everhold.holdout import Holdout

ASK = ["ask", "s.db", "flights"]
CREATE = ["create", "s.db", "new", "--holdout"]

FAILURES = [
    (2, ["flights"], "There is no command"),
    (2, [*ASK], "the options have none"),
    (2, [*ASK, "--mean", "late", "--brier", "p.csv"], "the options have --mean and --brier"),
    (2, [*ASK, "--error", "p.csv", "--low", "1"], "--low is only for --mean"),
    (2, [*ASK, "--mean", "late = 1", "--training-predictions", "p.csv"], "--training-predictions is only for"),
    (2, ["quote", "s.db", "flights", "--column", "late"], "--column is only for"),
    (5, [*ASK, "--mean", "delay", "--given", "late = 1", "--low", "0"], "Pass both ends of the range"),
    (2, [*ASK, "--ratio", "late = 1"], "--ratio needs --given"),
    (2, [*ASK, "--difference", "--mean", "late = 1"], "needs two queries, and 1 are given"),
    (2, [*ASK, "--covariance", "late = 1"], "Pass it as --with EXPR"),
    (2, [*ASK, "--variance", "late = 1", "--with", "id > 1"], "--covariance and --correlation"),
    (5, [*ASK, "--variance", "delay"], "Pass low and high"),
    (5, [*ASK, "--variance", "late = 1", "--guess", "0.2"], "one guess does not fit"),
    (2, [*ASK, "--mean", "late", "--low", "much"], "--low"),
    (2, [*ASK, "--mean"], "--mean"),
    (2, ["ask", "flights", "--mean", "late = 1"], "EVERHOLD_STORAGE"),
    (2, ["ask", "s.db", "flights", "late = 1"], "number as --mean 'arr_delay > 15'"),
    (2, ["list"], "EVERHOLD_STORAGE"),
    (2, ["status", "s.db", "flights", "--format", "yaml"], "'--format': 'yaml' is not one of 'table'"),
    (2, ["status", "postgresql://host/db", "flights"], "does not say in which folder"),
    (2, ["list", "sqlite://"], "needs a file"),
    (2, ["create", "s.db", "new"], "--holdout"),
    (2, [*CREATE, "sealed.csv", "--queries", "0"], "at least 1"),
    (2, [*CREATE, "sealed.csv", "--features", "private"], "'--features': 'private' is not one of 'sealed', 'public'"),
    (2, [*CREATE, "sealed.csv", "--confidence", "1"], "between 0 and 1"),
    (2, [*CREATE, "sealed.csv", "--mechanism", "magic"], "Name one of"),
    (2, ["certificate", "show", "s.db", "flights", "--output", "a.pdf"], ".json or .html"),
    (2, ["certificate", "verify", "none.json"], "Check the path"),
    (2, ["ledger", "verify", "s.db", "flights", "--certificate", "none.json"], "Check the path"),
    (3, [*CREATE, "none.csv"], "Check the path"),
    (3, [*CREATE, "empty.csv"], "empty"),
    (3, [*CREATE, "sealed.csv", "--label", "latte"], "Did you mean 'late'?"),
    (3, [*CREATE, "sealed.csv", "--training", "sealed_predictions.csv"], "different columns"),
    (3, [*CREATE, "sealed.csv", "--training", "sealed.csv", "--row-id", "id"], "row ids"),
    (3, ["create", "s.db", "flights", "--holdout", "sealed.csv"], "A holdout named 'flights' exists"),
    *((3, ["create", "s.db", name, "--holdout", "sealed.csv"], "cannot be used")
      for name in ("../up", "a/b", "/root", "..", "a\\b", "a\nb", "", "x" * 65, "a\u202eb")),
    (4, ["status", "none.db", "flights"], "no ledger"),
    (4, ["list", "none.db"], "no ledger"),
    *((4, ["status", "s.db", name], "no holdout named") for name in ("trains", "../flights", "a/b", "")),
    (4, ["ledger", "verify", "s.db", "trains"], "no holdout named"),
    (5, [*ASK, "--mean", "dely > 15"], "Did you mean 'delay'"),
    (5, [*ASK, "--mean", "delay"], "Pass low and high"),
    (5, [*ASK, "--mean", "delay", "--low", "nan", "--high", "1"], "Nothing was charged."),
    (5, [*ASK, "--mean", "late = 1", "--guess", "nan"], "the range of the query"),
    (5, [*ASK, "--mean", "delay > 1", "--given", "delay"], "it has to say which rows count"),
    (5, [*ASK, "--accuracy", "sealed_predictions.csv"], "needs a guess"),
    (5, [*ASK, "--accuracy", "none.csv"], "heck the path"),
    (5, [*ASK, "--accuracy", "sealed.csv"], "or name it with --column"),
    (5, [*ASK, "--accuracy", "sealed.csv", "--column", "x"], "Name one of"),
    (5, [*ASK, "--accuracy", "s.db"], "Pass a .csv, .tsv or .parquet file"),
    (5, [*ASK, "--accuracy", "broken.parquet"], "cannot be read"),
    (5, [*ASK, "--accuracy", "gaps.csv"], "no 'id'"),
    (5, [*ASK, "--accuracy", "short.csv"], "no 'id'"),
    (5, [*ASK, "--brier", "sealed.csv", "--column", "delay", "--guess", "0.5"], "probabilities"),
    (7, ["list", "sealed.csv"], "not a ledger"),
]  # fmt: skip


@pytest.fixture
def files(study):
    (study / "empty.csv").write_text("id,delay\n")
    (study / "broken.parquet").write_text("not a parquet file")
    (study / "gaps.csv").write_text("late\n1\n\n0\n")
    (study / "short.csv").write_text("late\n1\n0\n")
    return study


@pytest.mark.parametrize(("code", "command", "message"), FAILURES, ids=lambda value: str(value)[:60])
def test_a_failure_is_one_line_and_an_exit_code(files, everhold, code, command, message):
    failed = everhold(*command, code=code)
    assert failed.stdout == ""
    assert failed.stderr.startswith("error: ")
    assert message in failed.stderr
    assert failed.stderr.count("\n") == 1


@pytest.mark.parametrize("spelling", [["--format", "json"], ["--format=json"]])
def test_errors_are_json_where_results_are(study, everhold, spelling):
    failed = everhold(*ASK, "--mean", "dely > 15", *spelling, code=5)
    assert failed.stdout == ""
    error = json.loads(failed.stderr)
    assert error["error"] == "QueryRejected"
    assert error["message"].endswith("Nothing was charged.")
    assert json.loads(everhold("ask", "s.db", *spelling, code=2).stderr)["error"] == "UsageError"
    assert json.loads(everhold("status", "s.db", "x", *spelling, code=4).stderr)["names"] == ["flights"]


HOSTILE = [
    "select carrier from sealed", "(select max(carrier) from sealed) = 'UA'", "exists (select 1)",
    "late = 1; drop table holdouts", "late = 1 -- comment", "late = 1 /* hint */", "late = 1 union select 1",
    "read_csv('sealed.csv')", "read_text('/etc/passwd') is null", "glob('*') = 'x'", "getenv('HOME') = 'x'",
    "sum(delay) > 1", "max(carrier) = 'UA'", "row_number() over () = 1", "count(*) > 1",
    "string_agg(carrier, ',') = 'x'",
    "carrier::int = 1", "cast(carrier as integer) = 1", "try_cast(carrier as integer) is null", "error(carrier)",
    "carrier like 'Z%a%b%'", "regexp_matches(carrier, 'Z')", "carrier || 'x' = 'ZAx'", "substr(carrier, 1, 1) = 'Z'",
    "sleep(10) = 1", "pg_read_file('x')", "file_row_number = 0", "carrier", "\u0441arrier = 'UA'", "late = 1\0",
    "'open", "(" * 500 + "late" + ")" * 500, "not " * 500 + "late = 1", "late = 1" + " or late = 1" * 3000, "$1 = 1",
    "?", "{carrier}", "../../etc/passwd", "\ud800 = 1", "1e400 > delay", "",
]  # fmt: skip


def test_hostile_expressions_are_refused_and_cost_nothing(study, everhold):
    for expression in HOSTILE:
        failed = everhold(*ASK, "--mean", expression, code=5)
        assert failed.stdout == ""
        assert "othing was charged" in failed.stderr
        assert len(failed.stderr) < 400
        assert "root:" not in failed.stderr
    with Holdout.open("s.db", "flights") as holdout:
        assert (holdout.status()["queries_asked"], holdout.status()["charged"]) == (0, 0)


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("kind", [RuntimeError, ValueError, KeyError, ZeroDivisionError, MemoryError, RecursionError])
def test_an_unexpected_fault_says_nothing_about_rows(study, everhold, monkeypatch, kind, form):
    def fail(*_, **__):
        raise kind(f"row 17 holds {SECRET}")

    monkeypatch.setattr(Holdout, "ask", fail)
    failed = everhold(*ASK, "--mean", "late = 1", "--format", form, code=1)
    assert failed.stdout == ""
    assert "it could quote sealed rows" in failed.stderr


@pytest.mark.parametrize("error", [AuthError("the key is missing"), DependenceError("the groups do not fit")])
def test_the_other_errors_have_their_codes(study, everhold, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(Holdout, "status", fail)
    assert error.message in everhold("status", "s.db", "flights", code=error.exit_code).stderr


def test_interrupting_has_the_usual_code(study, everhold, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Holdout, "status", interrupt)
    everhold("status", "s.db", "flights", code=130)


@pytest.mark.parametrize(
    ("module", "install"),
    [
        ("duckdb", "everhold"),
        ("sklearn.metrics", "everhold[sklearn]"),
        *((name, f"everhold[{extra}]") for name, extra in EXTRAS.items()),
    ],
)
def test_a_missing_package_is_named_with_its_extra(study, everhold, monkeypatch, module, install):
    def fail(*_, **__):
        raise ModuleNotFoundError("no module", name=module)

    monkeypatch.setattr(Holdout, "status", fail)
    assert f"pip install '{install}'" in everhold("status", "s.db", "flights", code=1).stderr


def test_the_extras_that_are_named_exist():
    assert set(EXTRAS.values()) <= set(metadata("everhold").get_all("Provides-Extra"))


def test_a_chart_without_altair_names_its_extra(everhold, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    failed = everhold("plan", "--rows", "2000", "--queries", "9", "--chart", "p.svg", code=1)
    assert "needs the package altair. Install it: pip install 'everhold[plots]'" in failed.stderr


def test_a_file_that_cannot_be_written(study, everhold):
    failed = everhold("certificate", "save", "s.db", "flights", "--output", "none/c.json", code=1)
    assert "Check its path and permissions" in failed.stderr


def test_warnings_are_one_line_each_on_stderr(study, everhold):
    (study / "few.csv").write_text("late\n" + "1\n0\n" * 20)
    created = everhold(
        "create", "s.db", "few", "--holdout", "few.csv", "--mechanism", "gaussian", "--format", "json",
        "--allow-vacuous",
    )  # fmt: skip
    assert json.loads(created.stdout)["rows"] == 40
    lines = created.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("warning: ") for line in lines)
