"""A line for every request, and nothing in any of them that was sent or told."""

import io
import json
import logging
from types import SimpleNamespace

import anyio
import pytest
from app_samples import SECRET, bearing, http_client, log_in, make, seal, token
from fastapi import Request

from everhold.errors import EverholdError
from everhold_server.logs import JsonLines, write_logs
from everhold_server.principals import Principal, Role
from everhold_server.sessions import cookie_name


@pytest.fixture
def lines():
    """Every line that any library writes meanwhile, as the service would write it."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    before = logging.root.level
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.DEBUG)
    yield written
    logging.root.removeHandler(handler)
    logging.root.setLevel(before)


def parsed(lines, logger="everhold_server.requests"):
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [line for line in found if line["logger"] == logger]


def test_a_line_says_what_happened_and_not_what_was_sent(tmp_path, lines):
    app = make(seal(tmp_path, "flights"))
    text = token(app)
    with http_client(app, text) as client:
        answer = client.get("/api/v1/audit?limit=17&x=query-of-mine")
    (line,) = parsed(lines)
    assert line.pop("time").startswith("20")
    assert line.pop("ms") >= 0
    assert line == {
        "level": "info", "logger": "everhold_server.requests", "request": answer.headers["x-request-id"],
        "method": "GET", "route": "/api/v1/audit", "status": 422, "token": text.split("_")[1], "received": 0,
        "sent": len(answer.content),
    }  # fmt: skip
    assert "query-of-mine" not in lines.getvalue()


def test_no_secret_is_in_any_line_of_a_whole_session(tmp_path, lines):
    app = make(seal(tmp_path, "flights"))
    text = token(app)
    link = app.state.token_store.link(text.split("_")[1])
    secrets = [text, text.split("_", 2)[2], link, "body-of-mine", SECRET]
    with http_client(app) as client:
        client.get(f"/login/{link}")
        client.post(f"/login/{link}")
        client.post("/login", data={"token": text + "x", "csrf": "body-of-mine"})
        client.cookies.clear()
        csrf = log_in(client, text)
        secrets += [csrf, client.cookies[cookie_name(app.state.settings)]]
        made = client.post("/api/v1/tokens", json={"name": "body-of-mine"}, headers={"x-csrf-token": csrf})
        secrets.append(made.json()["secret"])
        client.get(f"/{csrf}?token={text}", headers={"x-mine": text})
        client.get("/api/v1/me", headers=bearing(text + "x"))
        client.post("/logout", data={"csrf": csrf})
    written = lines.getvalue()
    assert len(parsed(lines)) == 8
    assert [secret for secret in secrets if secret in written] == []
    acts = str(app.state.audit.page(Principal(Role.STEWARD, "grace"), limit=100))
    assert "login" in acts
    assert [secret for secret in secrets if secret in acts] == []


def test_a_fault_is_a_class_and_a_place(tmp_path, lines, monkeypatch):
    app = make(seal(tmp_path, "flights"))

    def fail(*_):
        raise RuntimeError(SECRET)

    monkeypatch.setattr("everhold_server.sessions.Sessions.find", fail)
    with http_client(app) as client:
        answer = client.get("/api/v1/me", headers={"cookie": "everhold=x"})
    assert answer.status_code == 500
    assert "an error in everhold" in answer.json()["detail"]
    (line,) = parsed(lines)
    assert (line["level"], line["fault"]) == ("error", "RuntimeError")
    assert any(place.startswith("everhold_server.authentication:") for place in line["places"])
    assert SECRET not in lines.getvalue() + answer.text


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_fault_of_an_endpoint_is_told_as_none_and_raised_to_nobody(tmp_path, lines, asynchronous):
    app = make(seal(tmp_path, "flights"))

    async def waiting(request: Request):
        raise ExceptionGroup(SECRET, [ValueError(SECRET)])

    def plain(request: Request):
        raise KeyError(SECRET)

    app.add_api_route("/fail", waiting if asynchronous else plain)
    with http_client(app) as client:  # which would raise what a server would log
        answer = client.get("/fail")
    assert answer.status_code == 500
    assert SECRET not in lines.getvalue() + answer.text
    assert parsed(lines)[0]["fault"] in ("ExceptionGroup", "KeyError")


def test_an_error_of_everhold_in_a_door_is_told_in_its_own_words(tmp_path, monkeypatch):
    app = make(seal(tmp_path, "flights"))

    def busy(*_):
        raise EverholdError("The ledger is busy: another process has locked it. Nothing was charged, so try again.")

    monkeypatch.setattr(app.state.token_store, "authenticate_all", busy)
    with http_client(app, "eh_1_2") as client:
        assert client.get("/api/v1/me").json()["detail"].startswith("The ledger is busy")


def test_a_fault_that_is_told_in_words_is_logged_by_its_place(tmp_path, lines, monkeypatch):
    app = make(seal(tmp_path, "flights"))

    def full(*_):
        raise EverholdError(SECRET)

    monkeypatch.setattr(app.state.token_store, "all", full)
    with http_client(app, token(app)) as client:
        assert client.get("/api/v1/tokens").status_code == 500
    (line,) = parsed(lines)
    assert line["fault"] == "EverholdError"
    assert any(place.startswith("everhold_server.api.people:") for place in line["places"])
    assert SECRET not in lines.getvalue()


def test_lines_of_other_libraries_are_kept_without_their_words():
    record = logging.LogRecord("uvicorn.error", logging.ERROR, "x.py", 1, "row %s", (SECRET,), None)
    line = json.loads(JsonLines().format(record))
    assert (line["logger"], line["level"]) == ("uvicorn.error", "error")
    assert SECRET not in str(line)


def test_a_process_writes_its_lines_and_no_others(capfd):
    before = (list(logging.root.handlers), logging.root.level)
    try:
        write_logs()
        logging.getLogger("everhold_server.requests").info("request", extra={"facts": {"status": 200}})
        logging.getLogger("some.library").info(SECRET)
        logging.getLogger("some.library").error(SECRET)
    finally:
        logging.root.handlers[:], logging.root.level = before
        logging.getLogger("everhold_server").setLevel(logging.NOTSET)
    first, second = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    assert (first["status"], second["logger"]) == (200, "some.library")
    assert SECRET not in str(second)


def test_answers_leave_at_multiples(tmp_path, monkeypatch):
    slept, app = [], make(seal(tmp_path, "flights"), answers_wait_for=0.2)

    async def sleep(seconds):
        slept.append(seconds)
        await anyio.sleep(seconds)

    monkeypatch.setattr("everhold_server.logs.anyio", SimpleNamespace(sleep=sleep))
    with http_client(app, token(app)) as client:
        took = client.post("/api/v1/tokens", json={}).elapsed.total_seconds()
        assert took >= 0.2
        assert client.get("/api/v1/me").status_code == 200
        assert len(slept) == 1
        assert client.post("/holdouts/flights/ask").elapsed.total_seconds() >= 0.2  # a page tells no more than the API
