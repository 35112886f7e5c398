"""The first ten minutes of five kinds of people, word for word as docs/first-steps tells them.

Each page is followed in an environment that holds the built wheel with the extras that the page installs, and nothing
else. Where a page shows what a command prints, that is what it has to print; ``...`` stands for anything.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from followed_pages import followed, run

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "first-steps").glob("*.md"))
HOMES = ROOT / ".venv-walks"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (HOMES / "installed").exists(), reason="the environments are missing; run: make walks"),
]


@pytest.fixture
def folder(tmp_path):
    """Where a page is followed; a server that it started is stopped, however far it came."""
    yield tmp_path
    started = tmp_path / "serve.pid"
    if started.exists():
        with suppress(ProcessLookupError):
            os.kill(int(started.read_text()), signal.SIGTERM)


def test_five_kinds_of_people_are_shown_their_first_steps():
    assert [page.stem for page in PAGES] == [
        "agent-builder",
        "competition-host",
        "data-scientist",
        "repository",
        "team",
    ]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_page_is_true_word_for_word(page, folder):
    programs = HOMES / page.stem / "bin"
    assert followed(page.read_text(encoding="utf-8"), programs=programs, folder=folder) >= 4


def test_the_demonstration_runs_with_what_it_installs_alone(tmp_path):
    done = run("everhold demo --output shown", programs=HOMES / "demo" / "bin", folder=tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert list((tmp_path / "shown").glob("*.html"))
