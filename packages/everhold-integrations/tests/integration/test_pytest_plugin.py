"""The pytest plugin: sealed tests are cases, the verdict is the exit code, and errors charge nothing."""

import pytest

import everhold as eh

pytest_plugins = ["pytester"]

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


@pytest.fixture
def session(pytester, monkeypatch):
    """Calls pytest in this process, with so many cases right."""
    pytester.makepyfile(test_suite=SUITE)

    def call(*options, right=10, other="fine"):
        monkeypatch.setenv("RIGHT", str(right))
        monkeypatch.setenv("OTHER", other)
        return pytester.inline_run("--everhold-storage=suite.db", *options, "-p", "no:cacheprovider").ret

    return call


def asked(pytester):
    with eh.Holdout.open(f"{pytester.path}/suite.db", "suite") as holdout:
        return holdout.status()["questions_asked"]


def test_seal_then_challenge(session, pytester):
    assert session("--everhold-seal=main") == 0
    assert session("--everhold-gate=main", right=11) == 1
    assert session("--everhold-gate=main", "--everhold-summary=s.md", right=40) == 0
    assert "### Gate main: promoted" in (pytester.path / "s.md").read_text()
    with eh.Holdout.open(f"{pytester.path}/suite.db", "suite") as holdout:
        ids = holdout.gate(name="main").suite.ids
    assert ids[0] == "test_suite.py::test_case[0]"


def test_runs_are_repeated(session, pytester):
    assert session("--everhold-seal=main", "--everhold-runs=2") == 0
    with eh.Holdout.open(f"{pytester.path}/suite.db", "suite") as holdout:
        assert holdout.gate(name="main").suite.runs == 2
    assert session("--everhold-gate=main") == 2  # one run each


@pytest.mark.parametrize(
    ("options", "wish"),
    [
        (["--everhold-gate=other"], {}),
        (["--everhold-gate=main", "-k", "not 3"], {}),
        (["--everhold-gate=main"], {"other": "broken"}),
    ],
)
def test_an_error_has_the_code_2_and_charges_nothing(session, pytester, options, wish):
    session("--everhold-seal=main")
    assert session(*options, **wish) == 2
    assert asked(pytester) == 0


def test_without_an_option_it_does_nothing(session):
    assert session() == 1
