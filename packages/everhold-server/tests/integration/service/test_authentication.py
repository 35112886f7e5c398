"""Who is recognised, and which requests are taken for forged."""

import pytest
from app_samples import ADDRESS, bearing, http_client, log_in, make, seal, token

from everhold_server import authentication
from everhold_server.principals import Role
from everhold_server.sessions import cookie_name

ME = "/api/v1/me"
TOKENS = "/api/v1/tokens"
WISH = {"name": "ada"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return seal(tmp_path_factory.mktemp("s"), "flights")


@pytest.fixture
def app(storage):
    return make(storage)


@pytest.fixture
def browser(app):
    with http_client(app) as client:
        client.csrf = log_in(client, token(app))
        yield client


def test_nobody_is_let_in_by_default(app):
    with http_client(app) as client:
        refused = client.get(ME)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.headers["content-type"] == "application/problem+json"


def test_a_program_comes_with_a_token_and_needs_no_more(app):
    with http_client(app, token(app)) as client:
        assert client.get(ME).json()["session"] is False
        assert client.post(TOKENS, json=WISH, headers={"origin": "http://evil.example"}).status_code == 201


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", "Basic Z3JhY2U6c2VjcmV0")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer  ")],
        [("authorization", "Bearer eh_1_2")],
        [("authorization", "")],
        [("authorization", "RIGHT"), ("authorization", "Bearer eh_1_2")],
        [("authorization", "Bearer eh_1_2"), ("authorization", "RIGHT")],
        [("authorization", "RIGHT, RIGHT")],
    ],
)
def test_wrong_and_doubled_headers_let_nobody_in(app, headers):
    right = bearing(token(app))["authorization"]
    with http_client(app) as client:
        sent = [(name, value.replace("RIGHT", right)) for name, value in headers]
        assert client.get(ME, headers=sent).status_code == 401


def test_wrong_tokens_are_refused_unread_after_some_and_right_ones_never(app):
    with http_client(app) as client:
        codes = [client.get(ME, headers=bearing("eh_1_2")).status_code for _ in range(22)]
        assert codes[:20] == [401] * 20
        assert codes[21] == 429
        late = client.get(ME, headers=bearing("eh_1_2"))
        assert 1 <= int(late.headers["retry-after"]) <= 60
        assert client.get(ME, headers=bearing(token(app))).status_code == 200


def test_a_session_is_recognised_and_a_forged_or_replayed_cookie_is_not(app, browser):
    assert browser.get(ME).json()["session"] is True
    name, secret = cookie_name(app.state.settings), browser.cookies[cookie_name(app.state.settings)]
    assert browser.post("/logout", headers={"x-csrf-token": browser.csrf}).status_code == 303
    with http_client(app) as thief:
        for cookie in (secret, secret[::-1], "x", "", f"{secret}; {name}={secret[::-1]}"):
            assert thief.get(ME, headers={"cookie": f"{name}={cookie}"}).status_code == 401


def test_a_revoked_token_ends_its_sessions(app):
    text = token(app)
    with http_client(app) as client:
        log_in(client, text)
        assert client.get(ME).status_code == 200
        app.state.token_store.revoke(text.split("_")[1])
        assert client.get(ME).status_code == 401


def test_a_login_makes_a_new_session_and_ends_the_one_before(app):
    """Against fixation: whoever planted a cookie does not know the one that counts."""
    name = cookie_name(app.state.settings)
    with http_client(app) as client, http_client(app) as thief:
        log_in(thief, token(app, Role.VIEWER, "mallory"))
        planted = thief.cookies[name]
        client.cookies.set(name, planted)
        answer = client.post("/login", data={"token": token(app)}, headers={"cookie": f"{name}={planted}"})
        assert answer.status_code == 403  # a session's own form carries its token
        client.cookies.clear()
        log_in(client, token(app))
        first = client.cookies[name]
        again = client.post(
            "/login",
            data={"token": token(app), "csrf": authentication.csrf_of(first)},
            headers={"cookie": f"{name}={first}"},
        )
        assert again.status_code == 303
        assert again.cookies[name] not in (first, planted)
        assert thief.get(ME, headers={"cookie": f"{name}={first}"}).status_code == 401


def multipart(*fields):
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields
    )
    return {"content": f"{parts}--x--\r\n", "headers": {"content-type": "multipart/form-data; boundary=x"}}


def test_a_session_has_to_send_its_token(browser):
    csrf = browser.csrf
    good = [
        {"headers": {"x-csrf-token": csrf}},
        {"data": {"csrf": csrf}},
        {"data": {"a": "b" * 5_000, "csrf": csrf}},
        multipart(("csrf", csrf), ("a", "b" * 100_000)),
    ]
    for sent in good:
        assert browser.post("/nowhere", **sent).status_code in (404, 405), sent
    bad = [
        {},
        {"headers": {"x-csrf-token": csrf[::-1]}},
        {"headers": {"x-csrf-token": ""}, "data": {"csrf": csrf}},
        {"data": {"csrf": ""}},
        {"content": f"csrf={csrf}&csrf={csrf}", "headers": FORM},
        {"content": f"csrf={csrf}"},
        {"content": b"csrf=\xff", "headers": FORM},
        {"content": "&".join(["a=b"] * 2_000) + f"&csrf={csrf}", "headers": FORM},
        {"json": {"csrf": csrf}},
        multipart(("a", "b"), ("csrf", csrf)),
        multipart(("csrf", csrf[::-1])),
        {"params": {"csrf": csrf}},
    ]
    for sent in bad:
        assert browser.post("/nowhere", **sent).status_code == 403, sent
        assert browser.delete("/nowhere").status_code == 403


def test_the_body_of_a_form_is_still_there_after_it_was_looked_at(app, browser):
    text = token(app)
    again = browser.post("/login", data={"token": text, "csrf": browser.csrf})
    assert again.status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ADDRESS.replace("http", "https")},
        {"origin": ADDRESS + "0"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
def test_requests_of_other_sites_are_refused_before_and_after_a_login(app, browser, headers):
    with_token = {**headers, "x-csrf-token": browser.csrf}
    assert browser.post("/logout", headers=with_token).status_code == 403
    assert browser.get(ME).status_code == 200
    with http_client(app) as stranger:  # else others could log a browser in as themselves
        answer = stranger.post("/login", data={"token": token(app)}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_without_the_check_the_forged_request_would_be_done(browser, monkeypatch):
    assert browser.post(TOKENS, json=WISH).status_code == 403
    monkeypatch.setattr(authentication.hmac, "compare_digest", lambda *_: True)
    assert browser.post(TOKENS, json=WISH).status_code == 201
