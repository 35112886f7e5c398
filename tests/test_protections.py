"""Each protection that docs/theory names is noticed by a test when it is removed; `support/mutations.py` lists them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import mutations
import pytest
from mutations import MUTATIONS, NOT_REMOVED, PROMISES, ROOT

INDEX = ROOT / "docs" / "theory" / "index.md"
SAMPLE = ["S9: labels of a step", "S13: later trees have less", "K: the box of both arms has a part of the level"]


def test_protections_and_their_tests_are_where_the_list_says():
    for mutation in MUTATIONS:
        assert mutation.source.read_text().count(mutation.old) == 1, mutation
        for path in mutation.paths:
            file, _, name = path.partition("::")
            assert Path(file).exists(), mutation
            assert not name or f"def {name.partition('[')[0]}(" in Path(file).read_text(), mutation


def test_each_statement_of_the_index_has_a_removed_protection_or_a_reason():
    lines = INDEX.read_text().partition("| statement |")[2].splitlines()[2:]
    cells = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    named = {name for cell in cells for name in _names(cell)}
    assert len(named) > 30
    assert {each.statement for each in MUTATIONS} | NOT_REMOVED.keys() == named | PROMISES


def _names(cell):
    """Statements of a line, such as those from M1 to M4."""
    for name in cell.split(", ") if re.match("[A-Z]", cell) else [cell]:
        if found := re.fullmatch(r"([A-Z])(\d+) to \1(\d+)", name):
            yield from (f"{found[1]}{number}" for number in range(int(found[2]), int(found[3]) + 1))
        else:
            yield name


def removed(*names):
    """Lines about the protections that were removed, in a process that has imported nothing of everhold."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, mutations.__file__, *names]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="protections are removed in forked processes")
def test_without_some_protections_a_test_fails():
    assert removed(*SAMPLE) == [f"noticed {name}" for name in SAMPLE]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="protections are removed in forked processes")
def test_without_each_protection_a_test_fails():
    assert removed() == [f"noticed {each.name}" for each in MUTATIONS]
