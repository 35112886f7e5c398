"""The pytest plugin: sealed tests are cases, the verdict is the exit code, and errors charge nothing."""

import os
import re
import sys

import pytest
from prepared_processes import prepared_processes

import everhold as eh

SUITE = """
import os, pytest
@pytest.mark.sealed
@pytest.mark.parametrize("n", range(40))
def test_case(n, record_property):
    record_property("cost", 0.25)
    assert n < int(os.environ["RIGHT"])
def test_other():
    assert os.environ.get("OTHER", "fine") == "fine"
"""


PYTEST = ("-q", "-p", "everhold_integrations.pytest_plugin", "-p", "no:cacheprovider")


def run_session(folder, options, variables, output):
    """Run pytest in a folder as a command would, with its output in a file. For a process of its own."""
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv, sys.path = ["pytest", *options], ["", *sys.path]
    sys.exit(int(pytest.main([*options])))


@pytest.fixture
def session(tmp_path):
    """Runs pytest in a process and returns its exit code, with so many cases right."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other plugins take seconds to import

    def call(*options, right=10, other="fine"):
        given = [*PYTEST, "--everhold-storage=suite.db", *options]
        variables, output = {**alone, "RIGHT": str(right), "OTHER": other}, tmp_path.parent / "output.txt"
        child = prepared_processes.Process(target=run_session, args=(tmp_path, given, variables, output))
        child.start()
        child.join()
        call.output = output.read_text()
        return child.exitcode

    return call


def asked(folder):
    with eh.Holdout.open(f"{folder}/suite.db", "suite") as holdout:
        return holdout.status()["queries_asked"]


def test_seal_then_challenge(session, tmp_path):
    assert session("--everhold-seal=main") == 0
    assert session("--everhold-gate=main", right=11) == 1
    assert session("--everhold-gate=main", "--everhold-summary=s.md", right=40) == 0
    assert "### Gate main: promoted" in (tmp_path / "s.md").read_text()
    with eh.Holdout.open(f"{tmp_path}/suite.db", "suite") as holdout:
        ids = holdout.gate(name="main").suite.ids
    assert ids[0] == "test_suite.py::test_case[0]"


def test_a_crash_counts_as_the_worst_where_the_suite_says_so(session, tmp_path):
    crashing = SUITE.replace(
        "    assert n <", "    if n == 39 and os.environ['RIGHT'] == '10': raise OSError\n    assert n <"
    )
    (tmp_path / "test_suite.py").write_text(crashing)
    assert session("--everhold-seal=main", "--everhold-missing=worst") == 0, session.output
    assert session("--everhold-gate=main") == 1
    assert session("--everhold-gate=main", right=40) == 0
    assert "no result counts as the worst" in session.output


def test_no_outcome_of_a_sealed_test_is_shown(session, tmp_path):
    told = "    print('output')\n    __import__('warnings').warn('output')\n    assert n <"
    (tmp_path / "test_suite.py").write_text(SUITE.replace("    assert n <", told))
    assert session("--everhold-seal=main", "--junitxml=j.xml", "-rA", "-vv", "--durations=0", right=10) == 0
    assert "40 sealed" in session.output
    written = (tmp_path / "j.xml").read_text()
    shown = session.output + written
    assert "fail" not in shown.replace('failures="0"', "").lower()
    for trace in ("assert", "output", "cost"):
        assert trace not in shown
    assert set(re.findall(r'name="test_case[^>]*time="([^"]*)"', written)) == {"0.000"}
    (tmp_path / "suite.db").unlink()
    for option in ("--pdb", "-s", "-pno:capture", "--log-cli-level=INFO", "--log-file=log.txt", "--debug=debug.log"):
        assert session("--everhold-seal=main", option) == 2
        assert "shows which sealed tests pass" in session.output
    assert session("--everhold-seal=main", "--collect-only") == 2
    assert "No test with the marker 'sealed' ran" in session.output
    assert session("--everhold-seal=main") == 0
    assert session("--everhold-gate=main", "--everhold-show", right=11) == 1
    assert "FAILED test_suite.py::test_case[11]" in session.output


def test_a_report_of_a_sealed_test_tells_no_plugin_its_outcome_or_times(session, tmp_path):
    (tmp_path / "test_suite.py").write_text(
        SUITE.replace("    assert n <", "    if n % 2: pytest.xfail()\n    assert n <")
    )
    (tmp_path / "conftest.py").write_text(
        "def pytest_runtest_logreport(report):\n"
        "    told = {k: v for k, v in vars(report).items() if k not in ('_id', 'keywords', 'location', 'when')}\n"
        "    if hasattr(report, 'sealed'): open('told', 'a').write(f'{sorted(map(str, told.items()))}\\n')\n"
    )
    assert session("--everhold-seal=main", "-rA") == 2
    assert "20 refused" in session.output
    assert "XFAIL" not in session.output
    assert len(set((tmp_path / "told").read_text().splitlines())) == 1


def test_a_test_fails_if_one_of_its_subtests_does(session, tmp_path):
    part = "\n    for k in range(2):\n        with subtests.test(k=k):\n            print('output')\n            "
    suite = SUITE.replace("record_property):", "record_property, subtests):").replace(
        "\n    assert n", f"{part}assert n + k"
    )
    (tmp_path / "test_suite.py").write_text(
        suite.replace("assert n", "if k and n == 20: raise OSError\n            assert n")
    )
    assert session("--everhold-seal=main", right=10) == 2
    assert "1 refused: case 'test_suite.py::test_case[20]' (test_suite.py::test_case[20]) crashed" in session.output
    (tmp_path / "test_suite.py").write_text(suite)
    assert session("--everhold-seal=main", "-rA", "-overbosity_subtests=2", right=10) == 0, session.output
    assert "output" not in session.output
    with eh.Holdout.open(f"{tmp_path}/suite.db", "suite") as holdout:
        results = {f"test_suite.py::test_case[{n}]": {"passed": int(n < 11)} for n in range(40)}
        holdout.gate(name="main").challenge(results, challenger="two more")
        holdout.unseal()
        assert holdout.transcript().to_rows()[0]["sealed"] == pytest.approx(2 / 40)


def test_a_process_that_ended_leaves_no_case_out_in_silence(session, tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from pytest import TestReport\n"
        "def pytest_runtest_protocol(item):\n"
        "    if '[7]' in item.nodeid:  # as xdist does\n"
        "        ended = TestReport(item.nodeid, item.location, (), 'failed', 'worker crashed', '???')\n"
        "        item.ihook.pytest_runtest_logreport(report=ended)\n"
        "        return True\n"
    )
    assert session("--everhold-seal=main") == 2
    assert "A process ended while it ran test_suite.py::test_case[7]" in session.output
    assert not (tmp_path / "suite.db").exists()


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (("sealed\n", "sealed(cases='one')\n"), (), "other arguments than case"),
        (("def test_other", "import unittest\nclass TestAll(unittest.TestCase):\n"
          "    @pytest.mark.sealed\n    def test_it(self): pass\ndef test_other"),
         ("--everhold-runs=2",), "TestAll::test_it cannot be repeated"),
    ],
)  # fmt: skip
def test_what_a_marker_cannot_mean_is_an_error_before_the_first_test(session, tmp_path, change, options, said):
    (tmp_path / "test_suite.py").write_text(SUITE.replace(*change))
    assert session("--everhold-seal=main", *options) == 2
    assert said in session.output
    assert "40 sealed" not in session.output


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ConnectionError", "crashed, ConnectionError in its call"),
        ("pytest.skip()", "did not run"),
        ("pytest.xfail()", "did not run, it is expected to fail"),
        ("raise OSError  # once", "crashed"),
    ],
)
def test_a_test_without_an_outcome_is_an_error_and_the_same_version_can_be_reported_anew(session, tmp_path, body, said):
    session("--everhold-seal=main", right=10)
    challenge = ("--everhold-gate=main", "--everhold-challenger=commit")
    times = "" if "once" in body else "if n % 2: "
    (tmp_path / "test_suite.py").write_text(SUITE.replace("    assert n <", f"    {times}{body}\n    assert n <"))
    assert session(*challenge, right=40) == 2
    assert said in session.output
    assert asked(tmp_path) == 0
    (tmp_path / "test_suite.py").write_text(SUITE)
    assert session(*challenge, right=40) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("@pytest.mark.sealed", "@pytest.mark.sealed(case='one')"), "is there twice"),
        (("@pytest.mark.sealed", "@pytest.mark.sealed('one')"), "case 'one'"),
        (('record_property("cost"', 'record_property("case"'), "uses the name of a metric twice, 'case'"),
        (('record_property("cost"', 'record_property("passed"'), "uses the name of a metric twice, 'passed'"),
        (("@pytest.mark.sealed", "@pytest.mark.xfail(raises=ValueError)\n@pytest.mark.sealed"), "expected to fail"),
        (("@pytest.mark.sealed", "@pytest.fixture(autouse=True)\ndef up(): assert 0\n@pytest.mark.sealed"), "setup"),
        (("def test_other", "@pytest.fixture(autouse=True)\ndef up(): yield; assert 0\ndef test_other"), "teardown"),
    ],
)  # fmt: skip
def test_a_suite_whose_tests_have_no_outcome_is_not_sealed(session, tmp_path, change, said):
    (tmp_path / "test_suite.py").write_text(SUITE.replace(*change))
    assert session("--everhold-seal=main", right=50) == 2
    assert said in session.output
    assert not (tmp_path / "suite.db").exists()


def test_a_fault_of_the_storage_is_told_before_tests_run(session, tmp_path):
    for storage, option, said in (("no/s.db", "seal", "'no' does not exist"), ("s.db", "gate", "no ledger")):
        assert session(f"--everhold-storage={storage}", f"--everhold-{option}=main") == 2
        assert said in session.output
        assert "40 sealed" not in session.output
    session("--everhold-seal=main")
    assert session("--everhold-seal=main") == 2
    assert "sealed already" in session.output


def test_a_version_named_again_has_its_stored_verdict_on_the_same_results_alone(session):
    session("--everhold-seal=main")
    session("--everhold-gate=main", "--everhold-challenger=commit", right=10)
    assert session("--everhold-gate=main", "--everhold-challenger=commit", right=10) == 1
    assert "stored verdict of commit: kept" in session.output
    assert session("--everhold-gate=main", "--everhold-challenger=commit", right=40) == 2
    assert "'commit' has a verdict (kept), which is about other results" in session.output


def test_runs_are_repeated(session, tmp_path):
    assert session("--everhold-seal=main", "--everhold-runs=2") == 0
    with eh.Holdout.open(f"{tmp_path}/suite.db", "suite") as holdout:
        assert holdout.gate(name="main").suite.runs == 2
    assert session("--everhold-gate=main") == 2
    assert "Pass --everhold-runs=2" in session.output


def test_new_tests_are_added_with_the_results_of_the_champion(session, tmp_path):
    session("--everhold-seal=main")
    (tmp_path / "test_suite.py").write_text(SUITE.replace("range(40)", "range(50)"))
    assert session("--everhold-gate=main", right=50) == 2
    assert session("--everhold-add=main") == 0
    assert "added: 10 cases to gate 'main', 50 in all" in session.output
    assert session("--everhold-gate=main", right=50) == 0
    assert session("--everhold-add=main", "--everhold-gate=main") == 2


def test_a_check_tells_a_version_that_is_not_worse_from_a_regression(session, tmp_path):
    seal = ("--everhold-not-worse=cost=3", "--everhold-range=cost=0:10")
    assert session("--everhold-seal=main", *seal, right=38) == 0, session.output
    with eh.Holdout.open(f"{tmp_path}/suite.db", "suite") as holdout:
        assert holdout.gate(name="main").suite.not_worse == {"cost": 3.0}
        holdout.allot("requests", queries=5, charges=3)
    check = ("--everhold-check=main", "--everhold-analyst=requests", "--everhold-summary=s.md")
    for right, margin, code in ((38, 0.4, 0), (1, 0.4, 1), (38, 0.01, 4)):
        assert session(*check, f"--everhold-margin={margin}", right=right) == code, session.output
    assert "### Gate main: regression" in (tmp_path / "s.md").read_text()
    assert session(*check, "no_such_file.py") == 2  # pytest's own code for that is 4, undecided
    assert session(*check, other="broken") == 2
    assert (tmp_path / "s.md").read_text().endswith("Mend the test first.\n\nThere is no verdict.\n")


def test_a_wrong_option_ends_the_session_before_the_first_test(session, tmp_path):
    (tmp_path / "test_suite.py").write_text(f"open('started', 'a').close()\n{SUITE}")
    session("--everhold-seal=main")
    (tmp_path / "started").unlink()
    new = ("--everhold-seal=new", "--everhold-holdout=new")
    for options, said in (
        ((*new, "--everhold-range=cost=10"), "is not a range"),
        ((*new, "--everhold-not-worse=cost"), "is not a pair"),
        ((*new, "--everhold-not-worse=passed=0.1"), "also in better="),
        ((*new, "--everhold-open=1"), "share of cases"),
        ((*new, "--everhold-units=tests"), "Pass 'cases' or 'runs'"),
        ((*new, "--everhold-challenges=0"), "at least 1"),
        ((*new, "--everhold-runs=0"), "--everhold-runs is 0"),
        ((*new, "--everhold-challenger=commit"), "not for --everhold-seal"),
        (("--everhold-check=main", "--everhold-margin=1"), "The margin is 1.0"),
        (("--everhold-check=main", "--everhold-margin=abc"), "--everhold-margin is 'abc'. Pass a number."),
        (("--everhold-check=main", "--everhold-runs=1.5"), "--everhold-runs is '1.5'. Pass a whole number."),
        (("--everhold-gate=main", "--everhold-margin=0.1"), "not for --everhold-gate"),
        (("--everhold-gate=main", "--everhold-analyst=nobody"), "nobody"),
        (("--everhold-gate=main", "--everhold-summary=no/s.md"), "folder of the summary"),
        (("--everhold-gate=other", "--everhold-summary=s.md"), "no gate named 'other'"),
    ):
        assert session(*options) == 2, options
        assert said in session.output, (options, session.output)
        assert not (tmp_path / "started").exists(), options
    assert "no gate named" in (tmp_path / "s.md").read_text()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--everhold-gate=other"], {}),
        (["--everhold-gate=main", "-k", "not 3"], {}),
        (["--everhold-gate=main"], {"other": "broken"}),
    ],
)
def test_an_error_has_the_code_2_and_charges_nothing(session, tmp_path, options, wanted):
    session("--everhold-seal=main")
    assert session(*options, **wanted) == 2
    assert asked(tmp_path) == 0


def test_without_an_option_it_does_nothing(session):
    assert session() == 1
