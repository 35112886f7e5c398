"""Plugin of pytest: tests with the marker `sealed` are the cases of a gate.

Without one of the options the plugin does nothing. With ``--everhold-gate NAME`` the session ends with the verdict as
its exit code: 0 promoted, 1 kept, 2 an error, 3 the budget is spent. A sealed test that fails is a result and no error.
Numbers of `record_property` are metrics beside ``passed`` and ``duration`` (seconds).

Only a test that passes, or fails by an assertion or by ``pytest.fail``, has an outcome. Any other exception is a crash:
the session ends with an error that names the test, and the same version can be reported anew. So it is for tests that
were skipped, expected to fail, or ran again.

The results become those of the champion, which makers of challengers must not know. So the session shows no outcome of
a sealed test: each looks sealed, without its output, unless ``--everhold-show`` is given.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from everhold.gates.cases.files import CaseRun
    from everhold.gates.challenge import Verdict

_MARKER, _RUN = "sealed", "everhold_run"
_PROMOTED, _KEPT, _FAULT, _SPENT = 0, 1, 2, 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("everhold", "gates about sealed cases")
    group.addoption("--everhold-gate", metavar="NAME", help="Challenge this gate with the results of the sealed tests.")
    group.addoption(
        "--everhold-seal",
        metavar="NAME",
        help="Seal the sealed tests with these results, and open a gate of this name.",
    )
    group.addoption(
        "--everhold-add",
        metavar="NAME",
        help="Add the sealed tests that the suite does not have, with these results of the champion of this gate.",
    )
    group.addoption("--everhold-storage", metavar="URL", help="Storage. EVERHOLD_STORAGE replaces it.")
    group.addoption("--everhold-holdout", metavar="NAME", default="suite", help="Holdout of the cases (suite).")
    group.addoption("--everhold-challenger", metavar="NAME", help="Name of this version, such as its commit.")
    group.addoption("--everhold-runs", metavar="N", type=int, default=1, help="Runs of each sealed test (1).")
    group.addoption("--everhold-better", metavar="METRIC", default="passed", help="Metric to improve (passed).")
    group.addoption("--everhold-units", default="runs", choices=["runs", "cases"], help="Population (runs).")
    group.addoption(
        "--everhold-missing", metavar="POLICY", default="refuse", choices=["refuse", "worst", "drop-case"],
        help="With --everhold-seal: what becomes of sealed tests that crash (refuse).",
    )  # fmt: skip
    group.addoption("--everhold-challenges", metavar="N", type=int, default=200, help="Planned challenges (200).")
    group.addoption(
        "--everhold-show", action="store_true",
        help="Show outcomes of sealed tests: for tests that always have the same one, or rows that are no secret.",
    )  # fmt: skip
    group.addoption("--everhold-summary", metavar="FILE", help="Append the verdict in Markdown to this file.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the collector of results if an option asks for it."""
    config.addinivalue_line("markers", "sealed(case=None): the test is a case of a suite that everhold has sealed.")
    requested = [f"--everhold-{name}" for name in ("gate", "seal", "add") if config.getoption(f"--everhold-{name}")]
    if len(requested) > 1:
        raise pytest.UsageError(
            f"{requested[0]} and {requested[1]} exclude each other. Seal once, challenge afterwards."
        )
    shown = {
        "--pdb": config.getoption("usepdb", False), "--trace": config.getoption("trace", False),
        "-s": config.getoption("capture", "fd") in ("no", "tee-sys"),
        "log_cli": config.pluginmanager.hasplugin("logging")
        and (config.getini("log_cli") or config.getoption("log_cli_level", None)),
    }  # fmt: skip
    if requested and not config.getoption("--everhold-show") and any(shown.values()):
        option = next(name for name, value in shown.items() if value)
        raise pytest.UsageError(
            f"{option} shows what becomes of sealed tests. Leave it out, or pass --everhold-show if that is no secret."
        )
    if requested:
        config.pluginmanager.register(SealedCases(config), "everhold-cases")


class SealedCases:
    """Collects the results of sealed tests, and seals or challenges with them at the end of the session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._runs: dict[tuple[str, str, int], CaseRun] = {}
        self._others_failed = False
        self._said = ""

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Check that the storage can be used, before any test runs."""
        if hasattr(session.config, "workerinput"):
            return
        from everhold.errors import EverholdError

        try:
            self._check_storage()
        except (EverholdError, OSError, ValueError) as fault:
            self._said = f"error: {fault}"
            pytest.exit(f"everhold: {fault}", returncode=_FAULT)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Repeat sealed tests as often as requested."""
        runs = int(self._config.getoption("--everhold-runs"))
        if runs > 1 and metafunc.definition.get_closest_marker(_MARKER):
            metafunc.fixturenames.append(_RUN)
            metafunc.parametrize(_RUN, range(runs), ids=[f"{_RUN}{run}" for run in range(runs)])

    def _place(self, item: pytest.Item, marker: pytest.Mark) -> tuple[str, int]:
        """Return the case and the run that a sealed test stands for.

        Its id begins at the folder where pytest was called; pytest's own begins at a folder that options may change.
        """
        call = getattr(item, "callspec", None)
        run = 0 if call is None else int(call.params.get(_RUN, 0))
        _, colons, inside = item.nodeid.partition("::")
        path = Path(os.path.relpath(item.path, self._config.invocation_params.dir)).as_posix()
        return str(marker.kwargs.get("case") or _case_of(f"{path}{colons}{inside}", run)), run

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """Record the outcome of a sealed test, and remove it from what is shown.

        What is noted travels with the report from workers, and not to JUnit.
        """
        result = yield
        marker = item.get_closest_marker(_MARKER)
        if marker is None:
            return
        report: pytest.TestReport = result.get_result()
        case, run = self._place(item, marker)
        metrics = {**dict(report.user_properties), "passed": int(report.passed), "duration": report.duration}
        vars(report)["sealed"] = [case, run, metrics, *_fault_of(report, call)]
        if not self._option("show"):
            call.excinfo = None if report.failed else call.excinfo  # which a debugger would enter
            report.outcome, report.longrepr = ("passed", None) if report.failed else (report.outcome, report.longrepr)
            report.sections, report.user_properties, report.duration = [], [], 0.0

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Show a sealed test as sealed, whatever its outcome."""
        if not hasattr(report, "sealed") or self._option("show") or not report.passed:
            return None
        return ("sealed", ".", "SEALED") if report.when == "call" else ("", "", "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the outcome of one phase of a test before others write the report."""
        from everhold.gates.cases.files import CaseRun

        if hasattr(self._config, "workerinput"):
            return
        if not hasattr(report, "sealed"):
            self._others_failed |= report.failed
            return
        case, run, metrics, fault, why = report.sealed
        vars(report)["sealed"] = True
        place = (report.nodeid, case, run)
        known = self._runs.get(place)
        if fault is None and report.outcome == "rerun":  # type: ignore[comparison-overlap]  # of another plugin
            fault, why = "retried", ""
        if known is not None and report.when == "call" and known.where == "call":
            fault, why = "retried", "it ran more than once in this session"
        if fault is not None:
            self._runs[place] = known if known and known.fault else CaseRun(case, report.nodeid, {}, run, fault, why)
        elif report.when == "call":
            self._runs[place] = known if known and known.fault else CaseRun(case, "call", metrics, run)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Seal the results or challenge with them, and set the exit code by the verdict."""
        if hasattr(session.config, "workerinput"):
            return
        if session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self._said = self._said or "error: The session did not run to its end, so its results were not used."
            return
        from everhold.errors import BudgetExhausted, EverholdError

        try:
            if session.shouldfail or session.shouldstop:
                raise ValueError("The session stopped early, so its results were not used. Run all sealed tests.")
            act = self._seal if self._option("seal") else self._add if self._option("add") else self._challenge
            session.exitstatus = act()
        except BudgetExhausted as fault:
            session.exitstatus, self._said = _SPENT, f"error: {fault}"
        except (EverholdError, OSError, ValueError) as fault:
            session.exitstatus, self._said = _FAULT, f"error: {fault}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the verdict."""
        terminalreporter.section("everhold")
        terminalreporter.write_line(self._said)

    def _check_storage(self) -> None:
        """Check the storage, and that its holdout exists, or does not where one will be sealed."""
        from everhold.errors import HoldoutNotFound
        from everhold.holdout import Holdout

        storage, name = self._storage(), self._option("holdout")
        path = Path(storage.removeprefix("sqlite:///"))
        if "://" not in str(path) and not path.parent.is_dir():
            raise ValueError(f"The folder {str(path.parent)!r} is not there. Make it, outside of the repository.")
        sealing = self._option("seal") is not None
        if sealing and not path.exists() and "://" not in str(path):
            return
        try:
            Holdout.open(storage, name).close()
        except HoldoutNotFound:
            if not sealing:
                raise
            return
        if sealing:
            raise ValueError(f"A holdout named {name!r} is sealed already. Challenge its gate, or seal another name.")

    def _seal(self) -> int:
        from everhold.gates.cases.results import counted
        from everhold.suites import seal_cases

        gate, missing = self._option("seal"), self._option("missing")
        results = self._table(missing)
        with seal_cases(
            self._storage(), self._option("holdout"), results=results, gate=gate, better=self._option("better"),
            units=self._option("units"), challenges=self._option("challenges"), missing=missing,
        ) as holdout:  # fmt: skip
            status = holdout.gate(name=gate).status()
        self._said = f"sealed: {counted(results)}\ngate {gate!r} is about {status['population']}"
        return _PROMOTED

    def _add(self) -> int:
        from everhold.holdout import Holdout
        from everhold.suites import add_cases

        with Holdout.open(self._storage(), self._option("holdout")) as holdout:
            missing = holdout.gate(name=self._option("add")).suite.missing
            arrived = add_cases(holdout, self._table(missing), gate=self._option("add"))
        self._said = f"added: {arrived.rows} cases to gate {self._option('add')!r}, {arrived.total} in all"
        return _PROMOTED

    def _challenge(self) -> int:
        from everhold.gates.cases.results import counted
        from everhold.gates.cases.summary import markdown_of
        from everhold.holdout import Holdout

        if self._others_failed:
            raise ValueError("A test that is not sealed failed, so the gate was not challenged. Nothing was charged.")
        with Holdout.open(self._storage(), self._option("holdout")) as holdout:
            gate: Any = holdout.gate(name=self._option("gate"))
            results = self._table(gate.suite.missing)
            verdict: Verdict = gate.challenge(results, challenger=self._option("challenger"))
            status = gate.status()
        self._said = f"read {counted(results)}\n{verdict}"
        if summary := self._option("summary"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(markdown_of(verdict, status))
        return _PROMOTED if verdict.promoted else _SPENT if verdict.refused else _KEPT

    def _table(self, missing: str) -> dict[str, list[Any]]:
        from everhold.gates.cases.files import outcomes

        if not self._runs:
            raise ValueError(f"No test has the marker {_MARKER!r}. Mark the cases of the suite.")
        return outcomes((replace(run, where=node) for (node, _, _), run in self._runs.items()), missing=missing)

    def _option(self, name: str) -> Any:
        return self._config.getoption(f"--everhold-{name}")

    def _storage(self) -> str:
        storage = self._option("storage") or os.environ.get("EVERHOLD_STORAGE")
        if not storage:
            raise ValueError("No storage is named. Pass --everhold-storage or set EVERHOLD_STORAGE.")
        return str(storage)


def _fault_of(report: pytest.TestReport, call: pytest.CallInfo[None]) -> tuple[str | None, str]:
    """Return why a phase of a test has no outcome, as a key of `everhold.gates.cases.files.REFUSED`, and a message."""
    if hasattr(report, "wasxfail") or (report.failed and call.excinfo is None):
        return "skipped", "it is expected to fail"
    if report.skipped:
        return "skipped", ""
    if report.passed or call.excinfo is None:
        return None, ""
    if report.when == "call" and isinstance(call.excinfo.value, (AssertionError, pytest.fail.Exception)):
        return None, ""
    return "crashed", f"{call.excinfo.typename} in its {report.when}"


def _case_of(node: str, run: int) -> str:
    """Return the id of a test without the number of its run.

    Examples:
        >>> _case_of("test_a.py::test_case[3-everhold_run1]", 1), _case_of("test_a.py::test_b[everhold_run0]", 0)
        ('test_a.py::test_case[3]', 'test_a.py::test_b')
    """
    mark = f"{_RUN}{run}"
    for part, whole in ((f"-{mark}]", "]"), (f"[{mark}-", "["), (f"-{mark}-", "-"), (f"[{mark}]", "")):
        if part in node:
            return node.replace(part, whole)
    return node
