"""Hosts, bodies and numbers of requests that are too much."""

import asyncio

import anyio
import pytest
from app_samples import ADDRESS, bearing, http_client, log_in, make, seal, token
from fastapi import Request

from everhold_server.health import Metrics
from everhold_server.middleware import BodyLimitMiddleware, ConcurrencyLimitMiddleware, RateLimiter, client_of
from everhold_server.principals import Principal, Role
from everhold_server.settings import Settings

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return seal(tmp_path_factory.mktemp("s"), "flights")


class Seconds:
    time = 0.0

    def __call__(self):
        return self.time


def test_a_bucket_refills_within_a_minute():
    clock = Seconds()
    buckets = RateLimiter(60, clock)
    assert [buckets.take("a") for _ in range(60)] == [0.0] * 60
    assert buckets.take("a") == 1.0
    clock.time += 1.0
    assert (buckets.take("a"), buckets.take("a")) == (0.0, 1.0)
    clock.time += 1_000.0
    assert buckets.left("a") == 60


def test_buckets_of_strangers_do_not_pile_up(monkeypatch):
    monkeypatch.setattr("everhold_server.middleware._MOST_BUCKETS", 3)
    buckets = RateLimiter(1, Seconds())
    for name in "abcde":
        buckets.take(name)
    assert len(buckets._levels) == 3
    assert buckets.take("e") > 0


@pytest.mark.parametrize(
    ("host", "counted"),
    [("10.0.0.1", "10.0.0.1"), ("2001:db8::1", "2001:db8::/64"), ("unix:", "unix:"), (None, "")],
)
def test_clients_are_counted_by_what_they_cannot_change(host, counted):
    assert client_of({"client": None if host is None else (host, 1)}) == counted


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "127.0.0.1:8000.evil.example", ""])
def test_a_request_for_another_host_is_refused(storage, host):
    with http_client(make(storage)) as client:
        assert client.get("/login", headers={"host": host}).status_code == 400
        assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_all_names_of_this_machine_and_those_of_the_operator_are_its_own(storage):
    with http_client(make(storage, other_hosts=("Lab.example:81",))) as client:
        for host in ("127.0.0.1:8000", "LOCALHOST:8000", "[::1]:8000", "lab.example:81"):
            assert client.get("/login", headers={"host": host}).status_code == 200
    outside = Settings(storage="s.db", address="https://holdout.example")
    assert outside.hosts == {"holdout.example"}
    assert outside.origins == {"https://holdout.example"}


def test_each_token_has_its_own_number_of_requests(storage):
    app = make(storage, requests_a_minute=3)
    with http_client(app, token(app)) as client, http_client(app, token(app)) as other:
        codes = [client.get("/api/v1/me").status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        refused = client.get("/api/v1/me")
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert refused.json()["retry_after"] >= 1
        assert other.get("/api/v1/me").headers["ratelimit"] == '"requests";r=2;t=20'
        assert refused.headers["ratelimit-policy"] == '"requests";q=3;w=60'
        assert client.get("/healthz").status_code == 200


def test_a_stranger_has_fewer_and_nobody_may_request_none(storage):
    app = make(storage, strangers_a_minute=2, requests_a_minute=0)
    with http_client(app) as client, http_client(app, token(app)) as known:
        assert [client.get("/login").status_code for _ in range(3)] == [200, 200, 429]
        answers = [known.get("/api/v1/me") for _ in range(4)]
    assert {answer.status_code for answer in answers} == {200}
    assert "ratelimit" not in answers[0].headers


@pytest.fixture
def reading(storage):
    """An app with an endpoint that reads whatever it is sent, and one that swallows every error meanwhile."""
    app = make(storage, most_bytes=4_000, most_bytes_in_memory=2_000, patience=0.3)
    app.state.read = []

    @app.post("/read")
    async def read(request: Request) -> int:
        app.state.read.append(len(await request.body()))
        return app.state.read[-1]

    @app.post("/swallow")
    async def swallow(request: Request) -> str:
        try:
            await request.body()
        except BaseException:
            return "nothing happened"
        return "read"

    return app


def chunks(count):
    for _ in range(count):
        yield b"x" * 500


@pytest.mark.parametrize("path", ["/read", "/swallow"])
def test_a_body_that_is_too_large_ends_there_whatever_it_says_of_itself(reading, path):
    with http_client(reading, token(reading)) as client:
        assert client.post(path, content=b"x" * 2_000).status_code == 200
        for sent in (b"x" * 2_001, chunks(5), chunks(1_000)):
            answer = client.post(path, content=sent, headers=JSON)
            assert answer.status_code == 413
            assert answer.headers["connection"] == "close"
            assert answer.json()["title"] == "body too large"
        parts = {"content-type": "multipart/form-data; boundary=x"}
        assert client.post(path, content=chunks(8), headers=parts).status_code == 200
        assert client.post(path, content=chunks(9), headers=parts).status_code == 413
        declared = client.post(path, content=b"", headers={**parts, "content-length": "9" * 30})
        assert declared.status_code == 413
        assert "at most 4,000 bytes" in declared.json()["detail"]
    assert set(reading.state.read) <= {2_000, 4_000}


class Jumping(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to what is waited for, however busy the machine is."""

    def __init__(self):
        super().__init__()
        self._now, select = 0.0, self._selector.select

        def jump(timeout):
            self._now += timeout or 0.0
            return select(timeout and 0.0)

        self._selector.select = jump

    def time(self):
        return self._now


def behind(app, settings, messages):
    """Status and number of messages that were read, of a body that comes as these (seconds, bytes)."""
    sent, waiting = [], list(messages)

    async def receive():
        seconds, body = waiting.pop(0)
        await anyio.sleep(seconds)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    jumping = {"loop_factory": Jumping}
    anyio.run(BodyLimitMiddleware(app, settings), scope, receive, send, backend_options=jumping)
    return sent[0]["status"], len(messages) - len(waiting)


async def reader(_, receive, send):
    while (await receive())["more_body"]:
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})


PATIENT = Settings(storage="s.db", address=ADDRESS, patience=0.2, slowest=1_000)


def test_a_body_that_stands_still_ends(storage):
    assert behind(reader, PATIENT, [(0, b"x"), (30, b"x"), (0, b"")]) == (408, 2)


def test_a_body_that_drips_ends(storage):
    status, read = behind(reader, PATIENT, [(0.05, b"x")] * 1_000)
    assert status == 408
    assert read < 20


def test_a_body_that_comes_fast_enough_may_take_long(storage):
    assert behind(reader, PATIENT, [(0.05, b"x" * 200)] * 8 + [(0, b"")]) == (200, 9)


def test_of_a_stranger_hardly_anything_is_read(storage):
    app = make(storage)
    read = []

    @app.post("/read")
    async def endpoint(request: Request) -> int:
        async for chunk in request.stream():
            read.append(len(chunk))
        return sum(read)

    parts = {"content-type": "multipart/form-data; boundary=x"}
    with http_client(app) as stranger:
        assert stranger.post("/read", content=chunks(131), headers=JSON).json() == 65_500
        for path in ("/read", "/login"):
            for headers in (JSON, parts):
                read.clear()
                assert stranger.post(path, content=chunks(1_000), headers=headers).status_code == 413
                assert sum(read) <= 2**16
    with http_client(app, token(app)) as known:
        read.clear()
        assert known.post("/read", content=chunks(1_000), headers=JSON).json() == 500_000


@pytest.mark.parametrize("path", ["plan", "tokens", "holdouts/flights/unseal"])
def test_whoever_may_not_send_a_document_is_refused_before_it_is_read(storage, path):
    app = make(storage)
    with http_client(app) as stranger:
        assert stranger.post(f"/api/v1/{path}", content=chunks(3_000), headers=JSON).status_code == 401
    with http_client(app, token(app)) as known:
        assert known.post(f"/api/v1/{path}", content=chunks(3_000), headers=JSON).status_code == 413
        packed = {**JSON, "content-encoding": "gzip"}
        assert known.post(f"/api/v1/{path}", content=b"{}", headers=packed).status_code == 415


def test_a_request_of_two_lengths_is_refused(storage):
    two = {"content-length": "2", "transfer-encoding": "chunked"}
    with http_client(make(storage)) as client:
        answer = client.post("/login", content=b"{}", headers=two)
    assert (answer.status_code, answer.json()["title"]) == (400, "ambiguous body")
    assert answer.headers["connection"] == "close"


def test_one_token_has_so_many_requests_at_once_and_others_do_not_wait_for_it():
    busy, most, statuses = {"ada": 0, "bob": 0}, [], []

    async def app(scope, receive, send):
        name = scope["state"]["principal"].name
        busy[name] += 1
        most.append(dict(busy))
        await anyio.sleep(0.01)
        busy[name] -= 1

    async def send(message):
        statuses.extend([message["status"]] if "status" in message else [])

    async def all_of_them():
        limited = ConcurrencyLimitMiddleware(app, Metrics())
        async with anyio.create_task_group() as group:
            for name in ["ada"] * 120 + ["bob"]:
                principal = Principal(Role.ANALYST, name, token=name)
                group.start_soon(limited, {"type": "http", "state": {"principal": principal}}, None, send)
        assert limited._lines == {}

    anyio.run(all_of_them)
    assert max(each["ada"] for each in most) == 8
    assert next(each for each in most if each["bob"])["ada"] == 8  # bob is let in while ada's wait
    assert statuses == [429] * 12


def test_a_token_that_a_limited_steward_makes_brings_no_limits_of_its_own(tmp_path):
    app = make(seal(tmp_path, "flights"), sealings_an_hour=2)

    def minted(text, role="steward", **wanted):
        with http_client(app, text) as client:
            wanted = {"name": "grace", "role": role, "holdouts": ["flights"], **wanted}
            return client.post("/api/v1/tokens", json=wanted).json()["secret"]

    def sealing(text):
        with http_client(app, text) as client:
            return client.post("/api/v1/holdouts", files={"settings": (None, b"{}")}).status_code

    limited = token(app, holdouts=["flights"])
    first = minted(limited)
    second = minted(first)
    assert [sealing(text) for text in (limited, first, second, limited, minted(second))] == [422, 422, 429, 429, 429]
    with http_client(app) as browser:
        csrf = log_in(browser, second)
        said = browser.post("/seal", files={"csrf": (None, csrf)}, headers={"accept": "text/html"})
        assert said.status_code == 429
    whole = token(app)
    assert [sealing(minted(whole)) for _ in range(3)] == [422, 422, 422]


def test_requests_of_a_chain_of_tokens_are_counted_together(tmp_path):
    app = make(seal(tmp_path, "flights"), requests_a_minute=4)
    limited, told = token(app, holdouts=["flights"]), []
    with http_client(app, limited) as client:
        made = client.post("/api/v1/tokens", json={"name": "ada"}).json()["secret"]
        for text in (made, limited, made, limited):
            told.append(client.get("/api/v1/me", headers=bearing(text)).status_code)
        told.append(client.get("/api/v1/me", headers=bearing(token(app))).status_code)
    assert told == [200, 200, 200, 429, 200]
