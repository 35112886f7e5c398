import pytest
from ledger_samples import new_study

from everhold.ledger import LedgerStore


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


@pytest.fixture
def store(url):
    with LedgerStore.open(url) as opened:
        yield opened


@pytest.fixture
def record(store):
    return new_study(store)
