"""Deliveries are written once, taken by one, and never lost."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

pytest.importorskip("fastapi")

from webhook_receivers import KINDS, address, study

from everhold.ledger import LedgerStore
from everhold.service.webhooks import Kind, WebhookNotFound, WebhookRejected, WebhookStore
from everhold.service.webhooks.happenings import Event
from everhold.service.webhooks.sending import Sent
from everhold.service.webhooks.store import KEPT, LEASE, MOST, MOST_TRIES

ACCEPTED, REFUSED = Sent(True, "the receiver answered 200"), Sent(False, "the receiver answered 500")
URL = "https://receiver.example/hook"
ANSWER = Event(Kind.ANSWER, "2026-01-31T12:00:00", {"holdout": "study", "sequence": 1})


@pytest.fixture(params=KINDS)
def url(request):
    return address(request.param, request)


@pytest.fixture
def holdout(url):
    with study(url) as made:
        yield made


@pytest.fixture
def ledger(url, holdout):
    with LedgerStore.open(url) as opened:
        yield opened


@pytest.fixture
def store(ledger):
    return WebhookStore(ledger.database)


@pytest.fixture
def webhook(store):
    return store.create(URL, events=list(Kind), holdout=None, by="stella")


def now():
    return datetime.now(UTC)


def ask(holdout, *, surprise=False):
    holdout.ask(f"delay > {holdout.status()['questions_asked']}", guess=0.0 if surprise else None)


def told_of(store, holdout):
    """Advance every webhook to the ledger's head."""
    for behind in store.behind():
        store.advance(behind, holdout.news(behind.sequence).sequence, [], [ANSWER])


def test_the_secret_is_shown_to_nobody(webhook, store):
    (listed,) = store.every()
    assert listed == webhook
    assert "secret" not in listed.to_dict()
    assert webhook.secret not in repr(webhook)
    assert len(webhook.secret) == 50


def test_a_webhook_is_told_of_what_happens_from_now_on(store, holdout):
    ask(holdout)
    store.create(URL, events=list(Kind), holdout=None, by="stella")
    assert store.behind() == []
    ask(holdout)
    assert [(each.holdout, each.sequence) for each in store.behind()] == [("study", 1)]


def test_a_holdout_that_is_younger_is_told_of_from_the_beginning(store, webhook, url):
    with study(url, "later") as later:
        ask(later)
        assert [(each.holdout, each.sequence) for each in store.behind()] == [("later", 0)]
        told_of(store, later)
    assert store.behind() == []
    assert len(store.deliveries(webhook.id)) == 1


def test_a_webhook_of_one_holdout_is_told_of_no_other(store, holdout, url):
    with study(url, "other") as other:
        store.create(URL, events=list(Kind), holdout="other", by="stella")
        ask(holdout)
        assert store.behind() == []
        ask(other)
        assert [each.holdout for each in store.behind()] == ["other"]


def test_a_webhook_is_told_of_no_other_events(store, holdout):
    webhook = store.create(URL, events=[Kind.SPENT], holdout=None, by="stella")
    ask(holdout)
    told_of(store, holdout)
    assert (store.behind(), store.deliveries(webhook.id)) == ([], [])


def test_of_two_processes_that_read_the_same_news_one_writes_deliveries(store, webhook, holdout):
    ask(holdout)
    (behind,) = store.behind()
    assert [store.advance(behind, 1, [], [ANSWER]) for _ in range(2)] == [True, False]
    assert len(store.deliveries(webhook.id)) == 1


def test_a_delivery_is_taken_by_one_until_its_lease_ends(store, webhook):
    made = store.test(webhook)
    _, first = store.take()
    assert (first.id, first.tries, store.take()) == (made.id, 1, None)
    _, second = store.take(now=now() + LEASE)
    assert (second.id, second.tries) == (made.id, 2)


def test_whoever_comes_too_late_settles_nothing(store, webhook):
    store.test(webhook)
    _, first = store.take()
    _, second = store.take(now=now() + LEASE)
    store.settle(second, ACCEPTED)
    store.settle(first, REFUSED)
    (kept,) = store.deliveries(webhook.id)
    assert (kept.state, kept.outcome) == ("delivered", ACCEPTED.outcome)


def test_a_busy_receiver_is_left_alone(store, webhook):
    store.test(webhook)
    assert store.take(busy=[webhook.id]) is None
    assert store.take(of="wh_other") is None
    assert store.take(of=webhook.id) is not None


def test_a_failed_delivery_is_tried_later_and_later_and_then_no_more(store, webhook):
    store.test(webhook)
    moment, waits = now(), []
    for _ in range(MOST_TRIES):
        _, taken = store.take(now=moment)
        store.settle(taken, REFUSED, now=moment)
        (kept,) = store.deliveries(webhook.id)
        due = datetime.fromisoformat(kept.due)
        if kept.state == "waiting":
            assert store.take(now=due - timedelta(seconds=1)) is None
            waits.append(due - moment)
            moment = due
    assert (kept.state, kept.tries, kept.outcome) == ("failed", MOST_TRIES, REFUSED.outcome)
    assert store.take(now=moment + timedelta(days=1)) is None
    assert timedelta(seconds=3) < waits[0] < timedelta(seconds=7)
    assert timedelta(hours=14) < sum(waits, timedelta()) < timedelta(hours=25)
    assert all(later > earlier for earlier, later in pairwise(waits[:7]))


def test_two_that_failed_together_are_not_tried_together(store, webhook):
    for _ in range(2):
        store.test(webhook)
        store.settle(store.take()[1], REFUSED)
    first, second = store.deliveries(webhook.id)
    assert first.due[:19] != second.due[:19] or first.due != second.due


def test_what_ended_long_ago_is_forgotten_and_what_waits_is_kept(store, webhook):
    for sent in (ACCEPTED, REFUSED):
        store.test(webhook)
        store.settle(store.take()[1], sent)
    store.forget(now=now() + KEPT - timedelta(minutes=1))
    assert len(store.deliveries(webhook.id)) == 2
    store.forget(now=now() + KEPT + timedelta(minutes=1))
    assert [each.state for each in store.deliveries(webhook.id)] == ["waiting"]


def test_a_deleted_webhook_leaves_nothing_behind(store, webhook, holdout):
    store.test(webhook)
    ask(holdout)
    behind, (_, taken) = store.behind(), store.take()
    store.delete(webhook.id)
    store.settle(taken, ACCEPTED)
    assert not store.advance(behind[0], 1, [], [ANSWER])
    assert (store.every(), store.behind(), store.deliveries(webhook.id), store.take()) == ([], [], [], None)
    with pytest.raises(WebhookNotFound, match="nothing was changed"):
        store.find(webhook.id)


def test_there_are_not_more_than_can_be_told(store):
    for _ in range(MOST):
        store.create(URL, events=list(Kind), holdout=None, by="stella")
    with pytest.raises(WebhookRejected, match="none was made"):
        store.create(URL, events=list(Kind), holdout=None, by="stella")
