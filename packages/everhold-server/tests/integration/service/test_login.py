"""Browsers come in by a token or a link, once, and leave when they like."""

import pytest
from app_samples import bearing, http_client, log_in, make, seal, token

from everhold_server.principals import Role
from everhold_server.sessions import cookie_name

ME = "/api/v1/me"


@pytest.fixture
def app(tmp_path):
    return make(seal(tmp_path, "flights"))


def link_of(app, **wanted):
    return f"/login/{app.state.token_store.link(token(app, **wanted).split('_')[1])}"


def test_a_token_that_is_pasted_opens_a_session(app):
    with http_client(app) as client:
        assert 'type="password"' in client.get("/login").text
        answer = client.post("/login", data={"token": f"  {token(app, Role.VIEWER, 'v')}\n"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert client.get(ME).json()["role"] == "viewer"


@pytest.mark.parametrize("sent", [{"token": "eh_1_2"}, {"token": ""}, {}, {"token": "x" * 201}, {"token": "\x00"}])
def test_a_wrong_token_opens_none_and_is_not_shown(app, sent):
    with http_client(app) as client:
        answer = client.post("/login", data=sent)
        assert answer.status_code in (401, 422)
        assert "set-cookie" not in answer.headers
        assert sent.get("token") in (None, "") or sent["token"] not in answer.text


def test_failures_are_counted_for_pages_and_programs_together(app):
    with http_client(app) as client:
        assert [client.post("/login", data={"token": "x"}).status_code for _ in range(21)] == [401] * 20 + [429]
        assert client.get(ME, headers=bearing("x")).status_code == 429
        log_in(client, token(app))


def test_a_link_is_used_by_its_button_alone_and_once(app):
    link = link_of(app)
    with http_client(app) as preview:
        for _ in range(3):
            assert f'action="{link}"' in preview.get(link).text
            assert preview.head(link).status_code in (200, 405)
        assert preview.get(ME).status_code == 401
    with http_client(app) as client, http_client(app) as late:
        assert client.post(link).status_code == 303
        assert client.get(ME).json()["name"] == "grace"
        again = late.post(link)
        assert again.status_code == 401
        assert late.get(ME).status_code == 401


def test_a_link_that_is_late_or_made_up_opens_nothing(app):
    link = link_of(app)
    app.state.token_store.records.clock.later(minutes=15)
    with http_client(app) as client:
        for wrong in (link, "/login/x", "/login/%00", "/login/" + "x" * 5_000):
            assert client.post(wrong).status_code == 401


def test_logging_out_ends_the_session_and_needs_its_own_page(app):
    with http_client(app) as client:
        csrf = log_in(client, token(app))
        secret = client.cookies[cookie_name(app.state.settings)]
        assert client.post("/logout").status_code == 403
        assert client.get("/logout").status_code == 405
        answer = client.post("/logout", data={"csrf": csrf})
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert client.get(ME).status_code == 401
        assert client.get(ME, headers={"cookie": f"{cookie_name(app.state.settings)}={secret}"}).status_code == 401
        assert client.post("/logout").status_code == 303


def test_over_tls_the_cookie_is_bound_to_host_and_tls(app, tmp_path):
    address = "https://holdout.example"
    secure = make(tmp_path / "s.db", address=address)
    with http_client(secure, address=address) as client:
        cookie = client.post("/login", data={"token": token(secure)}).headers["set-cookie"]
        assert cookie.startswith("__Host-everhold=")
        assert "Secure" in cookie
        assert client.get(ME).status_code == 200
        plain = client.cookies["__Host-everhold"]
        assert client.get(ME, headers={"cookie": f"everhold={plain}"}).status_code == 401
