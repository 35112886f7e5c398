"""Tables poured into each engine of the tests."""

import pytest
from cli_fixtures import everhold, sealed_study, study
from engine_tables import in_clickhouse, in_postgres, in_spark

ENGINES = [
    pytest.param("spark", marks=pytest.mark.services), "clickhouse",
    pytest.param("postgresql", marks=pytest.mark.services),
]  # fmt: skip


@pytest.fixture(params=ENGINES)
def poured(request, tmp_path):
    """Makes an engine on rows."""
    made = []

    def pour(columns):
        table = f"study_{len(made)}"
        if request.param == "spark":
            engine = in_spark(request.getfixturevalue("spark"), tmp_path / table, columns)
        elif request.param == "clickhouse":
            engine = in_clickhouse(request.getfixturevalue("clickhouse"), tmp_path / table, columns, table)
        else:
            engine = in_postgres(request.getfixturevalue("postgres_database"), columns, table)
        made.append(engine)
        return engine

    yield pour
    for engine in made:
        engine.close()


__all__ = ["everhold", "sealed_study", "study"]
