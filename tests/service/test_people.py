"""Tokens and login links let in whom they should, for as long as they should, and keep no secret."""

import hmac
import sqlite3
import threading

import pytest
from door_samples import Clock

from everhold.errors import EverholdError, QueryRejected
from everhold.service import people as module
from everhold.service.people import LINK_LASTS, said_of
from everhold.service.serving import people_of
from everhold.service.visitors import Role


@pytest.fixture
def people(tmp_path):
    found = people_of(tmp_path / "s.db")
    found.records.clock = Clock()
    yield found
    found.records.database.close()


def test_a_token_lets_its_owner_in(people):
    made = people.make(Role.ANALYST, "ada", holdouts=["flights"], by="grace")
    visitor = people.recognise(made.secret).visitor()
    assert (visitor.role, visitor.name, visitor.holdouts) == (Role.ANALYST, "ada", {"flights"})
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
def test_a_wrong_token_lets_nobody_in(people, wrong):
    made = people.make(Role.STEWARD, "grace", by="test")
    assert people.recognise(wrong(made.secret)) is None
    assert people.recognise(made.secret) is not None


def test_the_secret_is_compared_in_constant_time_whether_the_token_exists_or_not(people, monkeypatch):
    compared, truly = [], hmac.compare_digest

    def compare(one, other):
        compared.append((len(one), len(other)))
        return truly(one, other)

    monkeypatch.setattr(module.hmac, "compare_digest", compare)
    made = people.make(Role.VIEWER, "v", by="test")
    for text in (made.secret, altered(made.secret), "eh_0123456789abcdef_x", "nothing"):
        people.recognise(text)
    assert compared == [(64, 64)] * 4


def test_no_secret_is_in_the_database(people, tmp_path):
    made = people.make(Role.STEWARD, "grace", by="test")
    link = people.link(made.token.id)
    people.recognise(made.secret)
    people.records.database.close()
    with sqlite3.connect(tmp_path / "s.db") as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    kept = (tmp_path / "s.db").read_bytes()
    assert made.token.id.encode() in kept
    assert made.secret.split("_", 2)[2].encode() not in kept
    assert link.encode() not in kept


def test_a_token_ends(people):
    made = people.make(Role.ANALYST, "ada", days=1, by="test")
    people.records.clock.later(hours=23)
    assert people.recognise(made.secret) is not None
    people.records.clock.later(hours=1)
    assert people.recognise(made.secret) is None
    assert said_of(people.find(made.token.id), people.records.clock()) == "expired"


def test_a_token_is_taken_back_at_once_and_for_ever(people):
    made = people.make(Role.ANALYST, "ada", by="test")
    link = people.link(made.token.id)
    people.revoke(made.token.id)
    moment = people.find(made.token.id).revoked
    people.records.clock.later(days=1)
    people.revoke(made.token.id)
    assert people.recognise(made.secret) is None
    assert people.use_link(link) is None
    assert people.find(made.token.id).revoked == moment
    assert people.revoke("0" * 16) is None


def test_the_last_use_is_written_once_a_minute(people):
    made = people.make(Role.ANALYST, "ada", by="test")
    first = people.recognise(made.secret).used
    people.records.clock.later(seconds=59)
    assert people.recognise(made.secret).used == first
    people.records.clock.later(seconds=2)
    assert people.recognise(made.secret).used > first
    assert people.find(made.token.id).used > first


def test_a_link_is_used_once_and_in_time(people):
    made = people.make(Role.STEWARD, "root", by="test")
    link, late = people.link(made.token.id), people.link(made.token.id)
    let_in = people.use_link(link)
    assert (let_in.id, let_in.used is None) == (made.token.id, False)
    assert people.find(made.token.id).used is not None
    assert people.use_link(link) is None
    assert people.use_link("") is None
    people.records.clock.time += LINK_LASTS
    assert people.use_link(late) is None


def test_of_many_who_come_with_one_link_one_is_let_in(people):
    link, let_in, start = people.link(people.make(Role.STEWARD, "root", by="test").token.id), [], threading.Barrier(8)

    def come():
        start.wait()
        let_in.append(people.use_link(link) is not None)

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(let_in) == [False] * 7 + [True]


@pytest.mark.parametrize(
    "wish",
    [
        {"name": ""}, {"name": "a\nb"}, {"name": "x" * 101}, {"holdouts": []}, {"holdouts": ["../x"]},
        {"days": 0}, {"days": float("nan")}, {"days": 1e9}, {"days": -1},
    ],
)  # fmt: skip
def test_what_cannot_be_a_token(people, wish):
    with pytest.raises(EverholdError, match="nothing was"):
        people.make(Role.ANALYST, **{"name": "ada", **wish}, by="test")
    assert people.all() == []


def test_a_name_is_refused_as_a_question_would_be(people):
    with pytest.raises(QueryRejected):
        people.make(Role.ANALYST, "", by="test")
