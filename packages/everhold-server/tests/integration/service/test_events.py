"""The feed of a ledger's events: everything once, in order, without values, and to each role what is theirs."""

import pytest
from service_samples import ADA, EVE, STEWARD, STUDY, opened, seal, serving

BOB = "analyst:bob"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("events")
    seal(made)
    return made


@pytest.fixture(scope="module")
def http_client(folder):
    with serving(folder) as made:
        ada, bob = made(ADA), made(BOB)
        assert ada.post(STUDY + "/ask", json={"query": "delay > 15", "guess": 0.99}).json()["source"] == "holdout"
        assert bob.post(STUDY + "/ask", json={"query": "delay > 20"}).json()["source"] == "training"
        yield made


def feed(client, **params):
    return client.get(STUDY + "/events", params=params).json()


def test_a_steward_reads_every_entry_once_with_a_cursor(http_client, folder):
    steward, read, after = http_client(STEWARD), [], 0
    while True:
        page = feed(steward, after=after, limit=1)
        if not page["events"]:
            break
        read += page["events"]
        assert page["next"] > after
        after = page["next"]
    with opened(folder) as holdout:
        assert [event["sequence"] for event in read] == list(range(1, holdout.status()["ledger_head"]["sequence"] + 1))
    assert [(event["event"], event["analyst"]) for event in read][-2:] == [
        ("answer.released", "ada"), ("entry.added", "bob"),
    ]  # fmt: skip
    assert feed(steward, after=after)["next"] == after


def test_no_event_has_a_value(http_client):
    events = feed(http_client(STEWARD))["events"]
    assert {name for event in events for name in event} == {"sequence", "event", "at", "query", "analyst", "gate"}


def test_an_analyst_reads_their_own_entries_and_allotment(http_client):
    found = feed(http_client(ADA))
    assert {event["analyst"] for event in found["events"]} == {"ada"}
    assert {count["analyst"] for count in found["remaining"]} == {"ada"}
    assert {count["name"]: (count["left"], count["of"]) for count in found["remaining"]}["queries"] == (19, 20)
    assert {count["analyst"] for count in feed(http_client(STEWARD))["remaining"]} == {None, "ada", "bob"}


def test_others_read_nothing(http_client):
    assert http_client().get(STUDY + "/events").status_code == 401
    assert http_client(EVE).get(STUDY + "/events").status_code == 403
    assert http_client("analyst:mallory").get(STUDY + "/events").status_code == 409
    assert http_client("analyst:ada:other").get(STUDY + "/events").status_code == 404
    assert http_client(STEWARD).get(STUDY + "/events", params={"limit": 10_000}).status_code == 422
