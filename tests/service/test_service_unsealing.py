"""A study ends over HTTP only with its name, by a steward; then everything is told and nothing new is answered."""

import pytest
from service_samples import ADA, STEWARD, STUDY, head, seal, serving


@pytest.fixture
def visiting(tmp_path):
    seal(tmp_path)
    seal(tmp_path, "other", allot=())
    with serving(tmp_path) as found:
        found(ADA).post(STUDY + "/ask", json={"question": "delay > 15"})
        yield found


def test_what_loses_its_promise_is_told_before_and_warned_of(visiting):
    (losing,) = visiting(STEWARD).get(STUDY + "/unseal").json()["losing_their_promise"]
    assert "'other'" in losing
    told = visiting(STEWARD).post(STUDY + "/unseal", json={"confirm": "study"}).json()
    assert told["rows"][0]["sealed"] is not None
    assert any("'other'" in warning for warning in told["warnings"])
    said = visiting(ADA).post(STUDY + "/ask", json={"question": "delay > 99"})
    assert said.status_code == 422


@pytest.mark.parametrize(
    ("who", "body", "status"),
    [(STEWARD, {"confirm": "Study"}, 422), (STEWARD, {}, 422), (ADA, {"confirm": "study"}, 403)],
)
def test_without_the_name_nothing_is_told(visiting, tmp_path, who, body, status):
    before = head(tmp_path)
    said = visiting(who).post(STUDY + "/unseal", json=body)
    assert (said.status_code, head(tmp_path)) == (status, before)
    assert visiting(ADA).get(STUDY + "/unseal").status_code == 403
