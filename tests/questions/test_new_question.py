"""A new kind of question is its own file and one line of the registry: these two, and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import everhold

OWN_FILE = """
from everhold.questions.mean import MeanQuery


def beyond(text, *, clip):
    return MeanQuery(f"{text} > {clip!r}")
"""

REGISTERED = """
import sys
import everhold.questions as registry

registry.__path__.append(sys.argv.pop(1))
registry.KINDS += (registry.Kind("beyond", "beyond", registry.Form.EXPRESSION, "Rows beyond.", registry.same("clip"),
                                 rowwise=True),)
"""

ASKED = """
import everhold as eh
rows = {"delay": [float(i) for i in range(1000)]}
holdout = eh.Holdout.create("n.db", "h", holdout=rows, mechanism="privacy_budget", queries=50)
answer = holdout.ask(eh.beyond("delay", clip=499.5))
assert answer.low <= 0.5 <= answer.high, answer
assert holdout.quote(eh.beyond("delay", clip=1.5)).charged_at_most == 100
assert holdout.ask(eh.choose([eh.beyond("delay", clip=9.5), eh.beyond("delay", clip=900.5)], price=900)).index == 1
"""

TYPED = """
from everhold.cli import main
sys.argv[0] = "everhold"
main()
"""


def run(folder, code, *arguments):
    """A process in which the kind is registered."""
    command = [sys.executable, "-c", REGISTERED + code, str(folder / "own"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_kind_of_question_is_asked_from_python_and_from_the_shell(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "beyond.py").write_text(OWN_FILE)
    run(tmp_path, ASKED)
    typed = ("ask", "n.db", "h", "--beyond", "delay", "--clip", "499.5", "--format", "json")
    answer = json.loads(run(tmp_path, TYPED, *typed))
    assert (answer["charged"], answer["low"] <= 0.5 <= answer["high"]) == (0, True)
    assert "Rows beyond." in run(tmp_path, TYPED, "ask", "--help")
    options = ("--choose", "lowest", "--beyond", "delay", "--beyond", "delay + 1", "--clip", "3", "--price", "9")
    assert "charged" in run(tmp_path, TYPED, "quote", "n.db", "h", *options, "--format", "json")


def test_the_stub_for_type_checkers_lists_the_public_names():
    stub = Path(everhold.__file__).with_suffix(".pyi").read_text().splitlines()
    listed = {line.rpartition(" ")[2] for line in stub if line.startswith("from ")}
    assert listed == set(everhold.__all__)
