import pytest
from ledger_samples import new_study

from everhold.ledger import LedgerStore


def pytest_generate_tests(metafunc):
    """Whatever needs an address runs on both databases, and whatever needs a file on SQLite."""
    if "kind" in metafunc.fixturenames:
        kinds = ["sqlite"] if "path" in metafunc.fixturenames else ["sqlite", "postgresql"]
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
