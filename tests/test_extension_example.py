"""A separate distribution adds a mechanism, a query and a dependence model, and everhold names none of them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = next(folder for folder in (ROOT, *ROOT.parents) if (folder / "examples").is_dir()) / "examples" / "extension"

USED = """
import everhold as eh
from everhold.certificate import verify_certificate
from everhold.dependence import dependence_from_dict
from everhold.mechanisms import MECHANISMS
rows = {"x": [i / 4000 for i in range(4000)]}
model = dependence_from_dict({"kind": "blocks", "length": 2})
assert model == eh.Blocks(2)
with eh.Holdout.create("n.db", "h", holdout=rows, mechanism="bonferroni", queries=5, dependence=model) as holdout:
    answer = holdout.ask(eh.share_between("x", at_least=0.25, at_most=0.5))
    assert answer.low <= 0.25 <= answer.high and answer.charged == 1, answer
    holdout.certificate().save("c.json")
with eh.Holdout.open("n.db", "h") as again:
    assert again.mechanism == eh.Bonferroni(rows=4000, queries=5, dependence=model)
assert verify_certificate("c.json").ok
assert eh.plan(rows=20_000, queries=10).line("bonferroni").adaptive is False
assert {"Blocks", "Bonferroni", "share_between"} <= set(dir(eh))
assert list(MECHANISMS)[:2] == ["guess_and_check", "silent"]
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A folder with the example installed in it."""
    folder = tmp_path_factory.mktemp("target")
    installer = ["uv", "pip"] if shutil.which("uv") else [sys.executable, "-m", "pip"]
    wanted = ["install", "--quiet", "--no-deps", "--target", str(folder), str(EXAMPLE)]
    python = ["--python", sys.executable] if installer[0] == "uv" else []
    subprocess.run([*installer, *wanted, *python], check=True, capture_output=True)
    return folder


def run(target, folder, *arguments):
    """A Python process that finds the example."""
    environment = {**os.environ, "PYTHONPATH": str(target), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_goes_all_the_way_in_python_and_on_the_command_line(target, tmp_path):
    run(target, tmp_path, "-c", USED)
    asked = ("ask", "n.db", "h", "--share-between", "x", "--at-least", "0.25", "--at-most", "0.5", "--format", "json")
    answer = json.loads(run(target, tmp_path, "-c", "from everhold.cli import main; main()", *asked))
    assert (answer["charged"], answer["low"] <= 0.25 <= answer["high"]) == (0, True)
    assert "--share-between" in run(target, tmp_path, "-c", "from everhold.cli import main; main()", "ask", "--help")


def test_its_own_tests_inherit_the_contracts(target, tmp_path):
    tests = EXAMPLE / "tests"
    options = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", tests, "--confcutdir", tests)
    assert "passed" in run(target, tmp_path, "-m", "pytest", *options, tests)


def test_without_it_nothing_of_it_is_there(tmp_path):
    code = "import everhold as eh, pytest\nwith pytest.raises(AttributeError): eh.share_between"
    run(tmp_path, tmp_path, "-c", code)


def test_the_guide_shows_the_files_of_the_example():
    guide = (EXAMPLE.parent.parent / "docs" / "guides" / "extending.md").read_text()
    shown = re.findall(r'^```\w+ title="(examples/[^"]+)"\n(.*?)\n```$', guide, re.MULTILINE | re.DOTALL)
    assert {Path(name).name for name, _ in shown} == {
        "pyproject.toml",
        "__init__.py",
        "share_between.py",
        "specificity.py",
        "test_example.py",
    }
    for name, text in shown:
        assert text in (EXAMPLE.parent.parent / name).read_text(), name
