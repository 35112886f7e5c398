"""What browsers are told, whatever the response is."""

import pytest
from app_samples import http_client, make
from fastapi.responses import PlainTextResponse

from everhold_server.middleware import POLICY


@pytest.mark.parametrize("path", ["/healthz", "/login", "/none", "/api/v1/me"])
def test_every_response_is_closed(tmp_path, path):
    with http_client(make(tmp_path / "s.db")) as client:
        headers = client.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "strict-transport-security" not in headers
    assert "server" not in headers


def test_over_tls_browsers_are_told_to_stay_there(tmp_path):
    address = "https://holdout.example"
    with http_client(make(tmp_path / "s.db", address=address), address=address) as client:
        assert "max-age=31536000" in client.get("/healthz").headers["strict-transport-security"]


def test_what_a_response_says_itself_is_kept(tmp_path):
    app = make(tmp_path / "s.db")
    app.add_api_route("/style.css", lambda: PlainTextResponse("", headers={"cache-control": "max-age=60"}))
    with http_client(app) as client:
        assert client.get("/style.css").headers["cache-control"] == "max-age=60"


def test_a_header_cannot_be_split_by_what_was_sent(tmp_path):
    with http_client(make(tmp_path / "s.db")) as client:
        answer = client.get("/login/a%0d%0aset-cookie:%20x=y", headers={"x-request-id": "a"})
        assert "set-cookie" not in answer.headers
        assert "x=y" not in str(answer.headers)
        assert answer.headers["x-request-id"] != "a"
        assert "<script>" not in client.get("/login/%3Cscript%3E").text
