"""Allotments over HTTP are the steward's, and their warnings are told."""

import pytest
from service_samples import ADA, EVE, STEWARD, STUDY, head, opened, seal, serving

PARTS = STUDY + "/allotments"


@pytest.fixture
def http_client(tmp_path):
    seal(tmp_path, allot=())
    with serving(tmp_path) as found:
        yield found


def test_a_part_is_allotted_and_listed(http_client, tmp_path):
    part = http_client(STEWARD).put(PARTS + "/ada", json={"queries": 5, "charges": 1}).json()
    assert (part["queries"], part["charges"], part["warnings"]) == (5, 1, [])
    with opened(tmp_path) as holdout:
        assert holdout.analyst("ada").remaining["queries"] == 5
    (listed,) = http_client(STEWARD).get(PARTS).json()["parts"]
    assert listed["analyst"] == "ada"


def test_more_than_there_is_is_warned_of(http_client):
    assert http_client(STEWARD).put(PARTS + "/ada", json={"queries": 500}).json()["warnings"]


@pytest.mark.parametrize(("who", "name", "body", "status"), [
    (ADA, "ada", {"queries": 5}, 403), (EVE, "ada", {"queries": 5}, 403), (STEWARD, "ada", {"queries": -1}, 422),
    (STEWARD, "ada", {"queries": 10**30}, 409), (STEWARD, "%20ada", {"queries": 5}, 422),
    (STEWARD, "ada", {"queries": True}, 422), (STEWARD, "a%00", {"queries": 5}, 422), (STEWARD, "ada", {}, 422),
])  # fmt: skip
def test_what_cannot_be_allotted_changes_nothing(http_client, tmp_path, who, name, body, status):
    before = head(tmp_path)
    said = http_client(who).put(f"{PARTS}/{name}", json=body)
    assert (said.status_code, head(tmp_path)) == (status, before), said.text
    assert http_client(ADA).get(PARTS).status_code == 403
