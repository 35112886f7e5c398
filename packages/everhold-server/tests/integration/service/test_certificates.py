"""Certificates over HTTP are the library's, chosen answers are the steward's, and hostile ones give findings."""

import json

import pytest
from service_samples import ADA, API, EVE, STEWARD, STUDY, left_behind, opened, seal, serving

from everhold.certificate import verify_certificate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def http_client(folder):
    seal(folder)
    with opened(folder) as holdout:
        holdout.ask("delay > 15")
    with serving(folder) as found:
        yield found


@pytest.mark.parametrize("form", ["json", "html"])
def test_a_certificate_is_verified_here_and_over_http(http_client, tmp_path, folder, form):
    made = http_client(EVE).get(f"{STUDY}/certificate?format={form}")
    path = tmp_path / f"certificate.{form}"
    path.write_bytes(made.content)
    assert verify_certificate(path).ok
    kind = {"content-type": "application/json" if form == "json" else "text/html; charset=utf-8"}
    report = http_client(EVE).post(API + "/verify", content=made.content, headers=kind).json()
    assert (report["ok"], left_behind(folder)) == (True, [])


def test_an_altered_certificate_and_another_key_are_found(http_client):
    document = http_client(EVE).get(STUDY + "/certificate").json()
    altered = json.loads(json.dumps(document).replace("0.95", "0.99"))
    assert not http_client(EVE).post(API + "/verify", json=altered).json()["ok"]
    assert not http_client(EVE).post(API + "/verify?public_key=" + "0" * 64, json=document).json()["ok"]
    assert http_client(EVE).post(API + "/verify?public_key=short", json=document).status_code == 422


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 10_000, b"\xff\xfe", b'{"a": 1e999}', b"null"])
def test_whatever_is_no_certificate_gives_findings(http_client, content):
    said = http_client(EVE).post(API + "/verify", content=content, headers={"content-type": "application/json"})
    assert (said.status_code, said.json()["ok"]) == (200, False)
    assert said.json()["findings"]


def test_a_steward_chooses_what_the_first_page_shows(http_client, folder):
    with opened(folder) as holdout:
        (row,) = holdout.transcript().rows
    made = http_client(STEWARD).get(STUDY + "/certificate", params={"answer": f"{row['sequence']}=model B"}).json()
    assert [answer["name"] for answer in made["summary"]["answers"]] == ["model B"]


@pytest.mark.parametrize(("who", "answer", "status"), [
    (ADA, "3=model B", 403), (EVE, "3=model B", 403), (STEWARD, "model B", 409), (STEWARD, "99=model B", 409),
    (STEWARD, "3=100 % sure.", 409), (STEWARD, f"{10**30}=model B", 409), (STEWARD, "delay > 77=model B", 409),
])  # fmt: skip
def test_nothing_is_signed_that_is_not_the_steward_s_to_say(http_client, who, answer, status):
    said = http_client(who).get(STUDY + "/certificate", params={"answer": answer})
    assert (said.status_code, said.headers["content-type"]) == (status, "application/problem+json")
