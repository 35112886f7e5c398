"""Several processes at once, and processes that are killed."""

import random
import time

import pytest
from ledger_children import (
    CAP,
    ask_many,
    commit_until_killed,
    commit_up_to_the_cap_until_killed,
    create_at_once,
)
from ledger_samples import KEY, new_study
from postgres_cluster import running_cluster
from prepared_processes import prepared_processes

from everhold.ledger import Ledger, LedgerStore, verify

WORKERS = 4
FINGERPRINT = 64  # hexadecimal digits


def run_at_once(target, url, *arguments):
    """What each of the workers put into its queue, started together."""
    barrier, results = prepared_processes.Barrier(WORKERS), prepared_processes.Queue()
    workers = [
        prepared_processes.Process(target=target, args=(url, number, barrier, results, *arguments))
        for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    reported = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    return reported


@pytest.mark.slow
def test_four_processes_never_overspend_and_lose_nothing(store, record, url):
    reported = run_at_once(ask_many, url, 250, False)
    granted = sorted(number for part in reported for number in part)
    assert granted == list(range(1, CAP + 1))
    assert store.head(record.id).charged == store.head(record.id).state["spent"] == CAP
    assert [entry.sequence for entry in Ledger(store.database, record.id, KEY).entries()] == granted
    assert verify(store, "study", seal_key=KEY).ok


@pytest.mark.slow
def test_with_a_state_from_outside_the_transaction_they_would_overspend(store, record, url):
    run_at_once(ask_many, url, 250, True)
    assert store.head(record.id).charged > CAP


def test_processes_may_create_the_same_ledger_at_once(url):
    outcomes = run_at_once(create_at_once, url)
    assert sorted(outcomes) == ["HoldoutRejected"] * (WORKERS - 1) + ["both"]
    with LedgerStore.open(url, create=False) as store:
        assert store.names() == ["study", *(f"study {number}" for number in range(WORKERS))]


def wait_for_growth(file, size):
    deadline = time.monotonic() + 300
    while file.stat().st_size == size:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def acknowledged_in(file):
    """Acknowledged sequence numbers and queries; a line cut off by a kill does not count."""
    words = [line.split() for line in file.read_text().splitlines()]
    return [(int(pair[0]), pair[1]) for pair in words if len(pair) == 2 and len(pair[1]) == FINGERPRINT]


@pytest.mark.slow
def test_what_was_acknowledged_survives_a_hundred_kills(store, record, url, tmp_path):
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()
    randomness = random.Random(7)
    lines = []
    for kill in range(100):
        child = prepared_processes.Process(target=commit_until_killed, args=(url, acknowledged))
        size = acknowledged.stat().st_size
        child.start()
        if kill % 4:  # every fourth is killed while it starts and opens, the others between or within commits
            wait_for_growth(acknowledged, size)
        time.sleep(randomness.uniform(0, 0.02))
        child.kill()
        child.join()
        assert child.exitcode < 0
        lines = acknowledged_in(acknowledged)
        recorded = {(entry.sequence, entry.query) for entry in Ledger(store.database, record.id, KEY).entries()}
        assert len(lines) == len({sequence for sequence, _ in lines})
        assert set(lines) <= recorded
        assert verify(store, "study", seal_key=KEY).ok
    assert len(lines) >= 75  # three of four were killed after their first batch


@pytest.mark.slow
def test_killed_clients_and_a_restarted_server_lose_nothing_and_never_overspend(postgres_installed, tmp_path):
    """Each of the workers is killed and replaced for some seconds, while the server crashes and comes back."""
    acknowledged, randomness = tmp_path / "acknowledged", random.Random(11)
    acknowledged.touch()
    with running_cluster(durable=True) as cluster, LedgerStore.open(cluster.url(cluster.new_database())) as store:
        record = new_study(store)
        url, workers = store.url, []

        def start():
            worker = prepared_processes.Process(target=commit_up_to_the_cap_until_killed, args=(url, acknowledged))
            worker.start()
            workers.append(worker)

        for _ in range(WORKERS):
            start()
        for _ in range(2):
            for _ in range(2 * WORKERS):
                time.sleep(randomness.uniform(0.0, 0.2))
                killed = workers.pop(0)
                killed.kill()
                killed.join()
                start()
            cluster.restart()
        deadline = time.monotonic() + 300
        while store.head(record.id).charged < CAP and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)  # more is refused
        for worker in workers:
            worker.kill()
            worker.join()
        lines = acknowledged_in(acknowledged)
        recorded = {(entry.sequence, entry.query) for entry in Ledger(store.database, record.id, KEY).entries()}
        assert store.head(record.id).charged == CAP == len(recorded)
        assert set(lines) <= recorded
        assert len(lines) == len({sequence for sequence, _ in lines}) > CAP // 2
        assert verify(store, "study", seal_key=KEY).ok
