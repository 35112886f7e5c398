"""Clients that hang up or come with another spelling of an address are told so, and nothing goes to plain http."""

import pytest
from app_samples import ADDRESS, bearing, make, seal, token
from starlette.testclient import TestClient


@pytest.fixture
def app(tmp_path):
    return make(seal(tmp_path, "flights"), address="https://holdout.example")


async def _hung_up(app, path, headers):
    """The status of a response to a client that leaves in the middle of its body; None if there is none."""
    begun = []
    sent = [{"type": "http.request", "body": b"token=e", "more_body": True}]

    async def receive():
        return sent.pop() if sent else {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            begun.append(message["status"])

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"holdout.example"), *((name.encode(), text.encode()) for name, text in headers.items())],
        "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 8_000), "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
    return begun[0] if begun else None


@pytest.mark.parametrize(("path", "kind", "known"), [
    ("/login", "application/x-www-form-urlencoded", False),
    ("/api/v1/plan", "application/json", True),
    ("/api/v1/holdouts/flights/quote", "application/json", True),
    ("/mcp/flights", "application/json", True),
    ("/logout", "application/x-www-form-urlencoded", False),
])  # fmt: skip
def test_a_client_that_hangs_up_is_no_fault_of_the_service(app, path, kind, known):
    headers = {"content-type": kind, "accept": "application/json", **(bearing(token(app)) if known else {})}
    with TestClient(app, ADDRESS) as client:
        status = client.portal.call(_hung_up, app, path, headers)
    assert status is None or status < 500


@pytest.mark.parametrize("path", [
    "/holdouts/", "/login/", "/api/v1/holdouts/", "/api/v1/plan/", "/healthz/", "/mcp/flights/", "/static/",
])  # fmt: skip
def test_no_redirect_leads_to_plain_http(app, path):
    with TestClient(app, "http://holdout.example", follow_redirects=False) as client:
        for method in ("GET", "POST"):
            answer = client.request(method, path, headers={**bearing(token(app)), "x-forwarded-proto": "https"})
            assert "http://" not in answer.headers.get("location", "")
            assert answer.status_code not in (307, 308), path


def test_pages_lead_to_each_other_by_path_alone(app):
    with TestClient(app, "http://holdout.example", follow_redirects=False) as client:
        answer = client.get("/", headers=bearing(token(app)))
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/")
