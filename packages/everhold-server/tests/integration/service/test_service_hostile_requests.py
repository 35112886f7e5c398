"""Whatever strangers, analysts and forgers send: no fault, no secret, nothing charged, and the memory stays.

``HOSTILE_REQUESTS=10000`` sends more, and prints what came of
them.
"""

import io
import json
import logging
import os
import random
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from app_samples import bearing, http_client, make, token
from service_samples import API, head, left_behind, storage

from everhold import Holdout
from everhold.asking.creation import settings_from
from everhold_server.principals import Role
from everhold_server.sessions import csrf_of

MANY = int(os.environ.get("HOSTILE_REQUESTS", "400"))
BATCH = 100
SECRET, CELL = "ZEBRA77", 12_345.678_901
OTHERS, STEWARD = ("zoe", "elsewhere"), "steward"
ASK = f"{API}/holdouts/study/ask"
DECLARED = {200, 201, 202, 204, 303, 400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 421, 422, 429}
UNSAFE = [
    ("POST", f"{API}/{path}") for path in (
        "plan", "verify", "tokens", "holdouts", "holdouts/study/quote",
        "holdouts/study/submissions", "holdouts/study/submissions/check", "holdouts/study/gates",
        "holdouts/study/gates/gate/challenges", "holdouts/study/unseal", "holdouts/elsewhere/ask",
        "holdouts/nowhere/ask", "holdouts/elsewhere/unseal",
    )
] + [
    ("PUT", f"{API}/holdouts/study/allotments/ada"), ("DELETE", f"{API}/tokens/x"),
    ("POST", "/login"), ("POST", "/login/x"), ("POST", "/logout"), ("POST", "/mcp/study"), ("POST", "/mcp/elsewhere"),
    ("POST", "/verify"), ("POST", "/tokens"), ("POST", "/tokens/x/revoke"), ("POST", "/seal"),
    ("POST", "/holdouts/study/quote"), ("POST", "/holdouts/study/gates"), ("POST", "/holdouts/study/gates/challenge"),
    ("POST", "/holdouts/study/submit"), ("POST", "/holdouts/study/unseal"), ("POST", "/holdouts/study/publish"),
    ("POST", "/holdouts/elsewhere/ask"), ("PATCH", f"{API}/holdouts/study"), ("POST", "/%2e%2e/%2e%2e/etc/passwd"),
]  # fmt: skip
"""Every unsafe route that charges and seals nothing for what is sent here; ask has tests of its own below."""


def rows(seed):
    rng = np.random.default_rng(seed)
    kind = rng.choice(np.array(["a", "b"]), 1_000).astype(object)
    delay = rng.normal(5.0, 30.0, 1_000)
    if seed == 0:
        kind[17], delay[17] = SECRET, CELL
    ids = [f"{seed}-{number}" for number in range(1_000)]
    return {"id": ids, "delay": delay, "kind": kind, "late": (delay > 15).astype(int)}


def sealed(folder):
    """A study of ada and bob, and a holdout that none of them may see."""
    wanted = {"label": "late", "row_id": "id", "mechanism": "guess_and_check", "queries": 100, "surprises": 5}
    for name, analysts in {"study": ("ada", "bob"), OTHERS[1]: (OTHERS[0],)}.items():
        made = Holdout.create(
            storage(folder), name, holdout=rows(0), training=rows(1),
            **settings_from({**wanted, "allow_resealing": True}),
        )  # fmt: skip
        with made:
            for analyst in analysts:
                made.allot(analyst, queries=20, charges=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("hostile")
    sealed(made)
    return made


@pytest.fixture(scope="module")
def app(folder):
    free = dict.fromkeys(("strangers_a_minute", "requests_a_minute", "failures_a_minute"), 0)
    return make(folder / "study.db", **free)


@pytest.fixture(scope="module")
def client(app):
    with http_client(app) as found:
        yield found


@pytest.fixture(scope="module")
def senders(app):
    """Everybody who might send something: the headers that say who they are."""
    known = {
        STEWARD: (Role.STEWARD, "grace", "study"), "ada": (Role.ANALYST, "ada", "study"),
        "bob": (Role.ANALYST, "bob", "study"), "eve": (Role.VIEWER, "eve", "study"),
        "zoe": (Role.ANALYST, "zoe", "elsewhere"),
    }  # fmt: skip
    tokens = {who: token(app, role, name, holdouts=[scope]) for who, (role, name, scope) in known.items()}
    return {"stranger": {}, "forger": bearing("eh_x_y"), **{who: bearing(text) for who, text in tokens.items()}}


def zip_bomb():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("predictions.csv", b"0" * 2**24)
    return packed.getvalue()


FILES = (
    zip_bomb(), b"PAR1" + b"\xff" * 60 + b"PAR1", b"ARROW1\0\0" + b"\xff" * 60, b"\xff\xfei\0d\0", b"\0" * 1_000, b"",
    b"id,prediction\n\xff\xfe", b"id,prediction\n0-1,nan\n", b"id,prediction\n0-1,1e999\n", b"id\n",
    b"id,prediction\n" + b"0-1,1\n" * 3_000, b"," * 2_000_000, b"id,prediction\n0-1," + b"9" * 100_000,
    b"=cmd|' /C calc'!A0,prediction\n",
)  # fmt: skip
VALUES = (
    None, True, -1, 0, 2**63, 10**400, 1e308, -0.0, "", "Study", "elsewhere", "../../etc/passwd", "\0", "\ud800",
    "a" * 5_000, "delay > 15", "delay >", "'" * 999, f"kind = '{SECRET}'", "((((" * 300, "{{7*7}}", "<script>", "%00",
    "\u202eada", [], {}, [[[[]]]], {"file": "predictions"}, {"kind": "mean", "of": "delay", "low": 0, "high": 1},
    {"kind": "statistic", "of": "__import__('os')"},
    {"kind": "choose", "of": "highest", "queries": ["delay > 1"] * 500},
    {"kind": "histogram", "of": "delay", "edges": list(range(10_000))}, {"kind": "groups", "sizes": [1] * 1_000},
)  # fmt: skip
NAMES = (
    "query", "queries", "guess", "tolerance", "silent", "predictions", "training", "candidate", "champion", "team",
    "name", "role", "holdouts", "allotments", "days", "queries", "rows", "surprises", "confirm", "url", "events",
    "token",
    "holdout", "settings", "csrf", "kind", "of", "metric", "margin", "signature", "jsonrpc", "method", "params", "id",
)  # fmt: skip


def written(value, chance):
    text = json.dumps(value, allow_nan=True)
    return chance.choice((text, text, text, text[: len(text) // 2], text.replace("1", "NaN"), "[" * 5_000 + text))


def body(chance):
    """Content and type of something that somebody might send."""
    document = {chance.choice(NAMES): chance.choice(VALUES) for _ in range(chance.randrange(5))}
    kind = chance.randrange(5)
    if kind == 0:
        bound = chance.choice((b"bound", b"b", b"x" * 70))
        name, file = chance.choice(NAMES).encode(), chance.choice(FILES)
        disposition = b'Content-Disposition: form-data; name="%s"; filename="../../%s"' % (name, name)
        parts = [b'Content-Disposition: form-data; name="csrf"\r\n\r\n' + b"0" * 64, disposition + b"\r\n\r\n" + file]
        content = b"".join(b"--%s\r\n%s\r\n" % (bound, part) for part in parts) + b"--%s--\r\n" % bound
        return content[
            : chance.choice((len(content), len(content) // 2))
        ], "multipart/form-data; boundary=" + bound.decode()
    if kind == 1:
        return chance.randbytes(chance.randrange(300)), chance.choice(("application/json", "text/html", "", "*/*"))
    if kind == 2:
        return written(chance.choice(VALUES), chance).encode(), "application/json"
    if kind == 3:
        return b"&".join(b"%s=%s" % (name.encode(), b"%00a") for name in chance.sample(NAMES, 3)), (
            "application/x-www-form-urlencoded"
        )
    return written(document, chance).encode(), "application/json"


def headers(chance):
    """Headers that proxies, forgers and machines send."""
    odd = {
        "x-forwarded-for": "127.0.0.1", "x-forwarded-host": "evil.example", "x-http-method-override": "DELETE",
        "origin": "https://evil.example", "content-encoding": "gzip",
        "cookie": f"everhold={'A' * 43}", "accept": "text/html", "sec-fetch-site": "cross-site", "range": "bytes=0-0",
        "x-csrf-token": "0" * 64, "expect": "100-continue", "accept-encoding": "gzip;q=0",
    }  # fmt: skip
    return {name: odd[name] for name in chance.sample(sorted(odd), chance.randrange(4))}


class Heard(logging.Handler):
    """All that was logged, as texts."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.said = []

    def emit(self, record):
        self.said.append(f"{record.getMessage()} {record.__dict__}")


@pytest.fixture
def heard():
    handler = Heard()
    logging.root.addHandler(handler)
    yield handler.said
    logging.root.removeHandler(handler)


def resident():
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def secrets_of(folder):
    keys = [path.read_bytes() for path in folder.rglob("steward.key")]
    return [str(CELL), str(folder), *(key.hex() for key in keys)]


@pytest.mark.slow
def test_nothing_that_is_sent_breaks_tells_or_costs_anything(folder, client, senders, heard, capsys):
    chance, statuses, sizes = random.Random(14), Counter(), []
    hidden, before = secrets_of(folder), [head(folder, name) for name in ("study", OTHERS[1])]
    for number in range(MANY):
        who, (method, path) = chance.choice(sorted(senders)), chance.choice(UNSAFE)
        content, kind = body(chance)
        client.cookies.clear()
        said = client.request(
            method, path, content=content, headers={"content-type": kind, **headers(chance), **senders[who]}
        )  # fmt: skip
        statuses[said.status_code] += 1
        assert said.status_code in DECLARED, (who, method, path, content[:300], said.text)
        if who == STEWARD and said.status_code < 300 and path.endswith(("/gates", "/ada")):  # which is for them to do
            before = [head(folder, name) for name in ("study", OTHERS[1])]
        told = said.text + str(said.headers)
        assert not [secret for secret in hidden if secret in told]
        assert SECRET not in told or SECRET.encode() in content
        if who != "zoe" and "elsewhere" not in path and b"elsewhere" not in content:
            assert not [name for name in OTHERS if name in told], (who, path, told)
        if number % BATCH == BATCH - 1:
            assert [head(folder, name) for name in ("study", OTHERS[1])] == before
            assert left_behind(folder) == []
            sizes.append(resident())
    logged = " ".join(heard)
    assert not [secret for secret in (SECRET, *hidden) if secret in logged]
    assert sizes[-1] - sizes[len(sizes) // 2] < 50
    with capsys.disabled():
        if MANY > 1_000:
            print(f"\n{MANY} requests: {dict(sorted(statuses.items()))}; MiB {[round(size) for size in sizes]}")  # noqa: T201


def cookies_of(client, text):
    assert client.post("/login", data={"token": text}).status_code == 303
    return dict(client.cookies)


def test_forged_old_and_other_peoples_cookies_let_nobody_in(app, client, folder):
    before = head(folder)
    text = token(app, Role.ANALYST, "ada", holdouts=["study"])
    client.cookies.clear()
    first = cookies_of(client, text)["everhold"]
    assert client.post("/logout", headers={"x-csrf-token": csrf_of(first)}).status_code == 303
    second = cookies_of(client, text)["everhold"]
    client.cookies.clear()
    asked = {"query": "delay > 15"}
    forged = (
        first,
        second[:-1],
        second + "A",
        second.swapcase(),
        "A" * 43,
        "",
        f"{second}; everhold=x",
        "eh_" + second,
    )
    for cookie in forged:
        said = client.post(ASK, json=asked, headers={"cookie": f"everhold={cookie}"})
        assert said.status_code == 401, cookie
    said = client.post(ASK, json=asked, headers={"cookie": f"everhold={second}"})
    assert (said.status_code, said.json()["title"]) == (403, "forged request")
    app.state.token_store.records.clock.later(hours=13)
    assert client.get(f"{API}/me", headers={"cookie": f"everhold={second}"}).status_code == 401
    assert head(folder) == before
