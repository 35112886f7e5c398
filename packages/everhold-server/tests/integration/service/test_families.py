"""Declared families over HTTP: created with the holdout, listed, declared later, and asked for nothing."""

import pytest
from service_samples import ADA, API, EVE, STEWARD, STUDY, as_csv, form, head, rows, seal, serving

import everhold as eh

FAMILIES = STUDY + "/families"
ENDS = {"ends": {"listed": ["delay > 15", {"mean": "delay", "low": -60, "high": 180}], "weights": [0.5, 0.5]}}


@pytest.fixture
def http_client(tmp_path):
    seal(tmp_path, mechanism=None, declared={"ends": eh.listed(["delay > 15", "delay > 60"])})
    with serving(tmp_path) as found:
        yield found


def test_members_are_listed_quoted_and_answered_for_nothing(http_client):
    (family,) = http_client(EVE).get(FAMILIES).json()["families"]
    assert (family["name"], family["declared"]) == ("ends", "at creation")
    quoted = http_client(ADA).post(STUDY + "/quote", json={"query": "delay > 60"}).json()
    assert quoted["charged_at_most"] == 0
    answer = http_client(ADA).post(STUDY + "/ask", json={"query": "delay > 60"}).json()
    assert (answer["source"], answer["charged"]) == ("declared", 0)


def test_a_steward_declares_more(http_client):
    said = http_client(STEWARD).post(FAMILIES, json={"families": {"texts": {"texts": 40}}})
    assert said.status_code == 201, said.text
    assert [family["name"] for family in said.json()["families"]] == ["ends", "texts"]
    acts = http_client(STEWARD).get(f"{API}/audit").json()["acts"]
    assert any(act["act"] == "declare a family" and act["facts"]["families"] == ["texts"] for act in acts)


WRONG = {
    "an unknown column": {"a": {"texts": 40}, "b": {"listed": ["height > 3"]}},
    "duplicates": {"b": {"listed": ["delay > 3", "delay>3"]}},
    "weights above 1": {"b": {"listed": ["delay > 3", "delay > 4"], "weights": [0.9, 0.9]}},
    "weights that are no list": {"b": {"listed": ["delay > 3"], "weights": 3}},
    "values of no column": {"b": {"subgroups": ["carrier"], "of": "delay > 3", "values": {"carier": ["AA"]}}},
    "a text of values": {"b": {"subgroups": ["carrier"], "of": "delay > 3", "values": {"carrier": "AA"}}},
    "a name that is taken": {"a": {"texts": 40}, "ends": {"texts": 40}},
    "no kind": {"b": {}},
    "members alone": {"b": {"members": 30}},
    "too many": {"b": {"listed": ["delay > 3"] * 1_001}},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_declared_changes_nothing(http_client, tmp_path, what):
    before = head(tmp_path)
    said = http_client(STEWARD).post(FAMILIES, json={"families": WRONG[what]})
    assert (said.status_code, head(tmp_path)) == (409, before), said.text


@pytest.mark.parametrize("who", [ADA, EVE])
def test_only_stewards_declare(http_client, tmp_path, who):
    before = head(tmp_path)
    said = http_client(who).post(FAMILIES, json={"families": {"texts": {"texts": 40}}})
    assert (said.status_code, head(tmp_path)) == (403, before)


def test_a_holdout_is_created_with_families(http_client):
    wanted = {"name": "second", "declared": ENDS, "share": 0.6, "allow_vacuous": True, "allow_resealing": True}
    made = http_client(STEWARD).post(
        f"{API}/holdouts", **form(wanted, part="settings", holdout=as_csv(rows(3)), training=as_csv(rows(4)))
    )
    assert made.status_code == 201, made.text
    (family,) = http_client(STEWARD).get(f"{API}/holdouts/second/families").json()["families"]
    assert family["holds"] == "2 listed queries"
    wrong = {**wanted, "name": "third", "declared": {"b": {"listed": ["height > 3"]}}}
    refused = http_client(STEWARD).post(
        f"{API}/holdouts", **form(wrong, part="settings", holdout=as_csv(rows(5)), training=as_csv(rows(6)))
    )
    alone = {name: value for name, value in wanted.items() if name != "declared"} | {"name": "third"}
    no_family = http_client(STEWARD).post(
        f"{API}/holdouts", **form(alone, part="settings", holdout=as_csv(rows(5)), training=as_csv(rows(6)))
    )
    assert (no_family.status_code, "no family is declared" in no_family.text) == (409, True)
    assert refused.status_code == 409
    assert http_client(STEWARD).get(f"{API}/holdouts/third").status_code == 404
