"""External services for tests: a PostgreSQL server, Spark, an embedded ClickHouse."""

import os

import pytest

_MISSING = "PostgreSQL is not installed; on Debian: apt-get install postgresql, or make services"
_NO_JAVA = "Java is not installed, which Spark needs; on Debian: apt-get install default-jre-headless, or make services"


@pytest.fixture(scope="session")
def postgres_installed():
    """Skips a test where PostgreSQL is not installed; where everything has to be, it fails."""
    from postgres_cluster import programs

    if programs() is None:
        if os.environ.get("CI") == "true":
            pytest.fail(_MISSING)
        pytest.skip(_MISSING)


@pytest.fixture(scope="session")
def postgres(postgres_installed):
    """A PostgreSQL server that ends with the tests."""
    from postgres_cluster import running_cluster

    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def postgres_url(postgres, tmp_path):
    """The address of a new, empty storage on PostgreSQL."""
    name = postgres.new_database()
    yield postgres.url(name, rows=tmp_path / "rows")
    postgres.drop(name)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A local Spark that ends with the tests, where Java is installed; where everything has to be, it fails."""
    from engine_tables import java_installed, running_spark

    if not java_installed():
        if os.environ.get("CI") == "true":
            pytest.fail(_NO_JAVA)
        pytest.skip(_NO_JAVA)
    with running_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def clickhouse(tmp_path):
    """A client of an embedded ClickHouse on a folder of its own."""
    from engine_tables import clickhouse_client

    with clickhouse_client(tmp_path / "clickhouse") as client:
        yield client


@pytest.fixture
def postgres_database(postgres):
    """The address of a new, empty database."""
    name = postgres.new_database()
    yield postgres.url(name)
    postgres.drop(name)
