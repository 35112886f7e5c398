"""Settings of all tests: examples run in a temporary folder, Hypothesis repeats its examples, slow tests are listed."""

from __future__ import annotations

import gc
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.doctest import DoctestItem
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

pytest_plugins = ["external_services", "fixed_chance"]

ROOT = Path(__file__).parent
SLOW = ROOT / "tests" / "slow.txt"
"""Tests and files that `make test` leaves to `make test-all`, as ``make durations`` recorded them."""

STUDIES = ROOT / "tests" / "studies.txt"
"""Tests and files that only `make studies` runs: repetitions of games and enumerations that last minutes.

A test without its parameters stands for all of them.
"""

RECORDED_FROM, WAITED_FROM, KEPT_UP_TO = 0.15, 2.0, 2.0
"""Seconds of the processor, and on the clock, from which `make durations` lists a test as slow.

Where all cases of a test are slow, the fastest one stays in `make test` if it takes no longer than the last number.
"""

SERVICES = {"postgres_installed", "postgres", "spark", "browser"}
"""Fixtures that need a Debian package: PostgreSQL, Java, Chromium."""

# no examples in there, and doctest would import them all under one name
collect_ignore_glob = ["*/conftest.py", "*_study.py", "examples/*"]
if not find_spec("mkdocs"):  # a package alone, without what the pages are made with
    collect_ignore_glob += ["docs/notebook_pages.py", "tests/test_notebooks.py"]

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read when it is imported; tests call nobody
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(
        _threads, "1"
    )  # read when NumPy is imported: threads of two workers on two cores spin in vain

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("hunt", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("same")

_times: dict[str, tuple[float, float]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of ``make durations``."""
    parser.addoption("--record-slow", action="store_true", help="write tests/slow.txt from this run")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without looking for garbage: what is imported stays, and need not be looked through again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests, studies, examples, and tests that need services. Studies run only if ``-m`` says so."""
    listed = {mark: _listed(file) for mark, file in {"slow": SLOW, "study": STUDIES}.items()}
    for item in items:
        for mark, names in listed.items():
            if names & {item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]}:
                item.add_marker(mark)
        if isinstance(item, DoctestItem):
            item.add_marker("example")
        if SERVICES & set(getattr(item, "fixturenames", ())):
            item.add_marker("services")
    if not config.option.markexpr and not config.getoption("--record-slow"):
        studies = [item for item in items if item.get_closest_marker("study")]
        items[:] = [item for item in items if item not in studies]
        config.hook.pytest_deselected(items=studies)


def _listed(file: Path) -> set[str]:
    """Lines of a list of tests."""
    return set(file.read_text(encoding="utf-8").split("\n")) if file.exists() else set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure each test without its fixtures, which others share."""
    before = os.times()
    try:
        return (yield)
    finally:
        used = [after - begun for after, begun in zip(os.times(), before, strict=True)]
        _times[item.nodeid] = sum(used[:4]), used[4]


def slow_tests(times: Mapping[str, tuple[float, float]]) -> list[str]:
    """Names of the tests that take long, from the processor's seconds and those on the clock of each."""
    slow, cases = set[str](), dict[str, list[str]]()
    for name in times:
        cases.setdefault(name.partition("[")[0], []).append(name)
    for names in cases.values():
        found = {name for name in names if times[name][0] > RECORDED_FROM or times[name][1] > WAITED_FROM}
        fastest = min(names, key=lambda name: times[name])
        if len(found) == len(names) > 1 and max(times[fastest]) <= KEPT_UP_TO:
            found.remove(fastest)
        slow |= found
    return sorted(slow)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the list of slow tests; extensions complain of what is not looked through when Python ends."""
    gc.unfreeze()
    if session.config.getoption("--record-slow") and not hasattr(session.config, "workerinput"):
        SLOW.write_text("\n".join(slow_tests(_times)) + "\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def _temporary_folder(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, DoctestItem):  # a folder for each of ten thousand tests would cost a millisecond each
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
