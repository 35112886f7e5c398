"""Webhooks over HTTP: stewards make them, for what is theirs; the secret is told once."""

import pytest

pytest.importorskip("fastapi")

from door_samples import make, seal, token, visiting
from webhook_receivers import receiving, verified

from everhold import Holdout
from everhold.service.visitors import Role
from everhold.service.webhooks import Kind, Sender

HOOKS = "/api/v1/webhooks"
PUBLIC = "93.184.215.14"


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return seal(tmp_path_factory.mktemp("service"), "flights", "trains")


@pytest.fixture
def app(storage):
    made = make(storage, internal_webhooks=True)
    yield made
    for webhook in made.state.webhooks.every():
        made.state.webhooks.delete(webhook.id)


@pytest.fixture
def steward(app):
    with visiting(app, token(app)) as client:
        yield client


def create(client, receiver, **wish):
    response = client.post(HOOKS, json={"url": receiver.url, **wish})
    assert response.status_code == 201, response.text
    return response.json()


def test_from_an_answer_to_a_receiver_that_checks_the_signature(steward, storage):
    with receiving() as receiver:
        made = create(steward, receiver, holdout="flights", events=["answer.released"])
        with Holdout.open(storage, "flights") as holdout:
            answer = holdout.ask("delay > 15", guess=0.99)
        ((headers, body),) = receiver.wait_for(1)
    assert verified(made["secret"], headers, body)
    (event,) = receiver.events()
    assert event["type"] == "answer.released"
    assert event["data"] == {"holdout": "flights", "sequence": 1, "question": answer.question}
    (delivery,) = steward.get(f"{HOOKS}/{made['id']}/deliveries").json()["deliveries"]
    assert (delivery["id"], delivery["body"]) == (headers["webhook-id"], event)


def test_a_test_arrives_and_is_listed(steward):
    with receiving(204) as receiver:
        made = create(steward, receiver)
        sent = steward.post(f"{HOOKS}/{made['id']}/test")
        receiver.wait_for(1)
    assert sent.status_code == 202
    assert receiver.events()[0]["type"] == "webhook.test"


def test_the_secret_is_told_once(steward):
    with receiving() as receiver:
        made = create(steward, receiver)
    assert made["secret"].startswith("whsec_")
    (listed,) = steward.get(HOOKS).json()["webhooks"]
    assert listed == {name: value for name, value in made.items() if name not in ("secret", "note")}
    assert listed["events"] == list(Kind)


def test_the_secret_is_not_kept_for_a_request_that_is_sent_again(steward):
    with receiving() as receiver:
        first, second = (
            steward.post(HOOKS, json={"url": receiver.url}, headers={"idempotency-key": "once"}) for _ in range(2)
        )
    assert (second.json()["id"], second.json()["secret"]) == (first.json()["id"], None)
    assert len(steward.get(HOOKS).json()["webhooks"]) == 1


def test_it_is_deleted_with_its_deliveries(steward):
    with receiving() as receiver:
        made = create(steward, receiver)
    assert steward.delete(f"{HOOKS}/{made['id']}").status_code == 204
    assert steward.get(HOOKS).json() == {"webhooks": []}
    for response in (
        steward.delete(f"{HOOKS}/{made['id']}"), steward.post(f"{HOOKS}/{made['id']}/test"),
        steward.get(f"{HOOKS}/{made['id']}/deliveries"),
    ):  # fmt: skip
        assert response.status_code == 404


@pytest.mark.parametrize("role", [Role.ANALYST, Role.VIEWER])
def test_nobody_but_a_steward_has_to_do_with_webhooks(app, steward, role):
    with receiving() as receiver:
        made = create(steward, receiver)
        with visiting(app, token(app, role, "ada")) as client:
            answers = [
                client.get(HOOKS), client.post(HOOKS, json={"url": receiver.url}),
                client.delete(f"{HOOKS}/{made['id']}"), client.post(f"{HOOKS}/{made['id']}/test"),
                client.get(f"{HOOKS}/{made['id']}/deliveries"),
            ]  # fmt: skip
    assert [answer.status_code for answer in answers] == [403] * 5


def test_a_steward_of_one_holdout_sees_and_makes_webhooks_of_that_one_alone(app, steward):
    with receiving() as receiver, visiting(app, token(app, name="ann", holdouts=["trains"])) as limited:
        of_all, of_other = create(steward, receiver), create(steward, receiver, holdout="flights")
        own = create(limited, receiver, holdout="trains")
        assert [each["id"] for each in limited.get(HOOKS).json()["webhooks"]] == [own["id"]]
        for webhook in (of_all, of_other):
            assert limited.delete(f"{HOOKS}/{webhook['id']}").status_code == 404
            assert limited.get(f"{HOOKS}/{webhook['id']}/deliveries").status_code == 404
        refused = limited.post(HOOKS, json={"url": receiver.url})
        assert (refused.status_code, "nothing was made" in refused.json()["detail"]) == (422, True)
        for name in ("flights", "there is none"):
            assert limited.post(HOOKS, json={"url": receiver.url, "holdout": name}).status_code == 404


@pytest.mark.parametrize(
    "wish",
    [
        {}, {"url": 3}, {"url": "https://receiver.example/", "events": []},
        {"url": "https://receiver.example/", "more": 1},
        {"url": "https://receiver.example/", "events": ["webhook.test"]}, {"url": "x" * 3_000},
        {"url": "https://receiver.example/", "events": ["answer.released"] * 9}, {"url": "http://10.0.0.1/"},
        {"url": "https://169.254.169.254/latest/meta-data"}, {"url": "ftp://receiver.example/"},
    ],
)  # fmt: skip
def test_what_cannot_be_a_webhook_is_refused(steward, wish):
    assert steward.post(HOOKS, json=wish).status_code == 422
    assert steward.get(HOOKS).json() == {"webhooks": []}


def test_without_the_operator_s_word_this_machine_is_out_of_reach(storage):
    app = make(storage)
    with receiving() as receiver, visiting(app, token(app)) as client:
        for url in (receiver.url, receiver.url.replace("http:", "https:"), "https://localhost/"):
            refused = client.post(HOOKS, json={"url": url})
            assert refused.status_code == 422
    assert receiver.got == []


def test_a_name_that_moves_inside_later_is_not_sent_to(storage):
    app = make(storage)
    addresses = [[PUBLIC], ["127.0.0.1"]]
    app.state.sender = Sender(resolve=lambda _, __: addresses.pop(0))
    with visiting(app, token(app)) as client, receiving() as receiver:
        made = client.post(HOOKS, json={"url": f"https://receiver.example:{receiver.port}/"}).json()
        webhook = app.state.webhooks.find(made["id"])
        sent = app.state.sender.send(webhook.url, webhook.secret, delivery="msg_1", body=b"{}")
        app.state.webhooks.delete(webhook.id)
    assert (sent.accepted, receiver.got) == (False, [])
    assert "not of the open internet" in sent.outcome
