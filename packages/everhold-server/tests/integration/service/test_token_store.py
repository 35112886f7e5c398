"""Tokens and login links let in whom they should, for as long as they should, and keep no secret."""

import hmac
import sqlite3
import threading

import pytest
from app_samples import Clock

from everhold.errors import EverholdError, QueryRejected
from everhold_server import token_store as module
from everhold_server.principals import Role
from everhold_server.serving import token_store_of
from everhold_server.token_store import LINK_LASTS, said_of


@pytest.fixture
def token_store(tmp_path):
    found = token_store_of(tmp_path / "s.db")
    found.records.clock = Clock()
    yield found
    found.records.database.close()


def test_a_token_lets_its_owner_in(token_store):
    made = token_store.make(Role.ANALYST, "ada", holdouts=["flights"], by="grace")
    principal = token_store.authenticate(made.secret).principal()
    assert (principal.role, principal.name, principal.holdouts) == (Role.ANALYST, "ada", {"flights"})
    assert made.secret.startswith(f"eh_{made.token.id}_")
    assert made.secret not in repr(made) + str(made)


def altered(text):
    return text[:-1] + ("A" if text[-1] != "A" else "B")


@pytest.mark.parametrize(
    "wrong",
    [
        altered, str.upper, lambda text: text[:-1], lambda text: text + "A", lambda _: "", lambda _: "eh__",
        lambda text: text.rpartition("_")[0], lambda text: "xx" + text[2:], lambda _: "eh_\x00_\ud800",
        lambda text: "eh_0000000000000000_" + text.split("_", 2)[2], lambda _: "eh_ffffffffffffffff_",
    ],
)  # fmt: skip
def test_a_wrong_token_lets_nobody_in(token_store, wrong):
    made = token_store.make(Role.STEWARD, "grace", by="test")
    assert token_store.authenticate(wrong(made.secret)) is None
    assert token_store.authenticate(made.secret) is not None


def test_the_secret_is_compared_in_constant_time_whether_the_token_exists_or_not(token_store, monkeypatch):
    compared, truly = [], hmac.compare_digest

    def compare(one, other):
        compared.append((len(one), len(other)))
        return truly(one, other)

    monkeypatch.setattr(module.hmac, "compare_digest", compare)
    made = token_store.make(Role.VIEWER, "v", by="test")
    for text in (made.secret, altered(made.secret), "eh_0123456789abcdef_x", "nothing"):
        token_store.authenticate(text)
    assert compared == [(64, 64)] * 4


def test_no_secret_is_in_the_database(token_store, tmp_path):
    made = token_store.make(Role.STEWARD, "grace", by="test")
    link = token_store.link(made.token.id)
    token_store.authenticate(made.secret)
    token_store.records.database.close()
    with sqlite3.connect(tmp_path / "s.db") as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    kept = (tmp_path / "s.db").read_bytes()
    assert made.token.id.encode() in kept
    assert made.secret.split("_", 2)[2].encode() not in kept
    assert link.encode() not in kept


def test_a_token_ends(token_store):
    made = token_store.make(Role.ANALYST, "ada", days=1, by="test")
    token_store.records.clock.later(hours=23)
    assert token_store.authenticate(made.secret) is not None
    token_store.records.clock.later(hours=1)
    assert token_store.authenticate(made.secret) is None
    assert said_of(token_store.find(made.token.id), token_store.records.clock()) == "expired"


def test_a_token_is_taken_back_at_once_and_for_ever(token_store):
    made = token_store.make(Role.ANALYST, "ada", by="test")
    link = token_store.link(made.token.id)
    token_store.revoke(made.token.id)
    moment = token_store.find(made.token.id).revoked
    token_store.records.clock.later(days=1)
    token_store.revoke(made.token.id)
    assert token_store.authenticate(made.secret) is None
    assert token_store.use_link(link) is None
    assert token_store.find(made.token.id).revoked == moment
    assert token_store.revoke("0" * 16) is None


def test_tokens_of_several_requests_are_recognised_together_while_somebody_writes(token_store):
    ada, bob = (token_store.make(Role.ANALYST, name, by="test") for name in ("ada", "bob"))
    token_store.revoke(bob.token.id)
    with token_store.records.writing():
        found = token_store.authenticate_all([ada.secret, bob.secret, altered(ada.secret), ada.secret])
    assert [token and token.name for token in found] == ["ada", None, None, "ada"]
    assert not token_store.is_noted(found[0])
    assert token_store.is_noted(token_store.noting_use(found[0]))


def test_the_last_use_is_written_once_a_minute(token_store):
    made = token_store.make(Role.ANALYST, "ada", by="test")
    first = token_store.authenticate(made.secret).used
    token_store.records.clock.later(seconds=59)
    assert token_store.authenticate(made.secret).used == first
    token_store.records.clock.later(seconds=2)
    assert token_store.authenticate(made.secret).used > first
    assert token_store.find(made.token.id).used > first


def test_a_link_is_used_once_and_in_time(token_store):
    made = token_store.make(Role.STEWARD, "root", by="test")
    link, late = token_store.link(made.token.id), token_store.link(made.token.id)
    let_in = token_store.use_link(link)
    assert (let_in.id, let_in.used is None) == (made.token.id, False)
    assert token_store.find(made.token.id).used is not None
    assert token_store.use_link(link) is None
    assert token_store.use_link("") is None
    token_store.records.clock.time += LINK_LASTS
    assert token_store.use_link(late) is None


def test_of_many_who_come_with_one_link_one_is_let_in(token_store):
    link, let_in, start = (
        token_store.link(token_store.make(Role.STEWARD, "root", by="test").token.id),
        [],
        threading.Barrier(8),
    )

    def come():
        start.wait()
        let_in.append(token_store.use_link(link) is not None)

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(let_in) == [False] * 7 + [True]


@pytest.mark.parametrize(
    "wanted",
    [
        {"name": ""}, {"name": "a\nb"}, {"name": "x" * 101}, {"holdouts": []}, {"holdouts": ["../x"]},
        {"days": 0}, {"days": float("nan")}, {"days": 1e9}, {"days": -1},
    ],
)  # fmt: skip
def test_what_cannot_be_a_token(token_store, wanted):
    with pytest.raises(EverholdError, match=r"name|token is|days is"):
        token_store.make(Role.ANALYST, **{"name": "ada", **wanted}, by="test")
    assert token_store.all() == []


def test_a_name_is_refused_as_a_query_would_be(token_store):
    with pytest.raises(QueryRejected):
        token_store.make(Role.ANALYST, "", by="test")
