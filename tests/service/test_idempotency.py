"""A request with a key happens once, whoever is killed in between."""

import threading
import time

import pytest
from door_samples import bearing, make, seal, token, visiting
from fastapi import Request, Response

from everhold.service.idempotency import KEPT, LEASE, Keys
from everhold.service.visitors import Analyst, Role


@pytest.fixture
def app(tmp_path):
    made = make(seal(tmp_path, "flights"))
    made.state.done = []

    @made.post("/api/v1/act")
    async def act(request: Request, _: Analyst) -> Response:
        body = await request.body()
        made.state.done.append(body)
        code = int(request.headers.get("x-code", 201))
        return Response(b"done %d" % len(made.state.done), code, headers={"location": "/x", "x-other": "y"})

    @made.delete("/api/v1/act")
    def delete(_: Analyst) -> str:
        made.state.done.append(b"")
        return "gone"

    @made.post("/api/v1/fail")
    def fail(_: Analyst) -> None:
        made.state.done.append(b"")
        raise RuntimeError

    return made


@pytest.fixture
def client(app):
    with visiting(app, token(app)) as found:
        yield found


def key(value="k", **others):
    return {"headers": {"idempotency-key": value, **others}}


def test_the_same_request_is_told_the_same_and_done_once(app, client):
    first, second = (client.post("/api/v1/act", content=b"body", **key()) for _ in range(2))
    assert (first.text, first.status_code, app.state.done) == ("done 1", 201, [b"body"])
    assert (second.text, second.status_code, second.headers["location"]) == ("done 1", 201, "/x")
    assert second.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert client.post("/api/v1/act", content=b"body", **key("other")).text == "done 2"


def test_without_a_key_it_is_done_twice(app, client):
    for _ in range(2):
        client.post("/api/v1/act", content=b"body")
    assert len(app.state.done) == 2


def test_another_request_with_the_key_is_refused(app, client):
    client.post("/api/v1/act", content=b"body", **key())
    others = [
        client.post("/api/v1/act", content=b"other", **key()),
        client.post("/api/v1/act?x=1", content=b"body", **key()),
        client.post("/api/v1/act", content=b"body", **key(**{"content-type": "text/csv"})),
        client.post("/api/v1/fail", content=b"body", **key()),
        client.delete("/api/v1/act", **key()),
    ]
    assert [other.status_code for other in others] == [422] * 5
    assert len(app.state.done) == 1
    assert "was used with another request" in others[0].json()["detail"]


def test_keys_belong_to_a_token(app, client):
    client.post("/api/v1/act", content=b"body", **key())
    mine = bearing(token(app, Role.ANALYST, "ada"))
    assert client.post("/api/v1/act", content=b"body", headers={**mine, "idempotency-key": "k"}).text == "done 2"
    assert client.post("/api/v1/act", headers={"authorization": "Bearer x", "idempotency-key": "k"}).status_code == 401


def test_a_request_without_a_body_counts(app, client):
    assert [client.delete("/api/v1/act", **key()).status_code for _ in range(2)] == [200, 200]
    assert len(app.state.done) == 1


@pytest.mark.parametrize("path", ["/api/v1/fail", "/api/v1/act"])
def test_faults_are_not_kept(app, client, path):
    for _ in range(2):
        assert client.post(path, **key(**{"x-code": "503"})).status_code >= 500
    assert len(app.state.done) == 2


@pytest.mark.parametrize("value", ["", "x" * 201, "a b", "\xe4"])
def test_what_is_no_key_is_refused(app, client, value):
    assert client.post("/api/v1/act", headers={"idempotency-key": value.encode("latin-1")}).status_code == 400
    assert client.post("/api/v1/act", headers=[("idempotency-key", "a"), ("idempotency-key", "b")]).status_code == 400
    assert app.state.done == []


def parts(boundary, content):
    body = f'--{boundary}\r\nContent-Disposition: form-data; name="f"\r\n\r\n{content}\r\n--{boundary}--\r\n'.encode()
    chunked = (body[at : at + 7] for at in range(0, len(body), 7))  # boundaries lie across chunks
    return {"content": chunked, **key(**{"content-type": f"multipart/form-data; boundary={boundary}"})}


def test_an_upload_is_the_same_under_another_boundary(app, client):
    content = "x" * 1_000
    assert client.post("/api/v1/act", **parts("aaaa", content)).text == "done 1"
    assert client.post("/api/v1/act", **parts("bbbb-bbbb", content)).text == "done 1"
    assert client.post("/api/v1/act", **parts("cccc", content + "y")).status_code == 422


def test_a_second_one_waits_for_the_first(app, client):
    keys = Keys(app.state.people.records)
    name = client.get("/api/v1/me").json()["token"]
    lease = keys.claim(name, "k")
    waiting = client.post("/api/v1/act", content=b"body", **key())
    assert (waiting.status_code, waiting.headers["retry-after"]) == (409, "2")
    keys.end(name, "k", "no lease of this one", None)
    assert client.post("/api/v1/act", content=b"body", **key()).status_code == 409
    keys.end(name, "k", lease, None)
    assert client.post("/api/v1/act", content=b"body", **key()).status_code == 201


def test_a_process_that_dies_locks_nothing_for_ever(app, client):
    keys, clock = Keys(app.state.people.records), app.state.people.records.clock
    name = client.get("/api/v1/me").json()["token"]
    dead = keys.claim(name, "k")
    clock.time += LEASE
    assert client.post("/api/v1/act", content=b"body", **key()).text == "done 1"
    keys.end(name, "k", dead, None)  # it was not dead after all: what is kept is not its own any more
    assert client.post("/api/v1/act", content=b"body", **key()).text == "done 1"


def test_what_is_kept_is_forgotten_after_a_day(app, client):
    client.post("/api/v1/act", **key())
    app.state.people.records.clock.time += KEPT - LEASE
    assert client.post("/api/v1/act", **key()).text == "done 1"
    app.state.people.records.clock.time += LEASE
    assert client.post("/api/v1/act", **key()).text == "done 2"


def test_many_at_once_are_one(app):
    keys = Keys(app.state.people.records)
    claims, start = [], threading.Barrier(8)

    def claim():
        start.wait()
        claims.append(keys.claim("t", "k"))
        time.sleep(0.01)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one is not None for one in claims) == 1


def test_a_secret_is_told_once_and_not_kept(app, client):
    wish = {"json": {"name": "ada"}, **key()}
    first, second = client.post("/api/v1/tokens", **wish), client.post("/api/v1/tokens", **wish)
    assert first.json()["secret"].startswith("eh_")
    assert (second.status_code, second.json()["secret"], second.json()["id"]) == (201, None, first.json()["id"])


def test_what_changes_nothing_is_not_kept(tmp_path):
    app = make(seal(tmp_path, "flights"))
    with visiting(app, token(app, Role.VIEWER, "eve")) as client:
        wish = {"queries": 5, "rows": 2_000, "overfits": 1}
        told = [client.post("/api/v1/plan", json=wish, headers={"idempotency-key": "k"}) for _ in range(2)]
    assert [said.status_code for said in told] == [200, 200]
    assert "idempotency-replayed" not in told[1].headers
