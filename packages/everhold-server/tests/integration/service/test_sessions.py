"""A session is for the browser that logged in, for a while, and no longer than its token."""

import pytest
from app_samples import Clock
from starlette.responses import Response

from everhold_server.principals import Role
from everhold_server.serving import token_store_of
from everhold_server.sessions import IDLE, LASTS, Sessions, cookie_name, csrf_of, give_cookie, take_cookie
from everhold_server.settings import Settings

OPEN = Settings(storage="s.db")
SECURE = Settings(storage="s.db", address="https://holdout.example")


@pytest.fixture
def sessions(tmp_path):
    token_store = token_store_of(tmp_path / "s.db")
    token_store.records.clock = Clock()
    yield Sessions(token_store)
    token_store.records.database.close()


@pytest.fixture
def token(sessions):
    return sessions.token_store.make(Role.ANALYST, "ada", days=3, by="test").token


def test_a_session_is_found_by_its_secret_alone(sessions, token):
    secret = sessions.open(token)
    found = sessions.find(secret)
    assert found.token.id == token.id
    assert found.id != secret
    for wrong in ("", secret[:-1], secret + "A", secret.swapcase(), found.id, "A" * 43, "\ud800" * 43):
        assert sessions.find(wrong) is None


def test_every_login_makes_another_secret(sessions, token):
    assert sessions.open(token) != sessions.open(token)


def test_a_session_ends_when_nobody_is_there(sessions, token):
    secret = sessions.open(token)
    for _ in range(3):
        sessions.records.clock.time += IDLE - IDLE / 100
        assert sessions.find(secret) is not None
    sessions.records.clock.time += IDLE
    assert sessions.find(secret) is None


def test_a_session_ends_although_somebody_is_there(sessions, token):
    secret, end = sessions.open(token), sessions.records.clock() + LASTS
    while sessions.records.clock() + IDLE / 2 < end:
        sessions.records.clock.time += IDLE / 2
        assert sessions.find(secret) is not None
    sessions.records.clock.time = end
    assert sessions.find(secret) is None


def test_a_session_ends_with_its_token(sessions, token):
    secret = sessions.open(token)
    sessions.token_store.revoke(token.id)
    assert sessions.find(secret) is None
    short = sessions.token_store.make(Role.ANALYST, "ada", days=0.01, by="test").token
    secret = sessions.open(short)
    sessions.records.clock.later(minutes=15)
    assert sessions.find(secret) is None


def test_a_closed_session_stays_closed(sessions, token):
    secret, other = sessions.open(token), sessions.open(token)
    sessions.close(secret)
    sessions.close(secret)
    assert sessions.find(secret) is None
    assert sessions.find(other) is not None


def test_the_token_against_forged_requests_belongs_to_one_session(sessions, token):
    one, other = sessions.open(token), sessions.open(token)
    assert csrf_of(one) == csrf_of(one) != csrf_of(other)
    assert one not in csrf_of(one)


def test_cookies_are_for_this_host_and_no_page(sessions, token):
    response = Response()
    give_cookie(response, "secret", SECURE)
    cookie = response.headers["set-cookie"]
    assert cookie.startswith("__Host-everhold=secret;")
    assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "domain" not in cookie.lower()
    gone = Response()
    take_cookie(gone, SECURE)
    assert "Max-Age=0" in gone.headers["set-cookie"]
    assert cookie_name(OPEN) == "everhold"
