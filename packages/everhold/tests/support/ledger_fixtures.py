import sqlite3
from contextlib import closing

import pytest
from ledger_samples import new_study

from everhold.ledger import LedgerStore


def pytest_generate_tests(metafunc):
    """A test that needs `url` runs on both databases, or on SQLite alone if it needs a file."""
    if "url" in metafunc.fixturenames and "kind" in metafunc.fixturenames:
        server = pytest.param("postgresql", marks=pytest.mark.services)
        kinds = ["sqlite"] if "path" in metafunc.fixturenames else ["sqlite", server]
        metafunc.parametrize("kind", kinds)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


@pytest.fixture
def url(kind, tmp_path, request):
    return f"sqlite:///{tmp_path}/study.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def store(url):
    with LedgerStore.open(url) as opened:
        yield opened


@pytest.fixture
def record(store):
    return new_study(store)


@pytest.fixture
def alter(url, kind, tmp_path):
    """Runs statements as somebody who may do everything in the database."""

    def on_sqlite(*statements):
        with closing(sqlite3.connect(tmp_path / "study.db", isolation_level=None)) as raw:
            for (trigger,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                raw.execute(f"DROP TRIGGER {trigger}")
            for statement in statements:
                raw.execute(statement)

    def on_postgres(*statements):
        import psycopg

        with psycopg.connect(url.partition("?")[0], autocommit=True) as raw:
            for table in ("entries", "head", "holdouts"):
                raw.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            for statement in statements:
                raw.execute(statement)

    return on_sqlite if kind == "sqlite" else on_postgres
