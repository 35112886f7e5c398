"""The end of a competition is a job that is killed, with its server or alone: it goes on, and tells what it would have.

`EVERHOLD_KILLS` says how often: 20 times in the suite, 100 in the study that docs/guides/operate.md tells of.
"""

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from server_processes import serving

import everhold as eh
from everhold.ledger import LedgerStore
from everhold_server.principals import Role
from everhold_server.tables import Records
from everhold_server.token_store import TokenStore

KILLS = int(os.environ.get("EVERHOLD_KILLS", "20"))
TEAMS, ROWS = 20, 2_000


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
            right = rng.random(ROWS) < 0.6 + 0.018 * team
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


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found by /proc")
def test_a_killed_job_goes_on_and_nothing_is_lost_doubled_or_half_told(tmp_path):
    storage, rng, kills = f"sqlite:///{tmp_path}/s.db", random.Random(3), 0
    contest(storage, "killed")
    with LedgerStore.open(storage, create=False) as store:
        token = TokenStore(Records(store.database)).make(Role.STEWARD, "host", by="test").secret
    with serving(tmp_path, ["serve", "--storage", storage, "--requests-a-minute", "0"], 1) as (server,):
        with eh.connect(server.url, "killed", token=token) as holdout:
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
