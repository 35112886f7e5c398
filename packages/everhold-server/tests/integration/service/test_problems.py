"""Errors leave as problem documents, wherever they were raised."""

from contextlib import contextmanager

import pytest
from service_samples import ADA, STUDY, head, seal, serving

from everhold.errors import Unavailable
from everhold_server.audit import AuditLog
from everhold_server.token_store import TokenStore

LOST = Unavailable("The ledger is busy")


@pytest.fixture
def http_client(tmp_path):
    seal(tmp_path)
    with serving(tmp_path) as found:
        yield found


@contextmanager
def kept_busy(app, name="study"):
    """Somebody else has the ledger of a holdout, and nobody has patience."""
    holdout = app.state.holdouts._open[name]
    database = holdout._executor.store.database
    with database.transaction(writing=True, turn=holdout._executor.record.id):
        database.patience = app.state.token_store.records.database.patience = 0.01  # the second is the audit log's
        yield


def ask(client, **more):
    return client.post(STUDY + "/ask", json={"query": "delay > 15"}, **more)


def said_to_come_again(said):
    found = said.status_code, said.headers["content-type"], said.json()["title"], said.headers["retry-after"]
    return found == (503, "application/problem+json", "unavailable", "2")


def test_a_busy_ledger_says_when_to_come_again(http_client, tmp_path):
    ada = http_client(ADA)
    assert ada.post(STUDY + "/ask", json={"query": "delay > 1"}).status_code == 200
    before = head(tmp_path)
    with kept_busy(http_client.app):
        said = ask(ada)
    assert said_to_come_again(said)
    assert "Nothing was charged" in said.json()["detail"]
    assert head(tmp_path) == before
    assert ask(ada).json()["repeated"] is False


def test_what_is_not_there_is_said_in_words(http_client):
    ada = http_client(ADA)
    lost, wrong = ada.get(STUDY + "/nothing"), ada.delete(STUDY)
    assert [lost.status_code, wrong.status_code] == [404, 405]
    assert "nothing at this address" in lost.json()["detail"]
    assert "Allow" in wrong.json()["detail"]
    assert wrong.headers["allow"] == "GET"


MIDDLEWARE = {
    "recognition": (TokenStore, "authenticate_all"),
    "audit": (AuditLog, "insert"),
}


@pytest.mark.parametrize("who", MIDDLEWARE)
def test_a_middleware_whose_database_is_lost_says_the_same(http_client, monkeypatch, who):
    def lost(*_):
        raise LOST

    ada = http_client(ADA)
    with monkeypatch.context() as patch:
        patch.setattr(*MIDDLEWARE[who], lost)
        assert said_to_come_again(ask(ada))
    again = ask(ada)
    assert (again.status_code, again.json()["repeated"]) == (200, who == "audit")  # charged once
