"""What is committed to the ledger arrives, whoever is killed, down or slow meanwhile; and it holds no value."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from webhook_receivers import KINDS, address, behaving, receiving, study, verified

from everhold.ledger import LedgerStore
from everhold.service.open_holdouts import OpenHoldouts
from everhold.service.webhooks import Kind, Sender, WebhookStore, WebhookWorker
from everhold.service.webhooks import store as stores

CHILD = Path(__file__).parents[1] / "webhook_children.py"
ALLOWED = Sender(internal=True, deadline=5.0)


@pytest.fixture(params=KINDS)
def url(request):
    return address(request.param, request)


@pytest.fixture
def holdout(url):
    with study(url) as made:
        yield made


@pytest.fixture
def store(url, holdout):
    with LedgerStore.open(url) as ledger:
        yield WebhookStore(ledger.database)


@contextlib.contextmanager
def working(url, sender=ALLOWED):
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(LedgerStore.open(url))
        holdouts = stack.enter_context(contextlib.closing(OpenHoldouts(url)))
        worker = WebhookWorker(WebhookStore(ledger.database), holdouts, sender=sender, interval=0.02)
        yield stack.enter_context(worker)


def hook(store, receiver, **wish):
    return store.create(receiver.url, **{"events": list(Kind), "holdout": None, "by": "stella", **wish})


def surprise(holdout, number):
    answer = holdout.ask(f"delay > {number}", guess=0.99)
    assert answer.source == "holdout"
    return answer


def test_answers_and_the_end_of_the_budget_arrive_signed_and_without_values(store, holdout, url):
    with receiving() as receiver, working(url):
        webhook = hook(store, receiver)
        holdout.ask("late = 1")
        answers = [surprise(holdout, number) for number in range(3)]
        got = receiver.wait_for(5)
    assert all(verified(webhook.secret, headers, body) for headers, body in got)
    events = receiver.events()
    assert Counter(event["type"] for event in events) == {Kind.ANSWER: 3, Kind.LOW: 1, Kind.SPENT: 1}
    told = {event["data"]["question"] for event in events if event["type"] == Kind.ANSWER}
    assert told == {answer.question for answer in answers}
    for event in events:
        assert set(event["data"]) <= {"holdout", "sequence", "question", "analyst", "count", "left", "of"}
    sent = b"".join(body for _, body in got).decode()
    assert not any(str(number) in sent for answer in answers for number in (answer.value, answer.low, answer.high))


def test_what_was_answered_while_no_server_ran_is_told_by_the_next_one(store, holdout, url):
    with receiving() as receiver:
        hook(store, receiver, events=[Kind.ANSWER])
        surprise(holdout, 0)
        with working(url):
            receiver.wait_for(1)
    assert receiver.events()[0]["data"]["holdout"] == "study"


def test_an_unsealed_study_is_told(store, holdout, url):
    with receiving() as receiver, working(url):
        hook(store, receiver)
        holdout.ask("late = 1")
        holdout.unseal()
        receiver.wait_for(1)
    assert [event["type"] for event in receiver.events()] == [Kind.UNSEALED]


def test_a_receiver_that_was_down_gets_it_when_it_is_back(store, holdout, url, monkeypatch):
    monkeypatch.setattr(stores, "_wait", lambda tries: timedelta(seconds=0.05))
    with receiving() as receiver:
        webhook = hook(store, receiver, events=[Kind.ANSWER])
    surprise(holdout, 0)
    with working(url):
        until = time.monotonic() + 20
        while not any(each.tries >= 2 for each in store.deliveries(webhook.id)):
            assert time.monotonic() < until
            time.sleep(0.01)
        with receiving(port=receiver.port) as back:
            back.wait_for(1)
    (delivery,) = store.deliveries(webhook.id)
    assert (delivery.state, delivery.tries > 1) == ("delivered", True)


def test_two_servers_deliver_each_event_and_none_twice_as_long_as_both_live(store, holdout, url):
    with receiving() as receiver, working(url), working(url):
        webhook = hook(store, receiver, events=[Kind.ANSWER])
        for number in range(3):
            surprise(holdout, number)
        for _ in range(20):
            store.test(webhook)
        receiver.wait_for(23)
        time.sleep(0.2)
    assert Counter(Counter(headers["webhook-id"] for headers, _ in receiver.got).values()) == {1: 23}


def test_what_a_killed_server_had_taken_is_sent_by_another_one(store, holdout, url, monkeypatch):
    monkeypatch.setattr(stores, "LEASE", timedelta(0))  # of the servers in this process
    reached, free = threading.Event(), threading.Event()

    def hangs(connection):
        connection.recv(65_536)
        reached.set()
        free.wait(30)

    with behaving(hangs) as port:
        webhook = store.create(f"http://127.0.0.1:{port}/hook", events=[Kind.ANSWER], holdout=None, by="stella")
        surprise(holdout, 0)
        child = subprocess.Popen([sys.executable, str(CHILD), url])
        try:
            assert reached.wait(30)
        finally:
            child.kill()
            child.wait()
            free.set()
    (left,) = store.deliveries(webhook.id)
    assert (left.state, left.tries) == ("waiting", 1)
    with store._records.writing() as connection:  # as if the lease had ended
        connection.exec_driver_sql("UPDATE webhook_deliveries SET due = created")
    with receiving(port=port) as receiver, working(url):
        receiver.wait_for(1)
    assert receiver.got[0][0]["webhook-id"] == left.id


def test_a_server_that_is_killed_between_answer_and_telling_loses_nothing_but_one_that_tells_in_passing_does(
    store, holdout, url
):  # fmt: skip
    with receiving() as receiver:
        webhook = hook(store, receiver, events=[Kind.ANSWER])
        code = (
            "import os, sys, everhold as eh\n"
            "holdout = eh.Holdout.open(sys.argv[1], 'study')\n"
            "told = []\n"
            "holdout.ask('delay > 0', guess=0.99)\n"
            "os.kill(os.getpid(), 9)\n"  # the answer is committed; whoever would tell of it now is gone
            "told.append('answer.released')\n"
        )
        assert subprocess.run([sys.executable, "-c", code, url], check=False).returncode == -9
        assert receiver.got == []
        with working(url):
            receiver.wait_for(1)
    assert len(store.deliveries(webhook.id)) == 1


def test_a_receiver_that_hangs_holds_up_no_other(store, holdout, url):
    free = threading.Event()
    with behaving(lambda connection: free.wait(20)) as port, receiving() as receiver, working(url):
        store.test(store.create(f"http://127.0.0.1:{port}/", events=list(Kind), holdout=None, by="stella"))
        time.sleep(0.2)
        store.test(hook(store, receiver))
        receiver.wait_for(1, seconds=4.0)
        free.set()


def test_a_fault_of_one_holdout_holds_up_no_other(store, holdout, url, tmp_path):
    with study(url, "broken") as broken, receiving() as receiver:
        hook(store, receiver, events=[Kind.ANSWER])
        surprise(broken, 0)
        surprise(holdout, 0)
        for key in tmp_path.rglob("broken-*/steward.key"):
            key.unlink()
        with working(url):
            receiver.wait_for(1)
    assert [event["data"]["holdout"] for event in receiver.events()] == ["study"]


def test_stopping_waits_for_what_is_being_sent(store, holdout, url):
    def slow(connection):
        connection.recv(65_536)
        time.sleep(0.5)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    with behaving(slow) as port:
        webhook = store.create(f"http://127.0.0.1:{port}/", events=list(Kind), holdout=None, by="stella")
        store.test(webhook)
        with working(url):
            time.sleep(0.2)
    assert [each.state for each in store.deliveries(webhook.id)] == ["delivered"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("everhold-webhook")]
    assert json.loads(store.deliveries(webhook.id)[0].body)["data"] == {"webhook": webhook.id}
