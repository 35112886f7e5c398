"""Plugin of pytest: tests with the marker `sealed` are the cases of a gate.

Without one of the options the plugin does nothing. With ``--everhold-check NAME`` the session ends with the verdict as
its exit code: 0 not worse than the baseline, 1 a regression, 4 undecided; with ``--everhold-gate NAME``, 0 promoted and
1 kept. 2 is an error. 3 is a refusal: the budget is spent, or no results could prove the challenge. A sealed test that
fails is a result and no error. A test with subtests passes if all of them do. Numbers of `record_property` are metrics
beside ``passed`` and ``duration`` (seconds).

Only a test that passes, or fails by an assertion or by ``pytest.fail``, has an outcome. Any other exception is a crash:
the session ends with an error that names the test, and the same version can be reported again. The same holds for tests
that were skipped, expected to fail, or ran again.

People who make challengers must not know the results, because these may become the champion's. So the session shows no
outcome, no output and no warning of a sealed test, unless ``--everhold-show`` is given.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from everhold.gates.challenge import Verdict
    from everhold.gates.checks import CheckVerdict
    from everhold.gates.files import CaseRun
    from everhold.holdout import Holdout

_MARKER, _RUN = "sealed", "everhold_run"
_DONE, _FAULT, _SPENT = 0, 2, 3
_CODES = {"promoted": 0, "not worse": 0, "kept": 1, "regression": 1, "refused": _SPENT, "undecided": 4}

_ACTS = {
    "gate": "Challenge this gate with the results of the sealed tests.",
    "check": "Check the results of the sealed tests against the baseline of this gate.",
    "seal": "Seal the sealed tests with these results, and open a gate of this name.",
    "add": "Add the sealed tests that the suite does not have, with these results of the champion of this gate.",
}
_OPTIONS: dict[str, tuple[tuple[str, ...], str, str, dict[str, Any]]] = {
    "storage": ((), "URL", "Storage. EVERHOLD_STORAGE replaces it.", {}),
    "holdout": ((), "NAME", "Holdout of the cases (suite).", {"default": "suite"}),
    "runs": ((), "N", "Runs of each sealed test (1).", {"type": int, "default": 1}),
    "challenger": (("gate", "check"), "NAME", "Name of this version, such as its commit.", {}),
    "analyst": (("gate", "check"), "NAME", "Analyst whose allotment pays for the verdict.", {}),
    "margin": (
        ("check", "seal"), "NUMBER", "May be worse than the baseline by so much; when sealing, a challenger has to be "
        "better by more (0).", {"type": float},
    ),
    "better": (("seal",), "METRIC", "Metric to improve (passed).", {}),
    "not-worse": (("seal",), "METRIC=SLACK", "A guard: at most so much worse than now.", {"action": "append"}),
    "at-most": (("seal",), "METRIC=NUMBER", "A guard against a number.", {"action": "append"}),
    "at-least": (("seal",), "METRIC=NUMBER", "The same, from below.", {"action": "append"}),
    "range": (("seal",), "METRIC=LOW:HIGH", "Range of a metric (0:1).", {"action": "append"}),
    "units": (("seal",), "NAME", "Population: 'runs' or 'cases' (runs).", {}),
    "missing": (("seal",), "POLICY", "Tests that crash: 'refuse', 'worst' or 'drop-case' (refuse).", {}),
    "challenges": (("seal",), "N", "Planned challenges (200).", {"type": int}),
    "open": (("seal",), "SHARE", "Share of the cases that stay open, drawn by chance.", {"type": float}),
    "summary": (("gate", "check"), "FILE", "Append the verdict or the error in Markdown to this file.", {}),
}  # fmt: skip
"""Options beside the acts: the acts that they are for (all if none is named), and how they are shown and read."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add everhold's command-line options to pytest."""
    group = parser.getgroup("everhold", "gates about sealed cases")
    for name, said in _ACTS.items():
        group.addoption(f"--everhold-{name}", metavar="NAME", help=said)
    for name, (acts, metavar, said, how) in _OPTIONS.items():
        only = f"With {' or '.join(f'--everhold-{act}' for act in acts)}: " if acts else ""
        how = {word: value for word, value in how.items() if word != "type"}  # pytest ends with 4 if a type is wrong
        group.addoption(f"--everhold-{name}", metavar=metavar, help=only + said, **how)
    group.addoption(
        "--everhold-show", action="store_true",
        help="Show outcomes of sealed tests: for tests that always have the same one, or rows that are no secret.",
    )  # fmt: skip


def _acts_of(config: pytest.Config) -> list[str]:
    return [act for act in _ACTS if config.getoption(f"--everhold-{act}") is not None]


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """Exit with everhold's code for faults if pytest was called with wrong options."""
    try:
        return (yield)
    except pytest.UsageError as fault:
        if not _acts_of(config):
            raise
        sys.stderr.write(f"ERROR: {fault}\n")
        return _FAULT


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, check the options, and register the collector of results if an option asks for it."""
    config.addinivalue_line("markers", "sealed(case=None): the test is a case of a suite that everhold has sealed.")
    acts = _acts_of(config)
    if not acts:
        return
    if len(acts) > 1:
        raise pytest.UsageError(
            f"--everhold-{acts[0]} and --everhold-{acts[1]} are given together. Pass one of them: seal once, then "
            "challenge or check."
        )
    for name, (known, *_) in _OPTIONS.items():
        if known and acts[0] not in known and config.getoption(f"--everhold-{name}") is not None:
            raise pytest.UsageError(
                f"--everhold-{name} is not for --everhold-{acts[0]}. Leave it out, or pass it with "
                f"{' or '.join(f'--everhold-{act}' for act in known)}."
            )
    for name, (*_, how) in _OPTIONS.items():
        if "type" in how and (value := config.getoption(f"--everhold-{name}")) is not None:
            try:
                setattr(config.option, f"everhold_{name}", how["type"](value))
            except ValueError:
                wanted = "whole number" if how["type"] is int else "number"
                raise pytest.UsageError(f"--everhold-{name} is {value!r}. Pass a {wanted}.") from None
    shown = {
        "--pdb": config.getoption("usepdb", False), "--trace": config.getoption("trace", False),
        "-s": config.getoption("capture", "fd") in ("no", "tee-sys"),
        "-p no:capture": not config.pluginmanager.hasplugin("capture"),
        "--debug": config.getoption("debug", None), "PYTEST_DEBUG": os.environ.get("PYTEST_DEBUG"),
    }  # fmt: skip
    if config.pluginmanager.hasplugin("logging"):  # a log has the output of tests, as -s shows it
        shown |= {name: config.getini(name) or config.getoption(name, None) for name in ("log_cli", "log_file")}
        shown["log_cli"] = shown["log_cli"] or config.getoption("log_cli_level", None)
    if not config.getoption("--everhold-show") and any(shown.values()):
        option = next(name for name, value in shown.items() if value)
        raise pytest.UsageError(
            f"{option} shows which sealed tests pass. Leave it out, or pass --everhold-show if that is no secret."
        )
    config.pluginmanager.register(SealedCases(config, acts[0]), "everhold-cases")


class SealedCases:
    """Pytest plugin that collects results of sealed tests, and seals or compares them at the end of the session."""

    def __init__(self, config: pytest.Config, act: str) -> None:
        self._config, self._act = config, act
        self._gate = str(config.getoption(f"--everhold-{act}"))
        self._runs: dict[tuple[str, str, int], CaseRun] = {}
        self._subtests_failed: set[tuple[str, str, int]] = set()
        self._others_failed = False
        self._lost = ""
        self._said = ""

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Check the options and the storage, before any test runs."""
        if hasattr(session.config, "workerinput"):
            return
        with self._told(session):
            self._check()
        if self._said:
            pytest.exit(f"everhold: {self._said}", returncode=_FAULT)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Repeat sealed tests as often as requested."""
        runs = int(self._config.getoption("--everhold-runs"))
        if runs > 1 and metafunc.definition.get_closest_marker(_MARKER):
            metafunc.fixturenames.append(_RUN)
            metafunc.parametrize(_RUN, range(runs), ids=[f"{_RUN}{run}" for run in range(runs)])

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Check the markers of sealed tests, and that each test is repeated as often as requested."""
        runs = int(self._config.getoption("--everhold-runs"))
        for item in items:
            if (marker := item.get_closest_marker(_MARKER)) is None:
                continue
            try:
                _named(*marker.args, **marker.kwargs)
            except TypeError:
                raise pytest.UsageError(
                    f"The marker of {item.nodeid} has other arguments than case. Write @pytest.mark.sealed(case='id')."
                ) from None
            if runs > 1 and _RUN not in getattr(getattr(item, "callspec", None), "params", {}):
                raise pytest.UsageError(
                    f"{item.nodeid} cannot be repeated, because it is no test function of pytest. Write it as one, or "
                    "pass --everhold-runs=1."
                )

    def _place(self, item: pytest.Item, marker: pytest.Mark) -> tuple[str, int]:
        """Return the id of a sealed test as a case, and the number of its run.

        The id begins at the folder where pytest was called. pytest's own ids begin at a folder that options may change.
        """
        call = getattr(item, "callspec", None)
        run = 0 if call is None else int(call.params.get(_RUN, 0))
        _, colons, inside = item.nodeid.partition("::")
        path = Path(os.path.relpath(item.path, self._config.invocation_params.dir)).as_posix()
        return str(_named(*marker.args, **marker.kwargs) or _case_of(f"{path}{colons}{inside}", run)), run

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Discard the warnings of a sealed test, which pytest would show with their texts."""
        if self._option("show") or item.get_closest_marker(_MARKER) is None:
            return (yield)
        with warnings.catch_warnings(record=True):
            return (yield)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """Record the outcome of a sealed test, and hide it in pytest's output.

        The notes travel with the report from worker processes, but are not written to JUnit.
        """
        result = yield
        marker = item.get_closest_marker(_MARKER)
        if marker is None:
            return
        report: pytest.TestReport = result.get_result()
        case, run = self._place(item, marker)
        metrics = [*report.user_properties, ("passed", int(report.passed)), ("duration", report.duration)]
        vars(report)["sealed"] = [case, run, metrics, *_fault_of(report, call)]
        if not self._option("show"):
            if report.failed or vars(report).pop("wasxfail", None) is not None:
                report.outcome, report.longrepr = "passed", None
                call.excinfo = None  # which a debugger would enter
            report.sections, report.user_properties, report.duration = [], [], 0.0
            report.start = report.stop = 0.0

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Show a sealed test as sealed, whatever its outcome."""
        if not hasattr(report, "sealed") or self._option("show") or not report.passed:
            return None
        return ("sealed", ".", "SEALED") if report.when == "call" else ("", "", "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record one phase of a sealed test, or one of its subtests, before other plugins write the report."""
        from everhold.gates.files import CaseRun, measured

        if hasattr(self._config, "workerinput"):
            return
        if not hasattr(report, "sealed"):
            self._others_failed |= report.failed
            if report.when not in ("setup", "call", "teardown"):  # xdist reports a process that ended like this
                self._lost = report.nodeid
            return
        case, run, metrics, fault, why = report.sealed
        vars(report)["sealed"] = True
        place = (report.nodeid, case, run)
        if is_subtest := hasattr(report, "context"):
            report.sections = report.sections if self._option("show") else []
            if not dict(metrics)["passed"]:
                self._subtests_failed.add(place)
        elif place in self._subtests_failed:
            metrics = [(name, 0 if name == "passed" else value) for name, value in metrics]
        known = self._runs.get(place)
        if fault is None and report.outcome == "rerun":  # type: ignore[comparison-overlap]  # of another plugin
            fault, why = "retried", ""
        if known is not None and report.when == "call" and known.where == "call":
            fault, why = "retried", "it ran more than once in this session"
        if fault is not None:
            self._runs[place] = known if known and known.fault else CaseRun(case, report.nodeid, {}, run, fault, why)
        elif report.when == "call" and not is_subtest:
            self._runs[place] = known if known and known.fault else measured(case, "call", metrics, run)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Seal the results, or challenge with them, and set the exit code by the verdict."""
        if hasattr(session.config, "workerinput"):
            return
        if session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = _FAULT
            self._said = self._said or "error: The session did not run to its end, so its results were not used."
            return
        with self._told(session):
            if session.shouldfail or session.shouldstop:
                raise ValueError("The session stopped early, so its results were not used. Run all sealed tests.")
            if self._lost:
                raise ValueError(
                    f"A process ended while it ran {self._lost}, so no results were used. Run all sealed tests again."
                )
            act = {"seal": self._seal, "add": self._add}.get(self._act, self._compare)
            session.exitstatus = act()

    @contextmanager
    def _told(self, session: pytest.Session) -> Iterator[None]:
        """Return a context that reports an exception in the terminal, in the summary, and by the exit code."""
        from everhold.cli.failures import Misuse
        from everhold.errors import BudgetExhausted, EverholdError
        from everhold.gates.checks import write_fault

        try:
            yield
        except (EverholdError, Misuse, OSError, ValueError) as fault:
            session.exitstatus = _SPENT if isinstance(fault, BudgetExhausted) else _FAULT
            self._said = f"error: {fault}"
            write_fault(self._option("summary"), self._gate, str(fault))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the verdict."""
        terminalreporter.section("everhold")
        terminalreporter.write_line(self._said)

    def _check(self) -> None:
        """Check the claims and the storage, and that the holdout and gate in it fit the requested act."""
        from everhold.errors import HoldoutNotFound, QueryRejected
        from everhold.gates.checks import checked_margin
        from everhold.gates.opening import check_terms

        storage, name, sealing = self._storage(), self._option("holdout"), self._act == "seal"
        if (runs := self._option("runs")) < 1:
            raise ValueError(f"--everhold-runs is {runs}. Pass a whole number of at least 1.")
        path = Path(storage.removeprefix("sqlite:///"))
        if "://" not in str(path) and not path.parent.is_dir():
            raise ValueError(f"The folder {str(path.parent)!r} does not exist. Make it outside of the repository.")
        if (summary := self._option("summary")) and not Path(summary).parent.is_dir():
            raise ValueError(f"The folder of the summary {summary!r} does not exist. Make it, or name another file.")
        if sealing:
            check_terms(self._gate, **self._terms())
            if not path.exists() and "://" not in str(path):
                return
        try:
            with self._holdout() as holdout:
                if sealing:
                    raise QueryRejected(
                        f"A holdout named {name!r} is sealed already. Challenge its gate, or seal another name."
                    )
                suite = holdout.gate(name=self._gate).suite
                if suite.runs != runs:
                    raise QueryRejected(
                        f"Each case of the gate has {suite.runs} runs, and --everhold-runs is {runs}. "
                        f"Pass --everhold-runs={suite.runs}."
                    )
                if self._act == "check":
                    checked_margin(suite, self._option("margin") or 0.0)
        except HoldoutNotFound:
            if not sealing:
                raise

    def _holdout(self) -> Holdout:
        """Return the open holdout, with the allotment of an analyst if one is named."""
        from everhold.cli.arguments import opened_here

        return opened_here(self._storage(), self._option("holdout"), self._option("analyst"))

    def _terms(self) -> dict[str, Any]:
        """Return the claims to seal from the options of pytest, in the form of the command line's claims."""
        from everhold.cli.gates import ClaimOptions

        named = {("ranges" if name == "range" else name.replace("-", "_")): self._option(name)
                 for name, (acts, *_) in _OPTIONS.items() if "seal" in acts}  # fmt: skip
        return ClaimOptions(**{name: value for name, value in named.items() if value is not None}).terms()

    def _seal(self) -> int:
        from everhold.gates.results import counted
        from everhold.suites import seal_cases

        terms = self._terms()
        results = self._table(terms["missing"])
        with seal_cases(
            self._storage(), self._option("holdout"), results=results, gate=self._gate, **terms
        ) as holdout:  # fmt: skip
            status = holdout.gate(name=self._gate).status()
        self._said = f"sealed: {counted(results)}\ngate {self._gate!r} is about {status['population']}"
        return _DONE

    def _add(self) -> int:
        from everhold.suites import add_cases

        with self._holdout() as holdout:
            missing = holdout.gate(name=self._gate).suite.missing
            arrived = add_cases(holdout, self._table(missing), gate=self._gate)
        self._said = f"added: {arrived.rows} cases to gate {self._gate!r}, {arrived.total} in all"
        return _DONE

    def _compare(self) -> int:
        from everhold.gates.checks import markdown_of, write_summary
        from everhold.gates.results import counted

        if self._others_failed:
            raise ValueError(
                "A test that is not sealed failed, so the gate was not asked. Nothing was charged. Mend the test first."
            )
        with self._holdout() as holdout:
            gate: Any = holdout.gate(name=self._gate)
            results = self._table(gate.suite.missing)
            verdict: Verdict | CheckVerdict
            if self._act == "check":
                verdict = gate.check(
                    results, margin=self._option("margin") or 0.0, challenger=self._option("challenger")
                )
            else:
                verdict = gate.challenge(results, challenger=self._option("challenger"))
            status = gate.status()
        self._said = f"read {counted(results)}\n{verdict}"
        write_summary(self._option("summary"), markdown_of(verdict, status))
        return _CODES[verdict.to_dict()["verdict"]]

    def _table(self, missing: str) -> dict[str, list[Any]]:
        from everhold.gates.files import outcomes

        if not self._runs:
            raise ValueError(f"No test with the marker {_MARKER!r} ran. Mark the cases of the suite and run them.")
        return outcomes((replace(run, where=node) for (node, _, _), run in self._runs.items()), missing=missing)

    def _option(self, name: str) -> Any:
        return self._config.getoption(f"--everhold-{name}")

    def _storage(self) -> str:
        storage = self._option("storage") or os.environ.get("EVERHOLD_STORAGE")
        if not storage:
            raise ValueError("No storage is named. Pass --everhold-storage or set EVERHOLD_STORAGE.")
        return str(storage)


def _fault_of(report: pytest.TestReport, call: pytest.CallInfo[None]) -> tuple[str | None, str]:
    """Return why a phase of a test has no outcome, as a key of `everhold.gates.files.REFUSED`, and a message."""
    if hasattr(report, "wasxfail") or (report.failed and call.excinfo is None):
        return "skipped", "it is expected to fail"
    if report.skipped:
        return "skipped", ""
    if report.passed or call.excinfo is None:
        return None, ""
    if report.when == "call" and isinstance(call.excinfo.value, (AssertionError, pytest.fail.Exception)):
        return None, ""
    return "crashed", f"{call.excinfo.typename} in its {report.when}"


def _named(case: Any = None) -> Any:
    """Return the case that a marker names. Its arguments are those of the marker."""
    return case


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
