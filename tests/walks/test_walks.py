"""The first ten minutes of four kinds of people, word for word as docs/first-steps tells them.

Each page is followed in an environment that holds the built wheel with the extras that the page installs, and nothing
else. Where a page shows what a command prints, that is what it has to print; ``...`` stands for anything.
"""

import os
import re
import signal
import subprocess
from contextlib import suppress
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "first-steps").glob("*.md"))
HOMES = ROOT / ".venv-walks"

FENCE = re.compile(
    r'^```(?P<kind>console|python title="(?P<file>[\w.-]+)")\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)
INSTALLS = ("$ git clone ", "$ pip install ")
"""What .ci/make-walks has done already."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (HOMES / "installed").exists(), reason="the environments are missing; run: make walks"),
]


def commands(text):
    """Pairs of a command and what it prints; a command goes on after a backslash."""
    for block in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
        if not block.strip() or block.startswith(INSTALLS):
            continue
        lines = block.splitlines(keepends=True)
        end = next(place for place, line in enumerate(lines) if not line.rstrip().endswith("\\")) + 1
        yield "".join(lines[:end]).removeprefix("$ "), "".join(lines[end:])


def run(command, *, home, folder):
    environment = {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "HOME": str(folder), "COLUMNS": "100", "LANG": "C.UTF-8",
        "PYTHONWARNINGS": "default",
    }  # fmt: skip
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def folder(tmp_path):
    """Where a page is followed; a server that it started is stopped, however far it came."""
    yield tmp_path
    started = tmp_path / "serve.pid"
    if started.exists():
        with suppress(ProcessLookupError):
            os.kill(int(started.read_text()), signal.SIGTERM)


def test_four_kinds_of_people_are_shown_their_first_steps():
    assert [page.stem for page in PAGES] == ["agent-builder", "competition-host", "data-scientist", "team"]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_page_is_true_word_for_word(page, folder):
    followed = 0
    for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
        if fence["file"]:
            (folder / fence["file"]).write_text(fence["text"], encoding="utf-8")
            continue
        for command, printed in commands(fence["text"]):
            done = run(command, home=HOMES / page.stem, folder=folder)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            if printed.strip():
                same = OutputChecker().check_output(printed, done.stdout, ELLIPSIS | NORMALIZE_WHITESPACE)
                assert same, f"{command}\nprinted\n{done.stdout}\nand the page says\n{printed}"
            followed += 1
    assert followed >= 4


def test_the_demonstration_runs_with_what_it_installs_alone(tmp_path):
    done = run("everhold demo --output shown", home=HOMES / "demo", folder=tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert list((tmp_path / "shown").glob("*.html"))
