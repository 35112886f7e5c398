"""The page of the command line is complete and up to date, and the help says what help has to say."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from command_line_page import command_paths, help_text, reference_page

from everhold import errors

PAGE = Path(__file__).parents[5] / "docs" / "reference" / "command-line.md"
SERVERS = {("mcp",), ("serve",)}  # they print no result
GROUPS = {("ledger",), ("certificate",), ("dependence",), ("gate",), ("protocol",), ("token",), ("lab",)}
TYPER = tuple(map(int, version("typer").split(".")[:2]))
COMMANDS = [path for path in command_paths() if path and path not in GROUPS]


@pytest.mark.skipif(TYPER < (0, 29), reason="the page shows the help as typer 0.29 prints it")
def test_the_page_is_up_to_date():
    assert PAGE.read_text() == reference_page(), (
        "run: python tests/support/command_line_page.py > docs/reference/command-line.md"
    )


def test_every_command_is_on_the_page():
    expected = {
        "create", "ask", "quote", "status", "transcript", "list", "ledger spent", "ledger verify",
        "ledger recover",
        "certificate show", "certificate save", "certificate verify", "demo", "diagnose",
        "dependence fit", "dependence describe", "dependence quilts", "plan", "lab run", "lab list",
        "lab rows", "lab leakage", "lab influence", "lab information", "lab sources",
        "allot", "allotments", "unseal", "suite", "challenge", "gate create", "gate challenge", "gate status", "mcp",
        "serve", "token create", "token list", "token revoke",
    }  # fmt: skip
    names = {" ".join(path) for path in COMMANDS}
    assert expected <= names
    assert all(f"## `everhold {name}`" in PAGE.read_text() for name in names)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_has_an_example_exit_codes_and_formats(path):
    text = help_text(path)
    assert "Example" in text
    assert f"everhold {' '.join(path)} " in text.partition("Example")[2]
    assert "Exit codes:" in text
    assert path in SERVERS or "table|json|csv" in text


def test_the_page_does_not_depend_on_the_terminal(monkeypatch):
    page = reference_page()
    monkeypatch.setenv("COLUMNS", "40")
    assert reference_page() == page


def test_every_exit_code_is_documented():
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    documented = {int(code) for code in re.findall(r"^ +(\d+)  ", help_text(()), flags=re.MULTILINE)}
    assert documented == codes | {0, 1, 2, 10, 130}


def test_no_arguments_teach(everhold):
    taught = everhold().stdout
    assert everhold("--help").stdout == taught
    for word in ("everhold create", "everhold ask", "everhold certificate save", "EVERHOLD_STORAGE", "Exit codes:"):
        assert word in taught


@pytest.mark.parametrize("group", ["ledger", "certificate"])
def test_a_group_alone_lists_its_commands(everhold, group):
    assert "verify" in everhold(group).stdout
