"""The program as a process of its own."""

import json
import os
import subprocess
import sys

from cli_samples import ANSWER, SECRET

from everhold import __version__

PROGRAM = [sys.executable, "-c", "from everhold.cli import main; main()"]


def run(*arguments, **environment):
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, encoding="utf-8", check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_a_whole_story(study):
    created = run("create", "new.db", "late", "--holdout", "sealed.csv", "--training", "train.csv", "--queries", "20")
    assert created.returncode == 0
    assert created.stderr.startswith("Do you know your queries before you ask?")
    *ways, promise, heads, _ = created.stdout.split("\n")[:11]
    assert [line.split()[0] for line in ways[2:5]] == ["declared", "silent", "steered"]
    assert promise.startswith("Until 20 queries or 10 surprises are used up")
    assert heads.split() == ["column", "kind", "example"]
    asked = run("ask", "late", "--mean", "delay > 15", "--format", "json", EVERHOLD_STORAGE="new.db")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert list(json.loads(asked.stdout)) == ANSWER


def test_the_version():
    assert run("--version").stdout == f"everhold {__version__}\n"


def test_the_shell_completes_commands_and_options():
    program = "import sys; sys.argv[0] = 'everhold'; from everhold.cli import main; main()"
    for typed, meant in (
        ("everhold stat", "status"),
        ("everhold ask --surv", "--survival"),
        ("everhold gate ch", "challenge"),
    ):
        shell = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_EVERHOLD_COMPLETE": "complete_bash"}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=os.environ | shell
        )
        assert done.stdout.split() == [meant]


def test_errors_have_codes_and_no_traceback(study):
    failed = run("ask", "s.db", "flights", "--mean", f"carier = '{SECRET}'")
    assert (failed.returncode, failed.stdout) == (5, "")
    assert failed.stderr == "error: There is no column 'carier'. Did you mean 'carrier'? Nothing was charged.\n"


def test_a_terminal_that_knows_ascii_only_is_no_fault(study):
    shown = run("certificate", "show", "s.db", "flights", PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")


def test_a_reader_that_leaves_early_causes_no_traceback(study):
    reader, writer = os.pipe()
    os.close(reader)
    left = subprocess.run([*PROGRAM, "status", "s.db", "flights"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (left.returncode, left.stderr) == (1, b"")


def test_nothing_heavy_is_imported_before_a_command_runs():
    script = """
import importlib.util, sys, types
package = types.ModuleType("everhold")  # whatever the front door of the package imports
package.__path__ = list(importlib.util.find_spec("everhold").submodule_search_locations)
sys.modules["everhold"] = package
import typer  # old ones bring rich along
brought = set(sys.modules)
import everhold.cli.application
heavy = {"numpy", "scipy", "duckdb", "sqlglot", "sqlalchemy", "narwhals", "cryptography", "rich"}
print(sorted(heavy & (set(sys.modules) - brought)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
