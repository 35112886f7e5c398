"""What tests of several rooms share: a PostgreSQL server, and databases on it."""

import os

import pytest
from postgres_cluster import programs, running_cluster

collect_ignore = ["conftest.py"]  # whose examples are looked for otherwise, under a name that others have, too
_MISSING = "PostgreSQL is not installed; on Debian: apt-get install postgresql, or make services"


@pytest.fixture(scope="session")
def postgres_installed():
    """Skips a test where PostgreSQL is not installed; where everything has to be, it fails."""
    if programs() is None:
        if os.environ.get("CI") == "true":
            pytest.fail(_MISSING)
        pytest.skip(_MISSING)


@pytest.fixture(scope="session")
def postgres(postgres_installed):
    """A PostgreSQL server that ends with the tests."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def postgres_url(postgres, tmp_path):
    """The address of a new, empty storage on PostgreSQL."""
    name = postgres.new_database()
    yield postgres.url(name, rows=tmp_path / "rows")
    postgres.drop(name)
