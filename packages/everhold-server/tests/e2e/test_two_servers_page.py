"""The page that leads from a laptop to two servers is followed word for word, on a PostgreSQL of the test's own."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from followed_pages import followed
from postgres_cluster import running_cluster

PAGE = Path(__file__).parents[4] / "docs" / "guides" / "two-servers.md"


@pytest.fixture
def postgres(postgres_installed):
    """A server that waits for the disk, as `everhold doctor` wants it."""
    with running_cluster(durable=True) as cluster:
        yield cluster


@pytest.fixture
def folder(tmp_path):
    """Where the page is followed; servers that it started are stopped, however far it came."""
    yield tmp_path
    for started in tmp_path.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(started.read_text()), signal.SIGTERM)


@pytest.mark.slow
def test_the_page_is_true_word_for_word(postgres, folder):
    database = postgres.new_database()
    text = PAGE.read_text(encoding="utf-8")
    storage = "postgresql://everhold@database/everhold?rows=/srv/everhold/rows"
    assert storage in text
    text = text.replace(storage, f"postgresql://steward@127.0.0.1:{postgres.port}/{database}?rows={folder}/rows")
    programs = Path(sys.executable).parent
    assert followed(text, programs=programs, folder=folder, PGPASSWORD=postgres.password) == 19
