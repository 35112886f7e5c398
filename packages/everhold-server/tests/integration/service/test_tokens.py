"""Stewards make tokens and take them back, and none reaches further than its maker's."""

import pytest
from app_samples import http_client, log_in, make, seal, token

from everhold.holdout import Holdout
from everhold_server.principals import Role

TOKENS = "/api/v1/tokens"


@pytest.fixture
def app(tmp_path):
    made = make(seal(tmp_path, "flights", "trains"))
    made.state.storage = tmp_path / "s.db"
    return made


def wanted(**others):
    return {"name": "ada", "holdouts": ["flights"], **others}


def test_me_says_who_comes(app):
    with http_client(app, token(app, Role.ANALYST, "ada", holdouts=["trains", "flights"], days=1)) as client:
        me = client.get("/api/v1/me").json()
    assert (me["name"], me["role"], me["holdouts"]) == ("ada", "analyst", ["flights", "trains"])
    assert (me["session"], me["expires"]) == (False, "2026-02-01T12:00:00+00:00")


def test_a_token_is_made_told_once_used_and_taken_back(app):
    with http_client(app, token(app)) as steward:
        made = steward.post(TOKENS, json=wanted(days=2))
        assert made.status_code == 201
        secret, identifier = made.json()["secret"], made.json()["id"]
        with http_client(app, secret) as client:
            assert client.get("/api/v1/me").json()["name"] == "ada"
            with http_client(app) as browser:
                log_in(browser, secret)
                revoked = steward.delete(f"{TOKENS}/{identifier}").json()
                assert revoked["state"] == "revoked"
                assert browser.get("/api/v1/me").status_code == 401
            assert client.get("/api/v1/me").status_code == 401
        listed = steward.get(TOKENS)
        assert {one["id"]: one["state"] for one in listed.json()["tokens"]}[identifier] == "revoked"
        assert secret.split("_", 2)[2] not in listed.text
        assert steward.delete(f"{TOKENS}/0000000000000000").status_code == 404


def test_a_token_is_made_together_with_its_allotment(app):
    with http_client(app, token(app)) as steward:
        made = steward.post(TOKENS, json=wanted(allotments={"flights": {"queries": 3, "charges": 1}}))
    assert made.status_code == 201
    with Holdout.open(app.state.storage, "flights") as holdout:
        assert holdout.analyst("ada").remaining == {"queries": 3, "surprises": 1}


@pytest.mark.parametrize(
    ("others", "code"),
    [
        ({"allotments": {"trains": {"queries": 3}}}, 409),  # the token does not reach it
        ({"role": "viewer", "allotments": {"flights": {"queries": 3}}}, 409),
        ({"allotments": {"flights": {"queries": -1}}}, 422),
        ({"allotments": {"flights": {"queries": 10**30}}}, 409),
        ({"holdouts": None, "allotments": {"none": {"queries": 1}}}, 404),
        ({"role": "root"}, 422),
        ({"days": 0}, 422),
        ({"name": "\n"}, 422),
        ({"name": 5}, 422),
        ({"holdouts": []}, 409),
        ({"holdouts": ["../etc"]}, 409),
        ({"unknown": 1}, 422),
    ],
)
def test_what_cannot_be_made_makes_nothing(app, others, code):
    with http_client(app, token(app)) as steward:
        before = steward.get(TOKENS).json()
        assert steward.post(TOKENS, json=wanted(**others)).status_code == code
        assert steward.get(TOKENS).json() == before
    with Holdout.open(app.state.storage, "flights") as holdout:
        assert holdout.allotments().to_rows() == []


def test_a_steward_of_one_holdout_cannot_reach_another(app):
    everything, trains = token(app), token(app, Role.STEWARD, "other", holdouts=["trains"])
    with http_client(app, token(app, holdouts=["flights"])) as steward:
        for scope in (["trains"], ["flights", "trains"]):
            assert steward.post(TOKENS, json=wanted(holdouts=scope)).status_code == 403
        made = steward.post(TOKENS, json=wanted(holdouts=None, role="steward")).json()
        assert made["holdouts"] == ["flights"]
        assert {one["name"] for one in steward.get(TOKENS).json()["tokens"]} == {"grace", "ada"}
        for text in (everything, trains):
            identifier = text.split("_")[1]
            assert steward.delete(f"{TOKENS}/{identifier}").status_code == 404
            assert app.state.token_store.find(identifier).revoked is None
        no_such = steward.post(TOKENS, json=wanted(holdouts=["flights"], allotments={"trains": {"queries": 1}}))
        assert no_such.status_code == 409


@pytest.mark.parametrize("role", [Role.ANALYST, Role.VIEWER])
def test_tokens_are_for_stewards(app, role):
    with http_client(app, token(app, role, "ada")) as client:
        for answer in (
            client.get(TOKENS), client.post(TOKENS, json=wanted()), client.delete(f"{TOKENS}/x"),
            client.get("/api/v1/audit"),
        ):  # fmt: skip
            assert answer.status_code == 403
            assert "Ask the steward" in answer.json()["detail"]


def test_the_visit_of_another_holdout_looks_like_none(app):
    principal = app.state.token_store.authenticate(token(app, Role.ANALYST, "ada", holdouts=["trains"])).principal()
    messages = []
    for name in ("flights", "never"):
        with pytest.raises(LookupError) as refused:
            app.state.holdouts.asked_by(name, principal)
        messages.append(str(refused.value).replace(name, "X"))
    assert messages[0] == messages[1]
