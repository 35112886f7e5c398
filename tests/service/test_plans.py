"""Plans over HTTP are those of the library."""

import pytest
from service_samples import API, EVE, serving

import everhold as eh


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("plans")) as visiting:
        yield visiting(EVE)


def test_a_plan_is_that_of_the_library(client):
    told = client.post(API + "/plan", json={"queries": 50, "rows": 20_000, "overfits": 2}).json()
    here = eh.plan(queries=50, rows=20_000, overfits=2)
    assert {line["mechanism"]: line["radius"] for line in told["lines"]} == {
        line.mechanism: line.radius for line in here.lines
    }
    assert told["explanation"] == here.explain()


def test_dependence_is_plain_data(client):
    wish = {"queries": 50, "rows": 2_000, "overfits": 2, "dependence": {"kind": "groups", "sizes": [5] * 400}}
    assert client.post(API + "/plan", json=wish).status_code == 200


@pytest.mark.parametrize("wish", [
    {}, {"queries": 0, "rows": 10}, {"queries": 50}, {"queries": 50, "rows": -1}, {"queries": 50, "rows": 10**30},
    {"queries": 50, "rows": 100, "confidence": 2}, {"queries": 50, "rows": 100, "dependence": {"kind": "nonsense"}},
    {"queries": "many", "rows": 100}, {"queries": 50, "rows": 100, "more": 1}, {"queries": 50, "radius": 1e-300},
])  # fmt: skip
def test_a_wish_that_is_not_valid_is_refused(client, wish):
    said = client.post(API + "/plan", json=wish)
    assert (said.status_code, said.headers["content-type"]) == (422, "application/problem+json"), said.text


def test_a_plan_is_made_once(client, monkeypatch):
    made = []
    monkeypatch.setattr("everhold.service.api.plans.make_plan", lambda **wish: made.append(wish) or eh.plan(**wish))
    wish = {"queries": 51, "rows": 20_001, "overfits": 2}
    assert client.post(API + "/plan", json=wish).json() == client.post(API + "/plan", json=wish).json()
    assert len(made) == 1
