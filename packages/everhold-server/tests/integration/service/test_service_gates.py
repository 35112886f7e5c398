"""Gates over HTTP: a steward opens them, analysts challenge, and promotions are those of the library."""

import holdout_samples as samples
import pytest
from service_samples import ADA, EVE, STEWARD, STUDY, head, opened, seal, serving

GATES = STUDY + "/gates"


@pytest.fixture
def http_client(tmp_path):
    seal(tmp_path)
    with serving(tmp_path) as found:
        yield found


def test_a_champion_is_challenged(http_client, tmp_path):
    made = http_client(STEWARD).post(GATES, json={"champion": "delay > 15", "name": "rules"})
    assert (made.status_code, made.json()["facts"]["gate"]) == (200, "rules")
    verdict = http_client(ADA).post(GATES + "/rules/challenges", json={"candidate": "delay > 20"}).json()
    with opened(tmp_path) as holdout:
        here = holdout.gate(name="rules").challenge("delay > 20")
    assert (verdict["promoted"], verdict["champion"]) == (here.promoted, here.champion)
    assert here.repeated
    (line,) = http_client(EVE).get(GATES).json()["gates"]
    assert line["facts"]["challenges"] == 1


def test_the_same_gate_again_changes_nothing(http_client, tmp_path):
    wanted = {"champion": "delay > 15", "metric": "error", "margin": 0.01, "challenges": 3}
    assert http_client(STEWARD).post(GATES, json=wanted).status_code == 200
    before = head(tmp_path)
    assert http_client(STEWARD).post(GATES, json=wanted).status_code == 200
    assert http_client(ADA).post(GATES, json={}).json()["facts"]["limit"] == 3
    assert head(tmp_path) == before


REFUSED = {
    "an analyst": (ADA, "", {"champion": "delay > 15"}, 409),
    "a viewer": (EVE, "", {"champion": "delay > 15"}, 403),
    "no champion": (STEWARD, "", {}, 404),
    "no metric": (STEWARD, "", {"champion": "delay > 15", "metric": "nonsense"}, 409),
    "no loss": (STEWARD, "", {"champion": "delay > 15", "metric": {"loss": "nonsense"}}, 409),
    "a score without a gain": (STEWARD, "", {"champion": "delay > 15", "metric": "average_precision"}, 409),
    "a score of rules": (STEWARD, "", {"champion": "delay > 15", "metric": {"name": "r2", "low": 0, "high": 1}}, 409),
    "a loss that is a number": (STEWARD, "", {"champion": "delay > 15", "metric": {"loss": 3}}, 409),
    "an odd name": (STEWARD, "", {"champion": "delay > 15", "name": " "}, 422),
    "no gate": (ADA, "/lost/challenges", {"candidate": "delay > 15"}, 404),
    "predictions of sealed features": (ADA, "/gate/challenges", {"candidate": [1] * samples.ROWS}, 409),
    "no rule": (ADA, "/gate/challenges", {"candidate": "delay >"}, 409),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_compared_costs_nothing(http_client, tmp_path, what):
    who, where, body, status = REFUSED[what]
    if where == "/gate/challenges":
        http_client(STEWARD).post(GATES, json={"champion": "delay > 15"})
    before = head(tmp_path)
    said = http_client(who).post(GATES + where, json=body)
    assert (said.status_code, said.headers["content-type"]) == (status, "application/problem+json"), said.text
    assert head(tmp_path) == before
