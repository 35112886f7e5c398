"""A study ends over HTTP only with its name, by a steward; then everything is told and nothing new is answered."""

import json

import pytest
from service_samples import ADA, STEWARD, STUDY, as_csv, head, rows, seal, serving


@pytest.fixture
def http_client(tmp_path):
    seal(tmp_path)
    seal(tmp_path, "other", allot=())
    with serving(tmp_path) as found:
        found(ADA).post(STUDY + "/ask", json={"query": "delay > 15"})
        yield found


def test_what_loses_its_promise_is_told_before_and_warned_of(http_client):
    (losing,) = http_client(STEWARD).get(STUDY + "/unseal").json()["affected_holdouts"]
    assert "'other'" in losing
    told = http_client(STEWARD).post(STUDY + "/unseal", json={"confirm": "study"}).json()
    assert told["rows"][0]["sealed"] is not None
    assert any("'other'" in warning for warning in told["warnings"])
    said = http_client(ADA).post(STUDY + "/ask", json={"query": "delay > 99"})
    assert said.status_code == 409


def test_a_steward_of_some_holdouts_hears_no_name_of_others(http_client):
    limited = http_client("steward:some:study:again")
    (losing,) = limited.get(STUDY + "/unseal").json()["affected_holdouts"]
    assert "one that is not for you" in losing
    told = limited.post(
        "/api/v1/holdouts", data={"settings": json.dumps({"name": "again", "allow_vacuous": True})},
        files={"holdout": ("x", as_csv(rows(0)))},
    )  # fmt: skip
    assert told.status_code == 409
    assert told.json()["names"] == ["study"]
    assert "already sealed in this storage" in told.text
    assert "other'" not in losing + told.text + limited.get("/holdouts/study/unseal").text
    warned = limited.post(STUDY + "/unseal", json={"confirm": "study"}).json()["warnings"]
    assert warned
    assert "other'" not in str(warned)


@pytest.mark.parametrize(
    ("who", "body", "status"),
    [(STEWARD, {"confirm": "Study"}, 409), (STEWARD, {}, 422), (ADA, {"confirm": "study"}, 403)],
)
def test_without_the_name_nothing_is_told(http_client, tmp_path, who, body, status):
    before = head(tmp_path)
    said = http_client(who).post(STUDY + "/unseal", json=body)
    assert (said.status_code, head(tmp_path)) == (status, before)
    assert http_client(ADA).get(STUDY + "/unseal").status_code == 403
