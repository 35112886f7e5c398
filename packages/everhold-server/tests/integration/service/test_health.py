"""How the process is, and who may know its numbers."""

import pytest
import sqlalchemy as sa
from app_samples import http_client, make, seal, token

from everhold.ledger.schema import VERSION_TABLE
from everhold_server.principals import Role


@pytest.fixture
def app(tmp_path):
    return make(seal(tmp_path, "flights"))


def test_a_process_that_lives_and_can_answer_says_so(app):
    with http_client(app) as client:
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.get("/readyz").json() == {"status": "ready"}


def test_it_is_not_ready_for_tables_of_another_version_or_without_a_database(app, tmp_path):
    with http_client(app) as client:
        with app.state.token_store.records.writing() as connection:
            connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))
        assert client.get("/readyz").status_code == 503
        app.state.token_store.records.database.close()
        for file in tmp_path.glob("s.db*"):
            file.unlink()
        (tmp_path / "s.db").write_bytes(b"no database" * 500)
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200


def test_numbers_are_for_stewards_of_everything(app):
    with http_client(app) as client:
        assert client.get("/metrics").status_code == 401
    for role, scope, status in (
        (Role.ANALYST, None, 403),
        (Role.VIEWER, None, 403),
        (Role.STEWARD, ["flights"], 403),
        (Role.STEWARD, None, 200),
    ):
        with http_client(app, token(app, role, holdouts=scope)) as client:
            assert client.get("/metrics").status_code == status


def test_an_operator_may_open_them_to_this_machine(tmp_path, monkeypatch):
    app = make(tmp_path / "s.db", open_metrics=True)
    with http_client(app) as client:
        assert client.get("/metrics").status_code == 401  # the client of these tests has no address
        monkeypatch.setattr("everhold_server.health.LOOPBACK", ("testclient",))
        assert client.get("/metrics").status_code == 200
