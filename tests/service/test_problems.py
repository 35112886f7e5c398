"""Errors leave as problem documents, wherever they were raised."""

from contextlib import contextmanager

import pytest
from service_samples import ADA, STUDY, head, seal, serving

from everhold.errors import Unavailable
from everhold.service.audit import AuditLog
from everhold.service.idempotency import Keys
from everhold.service.people import People

LOST = Unavailable("the ledger is busy")


@pytest.fixture
def visiting(tmp_path):
    seal(tmp_path)
    with serving(tmp_path) as found:
        yield found


@contextmanager
def kept_busy(app, name="study"):
    """Somebody else has the ledger of a holdout, and nobody has patience."""
    holdout = app.state.holdouts._open[name]
    database = holdout._desk.store.database
    database.patience = 0.01
    with database._turns[holdout._desk.record.id]:
        yield


def ask(client, **more):
    return client.post(STUDY + "/ask", json={"question": "delay > 15"}, **more)


def said_to_come_again(said):
    found = said.status_code, said.headers["content-type"], said.json()["title"], said.headers["retry-after"]
    return found == (503, "application/problem+json", "unavailable", "2")


def test_a_busy_ledger_says_when_to_come_again(visiting, tmp_path):
    ada = visiting(ADA)
    assert ada.post(STUDY + "/ask", json={"question": "delay > 1"}).status_code == 200
    before = head(tmp_path)
    with kept_busy(visiting.app):
        said = ask(ada, headers={"Idempotency-Key": "one"})
    assert said_to_come_again(said)
    assert "nothing was charged" in said.json()["detail"]
    assert head(tmp_path) == before
    assert ask(ada, headers={"Idempotency-Key": "one"}).json()["repeated"] is False


def test_what_is_not_there_is_said_in_words(visiting):
    ada = visiting(ADA)
    lost, wrong = ada.get(STUDY + "/nothing"), ada.delete(STUDY)
    assert [lost.status_code, wrong.status_code] == [404, 405]
    assert "nothing at this address" in lost.json()["detail"]
    assert "Allow" in wrong.json()["detail"]
    assert wrong.headers["allow"] == "GET"


DOORKEEPERS = {"recognition": (People, "recognise"), "idempotency": (Keys, "claim"), "audit": (AuditLog, "insert")}


@pytest.mark.parametrize("who", DOORKEEPERS)
def test_a_doorkeeper_whose_database_is_lost_says_the_same(visiting, monkeypatch, who):
    def lost(*_):
        raise LOST

    ada = visiting(ADA)
    with monkeypatch.context() as patch:
        patch.setattr(*DOORKEEPERS[who], lost)
        assert said_to_come_again(ask(ada, headers={"Idempotency-Key": "one"}))
    again = ask(ada, headers={"Idempotency-Key": "one"})
    assert (again.status_code, again.headers.get("idempotency-replayed")) == (200, "true" if who == "audit" else None)
