"""A competition whose server and jobs are killed takes every submission once, and tells what it would have told.

`EVERHOLD_KILLS` says how often: 6 times in the suite; docs/guides/operate.md tells of a study with more.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import pytest
from server_processes import serving

import everhold as eh
from everhold.ledger import LedgerStore
from everhold.ledger.store import all_entries
from everhold_competitions.teams import TOLD_OF
from everhold_server.principals import Role
from everhold_server.tables import Records
from everhold_server.token_store import TokenStore

KILLS = int(os.environ.get("EVERHOLD_KILLS", "6"))
TEAMS, ROWS = 20 if KILLS <= 20 else 50, 2_000
SENDERS, PATIENCE = 4, 600.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found by /proc"),
]


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request, tmp_path):
    """The address of an empty storage."""
    return f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def contest(storage, name):
    """A competition in which many pairs of teams are compared at the end."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 2, ROWS)
    terms = eh.Competition(teams=TEAMS, submissions=1, metric="f1_macro")
    with eh.Holdout.create(
        storage, name, label="y", holdout={"x": rng.normal(size=ROWS), "y": labels}, competition=terms,
        rows=eh.Rows(features="public"),
    ) as holdout:  # fmt: skip
        for team in range(TEAMS):
            right = rng.random(ROWS) < 0.6 + 0.36 * team / TEAMS
            holdout.competition.submit(np.where(right, labels, 1 - labels), team=f"team {team}")


def descendants(process):
    """The processes that a process started, and theirs."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    found = [int(each) for children in tasks for each in children.read_text().split()]
    return [*found, *(each for child in found for each in descendants(child))]


def kill(server, *, alone, rng):
    """End the job's process, or the server with all that it started; returns whether there was a job."""
    children = [
        each for each in descendants(server.process.pid) if b"jobs" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]
    if alone and children:
        os.kill(rng.choice(children), signal.SIGKILL)
        return True
    server.kill()
    for child in children:
        os.kill(child, signal.SIGKILL)
    server.start()
    server.wait()
    return bool(children)


def token(storage, role, name):
    with LedgerStore.open(storage, create=False) as store:
        return TokenStore(Records(store.database)).make(role, name, by="test").secret


def served(storage):
    return ["serve", "--storage", storage, "--requests-a-minute", "0"]


def test_a_killed_job_goes_on_and_nothing_is_lost_doubled_or_half_told(storage, tmp_path):
    rng, kills = random.Random(3), 0
    contest(storage, "killed")
    host = token(storage, Role.STEWARD, "host")
    with serving(tmp_path, served(storage), 1) as (server,):
        with eh.connect(server.url, "killed", token=host) as holdout:
            send, seen = holdout._transport.connection._client.post, []
            while kills < KILLS:
                said = send("/holdouts/killed/unseal", json={"confirm": "killed"})
                assert said.status_code in (200, 202), said.text
                if said.status_code == 200:
                    break
                seen.append(said.json()["job"])
                # the first ones come early: a fast machine ends the job in seconds
                time.sleep(rng.uniform(0.05, 0.4) if kills < 5 else rng.uniform(0.2, 1.5))
                kills += kill(server, alone=rng.random() < 0.5, rng=rng)
            told = holdout.unseal()
            board = holdout.competition.leaderboard()
        assert "Traceback" not in server.log
    assert kills >= min(KILLS, 5)
    assert len({job["id"] for job in seen}) == 1
    with eh.Holdout.open(storage, "killed") as killed:
        killed.certificate()  # raises if the chain of entries was broken
        entries = killed.transcript().to_rows()
        assert len({entry["query"] for entry in entries}) == len(entries) == TEAMS + TEAMS * (TEAMS - 1) // 2
    contest(other := f"sqlite:///{tmp_path}/other.db", "killed")
    with eh.Holdout.open(other, "killed") as whole:
        assert [row["sealed_low"] for row in whole.unseal().to_rows()] == [row["sealed_low"] for row in told.to_rows()]
        assert json.dumps(whole.competition.leaderboard().to_dict()) == json.dumps(board.to_dict())
    sys.stdout.write(f"{kills} kills during the finals\n")


class Sender(threading.Thread):
    """A team that sends one file after the other until the server has been killed often enough, each until answered.

    Attributes:
        told: Answers, in order.
    """

    def __init__(self, url, name, secret, files, stopped):
        super().__init__()
        self.url, self.secret, self.files, self.stopped, self.told = url, secret, files, stopped, []
        self.name, self.fault = name, None

    def run(self):
        headers = {"authorization": f"Bearer {self.secret}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=30.0) as client:  # a new one each time is slow
            self.send(client)

    def send(self, client):
        for file in self.files:
            if self.stopped.is_set():
                return
            until, said = time.monotonic() + PATIENCE, None
            while said is None and time.monotonic() < until:
                try:
                    said = client.post("/api/v1/holdouts/told/submissions", json={"predictions": file.tolist()})
                except httpx.TransportError:
                    time.sleep(0.2)
            if said is None or said.status_code != 200:
                self.fault = "no answer" if said is None else said.text
                return
            self.told.append(said.json())


def test_submissions_are_received_once_and_told_what_the_ledger_has_while_the_server_is_killed(storage, tmp_path):
    rng, most = np.random.default_rng(5), 40 * KILLS
    labels = rng.integers(0, 2, ROWS)
    terms = eh.Competition(feedback="score", public=0.3, teams=SENDERS, submissions=most)
    eh.Holdout.create(
        storage, "told", label="y", holdout={"x": rng.normal(size=ROWS), "y": labels}, competition=terms,
        rows=eh.Rows(features="public"), planning=eh.Planning(allow_vacuous=True),
    ).close()  # fmt: skip
    stopped, chance, kills = threading.Event(), random.Random(4), 0
    with serving(tmp_path, served(storage), 1) as (server,):
        senders = []
        for number in range(SENDERS):
            right = rng.random((most, ROWS)) < 0.7
            files = (np.where(each, labels, 1 - labels) for each in right)
            secret = token(storage, Role.ANALYST, f"team {number}")
            senders.append(Sender(server.url, f"team {number}", secret, files, stopped))
        for each in senders:
            each.start()
        while kills < KILLS and any(each.is_alive() for each in senders):
            answered = sum(len(each.told) for each in senders) + chance.randint(1, 5)
            until = time.monotonic() + PATIENCE
            while sum(len(each.told) for each in senders) < answered and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.2))
            kill(server, alone=False, rng=chance)
            kills += 1
        stopped.set()
        for each in senders:
            each.join()
        assert "Traceback" not in server.log
    assert [each.fault for each in senders] == [None] * SENDERS
    assert kills == KILLS
    with eh.Holdout.open(storage, "told") as holdout:
        received = Counter(row["team"] for row in holdout.competition.submissions())
        assert received == {each.name: len(each.told) for each in senders}
        public = all_entries(holdout.competition._session().public.executor.ledger)
        told = {(of["team"], of["predictions"]): entry.answer
                for entry in public if (of := entry.description.get(TOLD_OF)) is not None}  # fmt: skip
        assert len(told) == len(public) == sum(received.values())
        for each in senders:
            for number, answer in enumerate(each.told, 1):
                kept = told[each.name, answer["predictions"]]
                assert (answer["number"], answer["answer"]["low"]) == (number, kept["low"])
        assert len(holdout.unseal()) > 0
        holdout.certificate()  # raises if the chain of entries was broken
    sys.stdout.write(f"{kills} kills during {sum(received.values())} submissions\n")
