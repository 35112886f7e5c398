"""Each protection of a proof is noticed by a test when it is removed; `support/mutations.py` names them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mutations import MUTATIONS

CORE = Path(__file__).parents[1] / "packages" / "everhold"
SOURCES = Path("src", "everhold")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.what)
def test_the_protection_and_its_tests_are_where_the_list_says(mutation):
    assert (CORE / SOURCES / mutation.file).read_text().count(mutation.old) == 1
    assert all((CORE / "tests" / name).exists() for name in mutation.tests)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.what)
def test_without_the_protection_a_test_fails(tmp_path, mutation):
    copy = tmp_path / "src" / "everhold"
    shutil.copytree(CORE / SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / mutation.file
    file.write_text(file.read_text().replace(mutation.old, mutation.new))
    tests = [str(CORE / "tests" / name) for name in mutation.tests]
    path = os.pathsep.join([str(tmp_path / "src"), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=CORE.parents[1], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert found.returncode == 1, found.stdout[-2_000:]
    assert "FAILURES" in found.stdout
