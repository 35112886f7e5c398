"""Every act is in the log before anybody hears of it, with who and what, and no secret."""

import asyncio

import pytest
from app_samples import http_client, make, seal, token

from everhold.errors import EverholdError
from everhold.holdout import Holdout
from everhold_server.principals import Role

AUDIT = "/api/v1/audit"
ASKED = {"query": "delay > 5", "guess": 0.5}


@pytest.fixture
def app(tmp_path):
    return make(seal(tmp_path, "flights", "trains"))


def acts(app, **wanted):
    with http_client(app, token(app, **wanted)) as steward:
        return steward.get(AUDIT).json()["acts"]


def test_an_act_says_who_did_what_with_which_holdout_and_how_it_ended(app, tmp_path):
    with Holdout.open(tmp_path / "s.db", "flights") as holdout:
        holdout.allot("ada", queries=5)
    text = token(app, Role.ANALYST, "ada")
    with http_client(app, text) as client:
        heard = client.post("/api/v1/holdouts/flights/ask", json=ASKED)
        client.post("/api/v1/tokens", json={"name": "x"})
        client.post("/api/v1/holdouts/flights/quote", json=ASKED)
        client.get("/api/v1/me")
    refused, asked = acts(app)
    number = asked.pop("number")
    assert asked == {
        "at": "2026-01-31T12:00:00+00:00", "request": heard.headers["x-request-id"], "name": "ada",
        "token": text.split("_")[1], "act": "ask", "holdout": "flights", "outcome": "guess",
        "facts": {"status": 200, "query": heard.json()["query"]},
    }  # fmt: skip
    assert (refused["act"], refused["outcome"], refused["number"]) == ("POST /api/v1/tokens", "not done", number + 1)


def test_logins_are_acts_also_those_that_fail(app):
    with http_client(app) as client:
        client.post("/login", data={"token": "eh_1_2"})
        client.post("/login", data={"token": token(app)})
    entered, refused = acts(app)
    assert (refused["act"], refused["outcome"], refused["name"]) == ("login", "refused", "")
    assert (entered["act"], entered["outcome"], entered["name"]) == ("login", "in", "grace")


def test_the_log_is_for_stewards_and_of_their_holdouts(app):
    text = token(app, Role.ANALYST, "ada")
    with http_client(app, text) as client:
        for name in ("flights", "trains"):
            client.post(f"/api/v1/holdouts/{name}/ask")
        assert client.get(AUDIT).status_code == 403
    assert {act["holdout"] for act in acts(app)} == {"flights", "trains"}
    assert {act["holdout"] for act in acts(app, holdouts=["trains"])} == {"trains"}


def test_pages_follow_each_other(app):
    with http_client(app, token(app)) as client:
        for _ in range(5):
            client.post("/api/v1/holdouts/flights/ask")
        seen, before = [], None
        while True:
            page = client.get(AUDIT, params={"limit": 2, **({} if before is None else {"before": before})}).json()
            seen += [act["number"] for act in page["acts"]]
            before = page["next"]
            if before is None:
                break
        assert seen == sorted(seen, reverse=True)
        assert len(seen) == 5
        for wrong in ({"limit": 0}, {"limit": 10_000}, {"before": -1}, {"before": 2**40}, {"before": "x"}):
            assert client.get(AUDIT, params=wrong).status_code == 422


def test_what_cannot_be_written_is_not_told(app, monkeypatch):
    def fail(_):
        raise EverholdError(
            "The ledger cannot be written: the disk is full or fails. Nothing was charged. Free some space."
        )

    monkeypatch.setattr(app.state.audit, "insert", fail)
    with http_client(app, token(app)) as client:
        answer = client.post("/api/v1/holdouts/flights/ask")
        assert answer.status_code == 500
        assert "flights" not in answer.text
        assert client.get("/api/v1/me").status_code == 200


def test_acts_that_wait_together_are_written_together(app):
    log, batches = app.state.audit, []
    truly = log.insert
    log.insert = lambda rows: (batches.append(len(rows)), truly(rows))

    async def all_at_once():
        row = {"request": "", "name": "", "token": "", "act": "x", "holdout": None, "outcome": "", "facts": "{}"}
        await asyncio.gather(*(log.write({**row, "outcome": str(number)}) for number in range(50)))

    asyncio.run(all_at_once())
    assert sum(batches) == 50
    assert len(batches) <= 2
    assert len(acts(app)) == 50


def test_a_flood_of_refusals_is_not_written(tmp_path):
    app = make(seal(tmp_path, "flights"), requests_a_minute=2)
    with http_client(app, token(app)) as client:
        codes = [client.post("/api/v1/tokens", json={}).status_code for _ in range(10)]
    assert codes.count(429) == 8
    assert len(acts(app)) == 2
