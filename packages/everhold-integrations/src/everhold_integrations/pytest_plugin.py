"""pytest: a suite of sealed cases as the evidence of a gate. Tests with the marker `sealed` are its cases.

Without one of the options the plugin does nothing. With ``--everhold-gate NAME`` the session ends with the verdict as
its exit code: 0 promoted, 1 kept, 2 an error, 3 the budget is spent. A sealed test that fails is a result and no error.
Numbers of `record_property` are metrics beside ``passed`` and ``duration`` (seconds).

The results become those of the champion, which makers of challengers must not know. So the session shows no outcome of
a sealed test: each looks passed, without its output, unless ``--everhold-show`` is given.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from everhold.queries.verdict import Verdict

_MARKER, _CASE, _RUN = "sealed", "everhold_case", "everhold_run"
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
    group.addoption("--everhold-storage", metavar="URL", help="Storage; or set EVERHOLD_STORAGE.")
    group.addoption("--everhold-holdout", metavar="NAME", default="suite", help="Holdout of the cases (suite).")
    group.addoption("--everhold-challenger", metavar="NAME", help="Name of this version, such as its commit.")
    group.addoption("--everhold-runs", metavar="N", type=int, default=1, help="Runs of each sealed test (1).")
    group.addoption("--everhold-better", metavar="METRIC", default="passed", help="Metric to improve (passed).")
    group.addoption("--everhold-units", default="runs", choices=["runs", "cases"], help="Population (runs).")
    group.addoption("--everhold-challenges", metavar="N", type=int, default=200, help="Planned challenges (200).")
    group.addoption(
        "--everhold-show", action="store_true",
        help="Show outcomes of sealed tests: for tests that always have the same one, or rows that are no secret.",
    )  # fmt: skip
    group.addoption("--everhold-summary", metavar="FILE", help="Append the verdict in Markdown to this file.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the collector of results where one of the options asks for it."""
    config.addinivalue_line("markers", "sealed(case=None): the test is a case of a suite that everhold has sealed.")
    requested = [f"--everhold-{name}" for name in ("gate", "seal", "add") if config.getoption(f"--everhold-{name}")]
    if len(requested) > 1:
        raise pytest.UsageError(
            f"{requested[0]} and {requested[1]} exclude each other. Seal once, challenge afterwards."
        )
    if requested:
        config.pluginmanager.register(SealedCases(config), "everhold-cases")


class SealedCases:
    """The results of sealed tests, and what becomes of them at the end of the session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._rows: dict[tuple[str, int], dict[str, Any]] = {}
        self._others_failed = False
        self._said = ""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Repeat sealed tests."""
        runs = int(self._config.getoption("--everhold-runs"))
        if runs > 1 and metafunc.definition.get_closest_marker(_MARKER):
            metafunc.fixturenames.append(_RUN)
            metafunc.parametrize(_RUN, range(runs), ids=[f"{_RUN}{run}" for run in range(runs)])

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """Note the case and the run of each sealed test with the test, from where they reach its report."""
        for item in items:
            marker = item.get_closest_marker(_MARKER)
            if marker is not None:
                run = getattr(item, "callspec", None)
                number = 0 if run is None else int(run.params.get(_RUN, 0))
                case = marker.kwargs.get("case") or _case_of(self._node(item), number)
                item.user_properties += [(_CASE, case), (_RUN, number)]

    def _node(self, item: pytest.Item) -> str:
        """Id of a test from the folder where pytest was called; its own begins at a folder that options may change."""
        _, colons, inside = item.nodeid.partition("::")
        path = os.path.relpath(item.path, self._config.invocation_params.dir)
        return f"{Path(path).as_posix()}{colons}{inside}"

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Note the outcome of a sealed test in its report, and take it away from what is shown."""
        result = yield
        if item.get_closest_marker(_MARKER) is None:
            return
        report: pytest.TestReport = result.get_result()
        vars(report)["sealed_outcome"] = report.outcome  # it travels from workers, not to JUnit
        if report.failed and not self._option("show"):
            report.outcome, report.longrepr, report.sections = "passed", None, []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the result of one phase of a test."""
        known = dict(report.user_properties)
        if _CASE not in known:
            self._others_failed |= report.failed
            return
        place = (str(known[_CASE]), int(known[_RUN]))  # type: ignore[call-overload]  # it was put there above
        outcome: str = vars(report)["sealed_outcome"]
        if report.when == "call" and outcome != "skipped":
            numbers = {name: value for name, value in known.items() if name not in (_CASE, _RUN)}
            self._rows[place] = {**numbers, "passed": int(outcome == "passed"), "duration": report.duration}
        elif outcome == "failed":  # before or after the test itself: it crashed
            self._rows[place] = {"passed": None}

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Seal, or challenge; the verdict is the exit code."""
        if hasattr(session.config, "workerinput") or session.exitstatus not in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
        ):
            return
        from everhold.errors import BudgetExhausted, EverholdError

        try:
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

    def _seal(self) -> int:
        from everhold.suites import seal_cases

        gate = self._option("seal")
        with seal_cases(
            self._storage(), self._option("holdout"), results=self._table(), gate=gate, better=self._option("better"),
            units=self._option("units"), challenges=self._option("challenges"),
        ) as holdout:  # fmt: skip
            status = holdout.gate(name=gate).status()
        self._said = (
            f"sealed: {status['cases']} cases, {status['runs']} runs, gate {gate!r} about {status['population']}"
        )
        return _PROMOTED

    def _add(self) -> int:
        from everhold.holdout import Holdout
        from everhold.suites import add_cases

        with Holdout.open(self._storage(), self._option("holdout")) as holdout:
            arrived = add_cases(holdout, self._table(), gate=self._option("add"))
        self._said = f"added: {arrived.rows} cases to gate {self._option('add')!r}, {arrived.total} in all"
        return _PROMOTED

    def _challenge(self) -> int:
        from everhold.holdout import Holdout
        from everhold.queries.case_summary import markdown_of

        if self._others_failed:
            raise ValueError("A test that is not sealed failed, so the gate was not challenged. Nothing was charged.")
        with Holdout.open(self._storage(), self._option("holdout")) as holdout:
            gate: Any = holdout.gate(name=self._option("gate"))
            verdict: Verdict = gate.challenge(self._table(), challenger=self._option("challenger"))
            status = gate.status()
        self._said = str(verdict)
        if summary := self._option("summary"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(markdown_of(verdict, status))
        return _PROMOTED if verdict.promoted else _SPENT if verdict.refused else _KEPT

    def _table(self) -> dict[str, list[Any]]:
        if not self._rows:
            raise ValueError(f"No test has the marker {_MARKER!r}. Mark the cases of the suite.")
        names = list(dict.fromkeys(name for row in self._rows.values() for name in row))
        table: dict[str, list[Any]] = {name: [row.get(name) for row in self._rows.values()] for name in names}
        return {"case": [case for case, _ in self._rows], "run": [run for _, run in self._rows], **table}

    def _option(self, name: str) -> Any:
        return self._config.getoption(f"--everhold-{name}")

    def _storage(self) -> str:
        storage = self._option("storage") or os.environ.get("EVERHOLD_STORAGE")
        if not storage:
            raise ValueError("No storage is named. Pass --everhold-storage or set EVERHOLD_STORAGE.")
        return str(storage)


def _case_of(node: str, run: int) -> str:
    """Id of a test without the number of its run.

    Examples:
        >>> _case_of("test_a.py::test_case[3-everhold_run1]", 1), _case_of("test_a.py::test_b[everhold_run0]", 0)
        ('test_a.py::test_case[3]', 'test_a.py::test_b')
    """
    mark = f"{_RUN}{run}"
    for part, whole in ((f"-{mark}]", "]"), (f"[{mark}-", "["), (f"-{mark}-", "-"), (f"[{mark}]", "")):
        if part in node:
            return node.replace(part, whole)
    return node
